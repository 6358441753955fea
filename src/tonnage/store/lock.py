"""One process per folder.

The lock is the kernel's (`flock` on `folder/lock`), so it goes with the process that held it, however that process
ended: a killed server never leaves a folder locked. The holder writes its pid into the file for the error message of
the second comer; the pid itself decides nothing. Beside it stands the newest revision that was acknowledged: a log
that has less at the next start was cut, or lost its write-ahead log, or is an older one.
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
            self.acknowledged = acknowledged_in(self._fd)
            self.note(self.acknowledged)
        except BaseException:
            os.close(self._fd)
            raise

    def note(self, revision: int) -> None:
        """Write who holds the folder, and the newest revision that is acknowledged. A full disk need not take it.

        Not synced: it is for the next start after a kill, and after a power cut it is late, never ahead.
        """
        with suppress(OSError):
            os.pwrite(self._fd, f"{os.getpid():<20} {revision:>20}\n".encode(), 0)

    def release(self) -> None:
        # Closing releases the lock. The file stays: to remove it would let two later comers lock two different files.
        os.close(self._fd)

    def _holder(self) -> int | None:
        pid = next(iter(os.pread(self._fd, 64, 0).split()), b"")
        return int(pid) if pid.isdigit() else None


def acknowledged_in(lock: int) -> int:
    """The newest revision that a holder of this lock file has acknowledged; 0 when it does not say."""
    words = os.pread(lock, 64, 0).split()
    return int(words[1]) if len(words) == 2 and words[1].isdigit() else 0
