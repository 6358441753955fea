"""The log and its SQL: append writes, load the newest state, read any kept state or stretch of history, compact.

Two classes over the same file, each used by one thread at a time: `Log` owns the connection that writes, `LogReader`
one that cannot. A method is one transaction. Nothing here knows of the event loop, of callers waiting, or of what a
document says; `writer.py` runs `Log` in the writer's thread, `store.py` runs `LogReader` in a reader's.

Compaction to revision C keeps, for each key, the newest row at or before C, unless that is a tombstone: any state and
any stretch of history from C on stays whole. It walks up in steps, and each step is a complete compaction to a
smaller revision, recorded in the same transaction: a kill between two steps leaves nothing to repair.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tonnage.store.database import open_reader, open_writer, translated
from tonnage.store.errors import RevisionCompacted, StoreCorrupt
from tonnage.store.records import Event, Record, event_of

Index = Callable[[str, bytes], Any]
Row = tuple[int, str, int, bool, bytes]  # revision, key, previous, deleted, document: the columns of the log, in order

# Rows for one INSERT. Every statement gives the interpreter lock away and has to win it back from a busy event loop,
# which costs more than the insert itself; so a usual batch is a single statement, its own BEGIN and COMMIT included.
_ROWS_A_STATEMENT = 64

# The newest row of each key at a revision, from the index alone, in the order of the keys.
_NEWEST = """
    SELECT max(revision) AS revision FROM log INDEXED BY log_by_key
    WHERE key > :low AND key < :high AND revision <= :revision GROUP BY key ORDER BY key
"""
_STATE_AT = f"""
    SELECT row.key, row.revision, row.document FROM ({_NEWEST}) AS newest CROSS JOIN log AS row USING (revision)
    WHERE NOT row.deleted LIMIT :limit
"""
_HEADS = """
    SELECT row.key, row.revision, row.deleted, CASE WHEN row.deleted THEN x'' ELSE row.document END
    FROM (SELECT max(revision) AS revision FROM log INDEXED BY log_by_key GROUP BY key ORDER BY key) AS newest
    CROSS JOIN log AS row USING (revision)
"""
# NOT INDEXED still leaves the primary key: history is read in its own order, and stops where the batch is full.
_HISTORY = """
    SELECT row.revision, row.key, row.deleted, row.document, before.revision, before.document
    FROM log AS row NOT INDEXED LEFT JOIN log AS before NOT INDEXED
        ON before.revision = row.previous AND before.key = row.key AND NOT before.deleted
    WHERE row.revision > :after AND row.revision <= :upto AND row.key > :low AND row.key < :high
    ORDER BY row.revision
"""


class Head(NamedTuple):
    """The newest row of a key; the document of a tombstone is left out."""

    key: str
    revision: int
    deleted: bool
    document: bytes


class Stretch(NamedTuple):
    """A piece of history: `events` are all there are up to `reached`."""

    events: list[Event]
    reached: int


class Log:
    """The rows, for the one thread that writes. Opening raises StoreError."""

    def __init__(self, path: Path, *, max_pages: int | None = None) -> None:
        self.path = path
        with _in_our_words(path):
            self._connection = open_writer(path, max_pages=max_pages)
        try:
            with _in_our_words(path):
                self.compacted = _compacted(self._connection, path)
                newest = self._connection.execute("SELECT max(revision) FROM log").fetchone()[0]
        except BaseException:
            self._connection.close()
            raise
        self.revision = max(newest or 0, self.compacted)

    def heads(self) -> Iterator[Head]:
        """The newest row of every key, tombstones included, in the order of the keys."""
        with _in_our_words(self.path):
            yield from map(Head._make, self._connection.execute(_HEADS))

    def append(self, rows: Sequence[Row]) -> dict[int, sqlite3.IntegrityError]:
        """Make the rows durable with one commit, but for those the constraints refuse: their positions, and why.

        Raises StoreError when nothing of it was kept, or, after a StoreIOError, when that cannot be known.
        """
        if len(rows) <= _ROWS_A_STATEMENT:
            with _in_our_words(self.path), suppress(sqlite3.IntegrityError):
                self._insert(rows)  # a statement outside a transaction is one, and commits itself
                return {}
        refused: dict[int, sqlite3.IntegrityError] = {}
        with self._transaction():
            for start in range(0, len(rows), _ROWS_A_STATEMENT):
                chunk = rows[start : start + _ROWS_A_STATEMENT]
                try:
                    self._insert(chunk)
                except sqlite3.IntegrityError:  # the statement is undone, the transaction goes on
                    for position, row in enumerate(chunk, start):
                        try:
                            self._insert([row])
                        except sqlite3.IntegrityError as exc:
                            refused[position] = exc
        return refused

    def compact(self, revision: int) -> None:
        """Compact to `revision`, at or after `compacted`; the cost is that of the rows in between."""
        step = {"after": self.compacted, "upto": revision}
        with self._transaction():
            # Oldest first: a tombstone must not go before the rows it buries, or those would come back to life.
            self._connection.execute(
                "DELETE FROM log WHERE revision IN"
                " (SELECT previous FROM log NOT INDEXED WHERE revision > :after AND revision <= :upto)",
                step,
            )
            self._connection.execute(
                "DELETE FROM log WHERE revision > :after AND revision <= :upto AND deleted",
                step,
            )
            self._connection.execute("UPDATE compaction SET revision = :upto", step)
        self.compacted = revision

    def close(self) -> None:
        with _in_our_words(self.path):
            self._connection.close()

    def _insert(self, rows: Sequence[Row]) -> None:
        values = ", ".join(["(?, ?, ?, ?, ?)"] * len(rows))
        self._connection.execute(
            f"INSERT INTO log (revision, key, previous, deleted, document) VALUES {values}",
            [column for row in rows for column in row],
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; SQLite may have rolled back by itself already, as it does when the disk is full."""
        with _in_our_words(self.path):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


class LogReader:
    """History, for one reading thread. Every answer is of one moment, and is refused if compaction has reached into it.

    The connection is opened with the first question: a server that is never asked for history does not pay for it.
    """

    # A batch ends at the first of these; the second keeps a few large documents from becoming gigabytes.
    max_events = 1_000
    max_bytes = 8 << 20

    def __init__(self, path: Path, index: Index) -> None:
        self.path = path
        self._index = index
        self._opened: sqlite3.Connection | None = None

    def state_at(self, prefix: str, revision: int, *, after_key: str, limit: int) -> list[Record]:
        """The records under `prefix` as they were at `revision`, by key, from after `after_key`; 0 is no limit."""
        low, high = key_range(prefix)
        asked = {"low": max(low, after_key), "high": high, "revision": revision, "limit": limit or -1}
        with self._moment(revision) as connection:
            rows = connection.execute(_STATE_AT, asked).fetchall()
        return [self._record(*row) for row in rows]

    def history(self, prefix: str, *, after: int, upto: int) -> Stretch:
        """The events under `prefix` with after < revision <= upto, oldest first, or as many of them as make a batch."""
        low, high = key_range(prefix)
        asked = {"after": after, "upto": upto, "low": low, "high": high}
        rows: list[tuple[int, str, int, bytes, int | None, bytes | None]] = []
        reached, size = upto, 0
        with self._moment(after) as connection, closing(connection.execute(_HISTORY, asked)) as cursor:
            for row in cursor:
                rows.append(row)
                size += len(row[3]) + len(row[5] or b"")
                if len(rows) >= self.max_events or size >= self.max_bytes:
                    reached = row[0]
                    break
        events = []
        for revision, key, deleted, document, before_revision, before_document in rows:
            before = None
            if before_revision is not None and before_document is not None:
                before = self._record(key, before_revision, before_document)
            events.append(event_of(self._record(key, revision, document), before, deleted=bool(deleted)))
        return Stretch(events, reached)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _record(self, key: str, revision: int, document: bytes) -> Record:
        return Record(key, revision, document, self._index(key, document))

    @contextmanager
    def _moment(self, revision: int) -> Iterator[sqlite3.Connection]:
        with _in_our_words(self.path):
            connection = self._opened
            if connection is None:
                connection = self._opened = open_reader(self.path)
            connection.execute("BEGIN")
            try:
                # Asked inside the transaction: the writer may compact while we read, and this snapshot must not notice.
                compacted = _compacted(connection, self.path)
                if revision < compacted:
                    raise RevisionCompacted(revision, compacted)
                yield connection
            finally:
                connection.execute("ROLLBACK")


def key_range(prefix: str) -> tuple[str, str]:
    """Bounds, both exclusive, of the keys under a prefix that ends in "/": "0" is the character after it."""
    if not prefix.endswith("/"):
        raise ValueError(f'the prefix "{prefix}" must end in "/"')
    return prefix, prefix[:-1] + "0"


def _compacted(connection: sqlite3.Connection, path: Path) -> int:
    row = connection.execute("SELECT revision FROM compaction").fetchone()
    if row is None:
        raise StoreCorrupt(path, "the compaction table is empty")
    return int(row[0])


@contextmanager
def _in_our_words(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        raise translated(exc, path) from exc
