"""HTTP to one API server, over connections of our own (`connection_pool`).

A 401 is tried once more with fresh credentials, which are sent over TLS only. Redirects are not followed. A failed
request is in doubt when it may have reached the server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from tonnage.client.config.connection import Impersonation, ServerConnection, context_of
from tonnage.client.config.credentials import Credentials, ShownIdentity
from tonnage.client.errors import Disconnected, NoCredentials, Untrusted
from tonnage.client.transport.answer_reader import NotHttp
from tonnage.client.transport.connection_pool import CONNECT_S, Connection, Connections, HungUp, NotConnected
from tonnage.client.transport.wire import HttpResponse, Request
from tonnage.clock import Clock
from tonnage.serving.request_host import is_loopback

_LOOK = "is the API server running, and does the kubeconfig name its address?"


_FAILURES = (NotConnected, HungUp, NotHttp, OSError)  # TimeoutError and ssl.SSLError are OSErrors


def failure_of(request: Request, server: str, exc: Exception) -> Disconnected:
    method, url = request.method, server + request.path.partition("?")[0]
    was_sent = not isinstance(exc, NotConnected)
    cause = exc if was_sent or exc.__cause__ is None else exc.__cause__
    if isinstance(cause, ssl.SSLError):
        return Untrusted(method, url, _words(cause))
    told = _words(cause)
    if isinstance(cause, TimeoutError):
        told = f"no answer within {request.timeout_s:g} s" if was_sent else f"no connection within {CONNECT_S:g} s"
    return Disconnected(method, url, told, in_doubt=was_sent, hint=None if was_sent else _LOOK)


def _words(exc: BaseException) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, socket.gaierror):
        return f"the server's name is not known: {exc.strerror}"
    if isinstance(exc, HungUp):
        return "the connection was cut in the middle of the answer" if exc.began else _NO_WORD
    if isinstance(exc, OSError) and exc.errno:
        return os.strerror(exc.errno).lower()
    if isinstance(exc, ConnectionError):
        return "the connection was lost"
    return str(exc) or type(exc).__name__


_NO_WORD = "the server hung up without an answer"
MAX_CONNECTIONS = 64
"""Concurrent requests; further ones wait."""
_MAX_REFUSAL_BYTES = 1 << 20
"""How much is read of an answer that is no stream: a Status has a few hundred bytes, a proxy's page some thousands."""
_UNFIT_FOR_A_HEADER = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Shown:
    """An identity ready for use: the headers, and TLS with its certificate (None is plain HTTP)."""

    identity: ShownIdentity
    head: bytes
    context: ssl.SSLContext | None


class HttpTransport:
    """The real `Transport`. It opens connections as needed, and belongs to the loop it is used on."""

    def __init__(
        self,
        connection: ServerConnection,
        *,
        clock: Clock,
        user_agent: str,
        max_connections: int = MAX_CONNECTIONS,
        unacknowledged_s: float = 0.0,
        credentials: Credentials | None = None,
    ) -> None:
        """`unacknowledged_s` limits how long the kernel keeps unacknowledged bytes; 0 leaves it to the kernel."""
        self._cluster = cluster = connection.cluster
        url = urlsplit(cluster.server)
        self._is_tls = url.scheme == "https"
        self._base = url.path
        self._credentials = credentials or Credentials(connection, clock=clock)
        self._pool = Connections(
            url.hostname or "",
            url.port or (443 if self._is_tls else 80),
            server_name=cluster.tls_server_name,
            limit=max_connections,
            unacknowledged_s=unacknowledged_s,
        )
        # On loopback compression saves nothing, and costs the server more than we gain.
        compress = cluster.compress and not is_loopback(url.hostname or "")
        self._headers = [
            ("Host", url.netloc.rpartition("@")[2]),
            ("Accept", "application/json"),
            ("User-Agent", user_agent),
            ("Accept-Encoding", "gzip" if compress else "identity"),
            *_impersonation_headers(connection.user.impersonation),
        ]
        self._shown: _Shown | None = None
        if not self._is_tls and connection.user.token:
            _log.warning("%s is not TLS: credentials are not sent", cluster.server)

    @property
    def server(self) -> str:
        return self._cluster.server

    async def send(self, request: Request) -> HttpResponse:
        shown = await self._show()
        response = await self._send(request, shown)
        if response.code == 401 and self._is_tls and await self._credentials.renew(shown.identity):
            response = await self._send(request, await self._show())
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Stream]:
        shown = await self._show()
        stream = await self._open(request, shown)
        try:
            if stream.code == 401 and self._is_tls and await self._credentials.renew(shown.identity):
                stream.close()
                stream = await self._open(request, await self._show())
            yield stream
        finally:
            stream.close()

    async def close(self) -> None:
        self._pool.close()

    async def _send(self, request: Request, shown: _Shown) -> HttpResponse:
        data = self._written(request, shown)
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._pool.exchange(
                    data,
                    context=shown.context,
                    may_repeat=request.method == "GET",
                    before_write=request.before_write,
                )
        except _FAILURES as exc:
            raise failure_of(request, self.server, exc) from exc

    async def _open(self, request: Request, shown: _Shown) -> _Stream:
        data, give_up_at = self._written(request, shown), asyncio.get_running_loop().time() + request.timeout_s
        try:
            async with asyncio.timeout_at(give_up_at):
                connection = await self._pool.stream(data, context=shown.context)
        except _FAILURES as exc:
            raise failure_of(request, self.server, exc) from exc
        return _Stream(connection, request, self.server, give_up_at)

    def _written(self, request: Request, shown: _Shown) -> bytes:
        if not request.path.isascii() or " " in request.path or not request.path.isprintable():
            raise ValueError(f"the path {request.path!r} is not percent-encoded")
        first = f"{request.method} {self._base}{request.path} HTTP/1.1\r\n"
        if request.body is None:
            last = b"\r\n" if request.method in ("GET", "HEAD") else b"Content-Length: 0\r\n\r\n"
        else:
            last = f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n\r\n".encode()
            last += request.body
        extra = "".join(f"{name}: {value}\r\n" for name, value in request.headers)
        return first.encode() + shown.head + extra.encode() + last

    async def _show(self) -> _Shown:
        """The current identity, rebuilt when it changes; a new certificate also means new connections."""
        identity = await self._credentials.identity() if self._is_tls else ShownIdentity()
        shown = self._shown
        if shown is None or shown.identity != identity:
            headers = list(self._headers)
            if identity.authorization:
                headers.append(("Authorization", identity.authorization))
            if any(_UNFIT_FOR_A_HEADER.search(value) for _, value in headers):
                raise NoCredentials(
                    "a token or a name that is to be shown has a line break or another control character in it"
                )
            head = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
            self._shown = shown = _Shown(identity, head, self._context(identity))
        return shown

    def _context(self, identity: ShownIdentity) -> ssl.SSLContext | None:
        if not self._is_tls:
            return None
        if self._shown is not None and self._shown.identity.certificate == identity.certificate:
            return self._shown.context
        try:
            return context_of(self._cluster, identity.certificate)
        except (ssl.SSLError, ValueError) as exc:  # a file that was valid when it was first read
            raise NoCredentials(f"the client certificate is of no use any more ({exc})") from exc


@dataclass(frozen=True, slots=True)
class _Stream:
    _connection: Connection
    _request: Request
    _server: str
    _give_up_at: float

    @property
    def code(self) -> int:
        return self._connection.head.code

    @property
    def headers(self) -> Mapping[str, str]:
        return self._connection.head.headers

    def close(self) -> None:
        """End at once: a clean end of TLS waits for the server, and may outlive the loop."""
        self._connection.abort()

    async def read(self) -> bytes:
        read = b""
        async for chunk in self.chunks():
            read += chunk
            if len(read) > _MAX_REFUSAL_BYTES:
                break  # enough to see that it is no Status; the stream is closed
        return read

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._connection.body(self._give_up_at):
                yield chunk
        except _FAILURES as exc:
            raise failure_of(self._request, self._server, exc) from exc


def _impersonation_headers(whom: Impersonation) -> list[tuple[str, str]]:
    headers = [("Impersonate-User", whom.user), ("Impersonate-Uid", whom.uid)]
    headers += [("Impersonate-Group", group) for group in whom.groups]
    headers += [
        (f"Impersonate-Extra-{quote(name.lower(), safe='')}", value)
        for name, values in whom.extra.items()
        for value in values
    ]
    return [(name, value) for name, value in headers if value]
