"""A TLS connection has a small read buffer, and what is longer than it arrives all the same."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from pathlib import Path

import pytest

from tonnage.certificates import ensure_identity
from tonnage.clock import SystemClock
from tonnage.serving.tls_buffers import READ_BUFFER_BYTES, bound_tls_buffers


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
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=identity.server_context()) as server:
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
