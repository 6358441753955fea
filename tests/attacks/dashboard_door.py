"""A dashboard in the test's own process, on a free port of loopback, and requests to it that are written byte by byte
where a client would refuse to send them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from support.filled_cluster import FilledCluster
from tonnage.clock import SystemClock
from tonnage.dashboard.server.program import DashboardSettings, shown

TOKEN = "a-token-for-the-tests-alone"
PAGE = "X-Tonnage-Dashboard: 1"


class Answer:
    """One answer: its code, its headers (in small letters; of several of a name the last), its body."""

    def __init__(self, came: bytes) -> None:
        head, _, self.body = came.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.code = int(first.split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


class Door:
    """A dashboard, and requests to it on a connection each."""

    def __init__(self, address: str, cluster: FilledCluster) -> None:
        self.address, self.cluster = address, cluster
        self.port = urlsplit(address).port or 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def connect(self, path: str, *lines: str, method: str = "GET", host: str | None = "") -> asyncio.StreamReader:
        """Send a head, and give the connection to read from; `host` None leaves the header out."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        hosts = () if host is None else (f"Host: {host or self.host}",)
        sent = "\r\n".join([f"{method} {path} HTTP/1.1", *hosts, *lines, "", ""])
        writer.write(sent.encode("utf-8", "surrogateescape"))
        await writer.drain()
        self.writer = writer
        return reader

    async def ask(self, path: str, *lines: str, method: str = "GET", host: str | None = "") -> Answer:
        reader = await self.connect(path, *lines, "Connection: close", method=method, host=host)
        came = await asyncio.wait_for(reader.read(), 20)
        self.writer.close()
        return Answer(came)

    async def post(self, path: str, body: str, *lines: str) -> Answer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = [f"POST {path} HTTP/1.1", f"Host: {self.host}", f"Content-Length: {len(body.encode())}", *lines]
        writer.write("\r\n".join([*head, "Connection: close", "", ""]).encode() + body.encode())
        came = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return Answer(came)

    async def cookie(self) -> str:
        answer = await self.post("/login", json.dumps({"token": TOKEN}), PAGE)
        assert answer.code == 200
        return "Cookie: " + answer.headers["set-cookie"].partition(";")[0]


@asynccontextmanager
async def opened(**settings: object) -> AsyncIterator[Door]:
    cluster = FilledCluster(clock=SystemClock())
    async with shown(cluster, DashboardSettings(port=0, token=TOKEN, **settings)) as address:  # type: ignore[arg-type]
        yield Door(address, cluster)


BEARER = f"Authorization: Bearer {TOKEN}"
