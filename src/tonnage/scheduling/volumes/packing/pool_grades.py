"""How sure is a fit, when the driver and not the scheduler picks the pools? The arithmetic of DESIGN's grades.

    GUARANTEED   whatever the order and the choices, every claim finds a pool with room;
    ORDERED      the same if the claims come in one order that we choose (`claim_orders.py`);
    POSSIBLE     some choice of pools places them all;
    NONE         no choice does.

A claim is *shut out* when the other claims, each within its pool, leave no pool with room for it: every pool that could
hold it is filled to more than `pool - claim` bytes. Any such state is reached by some driver in some order.

*Promised* claims are placed by the driver first, in whatever way: pools 100, 60 with 30 promised leave 70, 60 or
100, 30. A group fits beside promises if it fits everything that they may leave. Beyond MOST_LEFT rows, neighbours
become one row with the least of each pool: a yes stays right, a no is asked again of a finer table.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Ints, Mask
from tonnage.scheduling.volumes.packing.claim_orders import have_safe_order, safe_order
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
from tonnage.scheduling.volumes.packing.pool_policies import (
    PoolPolicy,
    always_placed,
    is_always_placed,
    is_played,
    outcomes,
)

MOST_WAYS = 60
"""So many ways to shut out one claim are compared for all objects at once (five different claims have 52), or none."""
MOST_STEPS = 20_000
"""How often one search puts a claim into a pool, about 20 ms; then it gives up and expects the worst of the driver."""
_HALF: Final = 1 << 62
"""Two figures up to here can be added in 64 bits."""
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
    """`grade_one` of each of the O objects, with nothing promised. Without `with_order`, ORDERED is told as
    POSSIBLE."""
    found = fits(pools, sizes, search).astype(np.int8)
    if len(sizes) < 2 or not pools.shape[1]:
        return found * np.int8(Grade.GUARANTEED)
    sizes = needing_room(sizes)
    is_sure = pools[:, 0] >= sum(sizes)  # one pool takes them all, so it never refuses one
    if pools.shape[1] >= len(sizes):
        is_sure |= pools[:, len(sizes) - 1] >= sizes[0]  # a pool each: the others cannot fill as many
    if len(sizes) > 3:  # else it costs as much as the whole answer
        open_idx = np.flatnonzero((found > 0) & ~is_sure)
        is_sure[open_idx] = have_room_to_spare(pools[open_idx], 0, 0, sizes)
    open_idx = np.flatnonzero((found > 0) & ~is_sure)
    if open_idx.size:
        is_sure[open_idx] = _guaranteed(pools[open_idx], sizes, search, policy)
    found[is_sure] = Grade.GUARANTEED
    open_idx = np.flatnonzero(found == Grade.POSSIBLE) if with_order else open_idx[:0]
    if open_idx.size:
        found[open_idx[have_safe_order(pools[open_idx], sizes, search, policy)]] = Grade.ORDERED
    return found


def have_room_to_spare(pools: Ints2D, promised: Ints | int, largest: Ints | int, sizes: Sizes) -> Mask:
    """Which objects take more bytes to shut out the largest claim, of a group or promised, than all others have, and so
    any of them (`has_room_to_spare`). A no decides nothing."""
    if sum(sizes) >= _HALF:
        return np.zeros(len(pools), dtype=np.bool_)
    largest = np.maximum(largest, sizes[0])
    # Less than there is, is safe: so sums of pools stay below what sums of claims are cut to.
    counted = np.minimum(pools, _HALF // 2 // pools.shape[1])
    together = np.minimum(promised, _HALF) + sum(sizes)
    to_shut_out = np.maximum(counted - (np.reshape(largest, (-1, 1)) - 1), 0).sum(axis=1)
    spares: Mask = to_shut_out > np.maximum(together - largest, 0)
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
        ways = arrangements(without(sizes, claim), pools.shape[1], most=MOST_WAYS, partial=True)
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


# Beside promises, by bytes alone: pools [O, P], what is promised of each object [O] and its largest promise [O]. Sums
# that 64 bits may not hold are never wrong the dangerous way: such objects are left undecided.


def have_the_bytes(pools: Ints2D, promised: Ints, sizes: Sizes) -> Mask:
    """Which objects may have as many bytes as a group and what is promised together."""
    asked = sum(sizes)
    most = _HALF // pools.shape[1]
    if asked >= _HALF:
        return np.ones(len(pools), dtype=np.bool_)
    has: Mask = np.clip(pools, 0, most).sum(axis=1) >= np.minimum(promised, _HALF) + asked
    has |= pools[:, 0] >= most
    return has


def are_seen_to_fit(pools: Ints2D, promised: Ints, largest: Ints, sizes: Sizes) -> Mask:
    """`packing.is_seen_to_fit` of each of these objects."""
    most = _HALF // pools.shape[1]
    seen: Mask = (promised < _HALF) & (pools[:, 0] < most) & (sum(sizes) < most)
    pools = np.where(seen[:, None], np.maximum(pools, 0), 0)
    seen &= np.maximum(pools - (largest[:, None] - 1), 0).sum(axis=1) > promised - largest
    left = pools.sum(axis=1) - promised
    for size in sizes if seen.any() else ():
        if size:
            seen &= left > np.minimum(pools, size - 1).sum(axis=1)
        left -= size
    return seen


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
        and _can_be_shut_out(claim, pools, without(sizes, claim), search)
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
    return not any(_can_be_shut_out(claim, pools, without(together, claim), search) for claim in dict.fromkeys(sizes))


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
    """Each of these pools can be given some of the claims so that it has room for them and then none for `claim`. Depth
    first, pool after pool; what is left after a pool is tried once."""
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


MOST_LEFT: Final = 1_024
"""So many rows are kept of one object; with more, several become one."""
MOST_LEFT_FINELY: Final = 4 * MOST_LEFT
"""The same where that does not settle it."""
MOST_PROMISES: Final = 20
"""Of more promises than so many it is not worked out what they leave, which would take longer than 5 ms."""


class Left(NamedTuple):
    """What may be left of an object's pools."""

    rows: Ints2D
    """[S, P], each descending. No row at all: a promised claim may find no room, and nothing fits."""
    is_exact: bool
    """Each row may be left. Else none of what may be left is less than some row."""


_found: Found[Left | None] = Found(remembered=256)
_found_finely: Found[Left | None] = Found(remembered=32)


def left_by_promises(
    pools: Sequence[int],
    promised: Sizes,
    search: SearchBudget = UNLIMITED,
    policy: PoolPolicy = PoolPolicy.UNKNOWN,
) -> Left | None:
    """What the driver may leave of the pools once all that is promised is placed; None when that is not known."""
    key = tuple(pools)
    if not key or key[0] > MOST_BYTES:
        return None
    if policy.is_known:
        played = outcomes(key, promised, policy, search)
        if played is not None:
            return Left(np.array(sorted(played), dtype=np.int64).reshape(len(played), len(key)), is_exact=True)
    return _found.ask((key, promised), search, lambda search: _left(key, promised, MOST_LEFT, search), worst=None)


def fits_beside_one(
    pools: Sequence[int],
    sizes: Sizes,
    promised: Sizes,
    search: SearchBudget = UNLIMITED,
    policy: PoolPolicy = PoolPolicy.UNKNOWN,
) -> bool:
    """Wherever the driver puts the promised claims first, the new ones can then be packed. A no as well when a promised
    claim may find no room, or a search gives up."""
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
    left = left_by_promises(pools, promised, search, policy)
    if left is None or (len(sizes) == 1 and not left.is_exact):
        # Claims that nothing can shut out go in one by one, anywhere. Of a single claim that is the whole question.
        return is_guaranteed(pools, promised, search) and is_never_shut_out(sizes, pools, promised, search)
    if not len(left.rows):
        return False
    if (holds := fits_all(left.rows, sizes, search)) or left.is_exact:
        return holds
    key = tuple(pools)
    finely = _found_finely.ask(
        (key, promised), search, lambda search: _left(key, promised, MOST_LEFT_FINELY, search), worst=None
    )
    return finely is not None and fits_all(finely.rows, sizes, search)


def is_seen_to_fit(pools: Sequence[int], sizes: Sizes, promised: Sizes) -> bool:
    """The new claims fit beside the promised ones, by their bytes alone. A no decides nothing.

    However the promised ones lie, R bytes are left of the pools. The new ones go in by size, each anywhere: that ends
    before claim g only if no pool has room for g, so that at most g - 1 bytes are left of each, and never more than it
    has. So all go in if, for every g, R less the claims before it is more than that. The promised ones themselves find
    room if it takes more bytes to shut out the largest of them than the others have.
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
    """Of all pools; one that lacks bytes takes nothing from the others."""
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
    """The grade of these claims in one object, its pools descending. Beside promised claims, GUARANTEED and ORDERED
    hold for all of them together. When a search gives up, the lower grade."""
    if is_guaranteed(pools, descending(sizes + promised) if promised else sizes, search, policy):
        return Grade.GUARANTEED
    if not fits_beside_one(pools, sizes, promised, search, policy):
        return Grade.NONE
    is_ordered = with_order and safe_order(pools, sizes, promised, search, policy) is not None
    return Grade.ORDERED if is_ordered else Grade.POSSIBLE


def _left(pools: Sizes, promised: Sizes, most: int, search: SearchBudget) -> Left | None:
    if len(promised) > MOST_PROMISES:
        return None
    undecided = search.undecided
    if not is_guaranteed(pools, promised, search):
        return Left(np.zeros((0, len(pools)), dtype=np.int64), is_exact=True) if search.undecided == undecided else None
    rows = np.array([pools], dtype=np.int64)
    is_exact = True
    for claim in promised:
        # Of a row that stands for several it is not known whether the pool has room in one of them, but that it is no
        # larger than it was at first. What it holds afterwards is not less than nothing.
        takes = rows >= claim if is_exact else np.broadcast_to(np.array(pools) >= claim, rows.shape)
        after = [rows[takes[:, place]] for place in range(len(pools))]
        for place, each in enumerate(after):
            each[:, place] = np.maximum(each[:, place] - claim, 0)
        rows = _distinct(-np.sort(-np.concatenate(after), axis=1))
        if len(rows) > most:
            starts = np.linspace(0, len(rows), most, endpoint=False).astype(np.intp)
            rows, is_exact = _distinct(np.minimum.reduceat(rows, starts, axis=0)), False
        search.spend(rows.size)
    return Left(rows, is_exact)


def _distinct(rows: Ints2D) -> Ints2D:
    """Each row once, in order, so that those next to each other are alike."""
    rows = rows[np.lexsort(rows.T[::-1])]
    is_new = np.ones(len(rows), dtype=np.bool_)
    is_new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[is_new]
