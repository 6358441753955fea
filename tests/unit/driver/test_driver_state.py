"""What a start finds, and what it clears away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.driver_builders import (
    controller,
    create,
    driver_at,
    node_publish,
    node_service,
    publish,
    stage,
)
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import StatusError
from tonnage.driver.state.records import StateFolderError, volume_id_of

GI = 1 << 30


async def test_everything_is_there_again_after_a_start(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state", "2x10Gi", max_volumes={"node-1": 1})
    made = (await controller(driver).CreateVolume(create("a", "4Gi"), None)).volume
    await controller(driver).ControllerPublishVolume(publish(made.volume_id, readonly=True), None)
    await node_service(driver).NodeStageVolume(stage(made.volume_id, tmp_path / "s"), None)
    await node_service(driver).NodePublishVolume(node_publish(made.volume_id, tmp_path / "s", tmp_path / "m"), None)
    taken = await controller(driver).CreateSnapshot(
        csi.CreateSnapshotRequest(name="s", source_volume_id=made.volume_id), None
    )
    allocations = driver.allocations
    driver.close()
    again = driver_at(tmp_path / "state", "2x10Gi", max_volumes={"node-1": 1})
    assert again.allocations.volumes == allocations.volumes
    assert again.allocations.snapshots == allocations.snapshots
    assert again.allocations.slots_in_use("node-1") == {made.volume_id}
    assert again.allocations.free_bytes("node-1") == (2 * GI, 10 * GI)
    assert (await controller(again).CreateVolume(create("a", "4Gi"), None)).volume == made
    # What is made later comes later in lists, also after a start.
    later = (await controller(again).CreateVolume(create("b"), None)).volume.volume_id
    assert again.volume(later).order > again.allocations.snapshots[taken.snapshot.snapshot_id].order


async def test_half_written_records_are_swept_and_nothing_else(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    kept = (await controller(driver).CreateVolume(create("kept"), None)).volume.volume_id
    driver.close()
    pool = tmp_path / "node-1" / "pool-0"
    (pool / volume_id_of("half") / "deep").mkdir(parents=True)
    (pool / f"snap-{'0' * 32}").touch()
    (pool / "notes.txt").touch()
    (tmp_path / "node-9" / "pool-3" / kept).mkdir(parents=True)
    (tmp_path / ".volumes" / f".{kept}.json.1").write_text('{"volume_id":')
    driver_at(tmp_path)
    assert sorted(path.name for path in pool.iterdir()) == sorted(
        ["notes.txt", kept, volume_id_of("half"), f"snap-{'0' * 32}"]
    )
    assert [path.name for path in (tmp_path / "node-9" / "pool-3").iterdir()] == [kept]
    assert [path.name for path in (tmp_path / ".volumes").iterdir()] == [f"{kept}.json"]


async def test_what_a_failed_write_left_of_a_record_is_not_in_the_way_of_the_next(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    made = (await controller(driver).CreateVolume(create("a"), None)).volume.volume_id
    (tmp_path / ".volumes" / f".{made}.json.{os.getpid()}").write_text("much longer than any record " * 100)
    await controller(driver).ControllerPublishVolume(publish(made), None)
    assert [path.name for path in (tmp_path / ".volumes").iterdir()] == [f"{made}.json"]
    driver.close()
    assert set(driver_at(tmp_path).volume(made).published) == {"node-1"}


async def test_a_link_that_cannot_be_made_stands_in_no_record(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "state")
    made = (await controller(driver).CreateVolume(create("a"), None)).volume.volume_id
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "volume").write_text("somebody's")
    with pytest.raises(StatusError):
        await node_service(driver).NodeStageVolume(stage(made, tmp_path / "s"), None)
    assert driver.volume(made).staged == {}
    (tmp_path / "s" / "volume").unlink()
    await node_service(driver).NodeStageVolume(stage(made, tmp_path / "s"), None)
    (tmp_path / "s" / "volume").unlink()
    await node_service(driver).NodeStageVolume(stage(made, tmp_path / "s"), None)  # no news for the record
    assert (tmp_path / "s" / "volume").is_symlink()


async def test_one_driver_at_a_time_has_a_folder(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    with pytest.raises(StateFolderError) as refused:
        driver_at(tmp_path)
    assert refused.value.message == f"{tmp_path} is in use by another driver"
    driver.close()
    driver_at(tmp_path).close()


def test_a_record_that_is_none_stops_the_start_and_loses_nothing(tmp_path: Path) -> None:
    driver_at(tmp_path).close()
    broken = tmp_path / ".volumes" / "vol-x.json"
    broken.write_text("{")
    with pytest.raises(StateFolderError, match=f"^{broken} cannot be read: "):
        driver_at(tmp_path)
    broken.unlink()
    driver_at(tmp_path).close()  # the folder was let go of


def test_records_are_for_their_owner_alone(tmp_path: Path) -> None:
    driver_at(tmp_path / "state").close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("node", ["", ".hidden", "a/b"])
def test_a_node_id_that_cannot_be_a_folder_is_refused(tmp_path: Path, node: str) -> None:
    with pytest.raises(StateFolderError) as refused:
        driver_at(tmp_path, nodes=(node,))
    assert refused.value.message == f'"{node}" cannot be a node id: each node has a folder of its name'


async def test_a_pool_that_became_smaller_than_what_is_in_it_has_nothing_free(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, "10Gi")
    await controller(driver).CreateVolume(create("a", "8Gi"), None)
    driver.close()
    assert driver_at(tmp_path, "5Gi").allocations.free_bytes("node-1") == (0,)
