"""Capacity objects: whom they reach, whether their figures can be read, whether they follow what happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.node_selectors import allows_topology
from tonnage.objects.storage_v1 import (
    POOLS_CHECKED_AT,
    POOLS_SOURCE,
    POOLS_STALE_SINCE,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity.pools import free_bytes, problem_with_annotated_pools
from tonnage.whatif.doctor.facts import Facts
from tonnage.whatif.doctor.figures import DriverFigures, Provisioning
from tonnage.whatif.doctor.findings import CATALOGUE, Finding
from tonnage.whatif.page import named

_CHECKED_WITHIN: Final = timedelta(minutes=15)
"""`tonnage pools` looks at its sources much more often than that."""

SOURCES_OF_POOLS: Final = {
    "local.csi.openebs.io": "openebs-lvm",
    "zfs.csi.openebs.io": "openebs-zfs",
    "topolvm.io": "topolvm",
    "topolvm.cybozu.com": "topolvm",
}
"""Drivers whose pools `tonnage pools` finds by itself, and the source's name there."""


def capacity_findings(facts: Facts, figures: Mapping[str, DriverFigures]) -> Iterator[Finding]:
    for each in facts.capacities.values():
        yield from _of_one(facts, each)
    for name, told in figures.items():
        yield from _missing_nodes(facts, name)
        yield from _following(told)
        yield from _sums(told)


def _of_one(facts: Facts, capacity: CSIStorageCapacity) -> Iterator[Finding]:
    driver = facts.driver_of_class(capacity.storage_class_name)
    topology = capacity.node_topology
    if not driver and facts.knows(StorageClass):
        yield CATALOGUE["capacity-of-missing-class"].about(
            capacity,
            f"it is for StorageClass {capacity.storage_class_name}, which is not there",
            "delete it; a provisioner that still runs makes those it needs anew",
        )
    if topology is None:
        yield CATALOGUE["capacity-nil-topology"].about(
            capacity,
            "it has no nodeTopology and so reaches no node",
            "set nodeTopology: {} if every node can reach this storage, or a label selector for those that can",
            driver=driver,
        )
    elif not facts.reach[capacity.key] and facts.nodes:
        yield CATALOGUE["capacity-reaches-no-node"].about(
            capacity,
            f"its nodeTopology ({topology}) selects none of the {len(facts.nodes)} nodes",
            "if those nodes are gone, delete it; otherwise give the nodes these labels (the driver's node plugin does)",
            driver=driver,
        )
    if problem := problem_with_annotated_pools(capacity):
        yield CATALOGUE["pools-unreadable"].about(
            capacity,
            f"its annotation with pools is passed over: {problem}",
            'write quantities with commas between them, such as "100Gi,100Gi"',
            driver=driver,
        )
    elif capacity.has_kept_pools and (since := capacity.metadata.annotations.get(POOLS_STALE_SINCE)):
        yield CATALOGUE["pools-stale"].about(
            capacity,
            f"the source of its pools, {capacity.metadata.annotations[POOLS_SOURCE]}, has been silent since {since}: "
            "they may be old, and are going to be taken away",
            "see that the driver runs on the node, and look at the log of tonnage pools",
            driver=driver,
        )
    elif capacity.is_unchecked_since(facts.now - _CHECKED_WITHIN):
        yield CATALOGUE["pools-stale"].about(
            capacity,
            f"tonnage pools has not looked at the source of its pools, {capacity.metadata.annotations[POOLS_SOURCE]}, "
            f"since {capacity.metadata.annotations[POOLS_CHECKED_AT]}: what was made since is counted, and what was "
            "deleted is not seen",
            "see that tonnage pools runs; if it is not to, take its pools away with tonnage pools --remove",
            driver=driver,
        )
    elif free_bytes(capacity) is None:
        yield CATALOGUE["capacity-says-nothing"].about(
            capacity,
            "it has neither capacity, maximumVolumeSize nor pools: nothing fits into it",
            "have the driver answer GetCapacity, and look at the log of its provisioner",
            driver=driver,
        )


def _missing_nodes(facts: Facts, driver: str) -> Iterator[Finding]:
    """Nodes of a driver without capacity, class by class; a class without any object is another finding."""
    known = facts.drivers.get(driver)
    if known is None or not known.spec.storage_capacity or not facts.knows(CSINode):
        return
    reached: dict[str, set[str]] = {}
    for each in facts.capacities_of.get(driver, ()):
        reached.setdefault(each.storage_class_name, set()).update(facts.reach[each.key])
    for found in facts.classes_of.get(driver, ()):
        if found.name not in reached or not found.waits_for_consumer:
            continue
        wanted = [
            node
            for node in facts.nodes_of.get(driver, ())
            if allows_topology(found.allowed_topologies, facts.nodes[node].metadata.labels)
        ]
        missing = sorted(set(wanted) - reached[found.name])
        if missing:
            yield CATALOGUE["capacity-missing-on-node"].about(
                found,
                f"{driver} is on {len(wanted)} nodes, and no capacity object of the class reaches {named(missing)}: "
                "no new volume of it is made there",
                "look at the provisioner there; if these nodes have no storage, leave them out by allowedTopologies",
                driver=driver,
            )


def _following(told: DriverFigures) -> Iterator[Finding]:
    for each in told.stale:
        unseen = told.unseen(each)
        yield CATALOGUE["capacity-stale"].about(
            each,
            f"it was last written before {_volumes(unseen)} made, while other objects of the driver follow",
            "look at the provisioner that publishes for these nodes; until then Tonnage counts what it promised "
            "itself (reservation: Ledger)",
            driver=told.driver,
        )
    if told.provisioning is Provisioning.THIN:
        known = told.facts.drivers.get(told.driver)
        yield CATALOGUE["thin-provisioning"].about(
            known or f"CSIDriver {told.driver}",
            "its figures do not follow the volumes that are made: it provisions thinly, and more can be promised than "
            "there is, or its provisioner no longer publishes",
            "see that its provisioner runs; of a thin driver leave room by hand (quotas), "
            "for no scheduler sees how full its disks will be",
            driver=told.driver,
        )


def _volumes(unseen: Sequence[PersistentVolume]) -> str:
    names = named([each.name for each in unseen])
    return f"{names}, {len(unseen)} of its volumes, were" if len(unseen) > 1 else f"its volume {names} was"


def _sums(told: DriverFigures) -> Iterator[Finding]:
    """Sums that are more than one volume, or may be. Where the two are equal there is one pool, and all is said."""
    several = told.sums_beyond_one_volume or [each for each in told.sums if each.maximum_volume_size is None]
    if not several or told.most_pools:
        return
    example = several[0]
    free = Quantity.from_bytes(free_bytes(example) or 0)
    detail = ""
    if example.maximum_volume_size is not None:
        detail = f" ({example.key}: {free} in all, {example.maximum_volume_size} the largest volume)"
    yield CATALOGUE["capacity-without-pools"].about(
        told.facts.drivers.get(told.driver) or f"CSIDriver {told.driver}",
        f"it tells sums instead of pools{detail}: several claims of a pod are judged by their sum alone",
        _remedy_for_sums(told.driver),
        driver=told.driver,
    )


def _remedy_for_sums(driver: str) -> str:
    source = SOURCES_OF_POOLS.get(driver)
    if source is not None:
        return f"run tonnage pools --source {source}: it reads the pools where this driver tells them"
    return (
        "where the driver has several disks a node, publish them: availableCapacities, or the annotation "
        "tonnage.dev/available-capacities, which tonnage pools keeps (--source nodes or command)"
    )
