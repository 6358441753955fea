"""An API server that answers reviews by a script, at the seam of the transport; and what was asked of it."""

from __future__ import annotations

import json
from typing import Any

from tonnage.client.errors import Disconnected
from tonnage.client.transport.wire import HttpResponse, Request

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class ScriptedServer:
    """Tokens and whose they are, who may read what, and the ConfigMap of authorities. `next_answers` go first."""

    server = "https://scripted"

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {}
        self.readers: dict[str, set[str]] = {}
        self.config_map: dict[str, str] | None = None
        self.next_answers: list[HttpResponse | Disconnected] = []
        self.asked: list[dict[str, Any]] = []
        self.is_away = False

    def count(self, kind: str) -> int:
        return sum(each["kind"] == kind for each in self.asked)

    async def send(self, request: Request) -> HttpResponse:
        if self.is_away:
            raise Disconnected(request.method, self.server, "connection refused", in_doubt=False)
        body = json.loads(request.body) if request.body else {"kind": "GET"}
        self.asked.append(body)
        if self.next_answers:
            answer = self.next_answers.pop(0)
            if isinstance(answer, Disconnected):
                raise answer
            return answer
        return {TOKENS: self._token, ACCESS: self._access, CONFIG_MAP: self._config_map}[request.path](body)

    def stream(self, request: Request) -> Any:
        raise AssertionError("nobody streams here")

    async def close(self) -> None:
        pass

    def _token(self, body: dict[str, Any]) -> HttpResponse:
        user = self.users.get(body["spec"]["token"])
        status = {"authenticated": True, "user": user} if user is not None else {"user": {}}
        return answer(201, {**body, "status": status})

    def _access(self, body: dict[str, Any]) -> HttpResponse:
        spec = body["spec"]
        paths = self.readers.get(spec["user"], set())
        allowed = spec["nonResourceAttributes"]["path"] in paths and spec["nonResourceAttributes"]["verb"] == "get"
        return answer(201, {**body, "status": {"allowed": allowed}})

    def _config_map(self, _: dict[str, Any]) -> HttpResponse:
        if self.config_map is None:
            return answer(404, {"kind": "Status", "code": 404})
        return answer(200, {"kind": "ConfigMap", "data": self.config_map})


def answer(code: int, doc: dict[str, Any], **headers: str) -> HttpResponse:
    return HttpResponse(
        code, json.dumps(doc).encode(), {name.replace("_", "-"): value for name, value in headers.items()}
    )
