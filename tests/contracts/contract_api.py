"""What the contract tests stand on: a plain HTTP client, and builders. How the servers start: `contract_servers.py`.

A contract test speaks HTTP and knows nothing of the server behind it, so the same sentence holds for ours and for
Kubernetes' own. `Api` keeps its connection; `watch` reads a stream until it has seen what was expected.
"""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, field
from typing import Any

Doc = dict[str, Any]

PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The answer of a subresource that did its work elsewhere."""
_PATIENCE_S = 20.0


@dataclass
class Reply:
    """One answer. `causes` are (field, message), each once: upstream repeats some, and nobody counts them."""

    code: int
    body: Any
    headers: http.client.HTTPMessage = field(repr=False)

    def __getitem__(self, key: str) -> Any:
        return self.body[key]

    @property
    def meta(self) -> Doc:
        return dict(self.body["metadata"])

    @property
    def version(self) -> str:
        return str(self.meta["resourceVersion"])

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def causes(self) -> list[tuple[str, str]]:
        told = [(cause.get("field", ""), cause["message"]) for cause in self.body["details"].get("causes", ())]
        return list(dict.fromkeys(told))

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def warnings(self) -> list[str]:
        """The texts of the Warning headers."""
        found = self.headers.get_all("Warning") or []
        return [text.partition(' "')[2][:-1].replace('\\"', '"') for text in found]


@dataclass
class Event:
    """One event of a watch; `version` is the resourceVersion of its object."""

    type: str
    object: Doc

    @property
    def name(self) -> str:
        return str(self.object["metadata"].get("name", ""))

    @property
    def version(self) -> str:
        return str(self.object["metadata"]["resourceVersion"])


class Api:
    """One server, over one connection that is kept."""

    def __init__(self, name: str, url: str, token: str) -> None:
        self.name = name
        self.url = url
        self.token = token
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE  # both certificates are the server's own
        self._kept: http.client.HTTPSConnection | None = None

    @property
    def is_embedded(self) -> bool:
        return self.name == "embedded"

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        agent: str = "contract/1",
        token: str | None = None,
    ) -> Reply:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "User-Agent": agent, "Content-Type": content_type}
        given = self.token if token is None else token
        if given:
            headers["Authorization"] = f"Bearer {given}"
        for is_last in (False, True):
            if self._kept is None:
                self._kept = self._connection()
            try:
                self._kept.request(method, path, body=data, headers=headers)
                answer = self._kept.getresponse()
                raw = answer.read()
                break
            except (http.client.HTTPException, ConnectionError):
                self.close()  # the server may end a connection at any time between two requests
                if is_last:
                    raise
        is_json = (answer.headers.get("Content-Type") or "").startswith("application/json")
        return Reply(answer.status, json.loads(raw) if is_json and raw else raw.decode(), answer.headers)

    def get(self, path: str, **options: Any) -> Reply:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Reply:
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: Any, **options: Any) -> Reply:
        return self.request("PUT", path, body, **options)

    def patch(self, path: str, body: Any, kind: str = "merge", **options: Any) -> Reply:
        return self.request("PATCH", path, body, content_type=PATCHES[kind], **options)

    def apply(self, path: str, body: Any, manager: str = "contract", *, query: str = "") -> Reply:
        return self.patch(f"{path}?fieldManager={manager}{query}", body, "apply")

    def delete(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.request("DELETE", path, body, **options)

    def create(self, path: str, body: Doc, **options: Any) -> Reply:
        """A POST that has to succeed, to set a scene."""
        reply = self.post(path, body, **options)
        assert reply.code == 201, reply.body
        return reply

    def watch(self, path: str, count: int, *, accept: str = "application/json") -> list[Event]:
        """The first `count` events of a watch, however long they take to come."""
        return self._stream(path, count, accept)

    def watch_to_the_end(self, path: str) -> list[Event]:
        """All events of a watch that the server ends after a second: for what must not come."""
        return self._stream(f"{path}&timeoutSeconds=1", None, "application/json")

    def _stream(self, path: str, count: int | None, accept: str) -> list[Event]:
        connection = self._connection()
        try:
            headers = {"Accept": accept, "Authorization": f"Bearer {self.token}"}
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            events: list[Event] = []
            while count is None or len(events) < count:
                line = answer.readline()
                if not line:
                    break
                frame = json.loads(line)
                events.append(Event(frame["type"], frame["object"]))
            return events
        finally:
            connection.close()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _connection(self) -> http.client.HTTPSConnection:
        host = self.url.removeprefix("https://")
        return http.client.HTTPSConnection(host, context=self._tls, timeout=_PATIENCE_S)


# -- builders ---------------------------------------------------------------------------------------------------------


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Doc:
    doc: Doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return doc if data is None else {**doc, "data": data}


def pod(name: str, *, metadata: Doc | None = None, **spec: Any) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def deployment(name: str, **spec: Any) -> Doc:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def binding(name: str, node: str = "node-1", **metadata: Any) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": node},
    }


def owners_of(doc: Doc) -> list[tuple[str, str, str]]:
    """(manager, operation, subresource) of every managedFields entry, sorted: their order follows the clock."""
    entries = doc["metadata"].get("managedFields", [])
    return sorted((entry["manager"], entry["operation"], entry.get("subresource", "")) for entry in entries)


def owned_by(doc: Doc, manager: str, subresource: str = "") -> Doc:
    """What a manager owns, as fieldsV1."""
    for entry in doc["metadata"].get("managedFields", []):
        if (entry["manager"], entry.get("subresource", "")) == (manager, subresource):
            return dict(entry["fieldsV1"])
    return {}
