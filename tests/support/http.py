"""Plain HTTPS to an API server: what tests use that go through the front door, whichever server stands behind it.

    api = ApiClient(url, token)
    api.create("/api/v1/namespaces", {"metadata": {"name": "a"}})
    api.patch("/api/v1/nodes/n", {"spec": {"unschedulable": True}}).code
    api.watch("/api/v1/pods?watch=1", count=2)

It knows nothing of our client and of our objects: bodies are JSON documents, and every answer is a `Reply`.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

Doc = dict[str, Any]

PATCH_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_TIMEOUT_S: Final = 30.0


@dataclass
class Reply:
    """One answer, with its JSON read; the text of an answer that is not JSON."""

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
        """(field, message) of every cause, each once: upstream repeats some, and nobody counts them."""
        found = [(cause.get("field", ""), cause["message"]) for cause in self.body["details"].get("causes", ())]
        return list(dict.fromkeys(found))

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def warnings(self) -> list[str]:
        """The texts of the Warning headers."""
        found = self.headers.get_all("Warning") or []
        return [text.partition(' "')[2][:-1].replace('\\"', '"') for text in found]


@dataclass
class WatchEvent:
    """One event of a watch; `version` is the resourceVersion of its object."""

    type: str
    object: Doc

    @property
    def name(self) -> str:
        return str(self.object["metadata"].get("name", ""))

    @property
    def version(self) -> str:
        return str(self.object["metadata"]["resourceVersion"])


class ApiClient:
    """One API server.

    With `keep_alive` requests share one connection, which `close` ends, and only one thread may use the client;
    without it every request has a connection of its own. Without `tls` the server's certificate is not verified.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        tls: ssl.SSLContext | None = None,
        agent: str = "tests/1",
        keep_alive: bool = False,
    ) -> None:
        self.url = url
        self.token = token
        self.tls = tls or unverified_tls()
        self.agent = agent
        self._keep_alive = keep_alive
        self._kept: http.client.HTTPSConnection | None = None

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
        agent: str = "",
        extra: dict[str, str] | None = None,
    ) -> Reply:
        """Send one request; a body that is not bytes goes as JSON. `token=""` sends no token; `extra` are headers."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "User-Agent": agent or self.agent, "Content-Type": content_type}
        headers |= extra or {}
        given = self.token if token is None else token
        if given:
            headers["Authorization"] = f"Bearer {given}"
        if not self._keep_alive:
            headers["Connection"] = "close"
        if self._kept is not None:
            try:
                return _exchange(self._kept, method, path, data, headers)
            except (http.client.HTTPException, ConnectionError):
                self.close()  # the server may end a connection at any time between two requests
        connection = self._connection()
        try:
            reply = _exchange(connection, method, path, data, headers)
        except BaseException:
            connection.close()
            raise
        if self._keep_alive:
            self._kept = connection
        else:
            connection.close()
        return reply

    def get(self, path: str, **options: Any) -> Reply:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Reply:
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: Any, **options: Any) -> Reply:
        return self.request("PUT", path, body, **options)

    def patch(self, path: str, body: Any, kind: str = "merge", **options: Any) -> Reply:
        """`kind` is a key of PATCH_TYPES."""
        return self.request("PATCH", path, body, content_type=PATCH_TYPES[kind], **options)

    def apply(self, path: str, body: Any, manager: str = "", *, query: str = "") -> Reply:
        """Server-side apply; the manager is named as the user agent unless another name is given."""
        named = manager or self.agent.partition("/")[0]
        return self.patch(f"{path}?fieldManager={named}{query}", body, "apply")

    def delete(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.request("DELETE", path, body, **options)

    def create(self, path: str, body: Doc, **options: Any) -> Reply:
        """A POST that has to succeed, to set a scene."""
        reply = self.post(path, body, **options)
        assert reply.code == 201, reply.body
        return reply

    def watch(self, path: str, count: int, *, accept: str = "application/json") -> list[WatchEvent]:
        """The first `count` events of a watch, however long they take to come."""
        return self._stream(path, count, accept)

    def watch_to_the_end(self, path: str) -> list[WatchEvent]:
        """All events of a watch that the server ends after a second: for what must not come."""
        return self._stream(f"{path}&timeoutSeconds=1", None, "application/json")

    def _stream(self, path: str, count: int | None, accept: str) -> list[WatchEvent]:
        connection = self._connection()
        try:
            headers = {"Accept": accept, "Authorization": f"Bearer {self.token}"}
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            events: list[WatchEvent] = []
            while count is None or len(events) < count:
                line = answer.readline()
                if not line:
                    break
                frame = json.loads(line)
                events.append(WatchEvent(frame["type"], frame["object"]))
            return events
        finally:
            connection.close()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.url.removeprefix("https://"), context=self.tls, timeout=_TIMEOUT_S)


def free_port() -> int:
    """A port of this machine that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unverified_tls() -> ssl.SSLContext:
    """For a server whose certificate is its own."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


def _exchange(
    connection: http.client.HTTPSConnection, method: str, path: str, data: bytes | None, headers: dict[str, str]
) -> Reply:
    connection.request(method, path, body=data, headers=headers)
    answer = connection.getresponse()
    raw = answer.read()
    is_json = (answer.headers.get("Content-Type") or "").startswith("application/json")
    return Reply(answer.status, json.loads(raw) if is_json and raw else raw.decode("utf-8", "replace"), answer.headers)
