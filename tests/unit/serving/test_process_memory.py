"""A TLS connection has a small read buffer, and what is longer arrives all the same. Circles go by the clock."""

from __future__ import annotations

import asyncio
import gc
import ssl
import weakref
from asyncio.sslproto import SSLProtocol
from pathlib import Path

import pytest

from support.virtual_clock import VirtualClock
from tonnage.certificates import ensure_identity
from tonnage.clock import SystemClock
from tonnage.serving.process_memory import READ_BUFFER_BYTES, TIDY_EVERY_S, bound_tls_buffers, memory_kept_level
from tonnage.serving.server_tls import server_context


async def test_a_message_of_many_buffers_arrives_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", 256 << 10)
    bound_tls_buffers()
    assert SSLProtocol.max_size == READ_BUFFER_BYTES
    identity = ensure_identity(tmp_path / "pki", ("127.0.0.1",), SystemClock().now())
    message = bytes(range(256)) * (READ_BUFFER_BYTES // 256) * 20 + b"the end"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(len(message)))
        await writer.drain()
        writer.close()

    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=identity.ca_pem.decode())
    async with await asyncio.start_server(
        answer, "127.0.0.1", 0, ssl=server_context(identity.cert_path, identity.key_path)
    ) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client)
        writer.write(message)
        assert await reader.readexactly(len(message)) == message
        writer.close()


def test_a_buffer_that_is_smaller_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", 16 << 10)
    bound_tls_buffers()
    assert SSLProtocol.max_size == 16 << 10


def test_a_python_that_calls_it_otherwise_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SSLProtocol, "max_size")
    bound_tls_buffers()
    assert not hasattr(SSLProtocol, "max_size")


class Circle:
    """An object that only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


async def test_circles_go_by_the_clock_however_few_objects_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", 16 << 10)
    clock, was_on = VirtualClock(), gc.isenabled()
    gc.disable()  # as if there were never objects enough
    try:
        async with memory_kept_level(clock):
            young = weakref.ref(Circle())
            await clock.run_for(TIDY_EVERY_S + 1)
            assert young() is None
            lives = Circle()
            old = weakref.ref(lives)
            await clock.run_for(2 * TIDY_EVERY_S)
            del lives
            await clock.run_for(10 * TIDY_EVERY_S)
            assert old() is None
        circle = weakref.ref(Circle())
        await clock.run_for(20 * TIDY_EVERY_S)
        assert circle() is not None  # nobody tidies up after the block
    finally:
        if was_on:
            gc.enable()
