"""On a full disk: what the store can give up, and in which order.

What is in the write-ahead log goes into the file, so that it can be cut; then all of history goes; then the free pages,
one step at a time, since moving pages is writing too. Where one of these finds no room itself, the reserve is given up
for it. Whoever is behind gets 410 and lists again, which is better than a write that is refused.
"""

from __future__ import annotations

from contextlib import suppress

from tonnage.store.errors import StoreFull, StoreInUse
from tonnage.store.log import StoreLog
from tonnage.store.reserve import ROOMY_BYTES, Reserve, free_bytes

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
