"""Follow a live cluster with a shadow: informers in, nothing out. Only GET requests are made, watches among them.

The kinds are those that decisions read, and three things more that tell what became of volumes: events of the two
reasons that matter, and pods that failed. A kind that the server does not have, or that nobody lets us read, counts as
having no objects, and is noted; without nodes and pods there is nothing to follow. Informers connect again by
themselves, with a growing pause, for as long as it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.client.informers import NotSynced
from tonnage.errors import Forbidden, NotFound
from tonnage.objects.core_v1 import Event, Node, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.engine.kinds import READ_KINDS
from tonnage.whatif.shadow.signs import TOLD_BY_EVENTS, Shadow

_SYNC_TIMEOUT_S: Final = 120.0
_LOOK_EVERY_S: Final = 0.05
TICK_EVERY_S: Final = 1.0

Note = Callable[[str], object]


class Following:
    """A shadow on its cluster. Use it as a context manager: informers run inside."""

    def __init__(self, client: Client, shadow: Shadow, *, note: Note) -> None:
        self._client, self._clock = client, client.clock
        self._shadow = shadow
        self._note = note
        self._informers = list(self._made())

    def _made(self) -> Iterator[tuple[Informer[Any], bool]]:
        """Every informer, and whether nothing can be done without it."""
        changed = self._shadow.changed
        for kind in READ_KINDS:
            informer: Informer[Any] = Informer(self._client, kind.cls, field_selector=kind.field_selector)
            informer.add_handlers(
                on_add=lambda new: changed(None, new), on_update=changed, on_delete=lambda old: changed(old, None)
            )
            yield informer, kind.is_needed
        for reason in TOLD_BY_EVENTS:
            events = Informer(self._client, Event, field_selector=f"reason={reason}")
            events.add_handlers(on_add=self._shadow.told, on_update=lambda _, new: self._shadow.told(new))
            yield events, False
        failed = Informer(self._client, Pod, field_selector="status.phase=Failed")
        failed.add_handlers(on_add=self._shadow.failed)
        yield failed, False

    async def __aenter__(self) -> Following:
        # Where there is no cluster, or none for us, that is told at once; one node is little to ask for.
        await self._client.list(Node, field_selector="metadata.name=tonnage-shadow", retry=False)
        for informer, _ in self._informers:
            informer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(informer.stop() for informer, _ in self._informers))

    async def wait_synced(self) -> None:
        """Return when the state is known. Raises what stands in the way of nodes and pods, NotSynced for slow ones."""
        began_at = self._clock.monotonic()
        while late := [each for each in self._informers if not each[0].is_synced]:
            for informer, is_needed in late:
                failure = informer.last_failure
                if not isinstance(failure, Forbidden | NotFound):
                    continue
                if is_needed:
                    raise failure
                self._note(f"{_named(informer)} cannot be followed and count as none: {failure.message}")
                await informer.stop()
                self._informers.remove((informer, is_needed))
            if self._clock.monotonic() - began_at > _SYNC_TIMEOUT_S:
                raise NotSynced(_SYNC_TIMEOUT_S, [informer for informer, _ in late])
            await self._clock.sleep(_LOOK_EVERY_S)
        self._shadow.open()

    async def run(self, for_s: float | None, on_tick: Callable[[], object]) -> None:
        """Follow for so long, or until cancelled."""
        ends_at = None if for_s is None else self._clock.monotonic() + for_s
        while True:
            left_s = TICK_EVERY_S if ends_at is None else min(TICK_EVERY_S, ends_at - self._clock.monotonic())
            if left_s <= 0:
                return
            await self._clock.sleep(left_s)
            self._shadow.tick()
            on_tick()


def _named(informer: Informer[Object]) -> str:
    return f"{informer.name} objects"
