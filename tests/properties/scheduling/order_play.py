"""The slow judge of orders: plays every order of the claims, every choice of the driver and every way in which promised
claims come in between. It shares nothing with the code under test but the names of the policies."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations

from tonnage.scheduling.volumes.packing.pool_fits import Sizes
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy


def left_after(policy: PoolPolicy, free: Sizes, size: int) -> list[Sizes]:
    """What a driver may leave of its pools, which stand in its own order, after one more volume; [] if it refuses."""
    roomy = [pool for pool, room in enumerate(free) if room >= size]
    if policy is PoolPolicy.MOST_FREE:
        roomy = sorted(roomy, key=lambda pool: -free[pool])[:1]
    elif policy is PoolPolicy.BEST_FIT:
        roomy = sorted(roomy, key=lambda pool: free[pool])[:1]
    elif policy is PoolPolicy.FIRST_FIT:
        roomy = roomy[:1]
    return [(*free[:pool], free[pool] - size, *free[pool + 1 :]) for pool in roomy]


@lru_cache(maxsize=400_000)
def order_holds(policy: PoolPolicy, free: Sizes, order: Sizes, promised: Sizes) -> bool:
    """Every claim finds room, whoever comes next: the next in order, or any of those promised."""
    moves = [(order[0], order[1:], promised)] if order else []
    moves += [(size, order, promised[:place] + promised[place + 1 :]) for place, size in enumerate(promised)]
    for size, then, others in moves:
        after = left_after(policy, free, size)
        if not after or not all(order_holds(policy, left, then, others) for left in after):
            return False
    return True


def driver_starts(policy: PoolPolicy, pools: Sizes) -> set[Sizes]:
    """The orders in which a driver may look at its pools."""
    return set(permutations(pools)) if policy is PoolPolicy.FIRST_FIT else {pools}


def safe_orders(policy: PoolPolicy, pools: Sizes, sizes: Sizes, promised: Sizes = ()) -> set[Sizes]:
    """The orders of the claims that hold."""
    starts = driver_starts(policy, pools)
    return {
        order
        for order in set(permutations(sizes))
        if all(order_holds(policy, start, order, promised) for start in starts)
    }
