"""Large requests beside the event loop: what is large, how many may wait, and the store read where it may be."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref
from contextlib import suppress

import pytest

from support.eventually import eventually_async
from tonnage.apiserver import bodies
from tonnage.apiserver.event_loop import LARGE_BYTES, LARGE_VALUES, Turn, Workers, is_large, measure_lag, on_loop
from tonnage.clock import in_background
from tonnage.errors import TooManyRequests


def test_an_ordinary_object_is_not_large() -> None:
    pod = {
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "c", "env": [{"name": "a", "value": "b"}] * 50}]},
    }
    assert not is_large(json.dumps(pod).encode())


@pytest.mark.parametrize(
    "text",
    [
        b"x" * (LARGE_BYTES + 1),
        b"[" + b"{}," * (LARGE_VALUES + 1) + b"{}]",
        b"a:\n" + b"- 1\n" * (LARGE_VALUES + 2),
        b"a:\n" + b" - 1\n" * (LARGE_VALUES + 2),
        b"a:\r" + b"- 1\r" * (LARGE_VALUES + 1),
    ],
)
def test_much_text_and_many_values_are_large(text: bytes) -> None:
    assert is_large(text)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"a: &a [1]\nb: *a\n", "application/yaml"),
        (b'[{"op":"copy","from":"/a","path":"/b"}]', "application/json-patch+json"),
        (rb'[{"op":"\u0063opy","from":"/a","path":"/b"}]', "application/json-patch+json"),
        (b"k8s\0" + b"\x12\0" * 8_192, "application/vnd.kubernetes.protobuf"),
    ],
)
def test_a_short_body_that_may_stand_for_much_is_large(body: bytes, content_type: str) -> None:
    assert bodies.is_large(body, content_type)


async def test_work_runs_in_a_thread_and_reads_the_store_on_the_loop() -> None:
    workers, here = Workers(), threading.get_ident()
    there, read_in = await workers.run(lambda: (threading.get_ident(), on_loop(threading.get_ident)))
    assert there != here and read_in == here
    assert on_loop(threading.get_ident) == here
    workers.close()


async def test_what_work_raises_is_raised() -> None:
    workers = Workers()

    def missing() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await workers.run(lambda: on_loop(missing))
    workers.close()


class Large:
    """A document that one can look for after it should be gone."""


@pytest.mark.parametrize("is_read_on_the_loop", [False, True])
async def test_what_failed_work_was_about_is_freed_at_once(is_read_on_the_loop: bool) -> None:
    # A server looks for circles rarely: what large requests leave in them would add up to gigabytes.
    workers, gone = Workers(), asyncio.Event()

    async def fail() -> None:
        document = Large()
        weakref.finalize(document, loop.call_soon_threadsafe, gone.set)

        def missing() -> None:
            raise KeyError(id(document))

        await workers.run((lambda: on_loop(missing)) if is_read_on_the_loop else missing)

    loop = asyncio.get_running_loop()
    gc.disable()
    try:
        with suppress(KeyError):
            await fail()
        await asyncio.wait_for(gone.wait(), 60)  # the thread may hold it for a moment longer
    finally:
        gc.enable()
        workers.close()


async def test_more_than_may_wait_are_refused_and_a_client_that_left_counts_until_its_thread_is_free() -> None:
    workers, go_on = Workers(threads=1, max_under_way=2), threading.Event()
    first, second = (asyncio.create_task(workers.run(go_on.wait)) for _ in range(2))
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests, match="Too many large requests"):
        await workers.run(lambda: None)
    first.cancel()
    await asyncio.sleep(0)
    assert workers.under_way == 2
    go_on.set()
    assert await second
    await eventually_async(lambda: workers.under_way == 0)
    workers.close()


async def test_a_turn_ends_and_another_begins() -> None:
    turn = Turn()
    while not turn.is_over:
        pass
    await turn.pause()
    assert not turn.is_over


async def test_a_loop_that_is_held_up_is_measured() -> None:
    lag: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    async with in_background(measure_lag(lambda lag_s: None if lag.done() else lag.set_result(lag_s)), "lag"):
        assert await lag >= 0.0
