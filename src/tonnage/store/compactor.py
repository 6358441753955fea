"""When history is compacted: beyond a number of revisions, a number of bytes, or an age.

    settled ──► look: too many, or too large? ──┐
    every five minutes: what was the newest ────┴─► one compaction at a time ──► writer's thread, in steps
    five minutes ago is the oldest now

Upstream compacts etcd every five minutes to where it was five minutes ago (--etcd-compaction-interval). The other two
limits are for five minutes of writing at full speed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from tonnage.store import errors, loading
from tonnage.store.folder import StoreOptions
from tonnage.store.writes import Compaction

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Compactor:
    """Asks the writer for compactions. Belongs to the loop. History at or before `compacted` is gone."""

    options: StoreOptions
    history: loading.HistoryBytes
    _: KW_ONLY
    compacted: int
    submit: Callable[[Compaction], None]
    newest: Callable[[], int]
    failed: Callable[[errors.StoreError], None]

    def __post_init__(self) -> None:
        self._automatic: Compaction | None = None
        self._loop = asyncio.get_running_loop()
        self._newest_before = 0  # at the last tick; 0 before the first
        self._aged = 0  # history at or before this is too old
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(self.options.keep_s, self._strike)

    def look(self) -> None:
        """Begin a compaction if one is due. Called after every write."""
        # A tenth on top, so that compaction comes rarely with much to do, not with every write.
        if self._automatic is not None or self._timer is None:
            return
        options, target, newest = self.options, self._aged, self.newest()
        if newest >= self.compacted + options.keep_revisions + max(1, options.keep_revisions // 10):
            target = max(target, newest - options.keep_revisions)
        if self.history.total > options.keep_bytes + options.keep_bytes // 10:
            target = max(target, self.history.to_keep(options.keep_bytes))
        if target > self.compacted:
            self._automatic = Compaction(target, None)
            self.submit(self._automatic)

    async def compact(self, revision: int) -> None:
        """Compact history at or before `revision`, and wait for it."""
        done: asyncio.Future[None] = self._loop.create_future()
        self.submit(Compaction(revision, done))
        await done

    def give_up(self, revision: int) -> None:
        """Treat history up to `revision` as gone, because it has a hole."""
        self.compacted = max(self.compacted, revision)

    def note(self, compaction: Compaction, revision: int, error: errors.StoreError | None) -> None:
        """A step is done or has failed; history is compacted to `revision` now."""
        self.compacted = max(self.compacted, revision)
        self.history.forget(revision)
        if error is None and revision < compaction.target:
            return
        if compaction is self._automatic:
            self._automatic = None
            if error is not None and not isinstance(error, errors.StoreClosed):
                self.failed(error)
                _log.warning("compaction stopped at revision %d and will be tried again: %s", revision, error)
        elif compaction.done is not None and not compaction.done.done():
            if error is None:
                compaction.done.set_result(None)
            else:
                compaction.done.set_exception(error)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _strike(self) -> None:
        self._aged, self._newest_before = self._newest_before, self.newest()
        self._timer = self._loop.call_later(self.options.keep_s, self._strike)
        self.look()
