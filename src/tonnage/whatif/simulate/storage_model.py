"""The driver, its provisioner and its attacher, as a model: volumes are made or refused, moved, and told of.

    a claim gets a selected node ──create latency──► a pool has room ──► a volume, bound to its claim
                                                     └─ none has ──► refused: the claim loses its node, as upstream does
    a pod is bound to another node than its volume's ──► rebuilt there: bytes copied, then confined to its new home
    disks changed ──refresh delay──► capacity objects show it, as true as the driver is

Everything it does to the cluster it does by writing objects, as the real parts do; the scheduler sees nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.persistent_volume import (
    BIND_COMPLETED,
    PROVISIONED_BY,
    SELECTED_NODE,
    CSIPersistentVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)
from tonnage.objects.core_v1.references import ObjectReference
from tonnage.objects.meta import Key, Object, ObjectMeta
from tonnage.objects.node_selectors import NodeSelector, NodeSelectorTerm
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes
from tonnage.whatif.simulate.agenda import Agenda
from tonnage.whatif.simulate.disks import Disk, Disks
from tonnage.whatif.simulate.storage_settings import StorageSettings

_REBUILD_AGAIN_S: Final = 10.0
"""How soon an attachment that was refused for want of room is tried again."""


class ClusterObjects(Protocol):
    """The API server of the simulation, as the model writes to it."""

    def put(self, new: Object) -> Object: ...

    def remove(self, kind: type[Object], key: Key) -> None: ...

    def get(self, kind: type[Object], key: Key) -> Object | None: ...


@dataclass(slots=True)
class StorageCounts:
    """What happened to volumes."""

    made: int = 0
    refused: int = 0
    refused_rebuilds: int = 0
    bytes_rebuilt: int = 0
    rebuilt: list[tuple[float, str, str, str, int]] = field(default_factory=list)
    """(when, volume, from, to, bytes)."""


class StorageModel:
    """All drivers of a simulated cluster."""

    def __init__(self, objects: ClusterObjects, agenda: Agenda, settings: StorageSettings, rng: random.Random) -> None:
        self._objects = objects
        self._agenda = agenda
        self._settings = settings
        self._rng = rng
        self.disks = Disks()
        self.counts = StorageCounts()
        self.home: dict[str, Disk] = {}
        """The disk of each volume that stands on one we know."""
        self._classes: dict[str, StorageClass] = {}
        self._drivers: dict[str, CSIDriver] = {}
        self._by_class: dict[str, dict[Key, CSIStorageCapacity]] = {}
        self._by_label: dict[tuple[str, str, str], dict[Key, CSIStorageCapacity]] = {}
        """By class and one label of the topology, which is all that most of them have: no scan for each node."""
        self._by_rule: dict[str, dict[Key, CSIStorageCapacity]] = {}
        """By class, those that reach nodes by other rules."""
        self._stale: set[Key] = set()
        self._numbers = 0

    # -- what it knows ------------------------------------------------------------------------------------------------

    def know(self, found: Object) -> None:
        """An object came or changed that says what storage there is; others are not looked at."""
        if isinstance(found, StorageClass):
            self._classes[found.name] = found
        elif isinstance(found, CSIDriver):
            self._drivers[found.name] = found
        elif isinstance(found, CSIStorageCapacity) and found.key not in self.disks.by_object:
            self.disks.add(found, self._classes)
            self._by_class.setdefault(found.storage_class_name, {})[found.key] = found
            self._rules_of(found)[found.key] = found

    def adopt(self, volume: PersistentVolume, node: Node | None, size_bytes: int) -> None:
        """A volume that was there at the start stands on the disk of its node, if that is known."""
        for disk in self.disks_for(volume.class_name, node) if node is not None else ():
            disk.hold_before(volume.name, size_bytes)
            self.home[volume.name] = disk
            return

    def forget(self, capacity: CSIStorageCapacity) -> None:
        """A capacity object went, and with it what can be told of its disk."""
        self._by_class.get(capacity.storage_class_name, {}).pop(capacity.key, None)
        self._rules_of(capacity).pop(capacity.key, None)

    def _rules_of(self, capacity: CSIStorageCapacity) -> dict[Key, CSIStorageCapacity]:
        """Where an object is found by the nodes that it reaches."""
        topology, class_name = capacity.node_topology, capacity.storage_class_name
        if topology is not None and len(topology.match_labels) == 1 and not topology.match_expressions:
            ((label, value),) = topology.match_labels.items()
            return self._by_label.setdefault((class_name, label, value), {})
        return self._by_rule.setdefault(class_name, {})

    def disks_for(self, class_name: str, node: Node | None) -> list[Disk]:
        """The disks from which a volume of a class can be made for a node; of all nodes when none is named."""
        if node is None:
            return list(dict.fromkeys(self.disks.by_object[key] for key in self._by_class.get(class_name, ())))
        labels = node.metadata.labels
        keys = [key for item in labels.items() for key in self._by_label.get((class_name, *item), ())]
        for key, each in self._by_rule.get(class_name, {}).items():
            if each.node_topology is not None and each.node_topology.matches(labels):
                keys.append(key)
        return list(dict.fromkeys(self.disks.by_object[key] for key in keys))

    def driver_of(self, class_name: str) -> str:
        found = self._classes.get(class_name)
        return found.provisioner if found is not None else ""

    def rebuilds(self, volume: PersistentVolume) -> bool:
        return volume.spec.csi is not None and rebuilds_volumes(self._drivers.get(volume.spec.csi.driver))

    def _counts_capacity(self, driver: str) -> bool:
        found = self._drivers.get(driver)
        return found is not None and found.spec.storage_capacity

    # -- making -------------------------------------------------------------------------------------------------------

    def claim_changed(self, claim: PersistentVolumeClaim) -> None:
        """A claim that is not bound and whose time has come: make its volume after the driver's latency."""
        storage_class = self._classes.get(claim.class_name or "")
        if claim.is_bound or claim.spec.volume_name or storage_class is None:
            return
        if storage_class.waits_for_consumer and not claim.selected_node:
            return
        asked_for, settings = claim.selected_node, self._settings.of(storage_class.provisioner)
        self._agenda.after(settings.create_latency_s, lambda: self._make(claim.key, claim.uid, asked_for))

    def _make(self, key: Key, uid: str, node_name: str) -> None:
        claim = self._objects.get(PersistentVolumeClaim, key)
        if not isinstance(claim, PersistentVolumeClaim) or claim.uid != uid or claim.selected_node != node_name:
            return
        if claim.is_bound or claim.spec.volume_name:
            return
        class_name = claim.class_name or ""
        driver, size_bytes = self.driver_of(class_name), claim.requested.value() if claim.requested else 0
        node = self._objects.get(Node, node_name) if node_name else None
        policy = self._settings.of(driver).pick
        name = self._name()
        disks = self.disks_for(class_name, node if isinstance(node, Node) else None)
        disks.sort(key=lambda each: -max(each.pools, default=0))
        disk = next((each for each in disks if each.take(name, size_bytes, policy, self._rng)), None)
        if disk is None and (disks or self._counts_capacity(driver)):
            self.counts.refused += 1
            if node_name:  # as a provisioner does: let the scheduler choose again
                annotations = {k: v for k, v in claim.metadata.annotations.items() if k != SELECTED_NODE}
                self._objects.put(_with_annotations(claim, annotations))
            else:
                self._agenda.after(_REBUILD_AGAIN_S, lambda: self._make(key, uid, node_name))
            return
        self.counts.made += 1
        affinity = VolumeNodeAffinity()
        if disk is not None:
            self.home[name] = disk
            self._changed(disk)
            affinity = self._affinity(disk)
        self._objects.put(_volume(name, claim, driver, size_bytes, affinity, self._reclaim(class_name)))
        annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
        spec = msgspec.structs.replace(claim.spec, volume_name=name)
        status = msgspec.structs.replace(claim.status, phase="Bound")
        bound = msgspec.structs.replace(_with_annotations(claim, annotations), spec=spec, status=status)
        self._objects.put(bound)

    def _name(self) -> str:
        self._numbers += 1
        return f"pvc-{self._numbers:08d}"

    def _reclaim(self, class_name: str) -> str:
        found = self._classes.get(class_name)
        return found.reclaim_policy if found is not None else "Delete"

    def _affinity(self, disk: Disk) -> VolumeNodeAffinity:
        """Where a volume of this disk can be used: wherever one of its capacity objects reaches."""
        found = self._objects.get(CSIStorageCapacity, disk.objects[0])
        topology = found.node_topology if isinstance(found, CSIStorageCapacity) else None
        return affinity_of(topology)

    # -- going --------------------------------------------------------------------------------------------------------

    def claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        """What becomes of a claim's volume: deleted, after the driver's latency, or kept as its class says."""
        volume = self._objects.get(PersistentVolume, claim.spec.volume_name) if claim.spec.volume_name else None
        if not isinstance(volume, PersistentVolume) or volume.spec.persistent_volume_reclaim_policy != "Delete":
            return
        driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
        self._agenda.after(self._settings.of(driver).delete_latency_s, lambda: self._delete(volume.name))

    def _delete(self, name: str) -> None:
        self._objects.remove(PersistentVolume, name)
        disk = self.home.pop(name, None)
        if disk is not None and disk.give(name):
            self._changed(disk)

    # -- moving -------------------------------------------------------------------------------------------------------

    def set_free(self, node_name: str, volumes: list[PersistentVolume]) -> None:
        """A node is cordoned or gone: its volumes whose driver rebuilds may be rebuilt anywhere (KEP-5925)."""
        for volume in volumes:
            if self.rebuilds(volume) and volume.spec.node_affinity.required is not None:
                spec = msgspec.structs.replace(volume.spec, node_affinity=VolumeNodeAffinity())
                self._objects.put(_renewed(volume, spec=spec))

    def confine(self, volume: PersistentVolume) -> None:
        """A volume's home takes pods again: it is confined to it, as before."""
        disk = self.home.get(volume.name)
        if disk is not None and volume.spec.node_affinity.required is None and self.rebuilds(volume):
            spec = msgspec.structs.replace(volume.spec, node_affinity=self._affinity(disk))
            self._objects.put(_renewed(volume, spec=spec))

    def attach(self, pod: Pod, node: Node, volume: PersistentVolume, done: Callable[[], None]) -> None:
        """Bring a volume to a pod's node; `done` is called when it is there, however long that takes."""
        driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
        settings, disk = self._settings.of(driver), self.home.get(volume.name)
        here = self.disks_for(volume.class_name, node)
        if disk is None or disk in here or not here or not self.rebuilds(volume):
            self._agenda.after(settings.attach_latency_s, done)
            return
        _, size_bytes = disk.volumes[volume.name]
        target = next((each for each in here if self._moves_to(each, volume.name, size_bytes, settings.pick)), None)
        if target is None:
            self.counts.refused_rebuilds += 1
            self._agenda.after(_REBUILD_AGAIN_S, lambda: self._attach_again(pod, node.name, volume.name, done))
            return
        self._changed(target)
        takes_s = size_bytes / settings.rebuild_bytes_per_s + settings.attach_latency_s
        self._agenda.after(takes_s, lambda: self._rebuilt(volume.name, disk, target, node.name, size_bytes, done))

    def _moves_to(self, disk: Disk, volume: str, size_bytes: int, policy: str) -> bool:
        return disk.take(f"{volume} on its way", size_bytes, policy, self._rng)  # type: ignore[arg-type]

    def _attach_again(self, pod: Pod, node_name: str, volume_name: str, done: Callable[[], None]) -> None:
        node, known = self._objects.get(Node, node_name), self._objects.get(Pod, pod.key)
        volume = self._objects.get(PersistentVolume, volume_name)
        is_there = known is not None and known.uid == pod.uid
        if is_there and isinstance(node, Node) and isinstance(volume, PersistentVolume):
            self.attach(pod, node, volume, done)

    def _rebuilt(
        self, name: str, source: Disk, target: Disk, node_name: str, size_bytes: int, done: Callable[[], None]
    ) -> None:
        """The copy is complete: the volume lives there now, and its old room is free."""
        moved = target.volumes.pop(f"{name} on its way", None)
        volume = self._objects.get(PersistentVolume, name)
        if moved is None or not isinstance(volume, PersistentVolume):
            return
        target.volumes[name] = moved
        source.give(name)
        self.home[name] = target
        was = self._where(source)
        self.counts.bytes_rebuilt += size_bytes
        self.counts.rebuilt.append((self._agenda.now_s, name, was, node_name, size_bytes))
        self._changed(source)
        self._changed(target)
        spec = msgspec.structs.replace(volume.spec, node_affinity=self._affinity(target))
        self._objects.put(_renewed(volume, spec=spec))
        done()

    def _where(self, disk: Disk) -> str:
        found = self._objects.get(CSIStorageCapacity, disk.objects[0])
        topology = found.node_topology if isinstance(found, CSIStorageCapacity) else None
        return ",".join(topology.match_labels.values()) if topology is not None else ""

    # -- figures ------------------------------------------------------------------------------------------------------

    def _changed(self, disk: Disk) -> None:
        """Publish what a disk holds, once the driver gets round to it."""
        for key in disk.objects:
            if key in self._stale:
                continue
            found = self._objects.get(CSIStorageCapacity, key)
            if not isinstance(found, CSIStorageCapacity):
                continue
            self._stale.add(key)
            settings = self._settings.of(self.driver_of(found.storage_class_name))
            self._agenda.after(settings.refresh_delay_s, lambda key=key: self._publish(key))  # type: ignore[misc]

    def _publish(self, key: Key) -> None:
        self._stale.discard(key)
        found, disk = self._objects.get(CSIStorageCapacity, key), self.disks.of(key)
        if isinstance(found, CSIStorageCapacity) and disk is not None:
            overstates = self._settings.of(self.driver_of(found.storage_class_name)).overstates
            self._objects.put(figures(found, disk, overstates))


def figures(capacity: CSIStorageCapacity, disk: Disk, overstates: float = 1.0) -> CSIStorageCapacity:
    """A capacity object as it tells of a disk: in the fields that it used before."""
    pools = [int(free * overstates) for free in disk.pools]
    quantities = tuple(Quantity.of(free) for free in sorted(pools, reverse=True))
    changes: dict[str, object] = {}
    if capacity.available_capacities:
        changes["available_capacities"] = quantities
    annotations = capacity.metadata.annotations
    if AVAILABLE_CAPACITIES in annotations:
        annotations = {**annotations, AVAILABLE_CAPACITIES: ",".join(map(str, quantities))}
    if capacity.capacity is not None:
        changes["capacity"] = Quantity.of(sum(pools))
    if capacity.maximum_volume_size is not None:
        changes["maximum_volume_size"] = Quantity.of(max(pools, default=0))
    metadata = msgspec.structs.replace(capacity.metadata, annotations=annotations, resource_version="")
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


def _volume(
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
        capacity={"storage": Quantity.of(size_bytes)},
        access_modes=claim.spec.access_modes,
        claim_ref=owner,
        storage_class_name=claim.class_name or "",
        volume_mode=claim.spec.volume_mode,
        node_affinity=affinity,
        persistent_volume_reclaim_policy=reclaim,
        csi=CSIPersistentVolumeSource(driver=driver, volume_handle=name),
    )
    metadata = ObjectMeta(name=name, annotations={PROVISIONED_BY: driver})
    return PersistentVolume(metadata=metadata, spec=spec, status=PersistentVolumeStatus(phase="Bound"))


def _with_annotations(claim: PersistentVolumeClaim, annotations: dict[str, str]) -> PersistentVolumeClaim:
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations, resource_version="")
    return msgspec.structs.replace(claim, metadata=metadata)


def _renewed(volume: PersistentVolume, *, spec: PersistentVolumeSpec) -> PersistentVolume:
    metadata = msgspec.structs.replace(volume.metadata, resource_version="")
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec)
