"""What doctor says about drivers whose pools `tonnage pools` keeps, or could."""

from __future__ import annotations

from datetime import UTC, datetime

from support.virtual_clock import VirtualClock
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    CHECK_CAPACITY,
    POOLS_CHECKED_AT,
    POOLS_SOURCE,
    POOLS_STALE_SINCE,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.pools.sources import OF_DRIVERS
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, csi_node, driver, storage_class
from tonnage.whatif.doctor.capacity_checks import SOURCES_OF_POOLS
from tonnage.whatif.doctor.examination import examine
from tonnage.whatif.doctor.facts import Facts, Finding
from tonnage.whatif.sources import ClusterState

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
LVM = "local.csi.openebs.io"


def findings(name: str, *objects: Object) -> list[Finding]:
    state = ClusterState(objects, "the manifests", VirtualClock(NOW))
    facts = Facts(objects, NOW, source="the manifests")
    return [each for each in examine(facts, state, default_configuration()).findings if each.name == name]


def cluster(*classes: str) -> list[Object]:
    found = [storage_class(name, provisioner=LVM) for name in classes]
    return [node("n1"), driver(LVM), csi_node("n1", {LVM: 8}), *found]


def kept(class_name: str, pools: str, **annotations: str) -> CSIStorageCapacity:
    told = {AVAILABLE_CAPACITIES: pools, POOLS_SOURCE: "openebs-lvm", **annotations}
    return capacity(class_name, "n1", "100Gi", metadata={"annotations": told})


def test_the_table_of_drivers_is_that_of_the_sources() -> None:
    assert {driver: each.name for each in OF_DRIVERS for driver in each.drivers} == SOURCES_OF_POOLS


def test_a_driver_that_tells_one_number_and_has_a_source_is_told_of_it() -> None:
    (finding,) = findings("capacity-without-pools", *cluster("fast"), capacity("fast", "n1", "100Gi"))
    assert finding.remedy.startswith("run tonnage pools --source openebs-lvm")
    assert not findings("capacity-without-pools", *cluster("fast"), kept("fast", "100Gi,20Gi"))


def test_pools_of_a_silent_source_are_found() -> None:
    stale = kept("fast", "100Gi,20Gi", **{POOLS_STALE_SINCE: "2026-11-01T11:00:00Z"})
    (finding,) = findings("pools-stale", *cluster("fast"), stale)
    assert "openebs-lvm, has been silent since 2026-11-01T11:00:00Z" in finding.message
    assert not findings("pools-stale", *cluster("fast"), kept("fast", "100Gi"))


def test_pools_that_nobody_keeps_any_more_are_told() -> None:
    left = kept("fast", "100Gi", **{POOLS_CHECKED_AT: "2020-01-01T00:00:00Z"})
    (finding,) = findings("pools-stale", *cluster("fast"), left)
    assert "tonnage pools has not read" in finding.message
    assert "--remove" in finding.remedy
    fresh = kept("fast", "100Gi", **{POOLS_CHECKED_AT: "2999-01-01T00:00:00Z"})
    assert not findings("pools-stale", *cluster("fast"), fresh)


def test_classes_of_which_one_uses_some_of_the_others_pools_share_disks() -> None:
    both = cluster("all", "some")
    (finding,) = findings("classes-share-disks", *both, kept("all", "107374182401,20Gi"), kept("some", "20Gi"))
    assert finding.object == "StorageClass all, some"
    assert not findings("classes-share-disks", *both, kept("all", "107374182401,20Gi"), kept("some", "21Gi"))
    assert not findings("classes-share-disks", *both, kept("all", "100Gi,20Gi"), kept("some", "0"))


def opted_in(name: str, provisioner: str) -> StorageClass:
    return storage_class(name, provisioner=provisioner, annotations={CHECK_CAPACITY: "true"})


def test_a_driver_that_publishes_nothing_and_has_a_source_is_told_of_the_command() -> None:
    drives = storage_class("drives", provisioner="directpv-min-io")
    (finding,) = findings("capacity-not-published", node("n1"), drives)
    assert finding.message == "directpv-min-io publishes no capacity: its pods are sent to nodes without room"
    assert finding.remedy.startswith("run tonnage pools --source directpv --create-objects")
    assert not findings("capacity-not-published", node("n1"), drives, capacity("drives", "n1", "100Gi"))


def test_a_class_that_asks_for_capacity_and_has_none_gets_no_pods_with_or_without_a_driver() -> None:
    drives = opted_in("drives", "directpv-min-io")
    for known in ((), (driver("directpv-min-io", capacity=False),)):
        (finding,) = findings("capacity-missing", node("n1"), drives, *known)
        assert "it asks for capacity (tonnage.dev/check-capacity) and has no capacity object" in finding.message
        assert "kubectl annotate storageclass drives tonnage.dev/check-capacity-" in finding.remedy
        assert not findings("class-without-driver", node("n1"), drives, *known)


def test_objects_of_a_class_that_asks_for_capacity_are_looked_at_whatever_the_driver_says() -> None:
    off, objects = driver(LVM, capacity=False), capacity("fast", "n1", "100Gi")
    assert findings("capacity-not-checked", node("n1"), off, storage_class("fast", provisioner=LVM), objects)
    assert not findings("capacity-not-checked", node("n1"), off, opted_in("fast", LVM), objects)
