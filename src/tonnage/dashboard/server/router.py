"""Paths and who answers them.

    router.get("/api/v1/pods/{namespace}/{name}", pod_page)     async def pod_page(asked: Asked) -> web.StreamResponse
    router.post("/api/v1/drain-preview", drain)                 a body of JSON is `await asked.json()`

Handlers are given what was asked, and raise TonnageError for what they cannot answer: the page shows message and hint.

Every answer has the headers by which browsers refuse what a page of ours never needs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import ClientPayloadError, web

from tonnage.dashboard.server.access import RequestRefused
from tonnage.http_connection import BadBody
from tonnage.objects.texts.decode_budget import MAX_REQUEST_VALUES, Budget, BudgetExceeded, Limits
from tonnage.objects.texts.json_text import read_json

SECURITY_HEADERS: Final = {
    # Nothing from elsewhere, nothing inline, in no frame: names from a cluster can never become a script. No Trusted
    # Types policy may be made, so that no text can be set as HTML, or as a script's address, at all.
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
"""A replay file with a dump of a cluster may be large; more than this is refused."""
BODY_S: Final = 60.0
"""How long a body may take to come."""
_LIMITS: Final = Limits(MAX_REQUEST_VALUES, MAX_BODY_BYTES)
"""A few bytes can stand for a lot of memory; what is asked here is a few long texts, or some thousand names."""
_AT_ONCE_BYTES: Final = 256 * 1024
"""Larger ones are read beside the loop, which has others to serve."""
BEGUN: Final = web.RequestKey("tonnage.answer", web.StreamResponse)
"""Where a request keeps the answer that was begun before its handler returned."""


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """One request: `path` are the values of the braces in its route."""

    request: web.BaseRequest
    path: dict[str, str]

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query)

    async def json(self, *, max_bytes: int = MAX_BODY_BYTES, within_s: float = BODY_S) -> Any:
        """The body. Raises Refused for one that is too large, too slow, of too many values, or no JSON."""
        body = bytearray()
        try:
            async with asyncio.timeout(within_s):
                async for chunk in self.request.content.iter_chunked(64 * 1024):
                    body += chunk
                    if len(body) > max_bytes:
                        raise RequestRefused(413, f"the body is larger than {max_bytes // 1024} KiB")
        except TimeoutError:
            raise RequestRefused(408, f"the body did not come within {within_s:g} s") from None
        except (BadBody, web.RequestPayloadError, ClientPayloadError) as exc:
            raise RequestRefused(400, "the body breaks off") from exc
        return _read(bytes(body)) if len(body) < _AT_ONCE_BYTES else await asyncio.to_thread(_read, bytes(body))

    async def prepare(self, answer: web.StreamResponse) -> None:
        """Begin an answer that is sent piece by piece: its headers are complete, and go out now."""
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


Answer = Callable[[RoutedRequest], Awaitable[web.StreamResponse]]


class Router:
    """Routes by method; the first that matches answers."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, re.Pattern[str], Answer]] = []

    def get(self, path: str, answer: Answer) -> None:
        self._add("GET", path, answer)

    def post(self, path: str, answer: Answer) -> None:
        self._add("POST", path, answer)

    def delete(self, path: str, answer: Answer) -> None:
        self._add("DELETE", path, answer)

    def _add(self, method: str, path: str, answer: Answer) -> None:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path))
        self._routes.append((method, re.compile(pattern), answer))

    def find(self, request: web.BaseRequest) -> tuple[Answer, RoutedRequest]:
        """Who answers. Raises Refused for a path or a method that there is not."""
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


def json_answer(document: Any, *, status: int = 200) -> web.Response:
    return web.Response(
        body=document if isinstance(document, bytes) else msgspec.json.encode(document),
        status=status,
        headers={"Content-Type": "application/json", "Cache-Control": "no-store"},
    )
