"""Files of version 1, which had no checksums: brought over whole, in one transaction, and judged on the way."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tonnage.store.check import check_folder
from tonnage.store.database import migrate
from tonnage.store.errors import StoreCorrupt, StoreFull
from tonnage.store.records import Damage, StoreRecord

VERSION_1 = """
PRAGMA application_id = 0x544F4E4E;
PRAGMA user_version = 1;
CREATE TABLE log (
    revision INTEGER PRIMARY KEY CHECK (revision > 0),
    key      TEXT    NOT NULL,
    previous INTEGER NOT NULL CHECK (previous >= 0 AND previous < revision),
    deleted  INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    document BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_by_key ON log (key, previous);
CREATE TABLE compaction (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    revision INTEGER NOT NULL CHECK (revision >= 0)
) STRICT;
"""


def judge(key: str, revision: int, document: bytes) -> str | None:
    return None if document == f"{key}@{revision}".encode() else "it is not what it should be"


@pytest.fixture
def old(folder: Path) -> Path:
    """a: 2 (compacted to 3) -> 5; b: 3; c: 4 -> 6 (deleted); and 1,200 more, so that there are several rounds."""
    folder.mkdir(mode=0o700)
    path = folder / "log.sqlite3"
    rows = [
        (2, "nodes/a", 0, 0),
        (3, "nodes/b", 0, 0),
        (4, "nodes/c", 0, 0),
        (5, "nodes/a", 2, 0),
        (6, "nodes/c", 4, 1),
    ]
    rows += [(10 + i, f"pods/x/{i:04}", 0, 0) for i in range(1_200)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(VERSION_1)
        connection.execute("INSERT INTO compaction VALUES (1, 3)")
        connection.executemany(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?)",
            [(*row, f"{row[1]}@{row[0]}".encode()) for row in rows],
        )
    path.chmod(0o600)
    return path


def size_of(path: Path) -> int:
    return path.stat().st_size


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


async def test_an_old_file_has_all_it_had_and_checksums(open_store, old: Path, folder: Path):
    store = await open_store(find_problem=judge)
    assert (store.revision, store.compacted, store.health.damage) == (1_209, 3, [])
    assert store.list("nodes/") == [StoreRecord("nodes/a", 5, b"nodes/a@5"), StoreRecord("nodes/b", 3, b"nodes/b@3")]
    assert store.count("pods/") == 1_200
    assert [record.revision for record in await store.list_at("nodes/", 4)] == [2, 3, 4]
    await store.update("nodes/a", lambda revision: f"nodes/a@{revision}".encode(), expected=5)
    await store.close()
    assert version_of(old) == 2
    report = check_folder(folder, judge)
    assert (report.problems, report.rows, report.objects) == ([], 1_206, 1_202)
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("UPDATE log SET document = x'00' WHERE revision = 3")
    assert [each.key for each in (await open_store()).health.damage] == ["nodes/b"]


async def test_what_was_damaged_before_there_were_checksums_is_kept_out(open_store, old: Path):
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("UPDATE log SET document = x'7b' WHERE revision = 3")
    store = await open_store(find_problem=judge)
    assert store.health.damage == [Damage("nodes/b", 3, "its checksum does not match; kept out")]
    assert [record.key for record in store.list("nodes/")] == ["nodes/a"]


async def test_a_migration_that_is_interrupted_leaves_the_old_file(open_store, old: Path, folder: Path):
    def dies_at_700(key: str, revision: int, document: bytes) -> str | None:
        if revision == 700:
            raise KeyboardInterrupt
        return None

    with closing(sqlite3.connect(old, isolation_level=None)) as connection, pytest.raises(KeyboardInterrupt):
        migrate(connection, old, 1, dies_at_700)
    assert version_of(old) == 1
    with closing(sqlite3.connect(old)) as connection:
        assert {row[1] for row in connection.execute("PRAGMA table_info(log)")} == {
            "revision", "key", "previous", "deleted", "document"
        }  # fmt: skip
    assert (await open_store(find_problem=judge)).count("pods/") == 1_200


async def test_a_migration_without_room_is_refused_and_leaves_the_old_file(open_store, old: Path):
    with pytest.raises(StoreFull):
        await open_store(max_pages=size_of(old) // 4096)
    assert version_of(old) == 1


def test_an_old_file_can_be_checked_without_changing_it(old: Path, folder: Path):
    before = old.read_bytes()
    report = check_folder(folder, judge)
    assert (report.version, report.rows, report.objects, report.revision, report.problems) == (
        1,
        1_205,
        1_202,
        1_209,
        [],
    )
    assert old.read_bytes() == before
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("UPDATE log SET document = x'7b' WHERE revision = 3")
    assert check_folder(folder, judge).problems == ['revision 3 of "nodes/b": it is not what it should be']


@pytest.mark.parametrize("version", [0, 1, -1])
async def test_a_version_that_is_not_that_of_the_tables_is_refused(open_store, folder: Path, version: int):
    await (await open_store()).close()
    with closing(sqlite3.connect(folder / "log.sqlite3")) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreCorrupt):
        await open_store()
