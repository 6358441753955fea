"""Access to the dashboard: a token is needed, and requests must come from the dashboard's own pages.

    http://127.0.0.1:8080/#token=…      printed at start: browsers send a fragment to no server, so no log has it
    POST /login  {"token": "…"}         the page exchanges the token for a cookie
    Authorization: Bearer …             scripts send the token itself

The cookie is derived from the token and survives a restart of the dashboard. It is HttpOnly and SameSite=Strict, with
TLS also Secure and `__Host-`; its name contains the port, because cookies ignore ports. Browsers send it to every port
of a host, so on this machine it is valid only for processes of the user who logged in: the kernel names the owner of
the peer's socket (Linux, /proc/net/tcp).

Against requests from other sites, Host must be one of our names, Origin must equal it, and every request that writes or
costs much needs a header that no form can send. Links may lead to the pages, which contain no data.

Wrong tokens are rate-limited for everybody together: ten at once, then one per second. The right token is always
accepted. Its length of at least sixteen characters is what makes guessing hopeless.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tonnage.client.throttle import TokenBucket
from tonnage.clock import Clock, SystemClock
from tonnage.serving.request_host import OwnHosts, host_of

_TABLES: Final = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_MAPPED: Final = b"\0" * 10 + b"\xff\xff"
"""The prefix of an IPv4 address on an IPv6 socket."""
_LOCAL, _REMOTE, _UID = 1, 2, 7


def _peer_owner(request: web.BaseRequest) -> str:
    """The UID of the requesting process; empty for remote peers and where the kernel does not tell."""
    transport = request.transport
    if transport is None:
        return ""
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    return owner_of(peer, own) if peer and own else ""


def owner_of(peer: Any, own: Any) -> str:
    """The UID that owns the socket bound to `peer` and connected to `own` (socket addresses); empty when unknown."""
    try:
        if not ipaddress.ip_address(peer[0]).is_loopback:
            return ""
        for version, wanted_local, wanted_remote in _spellings(peer, own):
            for line in _TABLES[version].read_text().splitlines():
                fields = line.split()
                if fields[_LOCAL] == wanted_local and fields[_REMOTE] == wanted_remote:
                    return fields[_UID]
    except (OSError, ValueError, IndexError, TypeError):
        pass
    return ""


def _spellings(peer: Any, own: Any) -> Iterator[tuple[int, str, str]]:
    """The kernel's tables to read, with the two addresses as they are written there."""
    if ":" in peer[0]:
        packed = [socket.inet_pton(socket.AF_INET6, each[0]) for each in (peer, own)]
        yield 6, _written(packed[0], peer[1]), _written(packed[1], own[1])
        return
    packed = [socket.inet_pton(socket.AF_INET, each[0]) for each in (peer, own)]
    yield 4, _written(packed[0], peer[1]), _written(packed[1], own[1])
    yield 6, _written(_MAPPED + packed[0], peer[1]), _written(_MAPPED + packed[1], own[1])


def _written(address: bytes, port: int) -> str:
    """An address as the kernel writes it: 32-bit words in this machine's byte order, as hexadecimal numbers."""
    words = (address[at : at + 4] for at in range(0, len(address), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"


AT_ONCE: Final = 10
EVERY_S: Final = 1.0
ASKED_BY: Final = "X-Tonnage-Dashboard"
"""The header of all the page's requests except plain GETs. Its value does not matter."""


@dataclass(frozen=True, slots=True)
class RequestRefused(Exception):
    """A refused request: status code, sentence, and further headers such as Retry-After."""

    code: int
    message: str
    retry_after_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


class Access:
    """Checks requests. `hosts`: names and addresses of the dashboard (`OwnHosts`)."""

    def __init__(
        self, token: str, *, hosts: Collection[str] = (), is_secure: bool = False, clock: Clock | None = None
    ) -> None:
        self._token = token
        self._hosts = OwnHosts(hosts)
        self._is_secure = is_secure
        self._attempts = TokenBucket(1 / EVERY_S, AT_ONCE, clock=clock or SystemClock())

    # -- the request's origin -----------------------------------------------------------------------------------------

    def check_place(self, request: web.BaseRequest, *, is_page: bool = False) -> None:
        """Check that a request comes from our own pages; `is_page` may be reached by a link. Raises RequestRefused."""
        host, _ = _host_of(request)
        if host not in self._hosts:
            raise RequestRefused(421, f"{host or 'no host'} is not a name of this dashboard; ask for it by its address")
        elsewhere = RequestRefused(403, "requests from pages of other sites are refused")
        origin = request.headers.get("Origin")
        own = f"{'https' if self._is_secure else 'http'}://{request.headers['Host'].lower()}"
        if origin is not None and origin.lower() != own:
            raise elsewhere
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            leads_here = (
                request.headers.get("Sec-Fetch-Mode") == "navigate"
                and request.headers.get("Sec-Fetch-Dest") == "document"
                and request.method in ("GET", "HEAD")
            )
            if not (is_page and leads_here):
                raise elsewhere
        if request.method not in ("GET", "HEAD") and ASKED_BY not in request.headers:
            raise RequestRefused(403, f"the header {ASKED_BY} is missing")

    # -- the request's credentials ------------------------------------------------------------------------------------

    def check_token(self, request: web.BaseRequest) -> None:
        if any(self._is_session(cooky, request) for cooky in _cookies(request, self._cookie_name(request))):
            return
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(shown.strip()):
            return
        raise RequestRefused(401, "open the address that was printed, with its token, or show it as a bearer token")

    def is_token(self, shown: str) -> bool:
        """Compare in constant time. Raises RequestRefused after too many wrong tokens. The right token is never
        refused: otherwise anybody could lock everybody out with wrong ones."""
        if hmac.compare_digest(_bytes(shown), self._token.encode()):
            return True
        if not self._attempts.take_now():
            raise RequestRefused(429, "too many wrong tokens were shown: wait a little", retry_after_s=EVERY_S)
        return False

    def let_in(self, request: web.BaseRequest, answer: web.Response) -> None:
        answer.set_cookie(
            self._cookie_name(request),
            self.session_of(_peer_owner(request)),
            httponly=True,
            samesite="Strict",
            path="/",
            secure=self._is_secure,
        )

    def session_of(self, owner: str) -> str:
        """The cookie for a local user's UID; with an empty `owner`, for remote peers."""
        text = f"tonnage dashboard session {owner}".encode()
        return f"{owner}.{hmac.new(self._token.encode(), text, hashlib.sha256).hexdigest()}"

    def _is_session(self, shown: bytes, request: web.BaseRequest) -> bool:
        owner = shown.partition(b".")[0].decode(errors="replace")
        # The signature proves the claimed owner; only then is the peer's owner looked up.
        return hmac.compare_digest(shown, self.session_of(owner).encode()) and _peer_owner(request) == owner

    def forget(self, request: web.BaseRequest, answer: web.Response) -> None:
        answer.del_cookie(
            self._cookie_name(request), path="/", httponly=True, samesite="Strict", secure=self._is_secure
        )

    def _cookie_name(self, request: web.BaseRequest) -> str:
        _, port = _host_of(request)
        if self._is_secure:
            return f"__Host-tonnage-dashboard-{port or 443}"
        return f"tonnage-dashboard-{port or 80}"


def _host_of(request: web.BaseRequest) -> tuple[str, int | None]:
    """Name and port of the Host header. Raises RequestRefused for an invalid one."""
    asked = host_of(request)
    if asked is None:
        raise RequestRefused(400, "the Host header is not a host name")
    return asked


def _cookies(request: web.BaseRequest, name: str) -> Iterator[bytes]:
    """The values of a cookie. Malformed cookies of other local servers are skipped."""
    for header in request.headers.getall("Cookie", []):
        for pair in header.split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name:
                yield _bytes(value)


def _bytes(shown: str) -> bytes:
    return shown.encode(errors="backslashreplace")
