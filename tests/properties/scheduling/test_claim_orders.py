"""An order of the claims that is called safe is safe, and where there is a safe one it is found."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from order_play import driver_starts, left_after, order_holds, safe_orders

from examples_tried import tries
from tonnage.scheduling.volumes.packing.claim_orders import next_claim, safe_order
from tonnage.scheduling.volumes.packing.pool_fits import NO_POOL, SearchBudget, Sizes, descending, fits_one
from tonnage.scheduling.volumes.packing.pool_grades import Grade, grade_one, grades
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy

modest = settings(max_examples=tries(150), deadline=None)
policies = st.sampled_from(PoolPolicy)
pool_rows = st.lists(st.integers(0, 14), min_size=1, max_size=4).map(descending)
groups = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(descending)
few_promised = st.lists(st.integers(0, 6), max_size=2).map(descending)


@st.composite
def tight(draw: st.DrawFn) -> tuple[Sizes, Sizes]:
    """Pools that the claims nearly fill: those are the fits on which the order decides."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=2, max_size=4))
    filled = [0] * draw(st.integers(2, 3))
    for size in sizes:
        filled[draw(st.integers(0, len(filled) - 1))] += size
    spare = [draw(st.integers(0, 4)) for _ in filled]
    return descending(used + more for used, more in zip(filled, spare, strict=True)), descending(sizes)


@modest
@given(policies, tight())
@example(PoolPolicy.MOST_FREE, ((100, 60), (80, 40)))
@example(PoolPolicy.UNKNOWN, ((100, 60), (80, 40)))
def test_a_group_that_packs_is_ordered_exactly_if_some_order_always_works(
    policy: PoolPolicy, case: tuple[Sizes, Sizes]
) -> None:
    pools, sizes = case
    grade, safe = grade_one(pools, sizes, policy=policy), safe_orders(policy, pools, sizes)
    assert (grade >= Grade.ORDERED) == bool(safe)
    if grade is Grade.ORDERED:
        assert safe_order(pools, sizes, policy=policy) in safe
    if policy in (PoolPolicy.MOST_FREE, PoolPolicy.BEST_FIT):
        assert grade >= Grade.ORDERED, "a driver that is known makes every packing come true"


@modest
@given(policies, tight(), few_promised)
def test_claims_that_are_promised_may_come_in_between(
    policy: PoolPolicy, case: tuple[Sizes, Sizes], promised: Sizes
) -> None:
    pools, sizes = case
    pools, sizes = descending((*pools[:-1], pools[-1] + sum(promised))), sizes[:3]
    grade, safe = grade_one(pools, sizes, promised, policy=policy), safe_orders(policy, pools, sizes, promised)
    assert (grade >= Grade.ORDERED) == bool(safe)
    if grade is Grade.ORDERED:
        assert safe_order(pools, sizes, promised, policy=policy) in safe


@modest
@given(pool_rows, groups, few_promised)
def test_of_a_driver_that_may_take_any_pool_the_largest_claim_goes_first(
    pools: Sizes, sizes: Sizes, promised: Sizes
) -> None:
    """If any order holds, the largest first does: no other has to be looked at."""
    safe = safe_orders(PoolPolicy.UNKNOWN, pools, sizes, promised)
    assert not safe or sizes in safe


@modest
@given(policies, st.lists(tight(), min_size=1, max_size=5))
def test_all_objects_at_once_have_an_order_as_each_alone(policy: PoolPolicy, cases: list[tuple[Sizes, Sizes]]) -> None:
    sizes = cases[0][1]
    width = max(len(pools) for pools, _ in cases)
    rows = [pools + (NO_POOL,) * (width - len(pools)) for pools, _ in cases]
    found = grades(np.array(rows), sizes, policy=policy)
    assert found.tolist() == [grade_one(pools, sizes, policy=policy) for pools, _ in cases]


@modest
@given(policies, tight())
def test_the_claim_that_goes_first_without_a_safe_order_does_the_least_harm(
    policy: PoolPolicy, case: tuple[Sizes, Sizes]
) -> None:
    """No other claim leaves a smaller share of what the driver's choice may leave hopeless."""
    pools, sizes = case

    def harm(size: int) -> float:
        place = sizes.index(size)
        after = {descending(left) for start in driver_starts(policy, pools) for left in left_after(policy, start, size)}
        return sum(not fits_one(left, sizes[:place] + sizes[place + 1 :]) for left in after) / len(after)

    first = next_claim(pools, sizes, policy)
    assert harm(first) == min(map(harm, sizes))
    assert first == max(size for size in sizes if harm(size) == harm(first))


def test_a_search_that_gives_up_knows_no_order() -> None:
    """A hundred claims of different sizes: nothing is promised that was not seen to hold."""
    sizes, search = tuple(range(130, 30, -1)), SearchBudget(1)
    search.spend(1)
    assert safe_order((4_100, 4_000), sizes, (), search) is None
    assert search.undecided


def test_a_known_order_is_one_the_judge_plays() -> None:
    """Pools 100 and 60: the 40 first strands the 80 wherever it goes to the 100."""
    assert not order_holds(PoolPolicy.MOST_FREE, (100, 60), (40, 80), ())
    assert order_holds(PoolPolicy.MOST_FREE, (100, 60), (80, 40), ())
    assert safe_order((100, 60), (80, 40)) == (80, 40)


def test_an_order_holds_though_promised_claims_come_after_its_last_claim() -> None:
    """When the last claim of the order is placed, 14, 8 and 6 may still be to come, and find room whatever happens."""
    pools, sizes, promised = (49, 48, 14), (21, 16, 14, 9), (14, 8, 6)
    for policy in (PoolPolicy.UNKNOWN, PoolPolicy.FIRST_FIT):
        assert order_holds(policy, pools, sizes, promised)
        assert safe_order(pools, sizes, promised, policy=policy) is not None
