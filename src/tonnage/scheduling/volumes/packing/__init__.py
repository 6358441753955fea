"""Claims into pools: all that the rest of `volumes` asks about bytes, in one place. Nothing here knows Kubernetes.

A capacity object is a row of pools, a group is the claims of one StorageClass that must share it; both are bytes in
descending order. Two questions, two modules that answer them, each for one object in plain numbers (`…_one`) and for
all objects at once on arrays, with the same answer:

    can the claims be packed, all at once?                     fits, fits_one, place_one             pool_fits.py
    and if the driver picks the pools, in whatever order?      grades, is_guaranteed                 pool_grades.py
      by a rule of its own that is known?                      PoolPolicy, bad_order                 pool_policies.py
      and claims are asked for one after the other?            safe_order, next_claim                claim_orders.py
    and beside claims that are promised?                       fits_beside_one, grade_one            promised_pools.py
      what do they leave of the pools?                         left_by_promises, fits_at_a_glance

Searches take steps, of which a decision has a number for all objects together (search.py).

The promise is the product's: no yes for claims that cannot be placed. A no for claims that can is as bad for the pod
that waits, so that the answers are exact as far as the searches go; where they end stands with each function.
"""

from tonnage.scheduling.volumes.packing.claim_orders import next_claim, safe_order
from tonnage.scheduling.volumes.packing.pool_fits import (
    FEW_CLAIMS,
    MOST_BYTES,
    NO_POOL,
    UNBOUNDED,
    Ints2D,
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
    grades,
    is_guaranteed,
)
from tonnage.scheduling.volumes.packing.pool_policies import PackedClaim, PoolPolicy, bad_order, placed_by
from tonnage.scheduling.volumes.packing.promised_pools import Left, fits_beside_one, grade_one, left_by_promises
from tonnage.scheduling.volumes.packing.search import UNLIMITED, SearchBudget

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
