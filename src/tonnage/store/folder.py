"""Opening a folder: the directory, the lock, the log, and the newest state out of it, in that order.

The folder holds `lock`, and `log.sqlite3` with SQLite's own two files beside it, all readable by their owner alone.
All of this blocks, so `Store.open` runs it in a thread. Whatever fails, nothing stays open or locked.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tonnage.private_files import own_folder
from tonnage.store.database import sync_directory, translated
from tonnage.store.lock import FolderLock
from tonnage.store.log import Index, Log
from tonnage.store.records import Record
from tonnage.store.state import State

LOG_FILE = "log.sqlite3"


class OpenFolder(NamedTuple):
    """A folder that is ours until it is closed."""

    folder: Path
    lock: FolderLock
    log: Log
    state: State

    def close(self) -> None:
        try:
            self.log.close()
        finally:
            self.lock.release()


def open_folder(folder: Path, index: Index, max_pages: int | None) -> OpenFolder:
    """Make the folder if it is not there, take it, and load what it holds. Raises StoreError, NotOurs."""
    try:
        _make_directory(folder)
        lock = FolderLock(folder)
    except OSError as exc:
        raise translated(exc, folder) from exc
    with ExitStack() as undo:
        undo.callback(lock.release)
        log = Log(folder / LOG_FILE, max_pages=max_pages)
        undo.callback(log.close)
        opened = OpenFolder(folder, lock, log, _load(log, index))
        undo.pop_all()
    return opened


def _make_directory(folder: Path) -> None:
    is_new = not folder.is_dir()
    own_folder(folder)  # another opener may make it at this very moment; which of us has it is for the lock to say
    if is_new:
        sync_directory(folder.parent)


def _load(log: Log, index: Index) -> State:
    state = State()
    tombstones = []
    for key, revision, deleted, document in log.heads():
        if deleted:
            tombstones.append((revision, key))
        else:
            state.put(Record(key, revision, document, index(key, document)))
    for revision, key in sorted(tombstones):
        state.bury(key, revision)
    return state
