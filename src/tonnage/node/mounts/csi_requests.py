"""CSI's requests for a wish, as a kubelet fills them in. Functions of what they are given; nothing is asked here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.access_modes import single_access_mode
from tonnage.csi.driver_capabilities import NodeCapabilities
from tonnage.csi.volume_capabilities import volume_capability
from tonnage.node.mounts.mount_plan import Wish


def capability(wish: Wish, can: NodeCapabilities) -> csi.VolumeCapability:
    mode = single_access_mode(wish.access_mode, single_node_multi_writer=can.single_node_multi_writer)
    is_group_told = can.volume_mount_group and wish.fs_group is not None
    return volume_capability(
        mode,
        is_block=wish.record.is_block,
        fs_type=wish.fs_type,
        mount_flags=wish.mount_options,
        volume_mount_group=str(wish.fs_group) if is_group_told else "",
    )


def stage_request(
    wish: Wish, can: NodeCapabilities, *, staging: Path, publish_context: Mapping[str, str], secrets: Mapping[str, str]
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
    can: NodeCapabilities,
    *,
    staging: Path,
    target: Path,
    publish_context: Mapping[str, str],
    secrets: Mapping[str, str],
) -> csi.NodePublishVolumeRequest:
    is_staged = can.stage_unstage_volume and not wish.record.is_inline
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
    wish: Wish, can: NodeCapabilities, *, staging: Path, target: Path, size_bytes: int, secrets: Mapping[str, str]
) -> csi.NodeExpandVolumeRequest:
    return csi.NodeExpandVolumeRequest(
        volume_id=wish.record.handle,
        volume_path=str(target),
        capacity_range=csi.CapacityRange(required_bytes=size_bytes),
        staging_target_path=str(staging) if can.stage_unstage_volume else "",
        volume_capability=capability(wish, can),
        secrets=secrets,
    )
