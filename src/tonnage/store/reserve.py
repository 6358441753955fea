"""Room kept back for deletions: a file of nothing, given up when the disk is full.

A deletion is a write too, and on a full disk none succeeds, not even the one that would make room. So the folder holds
a file `reserve` whose blocks are really allocated. When a write finds the disk full the file is cut to nothing; what
was deleted and compacted meanwhile is given back; then the reserve takes its room again, or as much of it as there is,
before any other write does.
"""

from __future__ import annotations

import os
from pathlib import Path

from tonnage.private_files import require_own_file

RESERVE_FILE = "reserve"
MIN_FREE_BYTES = 1 << 20
"""Less room than this counts as none when the disk is tried: a probe is smaller than any write that would follow it."""
_SMALLEST_BYTES = 256 << 10


class Reserve:
    """`wanted` bytes in `folder`, if there is room for four times as much; a quarter of the room otherwise.

    0 wants none. Making one raises NotOurs for a link or another's file. Nothing else fails: a reserve that cannot be
    had is none.
    """

    def __init__(self, folder: Path, wanted: int) -> None:
        self.path = folder / RESERVE_FILE
        require_own_file(self.path)
        self._wanted = min(wanted, (free_bytes(folder) + self.size) // 4) if wanted else 0

    @property
    def size(self) -> int:
        try:
            return os.lstat(self.path).st_size
        except OSError:
            return 0

    @property
    def is_whole(self) -> bool:
        return self.size >= self._wanted

    def release(self) -> None:
        """Give the room to whoever needs it now."""
        self._resize(0)

    def take(self) -> bool:
        """Take what is wanted, or as much as there is by halves; whether it is all."""
        size, held = self._wanted, self.size
        while size > held and size >= _SMALLEST_BYTES:
            if self._resize(size):
                break
            size //= 2
        return self.is_whole

    def _resize(self, size: int) -> bool:
        if not self._wanted and not self.path.exists():
            return True
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        held = os.fstat(fd).st_size
        try:
            if size > held:
                os.posix_fallocate(fd, 0, size)
            else:
                os.ftruncate(fd, size)
        except OSError:
            # A file system may have taken a part of it before it failed.
            os.ftruncate(fd, min(held, size))
            return False
        finally:
            os.close(fd)
        return True


def free_bytes(folder: Path) -> int:
    """What this user may still write there; very much where the file system does not say."""
    found = os.statvfs(folder)
    if not found.f_blocks:
        return 1 << 62
    return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize
