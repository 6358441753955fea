"""How a driver chooses the pool of a volume, if that is known, and in which orders of the claims a fit is sure.

    most-free    the pool with the most room at that moment
    best-fit     the pool with the least room of those that have enough
    first-fit    the first that has enough, in a fixed order of the driver's own
    random       any that has enough; `unknown` is treated the same

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import permutations
from math import factorial, prod
from typing import Final, NamedTuple

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


MOST_ORDER_STEPS: Final = 20_000
"""A search gives up after placing this many claims, and the fit is called possible."""

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


def _found(pools: Sizes, sizes: Sizes, promised: Sizes, policy: PoolPolicy, search: SearchBudget) -> Sizes | None:
    if not policy.is_known or driver_orders(pools, policy) is None:
        policy = PoolPolicy.UNKNOWN
    elif not promised and policy is not PoolPolicy.FIRST_FIT:
        return _order_of_packing(pools, sizes, policy, search)
    return _Search(policy, search).order(pools, sizes, promised)


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


class _Search:
    """A search over orders of claims and driver choices. Gives up after MOST_ORDER_STEPS."""

    def __init__(self, policy: PoolPolicy, search: SearchBudget) -> None:
        self._policy = policy
        self._search = search
        self._steps = 0

    def order(self, pools: Sizes, sizes: Sizes, promised: Sizes) -> Sizes | None:
        """An order that holds, trying the largest claims first, and no others for an unknown policy; None if there is
        none or the search gives up."""
        states = self._settled({(start, promised) for start in _starts(pools, self._policy)}, sizes)
        found = None if states is None else self._from(states, sizes, set())
        self._search.spend(self._steps)
        return found

    def _from(self, states: States, sizes: Sizes, failed: set[tuple[States, Sizes]]) -> Sizes | None:
        if not states:  # every remaining claim finds room
            return sizes
        for size in dict.fromkeys(sizes) if self._policy.is_known else sizes[:1]:
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
            if not choices or self._steps > MOST_ORDER_STEPS:
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
                if not choices or self._steps > MOST_ORDER_STEPS:
                    return None
                left = without(promised, size)
                states.update((each, left) for each in choices)
        return frozenset(kept)


def _starts(pools: Sizes, policy: PoolPolicy) -> Iterable[Sizes]:
    """The pools in every order that the driver may use."""
    return driver_orders(pools, policy) or (pools,)


def _choices(free: Sizes, size: int, policy: PoolPolicy) -> Iterator[Sizes]:
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
