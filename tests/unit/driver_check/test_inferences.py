"""What is inferred about a driver is true of it, or nothing is inferred."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.driver_check.measuring import (
    GI,
    SIZES_TO_TRY,
    PoolChoice,
    chance_of_imitation,
    choice_seen,
    next_size,
    policies_left,
    policy_measured,
    size_rules_measured,
    sizes_allowed,
)
from tonnage.objects.size_rules import SizeRules, driver_size
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy

POLICIES = (PoolPolicy.MOST_FREE, PoolPolicy.BEST_FIT, PoolPolicy.FIRST_FIT)

Picker = Callable[[list[int], int], int]


def most_free(free: list[int], size: int) -> int:
    return max((place for place, each in enumerate(free) if each >= size), key=lambda place: free[place])


def best_fit(free: list[int], size: int) -> int:
    return min((place for place, each in enumerate(free) if each >= size), key=lambda place: free[place])


def first_fit(free: list[int], size: int) -> int:
    return next(place for place, each in enumerate(free) if each >= size)


def last_fit(free: list[int], size: int) -> int:
    """First-fit of a driver that lists its pools the other way round."""
    return max(place for place, each in enumerate(free) if each >= size)


PICKERS: dict[str, Picker] = {"most-free": most_free, "best-fit": best_fit, "first-fit": first_fit}


def watched(pools: list[int], pick: Picker, *, sizes: Callable[[list[int]], list[int]]) -> str:
    """The policy that is measured of a driver with these pools."""
    choices: list[PoolChoice] = []
    for _ in range(8):
        free = pools
        for _ in range(32):
            size = next_size(free, choices, sizes(free))
            if not size or policy_measured(choices):
                break
            place = pick(free, size)
            after = [each - size if number == place else each for number, each in enumerate(free)]
            seen = choice_seen(free, after)
            assert seen is not None
            if len(seen.with_room) > 1:
                choices.append(seen)
            free = after
    return policy_measured(choices)


def small(pools: list[int]) -> list[int]:
    return sizes_allowed(pools, 1, fills=False)


def large(pools: list[int]) -> list[int]:
    return sizes_allowed(pools, 1, fills=True)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pools", [[100, 60], [100, 100], [100, 100, 100], [40, 100, 60, 80]])
def test_a_policy_is_measured_where_large_volumes_may_be_made(policy: str, pools: list[int]):
    assert watched(pools, PICKERS[policy], sizes=large) == policy


def test_a_driver_with_an_order_of_its_own_is_first_fit():
    assert watched([40, 100, 60], last_fit, sizes=large) == "first-fit"


def test_equal_pools_show_most_free_with_small_volumes_alone():
    assert watched([100, 100, 100], most_free, sizes=small) == "most-free"


def test_a_driver_that_follows_no_policy_is_unknown():
    rng = random.Random(4)

    def any_pool(free: list[int], size: int) -> int:
        return rng.choice([place for place, each in enumerate(free) if each >= size])

    assert watched([100, 100, 100], any_pool, sizes=large) == PoolPolicy.UNKNOWN


@given(
    st.lists(st.integers(5, 200), min_size=2, max_size=5),
    st.sampled_from(POLICIES),
    st.sampled_from([small, large]),
)
def test_no_policy_is_taken_for_another(pools: list[int], policy: str, sizes: Callable[[list[int]], list[int]]):
    assert watched(pools, PICKERS[policy], sizes=sizes) in (policy, "")


@given(st.lists(st.integers(5, 50), min_size=2, max_size=4), st.sampled_from(POLICIES), st.data())
def test_the_true_policy_is_never_ruled_out(pools: list[int], policy: str, data: st.DataObject):
    choices: list[PoolChoice] = []
    for _ in range(6):
        size = data.draw(st.integers(1, 20))
        if size > max(pools):
            break
        place = PICKERS[policy](pools, size)
        after = [each - size if number == place else each for number, each in enumerate(pools)]
        seen = choice_seen(pools, after)
        assert seen is not None
        choices.append(seen)
        pools = after
    assert not choices or policy in policies_left(choices)


def test_one_choice_between_two_pools_is_believed_of_nobody():
    choice = PoolChoice((100, 60), 100, 10, 0)
    assert policies_left([choice]) == ["most-free", "first-fit"] and policy_measured([choice]) == ""
    assert chance_of_imitation("most-free", [choice]) == 0.5


def test_pools_that_are_listed_by_size_rule_out_first_fit_alone():
    seen = choice_seen([100, 99, 98], [99, 98, 60])  # 100 shrank to 60 and went last
    assert seen == PoolChoice((100, 99, 98), 100, 40, None)
    assert policies_left([seen]) == ["most-free"]


@pytest.mark.parametrize(
    ("before", "after"),
    [([100, 60], [100, 60]), ([100, 60], [90, 50]), ([100, 60], [100]), ([100, 60], [100, 70])],
    ids=["nothing", "two pools", "a pool gone", "grew"],
)
def test_figures_that_show_no_choice(before: list[int], after: list[int]):
    assert choice_seen(before, after) is None


def taken_by(rules: str) -> dict[int, int]:
    return {size: driver_size(SizeRules.parse(rules), size) for size in SIZES_TO_TRY}


@pytest.mark.parametrize(
    "rules",
    [
        "",
        "step=1Mi,step=1Gi,above=1Gi",  # OpenEBS LVM and ZFS
        "step=4Mi",  # LVM extents
        "step=512,minimum=32Mi",
        "step=1Mi,overhead=4Mi",
        "step=1Gi",  # disks of clouds
        "step=128Mi",  # larger than the smallest volumes that are tried
        "step=4Mi,minimum=300Mi",  # TopoLVM with xfs
        "step=4Mi,step=1Gi,above=1Gi,minimum=300Mi",
        "minimum=65Mi",
        "minimum=1Gi",
    ],
)
def test_a_size_rule_is_measured(rules: str):
    assert size_rules_measured(taken_by(rules)) == rules


@pytest.mark.parametrize(
    "rules", ["overhead=1%", "step=1Mi,step=1Gi,above=100Mi", "step=1Gi,minimum=10Gi", "step=4Mi,minimum=600Mi"]
)
def test_sizes_that_follow_no_rule_that_was_looked_for_are_not_told_as_one(rules: str):
    assert size_rules_measured(taken_by(rules)) is None


@given(
    st.sampled_from(["", "step=512", "step=4Ki", "step=1Mi", "step=4Mi", "step=128Mi", "step=1Gi"]),
    st.sampled_from(["", "step=4Ki,above=1Gi", "step=4Mi,above=1Gi", "step=1Gi,above=1Gi"]),
    st.sampled_from(
        ["", "minimum=16Mi", "minimum=64Mi", "minimum=65Mi", "minimum=300Mi", "minimum=600Mi", "minimum=1Gi"]
    ),
    st.sampled_from(["", "overhead=4Ki", "overhead=4Mi"]),
    st.integers(1, 5 * GI),
)
def test_a_rule_that_was_measured_foretells_other_sizes(step: str, large: str, least: str, more: str, asked: int):
    rules = ",".join(filter(None, (step, large, least, more)))
    measured = size_rules_measured(taken_by(rules))
    if measured is not None:
        assert driver_size(SizeRules.parse(measured), asked) == driver_size(SizeRules.parse(rules), asked)
