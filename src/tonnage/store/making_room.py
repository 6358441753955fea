"""On a full disk: what the store can give up, and in which order.

The reserve first, which is what it is for; then what is in the write-ahead log goes into the file, so that it can be
cut; then all of history; then the free pages, one step at a time, since moving pages is writing too. Whoever is behind
gets 410 and lists again, which is better than a write that is refused.
"""

from __future__ import annotations

from contextlib import suppress

from tonnage.store.errors import StoreFull, StoreInUse
from tonnage.store.log import Log
from tonnage.store.reserve import Reserve

COMPACTION_STEP = 500
"""Revisions for one step of compaction: a step took about 10 ms for 500 rows of 1 KB."""


def make_room(log: Log, reserve: Reserve) -> None:
    """Give up the reserve and all of history, and give free pages back. Raises StoreError, but for StoreFull."""
    reserve.release()
    for step in (_fold, _compact_all, _fold, _give_back_all):
        with suppress(StoreFull, StoreInUse):  # what can be done is done
            step(log)


def _fold(log: Log) -> None:
    log.fold()


def _compact_all(log: Log) -> None:
    while log.compacted < log.revision:
        log.compact(min(log.revision, log.compacted + COMPACTION_STEP))


def _give_back_all(log: Log) -> None:
    has_more = True
    while has_more:
        has_more = log.give_back(keep_pages=0)
        log.fold()  # what a step moved is in the write-ahead log as well until then
