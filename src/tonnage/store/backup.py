"""A consistent copy of a store while its server runs.

The copy is made by SQLite's backup interface in one step, so it is of one moment, and neither waits for the writer nor
makes it wait. It is written under a name of its own, synced and checked, and only then gets the name that was asked
for: a file of that name is a whole backup, whatever was killed when.

A backup is a store's file. Restoring is putting it, alone, into an empty folder (`DIR/store/log.sqlite3`): the files
that SQLite keeps beside the old one must not be left there, they would be taken for the newest writes of this one.

What the server wrote after the backup is gone once it is restored, but clients have heard of it: the same revisions
must not come again with another content, and nobody may go on watching as if nothing had happened. So the copy goes on
at a revision that is far ahead and has no history before it: every watch gets 410 and lists again, every update that
names a lost state is a conflict. Upstream: `etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted`.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from tonnage.private_files import sync_folder
from tonnage.store.check import Report, check, reading
from tonnage.store.database import SCHEMA_VERSION, translated
from tonnage.store.errors import BackupExists, StoreCorrupt
from tonnage.store.log import StoreLog
from tonnage.store.migration import FindProblem

LEAP = 1_000_000_000
"""Revisions between a backup and what is restored from it: etcd's advice, 1,500 writes a second for a week."""


def back_up(folder: Path, target: Path, find_problem: FindProblem | None = None) -> Report:
    """Copy the store in `folder` to the new file `target` (mode 0600); what the check of the copy found.

    Damaged rows are copied as they are, and reported. Raises StoreError when there is no store, when `target` is there
    already, or when the copy cannot be made whole; then there is no file of that name.
    """
    if os.path.lexists(target):
        raise BackupExists(target)
    draft = target.with_name(f".{target.name}.{os.getpid()}.partial")
    with reading(folder) as reader:
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except OSError as exc:
            raise translated(exc, target) from exc
        try:
            report = _copied(reader.connection, draft, find_problem)
            report.path = target
            if not report.is_readable:
                raise StoreCorrupt(folder, f"its copy cannot be read: {report.problems[-1]}")
            try:
                os.link(draft, target)  # fails where a rename would replace
            except FileExistsError as exc:
                raise BackupExists(target) from exc
            sync_folder(target.absolute().parent)
        except (sqlite3.Error, OSError) as exc:
            raise translated(exc, target) from exc
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                with suppress(OSError):
                    draft.with_name(draft.name + suffix).unlink()
    return report


def _copied(source: sqlite3.Connection, draft: Path, find_problem: FindProblem | None) -> Report:
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode = OFF")  # a copy that fails is thrown away
        source.backup(copy)
    report = _checked(draft, find_problem)
    if report.is_whole and report.version == SCHEMA_VERSION:  # damage is kept as it is, for who wants to look at it
        with closing(StoreLog(draft)) as log:
            log.load()
            log.leap(LEAP)
            while log.give_back(keep_pages=0):
                pass
        report = _checked(draft, find_problem)
    fd = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    return report


def _checked(draft: Path, find_problem: FindProblem | None) -> Report:
    with closing(sqlite3.connect(f"{draft.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as copy:
        copy.isolation_level = None
        return check(copy, draft, find_problem)
