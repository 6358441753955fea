"""The true contents of disks (pools and volumes), and the objects that publish them late or wrongly.

Disks are derived from the initial capacity objects: each object is one set of pools, and objects of one capacity group
and topology share theirs. The pool of an initial volume is unknown; when it is deleted, its bytes return to the pool
with the most room.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tonnage.objects import codec, storage_v1
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, persistent_volume
from tonnage.objects.core_v1.persistent_volume import ObjectReference, VolumeNodeAffinity
from tonnage.objects.meta import Key, ManagedFieldsEntry, ObjectMeta
from tonnage.objects.requirements import NodeSelector, NodeSelectorTerm, Requirement
from tonnage.objects.selectors import InvalidSelector, LabelSelector
from tonnage.objects.storage_v1 import CSIStorageCapacity, StorageClass
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity.groups import pool_ids_of
from tonnage.scheduling.volumes.capacity.pools import free_volumes, listed_pools, told_pools, volume_limit
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy, placed_by
from tonnage.whatif.creation import renewed

PICK_POLICIES: Final = tuple(each for each in PoolPolicy if each is not PoolPolicy.UNKNOWN)
MI: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class DriverSettings:
    pick: PoolPolicy = PoolPolicy.UNKNOWN
    """Unknown: the annotation of the class or driver (`tonnage.dev/pool-policy`), else best-fit."""
    create_latency_s: float = 0.5
    attach_latency_s: float = 0.5
    delete_latency_s: float = 0.5
    refresh_delay_s: float = 1.0
    """Seconds from a change of the disks to the capacity object that shows it."""
    overstates: float = 1.0
    """Published figures are the true ones times this: a driver that reports too much."""
    attach_slots: int | None = None
    """How many volumes a node really takes; None: what its CSINode says."""
    rebuild_bytes_per_s: float = 200.0 * MI


@dataclass(frozen=True, slots=True)
class StorageSettings:
    rest: DriverSettings = DriverSettings()
    drivers: dict[str, DriverSettings] = field(default_factory=dict)

    def of(self, driver: str) -> DriverSettings:
        return self.drivers.get(driver, self.rest)


@dataclass(slots=True)
class StorageCounts:
    made: int = 0
    refused: int = 0
    """Volumes that could not be created or rebuilt where the scheduler had sent their pod."""
    bytes_rebuilt: int = 0
    rebuilt: list[tuple[float, str, str, str, int]] = field(default_factory=list)
    """(time, volume, from, to, bytes)."""


_MOST_POOLS = 1000
"""Limit of pools that are derived from a sum and a maximum."""


@dataclass(eq=False, slots=True)
class Disk:
    """Pools that one or several capacity objects describe."""

    pools: list[int]
    """Free bytes of each pool."""
    total_bytes: int = 0
    objects: list[Key] = field(default_factory=list)
    volumes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By name: the pool, -1 if unknown, and the bytes."""
    included: set[str] = field(default_factory=set)
    """UIDs of claims whose volumes the initial figures include, bound or not."""
    claims: dict[str, str] = field(default_factory=dict)
    """By volume name: UIDs of the claims of volumes that were created here."""
    ids: list[str] = field(default_factory=list)
    """The ids of the pools, if they have ids."""
    slots: dict[Key, int] = field(default_factory=dict)
    """By capacity object that tells a limit: how many volumes can still be made in its pools."""
    numbers: dict[Key, list[int]] = field(default_factory=dict)
    """By capacity object with ids: its pools, in its order."""

    def __post_init__(self) -> None:
        self.total_bytes = self.total_bytes or sum(self.pools)

    @property
    def free_bytes(self) -> int:
        return sum(self.pools)

    def pick(
        self, needs_bytes: int, policy: PoolPolicy, rng: random.Random, within: Sequence[int] | None = None
    ) -> int | None:
        """The pool that a driver picks, best-fit if its policy is unknown; None when none has room. `within`: only
        these pools, by number."""
        numbers = [n for n in (range(len(self.pools)) if within is None else within) if self.takes_one_more(n)]
        if policy is PoolPolicy.RANDOM:
            roomy = [number for number in numbers if self.pools[number] >= needs_bytes]
            return rng.choice(roomy) if roomy else None
        known = PoolPolicy.BEST_FIT if policy is PoolPolicy.UNKNOWN else policy
        place = placed_by(known, tuple([self.pools[number] for number in numbers]), needs_bytes)
        return numbers[place] if place is not None else None

    def put(self, volume: str, number: int, size_bytes: int) -> None:
        """Put a volume into the pool of this number, which must have room."""
        self.pools[number] -= size_bytes
        self.volumes[volume] = (number, size_bytes)
        self._count(number, -1)

    def give(self, volume: str) -> bool:
        """Remove a volume; False if it was not here."""
        self.claims.pop(volume, None)
        found = self.volumes.pop(volume, None)
        if found is None:
            return False
        number, size_bytes = found
        if number < 0 and not self.pools:
            self.pools.append(0)
        if number < 0:
            number = max(range(len(self.pools)), key=lambda each: self.pools[each])
        self.pools[number] += size_bytes
        self._count(number, 1)
        return True

    def takes_one_more(self, number: int) -> bool:
        """False if an object of this pool takes no more volumes."""
        return all(left > 0 for key, left in self.slots.items() if number in self.numbers_of(key))

    def _count(self, number: int, more: int) -> None:
        for key in self.slots:
            if number in self.numbers_of(key):
                self.slots[key] += more

    def learn_slots(self, capacity: CSIStorageCapacity) -> None:
        """Set how many volumes an object takes to what it tells."""
        self.slots.pop(capacity.key, None)
        if (told := free_volumes(capacity)) is not None:
            self.slots[capacity.key] = told

    def numbers_of(self, key: Key) -> list[int]:
        """The pools that an object lists, by number: all of the disk's, unless they have ids."""
        return self.numbers.get(key) or list(range(len(self.pools)))

    def join(self, capacity: CSIStorageCapacity) -> None:
        """Add an object whose pools have ids: those that another object has too are the same, with the least bytes."""
        numbers = []
        for pool, free in zip(pool_ids_of(capacity), told_pools(capacity), strict=True):
            if pool not in self.ids:
                self.ids.append(pool)
                self.pools.append(free)
                self.total_bytes += free
            number = self.ids.index(pool)
            self.total_bytes -= max(self.pools[number] - free, 0)
            self.pools[number] = min(self.pools[number], free)
            numbers.append(number)
        self.numbers[capacity.key] = numbers

    def change_to(self, capacity: CSIStorageCapacity) -> None:
        """Set the pools' free bytes to the object's figures; the volumes stay, in unknown pools."""
        self.learn_slots(capacity)
        if self.ids and pool_ids_of(capacity):
            for pool, free in zip(pool_ids_of(capacity), told_pools(capacity), strict=True):
                if pool in self.ids:
                    self.pools[self.ids.index(pool)] = free
            self.join(capacity)
        else:
            self.pools = list(listed_pools(capacity)) or pools_of_sum(capacity)
        self.volumes = {name: (-1, size_bytes) for name, (_, size_bytes) in self.volumes.items()}
        self.total_bytes = sum(self.pools) + sum(size_bytes for _, size_bytes in self.volumes.values())

    def hold_before(self, volume: str, size_bytes: int) -> None:
        """Add an initial volume: its bytes are used, and the figures do not include them."""
        self.volumes[volume] = (-1, size_bytes)
        self.total_bytes += size_bytes


class Disks:
    def __init__(self) -> None:
        self.by_object: dict[Key, Disk] = {}
        self._shared: dict[tuple[str, str, str, bool], Disk] = {}

    def __iter__(self) -> Iterator[Disk]:
        yield from dict.fromkeys(self.by_object.values())

    def add(self, capacity: CSIStorageCapacity, classes: Mapping[str, StorageClass]) -> Disk:
        """The disk of a capacity object: a new one, or that of another object of its group. Objects with ids have one
        disk in each topology, with all pools of their driver there."""
        found = self.by_object.get(capacity.key)
        if found is not None:
            return found
        storage_class = classes.get(capacity.storage_class_name)
        group = storage_class.capacity_group if storage_class is not None else ""
        driver = storage_class.provisioner if storage_class is not None else ""
        topology = codec.encode(capacity.node_topology).decode() if capacity.node_topology is not None else ""
        has_ids = bool(pool_ids_of(capacity))
        shared = (driver, "" if has_ids else group, topology, has_ids)
        included = set(filter(None, capacity.metadata.annotations.get(storage_v1.INCLUDED_CLAIMS, "").split(",")))
        disk = self._shared.get(shared)
        if disk is None:
            pools = [] if has_ids else list(listed_pools(capacity)) or pools_of_sum(capacity)
            disk = Disk(pools, included=included)
            if group or has_ids:
                self._shared[shared] = disk
        elif not has_ids and included > disk.included:  # the figures of the group's other objects are older
            disk.included = included
            disk.change_to(capacity)
        if has_ids:
            disk.included |= included
            disk.join(capacity)
        disk.learn_slots(capacity)
        disk.objects.append(capacity.key)
        self.by_object[capacity.key] = disk
        return disk


def pools_of_sum(capacity: CSIStorageCapacity) -> list[int]:
    """Pools that match a sum and a maximum; a single pool without a maximum."""
    limit = volume_limit(capacity) or 0
    total = capacity.capacity.value() if capacity.capacity is not None else limit
    if limit <= 0 or limit >= total:
        return [total]
    whole = min(total // limit, _MOST_POOLS)
    rest = total - whole * limit
    return [limit] * whole + ([rest] if rest else [])


def figures(
    capacity: CSIStorageCapacity, disk: Disk, overstates: float = 1.0, now: datetime | None = None
) -> CSIStorageCapacity:
    """The capacity object with a disk's figures, in the same fields as before, with claims and times if it had them."""
    numbers = sorted(disk.numbers_of(capacity.key), key=lambda number: -disk.pools[number])
    pools = [int(disk.pools[number] * overstates) for number in numbers]
    quantities = tuple(Quantity.from_int(free) for free in pools)
    changes: dict[str, object] = {}
    if capacity.available_capacities:
        changes["available_capacities"] = quantities
    annotations = capacity.metadata.annotations
    if storage_v1.AVAILABLE_CAPACITIES in annotations:
        annotations = {**annotations, storage_v1.AVAILABLE_CAPACITIES: ",".join(map(str, quantities))}
    if capacity.key in disk.slots:
        annotations = {**annotations, storage_v1.FREE_VOLUMES: str(disk.slots[capacity.key])}
    if capacity.key in disk.numbers:
        annotations = {**annotations, storage_v1.POOL_IDS: ",".join(disk.ids[number] for number in numbers)}
    if capacity.capacity is not None:
        changes["capacity"] = Quantity.from_int(sum(pools))
    if capacity.maximum_volume_size is not None:
        changes["maximum_volume_size"] = Quantity.from_int(max(pools, default=0))
    if storage_v1.INCLUDED_CLAIMS in annotations:
        named = dict.fromkeys((*annotations[storage_v1.INCLUDED_CLAIMS].split(","), *disk.claims.values()))
        annotations = {**annotations, storage_v1.INCLUDED_CLAIMS: ",".join(filter(None, named))}
    metadata: dict[str, Any] = {"annotations": annotations}
    if capacity.metadata.managed_fields and now is not None:
        metadata["managed_fields"] = (ManagedFieldsEntry(time=now),)
    return renewed(capacity, metadata, **changes)


def affinity_of(topology: LabelSelector | None) -> VolumeNodeAffinity:
    """The node affinity of a volume created for a topology; empty if that is everywhere."""
    if topology is None:
        return VolumeNodeAffinity()
    labels = [Requirement(key=key, operator="In", values=(value,)) for key, value in topology.match_labels.items()]
    rules = (*labels, *topology.match_expressions)
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=rules),)) if rules else None
    return VolumeNodeAffinity(required=required)


class NodeReach:
    """Which of these nodes selectors mean. Nodes are found by their labels: nearly all selectors name values of one."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {each.name: each for each in nodes}
        self._by_label: dict[tuple[str, str], set[str]] = {}
        for name, node in self._nodes.items():
            for label in node.metadata.labels.items():
                self._by_label.setdefault(label, set()).add(name)

    def selected(self, topology: LabelSelector | None) -> frozenset[str]:
        """The nodes that a capacity object's topology selects; none without a topology, or by an invalid one."""
        if topology is None:
            return frozenset()
        names = self._candidates(topology.requirements())
        try:
            return frozenset(name for name in names if topology.matches(self._nodes[name].metadata.labels))
        except InvalidSelector:
            return frozenset()

    def admitted(self, required: NodeSelector | None) -> frozenset[str]:
        """The nodes that a volume's affinity admits; all nodes without an affinity."""
        if required is None:
            return frozenset(self._nodes)
        found: set[str] = set()
        for term in required.node_selector_terms:
            named = {value for each in term.match_fields if each.operator == "In" for value in each.values}
            among = named & self._nodes.keys() if named else self._candidates(term.match_expressions)
            found.update(name for name in among if term.matches(name, self._nodes[name].metadata.labels))
        return frozenset(found)

    def _candidates(self, requirements: Iterable[Requirement]) -> Iterable[str]:
        """A superset of the nodes that meet these requirements: those with a label of the narrowest requirement."""
        asked = [requirement for requirement in requirements if requirement.operator == "In"]
        with_label = (set().union(*(self._by_label.get((each.key, v), ()) for v in each.values)) for each in asked)
        return min(with_label, key=len, default=self._nodes)


def reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=claim.namespace, name=claim.name, uid=claim.uid
    )


def made_volume(
    name: str, claim: PersistentVolumeClaim, driver: str, size_bytes: int, affinity: VolumeNodeAffinity, reclaim: str
) -> PersistentVolume:
    spec = persistent_volume.PersistentVolumeSpec(
        capacity={"storage": Quantity.from_int(size_bytes)},
        access_modes=claim.spec.access_modes,
        claim_ref=reference_to(claim),
        storage_class_name=claim.class_name or "",
        volume_mode=claim.spec.volume_mode,
        node_affinity=affinity,
        persistent_volume_reclaim_policy=reclaim,
        csi=persistent_volume.CSIPersistentVolumeSource(driver=driver, volume_handle=name),
    )
    # The name is unique for ever, and so is a uid made from it.
    metadata = ObjectMeta(name=name, uid=name, annotations={persistent_volume.PROVISIONED_BY: driver})
    return PersistentVolume(
        metadata=metadata, spec=spec, status=persistent_volume.PersistentVolumeStatus(phase="Bound")
    )


def bound_claim(claim: PersistentVolumeClaim, volume_name: str) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, persistent_volume.BIND_COMPLETED: "yes"}
    return renewed(claim, {"annotations": annotations}, spec={"volume_name": volume_name}, status={"phase": "Bound"})
