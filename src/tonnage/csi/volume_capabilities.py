"""How a volume is to be used, as every call about one says it: mounted or as a block device, and by whom."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.access_modes import AccessMode


def volume_capability(
    mode: csi.VolumeCapability.AccessMode.Mode,
    *,
    is_block: bool,
    fs_type: str = "",
    mount_flags: Iterable[str] = (),
    volume_mount_group: str = "",
) -> csi.VolumeCapability:
    """A block volume has no file system: its type, flags and group are left out."""
    access_mode = AccessMode(mode=mode)
    if is_block:
        return csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=access_mode)
    mount = csi.VolumeCapability.MountVolume(
        fs_type=fs_type, mount_flags=list(mount_flags), volume_mount_group=volume_mount_group
    )
    return csi.VolumeCapability(mount=mount, access_mode=access_mode)
