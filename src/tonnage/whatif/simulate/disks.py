"""What disks really hold, pools with free bytes and volumes in them, and the objects that tell of it, late or wrongly.

Disks are read off the capacity objects at the start: each object is one set of pools, but objects of one capacity group
for the same topology share theirs. Where a volume stands that was there before is not known; when it goes, its bytes
come back to the pool that has the most room.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from tonnage.objects import codec
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import (
    BIND_COMPLETED,
    PROVISIONED_BY,
    CSIPersistentVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)
from tonnage.objects.core_v1.volume import ObjectReference
from tonnage.objects.meta import Key, ManagedFieldsEntry, ObjectMeta
from tonnage.objects.node_selectors import NodeSelector, NodeSelectorTerm
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    INCLUDED_CLAIMS,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity.pools import listed_pools, volume_limit
from tonnage.whatif.replay import renewed

PickPolicy = Literal["most-free", "best-fit", "first-fit", "random"]
PICK_POLICIES: Final[tuple[PickPolicy, ...]] = ("most-free", "best-fit", "first-fit", "random")
DEFAULT_PICK: Final[PickPolicy] = "best-fit"

MI: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class DriverSettings:
    pick: PickPolicy | None = None
    """None: as the class or its driver is annotated (`tonnage.dev/pool-policy`), else best-fit."""
    create_latency_s: float = 0.5
    attach_latency_s: float = 0.5
    delete_latency_s: float = 0.5
    refresh_delay_s: float = 1.0
    """From a change of the disks to the capacity object that shows it."""
    overstates: float = 1.0
    """Published figures are the true ones times this: figures that lie."""
    attach_slots: int | None = None
    """What a node really takes; None: what its CSINode says."""
    rebuild_bytes_per_s: float = 200.0 * MI


@dataclass(frozen=True, slots=True)
class StorageSettings:
    rest: DriverSettings = DriverSettings()
    drivers: dict[str, DriverSettings] = field(default_factory=dict)

    def of(self, driver: str) -> DriverSettings:
        return self.drivers.get(driver, self.rest)


_MOST_POOLS = 1000
"""Of a sum and a maximum: more pools than this are not told apart."""


@dataclass(eq=False, slots=True)
class Disk:
    """Pools that one or several capacity objects tell of."""

    pools: list[int]
    """Free bytes of each."""
    total_bytes: int = 0
    objects: list[Key] = field(default_factory=list)
    volumes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By name: the pool, -1 where that is not known, and the bytes."""
    included: set[str] = field(default_factory=set)
    """The uids of claims whose volumes are in the figures of the start, bound or not."""
    claims: dict[str, str] = field(default_factory=dict)
    """The uids of the claims of volumes that were made here, by the volume's name."""

    def __post_init__(self) -> None:
        self.total_bytes = self.total_bytes or sum(self.pools)

    @property
    def free_bytes(self) -> int:
        return sum(self.pools)

    def take(self, volume: str, size_bytes: int, policy: PickPolicy, rng: random.Random) -> bool:
        """Put a volume into a pool that the policy picks; False when none has room."""
        roomy = [number for number, free in enumerate(self.pools) if free >= size_bytes]
        if not roomy:
            return False
        if policy == "random":
            number = rng.choice(roomy)
        elif policy == "first-fit":
            number = roomy[0]
        else:
            number = (max if policy == "most-free" else min)(roomy, key=lambda each: self.pools[each])
        self.put(volume, number, size_bytes)
        return True

    def put(self, volume: str, number: int, size_bytes: int) -> None:
        """Put a volume into the pool of this number, which has room."""
        self.pools[number] -= size_bytes
        self.volumes[volume] = (number, size_bytes)

    def give(self, volume: str) -> bool:
        """A volume goes; False when it was not here."""
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
        return True

    def change_to(self, capacity: CSIStorageCapacity) -> None:
        """Its pools have so much room now; the volumes stay, in pools that are not known any more."""
        self.pools = list(listed_pools(capacity)) or pools_of_sum(capacity)
        self.volumes = {name: (-1, size_bytes) for name, (_, size_bytes) in self.volumes.items()}
        self.total_bytes = sum(self.pools) + sum(size_bytes for _, size_bytes in self.volumes.values())

    def hold_before(self, volume: str, size_bytes: int) -> None:
        """A volume that was there at the start: its bytes are not free, and not among the figures."""
        self.volumes[volume] = (-1, size_bytes)
        self.total_bytes += size_bytes


class Disks:
    def __init__(self) -> None:
        self.by_object: dict[Key, Disk] = {}
        self._shared: dict[tuple[str, str, str], Disk] = {}

    def __iter__(self) -> Iterator[Disk]:
        yield from dict.fromkeys(self.by_object.values())

    def add(self, capacity: CSIStorageCapacity, classes: Mapping[str, StorageClass]) -> Disk:
        """The disk of a capacity object: a new one, or the one that another object of its group tells of."""
        found = self.by_object.get(capacity.key)
        if found is not None:
            return found
        storage_class = classes.get(capacity.storage_class_name)
        group = storage_class.capacity_group if storage_class is not None else ""
        driver = storage_class.provisioner if storage_class is not None else ""
        topology = codec.encode(capacity.node_topology).decode() if capacity.node_topology is not None else ""
        shared = (driver, group, topology)
        if group and shared in self._shared:
            disk = self._shared[shared]
        else:
            disk = Disk(list(listed_pools(capacity)) or pools_of_sum(capacity))
            if group:
                self._shared[shared] = disk
        disk.objects.append(capacity.key)
        disk.included.update(filter(None, capacity.metadata.annotations.get(INCLUDED_CLAIMS, "").split(",")))
        self.by_object[capacity.key] = disk
        return disk


def pools_of_sum(capacity: CSIStorageCapacity) -> list[int]:
    """Pools that a sum and a maximum may stand for; one of the sum where there is no maximum."""
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
    """A capacity object as it tells of a disk, in the fields, and with the claims and times, that it told before."""
    pools = [int(free * overstates) for free in disk.pools]
    quantities = tuple(Quantity.from_int(free) for free in sorted(pools, reverse=True))
    changes: dict[str, object] = {}
    if capacity.available_capacities:
        changes["available_capacities"] = quantities
    annotations = capacity.metadata.annotations
    if AVAILABLE_CAPACITIES in annotations:
        annotations = {**annotations, AVAILABLE_CAPACITIES: ",".join(map(str, quantities))}
    if capacity.capacity is not None:
        changes["capacity"] = Quantity.from_int(sum(pools))
    if capacity.maximum_volume_size is not None:
        changes["maximum_volume_size"] = Quantity.from_int(max(pools, default=0))
    if INCLUDED_CLAIMS in annotations:
        named = dict.fromkeys((*annotations[INCLUDED_CLAIMS].split(","), *disk.claims.values()))
        annotations = {**annotations, INCLUDED_CLAIMS: ",".join(filter(None, named))}
    metadata: dict[str, Any] = {"annotations": annotations}
    if capacity.metadata.managed_fields and now is not None:
        metadata["managed_fields"] = (ManagedFieldsEntry(time=now),)
    return renewed(capacity, metadata, **changes)


def affinity_of(topology: LabelSelector | None) -> VolumeNodeAffinity:
    """The node affinity of a volume that was made for a topology; none where that is everywhere."""
    if topology is None:
        return VolumeNodeAffinity()
    labels = [Requirement(key=key, operator="In", values=(value,)) for key, value in topology.match_labels.items()]
    rules = (*labels, *topology.match_expressions)
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=rules),)) if rules else None
    return VolumeNodeAffinity(required=required)


def reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=claim.namespace, name=claim.name, uid=claim.uid
    )


def made_volume(
    name: str, claim: PersistentVolumeClaim, driver: str, size_bytes: int, affinity: VolumeNodeAffinity, reclaim: str
) -> PersistentVolume:
    spec = PersistentVolumeSpec(
        capacity={"storage": Quantity.from_int(size_bytes)},
        access_modes=claim.spec.access_modes,
        claim_ref=reference_to(claim),
        storage_class_name=claim.class_name or "",
        volume_mode=claim.spec.volume_mode,
        node_affinity=affinity,
        persistent_volume_reclaim_policy=reclaim,
        csi=CSIPersistentVolumeSource(driver=driver, volume_handle=name),
    )
    # Its name is its own for ever: so is a uid made of it.
    metadata = ObjectMeta(name=name, uid=name, annotations={PROVISIONED_BY: driver})
    return PersistentVolume(metadata=metadata, spec=spec, status=PersistentVolumeStatus(phase="Bound"))


def bound_claim(claim: PersistentVolumeClaim, volume_name: str) -> PersistentVolumeClaim:
    replace = msgspec.structs.replace
    annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
    spec, status = replace(claim.spec, volume_name=volume_name), replace(claim.status, phase="Bound")
    return renewed(claim, {"annotations": annotations}, spec=spec, status=status)
