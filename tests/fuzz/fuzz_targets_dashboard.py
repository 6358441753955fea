"""What is sent to the dashboard's door: a method, a path and headers, judged and routed as the server does."""

from __future__ import annotations

from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict
from yarl import URL

from support.virtual_clock import VirtualClock
from tonnage.dashboard.server.access import Access
from tonnage.dashboard.server.app import RoutedRequest, Router

TOKEN = "a-token-for-fuzzing-alone"
REQUESTS = [
    b"GET\n/api/v1/state\nHost: 127.0.0.1:8080\nCookie: a=b; tonnage-dashboard-8080=x\nOrigin: http://127.0.0.1:8080",
    b"POST\n/api/v1/fit?x=1\nHost: localhost\nAuthorization: Bearer x\nX-Tonnage-Dashboard: 1\nSec-Fetch-Site: none",
    b"GET\n/api/v1/pods/shop/db%2F0\nHost: [::1]:8080\nAuthorization: Bearer a-token-for-fuzzing-alone",
    b"GET\n/api/v1/pods/%2e%2e/%ff\nHost: evil.example\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate",
]


async def _answered(asked: RoutedRequest) -> None:
    """Nobody calls it: who is found is what is tried."""


def _router() -> Router:
    router = Router()
    router.add("GET", "/api/v1/state", _answered)  # type: ignore[arg-type]
    router.add("GET", "/api/v1/pods/{namespace}/{name}", _answered)  # type: ignore[arg-type]
    router.add("POST", "/api/v1/fit", _answered)  # type: ignore[arg-type]
    return router


def ask_dashboard(data: bytes) -> None:
    """Judge a request. Nobody is let in who has not shown the token, and no path leads further than its own parts."""
    method, path, *lines = (data.decode("utf-8", "surrogateescape") + "\n\n").split("\n")
    headers = CIMultiDict(pair for line in lines if (pair := _header(line)))
    try:
        url = str(URL(path))
        request = make_mocked_request(method or "GET", url if url.startswith("/") else f"/{url}", headers)
    except ValueError:
        return  # no request of HTTP
    access = Access(TOKEN, clock=VirtualClock())
    access.check_place(request)
    access.check_token(request)
    assert TOKEN.encode() in data or access.session_of("").encode() in data, "let in without the token"
    _, asked = _router().find(request)
    assert all(asked.path.values())


def _header(line: str) -> tuple[str, str] | None:
    name, found, value = line.partition(":")
    return (name.strip(), value.strip()) if found and name.strip() else None
