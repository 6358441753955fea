"""Disk space kept back for deletions, and what the store gives up on a full disk.

A deletion is a write, too, and on a full disk even that one fails. So the folder holds a file `reserve` whose blocks
are really allocated; it is emptied when a deletion finds no space, and filled again before any other write. It must be
larger than what the write-ahead log can hold that does not yet fit into the file: `BATCH_BYTES` of one commit plus the
4 MiB between two checkpoints.

On a full disk the store folds the write-ahead log, then gives up all history, then free pages, step by step, because
moving pages is writing, too. Clients that are behind get 410 and list again, which is better than a refused write.
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
"""Less space than this counts as none when the disk is tried: a probe is smaller than any write that follows it."""
ROOMY_BYTES = 64 << 20
"""With this much space nobody needs to count what a commit takes."""
BATCH_BYTES = 2 << 20
"""Documents of one commit; a larger document has its own commit."""
_SMALLEST_BYTES = 64 << 10
_LEFT_BYTES = 256 << 10
"""What the reserve leaves free on a full disk, for small files of the cluster's other programs."""


class Reserve:
    """`wanted` bytes in `folder`, or a quarter of the free space if that is less, but never less than it once had. 0 is
    no reserve. Raises NotOurs for a link or another user's file."""

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
        """True if a commit of `document_bytes` fits into the write-ahead log and, once folded, into the file, which
        must also grow by `unfolded_bytes`. Always True without a reserve: then the disk itself decides."""
        needed = MIN_FREE_BYTES + 2 * document_bytes + unfolded_bytes
        return not self._wanted or (self.is_whole and free_bytes(self.path.parent) >= needed)

    def release(self) -> None:
        self._resize(0)

    def lend(self, size: int) -> bool:
        """Free `size` bytes for a moment; False once half of the reserve is used: the rest is for deletions."""
        short = size - free_bytes(self.path.parent)
        left = self.size - max(short, 0)
        return short <= 0 or (left >= self._due() // 2 and self._resize(left))

    def take(self) -> bool:
        """Allocate what is wanted, or nearly all there is; True if it is all."""
        held, due = self.size, self._due()
        more = min(due - held, free_bytes(self.path.parent) - _LEFT_BYTES)
        least = min(due - held, _SMALLEST_BYTES)  # what is missing may be less than a step
        while more >= least > 0 and not self._resize(held + more):
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
            # A file system may have allocated a part before it failed.
            os.ftruncate(fd, min(held, size))
            return False
        finally:
            os.close(fd)
        return True


def free_bytes(folder: Path) -> int:
    """What this user may still write there; very much if the file system does not say."""
    found = os.statvfs(folder)
    if not found.f_blocks:
        return 1 << 62
    return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize


COMPACTION_STEP = 500
"""Revisions of one step of compaction: a step took about 10 ms for 500 rows of 1 KB."""


def make_room(log: StoreLog, reserve: Reserve) -> None:
    """Give up all history and give free pages back. Raises StoreError, but never StoreFull."""
    if not _is_tidied(log):
        reserve.release()
        _is_tidied(log)


def compact_all(log: StoreLog) -> None:
    """Give up all history. Steps get smaller, down to one revision, if there is no space. Raises StoreFull then."""
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
    """Do what can be done; True if there was space for all of it."""
    had_room = True
    for step in (StoreLog.fold, compact_all, StoreLog.fold, _give_back_all):
        try:
            with suppress(StoreInUse):
                step(log)
        except StoreFull:
            had_room = False
    return had_room


def _give_back_all(log: StoreLog) -> None:
    """Give back until there is plenty; the writer does the rest when it is idle."""
    has_more = True
    while has_more and free_bytes(log.path.parent) < ROOMY_BYTES:
        has_more = log.give_back(keep_pages=0)
        log.fold()  # until then the moved pages are in the write-ahead log as well
