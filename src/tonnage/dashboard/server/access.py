"""Who may look: whoever has the token of the dashboard, from a page of its own.

    http://127.0.0.1:8080/#token=…      what is printed: the fragment is not sent to any server, nor into any log
    POST /login  {"token": "…"}         the page hands it over, and gets a cookie for it
    Authorization: Bearer …             scripts show the token itself

The cookie is worked out from the token, so that a dashboard that is started again with the same token knows its
browsers. It is HttpOnly and SameSite=Strict; cookies know no ports, so that its name tells the port.

A page elsewhere must not be able to ask with the browser's cookie: the Host must be a name of ours (a foreign name that
resolves to 127.0.0.1 is refused), a request with an Origin must come from that very host, and what changes or asks much
needs a header that no form can send.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

ASKED_BY: Final = "X-Tonnage-Dashboard"
"""The header of every request of the page that is not a plain GET. Its value does not matter."""


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """A request that is not answered, with the code and the sentence for it."""

    code: int
    message: str


class Access:
    """Judges requests. `hosts` are the names under which the dashboard may be asked, besides loopback's."""

    def __init__(self, token: str, *, hosts: Collection[str] = (), is_secure: bool = False) -> None:
        self._token = token
        self._session = hmac.new(token.encode(), b"tonnage dashboard session", hashlib.sha256).hexdigest()
        self._hosts = {each.lower() for each in hosts}
        self._is_secure = is_secure

    def check_place(self, request: web.BaseRequest) -> None:
        """Whether a request comes from where ours come from. Raises Refused."""
        host = _name_of(request.headers.get("Host", ""))
        if not (host in self._hosts or _is_loopback(host)):
            raise Refused(421, f"{host or 'no host'} is not a name of this dashboard; ask for it by its address")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("Host", "").lower():
            raise Refused(403, "a page from elsewhere may not ask")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise Refused(403, "a page from elsewhere may not ask")
        if request.method not in ("GET", "HEAD") and ASKED_BY not in request.headers:
            raise Refused(403, f"the header {ASKED_BY} is missing")

    def check_token(self, request: web.BaseRequest) -> None:
        """Whether whoever asks has shown the token. Raises Refused."""
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(shown.strip()):
            return
        if hmac.compare_digest(self._cookie(request).encode(), self._session.encode()):
            return
        raise Refused(401, "open the address that was printed, with its token, or show it as a bearer token")

    def is_token(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), self._token.encode())

    def let_in(self, request: web.BaseRequest, answer: web.Response) -> None:
        """Give a browser that has shown the token its cookie."""
        answer.set_cookie(
            self._cookie_name(request),
            self._session,
            httponly=True,
            samesite="Strict",
            path="/",
            secure=self._is_secure,
        )

    def forget(self, request: web.BaseRequest, answer: web.Response) -> None:
        answer.del_cookie(self._cookie_name(request), path="/")

    def _cookie(self, request: web.BaseRequest) -> str:
        cookies = SimpleCookie()
        try:
            cookies.load(request.headers.get("Cookie", ""))
        except CookieError:
            return ""
        found = cookies.get(self._cookie_name(request))
        return found.value if found is not None else ""

    @staticmethod
    def _cookie_name(request: web.BaseRequest) -> str:
        port = urlsplit(f"//{request.headers.get('Host', '')}").port
        return f"tonnage-dashboard-{port or 80}"


def _name_of(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
