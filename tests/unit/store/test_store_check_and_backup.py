"""Checking a folder changes nothing; a backup is a whole store, or there is none."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from support.compaction import compact
from tonnage.store import check
from tonnage.store.check import back_up, check_folder, reading
from tonnage.store.errors import BackupExists, RevisionCompacted, StoreCorrupt, StoreMissing
from tonnage.store.store import Store


def says(text: str):
    return lambda revision: f"{text}@{revision}".encode()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


async def filled(open_store) -> Store:
    store: Store = await open_store()
    for i in range(20):
        await store.create(f"nodes/n{i:02}", says("x"))
    await store.delete("nodes/n00", says("bye"), expected=1)
    return store


async def test_a_store_is_checked_while_it_is_open_and_when_it_is_not(open_store, folder: Path):
    store = await filled(open_store)
    report = check_folder(folder)
    assert (report.version, report.rows, report.objects, report.revision, report.problems) == (2, 21, 19, 21, [])
    await store.close()
    before = contents(folder)
    assert check_folder(folder).is_whole
    assert contents(folder) == before


async def test_a_store_that_was_killed_is_checked_and_left_as_it_was(open_store, folder: Path, tmp_path: Path):
    store = await filled(open_store)
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("log.sqlite3", "log.sqlite3-wal", "lock"):  # what a kill leaves; the third of SQLite's files is memory
        shutil.copy(folder / name, killed / name)
    before = contents(killed)
    assert check_folder(killed).objects == 19
    assert contents(killed) == before
    await store.close()


async def test_no_server_starts_while_a_folder_without_one_is_checked(open_store, folder: Path):
    store = await filled(open_store)
    await store.close()
    with reading(folder):
        assert held(folder) is True
    assert held(folder) is False


def held(folder: Path) -> bool:
    fd = os.open(folder / "lock", os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "UPDATE log SET document = x'00' WHERE revision = 5",
            'revision 5 of "nodes/n04": its checksum does not match; kept out',
        ),
        (
            "DELETE FROM log WHERE revision = 5",
            "revision 5: it is missing: whose it was is not known; an object may be as it was before",
        ),
        (
            "UPDATE compaction SET sealed = 3",
            "revision 1000021: the record of compaction is damaged; history is given up",
        ),
    ],
)
async def test_a_check_names_what_is_damaged(open_store, folder: Path, change: str, told: str):
    store = await filled(open_store)
    await store.close()
    with closing(sqlite3.connect(folder / "log.sqlite3")) as connection, connection:
        connection.execute(change)
    report = check_folder(folder)
    assert report.problems == [told]
    assert report.is_readable


async def test_a_check_tells_of_pages_that_cannot_be_read(open_store, folder: Path):
    store = await filled(open_store)
    for i in range(50):
        await store.create(f"pods/a/{i}", lambda revision: bytes(3000))
    await store.close()
    path = folder / "log.sqlite3"
    content = bytearray(path.read_bytes())
    content[4096 * 5 :] = b"\xa5" * (len(content) - 4096 * 5)
    path.write_bytes(content)
    report = check_folder(folder)
    assert not report.is_whole
    assert any("SQLite" in each or "malformed" in each for each in report.problems)
    target = folder.parent / "backup"
    with pytest.raises(StoreCorrupt):
        back_up(folder, target)
    assert names_in(folder.parent) == ["store"]


def test_a_folder_without_a_store_is_told(tmp_path: Path):
    with pytest.raises(StoreMissing) as refused:
        check_folder(tmp_path)
    assert str(refused.value) == f"there is no {tmp_path / 'log.sqlite3'}"
    assert list(tmp_path.iterdir()) == []


async def test_a_backup_of_a_running_store_is_a_store(open_store, folder: Path, tmp_path: Path):
    store = await filled(open_store)
    target = tmp_path / "backup.sqlite3"
    report = back_up(folder, target)
    assert (report.path, report.objects, report.rows, report.problems) == (target, 19, 19, [])
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["backup.sqlite3", "store"]
    later = await store.create("nodes/later", says("x"))
    kept = [record for record in store.list("nodes/") if record != later]
    restored = tmp_path / "restored"
    restored.mkdir(mode=0o700)
    shutil.copy(target, restored / "log.sqlite3")
    again = await Store.open(restored)
    assert (again.list("nodes/"), again.revision, again.health.damage) == (kept, 1_000_000_021, [])
    # Who has seen more than the backup has is not shown another past, and no revision comes again.
    with pytest.raises(RevisionCompacted):
        again.watch("nodes/", after=later.revision)
    with pytest.raises(RevisionCompacted):
        await again.list_at("nodes/", later.revision)
    assert (await again.create("nodes/later", says("x"))).revision == 1_000_000_022
    await again.delete("nodes/later", says("bye"), expected=1_000_000_022)
    await compact(again, again.revision)
    await again.close()
    again = await Store.open(restored)
    assert (again.list("nodes/"), again.health.damage) == (kept, [])
    await again.close()


@pytest.mark.parametrize("there", [lambda path: path.write_bytes(b"mine"), lambda path: path.symlink_to("/nowhere")])
async def test_a_backup_never_writes_over_anything(
    open_store, folder: Path, tmp_path: Path, there: Callable[[Path], object]
):
    await filled(open_store)
    target = tmp_path / "backup"
    there(target)
    with pytest.raises(BackupExists) as refused:
        back_up(folder, target)
    assert str(refused.value) == f"{target} is there already; it was left as it is"
    assert target.is_symlink() or target.read_bytes() == b"mine"


async def test_a_file_that_appears_meanwhile_is_not_written_over(
    open_store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await filled(open_store)
    target = tmp_path / "backup"

    def sync_path_late(path: Path) -> None:  # called for the copy, right before it gets its name
        target.write_bytes(b"mine")

    monkeypatch.setattr(check, "sync_path", sync_path_late)
    with pytest.raises(BackupExists):
        back_up(folder, target)
    assert target.read_bytes() == b"mine"
    assert names_in(tmp_path) == ["backup", "store"]


async def test_a_backup_has_the_damaged_rows_as_well_and_tells(open_store, folder: Path, tmp_path: Path):
    store = await filled(open_store)
    await store.close()
    with closing(sqlite3.connect(folder / "log.sqlite3")) as connection, connection:
        connection.execute("UPDATE log SET document = x'00' WHERE revision = 5")
    report = back_up(folder, tmp_path / "backup")
    assert (report.is_whole, report.is_readable, report.objects) == (False, True, 18)


async def test_a_backup_into_a_folder_that_is_not_there_is_an_error(open_store, folder: Path, tmp_path: Path):
    await filled(open_store)
    with pytest.raises(Exception, match="nowhere"):
        back_up(folder, tmp_path / "nowhere" / "backup")
