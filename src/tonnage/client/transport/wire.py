"""The seam between `Client`, which knows what to ask, and `Transport`, which sends it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import msgspec

from tonnage.client.errors import Disconnected


class Request(msgspec.Struct, frozen=True, eq=False):
    """One request; `path` includes its query, percent-encoded. `timeout_s` bounds all of it, a stream included.

    `before_write` is called right before the first byte is written; if it raises, nothing is sent.
    """

    method: str
    path: str
    body: bytes | None = None
    content_type: str = "application/json"
    timeout_s: float = 30.0
    headers: tuple[tuple[str, str], ...] = ()
    before_write: Callable[[], None] | None = None


class HttpResponse(msgspec.Struct, frozen=True, eq=False):
    """A whole answer. Headers have lower-case names; `closes`: it is the last on its connection."""

    code: int
    body: bytes
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    closes: bool = False


class Stream(Protocol):
    @property
    def code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read(self) -> bytes:
        """The whole body, for an answer that is a refusal."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Bytes as they come, until a clean end. Raises Disconnected when the stream is cut."""


class Transport(Protocol):
    """Carries requests to one server. Raises Disconnected, Untrusted and NoCredentials."""

    @property
    def server(self) -> str: ...

    async def send(self, request: Request) -> HttpResponse: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Open a stream; leaving the block closes it."""

    async def close(self) -> None: ...


MAX_LINE_BYTES: Final = 32 << 20
"""One watch event. An object has at most 1.5 MiB in etcd; as JSON, with every character escaped and `managedFields`, it
is still far below this."""


async def lines_of(stream: Stream, server: str = "") -> AsyncIterator[list[bytes]]:
    """Whole lines of a stream, in batches; a last one without an end is dropped. Raises Disconnected: too long."""
    rest: list[bytes] = []  # joined once the line ends, so that a long line costs only its length
    held = 0
    async for chunk in stream.chunks():
        first, *lines = chunk.split(b"\n")
        rest.append(first)
        held += len(first)
        if held > MAX_LINE_BYTES:
            told = f"a line of the stream is longer than {MAX_LINE_BYTES} bytes, and no more is taken"
            raise Disconnected("GET", server, told, in_doubt=False)
        if lines:
            *whole, last = b"".join(rest), *lines
            rest, held = [last], len(last)
            yield whole
