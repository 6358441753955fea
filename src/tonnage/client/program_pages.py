"""Pages of a program's own endpoints (`tonnage.health`): health, metrics, debug. They ask for no token.

async with ProgramPages(endpoint, clock=clock) as pages:
    held = await pages.json("/debug/reservations")        # None where the program has no such page
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from tonnage.client.config.connection import Cluster, Connection
from tonnage.client.transport.http_transport import HttpTransport
from tonnage.client.transport.wire import Request
from tonnage.clock import Clock
from tonnage.endpoints import Endpoint
from tonnage.errors import TonnageError

_TIMEOUT_S = 5.0


class ProgramPages:
    """One program, asked over one connection."""

    def __init__(self, endpoint: Endpoint, *, clock: Clock) -> None:
        cluster = Cluster(endpoint.url.rstrip("/"), ca_pem=endpoint.ca_pem)
        self._transport = HttpTransport(Connection(cluster), clock=clock, user_agent="tonnage", max_connections=1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.close()

    async def is_good(self, path: str) -> bool:
        """Whether a probe is answered with 200. Raises Disconnected or Untrusted."""
        return (await self._transport.send(Request("GET", path, timeout_s=_TIMEOUT_S))).code == 200

    async def json(self, path: str) -> Any:
        """What a page shows; None where there is none. Raises Disconnected, Untrusted, or TonnageError."""
        answer = await self._transport.send(Request("GET", path, timeout_s=_TIMEOUT_S))
        if answer.code == 404:
            return None
        try:
            if answer.code == 200:
                return msgspec.json.decode(answer.body)
            problem = str(answer.code)
        except (msgspec.DecodeError, ValueError, RecursionError):
            problem = "no JSON"
        raise TonnageError(f"GET {self._transport.server}{path}: the answer is {problem}")
