"""The identity of a volume, as attach limits count it: equal ids are one volume.

    existing   (driver, handle)                 whichever claim, pod or PersistentVolume names it
    pending    (driver of the class, claim)     the claim has no volume yet, or names an unknown one
    in-tree    the id that the plugin's CSI driver would use (csi-translation-lib)

Azure files and vSphere disks have a CSI driver but are not counted, like upstream (isCSIMigrationOn).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Volume
from tonnage.objects.core_v1.node import BETA_ZONE, ZONE
from tonnage.objects.core_v1.persistent_volume import PersistentVolumeSpec
from tonnage.scheduling.cluster.storage import Storage

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
