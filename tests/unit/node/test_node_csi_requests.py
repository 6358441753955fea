"""CSI's requests as a kubelet fills them in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.driver_capabilities import NodeCapabilities
from tonnage.node.mounts.mount_paths import MountRecord
from tonnage.node.mounts.mount_plan import VolumeToMount
from tonnage.node.mounts.mounter import capability, expand_request, publish_request, stage_request

Rpc = csi.NodeServiceCapability.RPC
Mode = csi.VolumeCapability.AccessMode
STAGING, TARGET = Path("/s"), Path("/t")


def can(*rpcs: int) -> NodeCapabilities:
    return NodeCapabilities(frozenset(rpcs))


def to_mount(*, is_block: bool = False, is_inline: bool = False, **options: Any) -> VolumeToMount:
    record = MountRecord(driver="d", handle="h1", name="pv-1", pod_uid="u1", is_block=is_block, is_inline=is_inline)
    return VolumeToMount(pod_volume="v", record=record, **{"context": {"pool": "p"}, "pod_info": {}, **options})


@pytest.mark.parametrize(
    ("mode", "plain", "finer"),
    [
        ("ReadWriteOnce", Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER),
        ("ReadWriteOncePod", Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_SINGLE_WRITER),
        ("ReadOnlyMany", Mode.MULTI_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY),
        ("ReadWriteMany", Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_MULTI_WRITER),
    ],
)
def test_access_modes_are_finer_for_drivers_that_tell_writers_apart(mode: str, plain: int, finer: int):
    assert capability(to_mount(access_mode=mode), can()).access_mode.mode == plain
    assert capability(to_mount(access_mode=mode), can(Rpc.SINGLE_NODE_MULTI_WRITER)).access_mode.mode == finer


def test_a_filesystem_carries_its_type_its_options_and_the_group_if_the_driver_wants_it():
    asked = to_mount(fs_type="xfs", mount_options=("ro",), fs_group=1000)
    assert capability(asked, can()).mount == csi.VolumeCapability.MountVolume(fs_type="xfs", mount_flags=["ro"])
    assert capability(asked, can(Rpc.VOLUME_MOUNT_GROUP)).mount.volume_mount_group == "1000"


def test_a_block_volume_has_no_filesystem():
    found = capability(to_mount(is_block=True, fs_type="xfs"), can())
    assert found.HasField("block") and not found.HasField("mount")


def test_staging_tells_the_volumes_context_and_what_attaching_answered():
    asked = stage_request(to_mount(), can(), staging=STAGING, publish_context={"dev": "x"}, secrets={"k": "v"})
    assert (asked.volume_id, asked.staging_target_path) == ("h1", "/s")
    assert [dict(each) for each in (asked.publish_context, asked.secrets, asked.volume_context)] == [
        {"dev": "x"},
        {"k": "v"},
        {"pool": "p"},
    ]


def test_publishing_names_the_staging_path_only_where_the_driver_stages_and_adds_the_pod():
    named: dict[str, Any] = {"staging": STAGING, "target": TARGET, "publish_context": {}, "secrets": {}}
    asked = publish_request(to_mount(pod_info={"pod": "p"}, read_only=True), can(Rpc.STAGE_UNSTAGE_VOLUME), **named)
    assert (asked.staging_target_path, asked.target_path, asked.readonly) == ("/s", "/t", True)
    assert asked.volume_context == {"pool": "p", "pod": "p"}
    assert publish_request(to_mount(), can(), **named).staging_target_path == ""
    inline = publish_request(to_mount(is_inline=True), can(Rpc.STAGE_UNSTAGE_VOLUME), **named)
    assert inline.staging_target_path == ""


def test_expanding_asks_for_the_volumes_new_size():
    asked = expand_request(
        to_mount(), can(Rpc.STAGE_UNSTAGE_VOLUME), staging=STAGING, target=TARGET, size_bytes=2**31, secrets={}
    )
    assert asked.capacity_range.required_bytes == 2**31
    assert (asked.volume_path, asked.staging_target_path) == ("/t", "/s")
