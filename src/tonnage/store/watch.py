"""Watches: every event after a revision, in order, none missing, none twice.

The feed takes the events of every durable batch, keeps the newest in a window, and pushes them to the joined watches. A
watch first pulls until it has caught up:

    reading the log ──(its position is inside the window)──► joined: the feed pushes ──► overrun, or closed
    a stretch a call       takes the rest of the window        a list of events a batch

A watch joins in the same step of the loop in which it takes the rest of the window, so no event is lost or repeated.
The log may hold rows that are not visible yet; a watch never reads past the feed's revision, and gets those by push.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

from tonnage.keyed import grouped
from tonnage.store.errors import StoreClosed, StoreError, WatchClosed, WatchOverrun
from tonnage.store.folder import StoreOptions
from tonnage.store.log_reader import Stretch
from tonnage.store.records import StoreEvent, key_range, resource_of

ReadHistory = Callable[[str, int, int], Awaitable[Stretch]]  # prefix, after, upto; raises RevisionCompacted

_BATCH_BYTES = 2 << 20


class Feed:
    """Takes durable events. `revision` is that of the newest one: the store's revision.

    In memory are all events above revision `floor`, limited by number and by bytes of documents.
    """

    def __init__(self, folder: Path, revision: int, read_history: ReadHistory, options: StoreOptions) -> None:
        self.folder = folder
        self.revision = self.floor = revision
        self.read_history = read_history
        self.options = options
        self.is_closed = False
        self._joined: dict[str, dict[Watch, None]] = {}  # by resource; a dict keeps the order of joining
        self._events: deque[StoreEvent] = deque()
        self._bytes = 0

    def after(self, revision: int, prefix: str) -> list[StoreEvent]:
        """The events under `prefix` above `revision`, which is not below the floor; costs the events it looks at."""
        found = []
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            if event.record.key.startswith(prefix):
                found.append(event)
        found.reverse()
        return found

    def publish(self, events: list[StoreEvent]) -> None:
        """Publish the events of one batch, in revision order; at least one."""
        self.revision = events[-1].revision
        self._events.extend(events)
        self._bytes += sum(len(event.record.document) for event in events)
        while len(self._events) > self.options.window_events or self._bytes > self.options.window_bytes:
            oldest = self._events.popleft()
            self._bytes -= len(oldest.record.document)
            self.floor = oldest.revision
        for resource, changes in grouped((resource_of(event.record.key), event) for event in events).items():
            size = sum(len(event.record.document) for event in changes)
            for watch in list(self._joined.get(resource, ())):  # a watch that overruns leaves during the loop
                watch.push(changes, size)

    def join(self, watch: Watch) -> None:
        self._joined.setdefault(resource_of(watch.prefix), {})[watch] = None

    def leave(self, watch: Watch) -> None:
        self._joined.get(resource_of(watch.prefix), {}).pop(watch, None)

    def close(self) -> None:
        """End every watch; watches still return the events pushed before."""
        self.is_closed = True
        joined = [watch for watches in self._joined.values() for watch in watches]
        self._joined.clear()
        for watch in joined:
            watch.end(StoreClosed(self.folder))


class Watch:
    """The events under one prefix, for one consumer. Made by `Store.watch`."""

    def __init__(self, feed: Feed, prefix: str, *, after: int) -> None:
        key_range(prefix)  # refuses a prefix that does not end in "/"
        self.prefix = prefix
        self._feed = feed
        self._after = after
        self._position = after  # while not joined: everything up to here has been returned
        self._joined = False
        self._pending: list[StoreEvent] = []
        self._pending_bytes = 0
        self._covers_resource = prefix == resource_of(prefix) + "/"
        self._waiter: asyncio.Future[None] | None = None
        self._ended: StoreError | None = None

    @property
    def revision(self) -> int:
        """Everything up to this revision has been returned: a bookmark may name it. It never goes back."""
        if not self._joined:
            return self._position
        if self._pending:
            return self._pending[0].revision - 1
        return max(self._position, self._feed.revision)

    async def next_batch(self) -> list[StoreEvent]:
        """Wait for the next events and return them, oldest first, at least one. For one consumer at a time.

        A cancelled call loses nothing: the next one returns the same. Raises WatchOverrun if the consumer lags too far,
        RevisionCompacted if compaction overtook a watch that still reads the log, StoreClosed after the last event of a
        closed store, WatchClosed after `close`.
        """
        while not self._joined and self._ended is None:
            events = await self._catch_up()
            if events:
                return events
        while not self._pending:
            if self._ended is not None:
                raise self._ended
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._take()

    def _take(self) -> list[StoreEvent]:
        """The pending events, at most one batch: a slow consumer's lag is what it has not been given."""
        size = 0
        for number, event in enumerate(self._pending, 1):
            size += len(event.record.document)
            if size >= _BATCH_BYTES and number < len(self._pending):
                events = self._pending[:number]
                del self._pending[:number]
                self._pending_bytes -= size
                return events
        events, self._pending, self._pending_bytes = self._pending, [], 0
        return events

    def close(self) -> None:
        """Stop watching; a waiting `next_batch` raises WatchClosed. Closing again does nothing."""
        self._drop_out(WatchClosed(self.prefix))

    def push(self, events: list[StoreEvent], size: int) -> None:
        """Called by the feed with new events of the resource, in order; `size` is the bytes of their documents."""
        if not self._covers_resource or events[0].revision <= self._after:
            # A watch may start at a future revision: events before it are left out.
            events = [e for e in events if e.revision > self._after and e.record.key.startswith(self.prefix)]
            if not events:
                return
            size = sum(len(event.record.document) for event in events)
        self._pending.extend(events)
        self._pending_bytes += size
        most = self._feed.options
        if len(self._pending) > most.max_lag_events:
            self._drop_out(WatchOverrun(self.prefix, self.revision, f"{most.max_lag_events} events"))
        elif self._pending_bytes > most.max_lag_bytes and len(self._pending) > len(events):
            self._drop_out(WatchOverrun(self.prefix, self.revision, f"{most.max_lag_bytes >> 20} MiB of events"))
        else:
            self._wake()

    def end(self, reason: StoreError) -> None:
        """End the watch; the first reason stays."""
        self._feed.leave(self)
        if self._ended is None:
            self._ended = reason
        self._wake()

    def _drop_out(self, reason: StoreError) -> None:
        """End the watch and drop its pending events, which may be large."""
        self._position = self.revision
        self._joined = False
        self._pending = []
        self._pending_bytes = 0
        self.end(reason)

    async def _catch_up(self) -> list[StoreEvent]:
        """The next past events, maybe none; joins the feed when the past ends inside the window."""
        feed = self._feed
        if feed.is_closed:
            raise StoreClosed(feed.folder)
        if self._position < feed.floor:
            stretch = await feed.read_history(self.prefix, self._position, feed.revision)
            self._position = stretch.reached
            return stretch.events
        events = feed.after(self._position, self.prefix)
        feed.join(self)
        self._joined = True
        return events

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
