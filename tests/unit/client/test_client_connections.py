"""The pool of connections and what is read from them, against servers that speak HTTP byte by byte."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.client.config.connection import KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.client.errors import Disconnected, NoCredentials
from tonnage.client.http import Client
from tonnage.client.transport import answer_reader, connection_pool
from tonnage.client.transport.answer_reader import AnswerReader, NotHttp
from tonnage.client.transport.connection_pool import Connections, HungUp, NotConnected
from tonnage.client.transport.http_transport import HttpTransport
from tonnage.client.transport.wire import HttpResponse, Request
from tonnage.clock import SystemClock
from tonnage.objects.core_v1 import Node

NODE = b'{"kind":"Node","metadata":{"name":"n1"}}'
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def read(*pieces: bytes) -> HttpResponse | None:
    reader, answer = AnswerReader(), None
    for piece in pieces:
        assert answer is None, "there was more than one answer"
        answer = reader.feed(piece)
    return answer


# -- answers ----------------------------------------------------------------------------------------------------------

BY_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Thing:  a: b \r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"5;ext=1\r\nhello\r\n1\r\n\r\r\n00a\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
)
ANNOUNCED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + BY_LENGTH
ZIPPED = gzip.compress(b"hello " * 100, mtime=0)
COMPRESSED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(ZIPPED), ZIPPED)
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "code", "body"),
    [
        (BY_LENGTH, 200, b"hello"),
        (CHUNKED, 404, b"hello\r0123456789"),
        (ANNOUNCED, 200, b"hello"),
        (COMPRESSED, 200, b"hello " * 100),
        (EMPTY, 204, b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, b""),
    ],
)
def test_answers_of_every_form_are_read_however_they_come(data, code, body):
    whole = read(data)
    assert whole is not None and (whole.code, whole.body) == (code, body)
    by_byte = read(*(data[i : i + 1] for i in range(len(data))))
    assert by_byte is not None and (by_byte.code, by_byte.body, by_byte.headers) == (code, body, whole.headers)


def test_headers_are_found_in_lower_case_and_warnings_are_all_kept():
    answer = read(
        b'HTTP/1.1 200 OK\r\nWARNING: 299 - "a"\r\nwarning: 299 - "b"\r\nX-Thing:  a: b \r\nContent-Length: 0\r\n\r\n'
    )
    assert answer.headers["x-thing"] == "a: b" and answer.warnings == ('299 - "a"', '299 - "b"')


@settings(max_examples=tries(100))
@given(
    body=st.binary(max_size=300),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=10),
    pieces=st.lists(st.integers(1, 60), min_size=1, max_size=10),
)
def test_a_body_in_any_chunks_and_pieces_is_read_as_it_was(body, sizes, pieces):
    chunks, rest, turn = b"", body, 0
    while rest:
        size = sizes[turn % len(sizes)]
        piece, rest, turn = rest[:size], rest[size:], turn + 1
        chunks += b"%x\r\n%s\r\n" % (len(piece), piece)
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    parts, turn = [], 0
    while data:
        size = pieces[turn % len(pieces)]
        parts.append(data[:size])
        data, turn = data[size:], turn + 1
    answer = read(*parts)
    assert answer is not None and answer.body == body


def test_an_answer_without_a_length_ends_with_the_connection():
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.0 502 Bad Gateway\r\n\r\n<html>") is None
    assert reader.feed(b"</html>") is None
    answer = reader.end()
    assert answer is not None and (answer.code, answer.body) == (502, b"<html></html>")
    assert answer.closes


def test_a_stream_may_be_longer_than_a_body_as_long_as_it_is_taken(monkeypatch):
    monkeypatch.setattr(answer_reader, "MAX_BODY_BYTES", 1000)
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") is None
    for _ in range(5):
        assert reader.feed(b"1f4\r\n%s\r\n" % (b"x" * 500)) is None
        assert (reader.head.code, reader.take()) == (200, b"x" * 500)
    assert reader.feed(b"0\r\n\r\n").body == b""


def test_one_reader_reads_one_answer_after_the_other():
    reader = AnswerReader()
    for _ in range(3):
        assert not reader.has_begun
        assert reader.feed(BY_LENGTH[:30]) is None and reader.has_begun
        assert reader.feed(BY_LENGTH[30:]).body == b"hello"
        assert reader.feed(CHUNKED).code == 404


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "the answer begins with 'SSH-2.0-OpenSSH_9.6'"),
        (b"HTTP/1.1 OK\r\n\r\n", "the answer begins with 'HTTP/1.1 OK'"),
        (b"x" * 70_000, "the head of the answer has no end"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "the answer is '-5' bytes long"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 0\r\n\r\n", "the answer is encoded as 'br'"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", "a chunk is longer than it says"),
    ],
)
def test_what_is_not_http_is_told(data, told):
    with pytest.raises(NotHttp, match=f"^{told}".replace("(", r"\(")):
        read(data)


# -- connections ------------------------------------------------------------------------------------------------------

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


@asynccontextmanager
async def served(serve: Serve, limit: int = 4):
    """A pool in front of a server; `serve` gets each connection with its number, from 0."""
    count = 0
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        task = asyncio.ensure_future(serve(reader, writer, count))
        count += 1
        tasks.add(task)
        task.add_done_callback(lambda _: writer.close())

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    pool = Connections("127.0.0.1", listening.sockets[0].getsockname()[1], limit=limit)
    try:
        yield pool
    finally:
        pool.close()
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def ask(pool: Connections, *, may_repeat: bool = False) -> bytes:
    return (await pool.exchange(REQUEST, context=None, may_repeat=may_repeat)).body


async def noticed_as_closed(pool: Connections) -> None:
    while pool._idle[0].is_open:  # noqa: ASYNC110  the loop notices, and tells nobody
        await asyncio.sleep(0)


def numbered(number: int) -> bytes:
    body = b"%d" % number
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def answer_always(reader, writer, number) -> None:
    while await reader.readuntil(b"\r\n\r\n"):
        writer.write(numbered(number))


async def test_one_connection_serves_one_request_after_the_other():
    async with served(answer_always) as pool:
        assert [await ask(pool) for _ in range(5)] == [b"0"] * 5


async def test_requests_at_once_have_a_connection_each_up_to_the_limit():
    arrived, go = asyncio.Semaphore(0), asyncio.Event()

    async def wait(reader, writer, number) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            arrived.release()
            await go.wait()
            writer.write(numbered(number))

    async with served(wait, limit=3) as pool:
        asking = [asyncio.create_task(ask(pool)) for _ in range(7)]
        for _ in range(3):
            await arrived.acquire()
        go.set()
        numbers = await asyncio.gather(*asking)
        assert set(numbers) == {b"0", b"1", b"2"}


async def test_a_connection_that_the_server_closed_while_idle_is_not_used():
    closed = asyncio.Event()

    async def once(reader, writer, number) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(numbered(number))
        if number == 0:
            writer.close()
            await writer.wait_closed()
            closed.set()
        else:
            await answer_always(reader, writer, number)

    async with served(once) as pool:
        assert await ask(pool) == b"0"
        await closed.wait()
        await noticed_as_closed(pool)
        assert await ask(pool) == b"1"


async def hang_up_on_the_second(reader, writer, number) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(numbered(number))
    if number == 0:
        await reader.readuntil(b"\r\n\r\n")  # and not a word in answer
    else:
        await answer_always(reader, writer, number)


async def test_a_read_on_a_connection_that_was_just_closed_is_repeated_on_another():
    async with served(hang_up_on_the_second) as pool:
        assert await ask(pool) == b"0"
        assert await ask(pool, may_repeat=True) == b"1"


async def test_a_write_on_a_connection_that_was_just_closed_is_not_repeated():
    async with served(hang_up_on_the_second) as pool:
        assert await ask(pool) == b"0"
        with pytest.raises(HungUp) as caught:
            await ask(pool)
        assert not caught.value.began
        assert await ask(pool) == b"1"


async def test_an_answer_that_has_begun_is_not_asked_for_again():
    async def half(reader, writer, number) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(numbered(number))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    async with served(half) as pool:
        await ask(pool)
        with pytest.raises(HungUp) as caught:
            await ask(pool, may_repeat=True)
        assert caught.value.began


async def test_a_connection_that_says_close_is_not_used_again():
    async def close(reader, writer, number) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n%d" % number)

    async with served(close) as pool:
        assert [await ask(pool) for _ in range(3)] == [b"0", b"1", b"2"]


async def test_a_connection_that_speaks_out_of_turn_is_not_used_again():
    async def chatty(reader, writer, number) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(numbered(number))
        await writer.drain()
        if number == 0:
            spoken.set()
            await go_on.wait()
            writer.write(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        await reader.read()

    spoken, go_on = asyncio.Event(), asyncio.Event()
    async with served(chatty) as pool:
        assert await ask(pool) == b"0"
        go_on.set()
        await noticed_as_closed(pool)
        assert await ask(pool) == b"1"


async def test_an_old_idle_connection_is_not_used_again(monkeypatch):
    monkeypatch.setattr(connection_pool, "IDLE_S", 0.0)
    async with served(answer_always) as pool:
        assert [await ask(pool), await ask(pool)] == [b"0", b"1"]


async def test_a_cancelled_request_does_not_leave_its_answer_to_the_next():
    arrived, go = asyncio.Event(), asyncio.Event()

    async def slow(reader, writer, number) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            if number == 0:
                arrived.set()
                await go.wait()
            writer.write(numbered(number))

    async with served(slow, limit=1) as pool:
        first = asyncio.create_task(ask(pool))
        await arrived.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        go.set()
        assert await ask(pool) == b"1"


async def test_closing_the_pool_ends_what_is_under_way():
    arrived = asyncio.Event()

    async def silent(reader, writer, number) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await reader.read()

    async with served(silent) as pool:
        asking = asyncio.create_task(ask(pool))
        await arrived.wait()
        pool.close()
        with pytest.raises(HungUp):
            await asking


async def test_a_stream_is_read_no_faster_than_it_is_taken():
    sent = asyncio.Event()

    async def flood(reader, writer, number) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 50_000_000)
        await writer.drain()
        sent.set()

    async with served(flood) as pool:
        connection = await pool.stream(REQUEST, context=None)
        for _ in range(100):
            await asyncio.sleep(0)
        assert connection.head.code == 200 and not sent.is_set() and connection._reader.held_bytes < 2_000_000
        read = [len(piece) async for piece in connection.body(asyncio.get_running_loop().time() + 60.0)]
        assert sum(read) == 50_000_000
        connection.abort()


async def test_nobody_there_is_told_with_the_cause():
    async with served(answer_always) as pool:
        port = pool._port
    with pytest.raises(NotConnected) as caught:
        await ask(Connections("127.0.0.1", port, limit=1))
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


async def test_what_is_not_http_is_no_answer():
    async def ssh(reader, writer, number) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await reader.read()

    async with served(ssh) as pool:
        url = f"http://127.0.0.1:{pool._port}"
        async with Client.connect(ServerConnection(KubeconfigCluster(url))) as client:
            with pytest.raises(Disconnected) as caught:
                await client.get(Node, "n1", retry=False)
    assert caught.value.detail == "the answer begins with 'SSH-2.0-OpenSSH_9.6'"


# -- what is written --------------------------------------------------------------------------------------------------


async def test_a_request_is_written_to_the_letter():
    seen: list[bytes] = []

    async def note(reader, writer, number) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0] or 0)
            seen.append(head + await reader.readexactly(length))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(NODE), NODE))

    async with served(note) as pool:
        host = f"127.0.0.1:{pool._port}"
        async with Client.connect(ServerConnection(KubeconfigCluster(f"http://{host}/base"))) as client:
            await client.get(Node, "n1")
            await client.patch(Node, "n1", {"a": 1})
            await client.delete(Node, "n1")
    head = (
        f"Host: {host}\r\nAccept: application/json\r\nUser-Agent: tonnage\r\nAccept-Encoding: identity\r\n"
    ).encode()
    path = b"/base/api/v1/nodes/n1"
    patch = b'Content-Type: application/merge-patch+json\r\nContent-Length: 7\r\n\r\n{"a":1}'
    assert seen == [
        b"GET %s HTTP/1.1\r\n%s\r\n" % (path, head),
        b"PATCH %s HTTP/1.1\r\n%s%s" % (path, head, patch),
        b"DELETE %s HTTP/1.1\r\n%sContent-Length: 0\r\n\r\n" % (path, head),
    ]


async def test_a_line_break_cannot_get_into_a_request():
    for token in ("a\r\nEvil: b", "a\rb", "a\0b", "a\x7fb", "a\ud800b"):
        connection = ServerConnection(
            KubeconfigCluster("https://127.0.0.1:1", skip_tls_verify=True), KubeconfigUser(token=token)
        )
        transport = HttpTransport(connection, clock=SystemClock(), user_agent="x")
        with pytest.raises(NoCredentials, match="a token or a name that is to be shown has a line break or another"):
            await transport.send(Request("GET", "/version"))
    plain = HttpTransport(
        ServerConnection(KubeconfigCluster("http://127.0.0.1:1")), clock=SystemClock(), user_agent="x"
    )
    for path in ("/a b", "/a\r\nEvil: b", "/ü"):
        with pytest.raises(ValueError, match="is not percent-encoded"):
            await plain.send(Request("GET", path))
