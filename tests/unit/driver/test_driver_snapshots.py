"""Snapshots and clones: copies with room of their own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.driver_builders import as_blocks, controller, create, driver_at
from support.virtual_clock import VirtualClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError
from tonnage.driver.controller_service import ControllerService

GI = 1 << 30


async def make(service: ControllerService, asked: csi.CreateVolumeRequest) -> str:
    return (await service.CreateVolume(asked, None)).volume.volume_id


async def snapshot(service: ControllerService, name: str, volume_id: str) -> csi.Snapshot:
    asked = csi.CreateSnapshotRequest(name=name, source_volume_id=volume_id)
    return (await service.CreateSnapshot(asked, None)).snapshot


async def test_a_snapshot_keeps_what_was_there_and_takes_room_of_its_own(tmp_path: Path) -> None:
    clock = VirtualClock(datetime(2026, 11, 15, 8, 0, 0, 250000, UTC))
    driver = driver_at(tmp_path, "10Gi,10Gi", clock=clock)
    service = controller(driver)
    volume_id = await make(service, create("a", "4Gi"))
    at = tmp_path / "node-1" / "pool-0"
    (at / volume_id / "file").write_text("before")
    taken = await snapshot(service, "s", volume_id)
    (at / volume_id / "file").write_text("after")
    assert (at / taken.snapshot_id / "file").read_text() == "before"
    assert (taken.size_bytes, taken.ready_to_use, taken.source_volume_id) == (4 * GI, True, volume_id)
    assert taken.creation_time.ToDatetime(UTC) == clock.now()
    # The volume and the snapshot, 4Gi each, in one pool of 10Gi.
    assert driver.allocations.free_bytes("node-1") == (2 * GI, 10 * GI)
    assert await snapshot(service, "s", volume_id) == taken


async def test_a_snapshot_outlives_its_volume_and_fills_a_new_one_on_another_node(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, nodes=("node-1", "node-2"))
    service = controller(driver)
    volume_id = await make(service, create("a", "4Gi", node="node-1"))
    (tmp_path / "node-1" / "pool-0" / volume_id / "file").write_text("kept")
    taken = await snapshot(service, "s", volume_id)
    await service.DeleteVolume(csi.DeleteVolumeRequest(volume_id=volume_id), None)
    asked = create("b", "5Gi", node="node-2", snapshot=taken.snapshot_id)
    made = (await service.CreateVolume(asked, None)).volume
    assert made.content_source.snapshot.snapshot_id == taken.snapshot_id
    assert (tmp_path / "node-2" / "pool-0" / made.volume_id / "file").read_text() == "kept"
    await service.DeleteSnapshot(csi.DeleteSnapshotRequest(snapshot_id=taken.snapshot_id), None)
    await service.DeleteSnapshot(csi.DeleteSnapshotRequest(snapshot_id=taken.snapshot_id), None)
    assert driver.allocations.free_bytes("node-1") == (10 * GI,)
    # What it was filled from is gone, and asking again finds the volume all the same.
    assert (await service.CreateVolume(asked, None)).volume == made


async def test_a_clone_holds_what_its_source_holds(tmp_path: Path) -> None:
    service = controller(driver_at(tmp_path))
    source = await make(service, create("a", "2Gi", capability=as_blocks()))
    with (tmp_path / "node-1" / "pool-0" / source).open("r+b") as file:
        file.write(b"boot")
    clone = await make(service, create("b", "3Gi", capability=as_blocks(), volume=source))
    with (tmp_path / "node-1" / "pool-0" / clone).open("rb") as file:
        assert file.read(5) == b"boot\0"
    assert (tmp_path / "node-1" / "pool-0" / clone).stat().st_size == 3 * GI


async def test_what_a_volume_cannot_be_made_from_is_named(tmp_path: Path) -> None:
    service = controller(driver_at(tmp_path))
    source = await make(service, create("a", "2Gi"))

    async def refusal(asked: csi.CreateVolumeRequest) -> tuple[Code, str]:
        with pytest.raises(StatusError) as refused:
            await service.CreateVolume(asked, None)
        return refused.value.code, refused.value.message

    assert await refusal(create("b", volume="vol-x")) == (
        Code.NOT_FOUND,
        "there is no volume vol-x to make a volume from",
    )
    assert await refusal(create("b", snapshot="snap-x")) == (
        Code.NOT_FOUND,
        "there is no snapshot snap-x to make a volume from",
    )
    assert await refusal(create("b", "1Gi", volume=source)) == (
        Code.OUT_OF_RANGE,
        "capacity_range requires 1Gi, and the contents need 2Gi",
    )
    assert await refusal(create("b", "2Gi", volume=source, capability=as_blocks())) == (
        Code.INVALID_ARGUMENT,
        f"volume {source} holds a mount volume, not a block volume",
    )


async def test_a_snapshot_without_room_or_of_another_volume_is_refused(tmp_path: Path) -> None:
    service = controller(driver_at(tmp_path, "10Gi,3Gi"))
    large, small = await make(service, create("a", "6Gi")), await make(service, create("b", "1Gi"))
    with pytest.raises(StatusError) as refused:
        await snapshot(service, "s", large)
    # Beside 6Gi in a pool of 10Gi there is no room for another 6.
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert refused.value.message == f"a snapshot of volume {large} needs 6Gi, and its pool has 4Gi free"
    await snapshot(service, "s", small)
    with pytest.raises(StatusError) as refused:
        await snapshot(service, "s", large)
    assert refused.value.code is Code.ALREADY_EXISTS
    assert refused.value.message == f'there is a snapshot with the name "s" already, and it is of volume {small}'


async def test_snapshots_are_listed_by_id_by_volume_and_page_by_page(tmp_path: Path) -> None:
    service = controller(driver_at(tmp_path))
    one, two = await make(service, create("a")), await make(service, create("b"))
    ids = [(await snapshot(service, f"s{n}", volume)).snapshot_id for n, volume in enumerate((one, one, two))]

    async def listed(**fields: object) -> list[str]:
        answer = await service.ListSnapshots(csi.ListSnapshotsRequest(**fields), None)  # type: ignore[arg-type]  # any
        return [entry.snapshot.snapshot_id for entry in answer.entries]

    assert await listed() == ids
    assert await listed(source_volume_id=one) == ids[:2]
    assert await listed(snapshot_id=ids[2]) == ids[2:]
    assert await listed(snapshot_id="snap-x") == []
    page = await service.ListSnapshots(csi.ListSnapshotsRequest(max_entries=2), None)
    assert await listed(starting_token=page.next_token) == ids[2:]
    told = await service.GetSnapshot(csi.GetSnapshotRequest(snapshot_id=ids[0]), None)
    assert told.snapshot.source_volume_id == one
