"""Opens a folder: the directory, the lock, the log, then the newest state; and the options of the store in it.

`open_folder` blocks: `Store.open` runs it in a thread. If anything fails, nothing stays open or locked. The lock is the
kernel's (`flock` on `folder/lock`), so it ends with its process. The holder writes into the file its pid, for the error
message of a second process, and the newest acknowledged revision: a log that has less at the next start was cut, lost
its write-ahead log, or is an older one.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tonnage.private_files import open_lock, own_folder, pid_in, try_lock
from tonnage.store import database, health, loading
from tonnage.store.errors import StoreFull, StoreInUse
from tonnage.store.log import StoreLog
from tonnage.store.records import Index, State, StoreRecord
from tonnage.store.reserve import MIN_FREE_BYTES, Reserve, free_bytes, make_room

KEEP_REVISIONS: Final = 100_000
"""Revisions of history: more than a minute of the fastest writing; a disconnected informer is back in seconds."""
KEEP_BYTES: Final = 128 << 20
"""Bytes of history: 100,000 revisions of 1.3 KB, as pods and leases have. Large documents get fewer revisions."""
KEEP_S: Final = 300.0
"""Upstream's interval. Older history goes within as long again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Of the limits of history, the first one reached counts."""

    index: Index = lambda key, document: None
    """Returns a record's `attributes`: a pure function, called on the loop before a write is accepted, and in a thread
    for what is read from disk. Its exceptions are passed on."""
    keep_revisions: int = KEEP_REVISIONS
    keep_bytes: int = KEEP_BYTES
    keep_s: float = KEEP_S
    window_events: int = 4_096
    window_bytes: int = 64 << 20
    """The newest events, in memory. Watches that start before them read the disk."""
    max_lag_events: int = 10_000
    max_lag_bytes: int = 32 << 20
    """A watch that lags further behind is ended."""
    reserve_bytes: int = 0
    """Kept back for deletions on a full disk."""
    key_beside: Path | None = None
    """If this file exists and the store does not, StoreMissing is raised."""
    probe_every_s: float = health.PROBE_EVERY_S


class FolderLock:
    """Hold a folder until `release`. Raises StoreInUse, and NotOurs if the lock is a link or another user's."""

    def __init__(self, folder: Path) -> None:
        self._fd = open_lock(folder / "lock")
        try:
            if not try_lock(self._fd):
                raise StoreInUse(folder, pid_in(self._fd) or None)
            self.acknowledged = acknowledged_in(self._fd)
            self.note(self.acknowledged)
        except BaseException:
            os.close(self._fd)
            raise

    def note(self, revision: int) -> None:
        """Write our pid and the newest acknowledged revision, unsynced: after a power cut it is late, never ahead."""
        with suppress(OSError):
            os.pwrite(self._fd, f"{os.getpid():<20} {revision:>20}\n".encode(), 0)

    def release(self) -> None:
        # Closing releases the lock. The file stays: without it two later processes could lock two different files.
        os.close(self._fd)


def acknowledged_in(lock: int) -> int:
    """The newest revision acknowledged by a holder of this lock file; 0 if it does not say."""
    words = os.pread(lock, 64, 0).split()
    return int(words[1]) if len(words) == 2 and words[1].isdigit() else 0


LOG_FILE = "log.sqlite3"

_log = logging.getLogger(__name__)


class OpenFolder(NamedTuple):
    folder: Path
    lock: FolderLock
    log: StoreLog
    state: State
    loaded: loading.Loaded
    reserve: Reserve
    trouble: StoreFull | None = None

    def close(self) -> None:
        try:
            self.log.close()
        finally:
            self.lock.release()


def open_folder(folder: Path, options: StoreOptions) -> OpenFolder:
    """Create the folder if it is missing, lock it, load it, and try the disk. Raises StoreError, NotOurs. A full disk
    refuses a new store, but an existing one is opened, with `trouble`: it can be read and deleted from."""
    try:
        return _opened(folder, options)
    except StoreFull as exc:
        hint = "make room on its file system, then start again"
        raise StoreFull(exc.path, way_out=hint) from exc


def _opened(folder: Path, options: StoreOptions) -> OpenFolder:
    try:
        is_full = _free_bytes_at(folder) < MIN_FREE_BYTES
        if is_full and not (folder / LOG_FILE).exists():
            raise StoreFull(folder / LOG_FILE)
        own_folder(folder)  # another process may create it at the same time; the lock decides who has it
        lock = FolderLock(folder)
    except OSError as exc:
        raise database.translated(exc, folder) from exc
    with ExitStack() as undo:
        undo.callback(lock.release)
        reserve = Reserve(folder, options.reserve_bytes)
        if is_full:
            reserve.release()  # SQLite creates files beside the log before it reads the first row
        log = StoreLog(folder / LOG_FILE, key_beside=options.key_beside, acknowledged=lock.acknowledged)
        undo.callback(log.close)
        state, loaded = _load(log, options.index)
        opened = OpenFolder(folder, lock, log, state, loaded, reserve, _found_trouble(log, reserve))
        undo.pop_all()
    return opened


def _free_bytes_at(folder: Path) -> int:
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return free_bytes(there)


def _found_trouble(log: StoreLog, reserve: Reserve) -> StoreFull | None:
    """Try the disk. Raises StoreError if writing fails for another reason than a full disk."""
    try:
        log.probe()
    except StoreFull as full:
        make_room(log, reserve)
        reserve.take()
        return full
    reserve.take()
    return None if reserve.has_room_for(0) else StoreFull(log.path)


def _load(log: StoreLog, index: Index) -> tuple[State, loading.Loaded]:
    loaded = log.load()
    state = State.loaded(
        (
            StoreRecord(key, revision, document, index(key, document))
            for key, (revision, document) in loaded.records.items()
        ),
        loaded.tombstones,
    )
    loaded.records.clear()  # the state has them
    loaded.tombstones.clear()
    for damage in loaded.damage:
        _log.error("%s is damaged: %s", log.path, damage)
    return state, loaded
