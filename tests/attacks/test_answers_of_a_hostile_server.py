"""HTTP answers made to be read in two ways, to have no end, or to be taken for another's: the client against them.

The bytes come from a real socket or straight into the reader. What cannot be read in one way only is refused, and a
connection with a byte too many is never used again.
"""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tonnage.client.config.connection import KubeconfigCluster, ServerConnection
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.client.transport import answer_reader, wire
from tonnage.client.transport.answer_reader import AnswerReader, NotHttp
from tonnage.client.transport.connection_pool import Connections, HungUp
from tonnage.client.transport.wire import HttpResponse
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Node

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SECOND = OK + b"Content-Length: 6\r\n\r\nforged"


def read(data: bytes, *, to_head: bool = False) -> HttpResponse | None:
    reader = AnswerReader()
    reader.expect(to_head=to_head)
    return reader.feed(data)


# -- what is read in two ways is not read -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(OK + b"Content-Length: 5\r\nContent-Length: 3\r\n\r\nhello", "'5, 3' bytes long", id="lengths"),
        pytest.param(OK + b"Content-Length: 5\r\nContent-Length: \r\n\r\nhello", "'5, ' bytes long", id="empty-length"),
        pytest.param(OK + b"Content-Length: +5\r\n\r\nhello", "'+5' bytes long", id="plus"),
        pytest.param(OK + b"Content-Length: 5_0\r\n\r\nhello", "'5_0' bytes long", id="underscore"),
        pytest.param(OK + b"Content-Length: 0x5\r\n\r\nhello", "'0x5' bytes long", id="prefix"),
        pytest.param(OK + b"Content-Length: \xb2\r\n\r\nhe", "bytes long", id="superscript"),
        pytest.param(OK + b"Content-Length: \xc2\xb2\r\n\r\nhe", "bytes long", id="utf-8-digit"),
        pytest.param(OK + b"Content-Length:\r\n\r\n", "'' bytes long", id="no-number"),
        pytest.param(OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "bytes long", id="5000-digits"),
        pytest.param(
            OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "has a length", id="both"
        ),
        pytest.param(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "not understood", id="te-list"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "stood", id="te-twice"),
        pytest.param(OK + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "not understood", id="te-other"),
        pytest.param(OK + b"Transfer-Encoding: identity\r\n\r\n", "not understood", id="te-identity"),
        pytest.param(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "of HTTP/1.0", id="te-old"),
        pytest.param(OK + b"Content-Length : 5\r\n\r\nhello", "is not a header", id="space-before-colon"),
        pytest.param(OK + b"X: a\r\n folded\r\nContent-Length: 0\r\n\r\n", "is not a header", id="folded"),
        pytest.param(OK + b" X: a\r\nContent-Length: 0\r\n\r\n", "is not a header", id="folded-first"),
        pytest.param(OK + b"X: a\nContent-Length: 5\r\n\r\nhello", "is not a header", id="bare-lf"),
        pytest.param(OK + b"X: a\rContent-Length: 5\r\n\r\nhello", "is not a header", id="bare-cr"),
        pytest.param(OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n", "is not a header", id="nul"),
        pytest.param(OK + b"X\r\nContent-Length: 0\r\n\r\n", "is not a header", id="no-colon"),
        pytest.param(OK + b": a\r\nContent-Length: 0\r\n\r\n", "is not a header", id="no-name"),
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n\r\n\r\n", "begins with", id="all-bare-lf"),
        pytest.param(b"HTTP/1.1  200 OK\r\n\r\n", "begins with", id="two-spaces"),
        pytest.param(b"HTTP/1.1 2000 OK\r\n\r\n", "begins with", id="four-digits"),
        pytest.param(b"HTTP/1.1 -20 OK\r\n\r\n", "begins with", id="negative-code"),
        pytest.param(b"HTTP/1.1 099 OK\r\n\r\n", "begins with", id="code-below-100"),
        pytest.param(b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n", "begins with", id="superscript-code"),
        pytest.param(b"HTTP/1.9 200 OK\r\n\r\n", "begins with", id="version-1.9"),
        pytest.param(b"HTTP/2.0 200 OK\r\n\r\n", "begins with", id="version-2"),
        pytest.param(b"\r\n" + OK + b"Content-Length: 0\r\n\r\n", "begins with", id="empty-line-first"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "code 101", id="switching"),
        pytest.param(OK + b"Content-Encoding: gzip, gzip\r\nContent-Length: 1\r\n\r\nx", "encoded as", id="gzip-twice"),
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(data, told):
    with pytest.raises(NotHttp, match=told.replace("+", r"\+")):
        read(data)


@pytest.mark.parametrize(
    "size",
    [b"-5", b"1_0", b"+5", b"0x5", b"", b" 5", b"5 5", b"5,5", b"g", b"5\x0b", b"0" * 17 + b"5", b"5\n", b"\xb2"],
)
def test_a_chunk_size_is_hexadecimal_digits_and_nothing_else(size):
    with pytest.raises(NotHttp):
        read(CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "data",
    [
        b"5\r\nhello0\r\n\r\n",  # no line end after the chunk
        b"5\r\nhello\n0\r\n\r\n",
        b"5;a\nb\r\nhello\r\n0\r\n\r\n",  # a line end in an extension
        b"5\r\nhello\r\n0\r\nno trailer\r\n\r\n",
        b"5\r\nhello\r\n0\r\nX: a\nY: b\r\n\r\n",
    ],
)
def test_chunks_and_trailers_of_another_shape_are_refused(data):
    with pytest.raises(NotHttp):
        read(CHUNKED + data)


def test_what_differs_only_in_form_is_still_read():
    assert read(OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello").body == b"hello"
    assert read(CHUNKED + b"0005 ; a=b\r\nhello\r\n0;x\r\nX: y\r\n\r\n").body == b"hello"
    assert read(b"HTTP/1.1 200\r\ncontent-length:0\r\n\r\n").code == 200
    kept = read(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")
    assert kept is not None and not kept.closes
    assert read(OK + b"Connection: keep-alive\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n").closes


@pytest.mark.parametrize("code", [204, 304])
def test_an_answer_that_has_no_body_has_none_whatever_it_says(code):
    answer = read(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (code, len(SECOND), SECOND))
    assert answer is not None and (answer.code, answer.body, answer.closes) == (code, b"", True)


def test_an_answer_to_head_has_no_body_whatever_it_says():
    answer = read(OK + b"Content-Length: 50\r\n\r\n", to_head=True)
    assert answer is not None and (answer.body, answer.closes) == (b"", False)
    assert read(OK + b"Content-Length: 6\r\n\r\nforged", to_head=True).closes


# -- what has no end is given up --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(b"HTTP/1.1 " + b"2" * 70_000, "no end within", id="status-line"),
        pytest.param(OK + b"X: " + b"a" * 70_000, "no end within", id="header"),
        pytest.param(OK + b"a:b\r\n" * 5_000 + b"\r\n", "5000 headers", id="headers"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100, "announced by 6 others", id="announcements"),
        pytest.param(b"HTTP/1.1 103 E\r\nX: %s\r\n\r\n" % (b"a" * 30_000) * 4, "no end within", id="announced-heads"),
        pytest.param(CHUNKED + b"5;" + b"a" * 5_000, "the line of a chunk has no end", id="extension"),
        pytest.param(CHUNKED + (b"1;%s\r\nx\r\n" % (b"a" * 4_000)) * 6, "take more than what is in", id="extensions"),
        pytest.param(CHUNKED + b"0\r\n" + b"X: y\r\n" * 5_000, "the trailers of the answer have no end", id="trailers"),
        pytest.param(OK + b"Content-Length: 99999999999\r\n\r\n", "longer than 268435456 bytes", id="length"),
        pytest.param(CHUNKED + b"fffffffff\r\n", "longer than 268435456 bytes", id="chunk"),
    ],
)
def test_what_has_no_end_is_given_up(data, told):
    with pytest.raises(NotHttp, match=told):
        read(data)


def test_a_body_is_bounded_in_every_form(monkeypatch):
    monkeypatch.setattr(answer_reader, "MAX_BODY_BYTES", 1000)
    bomb = gzip.compress(bytes(1_000_000))
    bodies = (
        CHUNKED + b"64\r\n%s\r\n" % bytes(100) * 11,
        b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1001),
        OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(bomb), bomb[:1000]),
    )
    assert len(bomb) > 1000
    small_bomb = gzip.compress(bytes(100_000))
    for data in (
        *bodies,
        OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(small_bomb), small_bomb),
    ):
        with pytest.raises(NotHttp, match="longer than 1000 bytes"):
            read(data)


def test_gzip_is_one_whole_stream():
    packed = gzip.compress(b"hello")
    for body in (packed[:-1], packed + b"x", packed + packed, b"hello", zlib.compress(b"hello")):
        with pytest.raises(NotHttp, match="gzip"):
            read(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def test_pieces_of_a_byte_cost_no_more_than_their_number():
    data = (
        OK + b"X: " + b" " * 60_000 + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n"
    )
    reader, answer = AnswerReader(), None
    began_at = time.process_time()
    for at in range(len(data)):
        answer = reader.feed(data[at : at + 1])
    assert answer is not None and answer.body == b"x" * 10_000
    assert time.process_time() - began_at < 2.0  # 0.1 s; a reader that looks at all it has each time takes a minute


# -- what nobody asked for is nobody's answer -------------------------------------------------------------------------

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


@asynccontextmanager
async def served(serve: Serve):
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
    pool = Connections("127.0.0.1", listening.sockets[0].getsockname()[1], limit=1)
    try:
        yield pool
    finally:
        pool.close()
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def ask(pool: Connections, request: bytes = REQUEST) -> bytes:
    return (await pool.exchange(request, context=None, may_repeat=False)).body


def first_with(extra: bytes) -> Serve:
    """A server whose first answer has bytes behind it; every later connection answers honestly."""

    async def serve(reader, writer, number) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(OK + b"Content-Length: 1\r\n\r\n%d%s" % (number, extra if number == 0 else b""))

    return serve


@pytest.mark.parametrize("extra", [SECOND, SECOND[:10], b"\r\n", b"\0", b"x" * 100_000])
async def test_bytes_after_an_answer_are_not_the_next_answer(extra):
    async with served(first_with(extra)) as pool:
        assert [await ask(pool), await ask(pool), await ask(pool)] == [b"0", b"1", b"1"]


async def test_a_body_longer_than_its_length_is_not_the_next_answer():
    async def serve(reader, writer, number) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            body = SECOND if number == 0 else b"1"
            writer.write(OK + b"Content-Length: 1\r\n\r\n" + body)

    async with served(serve) as pool:
        assert [await ask(pool), await ask(pool)] == [b"H", b"1"]


async def test_bytes_that_came_while_nobody_listened_are_not_the_next_answer():
    """They lie in the kernel's buffer: the loop was busy, and has not read them when the next request goes out."""
    sent = asyncio.Event()

    async def serve(reader, writer, number) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Content-Length: 1\r\n\r\n%d" % number)
        if number == 0:
            await go_on.wait()
            writer.write(SECOND)
            await writer.drain()
            sent.set()
        await reader.read()

    go_on = asyncio.Event()
    async with served(serve) as pool:
        assert await ask(pool) == b"0"
        connection = pool._idle[0]
        assert connection._transport is not None
        connection._transport.pause_reading()  # as a loop that is busy does not read
        go_on.set()
        await sent.wait()
        assert await ask(pool) == b"1"


async def test_an_answer_before_the_request_was_taken_ends_the_connection():
    async def serve(reader, writer, number) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Content-Length: 1\r\n\r\n%d" % number)
        await asyncio.Event().wait()  # the body stays where it is

    async with served(serve) as pool:
        long = b"POST / HTTP/1.1\r\nContent-Length: 50000000\r\n\r\n" + bytes(50_000_000)
        assert await ask(pool, long) == b"0"
        assert await ask(pool) == b"1"


async def test_a_second_answer_to_an_announced_one_is_not_taken():
    async def serve(reader, writer, number) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            extra = SECOND if number == 0 else b""
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\n%d%s" % (number, extra))

    async with served(serve) as pool:
        assert [await ask(pool), await ask(pool)] == [b"0", b"1"]


async def test_an_answer_in_two_ways_fails_its_own_request_and_no_other():
    async def serve(reader, writer, number) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            if number == 0:
                writer.write(CHUNKED + b"-5\r\n" + SECOND)
            else:
                writer.write(OK + b"Content-Length: 1\r\n\r\n%d" % number)

    async with served(serve) as pool:
        with pytest.raises(NotHttp, match="a chunk is '-5' bytes long"):
            await ask(pool)
        assert await ask(pool) == b"1"


async def test_an_end_without_an_answer_is_an_end():
    async def serve(reader, writer, number) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Content-Length: 10\r\n\r\nhalf")

    async with served(serve) as pool:
        with pytest.raises(HungUp):
            await ask(pool)


# -- programs hear of it in words they know ---------------------------------------------------------------------------


@asynccontextmanager
async def client_of(answer: bytes):
    async def serve(reader, writer, _number) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answer)
            writer.write_eof()

    async with (
        served(serve) as pool,
        Client.connect(ServerConnection(KubeconfigCluster(f"http://127.0.0.1:{pool._port}")), timeout_s=5.0) as client,
    ):
        yield client


def answer_of(body: bytes, code: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (code, len(body), body)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"null", b"[]", b"7", b'"x"', b"{", b"\xff\xfe", b'{"a":"\xff"}', b'{"metadata":7}', b'{"items":7}'),
        *(b'{"metadata":{"resourceVersion":7,"continue":[]},"items":[7,null]}', b"[" * 100_000, b'{"a":' * 5_000),
        *(b"9" * 5_000, b'{"kind":"Status","code":' + b"9" * 500 + b"}"),
        b'{"kind":"Secret","metadata":{"name":"a"}}',
    ],
    ids=range(16),
)
async def test_a_body_of_any_shape_is_read_or_an_error_that_programs_expect(body):
    for code in (200, 404, 500):
        async with client_of(answer_of(body, code)) as client:
            acts: list[Callable[[], Awaitable[object]]] = [
                lambda: client.get(Node, "n1", retry=False),
                lambda: client.get_doc(Node, "n1", retry=False),
                lambda: client.list(Node, retry=False),
                lambda: client.list(Node, retry=False, on_unreadable=lambda _: None),
                lambda: client.list_docs(Node),
                lambda: client.patch_doc(Node, "n1", {}),
            ]
            for act in acts[: None if code == 200 else 1]:
                with suppress(TonnageError):
                    await act()
                    assert code == 200


@pytest.mark.parametrize("retry_after", [b"9" * 5_000, b"-1", b"\xb2", b"1_0", b"soon"])
async def test_a_time_to_wait_that_is_none_is_no_time(retry_after):
    answer = b"HTTP/1.1 404 X\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n" % retry_after
    async with client_of(answer) as client:
        with pytest.raises(TonnageError) as caught:
            await client.get(Node, "n1")
    assert getattr(caught.value, "retry_after_s", 0) == 0


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 3\r\n\r\nhello",
        CHUNKED + b"-5\r\nhello\r\n",
        CHUNKED + b"5\r\nhello",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"a:b\r\n" * 100_000,
        OK + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 X\r\n\r\n" + b"x" * 3_000_000,
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000,
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
    ids=range(12),
)
async def test_a_stream_that_is_none_is_an_error_that_programs_expect(answer):
    async with client_of(answer) as client:
        with pytest.raises(TonnageError):
            async with client.watch(Node) as lines:
                assert [batch async for batch in lines] == [], "nothing came"
                raise Disconnected("GET", "", "an empty stream is one too", in_doubt=False)


async def test_a_line_without_an_end_is_given_up(monkeypatch):
    monkeypatch.setattr(wire, "MAX_LINE_BYTES", 100_000)
    async with client_of(OK + b"\r\n" + b"x" * 1_000_000) as client:
        with pytest.raises(Disconnected, match="a line of the stream is longer than 100000 bytes"):
            async with client.watch(Node) as lines:
                async for _ in lines:
                    pass


class Pieces:
    """A stream of these pieces."""

    code, headers = 200, {}  # type: ignore[var-annotated]  # a Stream has them

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def read(self) -> bytes:
        return b"".join(self._pieces)

    async def chunks(self):
        for piece in self._pieces:
            yield piece


async def test_lines_are_whole_however_they_come():
    data = b'{"a":1}\n\n{"b":2}\nhalf'
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))], [data[:7], data[7:]]):
        lines = [line for batch in [batch async for batch in wire.lines_of(Pieces(*pieces))] for line in batch]
        assert lines == [b'{"a":1}', b"", b'{"b":2}']
