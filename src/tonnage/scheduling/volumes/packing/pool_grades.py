"""How sure is a fit, when the driver and not the scheduler picks the pools? The arithmetic of DESIGN's grades.

A group that packs (`pool_fits.py`) may still fail: with pools of 100 and 60, the claims 60 and 100 fit, but a driver
that is asked for the 60 first may put it into the 100. We know of a driver only that it puts a claim into some pool
that has room, and that claims reach it in any order; of some also which pool that is (`pool_policies.py`). So a fit is

    GUARANTEED   whatever the order and the choices, every claim finds a pool with room;
    ORDERED      the same if the claims come in one order that we choose (`claim_orders.py`);
    POSSIBLE     some choice of pools places them all;
    NONE         no choice does.

Each implies the next. GUARANTEED implies POSSIBLE: let the driver take any order and any pools; all claims end up
placed, and there is the packing. It also survives the loss of a claim: whatever can happen without it can happen with
it, it merely comes last.

The question behind both is whether a claim can be *shut out*: some of the other claims are placed, every pool within
its size, such that no pool has room for this one any more. Any such state is reached by some driver in some order. Only
the pools that could hold the claim matter; each of them must be filled to more than `pool - claim` bytes.

Claims already *promised* and not yet seen in the pools' figures (the ledger) are in the driver's hands as well:
`promised_pools.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Mask
from tonnage.scheduling.volumes.packing.claim_orders import have_safe_order
from tonnage.scheduling.volumes.packing.pool_fits import (
    MOST_BYTES,
    UNBOUNDED,
    Ints2D,
    Sizes,
    arrangements,
    descending,
    fits,
    needing_room,
)
from tonnage.scheduling.volumes.packing.pool_policies import (
    PoolPolicy,
    always_placed,
    is_always_placed,
    is_played,
)
from tonnage.scheduling.volumes.packing.search import UNLIMITED, Found, SearchBudget

MOST_WAYS = 60
"""So many ways to shut out one claim are compared for all objects at once (five different claims have 52), or none."""

MOST_STEPS = 20_000
"""How often one search puts a claim into a pool, about 20 ms; then it gives up and expects the worst of the driver."""

Grades = npt.NDArray[np.int8]
"""[O]: a Grade an object."""


class Grade(IntEnum):
    """How sure it is that a driver can place all claims."""

    NONE = 0
    POSSIBLE = 1
    ORDERED = 2
    GUARANTEED = 3


# -- all objects ------------------------------------------------------------------------------------------------------


def grades(
    pools: Ints2D,
    sizes: Sizes,
    search: SearchBudget = UNLIMITED,
    policy: PoolPolicy = PoolPolicy.UNKNOWN,
    *,
    with_order: bool = True,
) -> Grades:
    """The grade of the claims in each of the O objects: `grade_one` of every row, with nothing promised.

    Without `with_order`, no order is looked for: ORDERED is told as POSSIBLE.
    """
    found = fits(pools, sizes, search).astype(np.int8)
    if len(sizes) < 2 or not pools.shape[1]:
        return found * np.int8(Grade.GUARANTEED)
    sizes = needing_room(sizes)
    is_sure = pools[:, 0] >= sum(sizes)  # one pool takes them all, so it never refuses one
    if pools.shape[1] >= len(sizes):
        is_sure |= pools[:, len(sizes) - 1] >= sizes[0]  # a pool each: the others cannot fill as many
    if len(sizes) > 3:  # else it costs as much as the whole answer
        open_idx = np.flatnonzero((found > 0) & ~is_sure)
        is_sure[open_idx] = _has_room_to_spare(pools[open_idx], sizes)
    open_idx = np.flatnonzero((found > 0) & ~is_sure)
    if open_idx.size:
        is_sure[open_idx] = _guaranteed(pools[open_idx], sizes, search, policy)
    found[is_sure] = Grade.GUARANTEED
    open_idx = np.flatnonzero(found == Grade.POSSIBLE) if with_order else open_idx[:0]
    if open_idx.size:
        found[open_idx[have_safe_order(pools[open_idx], sizes, search, policy)]] = Grade.ORDERED
    return found


def _has_room_to_spare(pools: Ints2D, sizes: Sizes) -> Mask:
    """Which objects take more bytes to shut out any of these claims than the others have. A no decides nothing."""
    total = sum(sizes)
    if total > MOST_BYTES // pools.shape[1]:
        return np.zeros(len(pools), dtype=np.bool_)  # the sums below might not fit 64 bits
    # No pool need count for more than all claims together.
    columns = np.minimum(np.ascontiguousarray(pools.T), total)
    spares = np.ones(len(pools), dtype=np.bool_)
    for claim in set(sizes):
        # To shut the claim out takes  sum over pools >= claim of (pool - claim + 1)  bytes of other claims.
        spares &= np.maximum(columns - (claim - 1), 0).sum(axis=0) > total - claim
    return spares


def _guaranteed(pools: Ints2D, sizes: Sizes, search: SearchBudget, policy: PoolPolicy) -> Mask:
    """Which objects cannot shut out any of these claims. None of them has a pool that would hold them all."""
    if policy.is_better_in_every_order:
        if is_played(len(pools), pools.shape[1], sizes, policy):
            return always_placed(pools, sizes, policy)
        # Most find room whatever the driver does; the others are searched, and nodes are often alike.
        is_sure = _guaranteed(pools, sizes, search, PoolPolicy.UNKNOWN)
        left_idx = np.flatnonzero(~is_sure)
        rows, place = np.unique(pools[left_idx], axis=0, return_inverse=True)
        known = [is_always_placed(row, sizes, policy, search) for row in rows.tolist()]
        is_sure[left_idx] = np.array(known, dtype=np.bool_)[place.reshape(-1)]
        return is_sure
    ways_to_shut_out: list[tuple[int, tuple[Sizes, ...]]] = []
    for claim in dict.fromkeys(sizes):
        ways = arrangements(_without(sizes, claim), pools.shape[1], most=MOST_WAYS, partial=True)
        if ways is None:
            return np.fromiter((is_guaranteed(row, sizes, search) for row in pools.tolist()), np.bool_, len(pools))
        ways_to_shut_out.append((claim, ways))
    columns = np.ascontiguousarray(pools.T)
    is_shut_out = np.zeros(len(pools), dtype=np.bool_)
    for claim, ways in ways_to_shut_out:
        # A pool is full for the claim with a sum in (pool - claim, pool]. Both ends descend from pool to pool as the
        # sums do: if any pairing of sums with pools works, the one in order does.
        for sums in ways:
            # As many pools could hold the claim as there are sums to fill them with.
            fills = columns[len(sums)] < claim if len(sums) < len(columns) else np.ones(len(pools), dtype=np.bool_)
            for column, together in zip(columns, sums, strict=False):
                fills &= (column >= together) & (column < together + claim)
            is_shut_out |= fills
    return ~is_shut_out


# -- one object -------------------------------------------------------------------------------------------------------


def is_guaranteed(
    pools: Sequence[int],
    sizes: Sizes,
    search: SearchBudget = UNLIMITED,
    policy: PoolPolicy = PoolPolicy.UNKNOWN,
) -> bool:
    """Whatever the order and the driver's choices, each of these claims finds a pool. False when a search gives up."""
    if not sizes:
        return True
    if not pools or pools[0] < sizes[0]:
        return bool(pools) and pools[0] >= UNBOUNDED
    total = sum(sizes)
    if len(sizes) == 1 or pools[0] >= UNBOUNDED or pools[0] >= total:
        return True
    if len(pools) == 1:
        return False
    is_sure = not any(
        total - claim >= _bytes_to_shut_out(claim, pools)
        and _can_be_shut_out(claim, pools, _without(sizes, claim), search)
        for claim in dict.fromkeys(sizes)
    )
    return is_sure or (policy.is_better_in_every_order and is_always_placed(pools, sizes, policy, search))


def has_room_to_spare(pools: Sequence[int], sizes: Sizes) -> bool:
    """It takes more bytes to shut out the largest of these claims than the others have, and so any of them: each byte
    less of a claim is a byte more in the others and one or more in what it takes. A no decides nothing."""
    return _bytes_to_shut_out(sizes[0], pools) > sum(sizes) - sizes[0]


def is_never_shut_out(sizes: Sizes, pools: Sequence[int], others: Sizes, search: SearchBudget) -> bool:
    """None of these claims can be shut out by others and the rest of them. False when a search gives up."""
    together = descending(sizes + others)
    return not any(_can_be_shut_out(claim, pools, _without(together, claim), search) for claim in dict.fromkeys(sizes))


def _without(sizes: Sizes, claim: int) -> Sizes:
    place = sizes.index(claim)
    return sizes[:place] + sizes[place + 1 :]


def _bytes_to_shut_out(claim: int, pools: Sequence[int]) -> int:
    """The least bytes of other claims with which no pool has room for the claim: pool - claim + 1 where it fits."""
    return sum([pool - claim + 1 for pool in pools if pool >= claim])


_filled: Found[bool] = Found()


def _can_be_shut_out(claim: int, pools: Sequence[int], others: Sizes, search: SearchBudget) -> bool:
    """Some of the others, placed somehow, leave no pool with room for the claim. True when a search gives up."""
    if sum(others) < _bytes_to_shut_out(claim, pools):
        return False
    targets = tuple(pool for pool in pools if pool >= claim)
    if not targets or not claim:
        return not targets  # an empty claim goes into any pool, however full
    others = tuple(other for other in others if other)
    return len(others) >= len(targets) and _filled.ask(
        (targets, claim, others), search, lambda search: _can_fill(targets, claim, others, search), worst=True
    )


def _can_fill(pools: Sizes, claim: int, sizes: Sizes, search: SearchBudget) -> bool:
    """Each of these pools can be given some of the claims so that it has room for them and then none for `claim`.

    Pool after pool, largest first, depth first; a pool takes its claims in descending order and no more of them than
    needed, and of claims alike the first one left. What is left after a pool is tried once.
    """
    needed_after = [sum(pools[place + 1 :]) + (len(pools) - place - 1) * (1 - claim) for place in range(len(pools))]
    # (the pool being filled, the bytes in it, the claim it may go on from, claims used as bits, bytes not yet used)
    stack = [(0, 0, 0, 0, sum(sizes))]
    tried = set()
    steps = 0
    while stack:
        place, filled, start, used, unused_bytes = stack.pop()
        pool = pools[place]
        further = []
        last_size = 0
        for position in range(start, len(sizes)):
            size = sizes[position]
            if size == last_size or used >> position & 1 or filled + size > pool:
                continue
            last_size = size
            steps += 1
            now_used, still_unused = used | 1 << position, unused_bytes - size
            if filled + size + claim <= pool:
                if filled + unused_bytes + claim > pool + needed_after[place]:
                    further.append((place, filled + size, position + 1, now_used, still_unused))
            elif place + 1 == len(pools):
                search.spend(steps)
                return True
            elif still_unused >= needed_after[place] and (place, now_used) not in tried:
                tried.add((place, now_used))
                further.append((place + 1, 0, 0, now_used, still_unused))
        stack.extend(reversed(further))
        if steps > MOST_STEPS:
            search.spend(steps)
            return True
    search.spend(steps)
    return False
