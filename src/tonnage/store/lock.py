"""One process per folder.

The lock is the kernel's (`flock` on `folder/lock`), so it goes with the process that held it, however that process
ended: a killed server never leaves a folder locked. The holder writes its pid into the file for the error message of
the second comer; the pid itself decides nothing.
"""

from __future__ import annotations

import fcntl
import os
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
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(self._fd)
            raise

    def release(self) -> None:
        # Closing releases the lock. The file stays: to remove it would let two later comers lock two different files.
        os.close(self._fd)

    def _holder(self) -> int | None:
        text = os.pread(self._fd, 32, 0).strip()
        return int(text) if text.isdigit() else None
