"""What may be left of an object's pools once the driver has placed all that is promised, in whatever way.

    pools 100, 60 · promised 30       ─►   70, 60   or   100, 30

A new group fits beside the promises (`fits_beside_one`) just when it fits every one of these. They depend on the object
alone and not on who asks: worked out once for each promise, they are asked by every pod that differs from the last,
for all objects in one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.scheduling.volumes.packing.pool_fits import MOST_BYTES, Sizes, descending
from tonnage.scheduling.volumes.packing.pool_grades import is_guaranteed
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy, outcomes
from tonnage.scheduling.volumes.packing.search import UNLIMITED, Found, SearchBudget

MOST_LEFT: Final = 512
"""So many ways to place the promises are kept of one object; with more, groups are searched one by one."""

_found: Found[tuple[Sizes, ...] | None] = Found()


def left_by_promises(
    pools: Sequence[int],
    promised: Sizes,
    search: SearchBudget = UNLIMITED,
    policy: PoolPolicy = PoolPolicy.UNKNOWN,
) -> tuple[Sizes, ...] | None:
    """Every way in which the pools may be left, each descending; none at all when a promised claim may find no room, so
    that nothing fits. None when they are too many, or the search gave up: then `fits_beside_one` has to say.
    """
    key = tuple(pools)
    if not key or key[0] > MOST_BYTES:
        return None
    if policy.is_known:
        played = outcomes(key, promised, policy, search)
        if played is not None:
            return tuple(played) if len(played) <= MOST_LEFT else None
    return _found.ask((key, promised), search, lambda search: _left(key, promised, search), worst=None)


def _left(pools: Sizes, promised: Sizes, search: SearchBudget) -> tuple[Sizes, ...] | None:
    undecided = search.undecided
    if not is_guaranteed(pools, promised, search):
        return () if search.undecided == undecided else None
    states = {pools}
    for claim in promised:
        following = set()
        for state in states:
            for place, free in enumerate(state):
                if free >= claim and (not place or state[place - 1] != free):
                    following.add(descending((*state[:place], free - claim, *state[place + 1 :])))
        search.spend(len(states) * len(pools))
        if len(following) > MOST_LEFT:
            return None
        states = following
    return tuple(states)
