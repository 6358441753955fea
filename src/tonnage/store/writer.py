"""The writer's thread: group commit.

Everything queued while one commit was syncing goes into the next transaction, so the cost of a sync is shared by as
many callers as are waiting. The thread reports once a batch, after COMMIT, through `loop.call_soon_threadsafe`; only
then does anything become visible or acknowledged, on the loop, in the order of the revisions (`store.py`).

    queued ──► in a transaction ──► COMMIT returned ──► settled on the loop (visible, acknowledged)
                      └── failed ───────────────────► settled on the loop (refused, invisible)

Compaction shares the connection and therefore the thread. It goes in steps, one after each batch, so that a write
waits for one step at the most.

The thread needs the interpreter lock a few times a batch. A loop that is never idle hands it over after the
interpreter's switch interval, 5 ms unless set: a busy server does well with `sys.setswitchinterval(0.0001)`.

A full disk fails the batch and no more. After any other failure of the file nobody knows where the file ends, so the
writer refuses all that follows; a restart reads the file anew.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final

from tonnage.store.errors import StoreClosed, StoreError, StoreFull, StoreInUse, StoreIOError, WriteRefused
from tonnage.store.log import Log
from tonnage.store.records import Record

# Revisions for one step of compaction: a step took about 10 ms for 500 rows of 1 KB.
COMPACTION_STEP = 500


class Write:
    """A write on its way to the log. `before` is the live state it replaces, `previous` the row it follows."""

    __slots__ = ("before", "deleted", "done", "followers", "previous", "record")

    def __init__(
        self, record: Record, *, before: Record | None, previous: int, deleted: bool, done: asyncio.Future[Record]
    ) -> None:
        self.record = record
        self.before = before
        self.previous = previous
        self.deleted = deleted
        self.done = done
        self.followers: list[asyncio.Future[None]] = []  # writers of the same key, waiting for this one to settle


class Compaction:
    """A request to compact up to `target`; `done` is None when nobody waits."""

    __slots__ = ("done", "target")

    def __init__(self, target: int, done: asyncio.Future[None] | None) -> None:
        self.target = target
        self.done = done


class _Stop:
    """The last thing in the queue."""


_STOP: Final = _Stop()

Writes = list[Write]
Outcomes = Sequence[StoreError | None]  # one for each write of the batch, None where it is durable
OnSettled = Callable[[Writes, Outcomes], None]
OnCompacted = Callable[[Compaction, int, StoreError | None], None]


class Writer:
    """Owns the log from `start` to `stop`. `submit` and `compact` are called on the loop, and so are the two callbacks.

    `on_settled(writes, outcomes)` comes once for each batch, in the order of submission. `on_compacted(compaction,
    revision, error)` comes after each step, `revision` being how far history is compacted now; the compaction is over
    when its target is reached or there is an error.
    """

    def __init__(self, log: Log, *, on_settled: OnSettled, on_compacted: OnCompacted) -> None:
        self._log = log
        self._on_settled = on_settled
        self._on_compacted = on_compacted
        self._queue: SimpleQueue[Write | Compaction | _Stop] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[StoreError | None] = self._loop.create_future()
        self._broken: StoreError | None = None
        # A daemon: a program that forgets to close the store can still end, and what was acknowledged is on disk.
        self._thread = threading.Thread(target=self._run, name="tonnage-store-writer", daemon=True)
        self._thread.start()

    def submit(self, write: Write) -> None:
        self._queue.put(write)

    def compact(self, compaction: Compaction) -> None:
        self._queue.put(compaction)

    async def stop(self) -> None:
        """Write what is queued, close the log, end the thread. Submit nothing afterwards. Raises StoreError."""
        self._queue.put(_STOP)
        error = await self._stopped
        self._thread.join()  # it has nothing left to do but to return
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            self._work()
        except RuntimeError:
            # The loop was closed under us, so nobody can be told anything any more. Raised by call_soon_threadsafe.
            if not self._loop.is_closed():
                raise

    def _work(self) -> None:
        compactions: deque[Compaction] = deque()
        stopping = False
        while not stopping:
            writes: list[Write] = []
            for item in self._take(wait=not compactions):
                match item:
                    case Write():
                        writes.append(item)
                    case Compaction():
                        compactions.append(item)
                    case _:
                        stopping = True
            if writes:
                self._loop.call_soon_threadsafe(self._on_settled, writes, self._commit(writes))
            if stopping:
                for compaction in compactions:
                    self._report(compaction, StoreClosed(self._log.path.parent))
            elif compactions and self._step(compactions[0]):
                compactions.popleft()
        error: StoreError | None = None
        try:
            self._log.close()
        except StoreError as exc:
            error = exc
        self._loop.call_soon_threadsafe(self._stopped.set_result, error)

    def _take(self, *, wait: bool) -> list[Write | Compaction | _Stop]:
        """All that is queued; with `wait`, at least one thing."""
        items = [self._queue.get()] if wait else []
        while not self._queue.empty():  # this thread is the only one that takes
            items.append(self._queue.get_nowait())
        return items

    def _commit(self, writes: list[Write]) -> Outcomes:
        if self._broken is not None:
            return [_again(self._broken) for _ in writes]
        rows = [(w.record.revision, w.record.key, w.previous, w.deleted, w.record.document) for w in writes]
        try:
            refused = self._log.append(rows)
        except Exception as exc:
            failure = self._judged(exc)
            return [_again(failure) for _ in writes]
        outcomes: list[StoreError | None] = [None] * len(writes)
        for position, reason in refused.items():
            record = writes[position].record
            error = WriteRefused(self._log.path, record.key, record.revision, str(reason))
            error.__cause__ = reason
            outcomes[position] = error
        return outcomes

    def _step(self, compaction: Compaction) -> bool:
        """One step; whether the compaction is over."""
        error = self._broken
        if error is None and self._log.compacted < compaction.target:
            try:
                self._log.compact(min(compaction.target, self._log.compacted + COMPACTION_STEP))
            except Exception as exc:
                error = self._judged(exc)
        self._report(compaction, error)
        return error is not None or self._log.compacted >= compaction.target

    def _report(self, compaction: Compaction, error: StoreError | None) -> None:
        self._loop.call_soon_threadsafe(self._on_compacted, compaction, self._log.compacted, error)

    def _judged(self, exc: Exception) -> StoreError:
        """The failure as a StoreError; the writer goes on only after those that a file survives for certain."""
        if isinstance(exc, (StoreFull, StoreInUse)):
            return exc
        if isinstance(exc, StoreError):
            self._broken = exc
        else:
            # Not a failure we know, so the file is not known either. The thread must live on to answer the callers.
            self._broken = StoreIOError(self._log.path, repr(exc))
            self._broken.__cause__ = exc
        return self._broken


def _again(error: StoreError) -> StoreError:
    """The same error for another caller: a raised exception carries its raiser's traceback, so each needs its own."""
    twin = type(error).__new__(type(error), *error.args)
    vars(twin).update(vars(error))
    twin.__cause__ = error.__cause__
    return twin
