"""When are two volumes one volume? What attach limits count.

    made       (driver, handle)                 whichever claim, pod or volume object names it
    pending    (driver of the class, claim)     it is still to be made; the claim stands for it
    in-tree    as the CSI driver that took the plugin over knows it (`migrated_plugins.py`)

A claim that names a volume nobody knows counts as pending: the volume may be gone, or not there yet. A claim whose
class is unknown counts nowhere, for it can only be bound by hand.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Volume
from tonnage.objects.storage_v1 import StorageClass
from tonnage.scheduling.volumes.migrated_plugins import driver_of, inline_name, is_in_tree, volume_name


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


class VolumeId(NamedTuple):
    """Equal for the same volume. One that is pending has no handle yet, but its claim's namespace/name."""

    driver: str
    handle: str
    claim: str = ""


def id_of_claim(claim: PersistentVolumeClaim, storage: VolumesAndClasses) -> VolumeId | None:
    """What a claim stands for; None when it is not counted."""
    volume = _named(claim, storage)
    if volume is not None:
        return id_of_volume(volume)
    found = storage.classes.get(claim.class_name)
    driver = driver_of(found.provisioner) if found is not None else ""
    return VolumeId(driver, "", claim.key) if driver else None


def id_of_volume(volume: PersistentVolume) -> VolumeId | None:
    """A volume that exists; None for one that is not a CSI driver's, nor was taken over by one."""
    source = volume.spec.csi
    if source is not None:
        return VolumeId(source.driver, source.volume_handle) if source.driver and source.volume_handle else None
    found = volume_name(volume)
    return None if found is None else VolumeId(*found)


def id_of_inline(volume: Volume) -> VolumeId | None:
    """A disk that a pod names without a claim; None for everything else."""
    found = inline_name(volume)
    return None if found is None else VolumeId(*found)


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
