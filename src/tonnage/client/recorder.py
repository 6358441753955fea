"""Events for people, written as upstream's events.k8s.io recorder writes them.

`event` never waits and never fails: workers write, warnings apart from the others, and events beyond `MAX_PENDING` are
dropped and counted. Events that differ only in note and time (with `by_note`: in object state and time) become a
series: the first is created, the second makes it a series, later ones only count.

As client-go's EventAggregator and EventSourceObjectSpamFilter: from the tenth similar event within ten minutes (same
object, type and reason) events are combined, and an object gets 25 events at once, then one in five minutes.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Literal, TypeVar

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from tonnage import clock, errors, logs, metrics
from tonnage.client import leadership, throttle
from tonnage.client.http import Client
from tonnage.client.reconciler import WorkQueue
from tonnage.objects import codec, names
from tonnage.objects.core_v1.persistent_volume import ObjectReference
from tonnage.objects.core_v1.small_kinds import EventSeries
from tonnage.objects.events_v1 import Event
from tonnage.objects.meta import MicroTime, Object, ObjectMeta

MAX_SIMILAR: Final = 10
SIMILAR_WITHIN_S: Final = 600.0
SPAM_BURST: Final = 25
SPAM_REFILL_S: Final = 300.0
MAX_REMEMBERED: Final = 4096
"""Events whose repetition is noticed, a kilobyte each, and objects whose events are counted: client-go's older
recorder's limit. Its newer one has none."""
COMBINED: Final = "(combined from similar events): "


V = TypeVar("V")


def _remembered(known: OrderedDict[Hashable, V], about: Hashable, make: Callable[[], V]) -> V:
    """The value of `about`, made on first use; beyond `MAX_REMEMBERED` the least recently used is dropped."""
    if about not in known:
        known[about] = make()
        if len(known) > MAX_REMEMBERED:
            known.popitem(last=False)
    known.move_to_end(about)
    return known[about]


@dataclass(slots=True)
class _Similar:
    """The last notes of similar events about one object."""

    notes: dict[str, None] = field(default_factory=dict)
    last_at: float = 0.0

    def is_combined(self, note: str, now_s: float) -> bool:
        if now_s - self.last_at > SIMILAR_WITHIN_S:
            self.notes.clear()
        self.last_at = now_s
        self.notes[note] = None
        if len(self.notes) < MAX_SIMILAR:
            return False
        del self.notes[next(iter(self.notes))]  # keeps the length of the list
        return True


EventType = Literal["Normal", "Warning"]

MAX_PENDING = 5000
"""Events that may wait to be written, about 8 MB: those of a thousand pods that come at once."""
NOTE_BYTES = 1024
"""The longest note that the API accepts."""
_TRUNCATION_MARK = " ..."
_MAX_TRIES = 12
_RETRY_S, _RETRY_JITTER = 10.0, 0.25
_QUIET_S = 6 * 60.0
_REFRESH_S = 30 * 60.0
_REFRESH_CHECK_EVERY_S = 60.0
_WORKERS = 4
"""For warnings, and as many for other events."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_log = logs.logger(__name__)


@dataclass(eq=False, slots=True)
class _Entry:
    """An event and its count; `written_count` is the server's."""

    event: Event
    count: int
    observed_at: datetime
    observed_s: float
    refreshed_s: float
    is_created: bool = False
    written_count: int = 0
    tries: int = 0


class Recorder(clock.Running):
    """Writes the events of one program; start and stop it, or use it as a context manager."""

    def __init__(self, client: Client, reporting_controller: str, instance: str, *, by_note: bool = False) -> None:
        self.dropped = 0
        """Events without room in the queue."""
        self.filtered = 0
        """Events over their object's limit."""
        self.abandoned = 0
        """Events that the server refused, or that could not be written in time."""
        self._client = client
        self._clock = client.clock
        self._controller = reporting_controller
        self._instance = instance
        self._by_note = by_note
        self._similar: OrderedDict[Hashable, _Similar] = OrderedDict()
        """By type, reason and object, as client-go's EventAggregator."""
        self._allowances: OrderedDict[Hashable, throttle.TokenBucket] = OrderedDict()
        """By object, as client-go's EventSourceObjectSpamFilter."""
        self._entries: dict[tuple[object, ...], _Entry] = {}
        self._pending: set[_Entry] = set()
        self._queues: dict[str, WorkQueue[_Entry]] = {
            type: WorkQueue(clock=self._clock) for type in ("Warning", "Normal")
        }
        self._last_name_ns = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False

    def event(
        self,
        regarding: Object | ObjectReference,
        type: EventType,
        reason: str,
        action: str,
        note: str,
        related: Object | ObjectReference | None = None,
    ) -> None:
        """Record that, and why, `action` was done (or failed) on `regarding`. Returns at once."""
        about, beside = reference_to(regarding), None if related is None else reference_to(related)
        now, now_s = self._clock.now(), self._clock.monotonic()
        who = (about.api_version, about.kind, about.namespace, about.name, about.uid)
        key: tuple[object, ...] = (type, action, reason, about, beside)
        if self._by_note:
            is_combined = _remembered(self._similar, (type, reason, *who), _Similar).is_combined(note, now_s)
            note = COMBINED + note if is_combined else note
            key = (type, action, reason, *who, about.field_path, COMBINED if is_combined else note)
        entry = self._entries.get(key)
        if entry is not None:
            entry.count += 1
            entry.observed_at, entry.observed_s = now, now_s
            if entry.count == 2 and len(self._pending) < MAX_PENDING:  # else its count is written later
                self._enqueue(entry)
            return
        if len(self._pending) >= MAX_PENDING:
            self.dropped += 1
            return
        new = partial(throttle.TokenBucket, 1 / SPAM_REFILL_S, SPAM_BURST, clock=self._clock)
        if not _remembered(self._allowances, who, new).take_now():
            self.filtered += 1
            return
        event = Event(
            metadata=ObjectMeta(name=self._name(about.name, now), namespace=about.namespace or "default"),
            event_time=MicroTime.of(now),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=action,
            reason=reason,
            regarding=about,
            related=beside,
            note=truncated(note),
            type=type,
        )
        self._entries[key] = entry = _Entry(event, 1, now, now_s, now_s)
        self._enqueue(entry)
        if len(self._entries) > MAX_REMEMBERED:
            self._finish(next(iter(self._entries)))

    def start(self) -> None:
        if not self._tasks:
            workers = [queue for queue in self._queues.values() for _ in range(_WORKERS)]
            self._tasks = [asyncio.create_task(self._work(queue)) for queue in workers]
            self._tasks.append(asyncio.create_task(self._refresh_series()))

    async def stop(self, *, flush_s: float = 5.0) -> None:
        """Try to write every pending event once more, for at most `flush_s`; then end."""
        self._is_stopping = True
        for key in tuple(self._entries):
            self._finish(key)
        for entry in tuple(self._pending):
            self._enqueue(entry)
        if self._tasks:
            try:
                with self._client.hurrying():
                    await clock.within(self._clock, flush_s, self._wait_idle())
            except TimeoutError:
                self.abandoned += len(self._pending)
                _log.warning("Events were not written in time", events=len(self._pending), flush_s=flush_s)
        for queue in self._queues.values():
            queue.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []

    # -- series -------------------------------------------------------------------------------------------------------

    async def _refresh_series(self) -> None:
        while True:
            await self._clock.sleep(_REFRESH_CHECK_EVERY_S)
            now_s = self._clock.monotonic()
            for key, entry in tuple(self._entries.items()):
                if now_s - entry.observed_s >= _QUIET_S:
                    self._finish(key)
                elif entry.count > 1 and now_s - entry.refreshed_s >= _REFRESH_S:
                    self._enqueue(entry)  # the server deletes events after an hour; a continuing series must stay

    def _finish(self, key: tuple[object, ...]) -> None:
        """End a series: the next such event is a new one. A count that the server lacks is written."""
        entry = self._entries.pop(key)
        if entry.is_created and entry.written_count != entry.count:
            self._enqueue(entry)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _enqueue(self, entry: _Entry) -> None:
        self._pending.add(entry)
        self._queues[entry.event.type].add(entry)

    async def _wait_idle(self) -> None:
        for queue in self._queues.values():
            await queue.wait_idle()

    async def _work(self, queue: WorkQueue[_Entry]) -> None:
        while (entry := await queue.get()) is not None:
            try:
                if await self._write(entry):
                    entry.tries = 0
                    self._pending.discard(entry)
            finally:
                queue.done(entry)

    async def _write(self, entry: _Entry) -> bool:
        """Write the event to the server; False when it should be tried again later."""
        try:
            await self._sync(entry)
        except leadership.NotLeading:
            self.abandoned += 1  # the current leader records it
        except errors.TonnageError as exc:
            # Another try may succeed: there was no answer, or the server is overloaded or failing.
            may_pass = not isinstance(exc, errors.ApiError) or exc.code == 429 or exc.code >= 500
            if may_pass and entry.tries + 1 < _MAX_TRIES and not self._is_stopping:
                entry.tries += 1
                again_s = clock.jittered(_RETRY_S, _RETRY_JITTER, self._client.rng)
                self._queues[entry.event.type].add_after(entry, again_s)
                return False
            self.abandoned += 1
            _log.warning(
                "Event was not written",
                event=entry.event.key,
                reason=entry.event.reason,
                note=entry.event.note,
                error=exc.message,
            )
        return True

    async def _sync(self, entry: _Entry) -> None:
        count, entry.refreshed_s = entry.count, self._clock.monotonic()
        series = EventSeries(count=count, last_observed_time=MicroTime.of(entry.observed_at)) if count > 1 else None
        if entry.is_created and series is not None:
            patch = {"series": codec.to_doc(series)}
            try:
                await self._client.patch(Event, entry.event.key, patch, patch_type="strategic")
                entry.written_count = count
                return
            except errors.NotFound:
                pass  # it was deleted or expired: create it again, with its count
        try:
            await self._client.create(msgspec.structs.replace(entry.event, series=series))
            entry.written_count = count
        except errors.AlreadyExists:
            # An earlier try got through without an answer. Its count may be older.
            if not entry.is_created and count > 1:
                self._queues[entry.event.type].add(entry)
        entry.is_created = True

    def _name(self, about: str, now: datetime) -> str:
        """`pod.17a2b3c4d5e6f708`, from the time in nanoseconds; two events at one instant differ by a nanosecond."""
        at_ns = (now - _EPOCH) // timedelta(microseconds=1) * 1000
        self._last_name_ns = at_ns = max(at_ns, self._last_name_ns + 1)
        name = f"{about}.{at_ns:x}"
        if names.dns_subdomain(name):  # not every object's name can begin an event's
            return str(uuid.UUID(int=self._client.rng.getrandbits(128), version=4))
        return name


def reference_to(about: Object | ObjectReference) -> ObjectReference:
    if isinstance(about, ObjectReference):
        return about
    resource = codec.resource_of(type(about))
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=about.namespace,
        name=about.name,
        uid=about.uid,
        resource_version=about.metadata.resource_version,
    )


def truncated(text: str, max_bytes: int = NOTE_BYTES) -> str:
    """A text that the API accepts: at most `max_bytes` of UTF-8, whole characters, ended by " ..." if cut."""
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    return data[: max_bytes - len(_TRUNCATION_MARK)].decode(errors="ignore") + _TRUNCATION_MARK


def count_dropped_events(registry: CollectorRegistry, recorders: Callable[[], Iterable[Recorder]]) -> None:
    """Show the events that these recorders dropped whenever the metrics are read."""

    def families() -> Iterable[Metric]:
        found = list(recorders())
        counts = {
            "full": sum(recorder.dropped for recorder in found),
            "spam": sum(recorder.filtered for recorder in found),
            "failed": sum(recorder.abandoned for recorder in found),
        }
        told = "Events that were not written: no room to wait, one too many about an object, or not accepted in time."
        yield metrics.labelled(CounterMetricFamily, "tonnage_events_dropped", told, "reason", counts)

    metrics.show_families(registry, families)
