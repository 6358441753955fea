"""A pod that is expected on a node holds the room its volumes need there, and its attach slots (KEP-5278)."""

from __future__ import annotations

from typing import Any

import pytest
from volume_rig import ALL_OFF, Rig

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, csi_node, pod_with, volume


def goes_to(rig: Rig, pod: Pod, *expected: Pod, on: str = "a") -> str:
    """Where a pod goes while others are expected on a node; empty for nowhere."""
    held = [(on, PodInfo(each)) for each in expected]
    return rig.profile.decider.decide(rig.cluster, PodInfo(pod), held).node


def rig_of(free: str = "100Gi", **settings: Any) -> Rig:
    return Rig(node("a"), capacity("fast", "a", pools=[free]), **settings)


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
def test_its_volumes_are_held_against_pods_of_equal_priority(reservation: str):
    rig = rig_of(reservation=reservation)
    expected, other = rig.pod("expected", "60Gi"), rig.pod("other", "60Gi")
    # 60 + 60 = 120 > 100; 60 + 40 = 100.
    assert goes_to(rig, other) == "a"
    assert goes_to(rig, other, expected) == ""
    assert goes_to(rig, rig.pod("smaller", "40Gi"), expected) == "a"


def test_and_against_pods_of_lower_priority_but_not_of_higher():
    rig = rig_of()
    expected = rig.pod("expected", "60Gi", priority=5)
    assert goes_to(rig, rig.pod("lower", "60Gi", priority=1), expected) == ""
    assert goes_to(rig, rig.pod("higher", "60Gi", priority=9), expected) == "a"


def test_only_on_the_node_where_it_is_expected():
    rig = rig_of()
    rig.put(node("b"), capacity("fast", "b", pools=["100Gi"]))
    assert goes_to(rig, rig.pod("other", "60Gi"), rig.pod("expected", "60Gi"), on="b") == "a"


def test_volumes_of_other_classes_are_not_in_each_others_way():
    rig = rig_of()
    expected = rig.pod("expected", "60Gi", class_name="slow")
    assert goes_to(rig, rig.pod("other", "60Gi"), expected) == "a"


def test_a_volume_that_exists_is_held_too():
    rig = Rig(node("a"), volume("disk", "1Gi", on="a"), capacity("fast", "a", pools=["0"]))
    expected, other = rig.pod("expected", "1Gi"), rig.pod("other", "1Gi")
    assert goes_to(rig, other) == "a"
    assert goes_to(rig, other, expected) == ""


def test_what_was_selected_for_it_before_a_restart_is_held():
    rig = rig_of(reservation="Object")
    rig.put(claim("started", "60Gi", selected_node="a"))
    assert goes_to(rig, rig.pod("other", "60Gi"), pod_with("expected", "started")) == ""


def test_what_the_ledger_holds_for_it_is_not_held_twice():
    rig = rig_of(reservation="Ledger")
    rig.put(claim("started", "60Gi", selected_node="a"))
    # 100 - 60 promised = 40.
    assert goes_to(rig, rig.pod("other", "40Gi"), pod_with("expected", "started")) == "a"
    assert goes_to(rig, rig.pod("more", "41Gi"), pod_with("expected", "started")) == ""


def test_its_attach_slots_are_held():
    rig = rig_of()
    rig.put(csi_node("a", {"csi.example": 2}))
    expected = rig.pod("expected", "1Gi", "1Gi")
    assert goes_to(rig, rig.pod("other", "1Gi")) == "a"
    assert goes_to(rig, rig.pod("other", "1Gi"), expected) == ""


def test_one_that_is_larger_than_the_node_keeps_nobody_out():
    rig = rig_of()
    never = rig.pod("never", "60Gi", cpu="400")
    assert goes_to(rig, rig.pod("other", "60Gi", cpu="1"), never) == "a"


def test_one_whose_claim_is_missing_holds_its_resources_all_the_same():
    rig = rig_of()
    expected = pod_with("expected", "not-there", cpu="3")
    assert goes_to(rig, rig.pod("other", "60Gi", cpu="1"), expected) == "a"
    assert goes_to(rig, rig.pod("other", "60Gi", cpu="2"), expected) == ""


def test_without_the_gate_volumes_of_nominated_pods_are_not_looked_at_as_upstream_has_it():
    rig = Rig(node("a"), capacity("fast", "a", "100Gi"), gates=ALL_OFF)
    assert goes_to(rig, rig.pod("other", "60Gi"), rig.pod("expected", "60Gi")) == "a"


def test_its_own_nomination_is_not_in_a_pods_way():
    rig = rig_of()
    expected = rig.pod("expected", "60Gi", status={"nominatedNodeName": "a"})
    assert goes_to(rig, expected, expected) == "a"
