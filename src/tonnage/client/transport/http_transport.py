"""HTTP to one API server: short requests over our own pool (`connection_pool`), streams over aiohttp.

Every stream has its own connection. A 401 is tried once more with fresh credentials, which are sent over TLS only.
Redirects are not followed. A failed request is in doubt when it may have reached the server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from tonnage.client.config.connection import Impersonation, ServerConnection, context_of
from tonnage.client.config.credentials import Credentials, ShownIdentity
from tonnage.client.errors import Disconnected, NoCredentials, Untrusted
from tonnage.client.transport.answer_reader import NotHttp
from tonnage.client.transport.connection_pool import CONNECT_S, Connections, HungUp, NotConnected, keep_alive
from tonnage.client.transport.wire import HttpResponse, Request
from tonnage.clock import Clock
from tonnage.serving.request_host import is_loopback

_LOOK = "is the API server running, and does the kubeconfig name its address?"


def failure_of(request: Request, server: str, exc: Exception) -> Disconnected:
    method, url = request.method, server + request.path.partition("?")[0]
    was_sent = not isinstance(exc, NotConnected | aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    cause = exc.__cause__ if isinstance(exc, NotConnected) and exc.__cause__ is not None else exc
    if isinstance(cause, aiohttp.ClientSSLError | ssl.SSLError):
        return Untrusted(method, url, _words(cause))
    if isinstance(cause, TimeoutError):
        missed = f"no answer within {request.timeout_s:g} s" if was_sent else f"no connection within {CONNECT_S:g} s"
        return Disconnected(method, url, missed, in_doubt=was_sent, hint=None if was_sent else _LOOK)
    return Disconnected(method, url, _words(cause), in_doubt=was_sent, hint=None if was_sent else _LOOK)


def _words(exc: BaseException) -> str:
    if isinstance(exc, aiohttp.ClientConnectorCertificateError):
        exc = exc.certificate_error
    if isinstance(exc, aiohttp.ClientConnectorError):
        exc = exc.os_error
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, socket.gaierror):
        return f"the server's name is not known: {exc.strerror}"
    if isinstance(exc, aiohttp.ClientPayloadError) or (isinstance(exc, HungUp) and exc.began):
        return "the connection was cut in the middle of the answer"
    if isinstance(exc, aiohttp.ServerDisconnectedError | HungUp):
        return "the server hung up without an answer"
    if isinstance(exc, OSError) and exc.errno:
        return os.strerror(exc.errno).lower()
    if isinstance(exc, ConnectionError):
        return "the connection was lost"
    return str(exc) or type(exc).__name__


MAX_CONNECTIONS = 64
"""Concurrent requests; further ones wait."""
_READ_BYTES = 1 << 18
"""How much of a stream is read ahead; a few hundred events."""
_MAX_REFUSAL_BYTES = 1 << 20
"""How much is read of an answer that is no stream: a Status has a few hundred bytes, a proxy's page some thousands."""
_UNFIT_FOR_A_HEADER = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_STREAM_FAILURES = (aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError, OSError, ValueError, zlib.error)
"""What aiohttp raises for bad answers; ValueError for headers and URLs that it cannot parse."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Shown:
    """An identity ready for use: headers in two forms, and TLS with its certificate (None is plain HTTP)."""

    identity: ShownIdentity
    headers: CIMultiDict[str]
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
        self._streams: aiohttp.ClientSession | None = None
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
        response = await self._open(request, shown)
        if response.status == 401 and self._is_tls and await self._credentials.renew(shown.identity):
            response.close()
            response = await self._open(request, await self._show())
        try:
            yield _Stream(response, request, self.server)
        finally:
            _hang_up(response)

    async def close(self) -> None:
        self._pool.close()
        if self._streams is not None:
            await self._streams.close()
            self._streams = None

    async def _send(self, request: Request, shown: _Shown) -> HttpResponse:
        if not request.path.isascii() or " " in request.path or not request.path.isprintable():
            raise ValueError(f"the path {request.path!r} is not percent-encoded")
        first = f"{request.method} {self._base}{request.path} HTTP/1.1\r\n"
        if request.body is None:
            last = b"\r\n" if request.method in ("GET", "HEAD") else b"Content-Length: 0\r\n\r\n"
        else:
            last = f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n\r\n".encode()
            last += request.body
        extra = "".join(f"{name}: {value}\r\n" for name, value in request.headers)
        data = first.encode() + shown.head + extra.encode() + last
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._pool.exchange(
                    data,
                    context=shown.context,
                    may_repeat=request.method == "GET",
                    before_write=request.before_write,
                )
        except (NotConnected, HungUp, NotHttp, OSError) as exc:  # TimeoutError and ssl.SSLError are OSErrors
            raise failure_of(request, self.server, exc) from exc

    async def _open(self, request: Request, shown: _Shown) -> aiohttp.ClientResponse:
        if self._streams is None:
            self._streams = aiohttp.ClientSession(
                # A connection serves one stream only: bytes after its end are ignored.
                connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_READ_BYTES,
            )
        try:
            return await self._streams.request(
                request.method,
                URL(self.server + request.path, encoded=True),
                headers=shown.headers,
                ssl=shown.context or True,
                server_hostname=self._cluster.tls_server_name or None,
                timeout=aiohttp.ClientTimeout(total=request.timeout_s, sock_connect=CONNECT_S),
                allow_redirects=False,
            )
        except _STREAM_FAILURES as exc:
            raise failure_of(request, self.server, exc) from exc

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
            self._shown = shown = _Shown(identity, CIMultiDict(headers), head, self._context(identity))
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
    _response: aiohttp.ClientResponse
    _request: Request
    _server: str

    @property
    def code(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def read(self) -> bytes:
        read = b""
        async for chunk in self.chunks():
            read += chunk
            if len(read) > _MAX_REFUSAL_BYTES:
                break  # enough to see that it is no Status; the stream is closed
        return read

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except _STREAM_FAILURES as exc:
            raise failure_of(self._request, self._server, exc) from exc


def _socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    keep_alive(made)
    return made


def _impersonation_headers(whom: Impersonation) -> list[tuple[str, str]]:
    headers = [("Impersonate-User", whom.user), ("Impersonate-Uid", whom.uid)]
    headers += [("Impersonate-Group", group) for group in whom.groups]
    headers += [
        (f"Impersonate-Extra-{quote(name.lower(), safe='')}", value)
        for name, values in whom.extra.items()
        for value in values
    ]
    return [(name, value) for name, value in headers if value]


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """End a stream at once: a clean end of TLS waits for the server, and may outlive the loop."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()
