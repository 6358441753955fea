"""Bindings that wait: woken by what concerns them, by all else within a second, and by the clock in the end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim
from tonnage.objects.meta import Object
from tonnage.scheduler.bindings_under_way import BindingSlots, PreBindWaits
from tonnage.scheduling.framework import SUCCESS, Code, Status
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import claim, volume


class Counting:
    """A check that counts how often it is asked, and has an answer when it is given one."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: Status | None = None

    def __call__(self) -> Status | None:
        self.asked += 1
        return self.answer


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_that_is_there_is_given_without_waiting():
    waits, check = PreBindWaits(VirtualClock()), Counting()
    check.answer = SUCCESS
    assert await waits.settled(check, 600.0) is SUCCESS
    assert check.asked == 1 and len(waits) == 0


async def test_only_what_concerns_a_wait_makes_it_look_at_once():
    waits, check = PreBindWaits(VirtualClock()), Counting()
    topics: list[tuple[type[Object], str]] = [(PersistentVolumeClaim, "default/data"), (Node, "a")]
    waiting = asyncio.create_task(waits.settled(check, 600.0, topics))
    await turns()
    waits.changed(claim("logs"), claim("logs"))
    waits.changed(None, node("b"))
    assert check.asked == 1
    waits.changed(claim("data"), claim("data", selected_node="a"))
    waits.changed(None, volume("pv-1", claim="default/data"))  # a volume counts under the claim that it names
    waits.changed(node("a"), None)
    assert check.asked == 4
    check.answer = SUCCESS
    waits.changed(claim("data"), None)
    assert await waiting is SUCCESS and len(waits) == 0


async def test_anything_else_is_looked_at_by_the_next_sweep_once():
    waits, check = PreBindWaits(VirtualClock()), Counting()
    waiting = asyncio.create_task(waits.settled(check, 600.0, [(Node, "a")]))
    await turns()
    waits.sweep()
    assert check.asked == 1, "nothing has changed"
    waits.changed(None, claim("other"))
    waits.changed(None, claim("another"))
    waits.sweep()
    waits.sweep()
    assert check.asked == 2
    check.answer = SUCCESS
    waits.changed(None, claim("other"))
    waits.sweep()
    assert await waiting is SUCCESS


async def test_a_wait_without_an_answer_ends_by_the_clock():
    clock, check = VirtualClock(), Counting()
    waits = PreBindWaits(clock)
    waiting = asyncio.create_task(waits.settled(check, 600.0))
    await clock.run_for(599.0)
    assert not waiting.done()
    await clock.run_for(1.0)
    assert waiting.result() == Status(Code.ERROR, ("context deadline exceeded",)) and len(waits) == 0


async def test_each_wait_ends_at_its_own_time():
    clock = VirtualClock()
    waits = PreBindWaits(clock)
    ended: dict[str, float] = {}

    async def wait(name: str, timeout_s: float) -> None:
        await waits.settled(Counting(), timeout_s)
        ended[name] = clock.monotonic()

    started_at, expected, tasks = clock.monotonic(), {}, []
    for number in range(30):  # three timeouts, begun every 0.7 s
        name, timeout_s = f"w{number}", (0.3, 5.1, 11.7)[number % 3]
        expected[name] = clock.monotonic() + timeout_s
        tasks.append(asyncio.create_task(wait(name, timeout_s)))
        if number % 4 == 3:
            tasks[-2].cancel()
            del expected[f"w{number - 1}"]
        await clock.run_for(0.7)
    await clock.run_for(40.0)
    assert started_at == 0.0 and len(waits) == 0
    overtaken = {name for name in ended if name not in expected}  # ended before they were called off
    assert {name: at for name, at in ended.items() if name not in overtaken} == pytest.approx(expected)
    assert all(task.done() for task in tasks)


async def test_a_wait_that_begins_as_the_last_one_ends_has_its_whole_time():
    clock = VirtualClock()
    waits, answers = PreBindWaits(clock), []

    async def twice() -> None:
        for _ in range(2):
            answers.append(await waits.settled(Counting(), 3.0))

    task = asyncio.create_task(twice())
    await clock.run_for(5.9)
    assert len(answers) == 1 and len(waits) == 1
    await clock.run_for(0.1)
    assert task.done() and len(answers) == 2 and len(waits) == 0


async def test_a_cancelled_wait_leaves_nothing_behind():
    waits, check = PreBindWaits(VirtualClock()), Counting()
    waiting = asyncio.create_task(waits.settled(check, 600.0, [(Node, "a")]))
    await turns()
    assert len(waits) == 1
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    assert len(waits) == 0 and not waits._by_topic
    assert asyncio.all_tasks() == {asyncio.current_task()}, "the alarm is gone as well"


async def test_a_check_that_raises_fails_its_own_wait_and_no_other():
    waits, good = PreBindWaits(VirtualClock()), Counting()
    times: list[int] = []

    def bad() -> Status | None:
        times.append(1)
        if len(times) > 1:
            raise RuntimeError("boom")
        return None

    failing = asyncio.create_task(waits.settled(bad, 600.0, [(Node, "a")]))
    waiting = asyncio.create_task(waits.settled(good, 600.0, [(Node, "a")]))
    await turns()
    good.answer = SUCCESS
    waits.changed(None, node("a"))
    assert await waiting is SUCCESS
    with pytest.raises(RuntimeError, match="boom"):
        await failing


# -- slots ------------------------------------------------------------------------------------------------------------


async def test_a_resting_binding_lends_its_slot():
    slots, wake = BindingSlots(1), asyncio.Event()

    async def binding() -> None:
        with slots.rest():
            await wake.wait()

    slots.take()
    full = asyncio.create_task(slots.free.wait())
    await turns()
    assert not full.done()
    resting = asyncio.create_task(binding())
    await turns()
    assert full.done() and (slots.taken, slots.resting) == (0, 1)
    wake.set()
    await resting
    assert (slots.taken, slots.resting) == (1, 0)
    slots.give()
    assert slots.taken == 0


async def test_closing_wakes_those_who_rest_and_lets_nobody_rest_again():
    slots = BindingSlots()
    never = asyncio.Event()

    async def binding() -> None:
        with slots.rest():
            await never.wait()

    slots.take()
    resting = asyncio.create_task(binding())
    await turns()
    slots.close()
    await asyncio.wait([resting])
    late = asyncio.create_task(binding())
    await asyncio.wait([late])
    assert resting.cancelled() and late.cancelled() and (slots.taken, slots.resting) == (1, 0)
    slots.open()
    again = asyncio.create_task(binding())
    await turns()
    assert slots.resting == 1
    again.cancel()
    await asyncio.wait([again])
