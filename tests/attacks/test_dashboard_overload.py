"""The dashboard under too much: large, slow and odd requests, readers that take nothing, questions that cost much."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
from collections.abc import AsyncIterator

import pytest
from dashboard_door import BEARER, PAGE, Answer, Door, opened

from tonnage.dashboard.questions.asking import MOST_WAITING, Asking, TooManyAsk
from tonnage.dashboard.server import change_stream
from tonnage.dashboard.wire import NoticeRow
from tonnage.testing.builders import node


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as found:
        yield found


# -- too much, too slow, too odd --------------------------------------------------------------------------------------


async def test_a_login_is_small(door: Door) -> None:
    assert (await door.post("/login", json.dumps({"token": "x" * 10_000}), PAGE)).code == 413


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "null", '"x"', '{"token": 1}', '{"token": "\\ud800"}', "[" * 4000, "\0"]
)
async def test_odd_logins_are_refused_and_nothing_fails(door: Door, body: str) -> None:
    assert (await door.post("/login", body, PAGE)).code in (400, 401)


async def test_streams_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "MAX_STREAMS", 3)
    async with opened() as door:
        writers = []
        for _ in range(3):
            reader = await door.connect("/api/v1/changes", BEARER)
            await reader.readuntil(b"\n\n")
            writers.append(door.writer)
        assert (await door.ask("/api/v1/changes", BEARER)).code == 503
        writers[0].close()  # one window is closed, and another may be opened
        async with asyncio.timeout(20):
            while True:
                reader = await door.connect("/api/v1/changes", BEARER)
                if b"200 OK" in await reader.readline():
                    break
                door.writer.close()
        for writer in (*writers, door.writer):
            writer.close()


async def test_a_reader_that_takes_nothing_is_cut_off_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "SEND_S", 0.2)
    async with opened() as door:
        stuck = await asyncio.open_connection("127.0.0.1", door.port, limit=1024)
        stuck[1].write(f"GET /api/v1/changes HTTP/1.1\r\nHost: {door.host}\r\n{BEARER}\r\n\r\n".encode())
        reader = await door.connect("/api/v1/changes", BEARER)
        await reader.readuntil(b"\n\n")
        followers = door.cluster.collections.followers
        async with asyncio.timeout(20):
            number = 0
            while len(followers) != 1:
                for _ in range(20):
                    number += 1
                    door.cluster.collections.put("notices", str(number), NoticeRow(text="x" * 50_000))
                assert await reader.readuntil(b"\n\n")
        door.writer.close()
        stuck[1].transport.abort()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" % PAGE.encode(),
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET " + b"/x" * 40_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_and_the_next_is_answered(door: Door, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(sent)
    came = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert re.match(rb"HTTP/1.[01] 4\d\d ", came), came[:100]
    assert not re.search(rb"(?i)aiohttp|python/", came)
    assert (await door.ask("/healthz")).code == 200


async def test_a_stream_that_fails_breaks_off_and_is_not_answered_twice(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object) -> bytes:
        raise RuntimeError("broken for the test")

    monkeypatch.setattr("tonnage.dashboard.wire.CollectionFollower.take", broken)
    reader = await door.connect("/api/v1/changes", BEARER)
    came = await asyncio.wait_for(reader.read(), 20)
    door.writer.close()
    assert came.count(b"HTTP/1.1") == 1 and b"broken" not in came


async def test_the_server_ends_while_streams_are_open() -> None:
    async with asyncio.timeout(20):
        async with opened() as door:
            streams = [(await door.connect("/api/v1/changes", BEARER), door.writer) for _ in range(3)]
            door.cluster.put(node("node-1"))
            for reader, _ in streams:
                await reader.readuntil(b"\n\n")
        for reader, writer in streams:
            await reader.read()
            writer.close()


# -- questions that cost much -----------------------------------------------------------------------------------------


async def test_a_body_that_becomes_much_is_not_read(door: Door) -> None:
    answer = await door.post("/api/v1/drain-preview", '{"nodes": [' + "[]," * 200_000 + "1]}", BEARER, PAGE)
    assert (answer.code, b"too many values" in answer.body) == (413, True)


async def test_a_packed_body_is_not_unpacked(door: Door) -> None:
    packed = gzip.compress(b'{"nodes": ["' + b"x" * 10_000_000 + b'"]}').decode("latin-1")
    answer = await door.post("/api/v1/drain-preview", packed, BEARER, PAGE, "Content-Encoding: gzip")
    assert (answer.code, b"no JSON" in answer.body) == (400, True)


async def test_questions_that_wait_are_bounded() -> None:
    asking, gate = Asking(), threading.Event()
    waiting = [asyncio.create_task(asking.answer(lambda limit: gate.wait(20))) for _ in range(MOST_WAITING + 1)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyAsk):
        await asking.answer(lambda limit: None)
    gate.set()
    assert all(await asyncio.gather(*waiting))
    assert await asking.answer(lambda limit: "answered") == "answered"


async def test_a_method_that_there_is_not_is_told_which_there_are(door: Door) -> None:
    for method in ("PUT", "PATCH", "TRACE", "OPTIONS", "PROPFIND"):
        answer = await door.ask("/api/v1/state", BEARER, PAGE, "X-HTTP-Method-Override: GET", method=method)
        assert (answer.code, answer.headers.get("allow")) == (405, "GET, HEAD"), method
        assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("sent", [b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000])
async def test_what_is_no_http_is_answered_as_text_that_nobody_runs(door: Door, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(sent)
    answer = Answer(await asyncio.wait_for(reader.read(), 20))
    writer.close()
    assert 400 <= answer.code < 500 and answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
