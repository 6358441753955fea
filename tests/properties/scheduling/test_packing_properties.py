"""Packing against brute force: never a yes that brute force refuses, never a no that it admits.

The twins below try every pool for every claim, and for the grades every order as well. They share nothing with the
code under test, and know nothing of sorting, sums or bounds. Sizes are small numbers, so that pools are full to the
last byte often; the last test moves everything to the end of the 64 bits.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from order_play import safe_orders

from examples_tried import tries
from tonnage.scheduling.volumes.packing import pool_fits, pool_grades
from tonnage.scheduling.volumes.packing.pool_fits import (
    MOST_BYTES,
    NO_POOL,
    Ints2D,
    Sizes,
    descending,
    fits,
    fits_one,
    place_one,
)
from tonnage.scheduling.volumes.packing.pool_grades import Grade, fits_beside_one, grade_one, grades
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy

modest = settings(max_examples=tries(300), deadline=None)
few = settings(max_examples=tries(80), deadline=None)


def sizes_of(count: int, largest: int, *, least: int = 0) -> st.SearchStrategy[Sizes]:
    return st.lists(st.integers(0, largest), min_size=least, max_size=count).map(descending)


exbibytes = st.integers(0, 8).map(lambda each: min(each << 60, MOST_BYTES))
"""Two of them may be more than 64 bits hold."""
pool_rows = sizes_of(4, 14)
groups = sizes_of(5, 8)


@st.composite
def tight_groups(draw: st.DrawFn, claims: int, pools: int) -> tuple[Sizes, Sizes]:
    """Pools and claims that leave little over: claims dealt out to pools, then a few bytes given or one taken."""
    sizes = draw(st.lists(st.integers(1, 30), min_size=2, max_size=claims))
    filled = [0] * draw(st.integers(1, pools))
    for size in sizes:
        filled[draw(st.integers(0, len(filled) - 1))] += size
    moved = draw(st.lists(st.integers(-1, 3), min_size=len(filled), max_size=len(filled)))
    return descending(max(0, size + bytes_) for size, bytes_ in zip(filled, moved, strict=True)), descending(sizes)


# -- the slow twins ---------------------------------------------------------------------------------------------------


def choices(free: Sizes, claim: int) -> list[Sizes]:
    """What the pools may look like once the claim is placed, one answer for each pool with room."""
    after = [(*free[:place], room - claim, *free[place + 1 :]) for place, room in enumerate(free) if room >= claim]
    return [tuple(sorted(pools)) for pools in after]


@lru_cache(maxsize=200_000)
def can_pack(free: Sizes, claims: Sizes) -> bool:
    return not claims or any(can_pack(pools, claims[1:]) for pools in choices(free, claims[0]))


@lru_cache(maxsize=200_000)
def never_stuck(free: Sizes, claims: Sizes, then: Sizes = ()) -> bool:
    """In every order and with every choice all claims are placed, and then the last ones can be packed."""
    if not claims:
        return can_pack(free, then)
    for place, claim in enumerate(claims):
        after = choices(free, claim)
        rest = claims[:place] + claims[place + 1 :]
        if not after or not all(never_stuck(pools, rest, then) for pools in after):
            return False
    return True


def slow_grade(pools: Sizes, sizes: Sizes, promised: Sizes = ()) -> Grade:
    if never_stuck(pools, sizes + promised):
        return Grade.GUARANTEED
    if safe_orders(PoolPolicy.UNKNOWN, pools, sizes, promised):
        return Grade.ORDERED
    return Grade.POSSIBLE if never_stuck(pools, promised, sizes) else Grade.NONE


def matrix(rows: list[Sizes], width: int = 0) -> Ints2D:
    width = max([width, *map(len, rows)])
    return np.array([row + (NO_POOL,) * (width - len(row)) for row in rows], dtype=np.int64).reshape(len(rows), width)


# -- one object -------------------------------------------------------------------------------------------------------


@modest
@given(pool_rows, groups)
def test_claims_fit_exactly_when_some_choice_of_pools_holds_them(pools: Sizes, sizes: Sizes) -> None:
    assert fits_one(pools, sizes) == can_pack(pools, sizes)
    assert fits_one([*pools, NO_POOL], sizes) == can_pack(pools, sizes)


@modest
@given(tight_groups(claims=9, pools=4))
def test_claims_that_leave_nothing_over_are_judged_exactly(group: tuple[Sizes, Sizes]) -> None:
    pools, sizes = group
    assert fits_one(pools, sizes) == can_pack(pools, sizes)


@modest
@given(pool_rows, groups)
def test_a_placement_is_one_and_is_missing_only_where_there_is_none(pools: Sizes, sizes: Sizes) -> None:
    check_placement(pools, sizes)


@modest
@given(tight_groups(claims=9, pools=4))
def test_a_placement_that_leaves_nothing_over_is_one_as_well(group: tuple[Sizes, Sizes]) -> None:
    check_placement(*group)


def check_placement(pools: Sizes, sizes: Sizes) -> None:
    placement = place_one(pools, sizes)
    assert (placement is not None) == can_pack(pools, sizes)
    if placement is not None:
        assert len(placement) == len(sizes)
        for place, pool in enumerate(pools):
            assert sum(size for size, at in zip(sizes, placement, strict=True) if at == place) <= pool
        assert all(0 <= at < len(pools) for at in placement)


@modest
@given(pool_rows, groups)
def test_a_fit_is_guaranteed_exactly_when_no_driver_gets_stuck(pools: Sizes, sizes: Sizes) -> None:
    assert grade_one(pools, sizes) is slow_grade(pools, sizes)


@modest
@given(sizes_of(4, 20, least=1), sizes_of(5, 7))
def test_with_room_to_spare_the_guarantee_is_still_exact(pools: Sizes, sizes: Sizes) -> None:
    assert grade_one(pools, sizes) is slow_grade(pools, sizes)


@modest
@given(sizes_of(3, 20), sizes_of(3, 8), sizes_of(3, 8))
def test_beside_promised_claims_every_grade_is_exact(pools: Sizes, sizes: Sizes, promised: Sizes) -> None:
    assert fits_beside_one(pools, sizes, promised) == (not sizes or never_stuck(pools, promised, sizes))
    assume(sizes)
    assert grade_one(pools, sizes, promised) is slow_grade(pools, sizes, promised)


@modest
@given(st.integers(0, 40), sizes_of(4, 9, least=1), sizes_of(4, 9))
def test_in_one_pool_promises_are_subtracted(pool: int, sizes: Sizes, promised: Sizes) -> None:
    assert fits_beside_one((pool,), sizes, promised) == (sum(sizes) + sum(promised) <= pool)
    guaranteed = grade_one((pool,), sizes, promised) is Grade.GUARANTEED
    assert guaranteed == (sum(sizes) + sum(promised) <= pool)


@modest
@given(pool_rows, groups, sizes_of(3, 8))
def test_guaranteed_implies_possible(pools: Sizes, sizes: Sizes, promised: Sizes) -> None:
    if grade_one(pools, sizes, promised) is Grade.GUARANTEED:
        assert fits_one(pools, descending(sizes + promised))
        assert fits_beside_one(pools, sizes, promised)


@modest
@given(pool_rows, sizes_of(5, 6, least=1))
def test_a_guarantee_survives_the_loss_of_any_claim(pools: Sizes, sizes: Sizes) -> None:
    assume(grade_one(pools, sizes) is Grade.GUARANTEED)
    for place in range(len(sizes)):
        assert grade_one(pools, sizes[:place] + sizes[place + 1 :]) is Grade.GUARANTEED


# -- all objects ------------------------------------------------------------------------------------------------------


@modest
@given(st.lists(pool_rows, max_size=8), groups, st.integers(0, 5))
def test_arrays_answer_what_one_object_answers(rows: list[Sizes], sizes: Sizes, width: int) -> None:
    pools = matrix(rows, width)
    before = pools.copy()
    assert fits(pools, sizes).tolist() == [can_pack(row, sizes) for row in rows]
    assert grades(pools, sizes).tolist() == [slow_grade(row, sizes) for row in rows]
    assert grades(pools, sizes).dtype == np.int8
    assert (pools == before).all()


@few
@given(st.lists(tight_groups(claims=9, pools=4), min_size=1, max_size=6))
def test_arrays_answer_the_same_for_many_claims(grouped: list[tuple[Sizes, Sizes]]) -> None:
    """The claims of one group into the pools of all: some are far too small, some too large, one is just right."""
    rows, sizes = [pools for pools, _ in grouped], grouped[0][1]
    assert fits(matrix(rows), sizes).tolist() == [can_pack(row, sizes) for row in rows]
    assert grades(matrix(rows), sizes).tolist() == [grade_one(row, sizes) for row in rows]


@pytest.mark.parametrize(("few_arrangements", "many_objects", "most_ways"), [(0, 1, 0), (3, 9, 4), (2, 1, 60)])
def test_listing_arrangements_and_searching_say_the_same(
    monkeypatch: pytest.MonkeyPatch, few_arrangements: int, many_objects: int, most_ways: int
) -> None:
    """Few claims take the short way; with fewer arrangements allowed they take the long ones, to the same answer."""

    @few
    @given(st.lists(pool_rows, min_size=1, max_size=5), groups)
    def same(rows: list[Sizes], sizes: Sizes) -> None:
        assert fits(matrix(rows), sizes).tolist() == [can_pack(row, sizes) for row in rows]
        assert grades(matrix(rows), sizes).tolist() == [slow_grade(row, sizes) for row in rows]

    monkeypatch.setattr(pool_fits, "FEW_ARRANGEMENTS", few_arrangements)
    monkeypatch.setattr(pool_fits, "MANY_OBJECTS", many_objects)
    monkeypatch.setattr(pool_grades, "MOST_WAYS", most_ways)
    same()


def forget_searches() -> None:
    for found in (pool_fits._placements, pool_grades._filled, pool_grades._found, pool_grades._found_finely):
        found.clear()


def test_searches_that_give_up_refuse_and_never_admit(monkeypatch: pytest.MonkeyPatch) -> None:
    @few
    @given(tight_groups(claims=6, pools=3), sizes_of(3, 8))
    def careful(group: tuple[Sizes, Sizes], promised: Sizes) -> None:
        pools, sizes = group
        forget_searches()
        if fits_one(pools, sizes):
            assert can_pack(pools, sizes)
        assert grade_one(pools, sizes, promised) <= slow_grade(pools, sizes, promised)
        if fits_beside_one(pools, sizes, promised):
            assert never_stuck(pools, promised, sizes)

    monkeypatch.setattr(pool_fits, "FIRST_LOOK", 1)
    monkeypatch.setattr(pool_fits, "EXACT_SETS", 2)
    monkeypatch.setattr(pool_grades, "MOST_STEPS", 3)
    monkeypatch.setattr(pool_grades, "MOST_LEFT", 2)
    monkeypatch.setattr(pool_grades, "MOST_LEFT_FINELY", 3)
    monkeypatch.setattr(pool_grades, "MOST_PROMISES", 2)
    try:
        careful()
    finally:
        forget_searches()


@modest
@given(
    st.lists(st.integers(0, MOST_BYTES) | exbibytes, max_size=3),
    st.lists(st.integers(0, MOST_BYTES) | exbibytes, max_size=4),
    st.lists(exbibytes, max_size=2),
)
def test_sums_beyond_64_bits_are_no_different(pools: list[int], sizes: list[int], promised: list[int]) -> None:
    row, claims, others = descending(pools), descending(sizes), descending(promised)
    grade = slow_grade(row, claims)
    assert grade_one(row, claims) is grade
    assert fits_one(row, claims) == (grade > Grade.NONE)
    assert fits(matrix([row], 3), claims).tolist() == [grade > Grade.NONE]
    assert grades(matrix([row], 3), claims).tolist() == [grade]
    if claims:
        assert grade_one(row, claims, others) is slow_grade(row, claims, others)
        assert fits_beside_one(row, claims, others) == never_stuck(row, others, claims)
