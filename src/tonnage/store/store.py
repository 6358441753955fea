"""The store: keys, documents and revisions. An acknowledged write is durable.

    create/update/delete ──► checked against memory, given a revision, rendered ──► writer's thread ──► log (SQLite)
                                                                                         │ after COMMIT, once a batch
    get/list/count  ◄── memory (State) ◄────── settled on the loop, in revision order ◄───┘
    watch           ◄── feed   (watch.py) ◄──┘                    list_at ◄── reader's thread ◄── log

Invariants: a revision belongs to one write and never goes back, also across restarts. What readers and watchers see is
on disk. Of two writes that saw the same state of a key, one fails. All public methods belong to the loop that opened
the store; none blocks it.

A write of a key waits for an earlier write of the same key to settle, and is judged by its outcome: before the commit
nobody knows it, and a refusal must not name a state that then fails to become durable.

History is compacted beyond a number of revisions or of bytes, which is for minutes of writing at full speed, and beyond
an age: upstream compacts etcd every five minutes to where it was five minutes ago (--etcd-compaction-interval).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from tonnage.store import errors, health, log, log_reader, records, writer
from tonnage.store.folder import OpenFolder, StoreOptions, open_folder
from tonnage.store.records import Records, StoreEvent, StoreRecord, event_of
from tonnage.store.watch import Feed, Watch
from tonnage.store.writes import Outcomes, Write, Writes, current_fence

Render = Callable[[int], bytes]
Answer = TypeVar("Answer")


class Follower(Protocol):
    """Called with every change of a resource; after a deletion `record` is the object's final state."""

    def __call__(self, record: StoreRecord, *, is_deleted: bool) -> None: ...


_log = logging.getLogger(__name__)


class Store:
    """An open store; open it with `Store.open`, end it with `close`."""

    def __init__(self, opened: OpenFolder, options: StoreOptions) -> None:
        self.folder = opened.folder
        self.path = opened.log.path
        self._loop = asyncio.get_running_loop()
        self._lock = opened.lock
        self._state = opened.state
        self._index = options.index
        self._loaded = opened.loaded  # which keys are kept out
        self.health = health.StoreHealth(self._loop.time(), opened.loaded.damage)
        self._feed = Feed(opened.folder, opened.log.revision, self._read_history, options)
        self._assigned = opened.log.revision  # the newest revision given to a write, settled or not
        self._pending: dict[str, Write] = {}  # by key: at most one write of a key is under way
        self._followers: dict[str, list[Follower]] = {}  # by resource
        self._closing: asyncio.Task[None] | None = None
        self._reader = log_reader.LogReader(opened.log.path, options.index)
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tonnage-store-reader")
        self._probed: asyncio.Future[None] = self._loop.create_future()
        self._writer = writer.StoreWriter(
            opened.log,
            opened.reserve,
            on_settled=self._settle,
            on_compacted=self._note_compaction,
            on_health=self._note_health,
            on_durable=opened.lock.note,
            probe_every_s=options.probe_every_s,
            is_full=opened.trouble is not None,
        )
        if opened.trouble is not None:
            self.health.failed(opened.trouble, self._loop.time())
        self._options = options
        self._history = opened.loaded.history
        self.compacted = max(opened.log.compacted, opened.loaded.floor)  # history with a hole is not served
        """History at or before this revision is gone; the state at it is kept."""
        self._compacting = 0  # the revision that the writer compacts to; 0 if it does not
        self._newest_before = 0  # at the last strike of the clock; 0 before the first
        self._aged = 0  # history at or before this is too old
        self._clock: asyncio.TimerHandle | None = self._loop.call_later(options.keep_s, self._strike)
        self._compact_if_due()

    @classmethod
    async def open(cls, folder: Path, options: StoreOptions = StoreOptions()) -> Store:  # noqa: B008  # frozen
        """Open or create a store, for one process. If cancelled, it leaves the folder free. Raises StoreError."""
        opening = asyncio.get_running_loop().run_in_executor(None, open_folder, folder, options)
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_let_go)
            raise
        return cls(opened, options)

    @property
    def revision(self) -> int:
        """The newest revision that is durable and visible."""
        return self._feed.revision

    @property
    def history_bytes(self) -> int:
        """Bytes of superseded documents and tombstones in the log."""
        return self._history.total

    def get(self, key: str) -> StoreRecord | None:
        """The record of a key, None if there is none. Raises KeyDamaged if that is unknown."""
        record = self._state.get(key)
        if record is None and key in self._loaded.kept_out:
            raise self._loaded.error(self.path, key)
        return record

    def follow(self, prefix: str, follower: Follower) -> Records:
        """Call `follower` with every durable change from now on, in revision order; returns the present records. It is
        called on the loop, before the writer of the change gets its answer, and must not raise."""
        self._followers.setdefault(records.resource_of(prefix), []).append(follower)
        return self.list(prefix)

    def list(self, prefix: str) -> Records:
        """The records under a prefix that ends in "/", by key, without those that are kept out."""
        return self._state.list(prefix)

    def count(self, prefix: str) -> int:
        return self._state.count(prefix)

    async def create(self, key: str, render: Render) -> StoreRecord:
        """Store a new key; returns when it is durable. Raises KeyExists, or StoreError if it cannot be stored.

        `render(revision)` returns the document; it is called once, before this waits, and not at all if refused. A call
        that is cancelled while it waits may still be executed. The same holds for `update` and `delete`.
        """
        return await self._write("create", key, render, None)

    async def update(self, key: str, render: Render, *, expected: int, makes_room: bool = False) -> StoreRecord:
        """Replace a key at revision `expected`; `makes_room` before a deletion. Raises KeyMissing, StaleRevision."""
        return await self._write("update", key, render, expected, makes_room=makes_room)

    async def delete(self, key: str, render: Render, *, expected: int) -> StoreRecord:
        """Delete a key at revision `expected`; returns its final state. Raises KeyMissing or StaleRevision."""
        return await self._write("delete", key, render, expected)

    async def discard(self, key: str, render: Render) -> StoreRecord:
        """Delete a damaged key that is kept out. Raises KeyMissing if it is not. `render(revision)` returns the final
        state in place of the unreadable one, and a document for every damaged row."""
        return await self._write("discard", key, render, 0)

    async def find_trouble(self) -> errors.StoreError | None:
        """Why writes fail now, None if they work, by a recent write or by a probe of at most half a second."""
        now = self._loop.time()
        if not self._writer.is_alive:
            return self.health.problem or errors.StoreIOError(self.path, "the writing thread ended")
        if self.health.is_due(now) and self._closing is None:
            self.health.probing_since = now
            self._probed = self._loop.create_future()
            self._writer.probe()
        if self.health.probing_since is not None:
            await asyncio.wait([self._probed], timeout=health.PROBE_PATIENCE_S)
        return self.health.verdict(self.path, self._loop.time())

    def is_for_restart(self, trouble: errors.StoreError) -> bool:
        """True if liveness should report it, too. See `health.py`."""
        return not self._writer.is_alive or self.health.is_for_restart(trouble, self._loop.time())

    async def list_at(self, prefix: str, revision: int, *, after_key: str = "", limit: int = 0) -> Records:
        """Records under `prefix` at `revision`, after `after_key`. Raises RevisionCompacted, RevisionInFuture."""
        if revision > self.revision:
            raise errors.RevisionInFuture(revision, self.revision)
        if revision == self.revision:
            return self._state.list(prefix, after_key=after_key, limit=limit)
        if revision < self.compacted:
            raise errors.RevisionCompacted(revision, self.compacted)
        self._refuse_if_closed()
        kept_out = frozenset(self._loaded.kept_out)
        ask = partial(self._reader.state_at, prefix, revision, after_key=after_key, limit=limit, kept_out=kept_out)
        return await self._read(ask)

    def watch(self, prefix: str, *, after: int) -> Watch:
        """Every event under `prefix` with a revision above `after`. Raises RevisionCompacted. Close it when done."""
        self._refuse_if_closed()
        if after < self.compacted:
            raise errors.RevisionCompacted(after, self.compacted)
        return Watch(self._feed, prefix, after=after)

    async def close(self) -> None:
        """Finish the writes under way, end the watches, free the folder. `get`, `list` and `count` still answer from
        memory. Raises StoreError if the file could not be closed in order; the folder is free even then."""
        if self._closing is None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _write(
        self, verb: str, key: str, render: Render, expected: int | None, *, makes_room: bool = False
    ) -> StoreRecord:
        if "/" not in key:
            raise ValueError(f'the key "{key}" must name a resource and an object, as in "nodes/node-1"')
        key.encode()  # a key that SQLite cannot store fails here, not in the writer's thread
        fence = current_fence()
        # A write under way of the same key, or of the fence's key, comes first.
        while ahead := self._pending.get(key) or (self._pending.get(fence.key) if fence is not None else None):
            turn: asyncio.Future[None] = self._loop.create_future()
            ahead.followers.append(turn)
            await turn
        self._refuse_if_closed()
        if not self._writer.is_alive:
            raise errors.StoreIOError(self.path, "the writing thread ended")
        before = self._state.get(key)
        damaged = self._loaded.kept_out.get(key)
        if verb == "discard":
            if damaged is None:
                raise errors.KeyMissing(key, verb)
        elif damaged is not None:
            raise self._loaded.error(self.path, key)
        elif expected is None:
            if before is not None:
                raise errors.KeyExists(before)
        elif before is None:
            raise errors.KeyMissing(key, verb)
        elif before.revision != expected:
            raise errors.StaleRevision(verb, expected, before)
        if fence is not None and not fence.holds(store_record := self._state.get(fence.key)):
            raise errors.FenceBroken(verb, key, fence.key, store_record)
        # From here to `submit` nothing waits, so the writer's queue is in revision order.
        revision = self._assigned + 1
        document = render(revision)
        record = StoreRecord(key, revision, document, self._index(key, document))
        self._assigned = revision
        write = Write(
            record,
            before=before,
            previous=self._state.head_of(key) if damaged is None else self._loaded.intact.get(key, 0),
            deleted=(is_deletion := verb in ("delete", "discard")),
            done=self._loop.create_future(),
            makes_room=makes_room or is_deletion,
            discards=None if damaged is None else {number: render(number) for number in damaged},
        )
        self._pending[key] = write
        self._writer.submit(write)
        return await write.done

    def _settle(self, writes: Writes, outcomes: Outcomes) -> None:
        """Make a batch visible as a whole after its commit, then answer its callers."""
        events = []
        for write, error in zip(writes, outcomes, strict=True):
            record = write.record
            del self._pending[record.key]
            if error is None:
                events.append(self._apply(record, write.before, deleted=write.deleted))
                if write.discards is not None:
                    self.health.discarded(self._loaded.forget(record.key))
        if events:
            self._feed.publish(events)
        self.health.judge_batch(writes, outcomes, self._loop.time())
        for write, error in zip(writes, outcomes, strict=True):
            if not write.done.done():  # it is done if its caller was cancelled
                if error is None:
                    write.done.set_result(write.record)
                else:
                    write.done.set_exception(error)
            for turn in write.followers:
                if not turn.done():
                    turn.set_result(None)
        self._compact_if_due()

    def _apply(self, record: StoreRecord, before: StoreRecord | None, *, deleted: bool) -> StoreEvent:
        freed = len(before.document) if before is not None else 0
        if deleted:
            self._state.bury(record.key, record.revision)
            freed += len(record.document)
            before = before or record  # of a damaged key only the final state is left
        else:
            self._state.put(record)
        self._history.add(record.revision, freed)
        for follower in self._followers.get(records.resource_of(record.key), ()):
            follower(record, is_deleted=deleted)
        return event_of(record, before, deleted=deleted)

    def _note_health(self, error: errors.StoreError | None, rows: Sequence[log.Row]) -> None:
        """Take a probe's result, with rows of a commit that was reported as failed, if there are any."""
        events = []
        for revision, key, _, deleted, document in rows:
            record = StoreRecord(key, revision, document, self._index(key, document))
            events.append(self._apply(record, self._state.get(key), deleted=deleted))
        if events:
            self._feed.publish(events)
        self.health.probing_since = None
        if error is None:
            self.health.succeeded(self._loop.time())
        else:
            self.health.failed(error, self._loop.time())
        if not self._probed.done():
            self._probed.set_result(None)

    def _note_compaction(self, revision: int, error: errors.StoreError | None) -> None:
        """A step is done or has failed; history is compacted to `revision` now."""
        self._state.forget_tombstones(revision)
        self.compacted = max(self.compacted, revision)
        self._history.forget(revision)
        if error is not None:
            self.health.failed(error, self._loop.time())
            _log.warning("compaction stopped at revision %d and will be tried again: %s", revision, error)
        if error is not None or revision >= self._compacting:
            self._compacting = 0

    def _compact_if_due(self) -> None:
        """Begin a compaction if one is due and none is under way."""
        if self._compacting or self._clock is None:
            return
        # A tenth on top, so that compaction comes rarely with much to do, not with every write.
        most, most_bytes, target = self._options.keep_revisions, self._options.keep_bytes, self._aged
        if self.revision >= self.compacted + most + max(1, most // 10):
            target = max(target, self.revision - most)
        if self._history.total > most_bytes + most_bytes // 10:
            target = max(target, self._history.to_keep(most_bytes))
        if target > self.compacted:
            self._compacting = target
            self._writer.submit(self._compacting)

    def _strike(self) -> None:
        """What was the newest revision `keep_s` ago is the oldest now."""
        self._aged, self._newest_before = self._newest_before, self.revision
        self._clock = self._loop.call_later(self._options.keep_s, self._strike)
        self._compact_if_due()

    async def _read_history(self, prefix: str, after: int, upto: int) -> log_reader.Stretch:
        self._refuse_if_closed()
        return await self._read(partial(self._reader.history, prefix, after=after, upto=upto))

    async def _read(self, ask: Callable[[], Answer]) -> Answer:
        """Run a read in the reader's thread. Damage is reported, and history up to it is given up."""
        try:
            return await self._loop.run_in_executor(self._reading, ask)
        except errors.RowDamaged as exc:
            if self.health.found(exc.damage):
                _log.error("%s is damaged: %s", self.path, exc.damage)
            asked = self.compacted
            self.compacted = max(self.compacted, min(exc.reached, self.revision))
            raise errors.RevisionCompacted(min(asked, exc.reached), self.compacted) from exc

    def _refuse_if_closed(self) -> None:
        if self._closing is not None:
            raise errors.StoreClosed(self.folder)

    async def _close(self) -> None:
        try:
            # Readers first: SQLite folds its write-ahead log into the file when the writer is the last to close.
            await self._loop.run_in_executor(None, self._reading.shutdown)
            self._reader.close()
            await self._writer.stop()
        finally:
            self._feed.close()
            self._lock.release()


def _let_go(opening: asyncio.Future[OpenFolder]) -> None:
    """Close a folder that nobody waits for any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
