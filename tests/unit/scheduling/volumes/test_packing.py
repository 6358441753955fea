"""Claims into pools, one sum at a time: the KEP's own examples, first-fit's blind spot, and what a driver may do."""

from __future__ import annotations

import numpy as np
import pytest

from tonnage.scheduling.volumes.packing.pool_fits import (
    MOST_BYTES,
    NO_POOL,
    UNBOUNDED,
    Ints2D,
    Sizes,
    descending,
    fits,
    fits_one,
    place_one,
)
from tonnage.scheduling.volumes.packing.pool_grades import Grade, fits_beside_one, grade_one, grades

GI = 1 << 30


def gi(*sizes: int) -> Sizes:
    return tuple(size * GI for size in sizes)


def objects(*rows: Sizes) -> Ints2D:
    width = max(len(row) for row in rows)
    return np.array([row + (NO_POOL,) * (width - len(row)) for row in rows], dtype=np.int64)


def both_ways(pools: Sizes, sizes: Sizes) -> bool:
    """The answer for one object, once arrays have said the same."""
    answer = fits_one(pools, sizes)
    assert fits(objects(pools), sizes).tolist() == [answer]
    assert (place_one(pools, sizes) is not None) == answer
    return answer


# -- KEP-5925, story 1 and the tests it names for enhancement 1 -------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "pools", "accepted"),
    [
        (gi(100, 100), gi(100), False),  # only one can fit
        (gi(120), gi(100, 100, 100), False),  # no single pool is large enough
        (gi(100, 100), gi(100, 100, 100), True),  # one per pool
        (gi(80, 80, 80), gi(100, 100, 100), True),  # one per pool
        (gi(80, 80, 80, 80), gi(100, 100, 100), False),  # only three pools
    ],
)
def test_the_five_examples_of_story_1(sizes: Sizes, pools: Sizes, accepted: bool) -> None:
    assert both_ways(pools, sizes) is accepted


def test_a_single_claim_passes_when_at_least_one_pool_is_large_enough() -> None:
    assert both_ways(gi(100, 40, 10), gi(100))


def test_a_single_claim_fails_when_no_pool_is_large_enough() -> None:
    # 40 + 40 + 40 = 120 Gi in sum, and no pool of 100.
    assert not both_ways(gi(40, 40, 40), gi(100))


def test_several_claims_are_placed_across_pools() -> None:
    # 70 + 30 into the 100, 60 into the 60.
    assert both_ways(gi(100, 60), gi(70, 60, 30))


def test_several_claims_fail_when_there_are_not_enough_pools_for_them() -> None:
    # Each pool holds one of 60, and there are three.
    assert not both_ways(gi(100, 100), gi(60, 60, 60))


def test_two_claims_of_100_are_not_accepted_one_by_one_by_a_pool_of_100() -> None:
    assert both_ways(gi(100), gi(100))
    assert not both_ways(gi(100), gi(100, 100))


def test_a_plain_capacity_is_one_pool_for_all_claims_together() -> None:
    assert both_ways(gi(100), gi(60, 40))
    assert not both_ways(gi(100), gi(60, 41))


# -- packing ----------------------------------------------------------------------------------------------------------


def test_claims_fit_where_first_fit_decreasing_says_no() -> None:
    # First fit: 5 + 4 in the 10, 4 + 3 in the 9, and 3 is left over. But 4 + 3 + 3 = 10 and 5 + 4 = 9.
    assert both_ways((10, 9), (5, 4, 4, 3, 3))
    assert place_one((10, 9), (5, 4, 4, 3, 3)) == (1, 0, 1, 0, 0)


def test_three_claims_fit_where_first_fit_decreasing_says_no() -> None:
    # First fit: 6 in the 9, 5 in the 6, and 4 is left over. But 5 + 4 = 9 and 6 = 6.
    assert both_ways((9, 6), (6, 5, 4))
    assert place_one((9, 6), (6, 5, 4)) == (1, 0, 0)


def test_a_packing_that_leaves_room_in_two_pools_is_found_as_well() -> None:
    # First fit: 14 + 13 in the 27, 14 in the 22, 10 in the 16, and 9 is left over. But 10 + 9 = 19 go into the 22.
    assert both_ways((27, 22, 16), (14, 14, 13, 10, 9))


def test_a_placement_gathers_claims_in_the_largest_pools() -> None:
    # 70 + 30 in the first, 60 in the second; the third stays whole.
    assert place_one(gi(100, 60, 60), gi(70, 60, 30)) == (0, 1, 0)


def test_every_object_is_judged_by_its_own_pools() -> None:
    # 60 + 40 = 100 | 60 and 40 apart | 60 but no 40 | no pool at all | 99 < 60 + 40
    pools = objects((100,), (60, 40), (60, 39), (), (99,))
    assert fits(pools, (60, 40)).tolist() == [True, True, False, False, False]


def test_many_claims_of_different_sizes_are_searched_object_by_object() -> None:
    sizes = descending(range(8, 16))
    pools = objects((50, 42), (50, 41), (92, 0), (31, 31, 30), (32, 31, 29))
    # 15 + 14 + 11 + 10 = 50 and 13 + 12 + 9 + 8 = 42, nothing over. A byte less: 92 > 91. All 92 in one pool.
    # Three pools of 92 bytes in all must be filled to the last one, and one of them gets two claims: 15 + 14 = 29 < 30.
    # With that one 29: 13 + 10 + 9 = 32 and 12 + 11 + 8 = 31.
    assert fits(pools, sizes).tolist() == [True, False, True, False, True]


def test_an_empty_claim_needs_a_pool_but_no_room() -> None:
    assert both_ways((0,), (0,))
    assert both_ways((5,), (5, 0, 0))
    assert not both_ways((NO_POOL,), (0,))
    assert not fits_one((), (0,))
    assert fits(np.empty((2, 0), dtype=np.int64), (0, 0)).tolist() == [False, False]


def test_no_claims_fit_everywhere() -> None:
    assert fits(objects((5,), ()), ()).tolist() == [True, True]
    assert fits_one((), ())
    assert place_one((), ()) == ()
    assert grade_one((), ()) is Grade.GUARANTEED


def test_an_unbounded_pool_never_fills_up() -> None:
    # Four times 4 EiB, and 8 EiB less a byte, the largest claim there can be.
    sizes = (MOST_BYTES, *[1 << 62] * 4)
    assert fits_one((UNBOUNDED,), sizes)
    assert place_one((UNBOUNDED, 7), sizes) == (0, 0, 0, 0, 0)
    assert grade_one((UNBOUNDED, 7), sizes) is Grade.GUARANTEED
    assert fits_beside_one((UNBOUNDED,), sizes, sizes)
    assert not both_ways((MOST_BYTES,), sizes)


@pytest.mark.parametrize(
    ("pools", "sizes", "is_packed"),
    [
        # In EiB. A claim above 4 needs a pool that holds it, and two of 4 are one byte more than 8 less a byte.
        ((5,), (5,), True),
        ((5,), (6,), False),
        ((7,), (4, 3), True),
        ((7,), (4, 4), False),
        ((8,), (4, 4), False),
        ((8, 8), (5, 5), True),
        ((8, 8), (5, 5, 5), False),
        ((7, 5), (4, 3, 3, 2), True),
        ((7, 5), (4, 3, 3, 3), False),
        ((8, 8, 8), (6, 5, 4, 3, 2, 1), True),
        ((8, 8, 8), (6, 5, 4, 4, 3, 2), False),
    ],
)
def test_claims_above_4_exbibytes_and_sums_beyond_64_bits(pools: Sizes, sizes: Sizes, is_packed: bool) -> None:
    def in_bytes(exbibytes: Sizes) -> Sizes:
        return tuple(min(each << 60, MOST_BYTES) for each in exbibytes)

    assert both_ways(in_bytes(pools), in_bytes(sizes)) is is_packed
    assert bool(grades(objects(in_bytes(pools)), in_bytes(sizes))[0]) is is_packed


def test_thirty_claims_of_three_sizes_are_decided_exactly() -> None:
    # Ten of 7, ten of 5, ten of 3 are 150 bytes. Into ten pools of 15: 7 + 5 + 3 each, which first fit misses.
    sizes = (7,) * 10 + (5,) * 10 + (3,) * 10
    assert both_ways((15,) * 10, sizes)
    assert not both_ways((15,) * 9 + (14,), sizes)


# -- grades -----------------------------------------------------------------------------------------------------------


def grade_both_ways(pools: Sizes, sizes: Sizes) -> Grade:
    grade = grade_one(pools, sizes)
    assert grades(objects(pools), sizes).tolist() == [grade]
    return grade


def test_a_driver_may_put_the_small_claim_into_the_large_pool() -> None:
    # 60 first, into the 100: then 40 and 60 are free, and the claim of 100 has no pool. 100 first is safe.
    assert grade_both_ways(gi(100, 60), gi(100, 60)) is Grade.ORDERED


def test_where_no_order_is_safe_a_fit_is_only_possible() -> None:
    # 7 first, into the 10: 3 and 8 are left for 5, 3 and 3. Into the 8: 10 and 1, which do not hold 5 + 3 + 3.
    assert fits_one((10, 8), (7, 5, 3, 3))
    assert grade_both_ways((10, 8), (7, 5, 3, 3)) is Grade.POSSIBLE


def test_one_claim_that_fits_is_guaranteed() -> None:
    assert grade_both_ways(gi(100, 60), gi(100)) is Grade.GUARANTEED
    assert grade_both_ways(gi(100, 60), gi(101)) is Grade.NONE


def test_in_one_pool_what_fits_is_guaranteed() -> None:
    assert grade_both_ways(gi(100), gi(50, 30, 20)) is Grade.GUARANTEED
    assert grade_both_ways(gi(100), gi(50, 30, 21)) is Grade.NONE


def test_as_many_pools_as_claims_are_a_guarantee_if_each_holds_the_largest() -> None:
    assert grade_both_ways(gi(100, 100, 100), gi(100, 100, 100)) is Grade.GUARANTEED
    # With fewer pools it depends: 90 in one and 10 in the other leave 10 and 90, enough for 90 and not for 100.
    assert grade_both_ways(gi(100, 100), gi(90, 90, 10)) is Grade.GUARANTEED
    assert grade_both_ways(gi(100, 100), gi(100, 90, 10)) is Grade.ORDERED


def test_room_to_spare_is_a_guarantee() -> None:
    # To leave less than 40 in both pools takes 61 + 61 bytes of the others; they are 40 + 40 = 80.
    assert grade_both_ways((100, 100), (40, 40, 40)) is Grade.GUARANTEED
    # 60 and 60 have to be apart, which leaves 40 and 40: enough for 40, and not for 41.
    assert grade_both_ways((100, 100), (60, 60, 40)) is Grade.GUARANTEED
    assert grade_both_ways((100, 100), (60, 60, 41)) is Grade.NONE


def test_bytes_that_suffice_but_do_not_add_up_are_no_threat() -> None:
    # To shut out 50 takes 51 to 100 in each pool. The others, 30 + 30 + 30, are two in one pool and one in the other.
    assert grade_both_ways((100, 100), (50, 30, 30, 30)) is Grade.GUARANTEED
    # With a fourth there are two and two, 60 and 60; the 50 first is safe.
    assert grade_both_ways((100, 100), (50, 30, 30, 30, 30)) is Grade.ORDERED


def test_guaranteed_with_promises_counts_them_all() -> None:
    # 40 promised, wherever it goes: 60 and 100 are left, and 60 still finds a pool; 61 + 61 > 40 + 60.
    assert grade_one((100, 100), (60,), promised=(40,)) is Grade.GUARANTEED
    # 60 and 60 apart shut out 41; were it not there, the promised ones would be safe.
    assert grade_one((100, 100), (41,), promised=(60, 60)) is Grade.NONE


# -- beside promised claims -------------------------------------------------------------------------------------------


def test_in_one_pool_promised_bytes_are_subtracted() -> None:
    # Story 2 with the ledger: five claims of 20 in 100, not six.
    assert fits_beside_one(gi(100), gi(20), gi(20, 20, 20, 20))
    assert not fits_beside_one(gi(100), gi(20), gi(20, 20, 20, 20, 20))


def test_new_claims_must_fit_wherever_the_promised_ones_go() -> None:
    # 60 goes into either pool of 100 and leaves the other whole.
    assert fits_beside_one((100, 100), (100,), (60,))
    # Into the 100 it leaves 40 and 60.
    assert not fits_beside_one((100, 60), (100,), (60,))


def test_new_claims_may_be_packed_as_it_suits_them() -> None:
    # The promised 10 leaves 90 and 60 (60 goes into the 60, 50 into the 90) or 100 and 50 (60 into the 100, 50 into the
    # 50). No guarantee: the driver may put 50 into the 100 and 10 into the 60, and nobody has 60 left. 60 before 50 is
    # safe, whenever the 10 comes.
    assert fits_beside_one((100, 60), (60, 50), (10,))
    assert grade_one((100, 60), (60, 50), (10,)) is Grade.ORDERED


def test_figures_that_do_not_hold_the_promises_take_nothing_new() -> None:
    # 60 is promised and no pool has room for it: perhaps it is created already, perhaps the pools shrank.
    assert not fits_beside_one((50, 40), (10,), (60,))
    # The driver may put 60 into the 100 and leave the promised 100 without a pool.
    assert not fits_beside_one((100, 60, 10), (10,), (100, 60))


def test_without_promises_the_ledger_asks_what_everybody_asks() -> None:
    assert fits_beside_one((10, 9), (5, 4, 4, 3, 3), ())
    assert not fits_beside_one((10, 8), (5, 4, 4, 3, 3), ())
