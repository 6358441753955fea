"""Drivers whose way of picking pools is known, against a model of each: a guaranteed fit never fails.

The model plays a driver volume by volume, in every order of the claims, and for first-fit in every order of the pools.
It shares nothing with the code under test but the names of the policies.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_play import safe_orders

from examples_tried import tries
from tonnage.scheduling.volumes.packing.claim_orders import bad_order
from tonnage.scheduling.volumes.packing.pool_fits import (
    NO_POOL,
    UNLIMITED,
    Ints2D,
    SearchBudget,
    Sizes,
    descending,
    fits_one,
)
from tonnage.scheduling.volumes.packing.pool_grades import Grade, grade_one, grades
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy

KNOWN = [PoolPolicy.MOST_FREE, PoolPolicy.BEST_FIT, PoolPolicy.FIRST_FIT]
modest = settings(max_examples=tries(150), deadline=None)

known_policies = st.sampled_from(KNOWN)
pool_rows = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(descending)
groups = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(descending)


class ModelDriver:
    """Pools in the driver's own order, and how it takes one."""

    def __init__(self, policy: PoolPolicy, pools: Sizes) -> None:
        self.policy = policy
        self.free = list(pools)

    def create(self, size: int) -> bool:
        roomy = [pool for pool in range(len(self.free)) if self.free[pool] >= size]
        if not roomy:
            return False
        if self.policy is PoolPolicy.MOST_FREE:
            roomy.sort(key=lambda pool: -self.free[pool])
        elif self.policy is PoolPolicy.BEST_FIT:
            roomy.sort(key=lambda pool: self.free[pool])
        self.free[roomy[0]] -= size
        return True


def plays(policy: PoolPolicy, pools: Sizes, sizes: Sizes) -> list[tuple[bool, Sizes]]:
    """For every order of claims and pools: whether all found room, and what is left."""
    orders = set(permutations(pools)) if policy is PoolPolicy.FIRST_FIT else {pools}
    found = []
    for order in orders:
        for claims in set(permutations(sizes)):
            driver = ModelDriver(policy, order)
            is_placed = all(driver.create(size) for size in claims)
            found.append((is_placed, descending(driver.free)))
    return found


def slow_grade(policy: PoolPolicy, pools: Sizes, sizes: Sizes, promised: Sizes = ()) -> Grade:
    if all(is_placed for is_placed, _ in plays(policy, pools, sizes + promised)):
        return Grade.GUARANTEED
    if safe_orders(policy, pools, sizes, promised):
        return Grade.ORDERED
    before = plays(policy, pools, promised)
    if not all(is_placed for is_placed, _ in before):
        return Grade.NONE
    is_possible = all(any(is_placed for is_placed, _ in plays(policy, left, sizes)) for _, left in set(before))
    return Grade.POSSIBLE if is_possible else Grade.NONE


def matrix(rows: list[Sizes]) -> Ints2D:
    width = max(map(len, rows))
    return np.array([row + (NO_POOL,) * (width - len(row)) for row in rows], dtype=np.int64).reshape(len(rows), width)


@modest
@given(known_policies, pool_rows, groups)
def test_a_grade_is_what_the_driver_does_in_every_order(policy: PoolPolicy, pools: Sizes, sizes: Sizes) -> None:
    assert grade_one(pools, sizes, policy=policy) is slow_grade(policy, pools, sizes)


@modest
@given(known_policies, pool_rows, groups)
def test_what_is_possible_does_not_depend_on_the_policy(policy: PoolPolicy, pools: Sizes, sizes: Sizes) -> None:
    packs = fits_one(pools, sizes)
    assert any(is_placed for is_placed, _ in plays(policy, pools, sizes)) == packs


@modest
@given(known_policies, pool_rows, st.integers(1, 6), st.integers(1, 6))
def test_possible_and_guaranteed_agree_where_the_order_says_nothing(
    policy: PoolPolicy, pools: Sizes, size: int, count: int
) -> None:
    """Claims of one size: the policy is then all there is to know."""
    grade = grade_one(pools, (size,) * count, policy=policy)
    assert grade is (Grade.GUARANTEED if fits_one(pools, (size,) * count) else Grade.NONE)


@settings(max_examples=tries(80), deadline=None)
@given(known_policies, pool_rows, groups, st.lists(st.integers(1, 6), max_size=2).map(descending))
def test_promised_claims_are_placed_by_the_policy_too(
    policy: PoolPolicy, pools: Sizes, sizes: Sizes, promised: Sizes
) -> None:
    if len(sizes) + len(promised) > 4:
        sizes = sizes[: 4 - len(promised)]
    assert grade_one(pools, sizes, promised, policy=policy) is slow_grade(policy, pools, sizes, promised)


@modest
@given(known_policies, st.lists(pool_rows, min_size=1, max_size=6), groups)
def test_all_objects_at_once_are_judged_as_each_alone(policy: PoolPolicy, rows: list[Sizes], sizes: Sizes) -> None:
    found = grades(matrix(rows), sizes, policy=policy)
    assert [Grade(each) for each in found.tolist()] == [grade_one(row, sizes, policy=policy) for row in rows]


@modest
@given(
    known_policies,
    st.lists(st.integers(0, 30), min_size=1, max_size=5).map(descending),
    st.lists(st.integers(1, 12), min_size=5, max_size=7).map(descending),
)
def test_more_claims_than_are_played_at_once_are_judged_alike(policy: PoolPolicy, pools: Sizes, sizes: Sizes) -> None:
    """Never a guarantee that the driver breaks; and with few pools none is missed."""
    (found,) = grades(matrix([pools]), sizes, policy=policy).tolist()
    assert Grade(found) is grade_one(pools, sizes, policy=policy)
    if found == Grade.GUARANTEED:
        for claims in [sizes, sizes[::-1], sizes[::2] + sizes[1::2]]:
            driver = ModelDriver(policy, pools)
            assert all(driver.create(size) for size in claims)


@modest
@given(st.sampled_from(PoolPolicy), pool_rows, groups, st.integers(0, 3), st.integers(1, 6))
def test_more_room_than_the_figures_say_spoils_no_guarantee(
    policy: PoolPolicy, pools: Sizes, sizes: Sizes, place: int, more: int
) -> None:
    """A volume may be deleted between a look at the pools and the next."""
    place %= len(pools)
    roomier = descending((*pools[:place], pools[place] + more, *pools[place + 1 :]))
    if grade_one(pools, sizes, policy=policy) is Grade.GUARANTEED:
        assert grade_one(roomier, sizes, policy=policy) is Grade.GUARANTEED


@modest
@given(known_policies, pool_rows, groups)
def test_a_bad_order_is_one(policy: PoolPolicy, pools: Sizes, sizes: Sizes) -> None:
    """Told exactly where the fit is not guaranteed, and a driver that is asked in that order ends up as it says."""
    steps = bad_order(pools, sizes, policy, UNLIMITED)
    assert bool(steps) == (slow_grade(policy, pools, sizes) is not Grade.GUARANTEED)
    if not steps:
        return
    assert steps[-1].pool_bytes is None
    assert not set(steps[:-1]) & {None}
    orders = set(permutations(pools)) if policy is PoolPolicy.FIRST_FIT else {pools}
    ends = []
    for order in orders:
        driver = ModelDriver(policy, order)
        ends.append([driver.create(step.size) for step in steps])
    assert [*[True] * (len(steps) - 1), False] in ends


@modest
@given(st.sampled_from([PoolPolicy.RANDOM, PoolPolicy.UNKNOWN]), pool_rows, groups)
def test_a_policy_that_says_nothing_changes_nothing(policy: PoolPolicy, pools: Sizes, sizes: Sizes) -> None:
    assert grade_one(pools, sizes, policy=policy) is grade_one(pools, sizes)


@modest
@given(known_policies, pool_rows, groups)
def test_a_known_policy_never_lowers_a_grade(policy: PoolPolicy, pools: Sizes, sizes: Sizes) -> None:
    assert grade_one(pools, sizes, policy=policy) >= grade_one(pools, sizes)


@pytest.mark.parametrize("policy", KNOWN)
def test_a_search_that_gives_up_expects_the_worst(policy: PoolPolicy) -> None:
    pools, sizes = (300, 290, 280, 270, 260, 250, 240), tuple(range(130, 117, -1))
    grade = grade_one(pools, sizes, policy=policy)
    assert grade is not Grade.NONE


@settings(max_examples=tries(20), deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 40), min_size=2, max_size=4).map(descending))
def test_best_fit_on_thousands_of_unlike_nodes_is_graded_within_the_budget_of_one_decision(
    seed: int, sizes: Sizes
) -> None:
    rng = np.random.default_rng(seed)
    pools = -np.sort(-rng.integers(0, 60, size=(3_000, 4)), axis=1)
    told = grades(pools, sizes, SearchBudget(), PoolPolicy.BEST_FIT, with_order=False)
    for place in rng.choice(len(pools), 50, replace=False).tolist():
        row = tuple(pools[place].tolist())
        assert told[place] == grade_one(row, sizes, policy=PoolPolicy.BEST_FIT, with_order=False)
