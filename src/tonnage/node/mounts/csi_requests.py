"""CSI's requests for a wish, as a kubelet fills them in. Functions of what they are given; nothing is asked here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tonnage.csi import csi_pb2 as csi
from tonnage.node.mounts.mount_plan import Wish

_Mode = csi.VolumeCapability.AccessMode
_Rpc = csi.NodeServiceCapability.RPC

_MODES: Final = {
    "ReadWriteOnce": _Mode.SINGLE_NODE_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": _Mode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": _Mode.MULTI_NODE_MULTI_WRITER,
}
_FINER_MODES: Final = {
    "ReadWriteOnce": _Mode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_SINGLE_WRITER,
}
"""For drivers that tell apart how many pods of the one node may write."""


class Abilities:
    """What a driver's node service can do, read off its capabilities."""

    def __init__(self, told: csi.NodeGetCapabilitiesResponse) -> None:
        types = {capability.rpc.type for capability in told.capabilities}
        self.stages = _Rpc.STAGE_UNSTAGE_VOLUME in types
        self.expands = _Rpc.EXPAND_VOLUME in types
        self.tells_writers_apart = _Rpc.SINGLE_NODE_MULTI_WRITER in types
        self.mounts_for_group = _Rpc.VOLUME_MOUNT_GROUP in types


def capability(wish: Wish, can: Abilities) -> csi.VolumeCapability:
    modes = {**_MODES, **_FINER_MODES} if can.tells_writers_apart else _MODES
    mode = _Mode(mode=modes.get(wish.access_mode, _Mode.UNKNOWN))
    if wish.record.is_block:
        return csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=mode)
    group = str(wish.fs_group) if can.mounts_for_group and wish.fs_group is not None else ""
    mount = csi.VolumeCapability.MountVolume(
        fs_type=wish.fs_type, mount_flags=wish.mount_options, volume_mount_group=group
    )
    return csi.VolumeCapability(mount=mount, access_mode=mode)


def stage_request(
    wish: Wish, can: Abilities, *, staging: Path, publish_context: Mapping[str, str], secrets: Mapping[str, str]
) -> csi.NodeStageVolumeRequest:
    return csi.NodeStageVolumeRequest(
        volume_id=wish.record.handle,
        publish_context=publish_context,
        staging_target_path=str(staging),
        volume_capability=capability(wish, can),
        secrets=secrets,
        volume_context=wish.context,
    )


def publish_request(
    wish: Wish,
    can: Abilities,
    *,
    staging: Path,
    target: Path,
    publish_context: Mapping[str, str],
    secrets: Mapping[str, str],
) -> csi.NodePublishVolumeRequest:
    is_staged = can.stages and not wish.record.is_inline
    return csi.NodePublishVolumeRequest(
        volume_id=wish.record.handle,
        publish_context=publish_context,
        staging_target_path=str(staging) if is_staged else "",
        target_path=str(target),
        volume_capability=capability(wish, can),
        readonly=wish.read_only,
        secrets=secrets,
        volume_context={**wish.context, **wish.pod_info},
    )


def expand_request(
    wish: Wish, can: Abilities, *, staging: Path, target: Path, size_bytes: int, secrets: Mapping[str, str]
) -> csi.NodeExpandVolumeRequest:
    return csi.NodeExpandVolumeRequest(
        volume_id=wish.record.handle,
        volume_path=str(target),
        capacity_range=csi.CapacityRange(required_bytes=size_bytes),
        staging_target_path=str(staging) if can.stages else "",
        volume_capability=capability(wish, can),
        secrets=secrets,
    )
