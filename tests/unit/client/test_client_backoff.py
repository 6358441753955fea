"""Pauses that grow, a limit on requests, and deadlines, all on virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest

from support.virtual_clock import VirtualClock
from tonnage.client.throttle import TokenBucket
from tonnage.clock import Backoff, jittered, within


class Low(random.Random):
    """Always draws the lowest number: pauses are then their plain selves."""

    def random(self) -> float:
        return 0.0


def test_each_pause_is_twice_the_one_before_up_to_the_longest():
    backoff = Backoff(clock=VirtualClock(), rng=Low(), first_s=0.8, max_s=5.0)
    assert [backoff.next_s() for _ in range(5)] == [0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_pause_is_stretched_by_up_to_its_jitter():
    rng = random.Random(1)
    backoff = Backoff(clock=VirtualClock(), rng=rng, first_s=1.0, max_s=1.0, jitter=1.0)
    pauses = [backoff.next_s() for _ in range(200)]
    assert all(1.0 <= pause < 2.0 for pause in pauses) and max(pauses) > 1.9 and min(pauses) < 1.1
    assert jittered(2.0, 0.25, Low()) == 2.0


def test_a_reset_and_a_quiet_spell_start_over():
    clock = VirtualClock()
    backoff = Backoff(clock=clock, rng=Low(), first_s=1.0, reset_after_s=120.0)
    assert [backoff.next_s(), backoff.next_s()] == [1.0, 2.0]
    backoff.reset()
    assert [backoff.next_s(), backoff.next_s()] == [1.0, 2.0]
    clock.advance(120.0)
    assert backoff.next_s() == 4.0
    clock.advance(120.1)
    assert backoff.next_s() == 1.0


async def test_a_token_bucket_lets_a_burst_through_and_then_its_rate():
    clock = VirtualClock()
    bucket = TokenBucket(qps=2.0, burst=3, clock=clock)
    passed: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        await bucket.take()
        passed.append((number, clock.monotonic()))

    tasks = [asyncio.create_task(ask(number)) for number in range(5)]
    await clock.run_for(10.0)
    # Three at once; then one each 1/2 s, in the order of asking.
    assert passed == [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.5), (4, 1.0)]
    await asyncio.gather(*tasks)
    # 9 s later the bucket holds its burst again, and no more.
    passed.clear()
    tasks = [asyncio.create_task(ask(number)) for number in range(4)]
    await clock.run_for(10.0)
    assert passed == [(0, 10.0), (1, 10.0), (2, 10.0), (3, 10.5)]
    await asyncio.gather(*tasks)


async def test_a_cancelled_wait_gives_its_token_back():
    clock = VirtualClock()
    bucket = TokenBucket(qps=1.0, burst=1, clock=clock)
    await bucket.take()
    waiting = asyncio.create_task(bucket.take())
    await clock.run_for(0.0)
    waiting.cancel()
    await clock.run_for(1.0)
    next_one = asyncio.create_task(bucket.take())
    await clock.run_for(0.0)
    assert next_one.done()


def test_a_limit_that_lets_nothing_through_is_refused():
    with pytest.raises(ValueError, match="a limit of 0 requests a second with a burst of 1 allows no requests"):
        TokenBucket(qps=0.0, burst=1, clock=VirtualClock())


async def test_work_that_is_done_in_time_gives_its_result():
    clock = VirtualClock()

    async def work() -> str:
        await clock.sleep(2.0)
        return "done"

    waiting = asyncio.create_task(within(clock, 2.5, work()))
    await clock.run_for(2.0)
    assert await waiting == "done"


async def test_work_that_takes_too_long_is_cancelled_and_has_ended():
    clock, ended = VirtualClock(), []

    async def work() -> None:
        try:
            await clock.sleep(60.0)
        finally:
            ended.append(clock.monotonic())

    waiting = asyncio.create_task(within(clock, 3.0, work()))
    await clock.run_for(3.0)
    with pytest.raises(TimeoutError, match="not done within 3 s"):
        await waiting
    assert ended == [3.0]


async def test_a_cancelled_wait_ends_its_work():
    clock, ended = VirtualClock(), []

    async def work() -> None:
        try:
            await clock.sleep(60.0)
        finally:
            ended.append("work")

    waiting = asyncio.create_task(within(clock, 3.0, work()))
    await clock.run_for(1.0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["work"]


async def test_what_the_work_raises_is_passed_on():
    async def work() -> None:
        raise KeyError("nothing there")

    with pytest.raises(KeyError, match="nothing there"):
        await within(VirtualClock(), 3.0, work())
