"""CSI requests for a volume that is to be mounted, as a kubelet fills them in. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.access_modes import single_access_mode
from tonnage.csi.driver_capabilities import NodeCapabilities
from tonnage.csi.volume_capabilities import volume_capability
from tonnage.node.mounts.mount_plan import VolumeToMount


def capability(to_mount: VolumeToMount, can: NodeCapabilities) -> csi.VolumeCapability:
    mode = single_access_mode(to_mount.access_mode, single_node_multi_writer=can.single_node_multi_writer)
    is_group_told = can.volume_mount_group and to_mount.fs_group is not None
    return volume_capability(
        mode,
        is_block=to_mount.record.is_block,
        fs_type=to_mount.fs_type,
        mount_flags=to_mount.mount_options,
        volume_mount_group=str(to_mount.fs_group) if is_group_told else "",
    )


def stage_request(
    to_mount: VolumeToMount,
    can: NodeCapabilities,
    *,
    staging: Path,
    publish_context: Mapping[str, str],
    secrets: Mapping[str, str],
) -> csi.NodeStageVolumeRequest:
    return csi.NodeStageVolumeRequest(
        volume_id=to_mount.record.handle,
        publish_context=publish_context,
        staging_target_path=str(staging),
        volume_capability=capability(to_mount, can),
        secrets=secrets,
        volume_context=to_mount.context,
    )


def publish_request(
    to_mount: VolumeToMount,
    can: NodeCapabilities,
    *,
    staging: Path,
    target: Path,
    publish_context: Mapping[str, str],
    secrets: Mapping[str, str],
) -> csi.NodePublishVolumeRequest:
    is_staged = can.stage_unstage_volume and not to_mount.record.is_inline
    return csi.NodePublishVolumeRequest(
        volume_id=to_mount.record.handle,
        publish_context=publish_context,
        staging_target_path=str(staging) if is_staged else "",
        target_path=str(target),
        volume_capability=capability(to_mount, can),
        readonly=to_mount.read_only,
        secrets=secrets,
        volume_context={**to_mount.context, **to_mount.pod_info},
    )


def expand_request(
    to_mount: VolumeToMount,
    can: NodeCapabilities,
    *,
    staging: Path,
    target: Path,
    size_bytes: int,
    secrets: Mapping[str, str],
) -> csi.NodeExpandVolumeRequest:
    return csi.NodeExpandVolumeRequest(
        volume_id=to_mount.record.handle,
        volume_path=str(target),
        capacity_range=csi.CapacityRange(required_bytes=size_bytes),
        staging_target_path=str(staging) if can.stage_unstage_volume else "",
        volume_capability=capability(to_mount, can),
        secrets=secrets,
    )
