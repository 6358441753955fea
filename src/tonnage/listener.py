"""The HTTP listener of every program: it accepts connections within a budget, and closes those that take too long.

asyncio's own accept loop is not used: it accepts without limit, and out of descriptors it logs a thousand tracebacks
ten times a second. Ours asks `connection_budget` first; `http_connection` has the time limits of a connection.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from aiohttp import web

from tonnage.connection_budget import ConnectionBudget, ConnectionLimits, address_of, raise_descriptor_limit
from tonnage.http_connection import CLOSE_S, HEAD_S, HttpConnection, connection_of

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Tls = Callable[[], ssl.SSLContext]
"""The TLS context for the next connection: called every time, so that a certificate can be renewed."""

_BACKLOG: Final = 1024
_ACCEPTED_A_TURN: Final = 16
"""Connections accepted before other tasks get a turn; a handshake costs about a millisecond."""
_RETRY_S: Final = 0.05
_OUT_OF_DESCRIPTORS_S: Final = 0.5
"""How soon to accept again after running out of descriptors or memory."""
_PEER_GRACE_S: Final = 2.0
"""How long a closing listener waits for clients to send the rest of a body or read the rest of an answer."""
_CHECK_S: Final = 1.0
_OUT_OF: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = logging.getLogger(__name__)


@asynccontextmanager
async def listening(
    handler: Handler,
    *,
    host: str,
    port: int,
    tls: Tls | None,
    limits: ConnectionLimits | None = None,
    grace_s: float = 1.0,
    shares_port: bool = False,
) -> AsyncIterator[Listener]:
    """Listen while the block runs; then accept no more, and give running requests `grace_s` to end. Raises OSError."""
    limits = limits or ConnectionLimits.of_descriptors(raise_descriptor_limit())
    listener = Listener(handler, tls=tls, limits=limits)
    await listener.open(host, port, shares_port=shares_port)
    try:
        yield listener
    finally:
        await listener.close(grace_s)


class _Request(web.BaseRequest):
    """aiohttp's request, without a Server header in its answer, as upstream: it would reveal versions."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.popall("Server", None)


class Listener:
    """The sockets, their connections, and a check of all connections once a second."""

    def __init__(self, handler: Handler, *, tls: Tls | None, limits: ConnectionLimits) -> None:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            self.budget.began(connection_of(request))
            return await handler(request)

        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._server = web.Server(
            handle,
            request_factory=lambda message, payload, protocol, writer, task: _Request(
                message, payload, protocol, writer, task, self._loop
            ),
            handler_cancellation=True,
        )
        self.budget: ConnectionBudget[HttpConnection] = ConnectionBudget(limits, self._loop.time)
        self._sending: set[HttpConnection] = set()
        self._sockets: list[socket.socket] = []
        self._handshakes: dict[HttpConnection, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        number: int = self._sockets[0].getsockname()[1]
        return number

    async def open(self, host: str, port: int, *, shares_port: bool = False) -> None:
        try:
            for family, kind, protocol, _, address in await self._loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                if port == 0 and self._sockets:
                    address = (address[0], self.port, *address[2:])  # the same port on all addresses of a name
                self._sockets.append(_listen(family, kind, protocol, address, shares_port))
        except OSError:
            for each in self._sockets:
                each.close()
            raise
        for each in self._sockets:
            self._loop.add_reader(each.fileno(), self._accept, each)
        self._timer = self._loop.call_later(_CHECK_S, self._check)

    async def close(self, grace_s: float) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each.fileno())
            each.close()
        self._sockets.clear()
        handshakes = list(self._handshakes.values())
        for handshake in handshakes:
            handshake.cancel()
        await asyncio.gather(*handshakes, asyncio.sleep(0), return_exceptions=True)  # arrived requests start
        self._server.pre_shutdown()
        cutting_off = self._loop.call_later(min(_PEER_GRACE_S, grace_s), self._cut_off)
        await self._server.shutdown(grace_s / 2)  # half for handlers to end, half for those cancelled after that
        cutting_off.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _cut_off(self) -> None:
        """When the listener closes, abort the connections that only wait for their client."""
        for connection in self._server.connections:
            if isinstance(connection, HttpConnection) and connection.waits_for_peer:
                connection.abort()

    # -- accepting ----------------------------------------------------------------------------------------------------

    def _accept(self, listening_on: socket.socket) -> None:
        for _ in range(_ACCEPTED_A_TURN):
            if not self.budget.has_room:
                oldest = self.budget.may_make_room()
                if oldest is None:
                    self._rest(listening_on, _RETRY_S)
                    return
                _log.warning(
                    "Connections of %d clients without a token are open: one that asks nothing is closed for the next",
                    self.budget.limits.strangers,
                )
                self._drop(oldest)
            try:
                accepted, peername = listening_on.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                if exc.errno not in _OUT_OF:
                    raise
                _log.error("No connection can be accepted: %s; raise the limit of open files", exc.strerror)
                oldest = self.budget.may_make_room()
                if oldest is not None:
                    self._drop(oldest)
                self._rest(listening_on, _OUT_OF_DESCRIPTORS_S)
                return
            address = address_of(peername)
            if self.budget.exceeds_address(address):
                _log.warning("Too many connections without a token from %s: the next is refused", address)
                accepted.close()
                continue
            accepted.setblocking(False)
            connection = HttpConnection(self._server, loop=self._loop, budget=self.budget, sending=self._sending)
            self.budget.opened(connection, address)
            task = self._loop.create_task(self._shake_hands(connection, accepted))
            self._handshakes[connection] = task
            task.add_done_callback(partial(self._shook_hands, connection, accepted))

    async def _shake_hands(self, connection: HttpConnection, accepted: socket.socket) -> None:
        if self._tls is None:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        else:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls(),
                ssl_handshake_timeout=HEAD_S,
                ssl_shutdown_timeout=CLOSE_S,
            )

    def _shook_hands(self, connection: HttpConnection, accepted: socket.socket, done: asyncio.Task[None]) -> None:
        """The handshake is done: aiohttp has the connection, or it is closed. A failed handshake is not logged."""
        self._handshakes.pop(connection, None)
        if done.cancelled() or done.exception() is not None:
            self.budget.closed(connection)
            accepted.close()

    def _drop(self, connection: HttpConnection) -> None:
        """Close at once without an answer. It no longer counts; the loop's next turn frees its descriptor."""
        self.budget.closed(connection)
        handshake = self._handshakes.get(connection)
        if handshake is not None:
            handshake.cancel()
        connection.abort()

    def _rest(self, listening_on: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listening_on.fileno())
        self._loop.call_later(seconds, self._resume, listening_on)

    def _resume(self, listening_on: socket.socket) -> None:
        if listening_on in self._sockets:
            self._loop.add_reader(listening_on.fileno(), self._accept, listening_on)

    # -- time limits --------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Once a second: drop connections that send no request, read no answer, or do not close."""
        now = self._loop.time()
        self._timer = self._loop.call_later(_CHECK_S, self._check)
        for connection in self.budget.overdue(HEAD_S):
            self._drop(connection)
        for connection in [each for each in self._sending if now > each.send_by]:
            _log.warning("A client does not take what it asked for: its connection is closed")
            connection.abort()
        # TLS waits for the peer's goodbye, and a socket with unsent bytes stays until they are read.
        for held in self._server.connections:
            if not isinstance(held, HttpConnection) or not held.is_closing:
                continue
            if not held.closing_since:
                held.closing_since = now
            elif now - held.closing_since >= CLOSE_S:
                held.abort()


def _listen(family: int, kind: int, protocol: int, address: tuple[Any, ...], shares_port: bool) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.setblocking(False)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made
