"""How a driver chooses the pool of a volume, if that is known, and what it means for the grade of a fit.

    most-free    the pool with the most room at that moment
    best-fit     the pool with the least room of those that have enough
    first-fit    the first that has enough, in a fixed order of the driver's own
    random       any that has enough; `unknown` is treated the same

The orders of claims and of first-fit's pools are unknown: a fit is guaranteed if every order works. *Possible* does not
depend on the policy: send a packing pool by pool, to most-free always a claim of the pool with most room. For
most-free, *guaranteed* is the same as for any driver: it reaches any placement that shuts a claim out, if it is always
asked for a claim that this placement has in the pool with most room now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import permutations
from math import factorial, prod
from typing import Final, NamedTuple

import numpy as np

from tonnage.scheduling.cluster.columns import Mask
from tonnage.scheduling.volumes.packing.pool_fits import (
    Found,
    Ints2D,
    SearchBudget,
    Sizes,
    descending,
    needing_room,
    without,
)

MOST_STEPS: Final = 60_000
"""A search gives up after looking at this many pools, and expects the worst."""
_STEPS_A_STATE: Final = 6
"""The extra steps counted for every new state of the pools."""
MOST_ORDERS: Final = 24
"""Best-fit is played on all objects at once for up to this many orders of claims (as many as four claims have)."""
MOST_POOLS_IN_ORDER: Final = 6
"""First-fit is searched for up to this many relevant pools, in all orders; beyond, it is treated as random."""


class PoolPolicy(StrEnum):
    """Which pool a driver chooses."""

    MOST_FREE = "most-free"
    BEST_FIT = "best-fit"
    FIRST_FIT = "first-fit"
    RANDOM = "random"
    UNKNOWN = "unknown"

    @property
    def is_known(self) -> bool:
        """True if it says more than that the pool has room."""
        return self not in (PoolPolicy.RANDOM, PoolPolicy.UNKNOWN)

    @property
    def is_better_in_every_order(self) -> bool:
        """True if the policy can be sure where a random driver may fail. Most-free cannot."""
        return self in (PoolPolicy.BEST_FIT, PoolPolicy.FIRST_FIT)


class PackedClaim(NamedTuple):
    """A placed claim and the free bytes of its pool before; None: no pool had room. `claim`: its name, if known."""

    size: int
    pool_bytes: int | None
    claim: str = ""


def placed_by(policy: PoolPolicy, pools: Sizes, size: int) -> int | None:
    """The position of the chosen pool (the first of equals), `pools` in the driver's order; None if none has room."""
    roomy = [place for place, free in enumerate(pools) if free >= size]
    if not roomy:
        return None
    if policy is PoolPolicy.MOST_FREE:
        return max(roomy, key=lambda place: pools[place])
    if policy is PoolPolicy.BEST_FIT:
        return min(roomy, key=lambda place: pools[place])
    return roomy[0]


State = tuple[Sizes, Sizes]
"""Free bytes, and the claims to come."""
_sure: Found[bool] = Found()
_outcomes: Found[frozenset[Sizes] | None] = Found()


def is_always_placed(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> bool:
    """True if a driver with this known policy places all claims in any order. False if a search gives up."""
    sizes = needing_room(sizes)
    rows = _that_matter(pools, sizes)

    def is_sure(search: SearchBudget) -> bool:
        played = _played(rows, sizes, policy, search)
        return played is not None and not played.failing

    return _sure.ask((policy, rows, sizes), search, is_sure, worst=False)


def are_always_placed(pools: Ints2D, sizes: Sizes) -> Mask:
    """`is_always_placed` by best-fit for each of the O objects: every order of the claims is played on all at once. For
    at most MOST_ORDERS orders (`order_count`)."""
    placed = np.ones(len(pools), dtype=np.bool_)
    for size in dict.fromkeys(sizes):
        rows = np.flatnonzero(placed)
        free = pools[rows]
        chosen = np.arange(len(rows)), np.where(free >= size, free, np.iinfo(np.int64).max).argmin(axis=1)
        has_room = free[chosen] >= size
        free[chosen] -= size
        placed[rows] = has_room
        if len(sizes) > 1:
            placed[rows[has_room]] = are_always_placed(free[has_room], without(sizes, size))
    return placed


def order_count(sizes: Sizes) -> int:
    """In how many different orders these claims can come."""
    return factorial(len(sizes)) // prod(factorial(count) for count in Counter(sizes).values())


def outcomes(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> frozenset[Sizes] | None:
    """What a driver may leave of the pools after placing these claims, each outcome descending. None if a claim may
    find no room, or a search gives up."""

    def played(search: SearchBudget) -> frozenset[Sizes] | None:
        found = _played(tuple(pools), sizes, policy, search, to_the_end=True)
        return found.left if found is not None and not found.failing else None

    return _outcomes.ask((policy, tuple(pools), sizes), search, played, worst=None)


def bad_order(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> tuple[PackedClaim, ...]:
    """An order of claims in which the last finds no room; empty if there is none or the search gives up."""
    sizes = needing_room(sizes)
    found = _played(_that_matter(pools, sizes), sizes, policy, search)
    return found.failing if found is not None else ()


def _that_matter(pools: Sequence[int], sizes: Sizes) -> Sizes:
    """The pools that can hold at least one of the claims."""
    return tuple(pool for pool in pools if pool >= sizes[-1])


def driver_orders(pools: Sizes, policy: PoolPolicy) -> Iterable[Sizes] | None:
    """The pools in every order that the driver may use; None if there are too many."""
    if policy is not PoolPolicy.FIRST_FIT:
        return (pools,)
    return None if len(pools) > MOST_POOLS_IN_ORDER else dict.fromkeys(permutations(pools))


def pools_after(policy: PoolPolicy, free: Sizes, place: int, size: int) -> Sizes:
    """The pools after placing a claim. Sorted unless their order matters, so that equal states are counted once."""
    left = (*free[:place], free[place] - size, *free[place + 1 :])
    return left if policy is PoolPolicy.FIRST_FIT else descending(left)


class PlayedOrders(NamedTuple):
    """What comes of all orders of some claims."""

    failing: tuple[PackedClaim, ...] = ()
    """The shortest way to a claim without room, if there is one."""
    left: frozenset[Sizes] = frozenset()
    """Otherwise what is left of the pools, if the orders were played to the end."""


def _played(
    pools: Sizes, sizes: Sizes, policy: PoolPolicy, search: SearchBudget, *, to_the_end: bool = False
) -> PlayedOrders | None:
    """Place the claims in every order; None if the search gives up. Without `to_the_end`, an order ends where all
    remaining claims surely find room."""
    starts = driver_orders(pools, policy)
    if starts is None:
        return None
    steps = 0
    # (free bytes, claims to come) -> the state before, and the claim placed
    came_by: dict[State, tuple[State, PackedClaim] | None] = {(start, sizes): None for start in starts}
    level = list(came_by)
    ends: set[Sizes] = set()
    while level:
        following: list[State] = []
        for state in level:
            free, coming = state
            if not coming:
                ends.add(descending(free))
            elif not to_the_end and is_roomy(free, coming):
                continue
            for size in dict.fromkeys(coming):
                steps += len(free) + _STEPS_A_STATE
                place = placed_by(policy, free, size)
                if place is None:
                    search.spend(steps)
                    return PlayedOrders((*_steps_to(state, came_by), PackedClaim(size, None)))
                now = (pools_after(policy, free, place, size), without(coming, size))
                if now not in came_by:
                    came_by[now] = (state, PackedClaim(size, free[place]))
                    following.append(now)
            if steps > MOST_STEPS:
                search.spend(steps)
                return None
        level = following
    search.spend(steps)
    return PlayedOrders(left=frozenset(ends))


def is_roomy(free: Sizes, coming: Sizes) -> bool:
    """True if all remaining claims find room with any driver: one pool holds all, or none can be shut out."""
    if not coming:
        return True
    total = sum(coming)
    return any(pool >= total for pool in free) or (
        sum([pool - coming[0] + 1 for pool in free if pool >= coming[0]]) > total - coming[-1]
    )


def _steps_to(state: State, came_by: Mapping[State, tuple[State, PackedClaim] | None]) -> tuple[PackedClaim, ...]:
    found: list[PackedClaim] = []
    while (before := came_by[state]) is not None:
        state, step = before
        found.append(step)
    return tuple(reversed(found))
