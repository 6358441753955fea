"""Claims into pools: all that the rest of `volumes` asks about bytes, in one place. Nothing here knows Kubernetes.

A capacity object is a row of pools, a group is the claims of one StorageClass that must share it; both are bytes in
descending order. Each question is answered for one object in plain numbers (`…_one`) and for all objects at once.

    can the claims be packed, all at once?                     pool_fits.py
    and if the driver picks the pools, in whatever order?      pool_grades.py, also beside claims that are promised
    by a rule of its own that is known?                        pool_policies.py
    and claims are asked for one after the other?              claim_orders.py

No yes for claims that cannot be placed. A no for claims that can leaves a pod waiting, so that the answers are exact as
far as the searches go; where they end stands with each function.
"""

from tonnage.scheduling.volumes.packing.claim_orders import next_claim, safe_order
from tonnage.scheduling.volumes.packing.pool_fits import (
    FEW_CLAIMS,
    MOST_BYTES,
    NO_POOL,
    UNBOUNDED,
    UNLIMITED,
    Ints2D,
    SearchBudget,
    Sizes,
    descending,
    fits,
    fits_at_a_glance,
    fits_one,
    place_one,
)
from tonnage.scheduling.volumes.packing.pool_grades import (
    Grade,
    Grades,
    Left,
    fits_beside_one,
    grade_one,
    grades,
    is_guaranteed,
    left_by_promises,
)
from tonnage.scheduling.volumes.packing.pool_policies import PackedClaim, PoolPolicy, bad_order, placed_by

__all__ = [
    "FEW_CLAIMS",
    "MOST_BYTES",
    "NO_POOL",
    "UNBOUNDED",
    "UNLIMITED",
    "Grade",
    "Grades",
    "Ints2D",
    "Left",
    "PackedClaim",
    "PoolPolicy",
    "SearchBudget",
    "Sizes",
    "bad_order",
    "descending",
    "fits",
    "fits_at_a_glance",
    "fits_beside_one",
    "fits_one",
    "grade_one",
    "grades",
    "is_guaranteed",
    "left_by_promises",
    "next_claim",
    "place_one",
    "placed_by",
    "safe_order",
]
