"""The loop of every controller: events name keys, workers reconcile the objects of a key.

`reconcile(key)` must be safe to run twice, late, or after a missed event. It returns None, or the seconds after which
to run again. What it raises is logged and retried with growing pauses. The keys wait in a `WorkQueue`: a key waits at
most once, has at most one worker, and is never lost.

                      add                     get                    done
      (nowhere) ───────────► waiting ───────────────► in work ───────────────► (nowhere)
          ▲                     ▲                        │ add while in work, then done
          │ add_after, retry    └────────────────────────┘
      delayed ──► add when its time has come

The queue mirrors client-go's workqueue, on the event loop and the given clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Generic, TypeVar

from tonnage import logs
from tonnage.client import errors, leadership
from tonnage.client.cache import Cache
from tonnage.client.metrics import WorkQueueMetrics
from tonnage.clock import Clock, exponential_s
from tonnage.errors import AlreadyExists, Conflict, NotFound, TonnageError
from tonnage.objects.meta import Key, Object

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Object)
Reconcile = Callable[[Key], Awaitable[float | None]]


@dataclass(eq=False)
class WorkQueue(Generic[K]):
    """Keys in the order of adding; the first retry comes after `first_retry_s`, the next after twice that. `metrics`
    shows the queue under its `name`."""

    _: KW_ONLY
    clock: Clock
    first_retry_s: float = 0.005
    max_retry_s: float = 1000.0
    metrics: InitVar[WorkQueueMetrics | None] = None
    name: str = ""

    def __post_init__(self, metrics: WorkQueueMetrics | None) -> None:
        self._queue: asyncio.Queue[K | None] = asyncio.Queue()  # None follows the last key
        self._wanted: dict[K, float] = {}  # waiting, or waiting again once they are done: since when
        self._in_work: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._delayed: dict[K, tuple[float, asyncio.Task[None]]] = {}  # when a key is added, and who adds it
        self.is_closed = False
        self._metrics = metrics.of(self, self.name) if metrics is not None else None

    @property
    def depth(self) -> int:
        """How many keys wait, or will as soon as they are done."""
        return 0 if self.is_closed else len(self._wanted)

    def at_work_s(self) -> list[float]:
        now_s = self.clock.monotonic()
        return [now_s - since_s for since_s in self._in_work.values()]

    def __len__(self) -> int:
        """How many keys wait; keys in work or delayed are not counted."""
        return self._queue.qsize() - self.is_closed

    def __contains__(self, key: K) -> bool:
        """True if the key waits, or will as soon as it is done."""
        return key in self._wanted

    def add(self, key: K) -> None:
        """Queue a key; adding it again while it waits changes nothing."""
        if self.is_closed or key in self._wanted:
            return
        self._wanted[key] = self.clock.monotonic()
        if self._metrics is not None:
            self._metrics.adds.inc()
        if key not in self._in_work:
            self._queue.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key later. Of several times the earliest counts."""
        if self.is_closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due_at = self.clock.monotonic() + seconds
        before = self._delayed.get(key)
        if before is not None:
            if before[0] <= due_at:
                return
            before[1].cancel()
        self._delayed[key] = due_at, asyncio.create_task(self._add_at(due_at, key))

    async def _add_at(self, due_at: float, key: K) -> None:
        await self.clock.sleep(due_at - self.clock.monotonic())
        del self._delayed[key]
        self.add(key)

    async def get(self) -> K | None:
        """The next key, to be given back by `done`; None once the queue is closed and empty."""
        while (key := await self._queue.get()) is None:
            self._put_end()  # for the next caller, behind keys that came back meanwhile
            if self._queue.qsize() == 1:
                return None
        now_s, since_s = self.clock.monotonic(), self._wanted.pop(key)
        self._in_work[key] = now_s
        if self._metrics is not None:
            self._metrics.waited_s.observe(now_s - since_s)
        return key

    def done(self, key: K) -> None:
        """The work on the key is over, successful or not. If it was added meanwhile, it waits again."""
        since_s = self._in_work.pop(key)
        if self._metrics is not None:
            self._metrics.worked_s.observe(self.clock.monotonic() - since_s)
        if key in self._wanted:
            self._queue.put_nowait(key)
        self._queue.task_done()

    def retry(self, key: K) -> None:
        """The work failed: add the key again, after a pause that doubles with every failure until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self._metrics is not None:
            self._metrics.retries.inc()
        self.add_after(key, exponential_s(self.first_retry_s, failures, max_s=self.max_retry_s))

    def forget(self, key: K) -> None:
        """The work succeeded, or is given up: the next failure is the first again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def wait_idle(self) -> None:
        """Return when no key waits or is in work; delayed keys do not count."""
        await self._queue.join()

    def close(self) -> None:
        """Accept no new keys and drop delayed ones; waiting keys are still handed out, then `get` returns None."""
        if not self.is_closed:
            self._put_end()
        self.is_closed = True
        for _, task in self._delayed.values():
            task.cancel()
        self._delayed.clear()

    def _put_end(self) -> None:
        self._queue.put_nowait(None)
        self._queue.task_done()  # it is no work


_log = logs.logger(__name__)


class Reconciler:
    """One kind of work, by key: at most `workers` at a time, never two on the same key."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        clock: Clock,
        workers: int = 4,
        first_retry_s: float = 0.05,
        max_retry_s: float = 60.0,
        metrics: WorkQueueMetrics | None = None,
        queue_name: str = "",
    ) -> None:
        """`metrics` shows the queue as `queue_name`, by default the reconciler's name."""
        self.name = name
        self.queue: WorkQueue[Key] = WorkQueue(
            clock=clock,
            first_retry_s=first_retry_s,
            max_retry_s=max_retry_s,
            metrics=metrics,
            name=queue_name or name,
        )
        self._reconcile = reconcile
        self._workers = workers

    def add(self, key: Key) -> None:
        self.queue.add(key)

    def follow(
        self,
        objects: Cache[T],
        keys: Callable[[T], Iterable[Key]] | None = None,
        *,
        changed_by: Callable[[T], object] | None = None,
    ) -> None:
        """Queue the object's key, or the keys of `keys`, on every event; on an update those of both states.

        With `changed_by`, an update counts only if its value differs between the old and the new object.
        """

        def changed(found: T) -> None:
            for key in (found.key,) if keys is None else keys(found):
                self.queue.add(key)

        def updated(old: T, new: T) -> None:
            if changed_by is None or changed_by(old) != changed_by(new):
                changed(old)
                changed(new)

        objects.add_handlers(on_add=changed, on_update=updated, on_delete=changed)

    async def run(self) -> None:
        free = asyncio.Semaphore(self._workers)
        try:
            async with asyncio.TaskGroup() as tasks:
                while await free.acquire() and (key := await self.queue.get()) is not None:
                    tasks.create_task(self._work(key, free), name=f"{self.name} {key}")
        finally:
            self.queue.close()

    async def _work(self, key: Key, free: asyncio.Semaphore) -> None:
        try:
            again_s = await self._reconcile(key)
        except (Conflict, NotFound, AlreadyExists, errors.Disconnected) as exc:
            # Another writer was faster, or the server is away: the informers will show it, and the key is retried.
            _log.debug("Looked at an old state", controller=self.name, key=key, error=exc.message)
            self.queue.retry(key)
        except leadership.NotLeading as exc:
            # Dropped: the current leader does it, and this program is about to end.
            _log.debug("No longer leading", controller=self.name, key=key, error=exc.message)
        except TonnageError as exc:
            _log.warning("Failed; it is tried again", controller=self.name, key=key, error=exc.message)
            self.queue.retry(key)
        except Exception:
            _log.exception("Failed; it is tried again", controller=self.name, key=key)
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if again_s is not None:
                self.queue.add_after(key, again_s)
        finally:
            self.queue.done(key)
            free.release()
