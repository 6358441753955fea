"""When a pod has to leave; cases by the names that upstream's tests give them."""

from __future__ import annotations

import math

import pytest

from support.node_builders import no_execute, tolerates
from tonnage.behaviour.nodes.node_lifecycle_plan import Eviction, plan, stay_s
from tonnage.behaviour.nodes.node_lifecycle_plan import no_execute as with_no_execute
from tonnage.objects.requirements import Taint, Toleration

ONE, TWO = no_execute("testTaint1", "test1"), no_execute("testTaint2", "test2")
FOR_EVER = math.inf


@pytest.mark.parametrize(
    ("case", "taints", "tolerations", "allowed_s"),
    [
        ("not scheduled - ignore", (), (), FOR_EVER),
        ("scheduled on untainted Node", (), (tolerates("testTaint1", 0),), FOR_EVER),
        ("schedule on tainted Node", (ONE,), (), 0),
        ("schedule on tainted Node with finite toleration", (ONE,), (tolerates("testTaint1", 100),), 100),
        ("schedule on tainted Node with infinite toleration", (ONE,), (tolerates("testTaint1"),), FOR_EVER),
        (
            "schedule on tainted Node with infinite ivalid toleration",
            (ONE,),
            (tolerates("testTaint1", value="other"),),
            0,
        ),
        ("one of two is tolerated", (ONE, TWO), (tolerates("testTaint1"),), 0),
        ("the shorter one counts", (ONE, TWO), (tolerates("testTaint2", 30), tolerates("testTaint1", 100)), 30),
        ("the first that fits is used", (ONE,), (tolerates("testTaint1", 50), tolerates("testTaint1", 5)), 50),
        ("less than nothing is nothing", (ONE,), (tolerates("testTaint1", -5),), 0),
        ("one without a limit beside one with", (ONE, TWO), (tolerates("testTaint1"), tolerates("testTaint2", 7)), 7),
    ],
)
def test_how_long_a_pod_may_stay(
    case: str, taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], allowed_s: float
) -> None:
    assert stay_s(taints, tolerations) == allowed_s, case


def test_only_no_execute_taints_turn_pods_out() -> None:
    assert with_no_execute((Taint(key="a", effect="NoSchedule"), ONE)) == (ONE,)


def test_a_pod_that_tolerates_for_a_while_leaves_when_it_is_over() -> None:
    assert plan("u", None, (ONE,), (tolerates("testTaint1", 100),), 5.0) == Eviction("u", 5.0, 105.0)


def test_a_second_look_does_not_prolong_the_stay() -> None:
    planned = Eviction("u", 5.0, 105.0)
    assert plan("u", planned, (ONE,), (tolerates("testTaint1", 100),), 80.0) == planned


def test_taints_that_go_take_the_plan_with_them() -> None:
    assert plan("u", Eviction("u", 5.0, 105.0), (), (tolerates("testTaint1", 100),), 80.0) is None


def test_a_second_taint_shortens_the_stay_from_its_beginning() -> None:
    tolerations = (tolerates("testTaint1", 100), tolerates("testTaint2", 30))
    # Since 5 s, 30 s allowed: 35 s is over at 80 s.
    assert plan("u", Eviction("u", 5.0, 105.0), (ONE, TWO), tolerations, 80.0) == Eviction("u", 5.0, 35.0)


def test_a_taint_that_is_not_tolerated_turns_it_out_at_once() -> None:
    assert plan("u", Eviction("u", 5.0, 105.0), (TWO,), (tolerates("testTaint1", 100),), 8.0) == Eviction("u", 8.0, 8.0)


def test_another_pod_of_the_same_name_starts_anew() -> None:
    assert plan("new", Eviction("old", 5.0, 105.0), (ONE,), (tolerates("testTaint1", 100),), 80.0) == Eviction(
        "new", 80.0, 180.0
    )
