-- The log: one row for every write, never changed, deleted only by compaction.
--
-- `revision` counts the writes of the whole store, so the order of the rows is the order of the writes. `previous` is the
-- revision of the same key's row before this one, 0 when there was none; a key created again after a deletion points to
-- the tombstone, or to 0 (or to a row that is gone) once compaction has taken it. `deleted` marks a tombstone, whose
-- document is the final state of what was deleted.
CREATE TABLE log (
    revision INTEGER PRIMARY KEY CHECK (revision > 0),
    key      TEXT    NOT NULL,
    previous INTEGER NOT NULL CHECK (previous >= 0 AND previous < revision),
    deleted  INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    document BLOB    NOT NULL
) STRICT;

-- The optimistic lock: a row has one successor at most, so of two writes that saw the same state one must fail.
-- SQLite keeps the revision in the index too, hence it also answers "the newest row of each key at revision R" without
-- reading a document.
CREATE UNIQUE INDEX log_by_key ON log (key, previous);

-- History at or before `revision` is gone. It is also a floor for the revision counter: compaction may take the newest
-- row of all, and the counter must not go back because of it.
CREATE TABLE compaction (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    revision INTEGER NOT NULL CHECK (revision >= 0)
) STRICT;
INSERT INTO compaction (only_row, revision) VALUES (1, 0);
