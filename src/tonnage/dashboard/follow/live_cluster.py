"""A live cluster as rows: informers fill a `ClusterModel`, and the scheduler is asked now and then for what only it
knows. Nothing is written.

    async with LiveCluster(client, scheduler=endpoint) as cluster:
        await cluster.wait_first()          # rows of everything that can be read
        cluster.collections.follow()        # for whoever shows it

A kind that the user may not read is told as a notice and counts as none, so that somebody with few rights sees what
those allow. Changes are settled together, `SETTLE_S` apart at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Self

from tonnage import logs
from tonnage.client.config.connection import User
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.dashboard.follow.shown_cluster import ShownCluster
from tonnage.dashboard.model.known_objects import KINDS
from tonnage.dashboard.wire.rows import NoticeRow
from tonnage.endpoints import Endpoint
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Event, ObjectReference
from tonnage.objects.meta import Object
from tonnage.scheduling.engine.kinds import READ_KINDS, ReadKind
from tonnage.whatif.scheduler_memory import SchedulerMemory, memory_of
from tonnage.whatif.sources import SCHEDULER_NOT_ASKED, listed, not_listed
from tonnage.whatif.workloads import NOT_READ_BY_DECISIONS

SETTLE_S: Final = 0.1
"""How long changes are gathered: ten times a second is as often as anybody sees."""
ASK_S: Final = 1.0
"""How often the scheduler is asked."""

_log = logs.logger("tonnage.dashboard")


class LiveCluster(ShownCluster):
    """Rows of a live cluster, kept up to date."""

    def __init__(
        self, client: Client, *, scheduler: Endpoint | None = None, scheduler_user: User | None = None
    ) -> None:
        super().__init__(clock=client.clock, source=client.server)
        self.client = client
        self.informers = Informers(client)
        self._scheduler, self._scheduler_user = scheduler, scheduler_user
        self._is_touched = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        of: Any = self.informers.of
        self._read: list[Any] = [of(kind.cls, field_selector=kind.field_selector) for kind in READ_KINDS]
        for informer in self._read:
            if informer.cls in KINDS:
                informer.add_handlers(on_add=self._put, on_update=lambda _, new: self._put(new), on_delete=self._remove)

    @property
    def asks_scheduler(self) -> bool:  # type: ignore[override]
        return self._scheduler is not None

    def objects(self) -> Iterator[Object]:
        for informer in self._read:
            yield from informer

    async def memory(self) -> SchedulerMemory | None:
        """Asked now. Raises TonnageError when it cannot be."""
        if self._scheduler is None:
            return None
        return await memory_of(self._scheduler, clock=self.clock, user=self._scheduler_user)

    async def workloads(self) -> Sequence[Object]:
        """Listed now: they are asked for seldom. What the user may not list counts as none."""
        kinds = [ReadKind(cls) for cls in NOT_READ_BY_DECISIONS]
        found, unlisted, _ = await listed(self.client, kinds, tells_unknown=False)
        for kind, why in unlisted.items():
            text = f"{kind} objects cannot be listed and count as none in what-if questions: {why}"
            self.collections.put("notices", kind, NoticeRow(text=text))
        return found

    def notes(self) -> Sequence[str]:
        """As a command notes them that asks this cluster."""
        found = [
            not_listed(each.cls.__name__, each.last_failure.message)
            for each in self._read
            if each.last_failure is not None and not each.is_synced
        ]
        return found if self.asks_scheduler else [*found, SCHEDULER_NOT_ASKED]

    async def events_of(self, *about: ObjectReference) -> Sequence[Event]:
        found = await asyncio.gather(*map(self._events_about, about))
        return [event for events in found for event in events]

    async def _events_about(self, about: ObjectReference) -> Sequence[Event]:
        selected = f"involvedObject.kind={about.kind},involvedObject.name={about.name}"
        events = await self.client.list(Event, namespace=about.namespace, field_selector=selected, retry=False)
        return [each for each in events.items if not about.uid or each.involved_object.uid in ("", about.uid)]

    async def __aenter__(self) -> Self:
        self.informers.start()
        self._tasks = [asyncio.create_task(self._settle(), name="settle")]
        if self._scheduler is not None:
            self._tasks.append(asyncio.create_task(self._ask(), name="ask the scheduler"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.informers.stop()

    async def wait_first(self, timeout_s: float = 5.0) -> None:
        """Return when the state is known, or at the latest after so long: what is late then comes as it comes."""
        with suppress(TonnageError):
            await self.informers.wait_synced(timeout_s)
        self._tell_notices()
        self.settle()

    def _put(self, new: Object) -> None:
        self.model.tick(self.clock.now())
        self.model.put(new)
        self._is_touched.set()

    def _remove(self, old: Object) -> None:
        self.model.tick(self.clock.now())
        self.model.remove(old)
        self._is_touched.set()

    async def _settle(self) -> None:
        while True:
            await self._is_touched.wait()
            await self.clock.sleep(SETTLE_S)
            self._is_touched.clear()
            self.settle()
            self._tell_notices()

    def _tell_notices(self) -> None:
        for each in self.informers:
            if each.out_of_step_since_s is None or each.last_failure is None:
                self.collections.remove("notices", each.name)
                continue
            failure = each.last_failure
            self.collections.put("notices", each.name, NoticeRow(text=failure.message, hint=failure.hint or ""))

    async def _ask(self) -> None:
        while True:
            try:
                memory = await self.memory() or SchedulerMemory()
                self.collections.remove("notices", "scheduler")
            except TonnageError as exc:
                memory = SchedulerMemory()
                self.collections.put("notices", "scheduler", NoticeRow(text=exc.message, hint=exc.hint or ""))
            self.model.tick(self.clock.now())
            self.model.remember(memory)
            self._is_touched.set()
            await self.clock.sleep(ASK_S)
