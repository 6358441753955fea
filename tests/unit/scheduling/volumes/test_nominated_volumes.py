"""A pod that is expected on a node holds the room its volumes need there, and its attach slots (KEP-5278)."""

from __future__ import annotations

from typing import Any

import pytest
from volume_rig import ALL_OFF, VolumeRig

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, csi_node, pod_with, storage_class, volume


def goes_to(rig: VolumeRig, pod: Pod, *expected: Pod, on: str = "a") -> str:
    """Where a pod goes while others are expected on a node; empty for nowhere."""
    held = [(on, PodInfo(each)) for each in expected]
    return rig.profile.decider.decide(rig.cluster, PodInfo(pod), held).node


def rig_of(free: str = "100Gi", **settings: Any) -> VolumeRig:
    return VolumeRig(node("a"), capacity("fast", "a", pools=[free]), **settings)


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
    rig = VolumeRig(node("a"), volume("disk", "1Gi", on="a"), capacity("fast", "a", pools=["0"]))
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
    rig = VolumeRig(node("a"), capacity("fast", "a", "100Gi"), gates=ALL_OFF)
    assert goes_to(rig, rig.pod("other", "60Gi"), rig.pod("expected", "60Gi")) == "a"


def test_its_own_nomination_is_not_in_a_pods_way():
    rig = rig_of()
    expected = rig.pod("expected", "60Gi", status={"nominatedNodeName": "a"})
    assert goes_to(rig, expected, expected) == "a"


# -- one that can never come ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
def test_one_whose_volumes_are_larger_than_the_node_keeps_nobody_out(reservation: str):
    rig = rig_of(reservation=reservation)
    assert goes_to(rig, rig.pod("other", "60Gi"), rig.pod("never", "500Gi")) == "a"
    # 60 + 60 do not fit one object of 100: a pod's claims of a class go to one.
    assert goes_to(rig, rig.pod("more", "60Gi"), rig.pod("two", "60Gi", "60Gi")) == "a"


def test_one_of_a_class_that_has_nothing_there_keeps_nobody_out():
    rig = rig_of()
    rig.put(storage_class("slow"), claim("never-1", "1Gi", class_name="slow"))
    rig.pod("never", "60Gi")
    never = pod_with("never", "never-0", "never-1")
    assert goes_to(rig, rig.pod("other", "60Gi"), never) == "a"
    rig.put(capacity("slow", "a", "1Gi"))
    assert goes_to(rig, rig.pod("other", "60Gi"), never) == ""


@pytest.mark.parametrize("elsewhere", ["bound", "selected"])
def test_one_whose_other_volume_is_elsewhere_keeps_nobody_out(elsewhere: str):
    rig = rig_of()
    rig.put(node("b", unschedulable=True), volume("disk", "1Gi", on="b", claim="default/there"))
    bound, selected = claim("there", "1Gi", volume="disk"), claim("there", "1Gi", selected_node="b")
    rig.put(bound if elsewhere == "bound" else selected)
    rig.pod("never", "60Gi")
    assert goes_to(rig, rig.pod("other", "60Gi"), pod_with("never", "never-0", "there")) == "a"


def test_one_that_would_fit_if_less_were_promised_is_still_left_room_for():
    rig = rig_of(reservation="Ledger")
    assert rig.place(rig.pod("first", "60Gi")) == "a"
    # 100 - 60 promised = 40; the promise may end, and then there are 60 for it.
    assert goes_to(rig, rig.pod("other", "40Gi"), rig.pod("expected", "60Gi")) == ""


def test_a_pod_that_brings_nothing_new_is_not_kept_out_by_volumes_to_be_made():
    rig = rig_of()
    rig.put(volume("disk", "1Gi", on="a", claim="default/there"), claim("there", "1Gi", volume="disk"))
    expected = [rig.pod("one", "60Gi"), rig.pod("two", "60Gi")]
    assert goes_to(rig, pod_with("other", "there"), *expected) == "a"


# -- several objects --------------------------------------------------------------------------------------------------


def rig_of_two(one: str, two: str, **settings: Any) -> VolumeRig:
    on_a = {"matchLabels": {"kubernetes.io/hostname": "a"}}
    objects = [capacity("fast", name=name, pools=[free], topology=on_a) for name, free in (("one", one), ("two", two))]
    return VolumeRig(node("a"), *objects, **settings)


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
def test_volumes_of_different_pods_may_go_to_different_objects(reservation: str):
    rig = rig_of_two("60Gi", "60Gi", reservation=reservation)
    other, expected = rig.pod("other", "60Gi"), rig.pod("expected", "60Gi")
    assert goes_to(rig, other, expected) == "a"
    assert goes_to(rig, other, expected, rig.pod("another", "1Gi")) == ""


def test_volumes_of_one_pod_go_to_one_object_beside_others_too():
    rig = rig_of_two("60Gi", "60Gi")
    # Either object has 40 left beside one of the expected pods, and the two claims need 60.
    expected = [rig.pod("one", "20Gi"), rig.pod("two", "20Gi")]
    assert goes_to(rig, rig.pod("other", "30Gi", "30Gi"), *expected) == "a"
    assert goes_to(rig, rig.pod("other", "30Gi", "30Gi"), *expected, rig.pod("three", "30Gi")) == ""


@pytest.mark.parametrize("reservation", ["Object", "Ledger"])
def test_a_pod_takes_the_object_that_leaves_room_for_the_other(reservation: str):
    rig = rig_of_two("100Gi", "50Gi", reservation=reservation)
    rig.put(claim("expected-0", "80Gi"))
    gated = {"schedulingGates": [{"name": "wait"}]}
    rig.put(pod_with("expected", "expected-0", spec=gated, status={"nominatedNodeName": "a"}), rig.pod("other", "50Gi"))
    queued = rig.engine.pop()
    assert queued is not None
    attempt = rig.engine.attempt(queued)
    assert attempt.placement is not None
    # 50 fit "one", which comes first; the 80 of the expected pod fit nothing else.
    (mode,) = rig.engine.held.modes.values()
    assert [each.capacity for each in mode.holds()] == ["kube-system/two"]


# -- mode Object after a restart --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reservation", "where"), [("Object", ""), ("Ledger", "a"), ("None", "a")])
def test_the_object_that_a_pod_on_its_way_needs_is_not_given_to_a_newcomer(reservation: str, where: str):
    rig = rig_of(reservation=reservation)
    rig.put(claim("started", "60Gi", selected_node="a"))
    # 60 + 40 = 100; but a reserved object is one pod's, and the pod on its way would be refused.
    assert goes_to(rig, rig.pod("other", "40Gi"), pod_with("expected", "started")) == where


def test_a_newcomer_takes_another_object_than_a_pod_on_its_way_needs():
    rig = rig_of_two("100Gi", "40Gi", reservation="Object")
    rig.put(claim("started", "60Gi", selected_node="a"))
    expected = pod_with("expected", "started")
    assert goes_to(rig, rig.pod("other", "40Gi"), expected) == "a"
    assert goes_to(rig, rig.pod("large", "41Gi"), expected) == ""


def test_pods_on_their_way_are_not_in_each_others_way():
    rig = rig_of(reservation="Object")
    rig.put(claim("started", "60Gi", selected_node="a"), claim("other", "40Gi", selected_node="a"))
    assert goes_to(rig, pod_with("other", "other"), pod_with("expected", "started")) == "a"
