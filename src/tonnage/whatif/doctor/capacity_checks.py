"""Capacity objects: which nodes they reach, whether their figures are readable, whether they follow the volumes.

A thick driver subtracts a volume's whole size from its figures when it creates the volume; a thin one subtracts what is
written. No field says which kind a driver is; its figures and volumes do:

    constant     free plus used bytes are equal on several nodes: the figures follow
    levelled     nodes have equal free bytes although their volumes differ: the figures do not follow
    settled      objects were last written when their last volume was created: the figures follow
    unseen       volumes were created from an object, and none of them changed it: the figures do not follow

An object that was written for an earlier volume but not for later ones is stale. External-provisioner does not write
unchanged figures, so age alone proves nothing. It publishes figures before it writes a volume's object: a figure
includes volumes that are a little younger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from tonnage.keyed import grouped
from tonnage.objects import requirements, storage_v1
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity import pools
from tonnage.scheduling.volumes.capacity.groups import problem_with_pool_ids
from tonnage.whatif.doctor.facts import CATALOGUE, WEAKER, Facts, Finding
from tonnage.whatif.page import named

REFRESH: Final = timedelta(minutes=2)
"""How soon a figure should follow a volume: external-provisioner asks once a minute and after every volume."""
AHEAD: Final = timedelta(minutes=1)
"""A figure may include volumes whose objects are younger by this: in a burst, objects wait to be written."""
_ENOUGH: Final = 2
"""How many volumes without effect on figures, or settled objects, are more than chance."""
_CALM: Final = timedelta(minutes=10)
"""A figure that follows writes to volumes changes within this time."""
_ROUNDING: Final = 0.05
"""Tolerated share of a difference between volumes: drivers round to extents and keep some space."""


class Provisioning(StrEnum):
    """Whether volumes take their full size when they are created."""

    THICK = "thick"
    THIN = "thin"
    UNKNOWN = "unknown"


class CapacityLayout(StrEnum):
    """Which nodes a driver's capacity objects are for."""

    NONE = "none"
    NODE = "node"
    SHARED = "shared"
    """An object is for several nodes, such as a zone."""
    CLUSTER = "cluster"
    MIXED = "mixed"


@dataclass(frozen=True)
class DriverFigures:
    driver: str
    facts: Facts
    objects: Sequence[CSIStorageCapacity]
    volumes: Mapping[str, Sequence[PersistentVolume]]
    """By object key: the volumes that count in it, of its class and only on its nodes."""

    @cached_property
    def layout(self) -> CapacityLayout:
        reached = [self.facts.reach[capacity.key] for capacity in self.objects]
        layout_of = {len(self.facts.nodes): CapacityLayout.CLUSTER, 1: CapacityLayout.NODE}  # also of a single node
        found = {layout_of.get(len(nodes), CapacityLayout.SHARED) for nodes in reached if nodes}
        if not found:
            return CapacityLayout.NONE
        return found.pop() if len(found) == 1 else CapacityLayout.MIXED

    @cached_property
    def most_pools(self) -> int:
        """The largest number of pools in one object; 0 without pools."""
        return max((len(pools.listed_pools(capacity)) for capacity in self.objects), default=0)

    @cached_property
    def sums(self) -> Sequence[CSIStorageCapacity]:
        """Objects with figures but without pools."""
        return [each for each in self.objects if not pools.listed_pools(each) and pools.free_bytes(each) is not None]

    @cached_property
    def sums_beyond_one_volume(self) -> Sequence[CSIStorageCapacity]:
        """Objects whose free bytes exceed the largest possible volume: several disks behind one sum."""
        return [
            capacity
            for capacity in self.sums
            if capacity.capacity is not None and capacity.capacity.value() > (pools.volume_limit(capacity) or 0)
        ]

    @cached_property
    def lagging(self) -> Sequence[CSIStorageCapacity]:
        """Objects that were not written after volumes were created from them, though there was time."""
        return [capacity for capacity in self._dated if self.unseen(capacity)]

    @cached_property
    def _dated(self) -> Sequence[CSIStorageCapacity]:
        """Objects with volumes and a time of their last write."""
        return [each for each in self.objects if each.metadata.updated_at is not None and self.volumes[each.key]]

    def unseen(self, capacity: CSIStorageCapacity) -> Sequence[PersistentVolume]:
        """Volumes that were created well after the object's last write and should long be counted in it."""
        written_at = capacity.metadata.updated_at
        if written_at is None:
            return ()
        made = [(volume, volume.metadata.creation_timestamp) for volume in self.volumes[capacity.key]]
        return [each for each, at in made if at is not None and written_at + AHEAD < at < self.facts.now - REFRESH]

    @cached_property
    def stale(self) -> Sequence[CSIStorageCapacity]:
        """Objects that lag while others follow, or that followed before."""
        followed = len(self.lagging) < len(self._dated) or any(map(self._was_written_for_a_volume, self.lagging))
        return self.lagging if followed else ()

    def _was_written_for_a_volume(self, capacity: CSIStorageCapacity) -> bool:
        """True if the object's last update, not its creation, coincides with a volume."""
        written_at, born_at = capacity.metadata.updated_at, capacity.metadata.creation_timestamp
        if written_at is None or born_at is None or written_at - born_at < AHEAD:
            return False
        made = (volume.metadata.creation_timestamp for volume in self.volumes[capacity.key])
        return any(at is not None and at - AHEAD < written_at < at + REFRESH for at in made)

    @cached_property
    def provisioning(self) -> Provisioning:
        return self._judged[0]

    @cached_property
    def evidence(self) -> str:
        """The sign that `provisioning` is judged by; empty when unknown."""
        return self._judged[1]

    @cached_property
    def _judged(self) -> tuple[Provisioning, str]:
        for with_younger in (True, False):
            by_sums, why = _provisioning_by_sums(self._pairs(with_younger=with_younger))
            if by_sums is not Provisioning.UNKNOWN:
                return by_sums, why
        unseen = sum(len(self.unseen(capacity)) for capacity in self.lagging)
        if self.lagging and not self.stale and unseen >= _ENOUGH:
            return Provisioning.THIN, f"{unseen} volumes were created, and no figure was written for any of them"
        calm_since = self.facts.now - _CALM
        settled = [
            each
            for each in self._dated
            if self._was_written_for_a_volume(each) and (each.metadata.updated_at or self.facts.now) < calm_since
        ]
        if not self.lagging and len(settled) >= _ENOUGH:
            return Provisioning.THICK, f"{len(settled)} objects were written when volumes were created, and not since"
        return Provisioning.UNKNOWN, ""

    def _pairs(self, *, with_younger: bool) -> Iterable[Sequence[tuple[int, int]]]:
        """By class: free and used bytes of each node; `with_younger`, also of volumes younger than the figure."""
        by_class: dict[str, list[tuple[int, int]]] = {}
        for capacity in self.objects:
            free = pools.free_bytes(capacity)
            if free is not None and len(self.facts.reach[capacity.key]) == 1:
                younger = {volume.name for volume in self.unseen(capacity)} if not with_younger else ()
                seen = (volume for volume in self.volumes[capacity.key] if volume.name not in younger)
                by_class.setdefault(capacity.storage_class_name, []).append((free, sum(v.size.value() for v in seen)))
        return by_class.values()

    def document(self) -> dict[str, Any]:
        return {
            "capacityObjects": len(self.objects),
            "layout": self.layout.value,
            "pools": self.most_pools,
            "provisioning": self.provisioning.value,
            **({"provisioningBy": self.evidence} if self.evidence else {}),
            "volumeRebuilding": pools.rebuilds_volumes(self.facts.drivers.get(self.driver)),
        }


def _provisioning_by_sums(pairs: Iterable[Sequence[tuple[int, int]]]) -> tuple[Provisioning, str]:
    """Judge by free and used bytes of nodes, class by class. Nodes with equal used bytes prove nothing."""
    for told in pairs:
        most_used = max(used for _, used in told)
        spread = most_used - min(used for _, used in told)
        sums, frees = [free + used for free, used in told], [free for free, _ in told]
        if not spread:
            continue
        if max(sums) - min(sums) <= spread * _ROUNDING:
            return Provisioning.THICK, f"free and used bytes add up to the same on {len(told)} nodes"
        is_level = max(frees) - min(frees) <= spread * _ROUNDING
        if is_level and len(told) > 2 and most_used * 10 >= min(frees) > 0:
            return Provisioning.THIN, f"{len(told)} nodes report the same free bytes, although their volumes differ"
    return Provisioning.UNKNOWN, ""


def figures_of(facts: Facts) -> Mapping[str, DriverFigures]:
    """What the capacity objects say, for every driver with a CSIDriver or capacity objects."""
    known = (volume for volume in facts.volumes.values() if facts.homes.get(volume.name))
    made = grouped((volume.class_name, volume) for volume in known if volume.spec.csi is not None)
    found = {}
    for driver in sorted({*facts.drivers, *facts.capacities_of}):
        objects = facts.capacities_of.get(driver, ())
        found[driver] = DriverFigures(driver, facts, objects, _volumes_by_object(facts, objects, made))
    return found


def _volumes_by_object(
    facts: Facts, objects: Iterable[CSIStorageCapacity], made: Mapping[str, Sequence[PersistentVolume]]
) -> Mapping[str, Sequence[PersistentVolume]]:
    """By object: the volumes of its class of which it reaches every node."""
    found: dict[str, list[PersistentVolume]] = {capacity.key: [] for capacity in objects}
    by_place = grouped(((each.storage_class_name, node), each) for each in objects for node in facts.reach[each.key])
    for class_name in {capacity.storage_class_name for capacity in objects}:
        for volume in made.get(class_name, ()):
            homes = facts.homes[volume.name]
            for capacity in by_place.get((class_name, next(iter(homes))), ()):
                if homes <= facts.reach[capacity.key]:
                    found[capacity.key].append(volume)
    return found


_CHECKED_WITHIN: Final = timedelta(minutes=15)
"""`tonnage pools` reads its sources much more often than this."""

SOURCES_OF_POOLS: Final = {
    "local.csi.openebs.io": "openebs-lvm",
    "zfs.csi.openebs.io": "openebs-zfs",
    "topolvm.io": "topolvm",
    "topolvm.cybozu.com": "topolvm",
    "driver.longhorn.io": "longhorn",
    "directpv-min-io": "directpv",
    "lvm.hwameistor.io": "hwameistor",
}
"""Drivers whose pools `tonnage pools` finds by itself, with the name of the source."""


def capacity_findings(facts: Facts, figures: Mapping[str, DriverFigures]) -> Iterator[Finding]:
    for capacity in facts.capacities.values():
        yield from _of_one(facts, capacity)
    for name, driver_figures in figures.items():
        yield from missing_node_findings(facts, name)
        yield from _following(driver_figures)
        yield from _sums(driver_figures)


def _of_one(facts: Facts, capacity: CSIStorageCapacity) -> Iterator[Finding]:
    driver, topology = facts.driver_of_class(capacity.storage_class_name), capacity.node_topology
    source = capacity.metadata.annotations.get(storage_v1.POOLS_SOURCE)
    if not driver and facts.knows(StorageClass):
        yield CATALOGUE["capacity-of-missing-class"].about(
            capacity,
            f"it is for StorageClass {capacity.storage_class_name}, which does not exist",
            "delete it; a running provisioner creates the objects that it needs",
        )
    if topology is None:
        yield CATALOGUE["capacity-nil-topology"].about(
            capacity,
            "it has no nodeTopology and so reaches no node",
            "set nodeTopology to a label selector for the nodes that can reach this storage; {} only if all can: it "
            f"lets volumes be promised to every node, {WEAKER} where they cannot",
            driver=driver,
        )
    elif not facts.reach[capacity.key] and facts.nodes:
        yield CATALOGUE["capacity-reaches-no-node"].about(
            capacity,
            f"its nodeTopology ({topology}) selects none of the {len(facts.nodes)} nodes",
            "if those nodes are gone, delete it; otherwise add these labels to the nodes (the driver's node"
            " plugin does that)",
            driver=driver,
        )
    if problem := problem_with_pool_ids(capacity):
        yield CATALOGUE["pool-ids-unreadable"].about(
            capacity,
            f"the ids of its pools are ignored, and pools that it shares with other classes count twice: {problem}",
            "find out who writes it; tonnage pools writes one id for each pool",
            driver=driver,
        )
    if problem := pools.problem_with_free_volumes(capacity):
        yield CATALOGUE["free-volumes-unreadable"].about(
            capacity,
            f"its number of free volumes is ignored, and volumes count by their bytes alone: {problem}",
            pools.FREE_VOLUMES_REMEDY,
            driver=driver,
        )
    if problem := pools.problem_with_annotated_pools(capacity):
        yield CATALOGUE["pools-unreadable"].about(
            capacity,
            f"its annotation with pools is ignored: {problem}",
            'write quantities with commas between them, such as "100Gi,100Gi"',
            driver=driver,
        )
    elif capacity.has_kept_pools and (since := capacity.metadata.annotations.get(storage_v1.POOLS_STALE_SINCE)):
        yield CATALOGUE["pools-stale"].about(
            capacity,
            f"the source of its pools, {source}, has been silent since {since}: they may be old, and will be removed",
            "check that the driver runs on the node, and read the log of `tonnage pools`",
            driver=driver,
        )
    elif capacity.is_unchecked_since(facts.now - _CHECKED_WITHIN):
        yield CATALOGUE["pools-stale"].about(
            capacity,
            f"tonnage pools has not read {source}, the source of its pools, since "
            f"{capacity.metadata.annotations[storage_v1.POOLS_CHECKED_AT]}: volumes created since are counted, deleted "
            "ones are not noticed",
            "check that tonnage pools runs; if it should not run any more, remove its pools with tonnage pools "
            f"--remove, {WEAKER}: several claims of a pod are then checked against the sum only",
            driver=driver,
        )
    elif pools.free_bytes(capacity) is None:
        yield CATALOGUE["capacity-says-nothing"].about(
            capacity,
            "it has neither capacity, maximumVolumeSize nor pools: nothing fits into it",
            "make the driver answer GetCapacity, and read the log of its provisioner",
            driver=driver,
        )


def missing_node_findings(facts: Facts, driver: str) -> Iterator[Finding]:
    """A driver's nodes without capacity, class by class. A class without any object is another finding."""
    if not facts.knows(CSINode):
        return
    reached: dict[str, set[str]] = {}
    for capacity in facts.capacities_of.get(driver, ()):
        reached.setdefault(capacity.storage_class_name, set()).update(facts.reach[capacity.key])
    for storage_class in facts.classes_of.get(driver, ()):
        is_checked = storage_class.checks_capacity(facts.drivers.get(driver))
        if storage_class.name not in reached or not storage_class.waits_for_consumer or not is_checked:
            continue
        wanted = [
            node
            for node in facts.nodes_of.get(driver, ())
            if requirements.allows_topology(storage_class.allowed_topologies, facts.nodes[node].metadata.labels)
        ]
        missing = sorted(set(wanted) - reached[storage_class.name])
        if missing:
            yield CATALOGUE["capacity-missing-on-node"].about(
                storage_class,
                f"{driver} is on {len(wanted)} nodes, and no capacity object of the class reaches {named(missing)}: "
                "no new volume of it is made there",
                "check the provisioner there; if these nodes have no storage, exclude them with allowedTopologies",
                driver=driver,
            )


def _following(told: DriverFigures) -> Iterator[Finding]:
    for capacity in told.stale:
        unseen = told.unseen(capacity)
        yield CATALOGUE["capacity-stale"].about(
            capacity,
            f"it was last updated before {_volumes(unseen)} created, although it, or another object of the"
            f" driver, used to be updated with each volume",
            "check the provisioner that publishes capacity for these nodes; meanwhile Tonnage counts what it has"
            " promised itself (reservation: Ledger)",
            driver=told.driver,
        )
    if told.provisioning is Provisioning.THIN:
        known = told.facts.drivers.get(told.driver)
        yield CATALOGUE["thin-provisioning"].about(
            known or f"CSIDriver {told.driver}",
            f"its figures do not change when volumes are created ({told.evidence}): either it provisions thinly,"
            f" and more can be promised than there is, or its provisioner no longer publishes",
            "check that its provisioner runs; with a thin driver set quotas: no scheduler can see how full its"
            " disks will be",
            driver=told.driver,
        )


def _volumes(unseen: Sequence[PersistentVolume]) -> str:
    names = named([volume.name for volume in unseen])
    return f"{names}, {len(unseen)} of its volumes, were" if len(unseen) > 1 else f"its volume {names} was"


def _sums(told: DriverFigures) -> Iterator[Finding]:
    """Sums that exceed the largest volume, or may. Where the two are equal there is one pool."""
    several = told.sums_beyond_one_volume or [each for each in told.sums if each.maximum_volume_size is None]
    if not several or told.most_pools:
        return
    example = several[0]
    free = Quantity.from_bytes(pools.free_bytes(example) or 0)
    detail = ""
    if example.maximum_volume_size is not None:
        detail = f" ({example.key}: {free} in all, {example.maximum_volume_size} the largest volume)"
    yield CATALOGUE["capacity-without-pools"].about(
        told.facts.drivers.get(told.driver) or f"CSIDriver {told.driver}",
        f"it reports sums instead of pools{detail}: several claims of a pod are checked against the sum only",
        _remedy_for_sums(told.driver),
        driver=told.driver,
    )


def _remedy_for_sums(driver: str) -> str:
    source = SOURCES_OF_POOLS.get(driver)
    if source is not None:
        return f"run tonnage pools --source {source}: it reads the pools where this driver publishes them"
    return (
        "if the driver has several disks on a node, publish them: in availableCapacities, or in the annotation "
        "tonnage.dev/available-capacities, which `tonnage pools` writes (--source nodes or command)"
    )
