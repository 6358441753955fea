"""Clocks: virtual time and its sleepers, and time as Kubernetes writes it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from support.virtual_clock import VirtualClock
from tonnage.clock import (
    Clock,
    InvalidTime,
    StampAges,
    SystemClock,
    parse_rfc3339,
    rfc3339,
    rfc3339_micro,
)

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


async def test_the_system_clock_is_aware_and_moves_forward() -> None:
    clock: Clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now().utcoffset() == timedelta(0)


def test_virtual_time_stands_still_until_it_is_moved() -> None:
    clock: Clock = (virtual := VirtualClock(NOON))
    assert (clock.now(), clock.monotonic()) == (NOON, 0.0)
    virtual.advance(1.5)
    assert (clock.now(), clock.monotonic()) == (NOON + timedelta(seconds=1.5), 1.5)
    with pytest.raises(ValueError, match=r"time does not go back: cannot advance by -1 s"):
        virtual.advance(-1)


class Diary:
    """Writes down who woke when."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.entries: list[tuple[str, float]] = []

    async def sleep(self, name: str, *spans_s: float) -> None:
        for span_s in spans_s:
            await self.clock.sleep(span_s)
            self.entries.append((name, self.clock.monotonic()))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_jump_wakes_sleepers_in_time_order_and_ties_in_posting_order() -> None:
    clock = VirtualClock(NOON)
    diary = Diary(clock)
    async with asyncio.TaskGroup() as tasks:
        for name, span_s in (("c", 3), ("a", 1), ("b", 2), ("a2", 1), ("late", 4)):
            tasks.create_task(diary.sleep(name, span_s))
        await settle()
        clock.advance(3)
        await settle()
        # All of them were due within the jump and find the time after it.
        assert diary.entries == [("a", 3), ("a2", 3), ("b", 3), ("c", 3)]
        clock.advance(1)


async def test_a_span_lived_through_wakes_each_sleeper_at_its_own_instant() -> None:
    clock = VirtualClock(NOON)
    diary = Diary(clock)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(diary.sleep("tick", 10, 10, 10, 10))
        tasks.create_task(diary.sleep("once", 20))
        await clock.run_for(35)
        # At 20 s "once" comes first: it lay down at 0 s, the second tick at 10 s.
        assert diary.entries == [("tick", 10), ("once", 20), ("tick", 20), ("tick", 30)]
        assert clock.now() == NOON + timedelta(seconds=35)
        await clock.run_for(5)
    assert diary.entries[-1] == ("tick", 40)


async def test_ten_tenths_of_a_second_are_one_second() -> None:
    # In floats 0.1 * 10 by addition is 0.9999999999999999.
    clock = VirtualClock()
    diary = Diary(clock)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(diary.sleep("tenths", *[0.1] * 10))
        await clock.run_for(1)
        assert diary.entries[-1] == ("tenths", 1.0)
        assert len(diary.entries) == 10


async def test_a_cancelled_sleeper_is_passed_over() -> None:
    clock = VirtualClock()
    diary = Diary(clock)
    gone = asyncio.create_task(diary.sleep("gone", 1))
    stays = asyncio.create_task(diary.sleep("stays", 2))
    await settle()
    gone.cancel()
    await clock.run_for(2)
    await stays
    assert gone.cancelled()
    assert diary.entries == [("stays", 2)]


@pytest.mark.parametrize("ahead_s", [-7200.0, 86_400.0])
def test_ages_go_on_when_the_clock_is_set(ahead_s: float) -> None:
    clock = VirtualClock()
    ages, stamp = StampAges(clock), clock.now() - timedelta(seconds=30)
    assert ages.age_s("a", stamp) == 30
    clock.set_time_of_day(ahead_s)
    clock.advance(5)
    assert ages.age_s("a", stamp) == 35
    assert ages.now("a", stamp) == stamp + timedelta(seconds=35)
    assert ages.age_s("a", clock.now()) == 0  # another stamp


def test_a_stamp_from_the_future_is_new_when_it_is_first_seen() -> None:
    clock = VirtualClock()
    ages, stamp = StampAges(clock), clock.now() + timedelta(hours=2)
    assert ages.age_s("a", stamp) == 0
    clock.advance(10)
    assert ages.age_s("a", stamp) == 10


def test_of_many_ages_the_oldest_are_forgotten() -> None:
    clock = VirtualClock()
    ages, stamp = StampAges(clock, most=2), clock.now()
    for key in "abc":
        ages.age_s(key, stamp)
    clock.set_time_of_day(100)
    assert [ages.age_s(key, stamp) for key in "cba"] == [0, 0, 100]


async def test_sleeping_for_nothing_needs_no_one_to_move_the_clock() -> None:
    clock = VirtualClock()
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.monotonic() == 0


def test_times_are_written_in_utc() -> None:
    at = datetime(2026, 11, 15, 4, 29, 13, 987654, tzinfo=timezone(timedelta(hours=2)))
    assert rfc3339(at) == "2026-11-15T02:29:13Z"
    assert rfc3339_micro(at) == "2026-11-15T02:29:13.987654Z"
    assert rfc3339_micro(at.replace(microsecond=0)) == "2026-11-15T02:29:13.000000Z"
    with pytest.raises(ValueError, match="2026-11-15T04:29:13 has no time zone; Kubernetes' times are in UTC"):
        rfc3339(at.replace(microsecond=0, tzinfo=None))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-15T02:29:13Z", datetime(2026, 11, 15, 2, 29, 13, tzinfo=UTC)),
        ("2026-11-15T02:29:13.000001Z", datetime(2026, 11, 15, 2, 29, 13, 1, tzinfo=UTC)),
        ("2026-11-15T02:29:13.123456789Z", datetime(2026, 11, 15, 2, 29, 13, 123456, tzinfo=UTC)),
        ("2026-11-15T02:29:13.5+02:00", datetime(2026, 11, 15, 0, 29, 13, 500000, tzinfo=UTC)),
        ("2026-11-15T02:29:13-05:30", datetime(2026, 11, 15, 7, 59, 13, tzinfo=UTC)),
    ],
)
def test_times_are_read_with_fractions_and_offsets(text: str, at: datetime) -> None:
    assert parse_rfc3339(text) == at
    assert parse_rfc3339(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-11-15", "2026-11-15T02:29:13", "2026-02-30T00:00:00Z", "2026-11-15T02:29:13+99:00"],
)
def test_what_is_no_time_says_how_to_write_one(text: str) -> None:
    with pytest.raises(InvalidTime) as refused:
        parse_rfc3339(text)
    assert str(refused.value) == f'"{text}" is not an RFC 3339 time; write it like "2026-11-15T02:29:13Z"'
