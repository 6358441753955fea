"""The log by itself: its constraints, its durability, and its queries' plans."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tonnage.store.database import translated
from tonnage.store.log import ALL_ROWS, StoreLog
from tonnage.store.log_reader import HISTORY, STATE_AT


@pytest.fixture
def log(tmp_path: Path) -> Iterator[StoreLog]:
    with closing(StoreLog(tmp_path / "log.sqlite3")) as log:
        yield log


def revisions(log: StoreLog) -> list[int]:
    return sorted(revision for revision, _ in log.load().records.values())


def test_every_commit_is_synced(log: StoreLog):
    # 2 is FULL: in WAL mode each commit syncs the write-ahead log. 1, NORMAL, would lose commits in a power cut.
    assert log._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert log._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_row_has_one_successor(log: StoreLog):
    log.append([(1, "nodes/a", 0, False, b"")])
    refused = log.append([(2, "nodes/a", 1, False, b""), (3, "nodes/a", 1, False, b""), (4, "nodes/b", 0, False, b"")])
    assert {position: str(reason) for position, reason in refused.items()} == {
        1: "UNIQUE constraint failed: log.key, log.previous"
    }
    assert revisions(log) == [2, 4]


def test_a_revision_is_given_once(log: StoreLog):
    log.append([(1, "nodes/a", 0, False, b"")])
    refused = log.append([(1, "nodes/b", 0, False, b"")])
    assert str(refused[0]) == "UNIQUE constraint failed: log.revision"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((0, "nodes/a", 0, False, b""), "CHECK constraint failed: revision > 0"),
        ((5, "nodes/a", 5, False, b""), "CHECK constraint failed: previous >= 0 AND previous < revision"),
        ((5, "nodes/a", 0, 2, b""), "CHECK constraint failed: deleted IN (0, 1)"),
        ((5, "nodes/a", 0, False, None), "NOT NULL constraint failed: log.document"),
        ((5, "nodes/a", 0, False, "text"), "cannot store TEXT value in BLOB column log.document"),
    ],
)
def test_nonsense_is_refused_by_the_schema(log: StoreLog, row, reason: str):
    assert str(log.append([row])[0]) == reason
    assert revisions(log) == []


def test_a_batch_of_many_statements_is_one_commit_and_refuses_by_position(log: StoreLog, tmp_path: Path):
    log.append([(1, "nodes/taken", 0, False, b"")])
    rows = [(2 + i, f"nodes/n{i:03}", 0, False, b"") for i in range(200)]
    rows[130] = (132, "nodes/taken", 0, False, b"")
    with closing(sqlite3.connect(tmp_path / "log.sqlite3")) as other:
        before = other.execute("PRAGMA data_version").fetchone()[0]
        assert list(log.append(rows)) == [130]
        assert other.execute("PRAGMA data_version").fetchone()[0] == before + 1
    assert revisions(log) == [revision for revision in range(1, 202) if revision != 132]


def test_errors_of_sqlite_are_told_in_the_words_of_the_store(log: StoreLog, tmp_path: Path):
    path = tmp_path / "log.sqlite3"
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with closing(sqlite3.connect(path, timeout=0)) as busy, pytest.raises(sqlite3.OperationalError) as locked:
            busy.execute("DELETE FROM log")
    assert str(translated(locked.value, path)) == f"the store in {tmp_path} is in use by another process"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as reader:
        with pytest.raises(sqlite3.OperationalError) as read_only:
            reader.execute("DELETE FROM log")
        with pytest.raises(sqlite3.OperationalError) as nonsense:
            reader.execute("DELETE FROM nowhere")
    assert str(translated(read_only.value, path)) == (
        f"cannot open {path}: attempt to write a readonly database (SQLITE_READONLY)"
    )
    assert str(translated(nonsense.value, path)) == (
        f"reading or writing {path} failed: no such table: nowhere (SQLITE_ERROR)"
    )


def plan(log: StoreLog, query: str) -> list[str]:
    names = dict.fromkeys(("low", "high", "revision", "limit", "after", "upto"), 0)
    return [row[3] for row in log._connection.execute(f"EXPLAIN QUERY PLAN {query}", names)]


def test_no_query_sorts_or_reads_documents_it_does_not_return(log: StoreLog):
    newest = ["CO-ROUTINE newest", "SCAN newest", "SEARCH row USING INTEGER PRIMARY KEY (rowid=?)"]
    assert plan(log, STATE_AT) == [
        newest[0],
        "SEARCH log USING COVERING INDEX log_by_key (key>? AND key<?)",
        *newest[1:],
    ]
    assert plan(log, ALL_ROWS) == ["SEARCH log USING INTEGER PRIMARY KEY (rowid>?)"]
    assert plan(log, HISTORY) == [
        "SEARCH row USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        "SEARCH before USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    ]


def test_what_is_free_is_given_back_in_a_few_steps_of_many_pages(log: StoreLog, tmp_path: Path):
    # 600 states of a page each, of which one is left: 599 pages and a few of the index are free.
    log.append([(number, "nodes/a", number - 1, False, bytes(4096)) for number in range(1, 601)])
    log.compact(600)
    before = log._connection.execute("PRAGMA page_count").fetchone()[0]
    steps = 1
    while log.give_back(keep_pages=0):
        steps += 1
    after = log._connection.execute("PRAGMA page_count").fetchone()[0]
    assert before - after >= 599
    assert steps <= -(-before // 128)
    log.fold()
    assert (tmp_path / "log.sqlite3").stat().st_size == after * 4096
    assert not log.give_back(keep_pages=0)


def test_a_kill_while_pages_are_given_back_leaves_a_whole_log(log: StoreLog, tmp_path: Path):
    # The last state of every object lies at the end of the file, so that every step moves some of them.
    newest = {f"nodes/n{number}": 560 + number for number in range(40)}
    log.append([(n, f"nodes/n{n % 40}", max(0, n - 40), False, b"%d" % n * 1_000) for n in range(1, 600)])
    log.compact(599)
    states = [(len(list(log.rows())), log.load().records)]
    step = 0
    while log.give_back(keep_pages=0):
        step += 1
        left = tmp_path / f"killed-{step}"
        left.mkdir()
        for name in ("log.sqlite3", "log.sqlite3-wal"):  # what a kill leaves
            shutil.copy(tmp_path / name, left / name)
        with closing(StoreLog(left / "log.sqlite3")) as found:
            found.verify()
            loaded = found.load()
            assert loaded.damage == []
            states.append((len(list(found.rows())), loaded.records))
    assert step > 1
    assert all(state == states[0] for state in states)
    assert {key: revision for key, (revision, _) in states[0][1].items()} == newest
