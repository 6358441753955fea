"""What promises may leave of the pools: a group fits beside them just when it fits all of that."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.scheduling.volumes.packing import (
    UNBOUNDED,
    PoolPolicy,
    Sizes,
    descending,
    fits_beside_one,
    fits_one,
    left_by_promises,
)
from tonnage.scheduling.volumes.packing.pool_fits import fits_all

claims = st.lists(st.integers(0, 9), min_size=1, max_size=3).map(descending)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 14), min_size=1, max_size=4).map(descending), claims, claims, st.sampled_from(PoolPolicy)
)
def test_a_group_fits_beside_promises_just_when_it_fits_all_that_they_may_leave(
    pools: Sizes, promised: Sizes, group: Sizes, policy: PoolPolicy
) -> None:
    left = left_by_promises(pools, promised, policy=policy)
    assert left is not None
    fits_all = bool(left) and all(fits_one(each, group) for each in left)
    assert fits_beside_one(pools, group, promised, policy=policy) == fits_all


def test_the_driver_may_put_a_promise_into_either_pool() -> None:
    assert set(left_by_promises((100, 60), (30,)) or ()) == {(70, 60), (100, 30)}


def test_a_promise_that_may_find_no_room_leaves_nothing() -> None:
    assert left_by_promises((100, 60), (100, 60)) == ()  # the 60 may go into the 100


def test_too_many_ways_and_pools_without_end_are_not_told() -> None:
    pools = tuple(range(2000, 1000, -100))
    assert left_by_promises(pools, (97, 89, 83, 79, 73, 71)) is None
    assert left_by_promises((UNBOUNDED, 5), (3,)) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3).map(descending), max_size=60),
    st.lists(st.integers(0, 9), min_size=1, max_size=6).map(descending),
)
def test_many_objects_asked_at_once_say_what_each_says(objects: list[Sizes], group: Sizes) -> None:
    assert fits_all(objects, group) == all(fits_one(each, group) for each in objects)
