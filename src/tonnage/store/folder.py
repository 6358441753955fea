"""Opening a folder: the directory, the lock, the log, and the newest state out of it, in that order.

The folder holds `lock`, `log.sqlite3` with SQLite's own two files beside it, and `reserve` (`reserve.py`) where one is
wanted, all readable by their owner alone.
All of this blocks, so `Store.open` runs it in a thread. Whatever fails, nothing stays open or locked.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tonnage.private_files import own_folder
from tonnage.store.database import sync_directory, translated
from tonnage.store.errors import StoreFull
from tonnage.store.loading import Loaded
from tonnage.store.lock import FolderLock
from tonnage.store.log import Log
from tonnage.store.log_reader import Index
from tonnage.store.migration import FindProblem
from tonnage.store.records import Record
from tonnage.store.reserve import MIN_FREE_BYTES, RESERVE_FILE, Reserve, free_bytes
from tonnage.store.state import State

LOG_FILE = "log.sqlite3"

_log = logging.getLogger(__name__)


class OpenFolder(NamedTuple):
    """A folder that is ours until it is closed."""

    folder: Path
    lock: FolderLock
    log: Log
    state: State
    loaded: Loaded
    reserve: Reserve

    def close(self) -> None:
        try:
            self.log.close()
        finally:
            self.lock.release()


def open_folder(
    folder: Path, index: Index, max_pages: int | None, find_problem: FindProblem | None = None, reserve_bytes: int = 0
) -> OpenFolder:
    """Make the folder if it is not there, take it, load what it holds, and try the disk. Raises StoreError, NotOurs."""
    try:
        return _opened(folder, index, max_pages, find_problem, reserve_bytes)
    except StoreFull as exc:
        hint = "make room on its file system, then start again"
        if (folder / RESERVE_FILE).exists():
            hint += f"; if nothing else can go, remove {folder / RESERVE_FILE}, start, and delete objects"
        raise StoreFull(exc.path, hint=hint) from exc


def _opened(
    folder: Path, index: Index, max_pages: int | None, find_problem: FindProblem | None, reserve_bytes: int
) -> OpenFolder:
    try:
        _require_room(folder)
        _make_directory(folder)
        lock = FolderLock(folder)
    except OSError as exc:
        raise translated(exc, folder) from exc
    with ExitStack() as undo:
        undo.callback(lock.release)
        log = Log(folder / LOG_FILE, max_pages=max_pages, find_problem=find_problem)
        undo.callback(log.close)
        state, loaded = _load(log, index)
        reserve = _try_disk(folder, log, reserve_bytes)
        opened = OpenFolder(folder, lock, log, state, loaded, reserve)
        undo.pop_all()
    return opened


def _require_room(folder: Path) -> None:
    """On a full disk nothing is begun."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if free_bytes(there) < MIN_FREE_BYTES:
        raise StoreFull(folder / LOG_FILE)


def _try_disk(folder: Path, log: Log, reserve_bytes: int) -> Reserve:
    """A store that cannot write is not opened: better a word at the start than with the first write."""
    reserve = Reserve(folder, reserve_bytes)
    log.probe()
    reserve.take()
    return reserve


def _make_directory(folder: Path) -> None:
    is_new = not folder.is_dir()
    own_folder(folder)  # another opener may make it at this very moment; which of us has it is for the lock to say
    if is_new:
        sync_directory(folder.parent)


def _load(log: Log, index: Index) -> tuple[State, Loaded]:
    loaded = log.load()
    state = State.loaded(
        (Record(key, revision, document, index(key, document)) for key, (revision, document) in loaded.records.items()),
        loaded.tombstones,
    )
    loaded.records.clear()  # the state has them
    for damage in loaded.damage:
        _log.error("%s is damaged: %s", log.path, damage)
    return state, loaded
