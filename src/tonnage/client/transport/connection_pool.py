"""A pool of HTTP/1.1 connections, at a third of aiohttp's cost. A stream has a connection of its own, beside the pool.

A connection is closed at the first unexpected byte: after a complete answer, while idle, or in the kernel's buffer when
the next request is to be sent. So every answer belongs to the request before it.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import cast
from weakref import WeakSet

from tonnage.client.transport.answer_reader import AnswerReader, NotHttp
from tonnage.client.transport.wire import HttpResponse

CONNECT_S = 10.0
"""How long connecting may take."""
IDLE_S = 15.0
"""How long an idle connection may be reused; servers keep theirs longer."""
_READ_BYTES = 1 << 18
"""How much of a stream is read ahead; a few hundred events."""
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
        self._idle: list[Connection] = []
        self._all: WeakSet[Connection] = WeakSet()

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
            return await self._use(await self._connect(context, self._unacknowledged_s), request, before_write)

    async def stream(self, request: bytes, *, context: ssl.SSLContext | None) -> Connection:
        """A new connection with the head of its answer; the caller aborts it. Raises as `exchange`."""
        connection = await self._connect(context, 0.0)
        try:
            await connection.begin(request)
        except BaseException:
            connection.abort()
            raise
        return connection

    def close(self) -> None:
        for connection in tuple(self._all):
            connection.abort()
        self._idle.clear()

    def _take(self, context: ssl.SSLContext | None) -> Connection | None:
        """The idle connection used last, so that the others may expire; it must have the same certificate."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            is_fresh = connection.is_open and now - connection.used_at < IDLE_S
            # Nothing may have come since the last answer: neither bytes nor an end, read by the loop or not.
            is_silent = connection.unread is None or not connection.unread.poll(0)
            if is_fresh and connection.context is context and is_silent:
                return connection
            connection.abort()
        return None

    async def _connect(self, context: ssl.SSLContext | None, unacknowledged_s: float) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                _, connection = await loop.create_connection(
                    lambda: Connection(loop, context, unacknowledged_s),
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=self._server_name if context is not None else None,
                )
        except OSError as exc:  # includes ssl.SSLError and TimeoutError
            raise NotConnected from exc
        self._all.add(connection)
        return connection

    async def _use(
        self, connection: Connection, request: bytes, before_write: Callable[[], None] | None
    ) -> HttpResponse:
        try:
            answer = await connection.exchange(request, before_write)
        except BaseException:
            connection.abort()
            raise
        if connection.is_open:
            self._idle.append(connection)
        return answer


class Connection(asyncio.Protocol):
    """One connection and the answer that is read from it; `head` is the answer of a stream that has begun."""

    head: HttpResponse

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext | None, unacknowledged_s: float
    ) -> None:
        self.context = context
        self._unacknowledged_s = unacknowledged_s
        self.used_at = 0.0
        self.is_open = False
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._is_asked = self._is_stream = False
        self._answer: HttpResponse | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self.unread: select.poll | None = None

    async def exchange(self, request: bytes, before_write: Callable[[], None] | None = None) -> HttpResponse:
        self._ask(request, before_write)
        while self._answer is None:
            await self._change()
        answer, self._answer = self._answer, None
        return answer

    async def begin(self, request: bytes) -> None:
        """Send the request of a stream, and wait for the head of its answer."""
        self._is_stream = True
        self._ask(request)
        while (head := self._answer or self._reader.head) is None:
            await self._change()
        self.head = head

    def _ask(self, request: bytes, before_write: Callable[[], None] | None = None) -> None:
        if self._transport is None or not self.is_open:
            raise self._failure or HungUp(began=False)
        if before_write is not None:
            before_write()
        self._reader.expect(to_head=request.startswith(b"HEAD "))
        self._is_asked = True
        self._transport.write(request)

    async def body(self, give_up_at: float) -> AsyncIterator[bytes]:
        """The body of a stream as it comes, until a clean end. Raises HungUp, NotHttp, TimeoutError."""
        while self._answer is None:
            if self._reader.held_bytes:
                yield self._reader.take()
                if self._transport is not None:
                    self._transport.resume_reading()
            else:
                async with asyncio.timeout_at(give_up_at):
                    await self._change()
        yield self._answer.body

    async def _change(self) -> None:
        """Wait until the answer is complete or, for a stream, until more of it has come. Raises the failure."""
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        await self._waiter

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
                self.unread = select.poll()
                self.unread.register(connected.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._is_asked:
            self._read(lambda: self._reader.feed(data))
        else:
            self.abort()  # unexpected

    def eof_received(self) -> None:
        self.is_open = False
        if self._is_asked:
            self._read(self._reader.end)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        # Such as a client certificate that is refused after the handshake.
        self._fail(exc if isinstance(exc, ssl.SSLError) else HungUp(began=self._reader.has_begun))

    def _read(self, read: Callable[[], HttpResponse | None]) -> None:
        try:
            self._answer = read()
        except NotHttp as exc:
            self._fail(exc)
            return
        transport = self._transport
        if self._answer is not None:
            self._is_asked = False
            self.used_at = self._loop.time()
            # The answer came before the whole request was sent: its rest would be read as the beginning of the next.
            if self._answer.closes or (transport is not None and transport.get_write_buffer_size()):
                self.is_open = False
            if not self.is_open:
                self.abort()
        elif self._is_stream and transport is not None and self._reader.held_bytes > _READ_BYTES:
            transport.pause_reading()
        if self._is_stream or self._answer is not None:
            self._wake()

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        self._is_asked = False
        self._wake()
        self.abort()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
