"""What is sure of a driver whose policy is known, and in which order of the claims a fit is sure.

The orders of claims and of first-fit's pools are unknown: a fit is guaranteed if every order works. *Possible* does not
depend on the policy: send a packing pool by pool, to most-free always a claim of the pool with most room. For
most-free, *guaranteed* is the same as for any driver: it reaches any placement that shuts a claim out, if it is always
asked for a claim that this placement has in the pool with most room now.

Between the two is a fit for which we know a *safe order* (docs/decisions/004). Pools 100 and 60, claims 80 and 40: with
the 40 first, a driver may put it into the 100, and the 80 finds no room. With the 80 first, the 40 always fits. An
order is safe if every claim finds room, whatever pools the driver chooses and whenever it places promised claims;
promised claims must find room too.

    unknown, random        Largest first; no other order has to be tried. Let a come right before the larger b. If b
                           first fails, the same pools are reached with a first, or b is shut out already.
    most-free, best-fit    Every group that can be packed has such an order, if nothing is promised.
    first-fit              An order must hold for every order of the pools. The orders are searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import factorial, prod
from typing import Final

import numpy as np

from tonnage.scheduling.cluster.columns import Mask
from tonnage.scheduling.volumes.packing.pool_fits import (
    UNLIMITED,
    Found,
    Ints2D,
    SearchBudget,
    Sizes,
    descending,
    needing_room,
    place_one,
    without,
)
from tonnage.scheduling.volumes.packing.pool_policies import (
    ANY_POOL,
    MOST_POOLS_IN_ORDER,
    DriverSearch,
    PackedClaim,
    PoolPolicy,
    least_harmful,
    pieces_of_one,
    pools_of_one,
    safe_order_of,
    unless_given_up,
)

MOST_ORDERS: Final = 24
"""Best-fit is played on all objects at once for up to this many orders of claims (as many as four claims have)."""
_MOST_STEPS: Final = 10_000
"""A search through every order of the claims gives up after so many steps."""
_STEPS_A_STATE: Final = 5
"""The steps of a decision that one of them takes."""


# -- every order ------------------------------------------------------------------------------------------------------


def is_always_placed(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> bool:
    """True if a driver with this known policy places all claims in any order. False if a search gives up."""
    return _shut_out(pools, sizes, policy, search) == ()


def bad_order(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> tuple[PackedClaim, ...]:
    """An order of claims in which the last finds no room; empty if there is none or the search gives up."""
    return _shut_out(pools, sizes, policy, search) or ()


def _shut_out(
    pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget
) -> tuple[PackedClaim, ...] | None:
    """`DriverSearch.shut_out` with the pools that can hold one of the claims; None if the search gives up."""
    needed = needing_room(sizes)
    rows = tuple(pool for pool in pools if pool >= needed[-1])
    return None if _has_too_many_orders(rows, policy) else _failing(policy, rows, needed, search)


def outcomes(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> frozenset[Sizes] | None:
    """What a driver may leave of the pools after placing these claims, each outcome descending. None if a claim may
    find no room, or a search gives up."""
    return None if _has_too_many_orders(pools, policy) else _outcomes(policy, tuple(pools), sizes, search)


def _played(policy: PoolPolicy, pools: Sizes, sizes: Sizes, search: SearchBudget) -> tuple[PackedClaim, ...] | None:
    play = DriverSearch(pools_of_one(pools, policy), search, most=_MOST_STEPS, cost=_STEPS_A_STATE)
    return unless_given_up(lambda: play.shut_out(pieces_of_one(sizes)))


def _left(policy: PoolPolicy, pools: Sizes, sizes: Sizes, search: SearchBudget) -> frozenset[Sizes] | None:
    play = DriverSearch(pools_of_one(pools, policy), search, most=_MOST_STEPS, cost=_STEPS_A_STATE)
    found = unless_given_up(lambda: play.outcomes(pieces_of_one(sizes), {0}))
    return None if found is None else frozenset(descending(free) for _, free in found)


_failing, _outcomes = Found(_played, worst=None), Found(_left, worst=None)


def _has_too_many_orders(pools: Sequence[int], policy: PoolPolicy) -> bool:
    return policy is PoolPolicy.FIRST_FIT and len(pools) > MOST_POOLS_IN_ORDER


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


# -- an order that we choose ------------------------------------------------------------------------------------------


def safe_order(
    pools: Sequence[int],
    sizes: Sizes,
    promised: Sizes = (),
    search: SearchBudget = UNLIMITED,
    policy: PoolPolicy = PoolPolicy.UNKNOWN,
) -> Sizes | None:
    """The claims in an order that holds; None if there is none or the search gives up. The claims must be packable."""
    needed, beside = _without_empty(sizes), _without_empty(promised)
    if len(set(needed)) < 2:
        return None  # equal claims have one order only: the fit is guaranteed or no order holds
    smallest = min((*needed, *beside))
    rows = tuple(pool for pool in pools if pool >= smallest)
    if policy in ANY_POOL or _has_too_many_orders(rows, policy):
        policy = PoolPolicy.UNKNOWN
    elif not beside and policy is not PoolPolicy.FIRST_FIT:
        order = _order_of_packing(rows, needed, policy, search)
        return None if order is None else (*order, *sizes[len(needed) :])
    found = safe_order_of(pools_of_one(rows, policy), pieces_of_one(needed), pieces_of_one(beside), search)
    return None if found is None else (*(size for size, _ in found), *sizes[len(needed) :])


def next_claim(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget = UNLIMITED) -> int:
    """`least_harmful` for one class."""
    return least_harmful(pools_of_one(pools, policy), pieces_of_one(sizes), search)[0]


def _order_of_packing(pools: Sizes, sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> Sizes | None:
    """The order in which a most-free or best-fit driver produces a packing."""
    packing = place_one(pools, sizes, search)
    if packing is None:
        return None
    by_pool: list[list[int]] = [[] for _ in pools]
    for size, place in zip(sizes, packing, strict=True):
        by_pool[place].append(size)
    if policy is PoolPolicy.BEST_FIT:
        smallest_first = sorted(range(len(pools)), key=lambda place: pools[place])
        return tuple(size for place in smallest_first for size in by_pool[place])
    free, order = list(pools), []
    for _ in sizes:
        place = max(range(len(free)), key=lambda place: free[place])
        of = by_pool[place] or next(each for each in by_pool if each)
        free[place] -= of[0]
        order.append(of.pop(0))
    return tuple(order)


def _without_empty(sizes: Sizes) -> Sizes:
    """The claims larger than 0: an empty claim fits wherever another does."""
    return tuple(size for size in sizes if size)


# -- all objects ------------------------------------------------------------------------------------------------------


def have_safe_order(pools: Ints2D, sizes: Sizes, search: SearchBudget, policy: PoolPolicy) -> Mask:
    """A mask over objects: True if `safe_order` finds an order, with nothing promised. All objects hold the claims."""
    needed = len(set(_without_empty(sizes)))
    if needed < 2 or policy in (PoolPolicy.MOST_FREE, PoolPolicy.BEST_FIT):
        return np.full(len(pools), needed > 1)
    found = (safe_order(row, sizes, (), search, policy) is not None for row in pools.tolist())
    return np.fromiter(found, np.bool_, len(pools))
