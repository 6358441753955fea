"""The dashboard's HTTP application: checks access, routes requests, and adds security headers.

    GET  /, /js/…, /css/…            the pages; they hold nothing about the cluster, and need no token
    POST /login, /logout             get and drop the session cookie
    GET  /healthz, /livez, /readyz   ok
         /api/v1/…                   the cluster's data; needs the token (`routes.py`)

Handlers raise TonnageError; errors are JSON, {"error": …, "hint": …}. The pages' files are read once from the package:
no request's path reaches the file system.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import ClientPayloadError, web

from tonnage import http_connection, logs
from tonnage.dashboard.questions.asking import TooManyAsk
from tonnage.dashboard.server.access import Access, RequestRefused
from tonnage.errors import TonnageError
from tonnage.objects.document import MAX_REQUEST_VALUES, Budget, BudgetExceeded, Limits, read_json

SECURITY_HEADERS: Final = {
    # Nothing from other origins, nothing inline, no frames: names from a cluster can never become a script. Without
    # Trusted Types policies no text can be set as HTML or as a script's address.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""A replay may contain a dump of a cluster; larger bodies are refused."""
BODY_S: Final = 60.0
_LIMITS: Final = Limits(MAX_REQUEST_VALUES, MAX_BODY_BYTES)
"""A few bytes of JSON can use much memory; requests hold a few long texts, or some thousand names."""
_AT_ONCE_BYTES: Final = 256 * 1024
"""Larger bodies are parsed in a thread, so that the event loop can serve others."""
BEGUN: Final = web.RequestKey("tonnage.answer", web.StreamResponse)
"""Where a request keeps a response that was started before its handler returned."""


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """A request. `path` holds the values of the route's braces."""

    request: web.BaseRequest
    path: dict[str, str]

    async def json(self, *, max_bytes: int = MAX_BODY_BYTES, within_s: float = BODY_S) -> Any:
        """The JSON body. Raises RequestRefused if it is too large, too slow, invalid, or has too many values."""
        body = bytearray()
        try:
            async with asyncio.timeout(within_s):
                async for chunk in self.request.content.iter_chunked(64 * 1024):
                    body += chunk
                    if len(body) > max_bytes:
                        raise RequestRefused(413, f"the body is larger than {max_bytes // 1024} KiB")
        except TimeoutError:
            raise RequestRefused(408, f"the body did not come within {within_s:g} s") from None
        except (http_connection.BadBody, web.RequestPayloadError, ClientPayloadError) as exc:
            raise RequestRefused(400, "the body breaks off") from exc
        return _read(bytes(body)) if len(body) < _AT_ONCE_BYTES else await asyncio.to_thread(_read, bytes(body))

    async def prepare(self, answer: web.StreamResponse) -> None:
        """Start a streamed response: send its headers now."""
        answer.headers.update(SECURITY_HEADERS)
        self.request[BEGUN] = answer
        await answer.prepare(self.request)


def _read(body: bytes) -> Any:
    try:
        return read_json(body, Budget(_LIMITS))
    except BudgetExceeded as exc:
        raise RequestRefused(400 if exc.is_depth else 413, f"the body is not read: {exc.message}") from exc
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise RequestRefused(400, f"the body is no JSON: {exc}") from exc


Document = dict[str, Any] | bytes
Answer = Callable[[RoutedRequest], Awaitable[Document | web.StreamResponse]]
"""A handler. It returns a response, or what a response with status 200 says, as a document or as JSON."""


class Router:
    """Routes by method; the first match answers."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, re.Pattern[str], Answer]] = []

    def add(self, method: str, path: str, answer: Answer) -> None:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path))
        self._routes.append((method, re.compile(pattern), answer))

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        handler, asked = self.find(request)
        answer = await handler(asked)
        return answer if isinstance(answer, web.StreamResponse) else json_answer(answer)

    def find(self, request: web.BaseRequest) -> tuple[Answer, RoutedRequest]:
        """The handler of a request. Raises RequestRefused for an unknown path or method."""
        raw = request.rel_url.raw_path
        methods = set()
        for method, pattern, answer in self._routes:
            found = pattern.fullmatch(raw)
            if found is None:
                continue
            if method == request.method or (request.method == "HEAD" and method == "GET"):
                return answer, RoutedRequest(
                    request, {name: unquote(value) for name, value in found.groupdict().items()}
                )
            methods.add(method)
        if methods:
            allowed = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
            raise RequestRefused(405, f"{request.method} {raw}: only {allowed} is answered", headers={"Allow": allowed})
        raise RequestRefused(404, f"there is nothing at {raw}")


def json_answer(document: Document, *, status: int = 200) -> web.Response:
    return web.Response(
        body=document if isinstance(document, bytes) else msgspec.json.encode(document),
        status=status,
        headers={"Content-Type": "application/json", "Cache-Control": "no-store"},
    )


_PAGES: Final = Path(__file__).parents[1] / "pages"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class PageFile:
    def __init__(self, body: bytes, suffix: str) -> None:
        self.body = body
        self.content_type = _TYPES[suffix]
        self.etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'

    def answer(self, request: web.BaseRequest) -> web.Response:
        headers = {"Content-Type": self.content_type, "Cache-Control": "no-cache", "ETag": self.etag}
        if request.headers.get("If-None-Match") == self.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers=headers)


def page_files() -> dict[str, PageFile]:
    """The pages' files by URL path; `/` is index.html."""
    files = {f"/{path.relative_to(_PAGES).as_posix()}": path for path in _PAGES.rglob("*") if path.suffix in _TYPES}
    found = {name: PageFile(path.read_bytes(), path.suffix) for name, path in files.items()}
    # A preload link for every module: following imports alone takes a round trip per level. The links have low
    # priority, so that login and state come first.
    modules = [path for path in sorted(found) if path.endswith(".js")]
    links = "".join(f'<link rel="modulepreload" fetchpriority="low" href="{path}">\n' for path in modules)
    body = found["/index.html"].body.replace(b"</head>", links.encode() + b"</head>", 1)
    found["/"] = found["/index.html"] = PageFile(body, ".html")
    return found


MAX_LOGIN_BYTES: Final = 4 * 1024
"""Limit of a body that is sent without a token."""
MAX_ERROR_CHARS: Final = 8 * 1024
"""Limit of an error sentence: it may quote a request of megabytes."""
LOGIN_S: Final = 10.0
"""How long a login request may take: connections without a token are limited."""

_log = logs.logger("tonnage.dashboard")


class App:
    def __init__(self, router: Router, access: Access) -> None:
        self._router, self._access = router, access
        self._files = page_files()
        self._doors = Router()
        self._doors.add("POST", "/login", self._login)
        self._doors.add("POST", "/logout", self._logout)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except RequestRefused as exc:
            answer = _told(exc.message, status=exc.code)
            answer.headers.update(exc.headers)
            if exc.retry_after_s:
                answer.headers["Retry-After"] = str(int(exc.retry_after_s))
        except TooManyAsk as exc:
            answer = _told(exc.message, exc.hint or "", status=503)
            answer.headers["Retry-After"] = "5"
        except TonnageError as exc:
            answer = _told(exc.message, exc.hint or "", status=422)
        except Exception:
            _log.exception("A request failed", method=request.method, path=request.path)
            answer = json_answer({"error": "the dashboard failed; its log says why"}, status=500)
        begun: web.StreamResponse | None = request.get(BEGUN)
        if begun is not None and begun is not answer:  # headers are sent: the client sees the stream break off
            if request.transport is not None:
                request.transport.close()
            return begun
        if begun is None:
            answer.headers.update(SECURITY_HEADERS)
        return answer

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        page = self._files.get(path) if request.method in ("GET", "HEAD") else None
        self._access.check_place(request, is_page=page is not None)
        if path in ("/healthz", "/livez", "/readyz"):
            return web.Response(text="ok")
        if page is not None:
            return page.answer(request)
        if path in ("/login", "/logout"):
            return await self._doors.answer(request)
        self._access.check_token(request)
        if not http_connection.connection_of(request).let_in():
            raise RequestRefused(503, "too many connections are open", retry_after_s=5)
        return await self._router.answer(request)

    async def _login(self, asked: RoutedRequest) -> web.StreamResponse:
        shown = await asked.json(max_bytes=MAX_LOGIN_BYTES, within_s=LOGIN_S)
        token = shown.get("token") if isinstance(shown, dict) else None
        if not isinstance(token, str) or not self._access.is_token(token):
            raise RequestRefused(
                401, "this is not the token of this dashboard: open the address that it printed at its start"
            )
        answer = json_answer({"ok": True})
        self._access.let_in(asked.request, answer)
        return answer

    async def _logout(self, asked: RoutedRequest) -> web.StreamResponse:
        answer = json_answer({"ok": True})
        self._access.forget(asked.request, answer)
        return answer


def _told(*sentences: str, status: int) -> web.Response:
    cut = (each if len(each) <= MAX_ERROR_CHARS else f"{each[:MAX_ERROR_CHARS]}..." for each in sentences)
    return json_answer(dict(zip(("error", "hint"), cut, strict=False)), status=status)
