"""Reads the log beside the writer: any kept state, any kept stretch of history. An answer is of one moment, and is
refused if compaction has reached into it. A row with a wrong checksum is reported, and never served."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tonnage.store.errors import RevisionCompacted, RowDamaged, StoreCorrupt
from tonnage.store.log import in_our_words, read_seal
from tonnage.store.records import Damage, Index, StoreEvent, StoreRecord, event_of, key_range, row_checksum

_COLUMNS = (
    "{0}.revision, CAST({0}.key AS BLOB), {0}.previous, {0}.follows, {0}.deleted, CAST({0}.document AS BLOB),"
    " {0}.checksum"
)
# The newest row of every key at a revision, from the index alone, by key.
_NEWEST = """
    SELECT CAST(key AS BLOB) AS key, max(revision) AS revision FROM log INDEXED BY log_by_key
    WHERE key > :low AND key < :high AND revision <= :revision GROUP BY log.key ORDER BY log.key
"""
STATE_AT = f"""
    SELECT newest.key, {_COLUMNS.format("row")} FROM ({_NEWEST}) AS newest CROSS JOIN log AS row USING (revision)
"""
# NOT INDEXED still leaves the primary key: history is read in its own order, and stops when the batch is full.
HISTORY = f"""
    SELECT {_COLUMNS.format("row")}, {_COLUMNS.format("before")}
    FROM log AS row NOT INDEXED LEFT JOIN log AS before NOT INDEXED ON before.revision = row.previous
    WHERE row.revision > :after AND row.revision <= :upto AND row.key > :low AND row.key < :high
    ORDER BY row.revision
"""


class Stretch(NamedTuple):
    """A piece of history: `events` are complete up to `reached`."""

    events: list[StoreEvent]
    reached: int


class LogReader:
    """History, for one reading thread. The connection is opened on first use."""

    # A batch ends at the first limit; the second keeps a few large documents from becoming gigabytes.
    max_events = 1_000
    max_bytes = 8 << 20

    def __init__(self, path: Path, index: Index) -> None:
        self.path = path
        self._index = index
        self._opened: sqlite3.Connection | None = None

    def state_at(
        self, prefix: str, revision: int, *, after_key: str, limit: int, kept_out: Collection[str] = ()
    ) -> list[StoreRecord]:
        """The records under `prefix` at `revision`, by key, after `after_key`, without `kept_out`; limit 0 is no limit.
        Raises RowDamaged."""
        low, high = key_range(prefix)
        low = max(low, after_key)
        asked = {"low": low, "high": high, "revision": revision}
        records: list[StoreRecord] = []
        with self._moment(revision) as connection, closing(connection.execute(STATE_AT, asked)) as cursor:
            for indexed_key, *row in cursor:
                key = _text(indexed_key)
                if key in kept_out:
                    continue
                if row[1] != indexed_key:
                    raise StoreCorrupt(self.path, f'the index has revision {row[0]} under "{key}", the table has not')
                record, deleted = self._sound(row, reached=revision)
                if not deleted:
                    records.append(record)
                    if len(records) == limit:
                        break
        return records

    def history(self, prefix: str, *, after: int, upto: int) -> Stretch:
        """The next batch of events under `prefix` with after < revision <= upto, oldest first. Raises RowDamaged."""
        low, high = key_range(prefix)
        asked = {"after": after, "upto": upto, "low": low, "high": high}
        rows: list[Any] = []
        reached, size = upto, 0
        with self._moment(after) as connection, closing(connection.execute(HISTORY, asked)) as cursor:
            for row in cursor:
                rows.append(row)
                size += len(row[5] or b"") + len(row[12] or b"")
                if len(rows) >= self.max_events or size >= self.max_bytes:
                    reached = row[0]
                    break
        events = []
        for row in rows:
            record, deleted = self._sound(row[:7], reached=row[0])
            # A tombstone always had a state before it. If that was damaged, only the final state is left.
            before = record if deleted else None
            if row[7] is not None:
                store_record, was_deleted = self._sound(row[7:], reached=row[0])
                if not was_deleted:
                    before = store_record
            events.append(event_of(record, before, deleted=deleted))
        return Stretch(events, reached)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _sound(self, row: Any, *, reached: int) -> tuple[StoreRecord, bool]:
        """The row as a record, and True if it is a tombstone. Raises RowDamaged: history up to `reached` has a hole."""
        revision, raw_key, previous, follows, deleted, document, checksum = row
        key = _text(raw_key)
        if checksum != row_checksum(revision, key, previous, follows, deleted, document):
            raise RowDamaged(self.path, Damage(key, revision, "its checksum does not match"), reached)
        return StoreRecord(key, revision, document, self._index(key, document)), bool(deleted)

    @contextmanager
    def _moment(self, revision: int) -> Iterator[sqlite3.Connection]:
        with in_our_words(self.path):
            connection = self._opened
            if connection is None:
                connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
                connection.execute("PRAGMA query_only = ON")
                self._opened = connection
            connection.execute("BEGIN")
            try:
                # Read inside the transaction: the writer may compact meanwhile, and this snapshot does not notice.
                seal = read_seal(connection, self.path)
                if not seal.is_sound:
                    raise StoreCorrupt(self.path, "the record of compaction is damaged")
                if revision < seal.compacted:
                    raise RevisionCompacted(revision, seal.compacted)
                yield connection
            finally:
                connection.execute("ROLLBACK")


def _text(raw: Any) -> str:
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else ""
