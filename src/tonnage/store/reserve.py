"""Room kept back for deletions, and what the store gives up on a full disk.

A deletion is a write too, and on a full disk none succeeds, not even the one that would make room. So the folder holds
a file `reserve` whose blocks are really allocated; it is cut to nothing when even a deletion finds no room, and takes
its room again before any other write does. It must be larger than what the write-ahead log can hold that the file has
no room for yet: `BATCH_BYTES` of one commit on top of the 4 MiB between two checkpoints.

On a full disk the write-ahead log goes into the file, then all of history goes, then the free pages, one step at a
time, since moving pages is writing too. Whoever is behind gets 410 and lists again, which is better than a refused
write.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tonnage.private_files import require_own_file
from tonnage.store.errors import StoreFull, StoreInUse
from tonnage.store.log import StoreLog

RESERVE_FILE = "reserve"
MIN_FREE_BYTES = 1 << 20
"""Less room than this counts as none when the disk is tried: a probe is smaller than any write that would follow it."""
ROOMY_BYTES = 64 << 20
"""With so much room nobody has to count what a commit may take."""
BATCH_BYTES = 2 << 20
"""Documents of one commit; a larger document has a commit of its own."""
_SMALLEST_BYTES = 64 << 10
_LEFT_BYTES = 256 << 10
"""What the reserve leaves free on a full disk, for the small files of the cluster's other programs."""


class Reserve:
    """`wanted` bytes in `folder`, or a quarter of the room there is if that is less, but never less than it had once; 0
    wants none. Raises NotOurs for a link or another's file. A reserve that cannot be had is none."""

    def __init__(self, folder: Path, wanted: int) -> None:
        self.path = folder / RESERVE_FILE
        require_own_file(self.path)
        self._wanted = wanted
        self._most = self.size

    @property
    def size(self) -> int:
        try:
            return os.lstat(self.path).st_size
        except OSError:
            return 0

    @property
    def is_whole(self) -> bool:
        return self.size >= self._due()

    def has_room_for(self, document_bytes: int, unfolded_bytes: int = 0) -> bool:
        """Is there room for a commit of so much in the write-ahead log, and in the file once it is folded?
        `unfolded_bytes` is what the file has yet to grow by. A store without a reserve asks the disk instead."""
        needed = MIN_FREE_BYTES + 2 * document_bytes + unfolded_bytes
        return not self._wanted or (self.is_whole and free_bytes(self.path.parent) >= needed)

    def release(self) -> None:
        self._resize(0)

    def lend(self, size: int) -> bool:
        """Let `size` bytes be free for a moment; False once half of the reserve is gone: the rest is for deletions."""
        short = size - free_bytes(self.path.parent)
        left = self.size - max(short, 0)
        return short <= 0 or (left >= self._due() // 2 and self._resize(left))

    def take(self) -> bool:
        """Take what is wanted, or nearly as much as there is; whether it is all."""
        held = self.size
        more = min(self._due() - held, free_bytes(self.path.parent) - _LEFT_BYTES)
        while more >= _SMALLEST_BYTES and not self._resize(held + more):
            more //= 2
        return self.is_whole

    def _due(self) -> int:
        if not self._wanted:
            return 0
        held = self.size
        self._most = max(self._most, held)
        return min(self._wanted, max(self._most, (free_bytes(self.path.parent) + held) // 4))

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


COMPACTION_STEP = 500
"""Revisions for one step of compaction: a step took about 10 ms for 500 rows of 1 KB."""


def make_room(log: StoreLog, reserve: Reserve) -> None:
    """Give up all history and give free pages back. Raises StoreError, but for StoreFull."""
    if not _is_tidied(log):
        reserve.release()
        _is_tidied(log)


def compact_all(log: StoreLog) -> None:
    """Give up all history. A step that finds no room is made smaller, down to one revision. Raises StoreFull then."""
    step = COMPACTION_STEP
    while log.compacted < log.revision:
        try:
            log.compact(min(log.revision, log.compacted + step))
        except StoreFull:
            if step == 1:
                raise
            step = max(1, step // 8)
            log.fold()


def _is_tidied(log: StoreLog) -> bool:
    """Do what can be done; was there room for all of it?"""
    had_room = True
    for step in (StoreLog.fold, compact_all, StoreLog.fold, _give_back_all):
        try:
            with suppress(StoreInUse):
                step(log)
        except StoreFull:
            had_room = False
    return had_room


def _give_back_all(log: StoreLog) -> None:
    """Until there is plenty; the rest is for the writer's idle moments."""
    has_more = True
    while has_more and free_bytes(log.path.parent) < ROOMY_BYTES:
        has_more = log.give_back(keep_pages=0)
        log.fold()  # what a step moved is in the write-ahead log as well until then
