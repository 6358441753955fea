"""All storage objects: claims, volumes, classes, drivers, attach limits, capacity, attachments.

Indexes listen here: they are called after the object is stored, with (old, new), None for "does not exist". Until the
informer shows a decision about claims and volumes, the changed object is *assumed*, so that the next decision sees it:
`get` returns it at once, `api` returns the informer's object.

    assume ──► put      the informer delivers a newer version, which counts from then on
          └──► restore  it will not happen: back to the informer's object

An object without a resourceVersion (a manifest) is older than any other. Mirrors upstream's assume cache.

A volume's `VolumeId` is its identity, as attach limits count it: equal ids are one volume.

    existing   (driver, handle)                 whichever claim, pod or PersistentVolume names it
    pending    (driver of the class, claim)     the claim has no volume yet, or names an unknown one
    in-tree    the id that the plugin's CSI driver would use (csi-translation-lib)

Azure files and vSphere disks have a CSI driver but are not counted, like upstream (isCSIMigrationOn).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Event, PersistentVolume, PersistentVolumeClaim, Volume
from tonnage.objects.core_v1.persistent_volume import PersistentVolumeSpec
from tonnage.objects.core_v1.pod import BETA_ZONE, ZONE
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
        before, now = stored.metadata, new.metadata
        if now.resource_version != before.resource_version and now.revision < before.revision:
            raise OutOfSync(
                f'"{key}" is out of sync (stored: {before.resource_version}, assume: {now.resource_version})'
            )
        old = self.get(key)
        self._assumed[key] = new
        self._on_change(old, new)

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
        self.claims = AssumedObjects[PersistentVolumeClaim](partial(self._tell, PersistentVolumeClaim))
        """By namespace/name."""
        self.volumes = AssumedObjects[PersistentVolume](partial(self._tell, PersistentVolume))
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

    def _tell(self, kind: type[Any], old: Any, new: Any) -> None:
        for listener in self._listeners[kind]:
            listener(old, new)


AWS_EBS: Final = "ebs.csi.aws.com"
AZURE_DISK: Final = "disk.csi.azure.com"
AZURE_FILE: Final = "file.csi.azure.com"
CINDER: Final = "cinder.csi.openstack.org"
GCE_PD: Final = "pd.csi.storage.gke.io"
PORTWORX: Final = "pxd.portworx.com"
VSPHERE: Final = "csi.vsphere.vmware.com"
_DRIVERS: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": AWS_EBS,
    "kubernetes.io/azure-disk": AZURE_DISK,
    "kubernetes.io/azure-file": AZURE_FILE,
    "kubernetes.io/cinder": CINDER,
    "kubernetes.io/gce-pd": GCE_PD,
    "kubernetes.io/portworx-volume": PORTWORX,
    "kubernetes.io/vsphere-volume": VSPHERE,
}
_NOT_COUNTED: Final = frozenset({AZURE_FILE, VSPHERE})
_UNSPECIFIED: Final = "UNSPECIFIED"
_EBS_ID: Final = re.compile(r"vol-[^/]*")


class VolumeId(NamedTuple):
    """Equal for the same volume. A pending volume has no handle; `claim` is then its claim's namespace/name."""

    driver: str
    handle: str
    claim: str = ""


def csi_driver_of(provisioner: str) -> str:
    """The CSI driver of a provisioner: the provisioner itself, or the driver that replaced the in-tree plugin."""
    return _DRIVERS.get(provisioner, provisioner)


def taken_over_by(source: Volume | PersistentVolumeSpec) -> str:
    """The CSI driver that replaced an in-tree volume's plugin, counted or not; empty for every other kind of volume."""
    return next((driver for field, driver, _ in _SOURCES if getattr(source, field) is not None), "")


def _id_of_disk(source: Volume | PersistentVolumeSpec, zones: tuple[str, ...]) -> VolumeId | None:
    """The id of an in-tree disk as its CSI driver would write it; None if it is not counted."""
    for field, driver, handle_of in _SOURCES:
        disk = getattr(source, field)
        if disk is not None:
            handle = handle_of(disk, zones)
            return VolumeId(driver, handle) if handle else None
    return None


def _ebs_handle(volume_id: str) -> str | None:
    """The bare id of `vol-…` or `aws://zone/vol-…`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    bare = urlsplit(volume_id).path.strip("/")
    return bare if _EBS_ID.fullmatch(bare) else None


def _gce_handle(disk: str, zones: tuple[str, ...]) -> str | None:
    if len(zones) <= 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] if zones else _UNSPECIFIED}/disks/{disk}"
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(part[:2]) for part in parts}
    if len(regions) != 1 or any(len(part) != 3 for part in parts):
        return None  # a regional disk lies in zones of one region, each written continent-place-letter
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{disk}"


_SOURCES: Final[tuple[tuple[str, str, Callable[[Any, tuple[str, ...]], str | None]], ...]] = (
    ("aws_elastic_block_store", AWS_EBS, lambda disk, zones: _ebs_handle(disk.volume_id)),
    ("azure_disk", AZURE_DISK, lambda disk, zones: disk.disk_uri),
    ("azure_file", AZURE_FILE, lambda disk, zones: None),
    ("cinder", CINDER, lambda disk, zones: disk.volume_id),
    ("gce_persistent_disk", GCE_PD, lambda disk, zones: _gce_handle(disk.pd_name, zones)),
    ("portworx_volume", PORTWORX, lambda disk, zones: disk.volume_id),
    ("vsphere_volume", VSPHERE, lambda disk, zones: None),
)
"""The field of an in-tree volume, the CSI driver that replaced its plugin, and its handle there (None: not counted)."""


def id_of_claim(claim: PersistentVolumeClaim, storage: Storage) -> VolumeId | None:
    """The id of the claim's volume, pending or existing; None if it is not counted."""
    volume = _named(claim, storage)
    if volume is not None:
        return id_of_volume(volume)
    storage_class = storage.classes.get(claim.class_name)
    if storage_class is None or _DRIVERS.get(storage_class.provisioner) in _NOT_COUNTED:
        return None
    driver = csi_driver_of(storage_class.provisioner)
    return VolumeId(driver, "", claim.key) if driver else None


def id_of_volume(volume: PersistentVolume) -> VolumeId | None:
    """The id of an existing volume; None if no CSI driver serves it. A GCE disk's handle contains its zone labels."""
    source = volume.spec.csi
    if source is not None:
        return VolumeId(source.driver, source.volume_handle) if source.driver and source.volume_handle else None
    labels = volume.metadata.labels
    label = labels.get(BETA_ZONE) or labels.get(ZONE, "")
    return _id_of_disk(volume.spec, tuple(label.split("__")) if label else ())


def id_of_inline(volume: Volume) -> VolumeId | None:
    """The id of an in-tree disk that a pod names without a claim; None for every other kind of volume."""
    return _id_of_disk(volume, ())


def is_told_in_tree(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """True if the claim's volume names an in-tree plugin: a node without a CSINode does not count such volumes."""
    volume = _named(claim, storage)
    if volume is not None:
        return volume.spec.csi is None
    storage_class = storage.classes.get(claim.class_name)
    return storage_class is not None and storage_class.provisioner in _DRIVERS


def _named(claim: PersistentVolumeClaim, storage: Storage) -> PersistentVolume | None:
    name = claim.spec.volume_name
    return storage.volumes.get(name) if name else None
