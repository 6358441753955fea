"""What a program is doing, as its debug pages tell."""

from __future__ import annotations

import asyncio

import aiohttp
from prometheus_client import CollectorRegistry

from tonnage.clock import SystemClock
from tonnage.health import served
from tonnage.serving.profiling import Profiler, pages


async def fetch(path: str) -> tuple[int, str]:
    async with (
        served(
            host="127.0.0.1",
            port=0,
            tls=None,
            registry=CollectorRegistry(),
            is_healthy=lambda: True,
            is_ready=lambda: True,
            pages=pages(SystemClock()),
        ) as url,
        aiohttp.ClientSession() as session,
        session.get(url + path) as answer,
    ):
        return answer.status, await answer.text()


async def test_stacks_are_one_a_line_with_how_often_they_were_seen():
    code, text = await fetch("/debug/pprof/profile?seconds=0.2")
    assert code == 200
    stack, _, count = text.splitlines()[0].rpartition(" ")
    assert int(count) >= 1
    assert ";" in stack


async def test_one_profile_at_a_time_and_none_for_ever():
    for seconds in ("soon", "0", "-1", "301", "nan"):
        assert await fetch(f"/debug/pprof/profile?seconds={seconds}") == (400, "seconds is a number up to 300\n")
    profiler = Profiler(SystemClock())
    asking = asyncio.create_task(profiler.stacks(60.0))
    await asyncio.sleep(0)
    assert profiler.is_busy
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert not profiler.is_busy


async def test_every_task_says_where_it_stands():
    async def waits_for_something() -> None:
        await asyncio.Event().wait()

    waiting = asyncio.create_task(waits_for_something(), name="the-one-that-waits")
    code, text = await fetch("/debug/pprof/goroutine")
    waiting.cancel()
    assert code == 200
    assert "task the-one-that-waits" in text
    assert "in waits_for_something" in text
    assert "thread MainThread" in text


async def test_the_index_tells_what_there_is():
    assert "/debug/pprof/profile?seconds=30" in (await fetch("/debug/pprof/"))[1]
    assert (await fetch("/debug/pprof/heap"))[0] == 404
