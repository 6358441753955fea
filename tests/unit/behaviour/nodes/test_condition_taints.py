"""Which taints follow from conditions, and that those of others stay."""

from __future__ import annotations

import pytest

from support.node_builders import at, condition, node
from tonnage.behaviour.nodes.node_lifecycle_plan import (
    no_execute_key,
    no_schedule_keys,
    with_no_execute,
    with_no_schedule,
)
from tonnage.objects.document import Doc

NOW = at(0)
ADDED = {"timeAdded": "2026-11-15T12:00:00Z"}


def taint(key: str, effect: str = "NoSchedule", **more: str) -> Doc:
    return {"key": f"node.kubernetes.io/{key}", "effect": effect, **more}


OTHERS: Doc = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("type_", "status", "key"),
    [
        ("Ready", "True", ""),
        ("Ready", "False", "not-ready"),
        ("Ready", "Unknown", "unreachable"),
        ("MemoryPressure", "True", "memory-pressure"),
        ("MemoryPressure", "Unknown", ""),
        ("DiskPressure", "True", "disk-pressure"),
        ("NetworkUnavailable", "True", "network-unavailable"),
        ("PIDPressure", "True", "pid-pressure"),
        ("SomethingElse", "True", ""),
    ],
)
def test_a_condition_asks_for_its_taint(type_: str, status: str, key: str) -> None:
    wanted = {f"node.kubernetes.io/{key}"} if key else set()
    assert no_schedule_keys(node("n", condition(type_, status))) == wanted


def test_a_cordoned_node_is_unschedulable() -> None:
    assert no_schedule_keys(node("n", cordoned=True)) == {"node.kubernetes.io/unschedulable"}


def test_taints_are_added_and_taken_away_and_those_of_others_stay() -> None:
    before = [OTHERS, taint("not-ready"), taint("not-ready", "NoExecute"), taint("disk-pressure", timeAdded="then")]
    keys = frozenset(("node.kubernetes.io/disk-pressure", "node.kubernetes.io/unreachable"))
    assert with_no_schedule(before, keys, NOW) == [
        OTHERS,
        taint("not-ready", "NoExecute"),
        taint("disk-pressure", timeAdded="then"),
        taint("unreachable", **ADDED),
    ]


def test_a_taint_of_our_key_with_another_effect_is_not_ours() -> None:
    preferred = taint("unschedulable", "PreferNoSchedule")
    assert with_no_schedule([preferred], frozenset(), NOW) == [preferred]


@pytest.mark.parametrize(("status", "key"), [("True", ""), ("False", "not-ready"), ("Unknown", "unreachable")])
def test_pods_are_turned_out_by_what_ready_says(status: str, key: str) -> None:
    assert no_execute_key(condition("Ready", status)) == (f"node.kubernetes.io/{key}" if key else "")


def test_nobody_is_turned_out_of_a_node_that_has_not_said_anything() -> None:
    assert no_execute_key(None) == ""


def test_not_ready_and_unreachable_exclude_one_another() -> None:
    before = [OTHERS, taint("not-ready", "NoExecute"), taint("not-ready")]
    after = [OTHERS, taint("not-ready"), taint("unreachable", "NoExecute", **ADDED)]
    assert with_no_execute(before, "node.kubernetes.io/unreachable", NOW) == after
    assert with_no_execute(after, "node.kubernetes.io/unreachable", at(9)) == after  # it keeps its time
    assert with_no_execute(after, "", NOW) == [OTHERS, taint("not-ready")]
