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

from tonnage.scheduling.volumes.packing.pool_fits import SearchBudget, fits_one
from tonnage.scheduling.volumes.packing.pool_policies import PoolReach, SharedPools, pieces_of
from tonnage.scheduling.volumes.packing.shared_pools import shared_places

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


class Pool(NamedTuple):
    free: int
    classes: tuple[str, ...]
    """That draw from it."""


class Ask(NamedTuple):
    """A claim: what its volume takes, what the driver keeps free beside it, and its class."""

    size: int
    kept: int
    class_name: str


Pools = tuple[Pool, ...]
Asks = tuple[Ask, ...]
"""Descending."""


class Course(NamedTuple):
    turns: tuple[int, ...]
    """The claims of a replica, by position, in the order in which their volumes are made."""
    order: tuple[int, ...]
    """The pools, by number, in the order in which the driver looks at them."""


class PoolChoices:
    """The choices of one driver for replicas that all ask for the same of a disk."""

    def __init__(self, luck: DriverLuck) -> None:
        self._luck = luck
        self._better = min if luck is DriverLuck.WORST else max
        self._worth: dict[tuple[Pools, Asks, Asks], int] = {}
        self.is_cut = False
        self.has_chosen = False
        """There was a choice, so another luck may end differently."""

    def pool_for(self, pools: Pools, rest: Asks, asks: Asks) -> int:
        """The index of the pool for the first of `rest`, the replica's claims still to be created; at least one pool
        must have room for it. Later replicas ask for `asks`."""
        roomy = {pool: place for place, pool in enumerate(pools) if _takes(pool, rest[0])}
        if len(roomy) == 1 or len({*asks, *rest}) == 1:  # with equal claims the choice does not matter
            return next(iter(roomy.values()))
        self.has_chosen = True
        worth = {pool: self._after(pools, pool, rest, asks) for pool in roomy}
        best = self._better(worth.values())
        return roomy[min(pool for pool in roomy if worth[pool] == best)]

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

    def _after(self, pools: Pools, pool: Pool, rest: Asks, asks: Asks, ahead: int = 0) -> int:
        """How many replicas run in the end, including the current one, if it takes this pool."""
        left = list(pools)
        left.remove(pool)
        now = tuple(sorted([*left, Pool(pool.free - rest[0].size, pool.classes)], reverse=True))
        coming = rest[1:]
        if coming:
            return self._run(now, coming, asks, ahead)
        return 1 + (self._run(now, asks, asks, ahead) if _hold(now, asks) else 0)

    def _run(self, pools: Pools, rest: Asks, asks: Asks, ahead: int) -> int:
        known = self._worth.get((pools, rest, asks))
        if known is not None:
            return known
        choices = [pool for pool in dict.fromkeys(pools) if _takes(pool, rest[0])]
        if ahead >= _FURTHEST:
            self.is_cut = True
            return 0
        if len(self._worth) >= MOST_STATES:
            self.is_cut = True
            choices = choices[:1] if self._luck is DriverLuck.WORST else choices[-1:]
        after = (self._after(pools, pool, rest, asks, ahead + 1) for pool in choices)
        found = self._worth[pools, rest, asks] = self._better(after, default=0)
        return found


def _takes(pool: Pool, ask: Ask) -> bool:
    return ask.class_name in pool.classes and pool.free >= ask.size + ask.kept


def _hold(pools: Pools, asks: Asks) -> bool:
    kept, search = max(ask.kept for ask in asks), SearchBudget(_PACKING_STEPS)
    free = tuple(pool.free - kept for pool in pools)
    if len({pool.classes for pool in pools}) == 1:
        return fits_one(free, tuple(ask.size for ask in asks), search)
    names = sorted({ask.class_name for ask in asks})
    reaches = [PoolReach(tuple(at for at, pool in enumerate(pools) if name in pool.classes)) for name in names]
    pieces = pieces_of((ask.size, names.index(ask.class_name)) for ask in asks)
    return shared_places(SharedPools(free, tuple(reaches)), pieces, search=search) is not None


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
