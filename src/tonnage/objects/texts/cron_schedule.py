"""Cron's notation, as CronJobs have it: five fields, or one of the names that begin with `@`.

    parse_schedule("*/15 9-17 * * mon-fri").next_after(now, zone)

    minute 0-59   hour 0-23   day of the month 1-31   month 1-12 or jan-dec   day of the week 0-6 or sun-sat

A field is a list of ranges, each with a step: `*`, `?` (the same), `5`, `1-5`, `*/10`, `10-50/20`, `20/5` (from 20 to
the end). If both days are restricted, one of them is enough. A time that the clock skips in spring does not occur, and
a time that it shows twice occurs twice, as with upstream's parser (robfig/cron), whose error texts these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tonnage.clock import parse_duration
from tonnage.errors import TonnageError
from tonnage.quantity import whole_number

_STAR: Final = 1 << 63
"""Marks a field without restrictions."""
_YEARS: Final = 5
"""A time that does not occur in so many years never occurs, such as the 30th of February."""


class InvalidSchedule(TonnageError):
    pass


class _Field(NamedTuple):
    low: int
    high: int
    names: tuple[str, ...] = ()


_MINUTE, _HOUR, _DAY = _Field(0, 59), _Field(0, 23), _Field(1, 31)
_MONTH = _Field(1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))
_WEEKDAY = _Field(0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
_FIELDS: Final = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)
_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """Every field as bits; for `@every 90s` only `every_s`."""

    minutes: int = 0
    hours: int = 0
    days: int = 0
    months: int = 0
    weekdays: int = 0
    every_s: int = 0

    def next_after(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The first time of the schedule after `moment`, by the clocks of `zone`, in UTC; None if there is none."""
        seconds = int(moment.timestamp())
        if self.every_s:
            return datetime.fromtimestamp(seconds + self.every_s, UTC)
        found = self._search(_Clock(zone), seconds + 1)
        return None if found is None else datetime.fromtimestamp(found, UTC)

    def _search(self, clock: _Clock, t: int) -> int | None:
        """Raise one field after the other until all match; whenever a field wraps around, begin again."""
        t += -t % 60  # schedules have no seconds
        last_year = clock.show(t).year + _YEARS
        while True:
            shown = clock.show(t)
            if shown.year > last_year:
                return None
            if not self.months >> shown.month & 1:
                year, month = (shown.year + 1, 1) if shown.month == 12 else (shown.year, shown.month + 1)
                t = clock.at(year, month, 1)
            elif not self._is_day(shown):
                tomorrow = shown.date() + timedelta(days=1)
                t = clock.at(tomorrow.year, tomorrow.month, tomorrow.day)
            elif not self.hours >> shown.hour & 1:
                t = t - shown.minute * 60 + 3600
            elif not self.minutes >> shown.minute & 1:
                t += 60
            else:
                return t

    def _is_day(self, shown: datetime) -> bool:
        by_day = bool(self.days >> shown.day & 1)
        by_weekday = bool(self.weekdays >> shown.isoweekday() % 7 & 1)
        if self.days & _STAR or self.weekdays & _STAR:
            return by_day and by_weekday
        return by_day or by_weekday


class _Clock:
    """Converts seconds since 1970 to the local time of a zone, and back."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def show(self, t: int) -> datetime:
        return datetime.fromtimestamp(t, self._zone)

    def at(self, year: int, month: int, day: int) -> int:
        """Midnight of a day; if the clock skips it, the first moment of the day."""
        t = int(datetime(year, month, day, tzinfo=UTC).timestamp())
        t -= self._offset(t - self._offset(t))
        shown = self.show(t)
        if shown.hour == 0 and shown.day == day:
            return t
        return t + (24 - shown.hour) * 3600 if shown.hour > 12 else t

    def _offset(self, t: int) -> int:
        offset = self.show(t).utcoffset()
        return 0 if offset is None else int(offset.total_seconds())


def parse_schedule(text: str) -> CronSchedule:
    """Raises InvalidSchedule."""
    if not text:
        raise InvalidSchedule("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        # A leading zone is read because errors about it come first; a schedule with a zone is never accepted.
        zone, blank, rest = text.partition(" ")
        if not blank:
            raise InvalidSchedule("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        name = zone.partition("=")[2]
        if not is_zone(name):
            raise InvalidSchedule(f"provided bad location {name}: unknown time zone {name}")
        text = rest.strip()
    if text.startswith("@"):
        return _described(text)
    words = text.split()
    if len(words) != len(_FIELDS):
        raise InvalidSchedule(f"expected exactly {len(_FIELDS)} fields, found {len(words)}: [{' '.join(words)}]")
    return CronSchedule(*(_bits(word, field) for word, field in zip(words, _FIELDS, strict=True)))


def is_zone(name: str) -> bool:
    """True if the time zone exists. The empty name and UTC do."""
    if name in ("", "UTC", "Local"):
        return True
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _described(text: str) -> CronSchedule:
    if text in _NAMED:
        return parse_schedule(_NAMED[text])
    every = text.removeprefix("@every ")
    if every == text:
        raise InvalidSchedule(f"unrecognized descriptor: {text}")
    seconds = parse_duration(every)
    if seconds is None:
        raise InvalidSchedule(f'failed to parse duration {text}: time: invalid duration "{every}"')
    return CronSchedule(every_s=max(1, int(seconds)))


def _bits(text: str, field: _Field) -> int:
    bits = 0
    for each in text.split(","):
        if each:
            bits |= _range_bits(each, field)
    return bits


def _range_bits(text: str, field: _Field) -> int:
    bounds, *steps = text.split("/")
    low, *high = bounds.split("-")
    star = 0
    if low in ("*", "?"):
        start, end, star = field.low, field.high, _STAR
    else:
        start = _number(low, field.names)
        if len(high) > 1:
            raise InvalidSchedule(f"too many hyphens: {text}")
        end = _number(high[0], field.names) if high else start
    if len(steps) > 1:
        raise InvalidSchedule(f"too many slashes: {text}")
    step = 1
    if steps:
        step = _number(steps[0])
        end = field.high if not high else end
        star = star if step <= 1 else 0
    if start < field.low:
        raise InvalidSchedule(f"beginning of range ({start}) below minimum ({field.low}): {text}")
    if end > field.high:
        raise InvalidSchedule(f"end of range ({end}) above maximum ({field.high}): {text}")
    if start > end:
        raise InvalidSchedule(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise InvalidSchedule(f"step of range should be a positive number: {text}")
    return sum(1 << each for each in range(start, end + 1, step)) | star


def _number(text: str, names: tuple[str, ...] = ()) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + (1 if len(names) == 12 else 0)
    digits = text.removeprefix("+").removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise InvalidSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(digits) > 18:
        raise InvalidSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    value = whole_number(digits)
    if text.startswith("-") and value:
        raise InvalidSchedule(f"negative number (-{value}) not allowed: {text}")
    return value
