"""The dashboard in a real browser: the machine's chromium, driven by playwright; without one the tests skip.

`Window` is a browser's window on a dashboard. What no page of ours may do fails the test that it happened in: an error
in the console, a request that leaves the host, an exception that nobody caught.

A browser takes two seconds to start, so that there is one for all tests of a worker, with a profile of its own for each
window. It lives in the event loop that it was started in: every test and every fixture of this folder runs in the
session's loop, by the two hooks below, and needs no mark for it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from dashboard_window import CHROMIUM, TOKEN, Opened, Serve, Window
from playwright.async_api import Browser, BrowserContext, async_playwright, expect

from support.filled_cluster import FilledCluster
from tonnage.clock import SystemClock
from tonnage.dashboard.server.program import DashboardSettings, shown
from tonnage.dashboard.status.keeper import StatusKeeper

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)
            if inspect.iscoroutinefunction(getattr(item, "obj", None)):
                item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """Asynchronous fixtures of this folder run where its tests run. (Those of a whole session say so themselves.)"""
    is_async = inspect.iscoroutinefunction(fixturedef.func) or inspect.isasyncgenfunction(fixturedef.func)
    if is_async and Path(inspect.getfile(fixturedef.func)).is_relative_to(HERE):
        fixturedef.func._loop_scope = "session"  # what pytest_asyncio.fixture(loop_scope="session") sets
    return (yield)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on the PATH (Debian: apt-get install chromium), and $CHROMIUM names none")
    async with async_playwright() as playwright:
        found = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield found
        await found.close()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves clusters until the test's windows are closed: `address = await serve(shown_cluster, data_dir=…)`."""
    async with AsyncExitStack() as stack:

        async def served(cluster: FilledCluster, status: StatusKeeper | None = None, **settings: Any) -> str:
            return await stack.enter_async_context(
                shown(cluster, DashboardSettings(**{"port": 0, "token": TOKEN, **settings}), status)
            )

        yield served


@pytest.fixture
async def open_window(browser: Browser, serve: Serve) -> AsyncIterator[Opened]:
    """Opens windows on an address, each in a browser profile of its own; all are checked at the end of the test. They
    show `view`; the landing page if it is empty."""
    windows: list[Window] = []
    contexts: list[BrowserContext] = []

    async def opened(address: str, view: str = "map", **options: object) -> Window:
        context = await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        window = Window(await context.new_page(), address)
        windows.append(window)
        await window.page.goto(address)
        if view:
            await expect(window.page.locator("nav a, .login").first).to_be_visible()
        if view and await window.page.locator("nav a").count():
            await window.go(view)
        return window

    yield opened
    for context in contexts:
        await context.close()
    for window in windows:
        window.check()


@pytest.fixture
def shown_cluster() -> FilledCluster:
    """A cluster that a test fills by `put`, without any server behind it."""
    return FilledCluster(clock=SystemClock())


@pytest.fixture
async def window(shown_cluster: FilledCluster, serve: Serve, open_window: Opened) -> Window:
    """A window on `shown_cluster`."""
    return await open_window(await serve(shown_cluster))
