"""The reference driver removes nothing that may be data: not at its start, not later, whatever happened to its folder.

Contents whose record was gone (a backup restored without its dot folders, a damaged record that was moved away, as the
hint had said) were once taken for the remains of interrupted calls, and deleted. Deaths at every line of every call are
played in tests/properties/driver/test_driver_survives.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.driver_builders import as_blocks, controller, create, driver_at, expand, rebuild
from support.virtual_clock import VirtualClock
from tonnage.cli.csi_driver import csi_driver_quarantine
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError
from tonnage.driver.driver import LOOK_EVERY_S, Driver
from tonnage.driver.state import contents
from tonnage.driver.state.folder import unknown_contents
from tonnage.driver.state.records import StateFolderError, VolumeRecord, volume_id_of
from tonnage.errors import TonnageError
from tonnage.private_files import NotOurs

GI = 1 << 30
MI = 1 << 20
TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


async def with_data(driver: Driver, *names: str, size: str = "1Gi") -> list[Path]:
    """Volumes of these names, each with a precious file of a mebibyte."""
    paths = []
    for name in names:
        await controller(driver).CreateVolume(create(name, size), None)
        path = driver.folder.contents_of(driver.volume(volume_id_of(name)))
        (path / "precious").write_bytes(b"x" * MI)
        paths.append(path)
    return paths


def is_whole(path: Path) -> bool:
    return (path / "precious").read_bytes() == b"x" * MI


async def refusal(call: Awaitable[object]) -> tuple[Code, str]:
    with pytest.raises(StatusError) as refused:
        await call
    return refused.value.code, refused.value.message


def record_of(state: Path, name: str) -> Path:
    return state / ".volumes" / f"{volume_id_of(name)}.json"


# -- records that are gone ---------------------------------------------------------------------------------------------


async def test_a_backup_restored_without_its_records_is_refused_and_whole(state: Path):
    driver = driver_at(state)
    one, two = await with_data(driver, "one", "two")
    driver.close()
    for name in (".volumes", ".snapshots", ".intents", ".lock"):
        path = state / name
        path.unlink() if path.is_file() else shutil.rmtree(path)
    for _ in range(2):  # a second try is no less careful
        with pytest.raises(StateFolderError) as refused:
            driver_at(state)
        first = min(one, two).relative_to(state)
        assert refused.value.message == f"{state} has contents and no records: {first} and 1 more"
        assert refused.value.hint == (
            "restore .volumes and .snapshots from the backup that the contents are from; or move the contents away: "
            f"tonnage csi-driver-quarantine --state-dir {state} --all"
        )
    assert is_whole(one) and is_whole(two)


def test_a_folder_that_was_never_a_drivers_is_refused(state: Path):
    (state / "photos").mkdir(parents=True)
    state.chmod(0o700)
    (state / "photos" / "precious.jpg").write_text("precious")
    for _ in range(2):
        with pytest.raises(StateFolderError, match=r"this driver did not make photos/precious\.jpg"):
            driver_at(state)
    assert sorted(path.name for path in state.iterdir()) == [".lock", "photos"]


def test_an_empty_disk_with_lost_and_found_is_no_stranger(state: Path):
    (state / "lost+found").mkdir(parents=True)
    state.chmod(0o700)
    (state / "node-1" / "pool-0" / "lost+found").mkdir(parents=True)
    driver_at(state).close()
    driver_at(state).close()


async def test_a_damaged_record_that_was_moved_away_leaves_its_volume_whole_and_counted(
    state: Path, caplog: pytest.LogCaptureFixture
):
    driver = driver_at(state, "10Gi")
    kept, orphan = await with_data(driver, "kept", "orphan")
    driver.close()
    record_of(state, "orphan").write_bytes(b"\0" * 100)
    with pytest.raises(StateFolderError) as refused:
        driver_at(state, "10Gi")
    assert refused.value.hint == (
        "restore it from a backup, or move it away: its contents stay, count as used, and are not served"
    )
    record_of(state, "orphan").rename(state.parent / "damaged.json")
    with caplog.at_level(logging.WARNING):
        driver = driver_at(state, "10Gi")
    assert is_whole(kept) and is_whole(orphan)
    told = [record for record in caplog.records if record.message.startswith("Contents without a record are kept")]
    assert len(told) == 1
    # 10Gi, less the volume of 1Gi, less a mebibyte and the few blocks of a folder.
    answer = await controller(driver).GetCapacity(csi.GetCapacityRequest(), None)
    assert 9 * GI - 3 * MI < answer.available_capacity <= 9 * GI - MI


async def test_a_volume_of_blocks_without_a_record_counts_by_its_length(state: Path):
    driver = driver_at(state, "10Gi")
    await with_data(driver, "kept")
    await controller(driver).CreateVolume(create("blocks", "4Gi", capability=as_blocks()), None)
    driver.close()
    record_of(state, "blocks").unlink()
    # 10Gi - 1Gi on record - 4Gi that were promised to a file with nothing in it.
    assert driver_at(state, "10Gi").allocations.free_bytes("node-1") == (5 * GI,)


async def test_a_new_volume_is_never_made_where_unknown_contents_lie(state: Path):
    driver = driver_at(state, "2x10Gi")
    kept, orphan = await with_data(driver, "kept", "orphan")
    driver.close()
    record_of(state, "orphan").unlink()
    driver = driver_at(state, "2x10Gi")
    for capability in (None, as_blocks()):
        asked = create("orphan", capability=capability)
        code, message = await refusal(controller(driver).CreateVolume(asked, None))
        assert code is Code.FAILED_PRECONDITION
        assert message.startswith(f"{orphan} has contents that no record names, and they may be data")
        assert f"tonnage csi-driver-quarantine --state-dir {state}" in message
    assert is_whole(kept) and is_whole(orphan)


async def test_contents_that_appear_while_the_driver_runs_are_not_replaced(state: Path):
    driver = driver_at(state, "10Gi")
    path = state / "node-1" / "pool-0" / volume_id_of("late")
    path.mkdir(parents=True)
    (path / "precious").write_bytes(b"x" * MI)
    free = driver.allocations.free_bytes("node-1")[0]
    code, message = await refusal(controller(driver).CreateVolume(create("late"), None))
    assert (code, message.startswith(str(path))) == (Code.FAILED_PRECONDITION, True)
    assert free - driver.allocations.free_bytes("node-1")[0] >= MI
    assert is_whole(path)
    assert list((state / ".intents").iterdir()) == []


# -- intents -----------------------------------------------------------------------------------------------------------


def intent(state: Path, action: str, id: str, changed: Mapping[str, object] | None = None) -> Path:
    """What a call that died wrote before it began."""
    said = {"token": TOKEN, "action": action, "id": id, "node": "node-1", "pool": 0, "access_type": "mount"}
    path = state / ".intents" / f"{TOKEN}.json"
    path.write_text(json.dumps(said | dict(changed or {})))
    return path


@pytest.fixture
def pool(state: Path) -> Iterator[Path]:
    """A pool of a driver that was stopped."""
    driver_at(state).close()
    path = state / "node-1" / "pool-0"
    path.mkdir(parents=True)
    yield path


@pytest.mark.parametrize("action", ["make", "copy", "remove"])
async def test_an_intent_removes_what_it_set_aside_and_not_what_lies_in_place(state: Path, pool: Path, action: str):
    path, aside = pool / volume_id_of("a"), pool / f".{TOKEN}"
    for folder in (path, aside):
        folder.mkdir()
        (folder / "precious").write_bytes(b"x" * MI)
    intent(state, action, path.name)
    with pytest.raises(StateFolderError, match="has contents and no records"):
        driver_at(state)
    assert is_whole(path)
    assert not aside.exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"node": "../../home"},
        {"node": ".volumes"},
        {"id": "../../../home"},
        {"id": "notes.txt"},
        {"pool": -1},
        {"token": "../../home"},
        {"action": "purge"},
        {"everything": True},
    ],
    ids=str,
)
async def test_an_intent_that_leads_elsewhere_is_left_alone(state: Path, pool: Path, changed: dict[str, object]):
    home = state.parent / "home"
    for folder in (home, pool / f".{TOKEN}", pool / "notes.txt"):
        folder.mkdir()
        (folder / "precious").write_bytes(b"x" * MI)
    path = intent(state, "remove", volume_id_of("a"), changed)
    with pytest.raises(StateFolderError, match="has contents and no records"):
        driver_at(state)
    assert path.exists()
    assert all(map(is_whole, (home, pool / f".{TOKEN}", pool / "notes.txt")))


async def test_a_link_set_aside_is_not_followed(state: Path, pool: Path):
    home = state.parent / "home"
    home.mkdir()
    (home / "precious").write_bytes(b"x" * MI)
    (pool / f".{TOKEN}").symlink_to(home)
    intent(state, "remove", volume_id_of("a"))
    with pytest.raises(StateFolderError, match="has contents and no records"):
        driver_at(state)
    assert is_whole(home)


async def test_a_delete_that_died_before_the_record_went_is_taken_back(state: Path):
    driver = driver_at(state)
    (path,) = await with_data(driver, "a")
    driver.close()
    path.rename(path.with_name(f".{TOKEN}"))
    intent(state, "remove", path.name)
    driver_at(state).close()
    assert is_whole(path)


async def test_remains_that_cannot_be_removed_count_as_used_and_go_at_the_next_start(
    state: Path, monkeypatch: pytest.MonkeyPatch
):
    driver = driver_at(state, "10Gi")
    await with_data(driver, "kept", "gone")

    def fails(_: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(contents, "remove", fails)
        await controller(driver).DeleteVolume(csi.DeleteVolumeRequest(volume_id=volume_id_of("gone")), None)
    assert driver.allocations.free_bytes("node-1")[0] <= 9 * GI - MI
    driver.close()
    again = driver_at(state, "10Gi")
    assert again.allocations.free_bytes("node-1") == (9 * GI,)
    assert list((state / ".intents").iterdir()) == []


@pytest.mark.parametrize("failing", ["copy", "save", "move"])
async def test_a_rebuild_that_fails_leaves_the_volume_where_it_was(
    state: Path, monkeypatch: pytest.MonkeyPatch, failing: str
):
    driver = driver_at(state, "10Gi", nodes=("node-1", "node-2"), rebuild=True)
    (path,) = await with_data(driver, "a")
    record = driver.volume(volume_id_of("a"))
    target = "node-2" if record.node == "node-1" else "node-1"
    calls = 0

    def fails(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        if failing == "save":
            patched.setattr(driver.folder, "save", fails)
        else:
            patched.setattr(contents, failing, fails)
        with pytest.raises(OSError, match="No space left"):
            await rebuild(driver, record.volume_id, target)
    assert is_whole(path)
    assert driver.node_of(record.volume_id) == record.node
    driver.close()
    driver = driver_at(state, "10Gi", nodes=("node-1", "node-2"), rebuild=True)
    assert is_whole(path)
    assert driver.allocations.unknown_bytes == {}
    assert await rebuild(driver, record.volume_id, target)
    assert is_whole(driver.folder.contents_of(driver.volume(record.volume_id)))
    assert not path.exists()


# -- links and mounts --------------------------------------------------------------------------------------------------


async def test_a_volume_that_was_replaced_by_a_link_is_not_deleted_grown_copied_or_followed(state: Path):
    driver = driver_at(state, "100Gi")
    (path,) = await with_data(driver, "a")
    home = state.parent / "home"
    path.rename(home)
    path.symlink_to(home)
    volume_id, service = volume_id_of("a"), controller(driver)
    for call in (
        service.DeleteVolume(csi.DeleteVolumeRequest(volume_id=volume_id), None),
        service.CreateSnapshot(csi.CreateSnapshotRequest(name="s", source_volume_id=volume_id), None),
        service.CreateVolume(create("clone", volume=volume_id), None),
        service.ControllerExpandVolume(expand(volume_id, 2 * GI), None),
    ):
        code, message = await refusal(call)
        assert code is Code.FAILED_PRECONDITION
        assert message.startswith(f"{path} is a symbolic link in the place of the volume's contents")
    assert is_whole(home) and path.is_symlink()
    path.unlink()  # the remedy: contents that are gone are no hindrance
    await service.DeleteVolume(csi.DeleteVolumeRequest(volume_id=volume_id), None)
    assert is_whole(home)
    assert list((state / ".intents").iterdir()) == []


@pytest.mark.parametrize("name", ["node-1", "node-1/pool-0"])
async def test_a_pool_that_is_a_link_is_refused(state: Path, name: str):
    driver = driver_at(state)
    await with_data(driver, "a")
    driver.close()
    home = state.parent / "home"
    (state / name).rename(home)
    (state / name).symlink_to(home)
    with pytest.raises(NotOurs, match="is a symbolic link, not a folder"):
        driver_at(state)
    assert len(list(home.rglob("precious"))) == 1


@pytest.mark.parametrize("name", [".volumes", ".snapshots", ".intents", ".lock"])
async def test_a_link_at_any_name_of_the_state_folder_is_refused(state: Path, name: str):
    driver_at(state).close()
    home = state.parent / "home"
    (state / name).rename(home)
    (state / name).symlink_to(home)
    with pytest.raises(TonnageError, match="is a symbolic link"):
        driver_at(state)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that belongs to somebody else")
@pytest.mark.parametrize("name", ["", ".volumes", "node-1/pool-0"])
async def test_a_state_folder_of_somebody_else_is_refused(state: Path, name: str):
    driver = driver_at(state)
    await with_data(driver, "a")
    driver.close()
    os.chown(state / name, 54321, 54321)
    with pytest.raises(TonnageError, match="belongs to somebody else"):
        driver_at(state)


# -- records that lead elsewhere ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"node": "../../home"},
        {"node": "/home"},
        {"node": ".volumes"},
        {"node": ""},
        {"pool": -1},
        {"volume_id": "../../../home"},
        {"volume_id": volume_id_of("other")},
        {"capacity_bytes": -GI},
    ],
    ids=str,
)
async def test_a_record_that_leads_elsewhere_stops_the_start(state: Path, changed: dict[str, object]):
    driver = driver_at(state)
    (path,) = await with_data(driver, "a")
    driver.close()
    record = record_of(state, "a")
    record.write_text(json.dumps(json.loads(record.read_text()) | changed))
    with pytest.raises(StateFolderError, match=f"^{record} cannot be read: "):
        driver_at(state)
    assert is_whole(path)


async def test_two_records_never_share_contents(state: Path):
    driver = driver_at(state)
    (path,) = await with_data(driver, "a")
    driver.close()
    shutil.copy(record_of(state, "a"), record_of(state, "b"))
    with pytest.raises(StateFolderError, match="cannot be read: it is the record of"):
        driver_at(state)
    assert is_whole(path)


async def test_deleting_a_volume_deletes_that_volume_alone(state: Path):
    driver = driver_at(state, "10Gi")
    kept, gone = await with_data(driver, "kept", "gone")
    (gone / "link").symlink_to(kept)
    (kept.parent / "notes.txt").write_text("precious")
    await controller(driver).DeleteVolume(csi.DeleteVolumeRequest(volume_id=gone.name), None)
    assert sorted(path.name for path in kept.parent.iterdir()) == ["notes.txt", kept.name]
    assert is_whole(kept)


# -- told, and moved only on request -----------------------------------------------------------------------------------


async def test_what_is_unknown_is_seen_from_outside_and_calls_under_way_are_not(state: Path):
    driver = driver_at(state)
    kept, orphan = await with_data(driver, "kept", "orphan")
    driver.folder.forget(driver.volume(orphan.name))
    aside = kept.with_name(f".{TOKEN}")
    aside.mkdir()
    intent(state, "copy", volume_id_of("new"))
    (found,) = unknown_contents(state, in_use=True)
    assert (found.path, found.place.node, found.place.pool) == (orphan, "node-1", 0)
    assert MI <= found.size_bytes < 2 * MI


async def test_contents_that_appear_while_the_driver_runs_are_counted_told_once_and_kept(
    state: Path, caplog: pytest.LogCaptureFixture
):
    driver = driver_at(state, "10Gi")
    (kept,) = await with_data(driver, "kept")
    before = driver.allocations.free_bytes("node-1")
    stranger = kept.with_name("backup")
    stranger.mkdir()
    (stranger / "precious").write_bytes(b"x" * MI)
    for _ in range(2):
        await driver.look_for_unknown()
    (free,) = driver.allocations.free_bytes("node-1")
    assert MI <= before[0] - free < 2 * MI
    (stranger / "more").write_bytes(b"x" * MI)
    await driver.look_for_unknown()
    assert before[0] - driver.allocations.free_bytes("node-1")[0] >= 2 * MI, "it is still being copied"
    assert caplog.text.count("Contents without a record are kept, and count as used") == 1
    assert is_whole(stranger)
    shutil.rmtree(stranger)
    await driver.look_for_unknown()
    assert driver.allocations.free_bytes("node-1") == before


async def test_a_look_while_calls_run_takes_none_of_their_contents_for_unknown(state: Path):
    driver = driver_at(state, "10Gi")
    names = [f"v{number}" for number in range(12)]

    async def look() -> None:
        for _ in range(20):
            await driver.look_for_unknown()

    async def come_and_go(name: str) -> None:
        await controller(driver).CreateVolume(create(name, "1Mi"), None)
        await controller(driver).DeleteVolume(csi.DeleteVolumeRequest(volume_id=volume_id_of(name)), None)

    await asyncio.gather(look(), *(come_and_go(name) for name in names))
    assert driver.allocations.unknown_bytes == {}
    assert driver.allocations.free_bytes("node-1") == (10 * GI,)


async def test_a_record_taken_from_under_a_running_driver_does_not_count_its_volume_twice(state: Path):
    driver = driver_at(state, "10Gi")
    (path,) = await with_data(driver, "a")
    record_of(state, "a").unlink()
    await driver.look_for_unknown()
    assert driver.allocations.free_bytes("node-1") == (9 * GI,) and is_whole(path)


async def test_the_pools_are_looked_through_every_half_minute(state: Path, monkeypatch: pytest.MonkeyPatch):
    clock = VirtualClock()
    driver = driver_at(state, clock=clock)
    looks: list[float] = []

    async def look() -> None:
        looks.append(clock.monotonic())
        clock.advance(3.0)  # a long one: the next is put off

    monkeypatch.setattr(driver, "look_for_unknown", look)
    watching, began_at = asyncio.ensure_future(driver.watch_unknown()), clock.monotonic()
    for step_s in (LOOK_EVERY_S - 1, 1, 59, 1):
        await asyncio.sleep(0)
        clock.advance(step_s)
        await asyncio.sleep(0)
    watching.cancel()
    assert [at - began_at for at in looks] == [30.0, 30.0 + 3.0 + 60.0]


async def test_quarantine_moves_what_is_named_and_deletes_nothing(state: Path):
    driver = driver_at(state, "10Gi")
    kept, one, two = await with_data(driver, "kept", "one", "two")
    driver.close()
    records = {name: record_of(state, name).read_bytes() for name in ("one", "two")}
    for name in records:
        record_of(state, name).unlink()
    run = CliRunner().invoke
    shown = run(csi_driver_quarantine, ["--state-dir", str(state), "-o", "json"])
    assert [(each["path"], each["movedTo"]) for each in json.loads(shown.output)] == [
        (str(path), None) for path in sorted([one, two])
    ]
    assert is_whole(one) and is_whole(two)  # to look moves nothing
    moved = run(csi_driver_quarantine, ["--state-dir", str(state), f"node-1/pool-0/{one.name}"])
    there = state / ".quarantine" / "node-1" / "pool-0" / one.name
    assert f"moved to {there}" in moved.output
    assert is_whole(there) and is_whole(two) and is_whole(kept)
    assert run(csi_driver_quarantine, ["--state-dir", str(state), "--all"]).exit_code == 0
    assert is_whole(there.with_name(two.name)) and is_whole(kept)
    driver = driver_at(state, "10Gi")
    assert driver.allocations.free_bytes("node-1") == (9 * GI,)
    driver.close()
    # And back: contents and record restored, the volume is served again.
    there.rename(one)
    record_of(state, "one").write_bytes(records["one"])
    assert isinstance(driver_at(state, "10Gi").volume(one.name), VolumeRecord)
    assert is_whole(one)


async def test_quarantine_never_takes_what_has_a_record_and_never_beside_a_driver(state: Path):
    driver = driver_at(state)
    kept, lost = await with_data(driver, "kept", "lost")
    run = CliRunner().invoke
    busy = run(csi_driver_quarantine, ["--state-dir", str(state), "--all"])
    assert isinstance(busy.exception, StateFolderError)
    assert busy.exception.message == f"{state} is in use by another driver"
    driver.close()
    named = run(csi_driver_quarantine, ["--state-dir", str(state), str(kept)])
    assert isinstance(named.exception, TonnageError)
    assert "is not in a pool of " in named.exception.message
    # A delete that died: its volume is put back first, and is no stranger's.
    lost.rename(lost.with_name(f".{TOKEN}"))
    intent(state, "remove", lost.name)
    assert run(csi_driver_quarantine, ["--state-dir", str(state), "--all"]).exit_code == 0
    assert is_whole(kept) and is_whole(lost)
    assert not (state / ".quarantine").exists()
