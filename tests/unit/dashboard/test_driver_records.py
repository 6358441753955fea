"""What lies in the pools of an embedded cluster's driver, read from its records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.filled_cluster import FilledCluster
from tonnage.clock import SystemClock
from tonnage.dashboard.follow import driver_records
from tonnage.dashboard.follow.driver_records import DriverRecords, following_folder
from tonnage.dashboard.model.known_objects import DriverContents
from tonnage.dashboard.wire import NodeRow, NoticeRow
from tonnage.driver.node_pools import PoolId
from tonnage.driver.state.folder import StateFolder
from tonnage.driver.state.records import (
    SnapshotRecord,
    VolumeRecord,
    snapshot_id_of,
    volume_id_of,
)
from tonnage.testing.builders import node

GI = 1 << 30


def volume(name: str, node_name: str, pool: int, size: int) -> VolumeRecord:
    return VolumeRecord(
        volume_id=volume_id_of(name),
        name=name,
        order=1,
        node=node_name,
        pool=pool,
        capacity_bytes=size,
        access_type="mount",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StateFolder]:
    tmp_path.chmod(0o700)
    settings = {"nodes": 2, "pools": ["2x10Gi", "node-2=5Gi"]}
    (tmp_path / "cluster.json").write_text(json.dumps(settings))
    (tmp_path / "cluster.json").chmod(0o600)
    made = StateFolder(tmp_path / "driver")
    made.prepare()
    yield made
    made.close()


@pytest.fixture
def state_dir(folder: StateFolder) -> Path:
    return folder.path


def looked(records: DriverRecords) -> DriverContents:
    found = records.look()
    assert found is not None
    return found


def test_records_say_which_volume_lies_in_which_pool(folder: StateFolder, state_dir: Path):
    records = DriverRecords(state_dir.parent)
    assert looked(records).sizes == {"node-1": (10 * GI, 10 * GI), "node-2": (5 * GI,)}
    made = volume("pvc-1", "node-1", 1, 3 * GI)
    folder.save(made)
    taken = SnapshotRecord(
        snapshot_id=snapshot_id_of("s"),
        name="s",
        order=2,
        source_volume_id=made.id,
        node="node-2",
        pool=0,
        size_bytes=GI,
        access_type="mount",
        created_at_ns=1,
    )
    folder.save(taken)
    found = looked(records)
    assert [(each.place, each.bytes, each.name) for each in found.volumes.values()] == [
        (PoolId("node-1", 1), 3 * GI, "pvc-1")
    ]
    assert found.snapshots == {PoolId("node-2", 0): GI}
    folder.forget(made)
    assert not looked(records).volumes


def test_contents_that_no_record_names_are_found(state_dir: Path):
    pool = state_dir / "node-1" / "pool-0"
    pool.mkdir(parents=True, mode=0o700)
    (state_dir / "node-1").chmod(0o700)
    (pool / "stranger").write_bytes(b"x" * 5000)
    found = looked(DriverRecords(state_dir.parent))
    assert list(found.unknown) == [PoolId("node-1", 0)] and found.unknown[PoolId("node-1", 0)] >= 5000


def test_nothing_is_read_again_while_nothing_changes(
    folder: StateFolder, state_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver_records, "SAME_TIME_NS", -(1 << 62))  # however fresh the folder's time is
    folder.save(volume("pvc-1", "node-1", 0, GI))
    records = DriverRecords(state_dir.parent)
    looked(records)
    assert records.look() is None
    folder.save(volume("pvc-2", "node-1", 0, GI))
    assert len(looked(records).volumes) == 2


def test_a_record_that_cannot_be_read_hides_no_other(folder: StateFolder, state_dir: Path):
    folder.save(volume("pvc-1", "node-1", 0, GI))
    records = DriverRecords(state_dir.parent)
    looked(records)
    broken = state_dir / ".volumes" / f"{volume_id_of('pvc-2')}.json"
    broken.write_text("{")
    broken.chmod(0o600)
    assert [each.name for each in looked(records).volumes.values()] == ["pvc-1"]


async def test_pools_are_shown_while_the_block_runs_and_trouble_is_a_notice(state_dir: Path):
    cluster = FilledCluster(clock=SystemClock())
    cluster.put(node("node-1"))
    async with following_folder(cluster, state_dir.parent):
        assert [each.free for each in cluster.collections.of(NodeRow)["node-1"].pools] == [10 * GI, 10 * GI]
    (state_dir.parent / "cluster.json").write_text("[]")
    async with following_folder(cluster, state_dir.parent):
        assert "cannot be seen" in cluster.collections.of(NoticeRow)["pools"].text
