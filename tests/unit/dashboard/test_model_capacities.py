"""Rows of capacity objects: whom they reach, what is kept back, and which figures are not to be believed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from support.filled_cluster import FilledCluster
from support.virtual_clock import VirtualClock
from tonnage.dashboard.wire import CapacityRow
from tonnage.driver import DRIVER_NAME
from tonnage.faults import Fault
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    POOLS_CHECKED_AT,
    POOLS_SOURCE,
    POOLS_STALE_SINCE,
)
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, csi_node, storage_class, volume
from tonnage.whatif.scheduler_memory import RememberedCapacity, SchedulerMemory

GI = 1 << 30
START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"


def stamp(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def written(seconds: float) -> dict[str, object]:
    return {"managedFields": [{"time": stamp(seconds)}]}


@pytest.fixture
def cluster() -> FilledCluster:
    cluster = FilledCluster(clock=VirtualClock(START))
    cluster.put(node("a", labels={ZONE: "z1"}), node("b", labels={ZONE: "z1"}), storage_class())
    return cluster


def row(cluster: FilledCluster, name: str = "fast-a") -> CapacityRow:
    return cluster.collections.of(CapacityRow)[f"kube-system/{name}"]


def held(mode: Reservation, number_bytes: int, name: str = "fast-a") -> RememberedCapacity:
    return RememberedCapacity(
        mode, f"kube-system/{name}", f"uid-{name}", "shop/db-0", ["shop/data"], number_bytes, START, "waits"
    )


def remember(cluster: FilledCluster, *found: RememberedCapacity) -> None:
    cluster.model.remember(SchedulerMemory(held=found))
    cluster.settle()


def test_pools_are_in_the_objects_order(cluster: FilledCluster):
    cluster.put(capacity("fast", "a", pools=["10Gi", "40Gi", "20Gi"]))
    assert row(cluster).pools == (10 * GI, 40 * GI, 20 * GI) and row(cluster).tells_pools


def test_a_zones_object_reaches_nodes_that_come_and_leaves_those_that_are_relabelled(cluster: FilledCluster):
    cluster.put(capacity("fast", name="zone", free="1Ti", topology={"matchLabels": {ZONE: "z1"}}))
    cluster.put(node("c", labels={ZONE: "z1"}), node("b", labels={ZONE: "z2"}))
    assert (row(cluster, "zone").nodes, row(cluster, "zone").node_count) == (("a", "c"), 2)
    cluster.put(capacity("fast", name="all", free="1Ti", topology={}), capacity("fast", name="none", free="1Ti"))
    assert (row(cluster, "all").node_count, row(cluster, "none").node_count) == (3, 0)


def test_what_is_promised_is_told_and_what_is_left(cluster: FilledCluster):
    cluster.put(capacity("fast", "a", pools=["100Gi", "60Gi"]))
    remember(cluster, held(Reservation.LEDGER, 20 * GI), held(Reservation.LEDGER, 30 * GI))
    # 100 + 60 - 20 - 30
    assert row(cluster).left == 110 * GI
    first = row(cluster).reserved[0]
    assert (first.pod, first.bytes, first.since, first.why) == ("shop/db-0", 20 * GI, START, "waits")
    remember(cluster, held(Reservation.OBJECT, 20 * GI))
    assert row(cluster).left == 0  # the whole object is kept back
    remember(cluster)
    assert (row(cluster).left, row(cluster).reserved) == (160 * GI, ())


def test_what_is_promised_of_a_class_counts_in_the_others_of_its_group(cluster: FilledCluster):
    cluster.put(storage_class("fast", group="disks"), storage_class("slow", group="disks"))
    cluster.put(capacity("fast", "a", "100Gi"), capacity("slow", "a", "100Gi"), capacity("slow", "b", "100Gi"))
    cluster.put(claim("data", "20Gi", namespace="shop"))
    # The scheduler lists what it keeps back of each object, also of those that share the pools: nothing counts twice.
    remember(cluster, held(Reservation.LEDGER, 20 * GI), held(Reservation.LEDGER, 20 * GI, "slow-a"))
    assert [row(cluster, name).left for name in ("fast-a", "slow-a", "slow-b")] == [80 * GI, 80 * GI, 100 * GI]
    assert [each.storage_class for each in row(cluster, "fast-a").reserved] == [""]
    assert [each.storage_class for each in row(cluster, "slow-a").reserved] == ["fast"]
    # The figures of one were told anew, and show the volume: those of the other do not yet.
    remember(cluster, held(Reservation.LEDGER, 20 * GI, "slow-a"))
    assert [row(cluster, name).left for name in ("fast-a", "slow-a")] == [100 * GI, 80 * GI]


def made_on(node_name: str, seconds: float):
    name = f"pv-{node_name}"
    return volume(name, on=node_name, claim=f"default/{name}", metadata={"creationTimestamp": stamp(seconds)}), claim(
        name, volume=name
    )


def test_figures_that_do_not_follow_are_stale_while_others_of_the_driver_follow(cluster: FilledCluster):
    cluster.put(capacity("fast", "a", "100Gi", metadata=written(-300)), *made_on("a", -200))
    # Alone it may be a driver that provisions thinly.
    assert row(cluster).stale == ""
    cluster.put(capacity("fast", "b", "100Gi", metadata=written(-100)), *made_on("b", -200))
    assert row(cluster).stale.startswith("it was last updated before pv-a was created there at 2026-01-01T11:56:40Z")
    assert row(cluster, "fast-b").stale == ""
    cluster.put(capacity("fast", "a", "90Gi", metadata=written(-1)))
    assert row(cluster).stale == ""


def test_a_figure_has_two_minutes_to_follow_and_becomes_stale_by_time_alone(cluster: FilledCluster):
    cluster.put(capacity("fast", "a", "100Gi", metadata=written(-30)), *made_on("a", -10))
    cluster.put(capacity("fast", "b", "100Gi", metadata=written(-5)), *made_on("b", -10))
    assert row(cluster).stale == ""
    cluster.clock.advance(109)  # type: ignore[attr-defined]
    cluster.settle()
    assert row(cluster).stale == ""
    cluster.clock.advance(1)  # type: ignore[attr-defined]
    cluster.settle()
    assert row(cluster).stale != ""


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (POOLS_STALE_SINCE, stamp(-60), "has been silent since 2026-01-01T11:59:00Z"),
        (POOLS_CHECKED_AT, stamp(-1000), "has not read topolvm, their source, since"),
        (AVAILABLE_CAPACITIES, "much", "cannot be read and is ignored"),
    ],
)
def test_pools_that_somebody_keeps_are_stale_when_nobody_does(
    cluster: FilledCluster, annotation: str, value: str, words: str
):
    annotations = {AVAILABLE_CAPACITIES: "10Gi", POOLS_SOURCE: "topolvm", annotation: value}
    cluster.put(capacity("fast", "a", "100Gi", metadata={"annotations": annotations}))
    assert words in row(cluster).stale


def test_figures_of_a_driver_that_is_gone_are_kept_by_nobody(cluster: FilledCluster):
    cluster.put(capacity("fast", "a", "100Gi"), csi_node("a", {"another.example": None}))
    assert row(cluster).stale == "the driver csi.example is not on a (CSINode): nobody updates these figures any more"
    cluster.put(csi_node("a", {"csi.example": 8}))
    assert row(cluster).stale == ""
    cluster.remove(storage_class())
    assert row(cluster).stale == "there is no StorageClass fast: nobody updates these figures any more"


def test_a_fault_of_an_embedded_cluster_is_told_on_its_node(cluster: FilledCluster):
    cluster.put(storage_class(provisioner=DRIVER_NAME), capacity("fast", "a", "1Gi"), capacity("fast", "b", "1Gi"))
    cluster.suffer([Fault("stale-figures", "a")])
    assert row(cluster).stale.startswith("the fault stale-figures is set on a") and not row(cluster, "fast-b").stale
    cluster.suffer([])
    assert row(cluster).stale == ""
