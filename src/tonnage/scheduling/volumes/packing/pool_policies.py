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

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import permutations
from math import factorial
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
FEW_PLAYED: Final = 130
MOST_PLAYED: Final = 2_000
MANY_OBJECTS: Final = 64
"""At most this many placements are tried for all objects at once, more for many objects: four different claims take 64,
six 1,956, four claims in four pools with first-fit 1,536. Beyond, objects are searched one by one."""
_MOST_CLAIMS_PLAYED: Final = 6
"""For more claims, placements are not even counted."""
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
    """A placed claim and the free bytes of its pool before; None: no pool had room."""

    size: int
    pool_bytes: int | None


# -- one object -------------------------------------------------------------------------------------------------------


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


_sure: Found[bool] = Found()
_outcomes: Found[frozenset[Sizes] | None] = Found()


def is_always_placed(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> bool:
    """True if a driver with this known policy places all claims in any order. False if a search gives up."""
    sizes = needing_room(sizes)
    rows = _that_matter(pools, sizes)
    return _sure.ask(
        (policy, rows, sizes), search, lambda search: _failing_order(rows, sizes, policy, search) == (), worst=False
    )


def outcomes(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> frozenset[Sizes] | None:
    """What a driver may leave of the pools after placing these claims, each outcome descending. None if a claim may
    find no room, or a search gives up."""
    key = tuple(pools)
    return _outcomes.ask((policy, key, sizes), search, lambda search: _left(key, sizes, policy, search), worst=None)


def bad_order(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> tuple[PackedClaim, ...]:
    """An order of claims in which the last finds no room; empty if there is none or the search gives up."""
    sizes = needing_room(sizes)
    return _failing_order(_that_matter(pools, sizes), sizes, policy, search) or ()


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


def _failing_order(
    pools: Sizes, sizes: Sizes, policy: PoolPolicy, search: SearchBudget
) -> tuple[PackedClaim, ...] | None:
    """The shortest way to a claim without room; () if there is none; None if the search gives up."""
    starts = driver_orders(pools, policy)
    if starts is None:
        return None
    steps = 0
    # (free bytes, claims to come) -> the state before, and the claim placed
    came_by: dict[tuple[Sizes, Sizes], tuple[tuple[Sizes, Sizes], PackedClaim] | None] = {
        (start, sizes): None for start in starts
    }
    level = list(came_by)
    while level:
        following: list[tuple[Sizes, Sizes]] = []
        for state in level:
            free, coming = state
            if is_roomy(free, coming):
                continue
            for size in dict.fromkeys(coming):
                steps += len(free) + _STEPS_A_STATE
                place = placed_by(policy, free, size)
                if place is None:
                    search.spend(steps)
                    return (*_steps_to(state, came_by), PackedClaim(size, None))
                now = (pools_after(policy, free, place, size), without(coming, size))
                if now not in came_by:
                    came_by[now] = (state, PackedClaim(size, free[place]))
                    following.append(now)
            if steps > MOST_STEPS:
                search.spend(steps)
                return None
        level = following
    search.spend(steps)
    return ()


def is_roomy(free: Sizes, coming: Sizes) -> bool:
    """True if all remaining claims find room with any driver: one pool holds all, or none can be shut out."""
    if not coming:
        return True
    total = sum(coming)
    return any(pool >= total for pool in free) or (
        sum([pool - coming[0] + 1 for pool in free if pool >= coming[0]]) > total - coming[-1]
    )


def _steps_to(
    state: tuple[Sizes, Sizes], came_by: dict[tuple[Sizes, Sizes], tuple[tuple[Sizes, Sizes], PackedClaim] | None]
) -> tuple[PackedClaim, ...]:
    found: list[PackedClaim] = []
    while (before := came_by[state]) is not None:
        state, step = before
        found.append(step)
    return tuple(reversed(found))


def _left(pools: Sizes, sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> frozenset[Sizes] | None:
    starts = driver_orders(pools, policy)
    if starts is None:
        return None
    states = {(start, sizes) for start in starts}
    steps = 0
    for _ in sizes:
        following: set[tuple[Sizes, Sizes]] = set()
        for free, coming in states:
            for size in dict.fromkeys(coming):
                place = placed_by(policy, free, size)
                if place is None:
                    search.spend(steps)
                    return None
                following.add((pools_after(policy, free, place, size), without(coming, size)))
                steps += len(free) + _STEPS_A_STATE
        if steps > MOST_STEPS:
            search.spend(steps)
            return None
        states = following
    search.spend(steps)
    return frozenset(descending(free) for free, _ in states)


# -- all objects ------------------------------------------------------------------------------------------------------


def is_played(objects: int, pool_count: int, sizes: Sizes, policy: PoolPolicy) -> bool:
    """True if `always_placed` should try all orders for so many objects; otherwise objects are searched one by one."""
    if len(sizes) > _MOST_CLAIMS_PLAYED or pool_count > MOST_POOLS_IN_ORDER:
        return False
    orders = factorial(pool_count) if policy is PoolPolicy.FIRST_FIT else 1
    return orders * _placements(sizes) <= (MOST_PLAYED if objects >= MANY_OBJECTS else FEW_PLAYED)


def always_placed(pools: Ints2D, sizes: Sizes, policy: PoolPolicy) -> Mask:
    """`is_always_placed` for every row, by trying every order; ask `is_played` first. No claim is empty."""
    columns = np.ascontiguousarray(pools.T)
    if policy is not PoolPolicy.FIRST_FIT:
        return _played(columns, sizes, policy)
    is_sure = np.ones(len(pools), dtype=np.bool_)
    for order in permutations(range(len(columns))):
        left_idx = np.flatnonzero(is_sure)
        if not left_idx.size:
            break
        is_sure[left_idx] = _played(columns[list(order)][:, left_idx], sizes, policy)
    return is_sure


@lru_cache(maxsize=2048)
def _placements(sizes: Sizes) -> int:
    """How many placements it takes to try every order of the claims."""
    return sum(len(set(permutations(sizes, count))) for count in range(1, len(sizes) + 1))


def _played(columns: Ints2D, coming: Sizes, policy: PoolPolicy) -> Mask:
    """A mask over objects: True if every order of the claims works. `columns`: [P, O], descending for most-free and
    best-fit."""
    largest = columns.max(axis=0) if policy is PoolPolicy.FIRST_FIT else columns[0]
    is_sure: Mask = largest >= sum(coming)
    if len(coming) == 1:
        return is_sure
    left_idx = np.flatnonzero(~is_sure & (largest >= coming[0]))
    for size in dict.fromkeys(coming):
        if not left_idx.size:
            break
        after = _placed(columns[:, left_idx], size, policy)
        left_idx = left_idx[_played(after, without(coming, size), policy)]
    is_sure[left_idx] = True
    return is_sure


def _placed(columns: Ints2D, size: int, policy: PoolPolicy) -> Ints2D:
    """The pools after placing one claim; undefined where no pool has room."""
    left = columns.copy()
    if policy is PoolPolicy.MOST_FREE:
        left[0] -= size
    else:
        is_waiting = np.ones(columns.shape[1], dtype=np.bool_)
        # Pools descend: the smallest pool with room is the last.
        for column in left[::-1] if policy is PoolPolicy.BEST_FIT else left:
            takes = is_waiting & (column >= size)
            column -= takes * np.int64(size)
            is_waiting ^= takes
    return left if policy is PoolPolicy.FIRST_FIT else np.sort(left, axis=0)[::-1]
