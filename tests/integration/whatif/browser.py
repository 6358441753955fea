"""A headless Chromium that opens files and tells what it saw: console, requests, and what a script reads of them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
TIMEOUT_S = 90.0

Doc = Mapping[str, Any]


@dataclass(slots=True)
class Seen:
    """One page as the browser had it."""

    read: Any = None
    """What the script gave."""
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Everything it asked for besides the page itself."""


def look(pages: Mapping[str, Path], script: str, folder: Path) -> dict[str, Seen]:
    """Open pages one after the other in one browser, whose profile is kept in `folder`."""
    return asyncio.run(_look(pages, script, folder))


async def _look(pages: Mapping[str, Path], script: str, folder: Path) -> dict[str, Seen]:
    assert CHROMIUM is not None
    browser = await asyncio.create_subprocess_exec(
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(TIMEOUT_S), aiohttp.ClientSession() as session:
            address = await _address(browser)
            async with session.ws_connect(address, max_msg_size=0) as socket:
                tools = _DevTools(socket)
                return {name: await tools.visit(path.resolve().as_uri(), script) for name, path in pages.items()}
    finally:
        browser.kill()
        await browser.wait()


async def _address(browser: asyncio.subprocess.Process) -> str:
    assert browser.stderr is not None
    said = ""
    async for line in browser.stderr:
        said += line.decode(errors="replace")
        if found := re.search(r"DevTools listening on (ws://\S+)", said):
            return found[1]
    raise AssertionError(f"Chromium ended: {said}")


class _DevTools:
    """The protocol, as far as it is needed."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._events: list[Doc] = []

    async def visit(self, address: str, script: str) -> Seen:
        target = await self._call("Target.createTarget", {"url": "about:blank"})
        attached = await self._call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        session = str(attached["sessionId"])
        for part in ("Page", "Runtime", "Log", "Network"):
            await self._call(f"{part}.enable", {}, session)
        self._events.clear()
        await self._call("Page.navigate", {"url": address}, session)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(await self._next())
        found = await self._call("Runtime.evaluate", {"expression": script, "returnByValue": True}, session)
        assert "exceptionDetails" not in found, found
        seen = Seen(found["result"].get("value"))
        for event in self._events:
            self._note(event, address, seen)
        await self._call("Target.closeTarget", {"targetId": target["targetId"]})
        return seen

    def _note(self, event: Doc, address: str, seen: Seen) -> None:
        told = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent" and told["request"]["url"] not in (address, "data:,"):
            seen.requests.append(told["request"]["url"])
        elif event["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            seen.console.append(json.dumps(told))
        elif event["method"] == "Log.entryAdded":
            seen.console.append(told["entry"]["text"])

    async def _call(self, method: str, params: Doc, session: str | None = None) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        await self._socket.send_json(message if session is None else {**message, "sessionId": session})
        while True:
            answer = await self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._events.append(answer)

    async def _next(self) -> Doc:
        found: Doc = await self._socket.receive_json()
        return found if "method" in found or "id" in found else {"method": ""}
