"""All storage objects: claims, volumes, classes, drivers, attach limits, capacity, attachments.

Indexes listen here: they are called after the object is stored, with (old, new), None for "does not exist". Until the
informer shows a decision about claims and volumes, the changed object is *assumed*, so that the next decision sees it:
`get` returns it at once, `api` returns the informer's object.

    assume ──► put      the informer delivers a newer version, which counts from then on
          └──► restore  it will not happen: back to the informer's object

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
    """An object was assumed from a version that is no longer the newest."""


class AssumedObjects(Generic[Kind]):
    """Objects of one kind by key. `on_change(old, new)` is called whenever `get` changes."""

    def __init__(self, on_change: Callable[[Kind | None, Kind | None], None]) -> None:
        self._api: dict[Key, Kind] = {}
        self._assumed: dict[Key, Kind] = {}
        self._on_change = on_change

    def __iter__(self) -> Iterator[Kind]:
        """Every object; assumed ones in their assumed state."""
        return (self._assumed.get(key, found) for key, found in self._api.items())

    def get(self, key: Key) -> Kind | None:
        """The object for decisions: assumed, or else the informer's."""
        return self._assumed.get(key) or self._api.get(key)

    def api(self, key: Key) -> Kind | None:
        """The informer's object."""
        return self._api.get(key)

    def is_assumed(self, key: Key) -> bool:
        return key in self._assumed

    def assumed(self) -> Iterator[Kind]:
        """The assumed objects."""
        return iter(self._assumed.values())

    def put(self, new: Kind) -> None:
        """Store the informer's object. An assumed object goes unless its version is newer."""
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
        """Remove an object that the informer reports as deleted."""
        before = self.get(key)
        self._api.pop(key, None)
        self._assumed.pop(key, None)
        if before is not None:
            self._on_change(before, None)

    def assume(self, new: Kind) -> None:
        """Assume a changed object. Raises OutOfSync if the informer has a newer version, or none."""
        key = new.key
        stored = self._api.get(key)
        if stored is None:
            kind = type(new).__name__.lower()
            raise OutOfSync(f'{kind}s "{key}" not found', hint="it was deleted meanwhile")
        if new.metadata.revision < stored.metadata.revision:
            raise OutOfSync(
                f'"{key}" is out of sync'
                f" (stored: {stored.metadata.resource_version}, assume: {new.metadata.resource_version})"
            )
        before = self.get(key)
        self._assumed[key] = new
        self._on_change(before, new)

    def restore(self, key: Key) -> None:
        """Forget the assumed object, if there is one."""
        before = self._assumed.pop(key, None)
        if before is not None:
            self._on_change(before, self._api.get(key))


Listener = Callable[[Kind | None, Kind | None], None]


def either(old: Kind | None, new: Kind | None) -> Kind:
    """The object of a change: the new one, or the old one if it was deleted."""
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
        """Events that say why a claim has no volume yet."""
        self._plain: dict[type[Object], dict[Key, Any]] = {
            StorageClass: self.classes,
            CSIDriver: self.drivers,
            CSINode: self.csi_nodes,
            CSIStorageCapacity: self.capacities,
            VolumeAttachment: self.attachments,
            Event: self.provisioning_failures,
        }

    def put(self, new: Object) -> None:
        """An object came or changed. Raises TypeError for a kind that is not storage."""
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
        if isinstance(old, PersistentVolumeClaim):
            self.claims.remove(old.key)
        elif isinstance(old, PersistentVolume):
            self.volumes.remove(old.key)
        else:
            known = self._kept(old).pop(old.key, None)
            if known is not None:
                self._tell(type(old), known, None)

    def on_change(self, kind: type[Kind], listener: Listener[Kind]) -> None:
        """Call a listener about later changes of a kind. It must read existing objects itself."""
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
