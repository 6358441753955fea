"""Everything that is known about storage: claims, volumes, classes, drivers, attach limits, capacity, attachments.

    informer / manifest ──► put, remove ──► Storage ──► listeners (indexes, reservations)

Objects are kept by key as they are; what is derived from them is kept by views of the cluster (`Cluster.view`), which
listen here: the capacity index, the free static volumes, the attached volumes, reservations and the ledger. Claims and
volumes also have an assumed state (`assumed_objects`). Listeners are told after the object is stored, as (old, new),
None for "not there"; for claims and volumes that is the state decisions see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tonnage.objects.core_v1 import Event, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.assumed_objects import AssumedObjects

Kind = TypeVar("Kind", bound=Object)

Listener = Callable[[Kind | None, Kind | None], None]

STORAGE_KINDS: Final = (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)


class Storage:
    """One cluster's storage. `put` and `remove` take objects of `STORAGE_KINDS`, and events about claims."""

    def __init__(self) -> None:
        self._listeners: dict[type[Object], list[Listener[Any]]] = {kind: [] for kind in (*STORAGE_KINDS, Event)}
        self.claims: AssumedObjects[PersistentVolumeClaim] = AssumedObjects(self._teller(PersistentVolumeClaim))
        """By namespace/name."""
        self.volumes: AssumedObjects[PersistentVolume] = AssumedObjects(self._teller(PersistentVolume))
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.capacities: dict[Key, CSIStorageCapacity] = {}
        """By namespace/name; objects of all namespaces count."""
        self.attachments: dict[str, VolumeAttachment] = {}
        self.provisioning_failures: dict[Key, Event] = {}
        """Events that tell why a claim has no volume yet."""
        self._plain: dict[type[Object], dict[Key, Any]] = {
            StorageClass: self.classes,
            CSIDriver: self.drivers,
            CSINode: self.csi_nodes,
            CSIStorageCapacity: self.capacities,
            VolumeAttachment: self.attachments,
            Event: self.provisioning_failures,
        }
        self.rules_tick = 0
        """Moves when a StorageClass or CSIDriver changes: they are few, and what is remembered depends on them."""

    def put(self, new: Object) -> None:
        """An object came or changed. TypeError for a kind that is not storage."""
        if isinstance(new, PersistentVolumeClaim):
            self.claims.put(new)
        elif isinstance(new, PersistentVolume):
            self.volumes.put(new)
        else:
            kept = self._kept(new)
            old = kept.get(new.key)
            kept[new.key] = new
            self._tell(type(new), old, new)

    def remove(self, old: Object) -> None:
        """An object is gone."""
        if isinstance(old, PersistentVolumeClaim):
            self.claims.remove(old.key)
        elif isinstance(old, PersistentVolume):
            self.volumes.remove(old.key)
        else:
            known = self._kept(old).pop(old.key, None)
            if known is not None:
                self._tell(type(old), known, None)

    def on_change(self, kind: type[Kind], listener: Listener[Kind]) -> None:
        """Tell somebody about changes of a kind from now on. What is there already they have to read themselves."""
        self._listeners[kind].append(listener)

    def _kept(self, each: Object) -> dict[Key, Any]:
        try:
            return self._plain[type(each)]
        except KeyError:
            raise TypeError(f"{type(each).__name__} is not a kind of storage") from None

    def _teller(self, kind: type[Kind]) -> Listener[Kind]:
        return lambda old, new: self._tell(kind, old, new)

    def _tell(self, kind: type[Any], old: Any, new: Any) -> None:
        if kind is StorageClass or kind is CSIDriver:
            self.rules_tick += 1
        for listener in self._listeners[kind]:
            listener(old, new)
