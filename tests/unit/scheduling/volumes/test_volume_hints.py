"""Which events wake a pod that VolumeBinding turned away: upstream's, and with the gate KEP-5925's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node
from tonnage.objects.storage_v1 import CHECK_CAPACITY, CSIStorageCapacity
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import QUEUE, SKIP, ActionType, ClusterEvent, EventResource, changes_of
from tonnage.scheduling.volumes.hints import volume_binding_events
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import (
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

A, R = ActionType, EventResource
ON, OFF = Gates().with_(CSIStorageCapacityV2=True), Gates().with_(CSIStorageCapacityV2=False)
WEB = PodInfo(pod_with("web", "data"))


def woken(old: Any, new: Any, *, gates: Gates = ON, reserves: bool = False, pod: PodInfo = WEB) -> bool:
    """Would any hint let the pod be tried again, after an object went from `old` to `new`?"""
    return any(_asks(seen.event, seen.old, seen.new, gates, reserves, pod) for seen in changes_of(old, new))


def _asks(event: ClusterEvent, old: Any, new: Any, gates: Gates, reserves: bool, pod: PodInfo) -> bool:
    hints = [hint for mask, hint in volume_binding_events(gates, reserves=reserves) if mask.covers(event)]
    answers = [QUEUE if hint is None else hint(pod, event, old, new) for hint in hints]
    assert all(answer in (QUEUE, SKIP) for answer in answers)
    return QUEUE in answers


def test_without_the_gate_the_events_are_upstreams():
    assert {(event.resource, event.action) for event, _ in volume_binding_events(OFF, reserves=True)} == {
        (R.STORAGE_CLASS, A.ADD | A.UPDATE),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD | A.UPDATE),
        (R.PERSISTENT_VOLUME, A.ADD | A.UPDATE),
        (R.NODE, A.ADD | A.UPDATE_NODE_LABEL),
        (R.CSI_NODE, A.ADD | A.UPDATE),
        (R.CSI_DRIVER, A.UPDATE),
        (R.CSI_STORAGE_CAPACITY, A.ADD | A.UPDATE),
    }


@pytest.mark.parametrize("gates", [OFF, ON])
def test_its_own_claims_wake_a_pod_and_those_of_others_do_not(gates):
    assert woken(None, claim("data"), gates=gates)
    assert woken(claim("data"), claim("data", volume="pv-1"), gates=gates)
    assert not woken(None, claim("logs"), gates=gates)
    assert not woken(None, claim("data", namespace="elsewhere"), gates=gates)


def test_a_claim_made_for_a_generic_ephemeral_volume_is_the_pods_own():
    ephemeral = PodInfo(pod_with("web", volumes=[{"name": "scratch", "ephemeral": {}}]))
    assert woken(None, claim("web-scratch"), pod=ephemeral)
    assert not woken(None, claim("scratch"), pod=ephemeral)


def test_a_volume_wakes_a_pod_unless_it_is_somebody_elses():
    assert woken(None, volume("pv-1"), gates=OFF)
    assert woken(volume("pv-1", claim="default/other"), volume("pv-1"), gates=OFF)
    # Its own volume may reach other nodes now.
    assert woken(volume("pv-1", on="a", claim="default/data"), volume("pv-1", claim="default/data"), gates=OFF)
    # Made for another pod's claim, as one is for every claim that is provisioned.
    assert not woken(None, volume("pv-1", claim="default/other"), gates=OFF)
    assert not woken(None, volume("pv-1", claim="elsewhere/data"), gates=OFF)


def test_a_class_wakes_a_pod_when_it_comes_or_reaches_other_nodes():
    here, there = storage_class(topologies=[{"zone": ["z1"]}]), storage_class(topologies=[{"zone": ["z2"]}])
    assert woken(None, here, gates=OFF)
    assert woken(here, there, gates=OFF)
    assert not woken(here, storage_class(topologies=[{"zone": ["z1"]}]), gates=OFF)


def test_a_class_that_joins_or_leaves_a_capacity_group_wakes_pods_of_all_classes():
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "other"}}}}
    other = PodInfo(pod_with("web", volumes=[scratch]))
    shared, alone = storage_class(group="disks"), storage_class()
    for pod in (WEB, other):
        assert woken(shared, alone, pod=pod) and woken(alone, shared, pod=pod) and woken(shared, None, pod=pod)
        assert not woken(shared, storage_class(group="disks"), pod=pod)
    assert not woken(shared, alone, gates=OFF)
    assert not woken(shared, alone, pod=PodInfo(pod_with("idle")))


def test_a_class_that_no_longer_asks_for_capacity_wakes_pods():
    asking, silent = storage_class(annotations={CHECK_CAPACITY: "true"}), storage_class()
    assert woken(asking, silent)
    assert not woken(silent, asking)


def test_another_pool_policy_wakes_pods_with_claims():
    for known, other in [
        (storage_class(pool_policy="most-free"), storage_class()),
        (driver(pool_policy="most-free"), driver()),
    ]:
        assert woken(known, other) and woken(other, known)
        assert not woken(known, other, gates=OFF)
        assert not woken(known, other, pod=PodInfo(pod_with("idle")))
    assert woken(None, driver(pool_policy="best-fit")) and woken(driver(pool_policy="best-fit"), None)
    assert not woken(driver(capacity=False), None)


def test_a_driver_whose_capacity_is_no_longer_looked_at_wakes_pods_that_wait_for_room():
    tracked, untracked = driver(capacity=True), driver(capacity=False)
    assert woken(tracked, untracked) and woken(tracked, None)
    assert not woken(untracked, tracked) and not woken(untracked, untracked)
    assert not woken(tracked, untracked, pod=PodInfo(pod_with("without-claims")))
    assert not woken(tracked, untracked, gates=OFF), "upstream wakes inline volumes only"
    assert not woken(storage_class(pool_policy="best-fit"), storage_class(pool_policy="best-fit"))


def test_a_maximum_beside_pools_that_is_no_longer_told_wakes_a_pod():
    assert woken(room(pools=["50Gi"], maximum="5Gi"), room(pools=["50Gi"]))
    assert not woken(room(pools=["50Gi"], maximum="9Gi"), room(pools=["50Gi"], maximum="5Gi"))


def test_a_pod_whose_every_claim_is_made_for_it_is_not_woken_by_other_classes():
    template = {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}
    scratch = PodInfo(pod_with("web", volumes=[{"name": "scratch", "ephemeral": template}]))
    assert woken(None, storage_class("fast"), pod=scratch) and not woken(None, storage_class("slow"), pod=scratch)
    assert woken(None, capacity("fast", "a", "1Gi"), pod=scratch)
    assert not woken(None, capacity("slow", "a", "1Gi"), pod=scratch)
    # The default class may be any.
    default = PodInfo(pod_with("web", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]))
    assert woken(None, storage_class("slow"), pod=default)


def test_a_csi_node_wakes_a_pod_when_it_comes_or_serves_other_in_tree_plugins():
    migrated = csi_node("a", {}, annotations={"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/cinder"})
    assert woken(None, csi_node("a", {}))
    assert woken(csi_node("a", {}), migrated)
    assert not woken(csi_node("a", {"csi.example": 3}), csi_node("a", {"csi.example": 9}))


def test_a_driver_that_stops_tracking_capacity_wakes_only_who_names_it():
    inline = PodInfo(pod_with("web", volumes=[{"name": "v", "csi": {"driver": "csi.example"}}]))
    tracked, untracked = driver(capacity=True), driver(capacity=False)
    assert woken(tracked, untracked, pod=inline, gates=OFF)
    assert not woken(untracked, tracked, pod=inline, gates=OFF)
    assert not woken(tracked, untracked, gates=OFF)
    assert not woken(driver("other", capacity=True), driver("other", capacity=False), pod=inline, gates=OFF)


# -- capacity ---------------------------------------------------------------------------------------------------------


def room(free: str | None = None, **options: Any) -> CSIStorageCapacity:
    return capacity("fast", "a", free, **options)


@pytest.mark.parametrize(
    ("old", "new", "upstream", "pools"),
    [
        (None, room("1Gi"), True, True),
        (room("1Gi"), room("2Gi"), True, True),
        (room("2Gi"), room("1Gi"), False, False),
        (room(), room("1Gi"), True, True),
        # The sum grows, the largest volume does not: two claims may fit where one did.
        (room("1Gi", maximum="1Gi"), room("2Gi", maximum="1Gi"), False, True),
        (room("2Gi", maximum="1Gi"), room("2Gi", maximum="2Gi"), True, True),
        # The same sum, in one piece.
        (room(pools=["50Gi", "50Gi"]), room(pools=["100Gi", "0"]), False, True),
        (room(pools=["50Gi"]), room(pools=["50Gi"]), False, False),
        # The order of the list says nothing.
        (room(pools=["50Gi", "60Gi"]), room(pools=["60Gi", "50Gi"]), False, False),
    ],
)
def test_capacity_wakes_a_pod_when_it_may_hold_more(old, new, upstream, pools):
    assert woken(old, new, gates=OFF) is upstream
    assert woken(old, new, gates=ON) is pools


def test_pools_in_an_annotation_count_as_those_in_the_field():
    def annotated(text: str) -> CSIStorageCapacity:
        return room("100Gi", metadata={"annotations": {"tonnage.dev/available-capacities": text}})

    assert woken(annotated("50Gi,50Gi"), annotated("90Gi,10Gi"))
    assert not woken(annotated("50Gi,50Gi"), annotated("50Gi,50Gi"))
    assert not woken(annotated("50Gi,50Gi"), annotated("90Gi,10Gi"), gates=OFF)


def test_any_update_of_a_reserved_capacity_wakes_a_pod_even_one_that_shrinks_it():
    assert woken(room("100Gi"), room("80Gi"), reserves=True)
    assert not woken(room("100Gi"), room("80Gi"), reserves=True, gates=OFF), "nothing is reserved without the gate"


def test_a_reservation_that_goes_without_a_refresh_wakes_a_pod():
    same = room("100Gi")
    assert woken(same, same, reserves=True) and not woken(same, same, reserves=False)


# -- nodes and drivers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "upstream", "rebuilding"),
    [
        (None, node("a"), True, True),
        (node("a"), node("a", labels={"zone": "z1"}), True, True),
        (node("a"), None, False, True),
        (node("a"), node("a", unschedulable=True), False, True),
        (node("a", unschedulable=True), node("a"), False, True),
        (node("a"), node("a", taints=["k=v:NoSchedule"]), False, False),
        (node("a"), node("a", cpu="8"), False, False),
    ],
)
def test_a_node_that_leaves_wakes_a_pod_whose_volumes_may_be_rebuilt(
    old: Node | None, new: Node | None, upstream: bool, rebuilding: bool
):
    assert woken(old, new, gates=OFF) is upstream
    assert woken(old, new, gates=ON) is rebuilding


def test_a_driver_that_starts_or_ceases_to_rebuild_volumes_wakes_a_pod():
    """What may move is placed by capacity, if somebody rebuilds it; otherwise it can be reached from everywhere."""
    metadata = msgspec.structs.replace(driver().metadata, annotations={"tonnage.dev/volume-rebuilding": "true"})
    by_annotation = msgspec.structs.replace(driver(), metadata=metadata)
    assert woken(driver(), driver(rebuilding=True))
    assert woken(None, driver(rebuilding=True))
    assert woken(driver(), by_annotation)
    assert not woken(driver(rebuilding=True), by_annotation)
    assert woken(driver(rebuilding=True), driver())
    assert woken(driver(rebuilding=True, capacity=False), None)
    assert not woken(driver(capacity=False), None)
    assert not woken(driver(), driver(rebuilding=True), gates=OFF)


def test_a_class_that_goes_wakes_a_pod_whose_volume_is_not_rebuilt_any_more():
    assert woken(storage_class(), None) and not woken(storage_class(), None, gates=OFF)


def test_storage_that_was_held_for_a_nominated_pod_wakes_a_pod_when_it_gives_way():
    expected = pod_with("expected", "other", status={"nominatedNodeName": "a"})
    there = pod_with("there", "other", on="a")
    given_up = ClusterEvent(R.ASSIGNED_POD, A.DELETE)
    assert _asks(given_up, expected, None, ON, True, WEB)
    assert not _asks(given_up, there, None, ON, True, WEB)  # its volumes stay
    assert not _asks(given_up, pod_with("plain", status={"nominatedNodeName": "a"}), None, ON, True, WEB)
    assert not _asks(given_up, expected, None, OFF, True, WEB)
