"""The writer's thread: group commit.

Everything queued during one commit goes into the next transaction. The thread reports once per batch, after COMMIT;
only then are writes visible and acknowledged, on the loop, in revision order (`store.py`):

    queued ──► in a transaction ──► COMMIT returned ──► settled on the loop (visible, acknowledged)
                      └── failed ───────────────────► settled on the loop (refused, invisible)

Compaction shares the thread, one step after every batch. The thread needs the interpreter lock a few times per batch: a
busy server does well with `sys.setswitchinterval(0.0001)`.

A full disk first costs history, then every write but those that need no space and those that free it: these have the
reserve (`reserve.py`). After any other failure it is unknown where the file ends, so the writer refuses all writes
until it has reopened and read the file, which it tries once a second; rows it then finds that were never acknowledged
are passed to `on_health`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from itertools import groupby
from queue import Empty, SimpleQueue

from tonnage.store import errors
from tonnage.store.log import Row, StoreLog
from tonnage.store.reserve import COMPACTION_STEP, ROOMY_BYTES, Reserve, compact_all, free_bytes, make_room
from tonnage.store.writes import Outcomes, Write, Writes, again, batches, row_of

_log = logging.getLogger(__name__)


_VERIFY_EVERY_S = 60.0
"""How often a damaged file is checked again: somebody may have repaired it, but the check is expensive."""
_ROOMY_FOR_S = 0.1
"""How long the free space of a disk with plenty is not measured again."""
_IN_PLACE = 32
_SMALL_BYTES = 16 << 10
"""An update of a document of at most this size, such as a lease, may use a little of the reserve."""
_LENT_BYTES = 128 << 10
"""Space for such an update: its pages in the write-ahead log and in the file, with those of the index."""
_MAKE_ROOM_EVERY_S = 1.0
"""How often plain writes try to make space when no history is left to give up; deletions always may."""


class _Request(Enum):
    PROBE = "try the disk"
    STOP = "the last thing in the queue"


@dataclass(eq=False)
class StoreWriter:
    """Owns the log until `stop`. All methods and callbacks but `on_durable` belong to the loop.

    `on_settled(writes, outcomes)` comes once per batch, in order. `on_compacted(revision, error)` comes after every
    step: a compaction ends when its target is reached or there is an error. `on_health(error, rows)` comes after every
    probe, with rows that a failed commit left after all. `on_durable(revision)` comes in the writer's thread, before
    the revision is acknowledged. `is_full`: the disk was full when the log was opened.
    """

    log: StoreLog
    reserve: Reserve
    _: KW_ONLY
    on_settled: Callable[[Writes, Outcomes], None]
    on_compacted: Callable[[int, errors.StoreError | None], None]
    on_health: Callable[[errors.StoreError | None, Sequence[Row]], None]
    on_durable: Callable[[int], None]
    probe_every_s: float
    is_full: bool = False

    def __post_init__(self) -> None:
        self._queue: SimpleQueue[Write | int | _Request] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[errors.StoreError | None] = self._loop.create_future()
        self._broken: errors.StoreError | None = None
        self._probe_at: float | None = None  # while writing fails: when to try again
        self._made_room_at = self._roomy_until = float("-inf")
        self._in_hand: list[Write] = []
        self._compact_to = 0  # the newest revision that was submitted to compact to; 0 after an error
        self._gives_back = False  # after a compaction: while there are pages to give back
        self._removed: errors.StoreRemoved | None = None  # and where the open file was saved
        self._has_made_room = False  # and the loop does not know yet how far history went
        # A daemon: a program that forgets to close the store can still end; acknowledged writes are on disk.
        self._thread = threading.Thread(target=self._run, name="tonnage-store-writer", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def submit(self, item: Write | int) -> None:
        self._queue.put(item)

    def probe(self) -> None:
        self._queue.put(_Request.PROBE)

    async def stop(self) -> None:
        """Write what is queued, close the log, end the thread. Submit nothing afterwards. Raises StoreError."""
        self._queue.put(_Request.STOP)
        error = await self._stopped
        self._thread.join()  # it has nothing left to do but to return
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            self._work()
        except RuntimeError:
            # The loop is closed, so nobody can be told anything. Raised by call_soon_threadsafe.
            if not self._loop.is_closed():
                self._end_in_disorder()
                raise
        except BaseException:
            self._end_in_disorder()
            raise

    def _end_in_disorder(self) -> None:
        """Answer all callers with an error: this thread is about to die of a bug."""
        error = errors.StoreIOError(self.log.path, "the writing thread ended")
        waiting = self._in_hand + [item for item in self._take(wait=False) if isinstance(item, Write)]
        self._loop.call_soon_threadsafe(self.on_settled, waiting, [error for _ in waiting])
        self._loop.call_soon_threadsafe(self.on_health, error, ())
        self._loop.call_soon_threadsafe(self._stopped.set_result, error)

    def _work(self) -> None:
        stopping = False
        with suppress(errors.StoreError):
            self.log.confirm_files()  # as loading left them
        if self.is_full:
            self._fails()
        while not stopping:
            writes: list[Write] = []
            is_asked = False
            for item in self._take(wait=not self._is_compacting and not self._gives_back):
                match item:
                    case Write():
                        writes.append(item)
                    case int():
                        self._compact_to = max(self._compact_to, item)
                    case _Request.PROBE:
                        is_asked = True
                    case _:
                        stopping = True
            if writes:
                self._in_hand = writes
                outcomes = [outcome for batch in batches(writes) for outcome in self._commit(batch)]
                self._loop.call_soon_threadsafe(self.on_settled, writes, outcomes)
                self._in_hand = []
            if not stopping and (is_asked or (self._probe_at is not None and time.monotonic() >= self._probe_at)):
                self._probe()
            if self._has_made_room:  # after the writes: history never ends above the newest revision
                self._has_made_room = False
                self._report(None)
            if self._is_compacting and not stopping:
                self._compact()
            elif (
                self._gives_back and not writes and not stopping
            ):  # a write uses free pages, and does not wait for this
                self._gives_back = self._give_back()
        error: errors.StoreError | None = None
        try:
            if self._probe_at is not None and self._broken is None:
                self._make_room()
            self.log.close()
        except errors.StoreError as exc:
            error = exc
        self.reserve.take()  # for the next start
        self._loop.call_soon_threadsafe(self._stopped.set_result, error)

    def _take(self, *, wait: bool) -> list[Write | int | _Request]:
        """Everything queued; with `wait`, at least one item, unless it is time to try the disk."""
        items: list[Write | int | _Request] = []
        if wait:
            left_s = None if self._probe_at is None else max(0.0, self._probe_at - time.monotonic())
            try:
                items.append(self._queue.get(timeout=left_s))
            except Empty:
                return items
        while not self._queue.empty():  # this thread is the only consumer
            items.append(self._queue.get_nowait())
        return items

    def _commit(self, writes: list[Write]) -> Outcomes:
        """One commit. It is acknowledged if the files' names lead to the open files before and after it."""
        if self._broken is not None:
            return [again(self._broken) for _ in writes]
        try:
            self.log.require_files()
            try:
                self._require_room(writes)
                outcomes: Outcomes = self._append(writes)
            except errors.StoreFull as full:
                outcomes = self._append_on_full_disk(writes, full)
            self.log.confirm_files()
            self.on_durable(self.log.revision)
        except Exception as exc:
            failure = self._judged(exc)
            return [again(failure) for _ in writes]
        return outcomes

    def _require_room(self, writes: Sequence[Write]) -> None:
        """Raise StoreFull before the last space is used: a commit must never be stuck in the write-ahead log."""
        now = time.monotonic()
        if now < self._roomy_until:
            return
        if free_bytes(self.log.path.parent) >= ROOMY_BYTES:
            self._roomy_until = now + _ROOMY_FOR_S
            return
        size = sum(len(write.record.document) for write in writes)
        if not self.reserve.has_room_for(size, self.log.unfolded_bytes()):
            raise errors.StoreFull(self.log.path)

    def _append(self, writes: Sequence[Write]) -> list[errors.StoreError | None]:
        """Append in order, in one commit. Raises StoreError if none of them is kept."""
        outcomes: list[errors.StoreError | None] = [None] * len(writes)
        if writes[0].discards is not None:
            self.log.discard(row_of(writes[0]), writes[0].discards)
            return outcomes
        for position, reason in self.log.append([row_of(write) for write in writes]).items():
            record = writes[position].record
            error = errors.WriteRefused(self.log.path, record.key, record.revision, str(reason))
            error.__cause__ = reason
            outcomes[position] = error
        return outcomes

    def _append_on_full_disk(self, writes: list[Write], full: errors.StoreFull) -> Outcomes:
        """Make space and retry: everything if the reserve can be whole, else what needs no space or frees it."""
        self._fails()
        is_urgent = any(write.makes_room for write in writes)
        now = time.monotonic()
        has_history = self.log.compacted < self.log.revision
        if is_urgent or has_history or now - self._made_room_at >= _MAKE_ROOM_EVERY_S:
            self._made_room_at = now
            self._make_room()
            self.reserve.take()
            with suppress(errors.StoreFull):
                self._require_room(writes)
                return self._append(writes)
        outcomes: list[errors.StoreError | None] = [again(full) for _ in writes]
        # A new object needs space. A replacement needs hardly any: leases are renewed.
        in_place = [position for position, write in enumerate(writes) if write.makes_room or write.before is not None]
        try:
            for makes_room, positions in groupby(in_place, key=lambda position: writes[position].makes_room):
                run = list(positions)
                for start in range(0, len(run), _IN_PLACE):
                    chosen = [(position, writes[position]) for position in run[start : start + _IN_PLACE]]
                    for position in self._replace(chosen, makes_room):
                        outcomes[position] = None
            if is_urgent:
                self._make_room()
            self.reserve.take()
        except Exception as exc:
            failure = self._judged(exc)
            return [error and again(failure) for error in outcomes]
        return outcomes

    def _replace(self, writes: list[tuple[int, Write]], makes_room: bool) -> list[int]:
        """Write without history, together if there is space, else one by one; returns the positions of durable writes.

        Deletions may use the reserve, and a small update a little of it: a row that follows the others needs a new page
        of the file now and then, even where it replaces one of the same size.
        """
        try:
            self._replace_run([write for _, write in writes], makes_room)
            return [position for position, _ in writes]
        except errors.StoreFull:
            if makes_room:
                self._make_room()
                self.reserve.release()
        done: list[int] = []
        for position, write in writes:
            is_small = len(write.record.document) <= _SMALL_BYTES
            may_grow = makes_room or (is_small and self.reserve.lend(_LENT_BYTES))
            with suppress(errors.StoreFull):
                self._replace_run([write], may_grow)
                done.append(position)
        return done

    def _replace_run(self, writes: list[Write], makes_room: bool) -> None:
        if writes[0].discards is not None:
            self.log.discard(row_of(writes[0]), writes[0].discards)
        else:
            self.log.replace([row_of(write) for write in writes], may_grow=makes_room)
        with suppress(errors.StoreFull, errors.StoreInUse):  # it is durable; the next write does the rest
            compact_all(self.log)
            self.log.fold()

    def _make_room(self) -> None:
        self._has_made_room = True
        make_room(self.log, self.reserve)

    def _probe(self) -> None:
        """Try the disk; after a failure of the file, reopen it first. The result is always reported."""
        rows: Sequence[Row] = ()
        error: errors.StoreError | None = None
        try:
            self.log.require_files()
            if self._broken is not None:
                rows = self.log.reopen()
                if isinstance(self._broken, errors.StoreCorrupt):
                    self.log.verify()  # the next write may not touch the bad page, but it is there
            try:
                self._try_disk()
            except errors.StoreFull:  # perhaps nobody writes, and there is history or a free page to give back
                self._make_room()
                self._try_disk()
        except errors.StoreRemoved as exc:
            if self._removed is None or self._removed.rescued is None:
                self._removed = self.log.rescue(exc)
            error = self._judged(self._removed)
        except Exception as exc:
            error = self._judged(exc)
        if error is None:
            if self._broken is not None:
                _log.warning("%s takes writes again", self.log.path)
            self._broken = self._probe_at = None
        self._loop.call_soon_threadsafe(self.on_health, error, rows)

    def _try_disk(self) -> None:
        self.log.probe()
        self.log.confirm_files()
        self.reserve.take()
        if not self.reserve.has_room_for(0):
            raise errors.StoreFull(self.log.path)

    @property
    def _is_compacting(self) -> bool:
        return self.log.compacted < self._compact_to

    def _compact(self) -> None:
        """One step. An error ends the compaction."""
        error = self._broken
        if error is None:
            try:
                self.log.compact(min(self._compact_to, self.log.compacted + COMPACTION_STEP))
                self.log.confirm_files()
            except Exception as exc:
                error = self._judged(exc)
        self._report(error)
        if error is not None:
            self._compact_to = 0
        if not self._is_compacting:
            self._gives_back = self._broken is None

    def _give_back(self) -> bool:
        """One step; True if there is more. A failed step is left to the next compaction."""
        if self._broken is not None:
            return False
        try:
            has_more = self.log.give_back()
            if not has_more:
                self.log.fold()  # until then the file keeps its length
            self.log.confirm_files()
            return has_more
        except Exception as exc:
            self._judged(exc)
            return False

    def _report(self, error: errors.StoreError | None) -> None:
        self._loop.call_soon_threadsafe(self.on_compacted, self.log.compacted, error)

    def _fails(self) -> None:
        waits_s = _VERIFY_EVERY_S if isinstance(self._broken, errors.StoreCorrupt) else self.probe_every_s
        now = time.monotonic()
        if self._probe_at is None or self._probe_at <= now:  # failures in between do not delay it
            self._probe_at = now + waits_s

    def _judged(self, exc: Exception) -> errors.StoreError:
        """The failure as a StoreError; the writer continues only after those that a file survives for certain."""
        if isinstance(exc, (errors.StoreFull, errors.StoreInUse)):
            self._fails()
            return exc
        if isinstance(exc, errors.StoreError):
            self._broken = exc
        else:
            # An unknown failure, so the file is unknown, too. The thread must live on to answer its callers.
            self._broken = errors.StoreIOError(self.log.path, repr(exc))
            self._broken.__cause__ = exc
        self._fails()
        return self._broken
