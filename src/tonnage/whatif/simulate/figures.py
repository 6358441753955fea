"""What is told of disks and volumes: capacity objects, and where a volume of a disk can be used."""

from __future__ import annotations

from datetime import datetime

import msgspec

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
from tonnage.objects.meta import ManagedFieldsEntry, ObjectMeta
from tonnage.objects.node_selectors import NodeSelector, NodeSelectorTerm
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    INCLUDED_CLAIMS,
    CSIStorageCapacity,
)
from tonnage.quantity import Quantity
from tonnage.whatif.simulate.disks import Disk


def figures(
    capacity: CSIStorageCapacity, disk: Disk, overstates: float = 1.0, now: datetime | None = None
) -> CSIStorageCapacity:
    """A capacity object as it tells of a disk: in the fields that it used before.

    Where its publisher named the claims that the figures include, it goes on to do so, and where a server noted the
    time of the last write, that is `now`: what is promised to a claim is kept back until one of them shows it.
    """
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
    metadata = msgspec.structs.replace(capacity.metadata, annotations=annotations, resource_version="")
    if metadata.managed_fields and now is not None:
        metadata = msgspec.structs.replace(metadata, managed_fields=(ManagedFieldsEntry(time=now),))
    return msgspec.structs.replace(capacity, metadata=metadata, **changes)


def affinity_of(topology: LabelSelector | None) -> VolumeNodeAffinity:
    """The node affinity of a volume that was made for a topology; none where that is everywhere."""
    if topology is None:
        return VolumeNodeAffinity()
    labels = [Requirement(key=key, operator="In", values=(value,)) for key, value in topology.match_labels.items()]
    terms = (*labels, *topology.match_expressions)
    if not terms:
        return VolumeNodeAffinity()
    term = NodeSelectorTerm(match_expressions=terms)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))


def made_volume(
    name: str, claim: PersistentVolumeClaim, driver: str, size_bytes: int, affinity: VolumeNodeAffinity, reclaim: str
) -> PersistentVolume:
    owner = ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
    )
    spec = PersistentVolumeSpec(
        capacity={"storage": Quantity.from_int(size_bytes)},
        access_modes=claim.spec.access_modes,
        claim_ref=owner,
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
    """A claim as it is when its binding is complete."""
    replace = msgspec.structs.replace
    annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
    metadata = replace(claim.metadata, annotations=annotations, resource_version="")
    spec, status = replace(claim.spec, volume_name=volume_name), replace(claim.status, phase="Bound")
    return replace(claim, metadata=metadata, spec=spec, status=status)
