"""One process per folder.

The lock is the kernel's (`flock` on `folder/lock`), so it goes with the process that held it, however that process
ended: a killed server never leaves a folder locked. The holder writes its pid into the file for the error message of
the second comer; the pid itself decides nothing. Beside it stands the inode of the log while that is open: where it
still stands at the next start, the log was not closed, and its write-ahead log must be there.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tonnage.private_files import open_lock
from tonnage.store.errors import StoreInUse


class FolderLock:
    """Hold a folder until `release`. Raises StoreInUse when somebody, this process included, holds it already.

    NotOurs when the lock is a link or another's: a link would have us overwrite what it points to.
    """

    def __init__(self, folder: Path) -> None:
        self._fd = open_lock(folder / "lock")
        try:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                raise StoreInUse(folder, self._holder()) from exc
            marks = os.pread(self._fd, 64, 0).split()[1:]
            self._open_file = int(marks[0]) if marks and marks[0].isdigit() else 0
            self._write()
        except BaseException:
            os.close(self._fd)
            raise

    def was_open(self, path: Path) -> bool:
        """Was this very file opened by the last holder, and not closed?"""
        return self._open_file != 0 and path.exists() and path.stat().st_ino == self._open_file

    def mark_open(self, path: Path) -> None:
        self._open_file = path.stat().st_ino
        self._write()

    def mark_closed(self) -> None:
        self._open_file = 0
        self._write()

    def _write(self) -> None:
        """Who holds the folder, and which file is open. A full disk need not take it."""
        text = f"{os.getpid()} {self._open_file}\n" if self._open_file else f"{os.getpid()}\n"
        with suppress(OSError):
            os.pwrite(self._fd, text.encode(), 0)
            os.ftruncate(self._fd, len(text))

    def release(self) -> None:
        # Closing releases the lock. The file stays: to remove it would let two later comers lock two different files.
        os.close(self._fd)

    def _holder(self) -> int | None:
        pid = next(iter(os.pread(self._fd, 64, 0).split()), b"")
        return int(pid) if pid.isdigit() else None
