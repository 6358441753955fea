"""Volumes attached, staged and shown to pods, and the slots that they take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from support.driver_builders import (
    as_blocks,
    controller,
    create,
    driver_at,
    expand,
    mounted,
    node_publish,
    node_service,
    publish,
    stage,
    unpublish,
)
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError
from tonnage.driver.driver import Driver
from tonnage.driver.volumes.parameters import topology_of

GI = 1 << 30
SINGLE_WRITER = csi.VolumeCapability.AccessMode.SINGLE_NODE_SINGLE_WRITER


async def make(driver: Driver, name: str, node: str = "node-1") -> str:
    return (await controller(driver).CreateVolume(create(name, node=node), None)).volume.volume_id


async def refusal(call: Awaitable[object]) -> tuple[Code, str]:
    with pytest.raises(StatusError) as refused:
        await call
    return refused.value.code, refused.value.message


def unstage(volume_id: str, path: Path) -> csi.NodeUnstageVolumeRequest:
    return csi.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=str(path))


def node_unpublish(volume_id: str, path: Path) -> csi.NodeUnpublishVolumeRequest:
    return csi.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=str(path))


async def test_a_volume_is_published_once_however_often_it_is_asked(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    volume_id = await make(driver, "a")
    for _ in range(2):
        await controller(driver).ControllerPublishVolume(publish(volume_id), None)
    assert driver.allocations.slots_in_use("node-1") == {volume_id}
    assert await refusal(controller(driver).ControllerPublishVolume(publish(volume_id, readonly=True), None)) == (
        Code.ALREADY_EXISTS,
        f"volume {volume_id} is published on node-1 already, otherwise than asked",
    )
    for _ in range(2):
        await controller(driver).ControllerUnpublishVolume(unpublish(volume_id, "node-1"), None)
    assert driver.allocations.slots_in_use("node-1") == set()


async def test_a_volume_of_another_node_is_refused_without_rebuilding(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, nodes=("node-1", "node-2"))
    volume_id = await make(driver, "a")
    assert await refusal(controller(driver).ControllerPublishVolume(publish(volume_id, "node-2"), None)) == (
        Code.FAILED_PRECONDITION,
        f"volume {volume_id} lives on node-1 and cannot be used on node-2: this driver does not rebuild volumes",
    )


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (publish("", "node-1"), Code.INVALID_ARGUMENT, "volume_id is required"),
        (publish("vol-x", ""), Code.INVALID_ARGUMENT, "node_id is required"),
        (
            csi.ControllerPublishVolumeRequest(volume_id="vol-x", node_id="node-1"),
            Code.INVALID_ARGUMENT,
            "volume_capability is required",
        ),
        (publish("vol-x"), Code.NOT_FOUND, "there is no volume vol-x"),
    ],
)
async def test_what_cannot_be_published_is_said(
    tmp_path: Path, asked: csi.ControllerPublishVolumeRequest, code: Code, message: str
) -> None:
    assert await refusal(controller(driver_at(tmp_path)).ControllerPublishVolume(asked, None)) == (code, message)


async def test_blocks_of_a_mounted_volume_and_an_unknown_node_are_refused(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    volume_id = await make(driver, "a")
    service = controller(driver)
    asked = publish(volume_id, capability=as_blocks())
    assert await refusal(service.ControllerPublishVolume(asked, None)) == (
        Code.INVALID_ARGUMENT,
        f"volume {volume_id} is a mount volume, not a block volume",
    )
    assert await refusal(service.ControllerPublishVolume(publish(volume_id, "node-9"), None)) == (
        Code.NOT_FOUND,
        "there is no node node-9",
    )


async def test_a_node_takes_as_many_volumes_as_it_says_also_when_all_come_at_once(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, max_volumes={"node-1": 2})
    info = await node_service(driver).NodeGetInfo(csi.NodeGetInfoRequest(), None)
    assert info.max_volumes_per_node == 2
    assert (info.node_id, info.accessible_topology) == ("node-1", topology_of("node-1"))
    ids = [await make(driver, f"v{number}") for number in range(5)]
    calls = (controller(driver).ControllerPublishVolume(publish(volume_id), None) for volume_id in ids)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, StatusError)]
    assert {(one.code, one.message) for one in refused} == {
        (Code.RESOURCE_EXHAUSTED, "node-1 can take no further volume: 2 are attached, and its limit is 2")
    }
    assert len(refused) == 3


async def test_a_pod_sees_its_volume_through_links_and_both_go_again(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state")
    volume_id = await make(driver, "a")
    staging, target = tmp_path / "staging", tmp_path / "pod" / "mount"
    node = node_service(driver)
    await controller(driver).ControllerPublishVolume(publish(volume_id), None)
    for _ in range(2):
        await node.NodeStageVolume(stage(volume_id, staging), None)
        await node.NodePublishVolume(node_publish(volume_id, staging, target), None)
    (target / "file").write_text("data")
    assert (tmp_path / "state" / "node-1" / "pool-0" / volume_id / "file").read_text() == "data"
    assert (staging / "volume" / "file").read_text() == "data"
    for _ in range(2):
        await node.NodeUnpublishVolume(node_unpublish(volume_id, target), None)
        await node.NodeUnstageVolume(unstage(volume_id, staging), None)
    assert not target.is_symlink()
    assert list(staging.iterdir()) == []
    assert driver.volume(volume_id).staged == {}
    assert driver.allocations.slots_in_use("node-1") == {volume_id}  # attached still


async def test_an_empty_folder_that_the_caller_made_gives_way_to_the_link(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state")
    volume_id = await make(driver, "a")
    staging, target = tmp_path / "staging", tmp_path / "mount"
    target.mkdir()
    await node_service(driver).NodeStageVolume(stage(volume_id, staging), None)
    await node_service(driver).NodePublishVolume(node_publish(volume_id, staging, target), None)
    assert target.is_symlink()


async def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state")
    volume_id = await make(driver, "a")
    target = tmp_path / "mount"
    target.symlink_to(tmp_path)
    await node_service(driver).NodeUnpublishVolume(node_unpublish(volume_id, target), None)
    assert target.is_symlink()


@pytest.mark.parametrize("foreign", ["link", "link to its name", "file", "folder"])
async def test_what_somebody_else_put_at_a_target_is_neither_replaced_nor_removed(tmp_path: Path, foreign: str) -> None:
    driver = driver_at(tmp_path / "state")
    volume_id = await make(driver, "a")
    node, staging, target = node_service(driver), tmp_path / "staging", tmp_path / "mount"
    await node.NodeStageVolume(stage(volume_id, staging), None)
    await node.NodePublishVolume(node_publish(volume_id, staging, target), None)
    target.unlink()
    planted(target, foreign, volume_id)
    for call in (
        node.NodePublishVolume(node_publish(volume_id, staging, target), None),
        node.NodeUnpublishVolume(node_unpublish(volume_id, target), None),
    ):
        code, message = await refusal(call)
        assert code is Code.FAILED_PRECONDITION
        assert message.startswith(f"{target} is a ")
        assert "which this driver did not put there: it stays" in message
        assert "move it away, and ask again" in message
    (staging / "volume").unlink()
    planted(staging / "volume", foreign, volume_id)
    refused = await refusal(node.NodeStageVolume(stage(volume_id, staging), None))
    assert refused[0] is Code.FAILED_PRECONDITION
    refused = await refusal(node.NodeUnstageVolume(unstage(volume_id, staging), None))
    assert refused[0] is Code.FAILED_PRECONDITION
    assert still_there(target) and still_there(staging / "volume")
    # Once it is out of the way, everything ends as it should.
    for path in (target, staging / "volume"):
        path.rename(path.with_name("away"))
    await node.NodeUnpublishVolume(node_unpublish(volume_id, target), None)
    await node.NodeUnstageVolume(unstage(volume_id, staging), None)
    assert driver.volume(volume_id).users == set()


def planted(path: Path, kind: str, volume_id: str) -> None:
    """Something of somebody else's at a path, and data behind it."""
    home = path.parent / "home"
    home.mkdir()
    (home / volume_id).write_text("precious")
    if kind == "link":
        path.symlink_to(home)
    elif kind == "link to its name":
        path.symlink_to(home / volume_id)
    elif kind == "file":
        path.write_text("precious")
    else:
        path.mkdir()
        (path / "precious").write_text("precious")


def still_there(path: Path) -> bool:
    (precious,) = (path.parent / "home").iterdir()
    return path.exists() and precious.read_text() == "precious"


async def test_a_link_into_a_state_folder_that_has_moved_is_put_right_and_removed(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "old")
    volume_id = await make(driver, "a")
    staging, target = tmp_path / "staging", tmp_path / "mount"
    await node_service(driver).NodeStageVolume(stage(volume_id, staging), None)
    await node_service(driver).NodePublishVolume(node_publish(volume_id, staging, target), None)
    driver.close()
    (tmp_path / "old").rename(tmp_path / "new")
    node = node_service(driver_at(tmp_path / "new"))
    await node.NodePublishVolume(node_publish(volume_id, staging, target), None)
    assert target.readlink() == tmp_path / "new" / "node-1" / "pool-0" / volume_id
    await node.NodeUnpublishVolume(node_unpublish(volume_id, target), None)
    await node.NodeUnstageVolume(unstage(volume_id, staging), None)
    assert not target.is_symlink()
    assert list(staging.iterdir()) == []


async def test_staging_without_attaching_takes_the_slot(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state", max_volumes={"node-1": 1})
    first, second = await make(driver, "a"), await make(driver, "b")
    node = node_service(driver)
    await node.NodeStageVolume(stage(first, tmp_path / "one"), None)
    assert await refusal(node.NodeStageVolume(stage(second, tmp_path / "two"), None)) == (
        Code.RESOURCE_EXHAUSTED,
        "node-1 can take no further volume: 1 are attached, and its limit is 1",
    )
    await node.NodeUnstageVolume(unstage(first, tmp_path / "one"), None)
    await node.NodeStageVolume(stage(second, tmp_path / "two"), None)


async def test_a_volume_is_staged_before_it_is_published_and_at_one_path(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state")
    volume_id = await make(driver, "a")
    node, target = node_service(driver), tmp_path / "mount"
    asked = node_publish(volume_id, tmp_path / "staging", target)
    assert await refusal(node.NodePublishVolume(asked, None)) == (
        Code.FAILED_PRECONDITION,
        f"volume {volume_id} is not staged at {tmp_path}/staging on node-1",
    )
    asked.staging_target_path = ""
    assert await refusal(node.NodePublishVolume(asked, None)) == (
        Code.FAILED_PRECONDITION,
        "staging_target_path is required: stage the volume first",
    )
    await node.NodeStageVolume(stage(volume_id, tmp_path / "staging"), None)
    assert await refusal(node.NodeStageVolume(stage(volume_id, tmp_path / "other"), None)) == (
        Code.ALREADY_EXISTS,
        f"volume {volume_id} is staged at {tmp_path}/staging already, or with another capability",
    )
    assert await refusal(node.NodeStageVolume(stage(volume_id, Path("staging")), None)) == (
        Code.INVALID_ARGUMENT,
        'staging_target_path="staging" is not an absolute path',
    )


async def test_many_pods_of_a_node_share_a_volume_unless_it_is_for_a_single_writer(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state")
    node = node_service(driver)
    shared, single = await make(driver, "a"), await make(driver, "b")
    one, two = tmp_path / "one", tmp_path / "two"
    await node.NodeStageVolume(stage(shared, tmp_path / "s"), None)
    for target in (one, two):
        await node.NodePublishVolume(node_publish(shared, tmp_path / "s", target), None)
    assert await refusal(node.NodePublishVolume(node_publish(shared, tmp_path / "s", two, readonly=True), None)) == (
        Code.ALREADY_EXISTS,
        f"volume {shared} is published at {two} already, otherwise than asked",
    )
    alone = mounted(SINGLE_WRITER)
    await node.NodeStageVolume(stage(single, tmp_path / "t", capability=alone), None)
    await node.NodePublishVolume(node_publish(single, tmp_path / "t", tmp_path / "three", capability=alone), None)
    asked = node_publish(single, tmp_path / "t", tmp_path / "four", capability=alone)
    assert await refusal(node.NodePublishVolume(asked, None)) == (
        Code.FAILED_PRECONDITION,
        f"volume {single} is for a single writer, and published at {tmp_path}/three already",
    )


async def test_a_forced_detach_frees_the_slot_and_late_unstaging_still_works(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state")
    volume_id = await make(driver, "a")
    node, staging, target = node_service(driver), tmp_path / "staging", tmp_path / "mount"
    await controller(driver).ControllerPublishVolume(publish(volume_id), None)
    await node.NodeStageVolume(stage(volume_id, staging), None)
    await node.NodePublishVolume(node_publish(volume_id, staging, target), None)
    await controller(driver).ControllerUnpublishVolume(unpublish(volume_id), None)
    assert driver.allocations.slots_in_use("node-1") == set()
    await controller(driver).DeleteVolume(csi.DeleteVolumeRequest(volume_id=volume_id), None)
    await node.NodeUnpublishVolume(node_unpublish(volume_id, target), None)
    await node.NodeUnstageVolume(unstage(volume_id, staging), None)
    assert not target.is_symlink()


async def test_stats_tell_what_is_in_a_volume_and_of_blocks_the_size(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state")
    node = node_service(driver)
    volume_id = await make(driver, "a")
    await node.NodeStageVolume(stage(volume_id, tmp_path / "s"), None)
    (tmp_path / "s" / "volume" / "file").write_bytes(b"x" * 8192)
    asked = csi.NodeGetVolumeStatsRequest(volume_id=volume_id, volume_path=str(tmp_path / "s"))
    told = await node.NodeGetVolumeStats(asked, None)
    used, inodes = told.usage
    assert (used.unit, used.total, used.available) == (csi.VolumeUsage.BYTES, GI, GI - used.used)
    assert 8192 <= used.used < 100_000
    assert (inodes.unit, inodes.used) == (csi.VolumeUsage.INODES, 2)
    asked.volume_path = "/elsewhere"
    assert await refusal(node.NodeGetVolumeStats(asked, None)) == (
        Code.NOT_FOUND,
        f"volume {volume_id} is not at /elsewhere on node-1",
    )
    request = create("b", capability=as_blocks())
    blocks = (await controller(driver).CreateVolume(request, None)).volume.volume_id
    await node.NodeStageVolume(stage(blocks, tmp_path / "t", capability=as_blocks()), None)
    asked = csi.NodeGetVolumeStatsRequest(volume_id=blocks, volume_path=str(tmp_path / "t"))
    assert list((await node.NodeGetVolumeStats(asked, None)).usage) == [
        csi.VolumeUsage(unit=csi.VolumeUsage.BYTES, total=GI)
    ]


async def test_a_node_expands_what_the_controller_has_expanded_and_no_more(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state")
    node = node_service(driver)
    volume_id = await make(driver, "a")
    await node.NodeStageVolume(stage(volume_id, tmp_path / "s"), None)
    asked = csi.NodeExpandVolumeRequest(
        volume_id=volume_id, volume_path=str(tmp_path / "s"), capacity_range=csi.CapacityRange(required_bytes=2 * GI)
    )
    assert await refusal(node.NodeExpandVolume(asked, None)) == (
        Code.OUT_OF_RANGE,
        f"volume {volume_id} has 1Gi, not 2Gi: expand it with ControllerExpandVolume first",
    )
    await controller(driver).ControllerExpandVolume(expand(volume_id, 2 * GI), None)
    assert (await node.NodeExpandVolume(asked, None)).capacity_bytes == 2 * GI
