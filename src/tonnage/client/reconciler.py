"""The loop of every controller: events name keys, workers reconcile the objects of a key.

`reconcile(key)` must be safe to run twice, late, or after a missed event. It returns None, or the seconds after which
to run again. What it raises is logged and retried with growing pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from tonnage import logs
from tonnage.client import errors, leadership
from tonnage.client.cache import Cache
from tonnage.client.metrics import WorkQueueMetrics
from tonnage.client.workqueue import WorkQueue
from tonnage.clock import Clock
from tonnage.errors import AlreadyExists, Conflict, NotFound, TonnageError
from tonnage.objects.meta import Key, Object

T = TypeVar("T", bound=Object)
Reconcile = Callable[[Key], Awaitable[float | None]]

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
            metrics=metrics.queue(queue_name or name) if metrics is not None else None,
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
        """Queue the object's key, or the keys of `keys`, on every event.

        With `changed_by`, an update counts only if its value differs between the old and the new object.
        """

        def changed(found: T) -> None:
            for key in (found.key,) if keys is None else keys(found):
                self.queue.add(key)

        def updated(old: T, new: T) -> None:
            if changed_by is None or changed_by(old) != changed_by(new):
                changed(new)

        objects.add_handlers(on_add=changed, on_update=updated, on_delete=changed)

    async def run(self) -> None:
        tasks = [asyncio.create_task(self._work(), name=f"{self.name}-{n}") for n in range(self._workers)]
        try:
            await asyncio.gather(*tasks)
        finally:
            self.queue.close()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            try:
                await self._reconcile_one(key)
            finally:
                self.queue.done(key)
            await asyncio.sleep(0)  # a key may need no request, and thousands of keys must not block the loop

    async def _reconcile_one(self, key: Key) -> None:
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
