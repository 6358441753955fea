"""What promises may leave of the pools: a group fits beside them just when it fits all of that."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.scheduling.configuration.plugin_args import LegacyPools
from tonnage.scheduling.volumes.capacity.pools import room_of, scored_capacity
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, Question, Reading
from tonnage.scheduling.volumes.packing import pool_grades
from tonnage.scheduling.volumes.packing.pool_fits import UNBOUNDED, Sizes, descending, fits_all, fits_one
from tonnage.scheduling.volumes.packing.pool_grades import (
    Grade,
    fits_beside_one,
    is_guaranteed,
    is_seen_to_fit,
    left_by_promises,
)
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.testing.storage_builders import capacity

claims = st.lists(st.integers(0, 9), min_size=1, max_size=3).map(descending)


@settings(max_examples=tries(300), deadline=None)
@given(
    st.lists(st.integers(0, 14), min_size=1, max_size=4).map(descending), claims, claims, st.sampled_from(PoolPolicy)
)
def test_a_group_fits_beside_promises_just_when_it_fits_all_that_they_may_leave(
    pools: Sizes, promised: Sizes, group: Sizes, policy: PoolPolicy
) -> None:
    left = left_by_promises(pools, promised, policy=policy)
    assert left is not None and left.is_exact
    fits_each = bool(len(left.rows)) and all(fits_one(each, group) for each in left.rows.tolist())
    assert fits_beside_one(pools, group, promised, policy=policy) == fits_each


def rows_left(pools: Sizes, promised: Sizes) -> set[Sizes]:
    left = left_by_promises(pools, promised)
    assert left is not None and left.is_exact
    return {tuple(row) for row in left.rows.tolist()}


def test_the_driver_may_put_a_promise_into_either_pool() -> None:
    assert rows_left((100, 60), (30,)) == {(70, 60), (100, 30)}


def test_a_promise_that_may_find_no_room_leaves_nothing() -> None:
    assert rows_left((100, 60), (100, 60)) == set()  # the 60 may go into the 100


def test_of_pools_without_end_nothing_is_told() -> None:
    assert left_by_promises((UNBOUNDED, 5), (3,)) is None


def test_of_too_many_ways_a_table_says_the_least() -> None:
    left = left_by_promises(tuple(range(2000, 1000, -100)), (97, 89, 83, 79, 73, 71))
    assert left is not None and not left.is_exact
    assert 0 < len(left.rows) <= pool_grades.MOST_LEFT


def all_ways(pools: Sizes, promised: Sizes) -> set[Sizes]:
    """What a driver may leave, one claim after the other: the slow twin."""
    states = {pools}
    for claim in promised:
        states = {
            descending((*state[:place], free - claim, *state[place + 1 :]))
            for state in states
            for place, free in enumerate(state)
            if free >= claim
        }
    return states


def forget() -> None:
    pool_grades._found.clear()
    pool_grades._found_finely.clear()


@pytest.mark.parametrize("most_left", [1, 2, 5, 20])
def test_no_way_leaves_less_than_a_table_of_few_rows_says(most_left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a group that fits all of its rows fits beside the promises, whatever the driver does."""

    @settings(max_examples=tries(60), deadline=None)
    @given(
        st.lists(st.integers(0, 30), min_size=2, max_size=4).map(descending),
        st.lists(st.integers(0, 9), min_size=1, max_size=5).map(descending),
        st.lists(st.integers(0, 9), min_size=1, max_size=6).map(descending),
    )
    def no_less(pools: Sizes, promised: Sizes, group: Sizes) -> None:
        forget()
        left = left_by_promises(pools, promised)
        assert left is not None
        ways = all_ways(pools, promised) if is_guaranteed(pools, promised) else set()
        rows = [tuple(row) for row in left.rows.tolist()]
        if left.is_exact:
            assert set(rows) == ways
        assert bool(rows) == bool(ways)
        for way in ways:
            assert any(all(least <= free for least, free in zip(row, way, strict=True)) for row in rows)
        if fits_beside_one(pools, group, promised):
            assert pools[0] >= sum(group + promised) or (bool(ways) and all(fits_one(way, group) for way in ways))

    monkeypatch.setattr(pool_grades, "MOST_LEFT", most_left)
    monkeypatch.setattr(pool_grades, "MOST_LEFT_FINELY", 3 * most_left)
    try:
        no_less()
    finally:
        forget()


def test_of_too_many_promises_no_table_is_made_and_the_bytes_may_still_say_yes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget()
    monkeypatch.setattr(pool_grades, "MOST_PROMISES", 2)
    try:
        assert left_by_promises((9, 9), (3, 2, 2)) is None
        assert not fits_beside_one((9, 9), (5, 4), (3, 2, 2))  # it does fit
        assert fits_beside_one((9, 8), (2, 2), (2, 2, 2))
    finally:
        forget()


@settings(max_examples=tries(60), deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3).map(descending), max_size=60),
    st.lists(st.integers(0, 9), min_size=1, max_size=6).map(descending),
)
def test_many_objects_asked_at_once_say_what_each_says(objects: list[Sizes], group: Sizes) -> None:
    table = np.array(objects, dtype=np.int64).reshape(len(objects), 3)
    assert fits_all(table, group) == all(fits_one(each, group) for each in objects)


small_pools = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(descending)
small_claims = st.lists(st.integers(0, 9), min_size=1, max_size=5).map(descending)


@settings(max_examples=tries(400), deadline=None)
@given(small_pools, small_claims, small_claims)
def test_what_is_seen_to_fit_by_its_bytes_fits_whatever_the_driver_did(
    pools: Sizes, promised: Sizes, group: Sizes
) -> None:
    if is_seen_to_fit(pools, group, promised):
        assert is_guaranteed(pools, promised)
        assert all(fits_one(way, group) for way in all_ways(pools, promised))


def test_by_bytes_alone_it_is_seen_where_a_guarantee_for_all_of_them_is_not() -> None:
    pools, promised, group = (60, 50, 40, 30), (25, 20, 10), (25, 25, 12, 12, 4)
    assert is_seen_to_fit(pools, group, promised)
    assert not is_guaranteed(pools, descending(group + promised))


def reading_of(objects: list[tuple[Sizes, Sizes]]) -> Reading:
    """One capacity object for each of these pools, of which so much is promised."""
    made = [
        capacity(name=f"object-{number}", node="a", pools=[str(pool) for pool in pools])
        for number, (pools, _) in enumerate(objects)
    ]
    promised = {each.name: of for each, (_, of) in zip(made, objects, strict=True)}
    policy = CapacityPolicy(
        lambda each: room_of(each, LegacyPools.BOUNDED),
        lambda each: scored_capacity(each, with_pools=True),
        held=lambda each, own: promised[each.name],
    )
    reading = Reading(policy, len(objects) + 1)
    for number, each in enumerate(made):
        reading.write(number, each)
    return reading


def test_a_pool_that_lacks_bytes_takes_none_from_the_others() -> None:
    """A driver that has given away more than it has may say so of one pool."""
    pools: Sizes = (8, 7, 5, -28)
    assert fits_beside_one(pools, (2,), (6, 5)) and fits_beside_one(pools[:3], (2,), (6, 5))
    reading = reading_of([(pools, (6, 5))])
    assert reading.says(Question.FITS, (2,), np.array([0])).tolist() == [Grade.POSSIBLE]
