"""A pool of HTTP/1.1 connections for short requests, made to cost little.

A scheduler that places 400 pods a second sends well over a thousand requests a second, from the same loop that decides.
aiohttp takes about 300 µs of it for each; a request here is one write and one callback, and takes a third of that. It
does what an API server needs and nothing more: one request at a time on a connection, an answer by length, in chunks or
until the end, plain or gzip. Streams stay with aiohttp (`transport`).

A connection that a server has closed while it lay idle is noticed at once, and no request is sent on it; where both
happen at the same moment, a request that may be repeated is.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import zlib
from collections.abc import Mapping

CONNECT_S = 10.0
"""How long a connection may take to be made."""
IDLE_S = 15.0
"""How long a connection may lie idle and still be used; servers keep theirs for longer."""
_MAX_HEAD_BYTES = 1 << 16
# Probes after 30 s of silence, 15 s apart, and given up after three: client-go's HTTP/2 pings do the same in 45 s.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}


class NotConnected(Exception):
    """There is no connection, and nothing was sent; the cause says why."""


class HungUp(Exception):
    """The connection ended before the answer did; `began` when some of it had come."""

    def __init__(self, *, began: bool) -> None:
        super().__init__("the connection ended before the answer did")
        self.began = began


class NotHttp(Exception):
    """What came back cannot be understood."""


def keep_alive(connected: socket.socket) -> None:
    """Have the kernel find out when the other side is gone without a word."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


class Answer:
    """An HTTP answer; `warnings` are the headers of that name, which come more than once."""

    __slots__ = ("body", "code", "headers", "warnings")

    def __init__(self, code: int, headers: Mapping[str, str], warnings: tuple[str, ...], body: bytes) -> None:
        self.code = code
        self.headers = headers
        self.warnings = warnings
        self.body = body


class Pool:
    """Connections to one server, at most `limit`; who finds none free waits for one."""

    def __init__(self, host: str, port: int, *, server_name: str = "", limit: int) -> None:
        self._host = host
        self._port = port
        self._server_name = server_name or None
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()

    async def exchange(self, request: bytes, *, context: ssl.SSLContext | None, may_repeat: bool) -> Answer:
        """Send a request and read the answer. Raises NotConnected, HungUp, NotHttp.

        Cancelled, it closes the connection: what comes back on it would be nobody's.
        """
        async with self._slots:
            connection = self._take(context)
            if connection is not None:
                try:
                    return await self._use(connection, request)
                except HungUp as exc:
                    if exc.began or not may_repeat:
                        raise
            return await self._use(await self._connect(context), request)

    def close(self) -> None:
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()

    def _take(self, context: ssl.SSLContext | None) -> _Connection | None:
        """The connection used last, so that the others may grow old; one with another certificate is of no use."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.context is context and now - connection.used_at < IDLE_S:
                return connection
            connection.abort()
        return None

    async def _connect(self, context: ssl.SSLContext | None) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop, context),
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=self._server_name if context is not None else None,
                )
        except OSError as exc:  # ssl.SSLError and TimeoutError are such
            raise NotConnected from exc
        return connection

    async def _use(self, connection: _Connection, request: bytes) -> Answer:
        self._busy.add(connection)
        try:
            answer = await connection.exchange(request)
        except BaseException:
            connection.abort()
            raise
        finally:
            self._busy.discard(connection)
        if connection.is_open:
            self._idle.append(connection)
        return answer


class _Connection(asyncio.Protocol):
    """One connection: it is asked, it answers, it may be asked again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.used_at = 0.0
        self.is_open = False
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._asked: asyncio.Future[Answer] | None = None
        self._reader = _Reader()
        self._failure: Exception | None = None

    async def exchange(self, request: bytes) -> Answer:
        if self._transport is None or not self.is_open:
            raise self._failure or HungUp(began=False)
        self._asked = self._loop.create_future()
        self._transport.write(request)
        return await self._asked

    def abort(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    # -- what the loop calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True
        connected = transport.get_extra_info("socket")
        if connected is not None:
            keep_alive(connected)

    def data_received(self, data: bytes) -> None:
        if self._asked is None or self._asked.done():
            self.abort()  # nobody asked
            return
        try:
            answer = self._reader.feed(data)
        except (NotHttp, zlib.error, ValueError) as exc:
            self._fail(exc if isinstance(exc, NotHttp) else NotHttp(str(exc)))
            return
        if answer is not None:
            self._finish(answer)

    def eof_received(self) -> None:
        self.is_open = False
        answer = self._reader.end()
        if answer is not None:
            self._finish(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        failure: Exception = HungUp(began=self._reader.has_begun)
        if isinstance(exc, ssl.SSLError):
            failure = exc  # such as a client certificate that is refused after the handshake
        self._fail(failure)

    def _finish(self, answer: Answer) -> None:
        asked, self._asked = self._asked, None
        if answer.headers.get("connection", "").lower() == "close":
            self.is_open = False
        self.used_at = self._loop.time()
        if not self.is_open and self._transport is not None:
            self._transport.close()
        if asked is not None and not asked.done():
            asked.set_result(answer)

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(self._failure)
        self.abort()


class _Reader:
    """Bytes to answers. It looks at each byte about once, however small the pieces are that they come in."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start()

    def _start(self) -> None:
        self._code = 0
        self._headers: dict[str, str] = {}
        self._warnings: tuple[str, ...] = ()
        self._parts: list[bytes] = []
        self._missing = 0  # bytes of the body, or of a chunk with its line end
        self._is_chunked = False
        self._until_end = False

    @property
    def has_begun(self) -> bool:
        return bool(self._code or self._buffer)

    def feed(self, data: bytes) -> Answer | None:
        """The answer, once it is complete. Raises NotHttp."""
        self._buffer += data
        if not self._code and not self._read_head():
            return None
        if self._is_chunked:
            return self._read_chunks()
        if self._until_end or len(self._buffer) < self._missing:
            return None
        return self._complete(self._cut(self._missing))

    def end(self) -> Answer | None:
        """The server has said all: the answer, if it is one that goes on to the end."""
        if not self._until_end:
            return None
        return self._complete(self._cut(len(self._buffer)))

    def _read_head(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_HEAD_BYTES:
                    raise NotHttp("the head of the answer has no end")
                return False
            first, *lines = self._cut(end + 4)[:-4].decode("latin-1").split("\r\n")
            version, _, rest = first.partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
                raise NotHttp(f"the answer begins with {first[:40]!r}")
            code = int(rest[:3])
            if code >= 200:
                break  # what is below only announces the answer
        self._code = code
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            if name == "warning":
                self._warnings += (value,)
            self._headers[name] = value
        if version == "HTTP/1.0":
            self._headers.setdefault("connection", "close")
        self._is_chunked = self._headers.get("transfer-encoding", "").lower() == "chunked"
        length = self._headers.get("content-length")
        if length is not None and not length.isdigit():
            raise NotHttp(f"the answer is {length!r} bytes long")
        self._missing = int(length or 0)
        self._until_end = length is None and not self._is_chunked and code not in (204, 304)
        return True

    def _read_chunks(self) -> Answer | None:
        """Chunks are a size in hexadecimal, a line end, so many bytes, a line end; the last has size 0."""
        while True:
            if self._missing:
                if len(self._buffer) < self._missing:
                    return None
                chunk = self._cut(self._missing)
                if not chunk.endswith(b"\r\n"):
                    raise NotHttp("a chunk is longer than it says")
                self._parts.append(chunk[:-2])
                self._missing = 0
            end = self._buffer.find(b"\r\n")
            if end < 0:
                return None
            size = int(self._buffer[:end].partition(b";")[0], 16)
            if size == 0:
                last = self._buffer.find(b"\r\n\r\n", end)  # with trailers in between, which nobody looks at
                if last < 0:
                    return None
                self._cut(last + 4)
                return self._complete(b"".join(self._parts))
            self._cut(end + 2)
            self._missing = size + 2

    def _complete(self, body: bytes) -> Answer:
        coding = self._headers.get("content-encoding", "identity").lower()
        if coding == "gzip":
            body = zlib.decompress(body, 16 + zlib.MAX_WBITS)
        elif coding != "identity":
            raise NotHttp(f"the answer is encoded as {coding!r}, which was not asked for")
        answer = Answer(self._code, self._headers, self._warnings, body)
        self._start()
        return answer

    def _cut(self, count: int) -> bytes:
        with memoryview(self._buffer) as view:  # a slice of the buffer itself would be a copy more
            piece = bytes(view[:count])
        del self._buffer[:count]
        return piece
