"""Follows a live cluster with a shadow, with GET requests and watches only.

Reads the kinds that decisions need, Events with two reasons, and failed pods. An unreadable kind counts as empty, with
a note; nodes and pods are required. Changes go through `revision_order`, so that no change is judged before the earlier
changes of other watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
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
from tonnage.whatif.shadow.revision_order import CALM_S, LOOK_EVERY_S, RevisionOrder
from tonnage.whatif.shadow.signs import TOLD_BY_EVENTS, Shadow

_SYNC_TIMEOUT_S: Final = 120.0
TICK_EVERY_S: Final = 1.0
_LAST_S: Final = CALM_S + 1.0
"""How long to wait at the end for changes that are still held back."""

Note = Callable[[str], object]


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
