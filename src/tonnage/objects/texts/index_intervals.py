"""Sets of whole numbers as Jobs write them: `1,3-5,7`, sorted, with neighbours merged.

    parse_intervals("1,3-5", 10)  ->  [(1, 1), (3, 5)]
    written_intervals(IndexSet([(1, 1), (3, 5)]))  ->  "1,3-5"

`parse_intervals` validates as upstream's API server does; `read_intervals` reads a controller's text, and skips invalid
parts. `0-2147483646` is a dozen bytes, so nothing here iterates over the numbers of an interval.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set

from tonnage.errors import TonnageError
from tonnage.quantity import whole_number

Interval = tuple[int, int]


class InvalidIntervals(TonnageError):
    """A text is no list of increasing intervals below a bound."""


def parse_intervals(text: str, bound: int) -> list[Interval]:
    """Raises InvalidIntervals, in upstream's words."""
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        low, high = parse_interval(part, bound)
        if found and found[-1][1] >= low:
            raise InvalidIntervals(f"non-increasing order, previous: {found[-1][1]}, current: {low}")
        found.append((low, high))
    return found


def parse_interval(text: str, bound: int) -> Interval:
    """Read `3` or `3-5`. Raises InvalidIntervals."""
    limits = text.split("-")
    if len(limits) > 2:
        raise InvalidIntervals(
            f'the fragment "{text}" violates the requirement that an index interval can have at most two parts '
            "separated by '-'"
        )
    low, *higher = (_number(limit, bound) for limit in limits)
    if higher and low >= higher[0]:
        raise InvalidIntervals(f"non-increasing order, previous: {low}, current: {higher[0]}")
    return low, higher[0] if higher else low


def _number(text: str, bound: int) -> int:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        raise InvalidIntervals(f'cannot convert string to integer for index: "{text}"')
    if (number := whole_number(digits)) >= bound:
        raise InvalidIntervals(f'too large index: "{text}"')
    return number


def read_intervals(text: str, bound: int) -> list[Interval]:
    """The intervals, cut off at the bound: the status of a Job that was scaled down may exceed it."""
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        low, _, high = part.partition("-")
        if not (low.isascii() and low.isdecimal() and (not high or (high.isascii() and high.isdecimal()))):
            continue
        first, last = whole_number(low), whole_number(high or low)
        if first < bound and first <= last:
            found.append((first, min(last, bound - 1)))
    return found


class IndexSet(Set[int]):
    """A set of whole numbers whose cost follows its intervals, however many numbers they hold."""

    __slots__ = ("_highs", "_lows")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []
        for low, high in sorted(intervals):
            if self._highs and low <= self._highs[-1] + 1:
                self._highs[-1] = max(self._highs[-1], high)
            else:
                self._lows.append(low)
                self._highs.append(high)

    @property
    def intervals(self) -> list[Interval]:
        """Sorted; no two of them touch."""
        return list(zip(self._lows, self._highs, strict=True))

    def __contains__(self, number: object) -> bool:
        position = bisect_right(self._lows, number) - 1 if isinstance(number, int) else -1
        return position >= 0 and self._highs[position] >= number  # type: ignore[operator]  # an int here

    def __iter__(self) -> Iterator[int]:
        return (number for low, high in self.intervals for number in range(low, high + 1))

    def __len__(self) -> int:
        return count_of(self.intervals)

    def with_numbers(self, numbers: Iterable[int]) -> IndexSet:
        return IndexSet([*self.intervals, *((number, number) for number in numbers)])

    def united(self, other: IndexSet) -> IndexSet:
        return IndexSet([*self.intervals, *other.intervals])

    def count_shared(self, other: IndexSet) -> int:
        """How many numbers are in both: |A| + |B| - |A or B|."""
        return len(self) + len(other) - len(self.united(other))

    def first_missing(self, bound: int, count: int) -> list[int]:
        """The first numbers below `bound` that are not in the set, `count` at most."""
        missing: list[int] = []
        start = 0
        for low, high in [*self.intervals, (bound, bound)]:
            missing += range(start, min(low, bound, start + count - len(missing)))
            start = high + 1
        return missing


def count_of(intervals: Iterable[Interval]) -> int:
    return sum(high - low + 1 for low, high in intervals)


def written_intervals(indexes: IndexSet) -> str:
    """As upstream, two neighbours are written `4,5`, more as a range."""
    return ",".join(_written(low, high) for low, high in indexes.intervals)


def _written(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low},{high}" if high == low + 1 else f"{low}-{high}"
