"""A client of a program's own endpoints (`tonnage.health`): health, metrics, debug."""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.client.config.connection import KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.client.errors import status_message
from tonnage.client.transport.http_transport import HttpTransport
from tonnage.client.transport.wire import Request
from tonnage.clock import Clock, Closing
from tonnage.endpoints import Endpoint
from tonnage.errors import TonnageError

_TIMEOUT_S = 5.0


class NotLetIn(TonnageError):
    """A program refuses a page. `code` is 401 for an unknown user, 403 for one without the right."""

    def __init__(self, server: str, path: str, code: int, reason: str) -> None:
        self.code = code
        super().__init__(
            f"GET {server}{path}: {reason or code}",
            hint=f"use a token of a user who may get the nonResourceURL {path}",
        )


class ProgramPages(Closing):
    def __init__(self, endpoint: Endpoint, *, clock: Clock, user: KubeconfigUser | None = None) -> None:
        """Without `user` the requests are anonymous."""
        connection = ServerConnection(
            KubeconfigCluster(endpoint.url.rstrip("/"), ca_pem=endpoint.ca_pem), user or KubeconfigUser()
        )
        self._transport = HttpTransport(connection, clock=clock, user_agent="tonnage", max_connections=1)

    async def close(self) -> None:
        await self._transport.close()

    async def is_good(self, path: str) -> bool:
        """True if a probe answers 200. Raises Disconnected or Untrusted."""
        return (await self._transport.send(Request("GET", path, timeout_s=_TIMEOUT_S))).code == 200

    async def json(self, path: str) -> Any:
        """A page's content, or None if it does not exist. Raises Disconnected, Untrusted, NotLetIn, TonnageError."""
        answer = await self._transport.send(Request("GET", path, timeout_s=_TIMEOUT_S))
        if answer.code == 404:
            return None
        if answer.code in (401, 403):
            raise NotLetIn(self._transport.server, path, answer.code, status_message(answer.body)[:500])
        try:
            if answer.code == 200:
                return msgspec.json.decode(answer.body)
            problem = str(answer.code)
        except (msgspec.DecodeError, ValueError, RecursionError):
            problem = "no JSON"
        raise TonnageError(f"GET {self._transport.server}{path}: the answer is {problem}")
