"""Is there an order of the claims that always works? The grade between guaranteed and possible (docs/decisions/004).

Pools 100 and 60, claims 80 and 40: with the 40 first, a driver may put it into the 100, and the 80 finds no room. With
the 80 first, the 40 always fits. An order *holds* if every claim finds room, whatever pools the driver chooses and
whenever it places promised claims; promised claims must find room too.

    unknown, random        Largest first; no other order has to be tried. Let a come right before the larger b. If b
                           first fails, the same pools are reached with a first, or b is shut out already.
    most-free, best-fit    Every group that can be packed has such an order, if nothing is promised.
    first-fit              An order must hold for every order of the pools. The orders are searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    place_one,
    without,
)
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy, driver_orders, is_roomy, placed_by, pools_after

MOST_STEPS: Final = 20_000
"""A search gives up after placing this many claims, and the fit is called possible."""
Pools = tuple[int, ...]
State = tuple[Pools, Sizes]
"""Free bytes, and the promised claims still to be placed."""
States = frozenset[State]
"""All possible states at one moment."""
_orders: Found[Sizes | None] = Found()


# -- one object -------------------------------------------------------------------------------------------------------


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
    found = _orders.ask(
        (policy, rows, needed, beside), search, lambda search: _found(rows, needed, beside, policy, search), worst=None
    )
    return None if found is None else (*found, *sizes[len(needed) :])


def next_claim(pools: Sequence[int], sizes: Sizes, policy: PoolPolicy, search: SearchBudget = UNLIMITED) -> int:
    """The claim to send first if there is no safe order: the one with the smallest share of driver choices that leave
    no room for the others; among equals the largest."""

    def harm(size: int) -> float:
        rest = without(sizes, size)
        starts = _starts(tuple(pools), policy)
        after = {descending(free) for start in starts for free in _choices(start, size, policy)}
        return sum(place_one(free, rest, search) is None for free in after) / max(len(after), 1)

    return min(dict.fromkeys(sizes), key=harm)


def _found(pools: Pools, sizes: Sizes, promised: Sizes, policy: PoolPolicy, search: SearchBudget) -> Sizes | None:
    if not policy.is_known or driver_orders(pools, policy) is None:
        policy = PoolPolicy.UNKNOWN
        return sizes if _Search(policy, search).holds(pools, sizes, promised) else None
    if not promised and policy is not PoolPolicy.FIRST_FIT:
        return _order_of_packing(pools, sizes, policy, search)
    return _Search(policy, search).order(pools, sizes, promised)


def _order_of_packing(pools: Pools, sizes: Sizes, policy: PoolPolicy, search: SearchBudget) -> Sizes | None:
    """The order in which a most-free or best-fit driver produces a packing (see `pool_policies.py`)."""
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


class _Search:
    """A search over orders of claims and driver choices. Gives up after MOST_STEPS."""

    def __init__(self, policy: PoolPolicy, search: SearchBudget) -> None:
        self._policy = policy
        self._search = search
        self._steps = 0

    @property
    def _is_over(self) -> bool:
        return self._steps > MOST_STEPS

    def holds(self, pools: Pools, order: Sizes, promised: Sizes) -> bool:
        """True if this order holds. False if the search gives up."""
        states = self._settled({(start, promised) for start in _starts(pools, self._policy)}, order)
        for place, size in enumerate(order):
            if states:
                states = self._placed(states, size, order[place + 1 :])
        self._search.spend(self._steps)
        return states is not None

    def order(self, pools: Pools, sizes: Sizes, promised: Sizes) -> Sizes | None:
        """An order that holds, trying the largest claims first; None if there is none or the search gives up."""
        states = self._settled({(start, promised) for start in _starts(pools, self._policy)}, sizes)
        found = None if states is None else self._from(states, sizes, set())
        self._search.spend(self._steps)
        return found

    def _from(self, states: States, sizes: Sizes, failed: set[tuple[States, Sizes]]) -> Sizes | None:
        if not states:  # every remaining claim finds room
            return sizes
        for size in dict.fromkeys(sizes):
            rest = without(sizes, size)
            after = self._placed(states, size, rest)
            if after is None or (after, rest) in failed:
                continue
            if (found := self._from(after, rest, failed)) is not None:
                return (size, *found)
            failed.add((after, rest))
        return None

    def _placed(self, states: States, size: int, rest: Sizes) -> States | None:
        """The possible states after placing one more claim; None if it finds no room in one of the states."""
        after: set[State] = set()
        for free, promised in states:
            choices = list(_choices(free, size, self._policy))
            self._steps += len(choices) + 1
            if not choices or self._is_over:
                return None
            after.update((each, promised) for each in choices)
        return self._settled(after, rest)

    def _settled(self, states: set[State], rest: Sizes) -> States | None:
        """These states, and all states after promised claims are placed, without states where everything finds room.
        None if a promised claim finds no room."""
        kept: set[State] = set()
        while states:
            free, promised = states.pop()
            coming = descending((*rest, *promised)) if promised else rest
            if not coming or (free, promised) in kept or is_roomy(free, coming):
                continue
            if max(free) < coming[0] or sum(free) < sum(coming):
                return None
            kept.add((free, promised))
            for size in dict.fromkeys(promised):
                choices = list(_choices(free, size, self._policy))
                self._steps += len(choices) + 1
                if not choices or self._is_over:
                    return None
                left = without(promised, size)
                states.update((each, left) for each in choices)
        return frozenset(kept)


def _starts(pools: Pools, policy: PoolPolicy) -> Iterable[Pools]:
    """The pools in every order that the driver may use."""
    return driver_orders(pools, policy) or (pools,)


def _choices(free: Pools, size: int, policy: PoolPolicy) -> Iterator[Pools]:
    """The pools after placing one claim, for every choice; nothing if no pool has room."""
    if policy.is_known:
        place = placed_by(policy, free, size)
        if place is not None:
            yield pools_after(policy, free, place, size)
        return
    for room in dict.fromkeys(free):
        if room >= size:
            yield pools_after(policy, free, free.index(room), size)


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
