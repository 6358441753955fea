"""Which pool a driver takes if its policy is unknown: the one that leaves room for the fewest replicas, or for the
most.

The choice matters for replicas with claims of different sizes: pools 100 and 100 hold 80+20 twice if each 20 goes
beside an 80, else once. `PoolChoices` tries every choice for replica after replica in the pools of one disk; a choice
is worth the fewest or the most replicas that run in the end. The search is bounded: `is_cut` says that it was cut and
the rest is a guess.

A driver with `first-fit` has an unknown order of pools, and claims that are sent together reach it in any order: both
are assumed for the worst or for the best before its first volume (`Course`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice, product, starmap
from typing import Final, NamedTuple

from tonnage.scheduling.volumes.packing.pool_fits import SearchBudget, Sizes, descending, fits_one

MOST_STATES: Final = 30_000
"""Limit of pool states per question, about half a second."""
_FURTHEST: Final = 200
"""How many claims the search looks ahead."""
_MOST_COURSES: Final = 720
_PACKING_STEPS: Final = 2_000


class DriverLuck(Enum):
    """What is assumed about a driver whose choices are unknown."""

    WORST = "worst"
    BEST = "best"


class Course(NamedTuple):
    turns: tuple[int, ...]
    """The claims of a replica, by position, in the order in which their volumes are made."""
    order: tuple[int, ...]
    """The pools, by number, in the order in which the driver looks at them."""


class PoolChoices:
    """The choices of one driver for replicas that all ask for the same `sizes` of a disk."""

    def __init__(self, luck: DriverLuck) -> None:
        self._luck = luck
        self._better = min if luck is DriverLuck.WORST else max
        self._worth: dict[tuple[Sizes, Sizes, Sizes], int] = {}
        self.is_cut = False
        self.has_chosen = False
        """There was a choice, so another luck may end differently."""

    def pool_for(self, pools: Sequence[int], rest: Sizes, sizes: Sizes) -> int:
        """The index of the pool for the first of `rest`, the replica's claims still to be created; at least one pool
        must have room for it. Later replicas ask for `sizes`."""
        size = rest[0]
        roomy = {free: place for place, free in enumerate(pools) if free >= size}
        if len(roomy) == 1 or len({*sizes, *rest}) == 1:  # with equal claims the choice does not matter
            return next(iter(roomy.values()))
        self.has_chosen = True
        worth = {free: self._after(pools, free, rest, sizes) for free in roomy}
        best = self._better(worth.values())
        return roomy[min(free for free in roomy if worth[free] == best)]

    def course_of(
        self,
        turns: Iterable[tuple[int, ...]],
        orders: Iterable[tuple[int, ...]],
        worth_of: Callable[[tuple[int, ...], tuple[int, ...]], int],
    ) -> Course:
        """The course of a driver with `first-fit` in which the fewest or the most replicas run."""
        most = _MOST_COURSES + 1
        courses = list(islice(starmap(Course, product(islice(turns, most), islice(orders, most))), most))
        self.is_cut |= len(courses) == most
        worth = {course: worth_of(*course) for course in courses[:_MOST_COURSES]}
        self.has_chosen |= len(set(worth.values())) > 1
        chosen = self._better(worth.values())
        return next(course for course in worth if worth[course] == chosen)

    def _after(self, pools: Sequence[int], free: int, rest: Sizes, sizes: Sizes, ahead: int = 0) -> int:
        """How many replicas run in the end, including the current one, if it takes the pool with `free` bytes."""
        left = list(pools)
        left.remove(free)
        now, coming = descending([*left, free - rest[0]]), rest[1:]
        if coming:
            return self._run(now, coming, sizes, ahead)
        return 1 + (self._run(now, sizes, sizes, ahead) if _hold(now, sizes) else 0)

    def _run(self, pools: Sizes, rest: Sizes, sizes: Sizes, ahead: int) -> int:
        known = self._worth.get((pools, rest, sizes))
        if known is not None:
            return known
        choices = [free for free in dict.fromkeys(pools) if free >= rest[0]]
        if ahead >= _FURTHEST:
            self.is_cut = True
            return 0
        if len(self._worth) >= MOST_STATES:
            self.is_cut = True
            choices = choices[:1] if self._luck is DriverLuck.WORST else choices[-1:]
        after = (self._after(pools, free, rest, sizes, ahead + 1) for free in choices)
        found = self._worth[pools, rest, sizes] = self._better(after, default=0)
        return found


def _hold(pools: Sizes, sizes: Sizes) -> bool:
    return fits_one(pools, sizes, SearchBudget(_PACKING_STEPS))


def distinct_orders(pools: Sequence[Hashable]) -> Iterator[tuple[int, ...]]:
    """The orders of these pools, by number, of which no two differ by equal pools alone."""

    def orders_of(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        firsts = {pools[number]: number for number in reversed(left)}
        for first in reversed(firsts.values()):
            for rest in orders_of(tuple(number for number in left if number != first)):
                yield first, *rest
        if not left:
            yield ()

    return orders_of(tuple(range(len(pools))))
