"""How sure is a fit, given that the driver and not the scheduler chooses the pools? The grades of DESIGN.

    GUARANTEED   in any order and with any choices, every claim finds a pool with room;
    ORDERED      the same, if the claims come in an order that we choose (`claim_orders.py`);
    POSSIBLE     some choice of pools places them all;
    NONE         no choice does.

A claim is *shut out* if the other claims leave no pool with room for it: every pool that could hold it has more than
`pool - claim` bytes in use. Every such state is reached by some driver in some order.

The driver places *promised* claims first, in any way: pools 100, 60 with 30 promised leave 70, 60 or 100, 30. A group
fits beside promises if it fits every outcome. Beyond MOST_LEFT outcomes, neighbours are merged into one row with the
smaller of each pool: a yes stays right, a no is asked again of a finer table.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from math import gcd
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Ints, Mask
from tonnage.scheduling.volumes.packing import claim_orders
from tonnage.scheduling.volumes.packing.pool_fits import (
    MOST_BYTES,
    UNBOUNDED,
    UNLIMITED,
    Found,
    Ints2D,
    SearchBudget,
    Sizes,
    arrangements,
    descending,
    fits,
    fits_all,
    fits_one,
    needing_room,
    without,
)
from tonnage.scheduling.volumes.packing.pool_policies import ANY_POOL, PoolPolicy

MOST_WAYS = 60
"""At most this many ways to shut out one claim are compared for all objects at once (five different claims have 52)."""
MOST_STEPS = 20_000
"""A search gives up after placing this many claims, about 20 ms, and expects the worst of the driver."""
_STEPS_A_CLAIM, _STEPS_A_POOL = 6, 2
"""The steps of a decision that placing a claim in a search takes, and a pool in a table of outcomes."""
_HALF: Final = 1 << 62
"""Two numbers up to this can be added in 64 bits."""
Grades = npt.NDArray[np.int8]
"""[O]: one Grade per object."""


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
    """`grade_one` for each of the O objects, with nothing promised. Without `with_order`, POSSIBLE replaces ORDERED."""
    found = fits(pools, sizes, search).astype(np.int8)
    if len(sizes) < 2 or not pools.shape[1]:
        return found * np.int8(Grade.GUARANTEED)
    sizes = needing_room(sizes)
    is_sure = pools[:, 0] >= sum(sizes)  # one pool holds all claims, so it never refuses one
    if pools.shape[1] >= len(sizes):
        is_sure |= pools[:, len(sizes) - 1] >= sizes[0]  # one pool per claim: the others cannot fill as many
    if len(sizes) > 3:  # otherwise it costs as much as the full answer
        open_idx = np.flatnonzero((found > 0) & ~is_sure)
        is_sure[open_idx] = have_room_to_spare(pools[open_idx], 0, 0, sizes)
    open_idx = np.flatnonzero((found > 0) & ~is_sure)
    if open_idx.size:
        is_sure[open_idx] = _guaranteed(pools[open_idx], sizes, search, policy)
    found[is_sure] = Grade.GUARANTEED
    open_idx = np.flatnonzero(found == Grade.POSSIBLE) if with_order else open_idx[:0]
    if open_idx.size:
        found[open_idx[claim_orders.have_safe_order(pools[open_idx], sizes, search, policy)]] = Grade.ORDERED
    return found


def have_room_to_spare(pools: Ints2D, promised: Ints | int, largest: Ints | int, sizes: Sizes) -> Mask:
    """A mask over objects: True if all other claims lack the bytes to shut out the largest claim, promised or not. See
    `has_room_to_spare`. False decides nothing."""
    if sum(sizes) >= _HALF:
        return np.zeros(len(pools), dtype=np.bool_)
    largest = np.maximum(largest, sizes[0])
    # Counting less room is safe; it keeps sums of pools below the limit for sums of claims.
    counted = np.minimum(pools, _HALF // 2 // pools.shape[1])
    together = np.minimum(promised, _HALF) + sum(sizes)
    to_shut_out = np.maximum(counted - (np.reshape(largest, (-1, 1)) - 1), 0).sum(axis=1)
    spares: Mask = to_shut_out > np.maximum(together - largest, 0)
    return spares


def _guaranteed(pools: Ints2D, sizes: Sizes, search: SearchBudget, policy: PoolPolicy) -> Mask:
    """A mask over objects: True if no claim can be shut out. No object has a pool that holds all claims."""
    if policy.is_better_in_every_order:
        # Most objects are sure for any driver; the rest is played, or searched one by one.
        is_sure = _guaranteed(pools, sizes, search, PoolPolicy.UNKNOWN)
        if policy is PoolPolicy.BEST_FIT and claim_orders.order_count(sizes) <= claim_orders.MOST_ORDERS:
            is_sure[~is_sure] = claim_orders.are_always_placed(pools[~is_sure], sizes)
            return is_sure
        for place in np.flatnonzero(~is_sure).tolist():
            is_sure[place] = claim_orders.is_always_placed(pools[place].tolist(), sizes, policy, search)
        return is_sure
    ways_to_shut_out: list[tuple[int, tuple[Sizes, ...]]] = []
    for claim in dict.fromkeys(sizes):
        ways = arrangements(without(sizes, claim), pools.shape[1], most=MOST_WAYS, partial=True)
        if ways is None:
            return np.fromiter((is_guaranteed(row, sizes, search) for row in pools.tolist()), np.bool_, len(pools))
        ways_to_shut_out.append((claim, ways))
    columns = np.ascontiguousarray(pools.T)
    is_shut_out = np.zeros(len(pools), dtype=np.bool_)
    for claim, ways in ways_to_shut_out:
        # A pool is full for the claim with a sum in (pool - claim, pool]. Both ends descend from pool to pool, as the
        # sums do: if any assignment of sums to pools works, the one in order does.
        for sums in ways:
            # Exactly as many pools can hold the claim as there are sums to fill them.
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
    """True if every claim finds a pool in any order and with any driver choices. False if a search gives up."""
    if not sizes:
        return True
    if not pools or pools[0] < sizes[0]:
        return bool(pools) and pools[0] >= UNBOUNDED
    if len(sizes) == 1 or pools[0] >= UNBOUNDED or pools[0] >= sum(sizes):
        return True
    if len(pools) == 1:
        return False
    return is_never_shut_out(sizes, pools, (), search) or (
        policy.is_better_in_every_order and claim_orders.is_always_placed(pools, sizes, policy, search)
    )


def has_room_to_spare(pools: Sequence[int], sizes: Sizes) -> bool:
    """True if the other claims lack the bytes to shut out the largest claim, and so any claim. False decides nothing. A
    claim one byte smaller needs at least one byte more to be shut out, and the others gain only that byte."""
    return _bytes_to_shut_out(sizes[0], pools) > sum(sizes) - sizes[0]


def is_never_shut_out(sizes: Sizes, pools: Sequence[int], others: Sizes, search: SearchBudget) -> bool:
    """True if none of these claims can be shut out by `others` and each other. False if a search gives up."""
    together = descending(sizes + others) if others else sizes
    return not any(_can_be_shut_out(claim, pools, without(together, claim), search) for claim in dict.fromkeys(sizes))


def _bytes_to_shut_out(claim: int, pools: Sequence[int]) -> int:
    """The least bytes of other claims that shut the claim out: the sum of pool - claim + 1 where it fits."""
    return sum([pool - claim + 1 for pool in pools if pool >= claim])


def _can_be_shut_out(claim: int, pools: Sequence[int], others: Sizes, search: SearchBudget) -> bool:
    """True if the other claims can be placed such that no pool has room for the claim, or if a search gives up."""
    if sum(others) < _bytes_to_shut_out(claim, pools):
        return False
    targets = tuple(pool for pool in pools if pool >= claim)
    if not targets or not claim:
        return not targets  # an empty claim fits any pool, however full
    others = tuple(other for other in others if other)
    return len(others) >= len(targets) and _filled(targets, claim, others, search)


def _can_fill(pools: Sizes, claim: int, sizes: Sizes, search: SearchBudget) -> bool:
    """True if every pool can be filled with some of the claims so that `claim` no longer fits any. Depth first, pool
    after pool; the remaining claims after a pool are tried once."""
    needed_after = [sum(pools[place + 1 :]) + (len(pools) - place - 1) * (1 - claim) for place in range(len(pools))]
    # (pool being filled, its bytes, first claim to try next, claims used as bits, bytes not yet used)
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
                search.spend(_STEPS_A_CLAIM * steps)
                return True
            elif still_unused >= needed_after[place] and (place, now_used) not in tried:
                tried.add((place, now_used))
                further.append((place + 1, 0, 0, now_used, still_unused))
        stack.extend(reversed(further))
        if steps > MOST_STEPS:
            search.spend(_STEPS_A_CLAIM * steps)
            return True
    search.spend(_STEPS_A_CLAIM * steps)
    return False


_filled = Found(_can_fill, worst=True)
MOST_LEFT: Final = 1_024
"""At most this many rows are kept for one object; beyond, rows are merged."""
MOST_LEFT_FINELY: Final = 4 * MOST_LEFT
"""The same for the finer table."""
MOST_PROMISES: Final = 20
"""With more promises, the outcomes are not computed: it would take longer than 5 ms."""


class Left(NamedTuple):
    """What promises may leave of an object's pools."""

    rows: Ints2D
    """[S, P], each row descending. No rows: a promised claim may find no room, and nothing fits."""
    is_exact: bool
    """True if every row is a possible outcome. Otherwise every outcome has at least the room of some row."""


def left_by_promises(
    pools: Sequence[int],
    promised: Sizes,
    search: SearchBudget = UNLIMITED,
    policy: PoolPolicy = PoolPolicy.UNKNOWN,
) -> Left | None:
    """What the driver may leave of the pools after placing all promised claims; None if unknown."""
    key = tuple(pools)
    if not key or key[0] > MOST_BYTES:
        return None
    if policy not in ANY_POOL:
        played = claim_orders.outcomes(key, promised, policy, search)
        if played is not None:
            return Left(np.array(sorted(played), dtype=np.int64).reshape(len(played), len(key)), is_exact=True)
    return _found(key, promised, MOST_LEFT, search)


def fits_beside_one(
    pools: Sequence[int],
    sizes: Sizes,
    promised: Sizes,
    search: SearchBudget = UNLIMITED,
    policy: PoolPolicy = PoolPolicy.UNKNOWN,
) -> bool:
    """True if the new claims can be packed wherever the driver puts the promised ones. False also if a promised claim
    may find no room, or a search gives up."""
    if not promised or not sizes:
        return fits_one(pools, sizes, search)
    if not pools or pools[0] < max(sizes[0], promised[0]):
        return bool(pools) and pools[0] >= UNBOUNDED
    if pools[0] >= UNBOUNDED or pools[0] >= sum(sizes) + sum(promised):
        return True
    if len(pools) == 1 or _free_bytes(pools) < sum(sizes) + sum(promised):
        return False
    if has_room_to_spare(pools, descending(sizes + promised)):
        return True
    if is_seen_to_fit(pools, sizes, promised):
        return True
    if search.is_spent:
        search.undecided += 1
        return False
    left = left_by_promises(pools, promised, search, policy)
    if left is None or (len(sizes) == 1 and not left.is_exact):
        # Claims that cannot be shut out go in one by one, anywhere. For a single claim that is the whole answer.
        return is_guaranteed(pools, promised, search) and is_never_shut_out(sizes, pools, promised, search)
    if not len(left.rows):
        return False
    if (holds := fits_all(left.rows, sizes, search)) or left.is_exact:
        return holds
    finely = _found_finely(tuple(pools), promised, MOST_LEFT_FINELY, search)
    return finely is not None and fits_all(finely.rows, sizes, search)


def is_seen_to_fit(pools: Sequence[int], sizes: Sizes, promised: Sizes) -> bool:
    """True if the new claims fit beside the promised ones, by bytes alone. False decides nothing.

    However the promised claims lie, R bytes are left of the pools. The new claims are placed by size, anywhere. Claim g
    fails only if no pool has room for g: at most g - 1 bytes are left in each pool, and never more than its size. So
    all fit if, for every g, R less the claims before g exceeds that sum. The promised claims find room if the others
    lack the bytes to shut out the largest of them.
    """
    if not has_room_to_spare(pools, promised):
        return False
    left = _free_bytes(pools) - sum(promised)
    for size in sizes:
        if size and left <= sum([min(pool, size - 1) for pool in pools if pool > 0]):
            return False
        left -= size
    return True


def _free_bytes(pools: Sequence[int]) -> int:
    """The sum of free bytes; a negative pool counts as 0."""
    return sum([pool for pool in pools if pool > 0])


def grade_one(
    pools: Sequence[int],
    sizes: Sizes,
    promised: Sizes = (),
    search: SearchBudget = UNLIMITED,
    policy: PoolPolicy = PoolPolicy.UNKNOWN,
    *,
    with_order: bool = True,
) -> Grade:
    """The grade of these claims in one object, pools descending; the lower grade if a search gives up. Beside promised
    claims, GUARANTEED and ORDERED hold for promised and new claims together."""
    if is_guaranteed(pools, descending(sizes + promised) if promised else sizes, search, policy):
        return Grade.GUARANTEED
    if not fits_beside_one(pools, sizes, promised, search, policy):
        return Grade.NONE
    is_ordered = with_order and claim_orders.safe_order(pools, sizes, promised, search, policy) is not None
    return Grade.ORDERED if is_ordered else Grade.POSSIBLE


def _left(pools: Sizes, promised: Sizes, most: int, search: SearchBudget) -> Left | None:
    if len(promised) > MOST_PROMISES:
        return None
    undecided = search.undecided
    if not is_guaranteed(pools, promised, search):
        return Left(np.zeros((0, len(pools)), dtype=np.int64), is_exact=True) if search.undecided == undecided else None
    unit = max(
        gcd(*pools, *promised), 1
    )  # sizes are whole Gi or Mi: the smaller the numbers, the faster they are sorted
    rows = np.array([pools], dtype=np.int64) // unit
    is_exact = True
    for size in promised:
        # A merged row does not say whether the pool has room in one of its outcomes, only that it is no larger than at
        # the start. Afterwards it has at least 0 bytes.
        claim = size // unit
        takes = rows >= claim if is_exact else np.broadcast_to(np.array(pools) >= size, rows.shape)
        after = [rows[takes[:, place]] for place in range(len(pools))]
        for place, each in enumerate(after):
            each[:, place] = np.maximum(each[:, place] - claim, 0)
        rows = _distinct(-np.sort(-np.concatenate(after), axis=1))
        if len(rows) > most:
            starts = np.linspace(0, len(rows), most, endpoint=False).astype(np.intp)
            rows, is_exact = _distinct(np.minimum.reduceat(rows, starts, axis=0)), False
        search.spend(_STEPS_A_POOL * rows.size)
    return Left(rows * unit, is_exact)


_found = Found(_left, worst=None, remembered=2048)
_found_finely = Found(_left, worst=None, remembered=32)


def _distinct(rows: Ints2D) -> Ints2D:
    """The distinct rows, sorted, so that neighbours are similar. Small numbers of a row are sorted as one number."""
    bits = int(rows.max(initial=0)).bit_length()
    if bits * rows.shape[1] < 63 and rows.min(initial=0) >= 0:
        shifts = bits * np.arange(rows.shape[1] - 1, -1, -1)
        packed = np.sort((rows << shifts).sum(axis=1))
        distinct: Ints2D = packed[np.diff(packed, prepend=-1) != 0, None] >> shifts & ((1 << bits) - 1)
        return distinct
    rows = rows[np.lexsort(rows.T[::-1])]
    is_new = np.ones(len(rows), dtype=np.bool_)
    is_new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[is_new]
