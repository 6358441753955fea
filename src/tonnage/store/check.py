"""Checks a store's file, read-only, with or without a running server beside it; and makes backups.

A backup is a copy of one moment, made by SQLite's backup interface while the server runs. It is synced and checked
before it gets its name, so a file of that name is a whole backup. After a restore, clients still know later revisions.
So the copy continues at a far higher revision without history: every watch gets 410 and lists again, every update of a
lost state is a conflict. Upstream: `etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tonnage.private_files import sync_path, try_lock
from tonnage.store import database, loading
from tonnage.store.errors import BackupExists, StoreCorrupt, StoreMissing
from tonnage.store.folder import LOG_FILE, acknowledged_in
from tonnage.store.log import ALL_ROWS, StoreLog, read_seal

MAX_TOLD = 100


@dataclass(slots=True)
class Report:
    """The result of a check. `problems` is empty for a whole file; `is_readable` is False if SQLite gave up."""

    path: Path
    version: int = 0
    rows: int = 0
    objects: int = 0
    revision: int = 0
    compacted: int = 0
    file_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    is_readable: bool = True

    @property
    def is_whole(self) -> bool:
        return not self.problem_count

    def add(self, problem: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_TOLD:
            self.problems.append(problem)


def check_folder(folder: Path) -> Report:
    """Check the store in `folder`. Raises StoreError if there is none, or it is not ours."""
    path = folder / LOG_FILE
    with reading(folder) as (connection, acknowledged):
        report = check(connection, path)
        # A running server is writing the file; it has looked at its own start.
        lost = database.lost_commits(database.wal_of(path)) if acknowledged is not None else 0
    if report.is_readable and acknowledged is not None and report.revision < acknowledged:
        report.add(f"revision {acknowledged} was acknowledged, and the newest that is there is {report.revision}")
    if lost:
        report.add(f"the write-ahead log breaks off, and {lost} commits at its end are lost")
    return report


def check(connection: sqlite3.Connection, path: Path) -> Report:
    report = Report(path, file_bytes=path.stat().st_size)
    try:
        connection.execute("BEGIN")
        version = database.judged_version(connection, path)
        if version is None:
            return report
        report.version = version
        for (line,) in connection.execute(f"PRAGMA integrity_check({MAX_TOLD})"):
            if line != "ok":
                report.add(f"SQLite: {line}")
        _check_rows(connection, report, read_seal(connection, path))
    except (sqlite3.Error, UnicodeDecodeError) as exc:
        report.is_readable = False
        report.add(str(database.translated(exc, path)))
    except StoreCorrupt as exc:
        report.is_readable = False
        report.add(exc.message)
    finally:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
    return report


@contextmanager
def reading(folder: Path) -> Iterator[tuple[sqlite3.Connection, int | None]]:
    """Yield a read-only connection, and the newest acknowledged revision unless a server runs. Raises StoreError.

    SQLite wants two files of its own beside the database. Without a server, a file that was closed in order is read as
    immutable; after a kill SQLite creates the missing one, which is removed again. The lock keeps servers from starting
    meanwhile.
    """
    path = folder / LOG_FILE
    if not path.is_file():
        raise StoreMissing(path)
    with ExitStack() as undo:
        try:
            options = "mode=ro"
            acknowledged = _acknowledged(folder, undo)
            if acknowledged is not None:
                wal, shm = database.wal_of(path), path.with_name(f"{LOG_FILE}-shm")
                if not wal.exists() or not wal.stat().st_size:
                    options = "mode=ro&immutable=1"
                elif not shm.exists():
                    undo.callback(shm.unlink, missing_ok=True)
            connection = undo.enter_context(
                closing(sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, isolation_level=None))
            )
            connection.execute("PRAGMA cell_size_check = ON")
            database.judged_version(connection, path)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as exc:
            raise database.translated(exc, path) from exc
        yield connection, acknowledged


def _acknowledged(folder: Path, undo: ExitStack) -> int | None:
    """The newest acknowledged revision, None while a server runs there; else none can start until `undo`."""
    try:
        lock = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    undo.callback(os.close, lock)
    return acknowledged_in(lock) if try_lock(lock) else None


def _check_rows(connection: sqlite3.Connection, report: Report, seal: loading.Seal) -> None:
    scan, last = loading.Scan(seal), 0
    for row in connection.execute(ALL_ROWS, {"after": -(1 << 63)}):
        report.rows += 1
        revision = row[0]
        if revision <= last:
            report.add(f"revision {revision} comes after revision {last}")
        last = revision
        scan.take(row)
    loaded = scan.finish()
    report.objects = len(loaded.records)
    report.revision, report.compacted = loaded.revision, seal.compacted
    for damage in loaded.damage:
        report.add(str(damage))


LEAP = 1_000_000_000
"""Revisions between a backup and what is restored from it: etcd's advice, 1,500 writes a second for a week."""


def back_up(folder: Path, target: Path) -> Report:
    """Copy the store in `folder` to the new file `target` (mode 0600); returns the check of the copy."""
    if os.path.lexists(target):
        raise BackupExists(target)
    draft = target.with_name(f".{target.name}.{os.getpid()}.partial")
    with reading(folder) as (connection, _):
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except OSError as exc:
            raise database.translated(exc, target) from exc
        try:
            report = _copied(connection, draft)
            report.path = target
            if not report.is_readable:
                raise StoreCorrupt(folder, f"its copy cannot be read: {report.problems[-1]}")
            try:
                os.link(draft, target)  # fails where a rename would replace
            except FileExistsError as exc:
                raise BackupExists(target) from exc
            sync_path(target.absolute().parent)
        except (sqlite3.Error, OSError) as exc:
            raise database.translated(exc, target) from exc
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                with suppress(OSError):
                    draft.with_name(draft.name + suffix).unlink()
    return report


def _copied(source: sqlite3.Connection, draft: Path) -> Report:
    database.copy_database(source, draft)
    report = _checked(draft)
    if report.is_whole and report.version:  # a damaged copy is kept as it is, for analysis
        with closing(StoreLog(draft)) as log:
            log.load()
            log.leap(LEAP)
            while log.give_back(keep_pages=0):
                pass
        report = _checked(draft)
    sync_path(draft)
    return report


def _checked(draft: Path) -> Report:
    with closing(sqlite3.connect(f"{draft.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as copy:
        copy.isolation_level = None
        return check(copy, draft)
