"""Everything that is known about storage: claims, volumes, classes, drivers, attach limits, capacity, attachments.

Indexes listen here: they are told after the object is stored, as (old, new), None for "not there". Between a decision
and the informer's word, the next decision must see what was decided about claims and volumes. So the changed object is
*assumed*: `get` answers with it at once, `api` with what the informer knows.

    assume ──► put      the informer delivers a newer version: that is the truth now
          └──► restore  it is not going to happen: back to what the informer knows

An object without a resourceVersion (a manifest) is older than any other. Mirrors upstream's assume cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Event, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment

Kind = TypeVar("Kind", bound=Object)


class OutOfSync(TonnageError):
    """An object was assumed on the basis of a version that is no longer the newest."""


class AssumedObjects(Generic[Kind]):
    """Objects of one kind by key. `on_change(old, new)` is told of every change of what `get` answers."""

    def __init__(self, on_change: Callable[[Kind | None, Kind | None], None]) -> None:
        self._api: dict[Key, Kind] = {}
        self._assumed: dict[Key, Kind] = {}
        self._on_change = on_change

    def __iter__(self) -> Iterator[Kind]:
        """Every object, assumed ones as they are assumed."""
        return (self._assumed.get(key, found) for key, found in self._api.items())

    def get(self, key: Key) -> Kind | None:
        """The object as decisions are to see it."""
        return self._assumed.get(key) or self._api.get(key)

    def api(self, key: Key) -> Kind | None:
        """The object as the informer knows it."""
        return self._api.get(key)

    def is_assumed(self, key: Key) -> bool:
        return key in self._assumed

    def assumed(self) -> Iterator[Kind]:
        """The objects of which something is assumed, as it is."""
        return iter(self._assumed.values())

    def put(self, new: Kind) -> None:
        """The informer's word. An assumption goes unless it is of a newer version than this."""
        key = new.key
        before = self.get(key)
        self._api[key] = new
        assumed = self._assumed.get(key)
        if assumed is not None:
            is_other = assumed.metadata.uid != new.metadata.uid
            if not is_other and new.metadata.revision <= assumed.metadata.revision and new.metadata.revision:
                return
            del self._assumed[key]
        self._on_change(before, new)

    def remove(self, key: Key) -> None:
        """The informer's word that it is gone."""
        before = self.get(key)
        self._api.pop(key, None)
        self._assumed.pop(key, None)
        if before is not None:
            self._on_change(before, None)

    def assume(self, new: Kind) -> None:
        """Take an object to be changed like this. Raises OutOfSync when the informer has a newer version, or none."""
        key = new.key
        stored = self._api.get(key)
        if stored is None:
            kind = type(new).__name__.lower()
            raise OutOfSync(f'{kind}s "{key}" not found', hint="it was deleted meanwhile")
        is_same_version = new.metadata.resource_version == stored.metadata.resource_version  # so it is nearly always
        if not is_same_version and new.metadata.revision < stored.metadata.revision:
            raise OutOfSync(
                f'"{key}" is out of sync'
                f" (stored: {stored.metadata.resource_version}, assume: {new.metadata.resource_version})"
            )
        before = self.get(key)
        self._assumed[key] = new
        self._on_change(before, new)

    def restore(self, key: Key) -> None:
        """Forget what was assumed about an object; nothing happens if nothing was."""
        before = self._assumed.pop(key, None)
        if before is not None:
            self._on_change(before, self._api.get(key))


Listener = Callable[[Kind | None, Kind | None], None]


def either(old: Kind | None, new: Kind | None) -> Kind:
    """The object that a listener is told of: as it is, or as it was before it went."""
    known = new or old
    assert known is not None
    return known


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
        for listener in self._listeners[kind]:
            listener(old, new)
