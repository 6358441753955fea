"""Files of earlier versions: brought to the present schema in one transaction when they are opened for writing.

A kill, a full disk or an error leaves the file as it was, and the next start tries again. The file is about doubled
meanwhile (SQLite's write-ahead log holds every page that changes). An earlier Tonnage refuses the file afterwards.

Version 1 had no checksums. What its rows say is taken for what was written, unless `find_problem` finds that a document
cannot be what the key says: such a row gets a checksum that does not match, and is kept out like any damaged row.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from tonnage.store.errors import StoreCorrupt
from tonnage.store.records import compaction_checksum, row_checksum

FindProblem = Callable[[str, int, bytes], str | None]
"""(key, revision, document) -> what is wrong with the document, None when it is whole."""

_ROWS_AT_ONCE = 500
_log = logging.getLogger(__name__)


def migrate(connection: sqlite3.Connection, path: Path, version: int, find_problem: FindProblem | None) -> None:
    """From `version` to the present one. Raises StoreCorrupt, and sqlite3.Error as it comes."""
    if version != 1:
        raise StoreCorrupt(path, f"it says schema version {version}, which never was")
    columns = {row[1] for row in connection.execute("PRAGMA table_info(log)")}
    if "checksum" in columns or "document" not in columns:
        raise StoreCorrupt(path, "it says schema version 1, but its tables are not of that version")
    _log.info("bringing %s from schema version 1 to 2: a checksum a row", path)
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("ALTER TABLE log ADD COLUMN follows INTEGER NOT NULL DEFAULT 0")
        connection.execute("ALTER TABLE log ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1")
        for name in ("rows", "sealed", "checksum"):
            connection.execute(f"ALTER TABLE compaction ADD COLUMN {name} INTEGER NOT NULL DEFAULT -1")
        newest = _sign_rows(connection, find_problem)
        _sign_compaction(connection, path, newest)
        connection.execute("PRAGMA user_version = 2")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _sign_rows(connection: sqlite3.Connection, find_problem: FindProblem | None) -> int:
    """Give every row its place in the chain and its checksum; the newest revision."""
    after = 0
    while rows := connection.execute(
        "SELECT revision, CAST(key AS BLOB), previous, deleted, CAST(document AS BLOB) FROM log"
        " WHERE revision > ? ORDER BY revision LIMIT ?",
        (after, _ROWS_AT_ONCE),
    ).fetchall():
        signed = []
        for revision, key, follows, checksum in _signed(rows, after, find_problem):
            if checksum < 0:
                _log.error('revision %d of "%s" was damaged before it had a checksum', revision, key)
            signed.append((follows, checksum, revision))
        connection.executemany("UPDATE log SET follows = ?, checksum = ? WHERE revision = ?", signed)
        after = rows[-1][0]
    return after


def _signed(
    rows: list[tuple[int, bytes, int, int, bytes]], follows: int, find_problem: FindProblem | None
) -> Iterator[tuple[int, str, int, int]]:
    for revision, raw_key, previous, deleted, document in rows:
        key = (raw_key or b"").decode("utf-8", "surrogateescape")
        is_whole = find_problem is None or find_problem(key, revision, document) is None
        checksum = row_checksum(revision, key, previous, follows, deleted, document) if is_whole else -1
        yield revision, key, follows, checksum
        follows = revision


def _sign_compaction(connection: sqlite3.Connection, path: Path, newest: int) -> None:
    found = connection.execute("SELECT revision FROM compaction").fetchone()
    if found is None:
        raise StoreCorrupt(path, "the compaction table is empty")
    revision = int(found[0])
    rows = connection.execute("SELECT count(*) FROM log NOT INDEXED WHERE revision <= ?", (revision,)).fetchone()[0]
    sealed = max(newest, revision)
    connection.execute(
        "UPDATE compaction SET rows = ?, sealed = ?, checksum = ?",
        (rows, sealed, compaction_checksum(revision, rows, sealed)),
    )
