"""The folder and the file in it: whose they are, and a clear word when they cannot be used."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tonnage.store.check import back_up, check_folder
from tonnage.store.errors import (
    StoreCorrupt,
    StoreForeign,
    StoreInUse,
    StoreNoPermission,
    StoreNotADirectory,
)
from tonnage.store.folder import StoreOptions
from tonnage.store.store import Store


def says(text: str):
    return lambda revision: f"{text}@{revision}".encode()


@pytest.fixture
def forbidden_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder this process may not make. Root may do anything, so for this test it is nobody."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield closed / "store"
    finally:
        os.seteuid(user)


async def fill(folder: Path, count: int) -> None:
    store = await Store.open(folder)
    await asyncio.gather(*(store.create(f"nodes/n{i:05}", lambda revision: bytes(500)) for i in range(count)))
    await store.close()


def modes_in(folder: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in [folder, *folder.iterdir()]}


def put(folder: Path, content: bytes) -> Path:
    """A folder with this as its log."""
    folder.mkdir()
    path = folder / "log.sqlite3"
    path.write_bytes(content)
    return path


async def test_the_folder_and_its_files_are_for_their_owner_alone(open_store, folder: Path):
    store = await open_store()
    await store.create("secrets/a/b", says("x"))
    assert modes_in(folder) == {
        "store": "0o700",
        "lock": "0o600",
        "log.sqlite3": "0o600",
        "log.sqlite3-shm": "0o600",
        "log.sqlite3-wal": "0o600",
    }


async def test_a_closed_store_is_one_file_and_a_lock(open_store, folder: Path):
    store = await open_store(window_events=1)
    await store.create("nodes/a", says("x"))
    await store.create("nodes/b", says("x"))
    await store.list_at("nodes/", 1)  # the reader's connection must not keep the write-ahead log alive
    await store.close()
    assert sorted(modes_in(folder)) == ["lock", "log.sqlite3", "store"]


async def test_folders_above_are_made_as_well(tmp_path: Path):
    store = await Store.open(tmp_path / "a" / "b" / "c")
    await store.close()
    assert (tmp_path / "a" / "b" / "c" / "log.sqlite3").exists()


async def test_an_empty_file_is_a_new_store(folder: Path, open_store):
    # What a kill leaves between making the file and filling it.
    put(folder, b"")
    assert (await open_store()).revision == 0


async def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path):
    folder = put(tmp_path / "a", b"hello")
    with pytest.raises(StoreNotADirectory) as refused:
        await Store.open(folder)
    assert refused.value.folder == folder
    assert str(refused.value) == f"cannot keep a store in {folder}: it is not a directory"
    assert refused.value.hint == "name another folder"
    with pytest.raises(StoreNotADirectory):
        await Store.open(folder / "below")


async def test_a_folder_of_somebody_else_is_refused(forbidden_folder: Path):
    with pytest.raises(StoreNoPermission) as refused:
        await Store.open(forbidden_folder)
    assert str(refused.value) == f"cannot open {forbidden_folder}: Permission denied"
    assert refused.value.hint == "run as the user that owns the folder, or name another folder"


async def test_a_second_store_on_the_folder_is_told_who_holds_it(store: Store, folder: Path):
    with pytest.raises(StoreInUse) as refused:
        await Store.open(folder)
    assert refused.value.pid == os.getpid()
    assert str(refused.value) == f"the store in {folder} is in use by process {os.getpid()}"
    assert refused.value.hint == "stop it first, or name another folder"


@pytest.mark.process
async def test_a_second_process_on_the_folder_is_told_who_holds_it(store: Store, folder: Path):
    program = (
        "import asyncio, pathlib, sys\n"
        "from tonnage.store.store import Store\n"
        "from tonnage.store.errors import StoreInUse\n"
        "try: asyncio.run(Store.open(pathlib.Path(sys.argv[1])))\n"
        "except StoreInUse as refused: print(refused.pid)"
    )
    command = [sys.executable, "-c", program, str(folder)]
    answer = await asyncio.to_thread(lambda: subprocess.run(command, capture_output=True, text=True, check=True))
    assert answer.stdout == f"{os.getpid()}\n"


async def test_a_holder_that_has_not_said_who_it_is_counts_all_the_same(store: Store, folder: Path):
    (folder / "lock").write_text("")
    with pytest.raises(StoreInUse) as refused:
        await Store.open(folder)
    assert refused.value.pid is None
    assert str(refused.value) == f"the store in {folder} is in use by another process"


async def test_a_file_that_is_no_database_is_refused_and_kept(folder: Path):
    path = put(folder, b"Dear diary, " * 1000)
    with pytest.raises(StoreCorrupt) as refused:
        await Store.open(folder)
    assert str(refused.value) == f"cannot read {path}: file is not a database (SQLITE_NOTADB)"
    assert refused.value.hint == (
        "restore a backup in its place, or begin with a new folder; `tonnage apiserver --check` says more"
    )
    assert path.read_bytes() == b"Dear diary, " * 1000


async def test_a_damaged_file_is_refused(folder: Path):
    await fill(folder, 500)
    path = folder / "log.sqlite3"
    content = bytearray(path.read_bytes())
    content[4096 * 2 :] = b"\xa5" * (len(content) - 4096 * 2)  # everything but the header and the schema
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt) as refused:
        await Store.open(folder)
    assert str(refused.value) == f"cannot read {path}: database disk image is malformed (SQLITE_CORRUPT)"


async def test_a_file_cut_short_is_refused(folder: Path):
    await fill(folder, 500)
    path = folder / "log.sqlite3"
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreCorrupt, match=r"database disk image is malformed"):
        await Store.open(folder)


async def test_a_log_without_its_compaction_row_is_refused(folder: Path):
    await fill(folder, 1)
    path = folder / "log.sqlite3"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM compaction")
    with pytest.raises(StoreCorrupt) as refused:
        await Store.open(folder)
    assert str(refused.value) == f"cannot read {path}: the compaction table is empty"


@pytest.mark.parametrize("application_id", [0, 0x0F055111])
async def test_a_database_of_another_program_is_refused_and_not_changed(folder: Path, application_id: int):
    path = put(folder, b"")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA application_id = {application_id}")
        connection.execute("CREATE TABLE recipes (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreForeign) as refused:
        await Store.open(folder)
    assert str(refused.value) == (
        f"{path} is a database of another program (application id {application_id}); it was left as it is"
    )
    assert path.read_bytes() == before


async def test_a_file_of_a_later_tonnage_is_refused_and_not_changed(folder: Path):
    await fill(folder, 1)
    path = folder / "log.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    before = path.read_bytes()
    with pytest.raises(StoreForeign) as refused:
        await Store.open(folder)
    assert str(refused.value) == f"{path} has schema version 3, this Tonnage knows versions up to 2"
    assert refused.value.hint == "run the Tonnage that wrote it, or a later one"
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [-1, 0, 1])
async def test_a_file_of_an_earlier_schema_is_refused_and_not_changed(folder: Path, version: int):
    await fill(folder, 1)
    path = folder / "log.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    for refuses in (partial(check_folder, folder), partial(back_up, folder, folder.parent / "backup")):
        with pytest.raises(StoreForeign) as told:
            refuses()
        assert told.value.path == path
    with pytest.raises(StoreForeign) as refused:
        await Store.open(folder)
    assert str(refused.value) == (
        f"{path} has schema version {version}, this Tonnage knows version 2; it was left as it is"
    )
    assert refused.value.hint == "copy what is needed with a Tonnage that reads it, or remove the folder"
    assert path.read_bytes() == before
    assert [each.name for each in folder.parent.iterdir()] == ["store"]


async def test_a_failed_open_leaves_the_folder_free(folder: Path, open_store):
    await fill(folder, 1)

    def index(key: str, document: bytes) -> None:
        raise RuntimeError("cannot read this document")

    with pytest.raises(RuntimeError, match=r"^cannot read this document$"):
        await Store.open(folder, StoreOptions(index=index))
    assert (await open_store()).count("nodes/") == 1


async def test_a_cancelled_open_leaves_the_folder_free(folder: Path, open_store):
    opening = asyncio.create_task(Store.open(folder))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    while True:
        try:
            store = await open_store()
        except StoreInUse:  # the thread that opens it cannot be stopped, but it lets go when it is done
            continue
        break
    assert store.revision == 0


async def test_openers_that_come_at_once_get_the_store_or_hear_that_it_is_in_use(folder: Path):
    found = await asyncio.gather(*(Store.open(folder / "deep" / "store") for _ in range(8)), return_exceptions=True)
    stores = [each for each in found if isinstance(each, Store)]
    for each in stores:
        await each.close()
    assert len(stores) == 1
    assert {type(each) for each in found} == {Store, StoreInUse}
