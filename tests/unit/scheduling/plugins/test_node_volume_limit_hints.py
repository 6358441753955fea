"""What makes a pod that NodeVolumeLimits refused try again."""

from __future__ import annotations

from typing import Any

from hint_asking import wakes
from pods_with_volumes import ephemeral, made_for, with_disk

from tonnage.gates import Gates
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.events import ActionType, EventResource
from tonnage.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from tonnage.testing.builders import pod
from tonnage.testing.storage_builders import (
    DRIVER,
    attachment,
    claim,
    csi_node,
    driver,
    pod_with,
)

EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
ON = Gates().with_(VolumeLimitScaling=True)
OFF = Gates().with_(VolumeLimitScaling=False, MutableCSINodeAllocatableCount=False)
MUTABLE = OFF.with_(MutableCSINodeAllocatableCount=True)


WAITING = pod_with("waiting", "data")


def woken(old: Any, new: Any, waiting: Pod = WAITING, gates: Gates = OFF) -> bool:
    """Would any hint let the pod be tried again, after an object went from `old` to `new`?"""
    return wakes(NodeVolumeLimits(gates), waiting, old, new)


def test_it_registers_for_the_events_upstream_registers_for_and_for_nodes_classes_and_sharers_that_come():
    """A node may come after its CSINode, whose slots a claim takes its class says, and where a pod that shares the
    claim is, its volume is not new; upstream lets a pod sleep then that a node would take."""
    action, resource = ActionType, EventResource
    assert {(event.resource, event.action) for event, _ in NodeVolumeLimits(OFF).events()} == {
        (resource.NODE, action.ADD),
        (resource.CSI_NODE, action.ADD),
        (resource.CSI_NODE, action.UPDATE),
        (resource.POD, action.DELETE),
        (resource.POD, action.ADD),
        (resource.PERSISTENT_VOLUME_CLAIM, action.ADD),
        (resource.VOLUME_ATTACHMENT, action.DELETE),
        (resource.STORAGE_CLASS, action.ADD | action.DELETE),
    }


def test_when_an_allocatable_value_is_increased_a_stateful_pod_is_queued():
    """KEP-4876, Scheduler QueueingHintFn"""
    assert woken(csi_node("a", {DRIVER: 1}), csi_node("a", {DRIVER: 2}))
    assert woken(csi_node("a", {DRIVER: 0}), csi_node("a", {DRIVER: 1}))
    assert woken(csi_node("a", {DRIVER: 3, "csi.other": 1}), csi_node("a", {DRIVER: 1, "csi.other": 2}))


def test_when_an_allocatable_value_is_decreased_a_stateful_pod_is_not_queued():
    """KEP-4876, Scheduler QueueingHintFn"""
    assert not woken(csi_node("a", {DRIVER: 2}), csi_node("a", {DRIVER: 1}))
    assert not woken(csi_node("a", {DRIVER: 2}), csi_node("a", {DRIVER: 0}))


def test_a_limit_that_stays_or_goes_wakes_nobody():
    assert not woken(csi_node("a", {DRIVER: 2}), csi_node("a", {DRIVER: 2}))
    assert not woken(csi_node("a", {DRIVER: 2}), csi_node("a", {DRIVER: None}))
    assert not woken(csi_node("a", {DRIVER: 2}), csi_node("a", {}))
    assert not woken(csi_node("a", {DRIVER: 2}), None)


def test_where_limits_may_change_one_that_is_removed_wakes_the_pod():
    """Upstream takes "no count" for 0 and lets the pod sleep, though no count is no limit."""
    assert woken(csi_node("a", {DRIVER: 2}), csi_node("a", {DRIVER: None}), gates=MUTABLE)
    assert woken(csi_node("a", {DRIVER: 0}), csi_node("a", {DRIVER: None}), gates=MUTABLE)
    assert woken(csi_node("a", {DRIVER: 2}), csi_node("a", {}), gates=MUTABLE)
    assert not woken(csi_node("a", {DRIVER: 2}), csi_node("a", {DRIVER: 2}), gates=MUTABLE)
    assert not woken(csi_node("a", {DRIVER: 2}), csi_node("a", {DRIVER: 1}), gates=MUTABLE)
    assert not woken(csi_node("a", {DRIVER: None}), csi_node("a", {}), gates=MUTABLE)


def test_a_csinode_that_goes_wakes_nobody_because_its_limits_are_remembered():
    assert not woken(csi_node("a", {DRIVER: 2}), None, gates=MUTABLE)
    assert not woken(csi_node("a", {DRIVER: None}), None, gates=MUTABLE)


def test_a_first_count_and_a_new_csinode_wake_the_pod():
    assert woken(csi_node("a", {DRIVER: None}), csi_node("a", {DRIVER: 1}))
    assert woken(csi_node("a", {}), csi_node("a", {DRIVER: 1}))
    assert woken(None, csi_node("a", {}))


def test_a_driver_that_comes_wakes_who_may_have_missed_it():
    """Upstream lets the pod sleep; it was told that the driver was not installed."""
    assert woken(csi_node("a", {}), csi_node("a", {DRIVER: 0}), gates=ON)
    assert not woken(csi_node("a", {}), csi_node("a", {DRIVER: 0}), gates=OFF)


def test_a_driver_that_comes_without_a_count_ends_a_limit_that_was_remembered():
    assert woken(csi_node("a", {}), csi_node("a", {DRIVER: None}), gates=ON)
    assert woken(csi_node("a", {}), csi_node("a", {DRIVER: None}), gates=OFF)


def test_a_pod_with_volumes_that_leaves_a_node_wakes_the_pod():
    assert woken(pod_with("old", "c1", on="a"), None)
    assert woken(ephemeral("old", on="a"), None)
    assert woken(with_disk("old", {"awsElasticBlockStore": {"volumeID": "vol-1"}}, on="a"), None)
    assert woken(pod_with("old", "c1", status={"nominatedNodeName": "a"}), None)
    assert not woken(pod_with("old", "c1"), None)
    assert not woken(pod("old", on="a"), None)
    assert not woken(with_disk("old", {"emptyDir": {}}, on="a"), None)


def test_a_claim_of_the_pod_that_comes_wakes_it():
    assert woken(None, claim("data"))
    assert woken(None, made_for("waiting"), ephemeral("waiting"))
    assert not woken(None, claim("data", namespace="other"))
    assert not woken(None, claim("other"))
    assert not woken(None, claim("data"), pod("waiting"))


def test_a_volume_that_is_detached_wakes_pods_that_name_claims():
    gone = attachment("va", "v1", "a", attacher=EBS)
    assert woken(gone, None)
    assert woken(gone, None, with_disk("waiting", {"awsElasticBlockStore": {"volumeID": "vol-1"}}))
    assert not woken(gone, None, with_disk("waiting", {"gcePersistentDisk": {"pdName": "d"}}))
    assert not woken(gone, None, ephemeral("waiting"))
    assert woken(gone, None, ephemeral("waiting"), gates=MUTABLE)
    assert not woken(gone, None, pod("waiting"))


def test_a_driver_that_may_be_missing_from_now_on_wakes_those_who_were_told_that_it_was():
    needed, not_needed = driver(preventPodSchedulingIfMissing=True), driver()
    assert woken(needed, not_needed, gates=ON)
    assert woken(needed, None, gates=ON)
    assert not woken(not_needed, needed, gates=ON)
    assert not woken(needed, needed, gates=ON)
    assert not woken(needed, not_needed, gates=OFF)
