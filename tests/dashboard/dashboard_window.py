"""A browser's window on a dashboard, as the tests use it; `conftest.py` opens them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from playwright.async_api import ConsoleMessage, Page, Request

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
TOKEN = "a-token-for-the-tests-alone"


class Window:
    """A browser's window on a dashboard, and what went wrong in it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.problems: list[str] = []
        self.expected: list[str] = []
        """Parts of problems that a test provokes."""
        page.on("console", self._note_console)
        page.on("pageerror", lambda each: self.problems.append(str(each)))
        page.on("request", self._note_request)

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _note_request(self, request: Request) -> None:
        if not self._is_ours(request.url):
            self.problems.append(f"asks {request.url}")

    def _is_ours(self, url: str) -> bool:
        return url.startswith(("data:", "blob:")) or urlsplit(url).netloc == urlsplit(self.address).netloc

    async def go(self, view: str) -> None:
        """Open a view: map, pending, flow, …"""
        await self.page.evaluate("view => { location.hash = `#/${view}` }", view)

    def check(self) -> None:
        """Raise AssertionError for whatever went wrong and was not expected."""
        found = [each for each in self.problems if not any(part in each for part in self.expected)]
        assert not found, found


Opened = Callable[..., Awaitable[Window]]
Serve = Callable[..., Awaitable[str]]
