"""The next time of a schedule is the first minute, looked at one by one, that the clocks of its zone show as asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.texts.cron_schedule import CronSchedule, InvalidSchedule, parse_schedule

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe"]


def numbers(text: str, low: int, high: int) -> set[int]:
    """A field read the slow way."""
    found: set[int] = set()
    for part in text.split(","):
        bounds, _, step = part.partition("/")
        first, _, last = bounds.partition("-")
        if bounds == "*":
            first, last = str(low), str(high)
        end = int(last or (high if step else first))
        found |= set(range(int(first), end + 1, int(step or 1)))
    return found


def is_free(text: str) -> bool:
    """Does the field restrict nothing?"""
    return any(part in ("*", "*/1") for part in text.split(","))


def slow_next(text: str, after: datetime, zone: tzinfo, most_days: int) -> datetime | None:
    minute, hour, day, month, weekday = text.split()
    minutes, hours, days = numbers(minute, 0, 59), numbers(hour, 0, 23), numbers(day, 1, 31)
    months, weekdays = numbers(month, 1, 12), numbers(weekday, 0, 6)
    moment = after.replace(second=0, microsecond=0)
    for _ in range(most_days * 24 * 60):
        moment += timedelta(minutes=1)
        shown = moment.astimezone(zone)
        by_day, by_weekday = shown.day in days, shown.isoweekday() % 7 in weekdays
        is_day = by_day and by_weekday if is_free(day) or is_free(weekday) else by_day or by_weekday
        if shown.minute in minutes and shown.hour in hours and shown.month in months and is_day:
            return moment
    return None


def field(low: int, high: int) -> st.SearchStrategy[str]:
    one = st.integers(low, high).map(str)
    span = st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda pair: f"{min(pair)}-{max(pair)}")
    star = st.sampled_from(["*", "*", "*/2", "*/7"])
    return st.lists(st.one_of(star, one, span), min_size=1, max_size=2).map(",".join)


@settings(max_examples=tries(60))
@given(
    parts=st.tuples(field(0, 59), field(0, 23), field(1, 31), st.just("*"), field(0, 6)),
    start=st.datetimes(datetime(2018, 1, 1), datetime(2027, 12, 1)),
    zone=st.sampled_from(ZONES),
)
def test_it_is_the_first_minute_that_matches(parts: tuple[str, ...], start: datetime, zone: str):
    text, after = " ".join(parts), start.replace(tzinfo=UTC)
    expected = slow_next(text, after, ZoneInfo(zone), most_days=2)
    found = parse_schedule(text).next_after(after, ZoneInfo(zone))
    if expected is not None:
        assert found == expected
    else:
        assert found is None or found > after + timedelta(days=2)


@pytest.mark.parametrize(
    ("text", "after", "zone", "expected"),
    [
        ("0 0 29 2 *", "2025-01-01T00:00:00+00:00", "UTC", "2028-02-29T00:00:00+00:00"),
        ("0 0 30 2 *", "2025-01-01T00:00:00+00:00", "UTC", None),
        ("@yearly", "2026-03-01T00:00:00+00:00", "UTC", "2027-01-01T00:00:00+00:00"),
        ("@every 90s", "2026-03-01T00:00:00.5+00:00", "UTC", "2026-03-01T00:01:30+00:00"),
        ("59 23 31 12 *", "2026-12-31T23:59:00+00:00", "UTC", "2027-12-31T23:59:00+00:00"),
        # Clocks go from 2 to 3: half past two does not occur, and the next day it does.
        ("30 2 * * *", "2026-03-29T00:00:00+00:00", "Europe/Berlin", "2026-03-30T00:30:00+00:00"),
        # Clocks go from 3 back to 2: half past two occurs twice.
        ("30 2 * * *", "2026-10-25T00:30:00+00:00", "Europe/Berlin", "2026-10-25T01:30:00+00:00"),
        # Midnight is skipped.
        ("0 1 * * *", "2018-11-04T02:59:00+00:00", "America/Sao_Paulo", "2018-11-04T03:00:00+00:00"),
        ("0 9 * jan-mar mon", "2026-11-16T00:00:00+00:00", "Asia/Kolkata", "2027-01-04T03:30:00+00:00"),
    ],
)
def test_days_that_are_odd(text: str, after: str, zone: str, expected: str | None):
    found = parse_schedule(text).next_after(datetime.fromisoformat(after), ZoneInfo(zone))
    assert found == (None if expected is None else datetime.fromisoformat(expected))


@given(st.text(max_size=30))
def test_whatever_is_written_is_a_schedule_or_refused(text: str):
    try:
        assert isinstance(parse_schedule(text), CronSchedule)
    except InvalidSchedule as exc:
        assert exc.message
