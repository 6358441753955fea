"""HTTP to one API server, over aiohttp.

Short requests share a bounded pool of connections; streams have connections of their own, so that however many watches
there are, a request never waits for one. A connection that has gone silent is found out by the kernel (keep-alive
probes), since HTTP/1.1 has no pings. A 401 is tried once more with fresh credentials: it was refused before anything
was done. Credentials are sent over TLS only, as upstream does.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from tonnage.client.connection import Connection, Impersonation
from tonnage.client.credentials import Credentials, Identity
from tonnage.client.errors import InvalidKubeconfig
from tonnage.client.tls import context_of
from tonnage.client.trouble import CONNECT_S, trouble
from tonnage.client.wire import Request, Response
from tonnage.clock import Clock

MAX_CONNECTIONS = 64
"""Requests under way at once; more wait their turn."""
_READ_BYTES = 1 << 18
"""How much of a stream is read ahead of its reader; a few hundred events."""
# Probes after 30 s of silence, 15 s apart, and given up after three: client-go's HTTP/2 pings do the same in 45 s.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}

_log = logging.getLogger(__name__)


class HttpTransport:
    """The `Transport` of real life. It opens connections as they are needed, and belongs to the loop it is used on."""

    def __init__(
        self, connection: Connection, *, clock: Clock, user_agent: str, max_connections: int = MAX_CONNECTIONS
    ) -> None:
        self._cluster = connection.cluster
        self._is_tls = connection.cluster.server.startswith("https:")
        self._credentials = Credentials(connection, clock=clock)
        self._max_connections = max_connections
        self._sessions: tuple[aiohttp.ClientSession, aiohttp.ClientSession] | None = None
        # On the way to ourselves there is nothing to save, and compressing costs the server more than we gain.
        compress = connection.cluster.compress and not _is_loopback(self._cluster.server)
        self._headers = CIMultiDict(
            {
                "Accept": "application/json",
                "User-Agent": user_agent,
                "Accept-Encoding": "gzip" if compress else "identity",
            }
        )
        self._headers.extend(_impersonation_headers(connection.user.impersonation))
        self._shown: tuple[Identity, CIMultiDict[str], ssl.SSLContext | bool] | None = None
        if not self._is_tls and connection.user.token:
            _log.warning("%s is not TLS: credentials are not sent", self._cluster.server)

    @property
    def server(self) -> str:
        return self._cluster.server

    async def send(self, request: Request) -> Response:
        identity = await self._identity()
        response = await self._send(request, identity)
        if response.code == 401 and self._is_tls and await self._credentials.renew(identity):
            response = await self._send(request, await self._identity())
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Stream]:
        identity = await self._identity()
        response = await self._open(request, identity, streams=True)
        if response.status == 401 and self._is_tls and await self._credentials.renew(identity):
            response.close()
            response = await self._open(request, await self._identity(), streams=True)
        try:
            yield _Stream(response, request, self.server)
        finally:
            response.close()

    async def close(self) -> None:
        for session in self._sessions or ():
            await session.close()
        self._sessions = None

    async def _identity(self) -> Identity:
        return await self._credentials.identity() if self._is_tls else Identity()

    async def _send(self, request: Request, identity: Identity) -> Response:
        response = await self._open(request, identity, streams=False)
        try:
            async with response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise trouble(request, self.server, exc) from exc
        warnings = tuple(response.headers.getall("Warning", ()))
        return Response(response.status, body, response.headers, warnings)

    async def _open(self, request: Request, identity: Identity, *, streams: bool) -> aiohttp.ClientResponse:
        headers, context = self._prepared(identity)
        if request.body is not None:
            headers = headers.copy()
            headers["Content-Type"] = request.content_type
        session = self._session(streams=streams)
        try:
            return await session.request(
                request.method,
                URL(self.server + request.path, encoded=True),
                data=request.body,
                headers=headers,
                ssl=context,
                server_hostname=self._cluster.tls_server_name or None,
                timeout=aiohttp.ClientTimeout(total=request.timeout_s, sock_connect=CONNECT_S),
                allow_redirects=False,  # a token must not follow wherever an answer points
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise trouble(request, self.server, exc) from exc

    def _prepared(self, identity: Identity) -> tuple[CIMultiDict[str], ssl.SSLContext | bool]:
        """Headers and TLS of an identity, made anew when it changes; a new context also means new connections."""
        if self._shown is None or self._shown[0] != identity:
            headers = self._headers.copy()
            if identity.authorization:
                headers["Authorization"] = identity.authorization
            context: ssl.SSLContext | bool = True
            if self._is_tls:
                if self._shown is not None and self._shown[0].certificate == identity.certificate:
                    context = self._shown[2]
                else:
                    try:
                        context = context_of(self._cluster, identity.certificate)
                    except (ssl.SSLError, ValueError) as exc:  # a certificate file that was replaced by something else
                        problem = f"the client certificate is of no use any more ({exc})"
                        raise InvalidKubeconfig(self.server, "", problem) from exc
            self._shown = (identity, headers, context)
        return self._shown[1], self._shown[2]

    def _session(self, *, streams: bool) -> aiohttp.ClientSession:
        if self._sessions is None:
            self._sessions = (_session(self._max_connections), _session(0))
        return self._sessions[streams]


class _Stream:
    """An answer that is being read."""

    def __init__(self, response: aiohttp.ClientResponse, request: Request, server: str) -> None:
        self._response = response
        self._request = request
        self._server = server

    @property
    def code(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise trouble(self._request, self._server, exc) from exc

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise trouble(self._request, self._server, exc) from exc


def _session(limit: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, socket_factory=_socket),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_BYTES,
    )


def _socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _impersonation_headers(whom: Impersonation) -> list[tuple[str, str]]:
    headers = [("Impersonate-User", whom.user), ("Impersonate-Uid", whom.uid)]
    headers += [("Impersonate-Group", group) for group in whom.groups]
    headers += [
        (f"Impersonate-Extra-{quote(name.lower(), safe='')}", value)
        for name, values in whom.extra.items()
        for value in values
    ]
    return [(name, value) for name, value in headers if value]
