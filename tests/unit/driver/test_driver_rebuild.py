"""RebuildController a volume on another node."""

from __future__ import annotations

from collections.abc import Awaitable, Container
from pathlib import Path

import pytest

from support.driver_builders import (
    controller,
    create,
    driver_at,
    node_publish,
    node_service,
    publish,
    rebuild,
    stage,
    unpublish,
)
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError
from tonnage.driver.driver import Driver, RebuildHooks

GI = 1 << 30
NODES = ("node-1", "node-2")


class Watch:
    """Which nodes are cordoned and gone, and what has moved."""

    def __init__(self, *, cordoned: Container[str] = (), gone: Container[str] = ()) -> None:
        self.moved: list[tuple[str, str, str]] = []
        self.hooks = RebuildHooks(
            may_leave=lambda node: node in cordoned or node in gone,
            is_gone=lambda node: node in gone,
            on_rebuilt=lambda *move: self.moved.append(move),
        )


async def make(driver: Driver, name: str = "a", size: str = "4Gi") -> str:
    volume_id = (await controller(driver).CreateVolume(create(name, size, node="node-1"), None)).volume.volume_id
    (driver.folder.contents_of(driver.volume(volume_id)) / "file").write_text(name)
    return volume_id


async def refusal(call: Awaitable[object]) -> tuple[Code, str]:
    with pytest.raises(StatusError) as refused:
        await call
    return refused.value.code, refused.value.message


@pytest.mark.parametrize(("pool", "is_there"), [("4352Mi", False), ("4356Mi", True)])
async def test_a_rebuild_takes_what_the_class_says_on_top_and_strictly_more(
    tmp_path: Path, pool: str, is_there: bool
) -> None:
    watch = Watch(cordoned={"node-1"})
    pools = ("node-1=10Gi", f"node-2={pool}")
    driver = driver_at(tmp_path, *pools, nodes=NODES, rebuild=True, hooks=watch.hooks)
    asked = create("a", "4Gi", node="node-1", parameters={"size-rules": "overhead=256Mi,strict"})
    volume_id = (await controller(driver).CreateVolume(asked, None)).volume.volume_id
    call = controller(driver).ControllerPublishVolume(publish(volume_id, "node-2"), None)
    if is_there:
        await call
    else:
        assert (await refusal(call))[0] is Code.FAILED_PRECONDITION
    assert driver.node_of(volume_id) == ("node-2" if is_there else "node-1")


async def test_publishing_elsewhere_rebuilds_a_volume_of_a_cordoned_node(tmp_path: Path) -> None:
    watch = Watch(cordoned={"node-1"})
    driver = driver_at(tmp_path, nodes=NODES, rebuild=True, hooks=watch.hooks)
    volume_id = await make(driver)
    for _ in range(2):
        await controller(driver).ControllerPublishVolume(publish(volume_id, "node-2"), None)
    assert driver.node_of(volume_id) == "node-2"
    assert (tmp_path / "node-2" / "pool-0" / volume_id / "file").read_text() == "a"
    assert not (tmp_path / "node-1" / "pool-0" / volume_id).exists()
    assert watch.moved == [(volume_id, "node-1", "node-2")]
    assert [driver.allocations.free_bytes(node) for node in NODES] == [(10 * GI,), (6 * GI,)]


async def test_staging_elsewhere_rebuilds_where_nothing_is_attached(tmp_path: Path) -> None:
    watch = Watch(cordoned={"node-1"})
    driver = driver_at(tmp_path / "state", nodes=NODES, rebuild=True, hooks=watch.hooks)
    volume_id = await make(driver)
    staging, target = tmp_path / "staging", tmp_path / "mount"
    await node_service(driver, "node-2").NodeStageVolume(stage(volume_id, staging), None)
    await node_service(driver, "node-2").NodePublishVolume(node_publish(volume_id, staging, target), None)
    assert (target / "file").read_text() == "a"
    assert watch.moved == [(volume_id, "node-1", "node-2")]


@pytest.mark.parametrize(
    ("rebuild", "cordoned", "reason"),
    [
        (False, {"node-1"}, "this driver does not rebuild volumes"),
        (True, set(), "node-1 is not out of use"),
    ],
)
async def test_a_volume_stays_unless_it_may_leave(
    tmp_path: Path, rebuild: bool, cordoned: set[str], reason: str
) -> None:
    watch = Watch(cordoned=cordoned)
    driver = driver_at(tmp_path / "state", nodes=NODES, rebuild=rebuild, hooks=watch.hooks)
    volume_id = await make(driver)
    refused = (Code.FAILED_PRECONDITION, f"volume {volume_id} lives on node-1 and cannot be used on node-2: {reason}")
    assert await refusal(controller(driver).ControllerPublishVolume(publish(volume_id, "node-2"), None)) == refused
    staged = node_service(driver, "node-2").NodeStageVolume(stage(volume_id, tmp_path / "s"), None)
    assert await refusal(staged) == refused
    assert driver.node_of(volume_id) == "node-1"


async def test_a_volume_in_use_on_a_cordoned_node_stays_until_it_is_let_go(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, nodes=NODES, rebuild=True, hooks=Watch(cordoned={"node-1"}).hooks)
    volume_id = await make(driver)
    await controller(driver).ControllerPublishVolume(publish(volume_id, "node-1"), None)
    assert await refusal(controller(driver).ControllerPublishVolume(publish(volume_id, "node-2"), None)) == (
        Code.FAILED_PRECONDITION,
        f"volume {volume_id} is published on node-1 already",
    )
    await controller(driver).ControllerUnpublishVolume(unpublish(volume_id, "node-1"), None)
    await controller(driver).ControllerPublishVolume(publish(volume_id, "node-2"), None)
    assert driver.node_of(volume_id) == "node-2"


async def test_a_volume_in_use_on_a_node_that_is_gone_is_recovered(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state", nodes=NODES, rebuild=True, hooks=Watch(gone={"node-1"}).hooks)
    volume_id = await make(driver)
    await controller(driver).ControllerPublishVolume(publish(volume_id, "node-1"), None)
    await node_service(driver).NodeStageVolume(stage(volume_id, tmp_path / "s"), None)
    await controller(driver).ControllerPublishVolume(publish(volume_id, "node-2"), None)
    record = driver.volume(volume_id)
    assert (record.node, sorted(record.published), record.staged) == ("node-2", ["node-2"], {})
    assert driver.allocations.slots_in_use("node-1") == set()


async def test_a_volume_of_a_node_that_the_driver_no_longer_plays_is_recovered(tmp_path: Path) -> None:
    first = driver_at(tmp_path, nodes=NODES)
    volume_id = await make(first)
    first.close()
    driver = driver_at(tmp_path, nodes=("node-2",), rebuild=True)
    assert driver.volumes_on("node-1") == (volume_id,)
    await controller(driver).ControllerPublishVolume(publish(volume_id, "node-2"), None)
    assert (tmp_path / "node-2" / "pool-0" / volume_id / "file").read_text() == "a"


async def test_room_is_needed_on_the_new_node(tmp_path: Path) -> None:
    watch = Watch(cordoned={"node-1"})
    driver = driver_at(tmp_path, "node-1=10Gi", "node-2=2x3Gi", nodes=NODES, rebuild=True, hooks=watch.hooks)
    volume_id = await make(driver)
    # 6Gi are free on node-2, and 4Gi in no pool of it. ResourceExhausted would be read as "no attach slot".
    assert await refusal(controller(driver).ControllerPublishVolume(publish(volume_id, "node-2"), None)) == (
        Code.FAILED_PRECONDITION,
        f"volume {volume_id} cannot be rebuilt on node-2: no pool has room for 4Gi, the most that one has free is 3Gi",
    )
    assert driver.node_of(volume_id) == "node-1"
    assert watch.moved == []
    assert driver.allocations.slots_in_use("node-2") == set()


async def test_a_slot_is_needed_before_anything_is_copied(tmp_path: Path) -> None:
    watch = Watch(cordoned={"node-1"})
    driver = driver_at(tmp_path, nodes=NODES, rebuild=True, hooks=watch.hooks, max_volumes={"node-2": 1})
    first, second = await make(driver, "a"), await make(driver, "b")
    await controller(driver).ControllerPublishVolume(publish(first, "node-2"), None)
    code, _ = await refusal(controller(driver).ControllerPublishVolume(publish(second, "node-2"), None))
    assert code is Code.RESOURCE_EXHAUSTED
    assert driver.node_of(second) == "node-1"


async def test_rebuild_by_hand_asks_nobody_and_is_done_once(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, nodes=NODES)
    volume_id = await make(driver)
    assert await rebuild(driver, volume_id, "node-2") is True
    assert await rebuild(driver, volume_id, "node-2") is False
    assert await refusal(rebuild(driver, "vol-x", "node-2")) == (Code.NOT_FOUND, "there is no volume vol-x")


async def test_lost_contents_are_not_passed_off_as_an_empty_volume(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, nodes=NODES)
    volume_id = (await controller(driver).CreateVolume(create("a", node="node-1"), None)).volume.volume_id
    (tmp_path / "node-1" / "pool-0" / volume_id).rmdir()
    assert await refusal(rebuild(driver, volume_id, "node-2")) == (
        Code.DATA_LOSS,
        f"volume {volume_id} has no contents left on node-1",
    )
    assert driver.allocations.free_bytes("node-2") == (10 * GI,)


async def test_a_node_deployment_rebuilds_on_its_own_node(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, nodes=NODES, rebuild=True, hooks=Watch(cordoned={"node-1"}).hooks)
    volume_id = await make(driver)
    await controller(driver, "node-2").ControllerPublishVolume(publish(volume_id, "node-2"), None)
    listed = await controller(driver, "node-2").ListVolumes(csi.ListVolumesRequest(), None)
    assert [entry.volume.volume_id for entry in listed.entries] == [volume_id]


async def test_a_volume_that_nobody_heard_of_is_brought_to_the_node_that_is_asked_for_next(tmp_path: Path) -> None:
    """Its provisioner died before the answer came, its node went, and the scheduler chose another."""
    watch = Watch(gone=("node-1",))
    driver = driver_at(tmp_path, nodes=NODES, rebuild=True, hooks=watch.hooks)
    volume_id = await make(driver)
    answer = await controller(driver).CreateVolume(create("a", "4Gi", node="node-2"), None)
    assert answer.volume.volume_id == volume_id
    assert [dict(each.segments) for each in answer.volume.accessible_topology] == [
        {"topology.tonnage.dev/node": "node-2"}
    ]
    assert driver.node_of(volume_id) == "node-2" and watch.moved == [(volume_id, "node-1", "node-2")]
    assert (driver.folder.contents_of(driver.volume(volume_id)) / "file").read_text() == "a"


async def test_a_volume_that_may_not_leave_or_is_used_is_not_brought_anywhere_by_its_name(tmp_path: Path) -> None:
    watch, refused = Watch(cordoned=("node-1",)), 'there is a volume with the name "a" already, and it lives on node-1'
    driver = driver_at(tmp_path / "stays", nodes=NODES, rebuild=True, hooks=Watch().hooks)
    await make(driver)
    asked = controller(driver).CreateVolume(create("a", "4Gi", node="node-2"), None)
    assert await refusal(asked) == (Code.ALREADY_EXISTS, refused)
    driver = driver_at(tmp_path / "used", nodes=NODES, rebuild=True, hooks=watch.hooks)
    await controller(driver).ControllerPublishVolume(publish(await make(driver), "node-1"), None)
    asked = controller(driver).CreateVolume(create("a", "4Gi", node="node-2"), None)
    assert await refusal(asked) == (Code.ALREADY_EXISTS, refused)


async def test_without_room_on_the_node_that_is_asked_for_next_the_scheduler_is_to_choose_another(
    tmp_path: Path,
) -> None:
    driver = driver_at(tmp_path, nodes=NODES, rebuild=True, hooks=Watch(cordoned=("node-1",)).hooks)
    await make(driver)
    await controller(driver).CreateVolume(create("big", "8Gi", node="node-2"), None)
    code, _ = await refusal(controller(driver).CreateVolume(create("a", "4Gi", node="node-2"), None))
    assert code is Code.RESOURCE_EXHAUSTED
