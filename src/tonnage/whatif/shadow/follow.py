"""Follows a live cluster with a shadow, with GET requests and watches only.

Reads the kinds that decisions need, Events with two reasons, and failed pods. An unreadable kind counts as empty, with
a note; nodes and pods are required.

A change is delivered when no earlier change can be missing (`RevisionOrder`). After a disconnect the watch of pods may
return before that of claims, and a pod would be judged without its claim. So changes wait, sorted by the server's
resourceVersions, until every watch is known to have come as far:

    proof     the watch has reached this version: by an event, a bookmark, or a list
    calm      or it is open, and nothing earlier came for `CALM_S` (`RESUMED_S` before its first message)
    there     without proof, objects that the change names must be known as well

A change that waits longer than `LIMIT_S` is delivered as not judged, and so is a change in a gap: versions that some
watch had to skip by a new list. A change without a version goes after all earlier ones. After a server was restored
from an older backup, waiting changes are delivered as not judged, and every watch must list again first.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Final

from tonnage.client.http import Client
from tonnage.client.informer import Informer, StreamProgress
from tonnage.client.informers import NotSynced
from tonnage.errors import Forbidden, NotFound
from tonnage.objects.core_v1 import Event, Node, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.engine.event_handlers import READ_KINDS
from tonnage.whatif.shadow.signs import TOLD_BY_EVENTS, Shadow

CALM_S: Final = 1.0
RESUMED_S: Final = 5.0
LIMIT_S: Final = 60.0
"""Longer than an informer's longest pause between two attempts to connect."""
LOOK_EVERY_S: Final = 0.05
"""How often to look. A longer pause of our own is no calm: changes may have arrived unread."""

Tell = Callable[[bool], object]
"""Delivers a change; True if it can be judged."""


@dataclass(order=True, slots=True)
class _News:
    version: int
    number: int
    since_s: float = field(compare=False)
    calm_since_s: float = field(compare=False)
    tell: Tell = field(compare=False)
    is_lacking: Callable[[], bool] = field(compare=False)


@dataclass(slots=True)
class _Seen:
    told: int = 0
    open_since_s: float | None = None
    calm_since_s: float = 0.0
    outdated_gap: tuple[int, int] | None = None
    """The server went back in time; this watch counts again after its next list."""


class RevisionOrder:
    """Holds changes until they can be delivered in order. Before `open` they are delivered at once, not judged."""

    def __init__(self, now_s: float) -> None:
        self._seen: dict[int, _Seen] = {}
        self._streams: Sequence[StreamProgress] = ()
        self._held: list[_News] = []
        self._number = 0
        self._newest = 0
        self._now_s = now_s
        self._read_s = 0.0  # time during which we read; it stops while we do not look
        self._is_open = False

    def __len__(self) -> int:
        return len(self._held)

    def open(self, streams: Sequence[StreamProgress]) -> None:
        """Start ordering: these are the watches, and all of them have listed."""
        self._streams = streams
        self._is_open = True
        for stream in streams:
            self._seen_of(stream).told = stream.reached

    def put(self, stream: StreamProgress, tell: Tell, is_lacking: Callable[[], bool] = lambda: False) -> None:
        """Add a change of a watch. `is_lacking`: it names unknown objects."""
        if not self._is_open:
            tell(False)
            return
        version = stream.telling
        seen = self._seen_of(stream)
        if 0 < version < seen.told:
            self._rewind(stream)
        if version:
            seen.told = version
        self._put(version or self._newest, tell, is_lacking)

    def put_last(self, tell: Tell) -> None:
        """Add a change whose version does not compare: it is delivered after all changes so far."""
        if self._is_open:
            self._put(self._newest, tell, lambda: False)
        else:
            tell(False)

    def _put(self, version: int, tell: Tell, is_lacking: Callable[[], bool]) -> None:
        self._number += 1
        self._newest = max(self._newest, version)
        news = _News(version, self._number, self._now_s, self._read_s, tell, is_lacking)
        heapq.heappush(self._held, news)

    def look(self, now_s: float) -> None:
        self._read_s += min(max(now_s - self._now_s, 0.0), 2 * LOOK_EVERY_S)
        self._now_s = now_s
        for stream in self._streams:
            seen = self._seen_of(stream)
            if seen.outdated_gap is None:
                if 0 < stream.reached < seen.told:
                    self._rewind(stream)
                seen.told = stream.reached
            if seen.open_since_s != stream.open_since_s:
                seen.open_since_s, seen.calm_since_s = stream.open_since_s, self._read_s
        while self._held and (is_judged := self._is_judged(self._held[0])) is not None:
            heapq.heappop(self._held).tell(is_judged)

    def _is_judged(self, news: _News) -> bool | None:
        """Whether the change can be judged; None while undecided."""
        if any(after < news.version <= to for after, to in (stream.gap for stream in self._streams)):
            return False
        is_late = self._now_s - news.since_s >= LIMIT_S
        is_calm = self._read_s - news.calm_since_s >= CALM_S
        is_proven = True
        for stream in self._streams:
            seen = self._seen_of(stream)
            if seen.outdated_gap is None and 0 < news.version <= stream.reached:
                continue
            is_proven = False
            if seen.outdated_gap is not None or not is_calm or not self._is_calm(stream, seen):
                return False if is_late else None
        if is_proven or not news.is_lacking():
            return True
        return False if is_late else None

    def _is_calm(self, stream: StreamProgress, seen: _Seen) -> bool:
        if stream.open_since_s is None or stream.open_since_s != seen.open_since_s:
            return False
        return stream.has_spoken or self._read_s - seen.calm_since_s >= RESUMED_S

    def _rewind(self, first: StreamProgress) -> None:
        self.close()
        self._newest = 0
        for stream in self._streams:
            seen = self._seen_of(stream)
            is_back = stream is first or 0 < stream.reached < seen.told
            seen.told = 0
            seen.outdated_gap = None if is_back else stream.gap

    def close(self) -> None:
        """Deliver everything that still waits as not judged."""
        while self._held:
            heapq.heappop(self._held).tell(False)

    def _seen_of(self, stream: StreamProgress) -> _Seen:
        seen = self._seen.setdefault(id(stream), _Seen())
        if seen.outdated_gap is not None and seen.outdated_gap != stream.gap:
            seen.outdated_gap = None
        return seen


Note = Callable[[str], object]
_SYNC_TIMEOUT_S: Final = 120.0
TICK_EVERY_S: Final = 1.0
_LAST_S: Final = CALM_S + 1.0
"""How long to wait at the end for changes that are still held back."""


class Following:
    """A shadow on its cluster. Use it as a context manager: informers run inside."""

    def __init__(self, client: Client, shadow: Shadow, *, note: Note) -> None:
        self._client, self._clock = client, client.clock
        self._shadow = shadow
        self._note = note
        self._order = RevisionOrder(client.clock.monotonic())
        self._is_running = self._has_ended = False
        self._judged_by: list[Informer[Any]] = []
        self._informers = list(self._made())

    def _made(self) -> Iterator[tuple[Informer[Any], bool]]:
        """Every informer, and whether it is required."""
        for kind in READ_KINDS:
            informer: Informer[Any] = Informer(self._client, kind.cls, field_selector=kind.field_selector)
            changed = partial(self._changed, None if kind.is_told else informer.progress)
            informer.add_handlers(
                on_add=partial(changed, None), on_update=changed, on_delete=partial(changed, new=None)
            )
            if not kind.is_told:
                self._judged_by.append(informer)
            yield informer, kind.is_needed
        for reason in TOLD_BY_EVENTS:
            events = Informer(self._client, Event, field_selector=f"reason={reason}")
            events.add_handlers(on_add=self._told, on_update=lambda _, new: self._told(new))
            yield events, False
        failed = Informer(self._client, Pod, field_selector="status.phase=Failed")
        failed.add_handlers(on_add=lambda pod: self._order.put_last(lambda _: self._shadow.failed(pod)))
        yield failed, False

    def _changed(self, progress: StreamProgress | None, old: Object | None, new: Object | None) -> None:
        """`progress`: the watch of the change; None for a kind whose versions do not compare with others."""

        def tell(is_judged: bool) -> None:
            self._shadow.changed(old, new, is_judged=is_judged)

        if progress is None:
            self._order.put_last(tell)
        else:
            self._order.put(progress, tell, lambda: self._shadow.is_lacking(old, new))

    # Events may be in another store with its own versions; and both reasons concern decisions that were seen before.

    def _told(self, event: Event) -> None:
        self._order.put_last(lambda _: self._shadow.told(event))

    async def __aenter__(self) -> Following:
        # Report an unreachable or forbidden cluster at once, with a small request.
        await self._client.list(Node, field_selector="metadata.name=tonnage-shadow", retry=False)
        for informer, _ in self._informers:
            informer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(informer.stop() for informer, _ in self._informers))

    async def wait_synced(self) -> None:
        """Wait until the state is known. Raises the error of nodes or pods, and NotSynced after a timeout."""
        began_at = self._clock.monotonic()
        while late := [each for each in self._informers if not each[0].is_synced]:
            for informer, is_needed in late:
                failure = informer.last_failure
                if not isinstance(failure, Forbidden | NotFound):
                    continue
                if is_needed:
                    raise failure
                self._note(f"{informer.name} objects cannot be watched and are ignored: {failure.message}")
                await informer.stop()
                self._informers.remove((informer, is_needed))
            if self._clock.monotonic() - began_at > _SYNC_TIMEOUT_S:
                raise NotSynced(_SYNC_TIMEOUT_S, [informer for informer, _ in late])
            await self._clock.sleep(LOOK_EVERY_S)
        self._shadow.open()
        self._order.open([each.progress for each, _ in self._informers if each in self._judged_by])

    async def run(self, for_s: float | None, on_tick: Callable[[], object]) -> None:
        """Follow for `for_s` seconds or until `end`, then wait briefly for changes that are still held back."""
        clock, self._is_running = self._clock, True
        ends_at = inf if for_s is None else clock.monotonic() + for_s
        tick_at = clock.monotonic() + TICK_EVERY_S
        while (now_s := clock.monotonic()) < ends_at:
            await clock.sleep(min(LOOK_EVERY_S, ends_at - now_s))
            self._order.look(clock.monotonic())
            if clock.monotonic() >= tick_at:
                tick_at = clock.monotonic() + TICK_EVERY_S
                self._shadow.tick()
                on_tick()
            if self._has_ended:
                break
        last_at = clock.monotonic() + _LAST_S
        while len(self._order) and clock.monotonic() < last_at:
            await clock.sleep(LOOK_EVERY_S)
            self._order.look(clock.monotonic())
        self._order.close()

    def end(self) -> bool:
        """Stop after the changes received so far; False if following has not started."""
        self._has_ended = True
        return self._is_running
