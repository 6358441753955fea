"""GetCapacity with pools (KEP-5925): what figures have to be, before and after volumes come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tonnage.driver_check.answers import CallRefused, Capacity
from tonnage.driver_check.results import PASSED, CheckVerdict, failed, passed, skipped
from tonnage.quantity import Quantity


def amount(number: int) -> str:
    return str(Quantity.from_bytes(number)) if number >= 0 else str(number)


def amounts(numbers: Sequence[int]) -> str:
    return ", ".join(map(amount, numbers)) or "none"


def answers(found: Sequence[tuple[str, Capacity | CallRefused]]) -> CheckVerdict:
    """Each segment's figures, with the segment in words."""
    for where, each in found:
        if isinstance(each, CallRefused):
            return failed(f"GetCapacity for {where} was refused: {each}")
        figures = [each.available, *each.pools, *([] if each.maximum is None else [each.maximum])]
        if min(figures) < 0:
            return failed(f"GetCapacity for {where} has a figure below 0: {amounts(figures)}")
    return passed(f"{len(found)} segment(s)") if found else skipped("no segment is known: say --topology")


def lists_pools(found: Capacity) -> CheckVerdict:
    if found.pools:
        return passed(f"pools {amounts(found.pools)}")
    return skipped("available_capacities is empty: schedulers see one number for each segment")


def sums_up(found: Capacity) -> CheckVerdict:
    if not found.pools:
        return skipped("no pools are listed")
    if sum(found.pools) == found.available:
        return PASSED
    return failed(
        f"the pools {amounts(found.pools)} are {amount(sum(found.pools))} together, "
        f"and available_capacity is {amount(found.available)}"
    )


def maximum_fits(found: Capacity) -> CheckVerdict:
    if found.maximum is None:
        return skipped("maximum_volume_size is not said")
    most, what = (max(found.pools), "the largest pool") if found.pools else (found.available, "available_capacity")
    if found.maximum <= most:
        return PASSED
    return failed(f"maximum_volume_size is {amount(found.maximum)}, and {what} is {amount(most)}")


def stays_in_order(first: Capacity, second: Capacity) -> CheckVerdict:
    if first == second:
        return PASSED
    if sorted(first.pools) == sorted(second.pools) and first.pools != second.pools:
        return failed(f"the pools came in another order: {amounts(first.pools)}, then {amounts(second.pools)}")
    return failed(
        f"with nothing done in between, the figures went from {_told(first)} to {_told(second)}; "
        "if somebody else makes volumes, check when nobody does"
    )


def knows_its_segments(everywhere: Capacity, nowhere: Capacity | CallRefused) -> CheckVerdict:
    """`nowhere` is the answer for a segment that does not exist."""
    if isinstance(nowhere, CallRefused) or nowhere.free_bytes <= 0:
        return PASSED
    if everywhere.free_bytes <= 0:
        return skipped("there is no capacity anywhere")
    return failed(f"a segment that does not exist has {_told(nowhere)}")


def shrank(before: Capacity, after: Capacity, size_bytes: int) -> CheckVerdict:
    """A volume of this size was made in between."""
    if not before.pools or not after.pools:
        less = before.available - after.available
        if less >= size_bytes:
            return passed("by available_capacity; no pools are listed")
        return failed(
            f"a volume of {amount(size_bytes)} was made, and available_capacity went from "
            f"{amount(before.available)} to {amount(after.available)}"
        )
    told = f"a volume of {amount(size_bytes)} was made: {_told(before)} became {_told(after)}"
    if len(before.pools) != len(after.pools):
        return failed(f"{told}, which is another number of pools")
    # A driver may list its pools by their size: then the one that changed stands elsewhere.
    was, now = Counter(before.pools) - Counter(after.pools), Counter(after.pools) - Counter(before.pools)
    if not was:
        return failed(f"{told}, and no pool has less")
    if was.total() > 1:
        return failed(f"{told}: {was.total()} pools changed, and a volume is in one")
    less = sum(was) - sum(now)
    return PASSED if less >= size_bytes else failed(f"{told}: its pool has {amount(less)} less")


def came_back(before: Capacity, after: Capacity) -> CheckVerdict:
    """The volume was deleted."""
    if (sorted(before.pools), before.available) == (sorted(after.pools), after.available):
        return PASSED
    return failed(f"before the volume was made: {_told(before)}; after it was deleted: {_told(after)}")


def is_true(largest_bytes: int, made: int | CallRefused) -> CheckVerdict:
    """A volume of the largest pool's size was asked for; `made` is what came of it."""
    if isinstance(made, CallRefused):
        return failed(f"a volume of {amount(largest_bytes)}, as large as the figures say, was refused: {made}")
    return PASSED


def moved(
    old: tuple[Capacity, Capacity], new: tuple[Capacity, Capacity], size_bytes: int, *, is_one_place: bool
) -> CheckVerdict:
    """A volume went from one segment to another: figures of both, before and after it."""
    if is_one_place:
        return skipped("both nodes draw from the same storage")
    if old[1].free_bytes < old[0].free_bytes + size_bytes:
        return failed(f"the old node has {_told(old[1])} free, after {_told(old[0])}: the volume still counts there")
    if new[1].free_bytes > new[0].free_bytes - size_bytes:
        return failed(f"the new node has {_told(new[1])} free, after {_told(new[0])}: the volume does not count there")
    return PASSED


def _told(found: Capacity) -> str:
    return amounts(found.pools) if found.pools else amount(found.available)
