"""A listener with room for a few: who comes next gets in, and running out of descriptors is not a busy loop."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

import tonnage
from tonnage.connection_budget import ConnectionLimits
from tonnage.http_connection import connection_of
from tonnage.listener import Listener, listening

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def small(*, strangers: int = 4, known: int = 2) -> AsyncIterator[Listener]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        connection = connection_of(request)
        assert connection is not None
        if "Token" in request.headers and not connection.let_in():
            return web.Response(status=429)
        return web.Response(text="ok")

    limits = ConnectionLimits(strangers, strangers, known)
    async with listening(handle, host="127.0.0.1", port=0, tls=None, limits=limits, grace_s=0.1) as listener:
        yield listener


class Caller:
    """One connection to a listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, listener: Listener, sent: bytes = b"") -> Caller:
        caller = cls(*await asyncio.open_connection("127.0.0.1", listener.port))
        caller.writer.write(sent)
        return caller

    async def code(self) -> int:
        """The code of the next answer; 0 when the connection is closed instead."""
        try:
            line = await asyncio.wait_for(self.reader.readline(), 10)
            while line and await asyncio.wait_for(self.reader.readline(), 10) != b"\r\n":
                pass
            if line:
                await self.reader.readexactly(2 if b" 200 " in line else 22)
        except ConnectionError:
            return 0
        return int(line.split()[1]) if line else 0

    async def is_closed(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), 10) == b""
        except ConnectionError:
            return True


async def test_strangers_who_ask_nothing_make_room_for_the_next():
    async with small(strangers=4) as listener:
        idle = [await Caller.to(listener, b"GET / HTTP/1.1\r\nX: ") for _ in range(12)]
        next_one = await Caller.to(listener, HEAD)
        assert await next_one.code() == 200
        assert await idle[0].is_closed()
        assert listener.budget.strangers <= 4
        for each in (*idle, next_one):
            each.writer.close()


async def test_a_burst_of_honest_clients_is_served_whole():
    async with small(strangers=4, known=100) as listener:
        callers = [await Caller.to(listener, HEAD.replace(b"\r\n\r\n", b"\r\nToken: t\r\n\r\n")) for _ in range(60)]
        assert [await each.code() for each in callers] == [200] * 60
        assert (listener.budget.strangers, listener.budget.known) == (0, 60)
        for each in callers:
            each.writer.close()


async def test_the_longest_idle_of_those_who_are_known_makes_room_for_another():
    shown = HEAD.replace(b"\r\n\r\n", b"\r\nToken: t\r\n\r\n")
    async with small(known=2) as listener:
        first, second, third = [await Caller.to(listener) for _ in range(3)]
        for each in (first, second, third):
            each.writer.write(shown)
            assert await each.code() == 200
        assert await first.is_closed()
        second.writer.write(shown)
        assert await second.code() == 200
        for each in (first, second, third):
            each.writer.close()


async def test_out_of_descriptors_it_tries_once_and_rests(caplog: pytest.LogCaptureFixture):
    class OutOfDescriptors(socket.socket):
        tries = 0

        def accept(self):
            self.tries += 1
            raise OSError(errno.EMFILE, "Too many open files")

    async with small() as listener:
        with OutOfDescriptors() as bare:
            listener._accept(bare)
            assert bare.tries == 1
    assert "No connection can be accepted: Too many open files" in caplog.text


async def test_a_port_that_is_taken_is_an_error():
    async with small() as listener:
        with pytest.raises(OSError):
            # The handler is of no type that would do, and is never asked: the port is refused before.
            async with listening(None, host="127.0.0.1", port=listener.port, tls=None):  # type: ignore[arg-type]
                pass


def test_every_program_listens_through_the_listener():
    source = Path(tonnage.__file__).parent
    ways = ("TCPSite", "ServerRunner", "start_server", "create_server", "connect_accepted_socket", "run_app")
    found = [
        path.name
        for path in source.rglob("*.py")
        if any(f"{way}(" in path.read_text() for way in ways) and "testing" not in path.parts
    ]
    assert found == ["listener.py"]
