"""A pool of HTTP/1.1 connections for short requests, at a third of aiohttp's cost. Streams use aiohttp.

A connection is closed at the first unexpected byte: after a complete answer, while idle, or in the kernel's buffer when
the next request is to be sent. So every answer belongs to the request before it.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Callable
from typing import cast

from tonnage.client.transport.answer_reader import AnswerReader, NotHttp
from tonnage.client.transport.wire import HttpResponse

CONNECT_S = 10.0
"""How long connecting may take."""
IDLE_S = 15.0
"""How long an idle connection may be reused; servers keep theirs longer."""
# Probes after 30 s of silence, 15 s apart, and given up after three: client-go's HTTP/2 pings do the same in 45 s.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}


class NotConnected(Exception):
    """There is no connection, and nothing was sent; the cause says why."""


class HungUp(Exception):
    """The connection ended before the answer did; `began`: part of the answer had come."""

    def __init__(self, *, began: bool) -> None:
        super().__init__("the connection ended before the answer did")
        self.began = began


def keep_alive(connected: socket.socket, unacknowledged_s: float = 0.0) -> None:
    """Have the kernel detect that the peer is gone without a word.

    With `unacknowledged_s` it also gives up on bytes that the peer does not acknowledge, even if this process is
    stopped.
    """
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if unacknowledged_s and hasattr(socket, "TCP_USER_TIMEOUT"):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(int(unacknowledged_s * 1000), 1))
    for name, value in _KEEPALIVE.items():
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


class Connections:
    """Connections to one server, at most `limit`; further requests wait."""

    def __init__(
        self, host: str, port: int, *, server_name: str = "", limit: int, unacknowledged_s: float = 0.0
    ) -> None:
        self._host = host
        self._port = port
        self._server_name = server_name or None
        self._slots = asyncio.Semaphore(limit)
        self._unacknowledged_s = unacknowledged_s
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()

    async def exchange(
        self,
        request: bytes,
        *,
        context: ssl.SSLContext | None,
        may_repeat: bool,
        before_write: Callable[[], None] | None = None,
    ) -> HttpResponse:
        """Send a request and read its answer. Raises NotConnected, HungUp, NotHttp, and what `before_write` raises."""
        async with self._slots:
            connection = self._take(context)
            if connection is not None:
                try:
                    return await self._use(connection, request, before_write)
                except HungUp as exc:
                    if exc.began or not may_repeat:
                        raise
            return await self._use(await self._connect(context), request, before_write)

    def close(self) -> None:
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()

    def _take(self, context: ssl.SSLContext | None) -> _Connection | None:
        """The idle connection used last, so that the others may expire; it must have the same certificate."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            is_fresh = connection.is_open and now - connection.used_at < IDLE_S
            if is_fresh and connection.context is context and connection.is_silent():
                return connection
            connection.abort()
        return None

    async def _connect(self, context: ssl.SSLContext | None) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop, context, self._unacknowledged_s),
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=self._server_name if context is not None else None,
                )
        except OSError as exc:  # includes ssl.SSLError and TimeoutError
            raise NotConnected from exc
        return connection

    async def _use(
        self, connection: _Connection, request: bytes, before_write: Callable[[], None] | None
    ) -> HttpResponse:
        self._busy.add(connection)
        try:
            answer = await connection.exchange(request, before_write)
        except BaseException:
            connection.abort()
            raise
        finally:
            self._busy.discard(connection)
        if connection.is_open:
            self._idle.append(connection)
        return answer


class _Connection(asyncio.Protocol):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext | None, unacknowledged_s: float
    ) -> None:
        self.context = context
        self._unacknowledged_s = unacknowledged_s
        self.used_at = 0.0
        self.is_open = False
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._asked: asyncio.Future[HttpResponse] | None = None
        self._reader = AnswerReader()
        self._failure: Exception | None = None
        self._unread: select.poll | None = None

    async def exchange(self, request: bytes, before_write: Callable[[], None] | None = None) -> HttpResponse:
        if self._transport is None or not self.is_open:
            raise self._failure or HungUp(began=False)
        if before_write is not None:
            before_write()
        self._reader.expect(to_head=request.startswith(b"HEAD "))
        self._asked = self._loop.create_future()
        self._transport.write(request)
        return await self._asked

    def is_silent(self) -> bool:
        """True if nothing has come since the last answer: neither bytes nor an end, read by the loop or not."""
        return self._unread is None or not self._unread.poll(0)

    def abort(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    # -- what the loop calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # other loops have transports of their own
        self.is_open = True
        connected = transport.get_extra_info("socket")
        if connected is not None:
            keep_alive(connected, self._unacknowledged_s)
            if hasattr(select, "poll"):  # not on every system
                self._unread = select.poll()
                self._unread.register(connected.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._asked is None or self._asked.done():
            self.abort()  # unexpected
        else:
            self._read(lambda: self._reader.feed(data))

    def eof_received(self) -> None:
        self.is_open = False
        self._read(self._reader.end)

    def _read(self, read: Callable[[], HttpResponse | None]) -> None:
        try:
            answer = read()
        except NotHttp as exc:
            self._fail(exc)
            return
        if answer is not None:
            self._finish(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        failure: Exception = HungUp(began=self._reader.has_begun)
        if isinstance(exc, ssl.SSLError):
            failure = exc  # such as a client certificate that is refused after the handshake
        self._fail(failure)

    def _finish(self, answer: HttpResponse) -> None:
        asked, self._asked = self._asked, None
        transport = self._transport
        # The answer came before the whole request was sent: its rest would be read as the beginning of the next.
        if answer.closes or (transport is not None and transport.get_write_buffer_size()):
            self.is_open = False
        self.used_at = self._loop.time()
        if not self.is_open and transport is not None:
            transport.abort()
        if asked is not None and not asked.done():
            asked.set_result(answer)

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(self._failure)
        self.abort()
