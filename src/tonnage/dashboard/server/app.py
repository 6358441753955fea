"""The dashboard's HTTP application: judges every request, answers it, and adds what browsers are told to refuse.

    GET  /, /js/…, /css/…            the pages; they hold nothing about the cluster, and need no token
    POST /login, /logout             the token for a cookie, and back
    GET  /healthz                    ok
         /api/v1/…                   the cluster, for whoever has shown the token (docs/reference/dashboard.md)

Errors are JSON, {"error": …, "hint": …}, with the sentences that the command line has.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from tonnage import logs
from tonnage.dashboard.server.access import Access, Refused
from tonnage.dashboard.server.page_files import page_files
from tonnage.dashboard.server.router import Asked, Router, json_answer
from tonnage.errors import TonnageError

SECURITY_HEADERS: Final = {
    # Nothing from elsewhere, nothing inline, in no frame: names from a cluster can never become a script.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

_log = logs.logger("tonnage.dashboard")


class App:
    """Answers requests; `router` has what is below /api/v1."""

    def __init__(self, router: Router, access: Access) -> None:
        self._router, self._access = router, access
        self._files = page_files()
        self._doors = Router()
        self._doors.post("/login", self._login)
        self._doors.post("/logout", self._logout)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever it is."""
        try:
            answer = await self._answer(request)
        except Refused as exc:
            answer = json_answer({"error": exc.message}, status=exc.code)
        except TonnageError as exc:
            answer = json_answer({"error": exc.message, "hint": exc.hint or ""}, status=422)
        except Exception:
            _log.exception("A request failed", method=request.method, path=request.path)
            answer = json_answer({"error": "the dashboard failed; its log says why"}, status=500)
        if not answer.prepared:
            answer.headers.update(SECURITY_HEADERS)
        return answer

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._access.check_place(request)
        path = request.path
        if path == "/healthz":
            return web.Response(text="ok")
        page = self._files.get(path)
        if page is not None and request.method in ("GET", "HEAD"):
            return page.answer(request)
        if path in ("/login", "/logout"):
            answer, asked = self._doors.find(request)
            return await answer(asked)
        self._access.check_token(request)
        answer, asked = self._router.find(request)
        return await answer(asked)

    async def _login(self, asked: Asked) -> web.StreamResponse:
        shown = await asked.json()
        token = shown.get("token") if isinstance(shown, dict) else None
        if not isinstance(token, str) or not self._access.is_token(token):
            raise Refused(401, "this is not the token of this dashboard: open the address that it printed at its start")
        answer = json_answer({"ok": True})
        self._access.let_in(asked.request, answer)
        return answer

    async def _logout(self, asked: Asked) -> web.StreamResponse:
        answer = json_answer({"ok": True})
        self._access.forget(asked.request, answer)
        return answer
