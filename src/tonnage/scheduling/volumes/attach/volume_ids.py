"""When are two volumes one volume? What attach limits count.

    made       (driver, handle)                 whichever claim, pod or volume object names it
    pending    (driver of the class, claim)     the claim stands for it; so does one that names an unknown volume
    in-tree    as the CSI driver that took the plugin over knows it (csi-translation-lib)

Azure files and vSphere disks are taken over but not counted, as upstream has it (isCSIMigrationOn).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Volume
from tonnage.objects.core_v1.node import BETA_ZONE, ZONE
from tonnage.objects.core_v1.persistent_volume import PersistentVolumeSpec
from tonnage.objects.storage_v1 import StorageClass

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
    """Equal for the same volume. One that is pending has no handle yet, but its claim's namespace/name."""

    driver: str
    handle: str
    claim: str = ""


def is_in_tree(provisioner: str) -> bool:
    """Whether a class's provisioner is one of the plugins of old that a CSI driver took over."""
    return provisioner in _DRIVERS


def csi_driver_of(provisioner: str) -> str:
    """The CSI driver that makes a class's volumes: its provisioner, or who took that over, counted or not."""
    return _DRIVERS.get(provisioner, provisioner)


def driver_of(provisioner: str) -> str:
    """The driver that a class's volumes count under: its provisioner, or who took that over; empty if nobody counts."""
    found = _DRIVERS.get(provisioner, provisioner)
    return "" if found in _NOT_COUNTED and found != provisioner else found


def taken_over_by(source: Volume | PersistentVolumeSpec) -> str:
    """The CSI driver that looks after a disk of old, counted or not; empty for every other kind of volume."""
    return next((driver for field, driver, _ in _SOURCES if getattr(source, field) is not None), "")


def _id_of_disk(source: Volume | PersistentVolumeSpec, zones: tuple[str, ...]) -> VolumeId | None:
    """A disk of an in-tree plugin as its CSI driver knows it; None for one that is not counted."""
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
"""The field of a volume, the CSI driver that took it over, and its handle there; None if it is not counted."""


class _Classes(Protocol):
    def get(self, key: str, /) -> StorageClass | None: ...


class _Volumes(Protocol):
    def get(self, key: str, /) -> PersistentVolume | None: ...


class VolumesAndClasses(Protocol):
    """What a claim's volume is found by: a cluster's `Storage`, or whatever else knows objects by name."""

    @property
    def volumes(self) -> _Volumes: ...
    @property
    def classes(self) -> _Classes: ...


def id_of_claim(claim: PersistentVolumeClaim, storage: VolumesAndClasses) -> VolumeId | None:
    """What a claim stands for; None when it is not counted."""
    volume = _named(claim, storage)
    if volume is not None:
        return id_of_volume(volume)
    found = storage.classes.get(claim.class_name)
    driver = driver_of(found.provisioner) if found is not None else ""
    return VolumeId(driver, "", claim.key) if driver else None


def id_of_volume(volume: PersistentVolume) -> VolumeId | None:
    """A volume that exists; None for one that is not a CSI driver's, nor was taken over by one. A GCE disk's zone
    labels belong to its handle."""
    source = volume.spec.csi
    if source is not None:
        return VolumeId(source.driver, source.volume_handle) if source.driver and source.volume_handle else None
    labels = volume.metadata.labels
    label = labels.get(BETA_ZONE) or labels.get(ZONE, "")
    return _id_of_disk(volume.spec, tuple(label.split("__")) if label else ())


def id_of_inline(volume: Volume) -> VolumeId | None:
    """A disk that a pod names without a claim; None for everything else."""
    return _id_of_disk(volume, ())


def is_told_in_tree(claim: PersistentVolumeClaim, storage: VolumesAndClasses) -> bool:
    """Whether a claim's volume goes by an old plugin's name: a node without a CSINode does not count it at all."""
    volume = _named(claim, storage)
    if volume is not None:
        return volume.spec.csi is None
    found = storage.classes.get(claim.class_name)
    return found is not None and is_in_tree(found.provisioner)


def _named(claim: PersistentVolumeClaim, storage: VolumesAndClasses) -> PersistentVolume | None:
    name = claim.spec.volume_name
    return storage.volumes.get(name) if name else None
