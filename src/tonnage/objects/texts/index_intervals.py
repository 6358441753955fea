"""Sets of whole numbers as Jobs write them: `1,3-5,7`, in order, without what stands next to each other.

    parse_intervals("1,3-5", 10)  ->  [(1, 1), (3, 5)]
    written_intervals([1, 3, 4, 5])  ->  "1,3-5"

`parse_intervals` judges as upstream's API server does; `read_intervals` reads what a controller wrote, and leaves out
what it does not understand.
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.errors import TonnageError
from tonnage.objects.texts.whole_numbers import whole_number

Interval = tuple[int, int]


class InvalidIntervals(TonnageError):
    """A text that is no list of increasing intervals below a bound."""


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
    """`3` or `3-5`. Raises InvalidIntervals."""
    limits = text.split("-")
    if len(limits) > 2:
        raise InvalidIntervals(
            f'the fragment "{text}" violates the requirement that an index interval can have at most two parts '
            "separated by '-'"
        )
    numbers = [_number(each) for each in limits[:1]]
    if numbers[0] >= bound:
        raise InvalidIntervals(f'too large index: "{limits[0]}"')
    if len(limits) == 1:
        return numbers[0], numbers[0]
    high = _number(limits[1])
    if high >= bound:
        raise InvalidIntervals(f'too large index: "{limits[1]}"')
    if numbers[0] >= high:
        raise InvalidIntervals(f"non-increasing order, previous: {numbers[0]}, current: {high}")
    return numbers[0], high


def _number(text: str) -> int:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        raise InvalidIntervals(f'cannot convert string to integer for index: "{text}"')
    return whole_number(digits)


def read_intervals(text: str, bound: int) -> list[Interval]:
    """The intervals below the bound; what lies beyond it is cut off (a Job that was scaled down has such)."""
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        low, _, high = part.partition("-")
        if not (low.isascii() and low.isdecimal() and (not high or (high.isascii() and high.isdecimal()))):
            continue
        first, last = whole_number(low), whole_number(high or low)
        if first < bound and first <= last:
            found.append((first, min(last, bound - 1)))
    return found


def numbers_of(intervals: Iterable[Interval]) -> set[int]:
    return {number for low, high in intervals for number in range(low, high + 1)}


def count_of(intervals: Iterable[Interval]) -> int:
    return sum(high - low + 1 for low, high in intervals)


def written_intervals(numbers: Iterable[int]) -> str:
    """Two neighbours are written `4,5`, more as a range, as upstream does."""
    merged: list[list[int]] = []
    for number in sorted(set(numbers)):
        if merged and merged[-1][1] == number - 1:
            merged[-1][1] = number
        else:
            merged.append([number, number])
    return ",".join(_written(low, high) for low, high in merged)


def _written(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low},{high}" if high == low + 1 else f"{low}-{high}"
