"""Objects with promises, judged by their bytes alone, many at once: what settles nearly all of them without a search.

Each function takes the objects' pools [O, P], what is promised of each [O] and the largest promise of each [O]. A no
decides nothing. Sums that 64 bits may not hold are never wrong the dangerous way: such objects are left undecided.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tonnage.scheduling.cluster.columns import Ints, Mask
from tonnage.scheduling.volumes.packing import Ints2D, Sizes

HALF: Final = 1 << 62
"""Two figures up to here can be added in 64 bits."""


def have_the_bytes(pools: Ints2D, promised: Ints, sizes: Sizes) -> Mask:
    """Which objects have as many bytes as a group and what is promised together. More than 64 bits hold is enough,
    and so is what is not counted."""
    asked = sum(sizes)
    most = HALF // pools.shape[1]
    if asked >= HALF:
        return np.ones(len(pools), dtype=np.bool_)
    has: Mask = np.clip(pools, 0, most).sum(axis=1) >= np.minimum(promised, HALF) + asked
    has |= pools[:, 0] >= most
    return has


def are_seen_to_fit(pools: Ints2D, promised: Ints, largest: Ints, sizes: Sizes) -> Mask:
    """`packing.is_seen_to_fit` of each of these objects; those with sums that 64 bits may not hold are not seen."""
    most = HALF // pools.shape[1]
    seen: Mask = (promised < HALF) & (pools[:, 0] < most) & (sum(sizes) < most)
    pools = np.where(seen[:, None], np.maximum(pools, 0), 0)
    seen &= np.maximum(pools - (largest[:, None] - 1), 0).sum(axis=1) > promised - largest
    left = pools.sum(axis=1) - promised
    if not seen.any():
        return seen
    for size in sizes:
        if size:
            seen &= left > np.minimum(pools, size - 1).sum(axis=1)
        left -= size
    return seen


def have_room_to_spare(pools: Ints2D, promised: Ints, largest: Ints, sizes: Sizes) -> Mask:
    """Which objects take more bytes to shut out the largest claim than all others have."""
    largest = np.maximum(largest, sizes[0])
    # Less than there is, is safe: so sums of pools stay below what sums of claims are cut to.
    counted = np.minimum(pools, HALF // 2 // pools.shape[1])
    together = np.minimum(promised, HALF) + sum(sizes)
    spares: Mask = np.maximum(counted - (largest[:, None] - 1), 0).sum(axis=1) > np.maximum(together - largest, 0)
    return spares
