"""Claims beside others that are promised: placed by the driver first, in whatever way, and not seen in the figures yet.

    pools 100, 60 · promised 30       ─►   70, 60   or   100, 30

A new group fits beside the promises just when it fits everything that they may leave. That depends on the object alone
and not on who asks: it is worked out once for each promise and asked by every pod that differs from the last, of all
objects in one table.

Six promises in four pools may leave a thousand things, eight of them twenty thousand. Beyond MOST_LEFT, rows that lie
next to each other become one that has the least of each pool: what fits that fits them all. So a yes is always right,
and a no is final only while the table is exact; else one with more rows is asked (MOST_LEFT_FINELY), and that ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tonnage.scheduling.volumes.packing.claim_orders import safe_order
from tonnage.scheduling.volumes.packing.pool_fits import (
    MOST_BYTES,
    UNBOUNDED,
    Ints2D,
    Sizes,
    descending,
    fits_all,
    fits_one,
)
from tonnage.scheduling.volumes.packing.pool_grades import (
    Grade,
    has_room_to_spare,
    is_guaranteed,
    is_never_shut_out,
)
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy, outcomes
from tonnage.scheduling.volumes.packing.search import UNLIMITED, Found, SearchBudget

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
    """Wherever the driver puts the promised claims, the new ones can then be packed in some way.

    The promised ones go first, in any order, each to any pool with room. Should one of them find none, the answer is
    no: the figures and the promises do not agree, and what it will take in the end nobody knows. With one pool this is
    plain subtraction; with nothing promised it is `fits_one`. REFUSES as well when a search gives up: nothing is
    promised that might not be kept, and the ledger's entries, unlike a pod's claims, go away by themselves.
    """
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
    """The grade of these claims in one object, its pools descending.

    With promised claims, descending too: GUARANTEED says that the driver can place all of them together whatever it
    does, ORDERED that it can if the new ones come in a certain order, POSSIBLE that the new ones fit wherever the
    promised ones go. When a search gives up, the lower grade. Without `with_order`, ORDERED is told as POSSIBLE.
    """
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
