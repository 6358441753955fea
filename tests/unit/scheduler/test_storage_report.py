"""What the scheduler tells about storage as metrics: reservations, free capacity, attach slots, nominations."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from scheduler_volume_rig import SchedulerRig

from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduler.debug_pages import DebugPages
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import (
    DRIVER,
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

GI = 1 << 30


def storage_values(rig: SchedulerRig) -> CollectorRegistry:
    registry = CollectorRegistry()
    SchedulerMetrics(registry, VirtualClock()).watch(DebugPages(rig.engine).storage_families)
    return registry


async def test_a_reservation_older_than_its_timeout_is_overdue() -> None:
    rig = SchedulerRig(
        driver(), storage_class(), node("a"), capacity(node="a", free="100Gi"), timeout_s=600, reservation="Object"
    )
    rig.add(claim("data", "20Gi"), pod_with("web", "data"))
    async with rig.running():
        await rig.settle()
        assert rig.metric("tonnage_reservation_timeout_seconds", mode="Object") == 60.0
        await rig.settle(60.0)
        assert rig.metric("tonnage_reservation_oldest_age_seconds", mode="Object") == 60.0
        assert rig.metric("tonnage_reservations_overdue", mode="Object") == 0.0
        await rig.settle(1.0)
        assert rig.metric("tonnage_reservations_overdue", mode="Object") == 1.0


async def test_without_reservations_nothing_is_overdue() -> None:
    rig = SchedulerRig(driver(), storage_class(), node("a"), reservation="Ledger")
    assert rig.metric("tonnage_reservations_overdue", mode="Ledger") == 0.0
    assert rig.metric("tonnage_reservation_oldest_age_seconds", mode="Ledger") == 0.0


def test_free_capacity_is_told_by_class() -> None:
    rig = SchedulerRig(driver(), storage_class(), node("a"), node("b"))
    rig.add(capacity(node="a", pools=["60Gi", "100Gi"]), capacity(node="b", free="30Gi"))
    values = storage_values(rig)
    of = {"storage_class": "fast"}
    assert values.get_sample_value("tonnage_capacity_objects", of) == 2.0
    assert values.get_sample_value("tonnage_capacity_free_bytes", of) == 190.0 * GI
    assert values.get_sample_value("tonnage_capacity_largest_pool_bytes", of) == 100.0 * GI


def test_all_bytes_of_a_class_are_told_beside_the_free_ones_by_class_and_by_node() -> None:
    rig = SchedulerRig(driver(), storage_class(), node("a"), node("b"))
    rig.add(capacity(node="a", pools=["60Gi", "10Gi"]), capacity(node="b", free="30Gi"))
    rig.add(volume("pv-1", "30Gi", on="a"), volume("pv-2", "20Gi", on="b"), volume("pv-3", "5Gi", on="b"))
    rig.add(volume("other", "500Gi", on="b", class_name="slow"))
    values = storage_values(rig)
    # a: 70 free + 30 used.  b: 30 free + 20 + 5 used.
    assert values.get_sample_value("tonnage_capacity_total_bytes", {"storage_class": "fast"}) == 155.0 * GI
    on_a, on_b = ({"storage_class": "fast", "node": name} for name in "ab")
    assert values.get_sample_value("tonnage_node_capacity_free_bytes", on_a) == 70.0 * GI
    assert values.get_sample_value("tonnage_node_capacity_total_bytes", on_a) == 100.0 * GI
    assert values.get_sample_value("tonnage_node_capacity_total_bytes", on_b) == 55.0 * GI


@pytest.mark.parametrize(("home", "selected", "total_on_a"), [("", "a", 100), ("a", "b", 100), ("", "", 70)])
def test_a_volume_without_affinity_that_its_driver_may_rebuild_counts_on_its_home(
    home: str, selected: str, total_on_a: int
) -> None:
    """Cordoning its node is no reason for the class to look smaller, or less full."""
    rig = SchedulerRig(driver(rebuilding=True), storage_class(), node("a", unschedulable=True), node("b"))
    rig.add(capacity(node="a", free="70Gi"), capacity(node="b", free="50Gi"))
    rig.add(claim("data", "30Gi", volume="pv-1", selected_node=selected))
    rig.add(volume("pv-1", "30Gi", claim="default/data", metadata={"annotations": {VOLUME_HOME: home}}))
    values = storage_values(rig)
    on_a = {"storage_class": "fast", "node": "a"}
    assert values.get_sample_value("tonnage_node_capacity_total_bytes", on_a) == total_on_a * GI
    of_class = {"storage_class": "fast"}
    assert values.get_sample_value("tonnage_capacity_total_bytes", of_class) == (total_on_a + 50) * GI


def test_volumes_of_classes_that_share_their_disks_count_in_the_total_of_each() -> None:
    rig = SchedulerRig(driver(), storage_class(group="disks"), storage_class("slow", group="disks"), node("a"))
    rig.add(capacity(node="a", free="70Gi"), capacity("slow", node="a", free="70Gi"))
    rig.add(volume("pv-1", "30Gi", on="a", class_name="slow"))
    for name in ("fast", "slow"):
        assert (
            storage_values(rig).get_sample_value("tonnage_capacity_total_bytes", {"storage_class": name}) == 100.0 * GI
        )


@pytest.mark.parametrize(("ids", "total"), [("vg-2,vg-1", 100), ("vg-2,vg-3", 70)])
def test_volumes_of_classes_with_exactly_the_same_pools_count_in_the_total_of_each(ids: str, total: int) -> None:
    """Of classes that have some pools in common nobody knows which volumes are in those."""
    rig = SchedulerRig(driver(), storage_class(), storage_class("slow", size_rules="overhead=50%"), node("a"))
    rig.add(capacity(node="a", pools=["40Gi", "30Gi"], pool_ids="vg-1,vg-2"))
    rig.add(capacity("slow", node="a", pools=["30Gi", "40Gi"], pool_ids=ids))
    rig.add(volume("pv-1", "20Gi", on="a", class_name="slow"))  # it takes 30Gi
    values = storage_values(rig)
    assert values.get_sample_value("tonnage_capacity_total_bytes", {"storage_class": "fast"}) == total * GI
    assert values.get_sample_value("tonnage_capacity_total_bytes", {"storage_class": "slow"}) == 100.0 * GI


def test_what_several_nodes_share_is_told_of_its_class_and_of_no_node() -> None:
    rig = SchedulerRig(driver(), storage_class(), node("a", labels={"zone": "z"}), node("b", labels={"zone": "z"}))
    in_zone = {"key": "zone", "operator": "In", "values": ["z"]}
    rig.add(capacity(topology={"matchLabels": {"zone": "z"}}, free="70Gi"), volume("pv-1", "30Gi", affinity=in_zone))
    values = storage_values(rig)
    assert values.get_sample_value("tonnage_capacity_total_bytes", {"storage_class": "fast"}) == 100.0 * GI
    assert values.get_sample_value("tonnage_node_capacity_total_bytes", {"storage_class": "fast", "node": "a"}) is None


def test_a_node_with_more_volumes_than_its_csi_node_allows_is_out_of_step() -> None:
    rig = SchedulerRig(
        driver(), storage_class(), node("a"), node("b"), csi_node("a", {DRIVER: 1}), csi_node("b", {DRIVER: 2})
    )
    for name, on in (("one", "a"), ("two", "a"), ("three", "b")):
        rig.add(claim(name, volume=f"pv-{name}"), volume(f"pv-{name}", claim=f"default/{name}"))
        rig.add(pod_with(f"pod-{name}", name, on=on))
    values = storage_values(rig)
    of = {"driver_name": DRIVER}
    assert values.get_sample_value("tonnage_attach_used_volumes", of) == 3.0
    assert values.get_sample_value("tonnage_attach_limit_volumes", of) == 3.0
    assert values.get_sample_value("tonnage_attach_full_nodes", of) == 1.0
    assert values.get_sample_value("tonnage_attach_overdrawn_nodes", of) == 1.0


def test_attachments_that_are_refused_for_want_of_a_slot_are_counted() -> None:
    rig = SchedulerRig(driver(), node("a"))
    rig.add(attachment("one", "pv-1", "a"), attachment("two", "pv-2", "a", error="not found"))
    of = {"driver_name": DRIVER}
    assert storage_values(rig).get_sample_value("tonnage_attach_refused_volumes", of) == 0.0
    rig.change(VolumeAttachment, "two", {"status": {"attachError": {"message": "no slot", "errorCode": 8}}})
    assert storage_values(rig).get_sample_value("tonnage_attach_refused_volumes", of) == 1.0


async def test_nominations_that_cannot_come_true_are_counted_by_cause() -> None:
    rig = SchedulerRig(node("a", cpu="1"), pod("low", cpu="1", priority=9, on="a"))
    rig.add(pod("early", spec={"schedulingGates": [{"name": "wait"}]}, status={"nominatedNodeName": "new"}))
    rig.add(pod("big", cpu="1", status={"nominatedNodeName": "a"}))
    async with rig.running():
        await rig.settle(3.0)
        assert rig.metric("tonnage_nominations_unreachable", cause="node-missing") == 1.0
        assert rig.metric("tonnage_nominations_unreachable", cause="refused") == 1.0
