"""`tonnage controllers`, the controller manager: one client, one set of informers, the controllers of `registry`.

      built ──► synced ───► running ── returns, or raises: logged, counted ──► backoff ──► built again

No controller acts before all informers are synced. A controller that fails takes no other with it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final, Self

from prometheus_client import CollectorRegistry, Counter

from tonnage import logs
from tonnage.backoff import Backoff
from tonnage.client.http import Client
from tonnage.client.informers import Informers, InformerScope
from tonnage.client.leadership import Leadership
from tonnage.client.metrics import WorkQueueMetrics, show_watches
from tonnage.client.recorder import Recorder, count_dropped_events
from tonnage.clock import Clock
from tonnage.controllers import PROGRAM
from tonnage.controllers.controller_context import AttacherHere, ControllerContext
from tonnage.controllers.registry import (
    Controller,
    ControllerDescriptor,
    ControllerManagerConfiguration,
    enabled_controllers,
)

ALL: Final = ("*",)
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0

_log = logs.logger("tonnage.controllers")


class ControllerManager:
    """Runs the enabled controllers; use it as a context manager."""

    def __init__(
        self,
        client: Client,
        configuration: ControllerManagerConfiguration,
        *,
        clock: Clock,
        rng: random.Random,
        registry: CollectorRegistry,
        controllers: Sequence[str] = ALL,
        identity: str = PROGRAM,
        leadership: Leadership | None = None,
        on_synced: Callable[[], object] = lambda: None,
        telling: Client | None = None,
    ) -> None:
        """`controllers`: as for `--controllers`. `telling`: the client that writes events. Raises UnknownController.

        With a `leadership`, the clients and the CSI clients must ask it before every write.
        """
        self._client = client
        self._configuration = configuration
        self._clock = clock
        self._rng = rng
        self._on_synced = on_synced
        self._leadership = leadership
        self.descriptors: Final = enabled_controllers(controllers)
        self.informers: Final = Informers(client)
        # Events name their controller, as upstream's do; controllers of one name share a recorder.
        self._recorders = {
            source: Recorder(telling or client, source, identity, by_note=True)
            for source in {each.source for each in self.descriptors}
        }
        count_dropped_events(registry, self._recorders.values)
        show_watches(registry, lambda: self.informers)
        self._queues = WorkQueueMetrics(registry, clock.monotonic)
        self._attachers: dict[str, AttacherHere] = {}
        self._scopes: dict[str, InformerScope] = {}
        self._controllers: dict[str, Controller] = {each.name: self._build(each) for each in self.descriptors}
        self._restarts = Counter(
            "tonnage_controller_restarts",
            "Controllers that broke and were started again, by name.",
            ("name",),
            registry=registry,
        )
        self._broken: set[str] = set()
        self._has_run = False

    async def __aenter__(self) -> Self:
        for recorder in self._recorders.values():
            recorder.start()
        self.informers.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.informers.stop()
        await self._stop_recorders()

    @property
    def is_synced(self) -> bool:
        """True once all informers were synced. Kinds that definitions add later do not reset it."""
        return self._has_run or self.informers.are_synced

    @property
    def is_healthy(self) -> bool:
        """True if no controller has failed and waits for its restart."""
        return not self._broken

    async def run(self) -> None:
        """Run the controllers until cancelled; pending events are written before it returns."""
        await self.informers.wait_synced()
        if self._leadership is not None and self._leadership.follows_another:
            await self.informers.refresh()  # watches may lag behind the last writes of the former leader
        self._has_run = True
        _log.info("Running", controllers=",".join(each.name for each in self.descriptors))
        self._on_synced()
        try:
            await asyncio.gather(*(self._keep_running(each) for each in self.descriptors))
        finally:
            await self._stop_recorders()  # while we still lead: after that nothing may be written

    async def _stop_recorders(self) -> None:
        await asyncio.gather(*(recorder.stop() for recorder in self._recorders.values()))

    def _build(self, descriptor: ControllerDescriptor) -> Controller:
        scope = self._scopes[descriptor.name] = InformerScope(self.informers)
        recorder = self._recorders[descriptor.source]
        context = ControllerContext(
            self._client, scope, recorder, self._clock, self._rng, self._queues, self._attachers
        )
        return descriptor.build(context, self._configuration)

    async def _keep_running(self, descriptor: ControllerDescriptor) -> None:
        backoff = Backoff(clock=self._clock, rng=self._rng, first_s=_FIRST_PAUSE_S, max_s=_MAX_PAUSE_S)
        while True:
            try:
                await self._controllers[descriptor.name].run()
                _log.error("A controller ended; it is started again", controller=descriptor.name)
            except Exception:
                _log.exception("A controller broke; it is started again", controller=descriptor.name)
            self._scopes[descriptor.name].close()
            self._restarts.labels(descriptor.name).inc()
            self._broken.add(descriptor.name)
            await self._clock.sleep(backoff.next_s())
            # A new controller, because the old queue is closed; it builds its state again from the informers.
            self._controllers[descriptor.name] = self._build(descriptor)
            self._broken.discard(descriptor.name)
