"""The log and its SQL for the one thread that writes (`writer.py`). A method is one transaction.

Compaction to revision C keeps, for every key, the newest row at or before C, unless it is a tombstone: any state and
any stretch of history from C on stays whole. It works in steps, which are complete compactions to smaller revisions: a
kill between two steps leaves nothing to repair. A damaged row is not trusted: it removes no other row, and stays until
compaction passes a sound row of its key.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tonnage.store import database, records
from tonnage.store.errors import RESCUED, StoreCorrupt, StoreError, StoreFull, StoreRemoved
from tonnage.store.loading import ENTRIES_MASK, Loaded, Scan, Seal, StoredRow

_logger = logging.getLogger(__name__)

Row = tuple[int, str, int, bool, bytes]  # revision, key, previous, deleted, document
_SignedRow = tuple[int, str, int, int, int, int, bytes]  # revision, key, previous, follows, deleted, checksum, document

# Rows for one INSERT. Every statement releases the interpreter lock and must win it back from a busy event loop, which
# costs more than the insert; so a usual batch is a single statement, including its own BEGIN and COMMIT.
_ROWS_A_STATEMENT = 64

# Texts as bytes: a damaged one may not be UTF-8. The order of the primary key reads the file from front to back.
ALL_ROWS = """
    SELECT revision, CAST(key AS BLOB), previous, follows, deleted, CAST(document AS BLOB), checksum
    FROM log NOT INDEXED WHERE revision > :after ORDER BY revision
"""

_INDEX = "SELECT CAST(key AS BLOB), previous, revision FROM log INDEXED BY log_by_key ORDER BY key, previous"

_FOLD_PATIENCE_MS = 100
"""How long a reader may delay the emptying of the write-ahead log; a backup may read for minutes."""
_KEPT_WAL_BYTES = 1 << 20
"""How much of the disk the write-ahead log may keep when it is folded."""
_VACUUM_PAGES = 128
"""Pages given back to the file system in one step, 512 KiB; a step is a write of a few milliseconds."""
_SPARE_PAGES = 1024
"""Free pages kept in the file for the next writes, 4 MiB; more are given back."""


class StoreLog:
    """The rows, for the one thread that writes. `load` comes before the first write. Raises StoreError."""

    def __init__(self, path: Path, *, key_beside: Path | None = None, acknowledged: int = 0) -> None:
        self.path = path
        with in_our_words(path):
            lost = database.lost_commits(database.wal_of(path))  # before SQLite looks, and cuts it off
            self._connection = database.open_writer(path, key_beside)
        try:
            with in_our_words(path):
                seal = read_seal(self._connection, path)
                newest = self._connection.execute("SELECT max(revision) FROM log").fetchone()[0] or 0
                self._files = database.OpenFiles(path)
        except BaseException:
            self._connection.close()
            raise
        self._seal = replace(seal, lost_commits=lost, sealed=max(seal.sealed, acknowledged))
        self.compacted = seal.compacted
        self.revision = max(newest, self.compacted)
        self._rows = seal.rows  # those at or before `compacted`
        self._last_row = newest  # what the next row follows
        self._acknowledged = 0  # the newest row known to this process as durable
        self._damaged: set[int] = set()
        self._superseded: dict[int, str] = {}

    def load(self) -> Loaded:
        """Read and judge every row; from then on the log knows which are damaged."""
        with in_our_words(self.path):
            scan = Scan(self._seal)
            for row in self.rows():
                scan.take(row)
            loaded = scan.finish()
            self._mend_index(loaded.entries)
            self.revision, self._last_row = loaded.revision, loaded.last_row
            self._damaged, self._superseded = set(loaded.damaged_rows), dict(loaded.superseded)
        if not self._seal.is_sound:
            # It is unknown how far it was compacted; starting from 0 is always right.
            self.compacted = self._rows = 0
            self.compact(loaded.revision)
        return loaded

    def _mend_index(self, entries: int) -> None:
        """Rebuild the index if it does not match the table: it is the optimistic lock. Raises StoreCorrupt."""
        found, last = 0, (b"", -1)
        try:
            for key, previous, revision in self._connection.execute(_INDEX):
                found = found + hash((key, previous, revision)) & ENTRIES_MASK
                if not isinstance(key, bytes) or not isinstance(previous, int) or (key, previous) <= last:
                    found = -1
                    break
                last = (key, previous)
        except sqlite3.DatabaseError:
            found = -1
        if found != entries:
            _logger.error("%s: the index does not match the rows; it is made again", self.path)
            self._connection.execute("REINDEX log_by_key")

    def rows(self, *, after: int = 0) -> Iterator[StoredRow]:
        """Every row above `after` as it is in the file, oldest first. Raises StoreCorrupt if they are out of order."""
        last = after
        for row in self._connection.execute(ALL_ROWS, {"after": after}):
            if row[0] <= last:
                raise StoreCorrupt(self.path, f"revision {row[0]} comes after revision {last}")
            last = row[0]
            yield row

    def append(self, rows: Sequence[Row]) -> dict[int, sqlite3.IntegrityError]:
        """Make the rows durable with one commit; returns, by position, why constraints refused a row. Raises StoreError
        if nothing was kept or, for StoreIOError, if that is unknown."""
        if len(rows) <= _ROWS_A_STATEMENT:
            with in_our_words(self.path), suppress(sqlite3.IntegrityError):
                self._insert(_signed(rows, self._last_row))  # a statement outside a transaction commits itself
                self._advance(rows[-1][0])
                return {}
        refused: dict[int, sqlite3.IntegrityError] = {}
        last_row = self._last_row
        with self._transaction():
            for start in range(0, len(rows), _ROWS_A_STATEMENT):
                chunk = rows[start : start + _ROWS_A_STATEMENT]
                try:
                    self._insert(_signed(chunk, last_row))
                    last_row = chunk[-1][0]
                except sqlite3.IntegrityError:  # the statement is undone, the transaction continues
                    for position, row in enumerate(chunk, start):
                        try:
                            self._insert(_signed([row], last_row))
                            last_row = row[0]
                        except sqlite3.IntegrityError as exc:
                            refused[position] = exc
        self._advance(last_row)
        return refused

    def replace(self, rows: Sequence[Row], *, may_grow: bool) -> None:
        """Write the rows in place of what they supersede, on a full disk: history ends with them.

        Superseded rows go in the same commit, and no tombstone is written, so a deletion touches only the few pages of
        its object. All history must have been compacted. Raises StoreError, also StoreFull if the file must grow and
        may not.
        """
        if self.compacted < self.revision:
            raise StoreFull(self.path)
        count, last_row, newest = self._rows, self._last_row, rows[-1][0]
        with self._transaction():
            for row in rows:
                revision, key, previous, deleted, _ = row
                superseded = self._connection.execute("DELETE FROM log WHERE revision = ? AND key = ?", (previous, key))
                count -= superseded.rowcount
                if not deleted:
                    self._insert(_signed([row], last_row))
                    last_row, count = revision, count + 1
            self._write_seal(newest, count, sealed=newest)
            if not may_grow and self.unfolded_bytes():
                raise StoreFull(self.path)
        self.compacted, self._rows = newest, count
        self._last_row, self._acknowledged, self.revision = last_row, newest, newest

    def unfolded_bytes(self) -> int:
        """How much the file must grow to take all of the write-ahead log."""
        with in_our_words(self.path):
            pages, page_bytes = int(self._one("PRAGMA page_count")), int(self._one("PRAGMA page_size"))
            return max(0, pages * page_bytes - self.path.stat().st_size)

    def discard(self, row: Row, damaged: Mapping[int, bytes]) -> None:
        """Delete a key whose newest rows are damaged. Raises StoreError.

        The damaged rows get the documents in `damaged` and become tombstones, and `row`, which follows the newest sound
        row of the key, comes on top. Rows older than history go; the others keep their numbers, so that the chain stays
        whole.
        """
        revision, key, intact, deleted, document = row
        with self._transaction():
            gone = self._connection.execute("DELETE FROM log WHERE key = ? AND revision <= ?", (key, self.compacted))
            rows = self._rows - gone.rowcount
            previous = intact if intact > self.compacted else 0
            for number in sorted(damaged):
                gone = self._connection.execute("DELETE FROM log WHERE revision = ?", (number,))
                if number <= self.compacted:
                    rows -= gone.rowcount
            for number in sorted(damaged):
                if self.compacted < number <= self.revision:
                    before = self._one("SELECT max(revision) FROM log WHERE revision < ?", number)
                    self._insert(_signed([(number, key, previous, True, damaged[number])], before or 0))
                    previous = number
            self._insert(_signed([(revision, key, previous, deleted, document)], self._last_row))
            self._write_seal(self.compacted, rows)
        self._rows = rows
        self._damaged -= set(damaged)
        self._advance(revision)

    def compact(self, revision: int) -> None:
        """Compact to `revision`, at or after `compacted`; the cost is that of the rows in between."""
        step = {"after": self.compacted, "upto": revision}
        trusted = f"revision NOT IN ({', '.join(map(str, sorted(self._damaged)))})"
        with self._transaction():
            rows = self._rows + self._one(
                "SELECT count(*) FROM log NOT INDEXED WHERE revision > :after AND revision <= :upto", step
            )
            # Oldest first: if a tombstone went before the rows it buries, these would come back to life.
            for number, key in self._superseded.items():
                if number <= revision:
                    rows -= self._connection.execute(
                        "DELETE FROM log WHERE key = ? AND revision < ?", (key, number)
                    ).rowcount
            rows -= self._connection.execute(
                "DELETE FROM log WHERE revision IN (SELECT previous FROM log NOT INDEXED"
                f" WHERE revision > :after AND revision <= :upto AND {trusted})",
                step,
            ).rowcount
            rows -= self._connection.execute(
                f"DELETE FROM log WHERE revision > :after AND revision <= :upto AND deleted AND {trusted}",
                step,
            ).rowcount
            self._write_seal(revision, rows)
        self.compacted, self._rows = revision, rows

    def leap(self, revisions: int) -> None:
        """Give up all history, and continue at a revision so far ahead that no client can know it."""
        self.compact(self.revision)
        self.revision += revisions
        self.compact(self.revision)

    def probe(self) -> None:
        """A write that really goes to the disk and changes nothing. Raises StoreError."""
        with self._transaction():
            self._write_seal(self.compacted, self._rows)

    def give_back(self, *, keep_pages: int = _SPARE_PAGES) -> bool:
        """Give free pages back to the file system, one step; True if there are more."""
        with in_our_words(self.path):
            spare = int(self._one("PRAGMA freelist_count")) - keep_pages
            if spare <= 0 or not self._one("PRAGMA auto_vacuum"):
                return False
            # As a script, which runs to its end: `execute` stops after the first moved page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({min(spare, _VACUUM_PAGES)})")
        return spare > _VACUUM_PAGES

    def fold(self) -> None:
        """Move the write-ahead log into the file, if no reader is in the way. A short one keeps space for deletions."""
        with in_our_words(self.path):
            wal = database.wal_of(self.path)
            is_short = wal.exists() and wal.stat().st_size <= _KEPT_WAL_BYTES
            self._connection.execute(f"PRAGMA busy_timeout = {_FOLD_PATIENCE_MS}")
            try:
                mode = "RESTART" if is_short else "TRUNCATE"
                self._connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {database.BUSY_TIMEOUT_MS}")

    def require_files(self) -> None:
        """Raises StoreRemoved if somebody removed, replaced or cut a file since `confirm_files`."""
        with in_our_words(self.path):
            self._files.require()

    def confirm_files(self) -> None:
        """Raises StoreRemoved if the names of the files no longer lead to the open ones."""
        with in_our_words(self.path):
            self._files.confirm()

    def rescue(self, removed: StoreRemoved) -> StoreRemoved:
        """Save what is still open, in the file, or beside it if that is gone; returns the error, with the path."""
        target = self.path.with_name(f"{RESCUED}{self.revision}.sqlite3")
        try:
            if removed.path != self.path:
                _, frames, folded = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return StoreRemoved(removed.path, removed.detail, self.path if frames == folded else None)
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            database.copy_database(self._connection, target)
        except (sqlite3.Error, OSError):
            with suppress(OSError):
                target.unlink()
            return removed
        return StoreRemoved(removed.path, removed.detail, target)

    def verify(self) -> None:
        """Have SQLite check every page. Raises StoreCorrupt."""
        with in_our_words(self.path):
            found = self._one("PRAGMA integrity_check(1)")
        if found != "ok":
            raise StoreCorrupt(self.path, str(found))

    def reopen(self) -> list[Row]:
        """Reopen the file after a failure; returns the rows that nobody knows to be durable. Raises StoreError."""
        with in_our_words(self.path):
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = database.open_writer(self.path)
            self._connection.execute("SELECT count(*) FROM compaction").fetchone()  # opens the files beside it
            self._files = database.OpenFiles(self.path)
            seal = read_seal(self._connection, self.path)
            if not seal.is_sound or seal.compacted < self.compacted:
                raise StoreCorrupt(self.path, "the record of compaction is not as this process left it")
            self.compacted, self._rows = seal.compacted, seal.rows
            found = []
            for number, raw_key, previous, follows, deleted, document, checksum in self.rows(after=self._last_row - 1):
                key = raw_key.decode("utf-8", "surrogateescape")
                if number == self._last_row or number in self._damaged:
                    continue
                if checksum != records.row_checksum(number, key, previous, follows, deleted, document):
                    raise StoreCorrupt(self.path, f'revision {number} of "{key}" is damaged')
                found.append((number, key, previous, bool(deleted), document))
            is_there = self._one("SELECT count(*) FROM log WHERE revision = ?", self._acknowledged)
            if not is_there and self._acknowledged > self.compacted:
                raise StoreCorrupt(self.path, f"revision {self._acknowledged}, which was acknowledged, is not there")
        self.fold()
        if found:
            self._advance(found[-1][0])
        return found

    def close(self) -> None:
        with suppress(StoreError):
            self.probe()
        with in_our_words(self.path):
            self._connection.close()

    def _advance(self, revision: int) -> None:
        self._last_row = self._acknowledged = revision
        self.revision = max(self.revision, revision)

    def _insert(self, rows: Sequence[_SignedRow]) -> None:
        values = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(rows))
        self._connection.execute(
            f"INSERT INTO log (revision, key, previous, follows, deleted, checksum, document) VALUES {values}",
            [column for row in rows for column in row],
        )

    def _write_seal(self, compacted: int, rows: int, *, sealed: int | None = None) -> None:
        newest = self.revision if sealed is None else sealed
        self._connection.execute(
            "UPDATE compaction SET revision = ?, rows = ?, sealed = ?, checksum = ?",
            (compacted, rows, newest, records.compaction_checksum(compacted, rows, newest)),
        )

    def _one(self, query: str, *values: Any) -> Any:
        parameters = values[0] if values and isinstance(values[0], dict) else values
        return self._connection.execute(query, parameters).fetchone()[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing. SQLite may have rolled back by itself, as it does on a full disk."""
        with in_our_words(self.path):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _signed(rows: Sequence[Row], follows: int) -> list[_SignedRow]:
    signed = []
    for revision, key, previous, deleted, document in rows:
        flag = int(deleted)
        checksum = records.row_checksum(revision, key, previous, follows, flag, document)
        signed.append((revision, key, previous, follows, flag, checksum, document))
        follows = revision
    return signed


def read_seal(connection: sqlite3.Connection, path: Path) -> Seal:
    """The row of the compaction table. Raises StoreCorrupt if there is none."""
    row = connection.execute("SELECT revision, rows, sealed, checksum FROM compaction").fetchone()
    if row is None:
        raise StoreCorrupt(path, "the compaction table is empty")
    revision, rows, sealed, checksum = row
    if checksum != records.compaction_checksum(revision, rows, sealed):
        return Seal(0, 0, 0, is_sound=False)
    return Seal(revision, rows, sealed)


@contextmanager
def in_our_words(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeDecodeError) as exc:
        raise database.translated(exc, path) from exc
