"""Each key waits once, is in work once, and is never lost."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.virtual_clock import VirtualClock
from tonnage.client.reconciler import WorkQueue


def queue_on(clock: VirtualClock, **options: Any) -> WorkQueue[str]:
    return WorkQueue(clock=clock, **options)


async def test_keys_come_out_in_the_order_they_were_added_and_once_each():
    queue = queue_on(VirtualClock())
    for key in ("b", "a", "b", "c", "a"):
        queue.add(key)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["b", "a", "c"]


async def test_a_key_added_while_in_work_runs_again_after_and_not_beside():
    queue = queue_on(VirtualClock())
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not second.done() and len(queue) == 0 and "a" in queue
    queue.done("a")
    assert await second == "a"
    queue.done("a")
    assert len(queue) == 0 and "a" not in queue


async def test_a_getter_waits_until_there_is_work():
    queue = queue_on(VirtualClock())
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    assert (await first, await second) == ("a", "b")


async def test_a_getter_that_is_cancelled_on_its_turn_passes_it_on():
    queue = queue_on(VirtualClock())
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first
    first.cancel()  # before it ran
    assert await second == "a"
    assert first.cancelled()


async def test_a_delayed_key_comes_when_its_time_has_come():
    clock = VirtualClock()
    queue = queue_on(clock)
    queue.add_after("late", 5.0)
    queue.add_after("soon", 2.0)
    queue.add_after("now", 0.0)
    assert len(queue) == 1
    await clock.run_for(1.999)
    assert len(queue) == 1
    await clock.run_for(0.001)
    assert len(queue) == 2
    await clock.run_for(3.0)
    assert [await queue.get() for _ in range(3)] == ["now", "soon", "late"]


async def test_of_two_delays_the_earlier_counts():
    clock = VirtualClock()
    queue = queue_on(clock)
    queue.add_after("a", 2.0)
    queue.add_after("a", 5.0)
    queue.add_after("b", 5.0)
    queue.add_after("b", 2.0)
    await clock.run_for(2.0)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    queue.done("a")
    queue.done("b")
    await clock.run_for(10.0)
    assert len(queue) == 0


async def test_retries_double_from_5_ms_and_forget_starts_over():
    clock = VirtualClock()
    queue = queue_on(clock)
    came_at = []
    for _ in range(4):
        queue.retry("a")
        started_at = clock.monotonic()
        while not len(queue):
            await clock.run_for(0.001)
        came_at.append(round(clock.monotonic() - started_at, 3))
        queue.done(await queue.get() or "")
    assert came_at == [0.005, 0.01, 0.02, 0.04]
    assert queue.failures("a") == 4
    queue.forget("a")
    assert queue.failures("a") == 0
    queue.retry("a")
    await clock.run_for(0.005)
    assert len(queue) == 1


async def test_a_retry_never_waits_longer_than_the_longest_pause():
    clock = VirtualClock()
    queue = queue_on(clock, first_retry_s=1.0, max_retry_s=30.0)
    for _ in range(2000):
        queue.retry("a")
    assert queue.failures("a") == 2000
    await clock.run_for(30.0)
    assert len(queue) == 1


async def test_a_closed_queue_hands_out_what_waits_and_then_none():
    clock = VirtualClock()
    queue = queue_on(clock)
    queue.add("a")
    queue.add_after("delayed", 1.0)
    queue.close()
    queue.add("too late")
    assert [await queue.get(), await queue.get()] == ["a", None]
    await clock.run_for(2.0)
    assert len(queue) == 0


async def test_closing_wakes_everybody_who_waits():
    queue = queue_on(VirtualClock())
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    assert await asyncio.gather(*getters) == [None, None, None]


async def test_it_is_idle_when_nothing_waits_and_nothing_is_in_work():
    queue = queue_on(VirtualClock())
    await queue.wait_idle()
    queue.add("a")
    waiting = asyncio.create_task(queue.wait_idle())
    await queue.get()
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add("a")
    queue.done("a")
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done(await queue.get() or "")
    await waiting


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add_after", "retry", "work", "pass"]), st.sampled_from("abc"), st.integers(1, 5))
)


@settings(max_examples=tries(60), deadline=None)
@given(STEPS)
def test_whatever_is_asked_for_is_worked_on_afterwards_and_never_twice_at_once(steps):
    async def run() -> None:
        clock = VirtualClock()
        queue = queue_on(clock)
        asked: dict[str, int] = {}  # by key: the step at which it was last asked for
        started: dict[str, int] = {}  # by key: the step at which work on it last began
        in_work: set[str] = set()
        step = 0

        async def worker() -> None:
            while (key := await queue.get()) is not None:
                assert key not in in_work
                in_work.add(key)
                started[key] = step
                await clock.sleep(2.0)
                in_work.discard(key)
                queue.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(2)]
        for what, key, number in steps:
            await clock.run_for(0.0)
            step += 1
            if what == "add":
                queue.add(key)
            elif what == "add_after":
                queue.add_after(key, float(number))
            elif what == "retry":
                queue.retry(key)
            else:
                await clock.run_for(float(number))
                continue
            asked[key] = step
        step += 1
        await clock.run_for(100.0)
        assert all(started[key] >= at for key, at in asked.items()), (asked, started)
        queue.close()
        await clock.run_for(2.0)
        await asyncio.gather(*workers)

    asyncio.run(run())
