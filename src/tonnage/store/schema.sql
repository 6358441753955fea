-- The log: one row for every write, never changed, deleted only by compaction.
--
-- `revision` counts the writes of the whole store, so the order of the rows is the order of the writes. `previous` is the
-- revision of the same key's row before this one, 0 when there was none; a key created again after a deletion points to
-- the tombstone, or to 0 (or to a row that is gone) once compaction has taken it. `follows` is the revision of the row
-- before this one of whatever key, so that a row that went missing leaves a gap. `deleted` marks a tombstone, whose
-- document is the final state of what was deleted. `checksum` is over all the other columns (records.py).
CREATE TABLE log (
    revision INTEGER PRIMARY KEY CHECK (revision > 0),
    key      TEXT    NOT NULL,
    previous INTEGER NOT NULL CHECK (previous >= 0 AND previous < revision),
    follows  INTEGER NOT NULL,
    deleted  INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    checksum INTEGER NOT NULL,
    document BLOB    NOT NULL
) STRICT;

-- The optimistic lock: a row has one successor at most, so of two writes that saw the same state one must fail.
-- SQLite keeps the revision in the index too, hence it also answers "the newest row of each key at revision R" without
-- reading a document.
CREATE UNIQUE INDEX log_by_key ON log (key, previous);

-- History at or before `revision` is gone. It is also a floor for the revision counter: compaction may take the newest
-- row of all, and the counter must not go back because of it. `rows` is how many rows were left at or before it, and
-- `sealed` the newest revision when this row was written: what is missing below the one or above the other went missing
-- behind our back. Every probe of the disk rewrites this row.
CREATE TABLE compaction (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    revision INTEGER NOT NULL CHECK (revision >= 0),
    rows     INTEGER NOT NULL,
    sealed   INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
