"""CSI's requests as a kubelet fills them in."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.node_context import node_context
from support.scripted_driver import ScriptedDriver
from tonnage.clock import SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.driver_capabilities import NodeCapabilities
from tonnage.node.drivers import Drivers
from tonnage.node.mounts.mount_paths import MountRecord
from tonnage.node.mounts.mount_plan import VolumeToMount
from tonnage.node.mounts.mounter import Mounter, capability

Rpc = csi.NodeServiceCapability.RPC
Mode = csi.VolumeCapability.AccessMode


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


class Node:
    """One node with a driver that notes what it is asked."""

    def __init__(self, folder: Path, *, stages: bool = True) -> None:
        address = f"unix://{folder}/csi.sock"
        self.plugin = ScriptedDriver(address, node_id="node", name="d", stages=stages)
        context = node_context("node", folder, address, clock=SystemClock())
        self.drivers = Drivers(context, lambda _: None)
        self.mounter = Mounter(context, self.drivers)

    def asked(self, method: str) -> Any:
        (found,) = self.plugin.asked(method)
        return found


@asynccontextmanager
async def running(*, stages: bool = True) -> AsyncIterator[Node]:
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        node = Node(Path(folder), stages=stages)
        async with node.plugin.served():
            await node.drivers.poll()
            yield node
            await node.drivers.close()


async def test_staging_tells_the_volumes_context_and_what_attaching_answered():
    async with running() as node:
        await node.mounter.mount(to_mount(), publish_context={"dev": "x"})
        asked = node.asked("NodeStageVolume")
        assert asked.volume_id == "h1"
        assert asked.staging_target_path == str(node.mounter.paths.staging(to_mount().record))
        assert (dict(asked.publish_context), dict(asked.volume_context)) == ({"dev": "x"}, {"pool": "p"})


async def test_publishing_names_the_staging_path_only_where_the_driver_stages_and_adds_the_pod():
    async with running() as node:
        await node.mounter.mount(to_mount(pod_info={"pod": "p"}, read_only=True), publish_context={})
        asked, paths, record = node.asked("NodePublishVolume"), node.mounter.paths, to_mount().record
        assert (asked.staging_target_path, asked.target_path) == (str(paths.staging(record)), str(paths.target(record)))
        assert asked.readonly and asked.volume_context == {"pool": "p", "pod": "p"}
    async with running(stages=False) as node:
        await node.mounter.mount(to_mount(), publish_context={})
        assert node.asked("NodePublishVolume").staging_target_path == ""
    async with running() as node:
        await node.mounter.mount(to_mount(is_inline=True), publish_context={})
        assert node.asked("NodePublishVolume").staging_target_path == ""


async def test_expanding_asks_for_the_volumes_new_size():
    async with running() as node:
        await node.mounter.ask_to_expand(to_mount(), node.drivers.get("d"), 2**31)
        asked, paths, record = node.asked("NodeExpandVolume"), node.mounter.paths, to_mount().record
        assert asked.capacity_range.required_bytes == 2**31
        assert (asked.volume_path, asked.staging_target_path) == (str(paths.target(record)), str(paths.staging(record)))
