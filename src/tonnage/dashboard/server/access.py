"""Who may look: whoever has the token of the dashboard, from a page of its own.

    http://127.0.0.1:8080/#token=…      what is printed: the fragment is not sent to any server, nor into any log
    POST /login  {"token": "…"}         the page hands it over, and gets a cookie for it
    Authorization: Bearer …             scripts show the token itself

The cookie is worked out from the token, so that a dashboard that is started again knows its browsers. It is HttpOnly
and SameSite=Strict, with TLS also Secure and `__Host-`; its name tells the port, because cookies know none. Browsers
send it to every port of a host, so on this machine it is good for one user's programs alone: the kernel tells whose
process is at the other end (Linux, /proc/net/tcp).

A page elsewhere must not ask with the browser's cookie: the Host must be a name of ours, an Origin that very host, and
what changes or asks much needs a header that no form can send. A link may lead to the pages, which hold nothing.

A wrong token is answered as such ten times at once, then once in a second, for all who try together; whoever shows the
right one is never held up. What keeps guesses out is that a token has at least sixteen characters.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import socket
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tonnage.clock import Clock, SystemClock
from tonnage.serving.request_host import OwnHosts, host_of

_TABLES: Final = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_MAPPED: Final = b"\0" * 10 + b"\xff\xff"
"""Before an IPv4 address that is used on a socket of IPv6."""
_LOCAL, _REMOTE, _UID = 1, 2, 7


def _peer_owner(request: web.BaseRequest) -> str:
    """The number of the user who asks; empty for a peer elsewhere, and where the kernel does not tell."""
    transport = request.transport
    if transport is None:
        return ""
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    return owner_of(peer, own) if peer and own else ""


def owner_of(peer: Any, own: Any) -> str:
    """Whose socket is bound to `peer` and connected to `own`, both as sockets name addresses; empty when unknown."""
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
    """The tables to look into, and how the two addresses stand there."""
    if ":" in peer[0]:
        packed = [socket.inet_pton(socket.AF_INET6, each[0]) for each in (peer, own)]
        yield 6, _written(packed[0], peer[1]), _written(packed[1], own[1])
        return
    packed = [socket.inet_pton(socket.AF_INET, each[0]) for each in (peer, own)]
    yield 4, _written(packed[0], peer[1]), _written(packed[1], own[1])
    yield 6, _written(_MAPPED + packed[0], peer[1]), _written(_MAPPED + packed[1], own[1])


def _written(address: bytes, port: int) -> str:
    """As the kernel writes it: word by word, each as a number of this machine."""
    words = (address[at : at + 4] for at in range(0, len(address), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"


AT_ONCE: Final = 10
EVERY_S: Final = 1.0


class Attempts:
    """Wrong tokens that may still be tried now: a bucket that fills up again with time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = float(AT_ONCE)
        self._at = clock.monotonic()

    def wait_s(self) -> float:
        """How long until a token is looked at again; 0 is now."""
        now = self._clock.monotonic()
        self._left = min(AT_ONCE, self._left + (now - self._at) / EVERY_S)
        self._at = now
        return max(0.0, (1.0 - self._left) * EVERY_S)

    def failed(self) -> None:
        self._left -= 1.0


ASKED_BY: Final = "X-Tonnage-Dashboard"
"""The header of every request of the page that is not a plain GET. Its value does not matter."""


@dataclass(frozen=True, slots=True)
class RequestRefused(Exception):
    """A request that is not answered, with the code and the sentence for it, and when to ask again or otherwise how."""

    code: int
    message: str
    retry_after_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


class Access:
    """Judges requests. `hosts` are the names and addresses under which the dashboard may be asked (`OwnHosts`)."""

    def __init__(
        self, token: str, *, hosts: Collection[str] = (), is_secure: bool = False, clock: Clock | None = None
    ) -> None:
        self._token = token
        self._hosts = OwnHosts(hosts)
        self._is_secure = is_secure
        self._attempts = Attempts(clock or SystemClock())

    # -- where a request comes from -----------------------------------------------------------------------------------

    def check_place(self, request: web.BaseRequest, *, is_page: bool = False) -> None:
        """Whether a request comes from where ours come from; `is_page` may be reached by a link. Raises Refused."""
        host, _ = _host_of(request)
        if host not in self._hosts:
            raise RequestRefused(421, f"{host or 'no host'} is not a name of this dashboard; ask for it by its address")
        elsewhere = RequestRefused(403, "a page from elsewhere may not ask")
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

    # -- what it shows ------------------------------------------------------------------------------------------------

    def check_token(self, request: web.BaseRequest) -> None:
        if any(self._is_session(each, request) for each in _cookies(request, self._cookie_name(request))):
            return
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(shown.strip()):
            return
        raise RequestRefused(401, "open the address that was printed, with its token, or show it as a bearer token")

    def is_token(self, shown: str) -> bool:
        """Compares in a time that does not depend on where they differ. Raises Refused when too many were wrong. The
        right one is never held off: whoever can reach the door could keep everybody out with wrong ones."""
        if hmac.compare_digest(_bytes(shown), self._token.encode()):
            return True
        wait_s = self._attempts.wait_s()
        if wait_s:
            raise RequestRefused(
                429, "too many wrong tokens were shown: wait a little", retry_after_s=math.ceil(wait_s)
            )
        self._attempts.failed()
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
        """The cookie of a user of this machine, or of anybody elsewhere when it is empty."""
        text = f"tonnage dashboard session {owner}".encode()
        return f"{owner}.{hmac.new(self._token.encode(), text, hashlib.sha256).hexdigest()}"

    def _is_session(self, shown: bytes, request: web.BaseRequest) -> bool:
        owner = shown.partition(b".")[0].decode(errors="replace")
        # Whose it is told to be is believed when the rest is right, and only then is it looked up who shows it.
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
    """Name and port of the Host header. Raises Refused for one that is none."""
    asked = host_of(request)
    if asked is None:
        raise RequestRefused(400, "the Host header is none")
    return asked


def _cookies(request: web.BaseRequest, name: str) -> Iterator[bytes]:
    """The values of a cookie. Other servers on this machine set cookies too, of any form: those are passed over."""
    for header in request.headers.getall("Cookie", []):
        for pair in header.split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name:
                yield _bytes(value)


def _bytes(shown: str) -> bytes:
    return shown.encode(errors="backslashreplace")
