"""`tonnage controllers`, the controller manager: one client, one set of informers, the controllers of `registry`.

      built ──► synced ───► running ── returns, or raises: logged, counted ──► backoff ──► built again

No controller acts before all informers are synced. A controller that fails takes no other with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import Counter

from tonnage import logs
from tonnage.backoff import Backoff
from tonnage.client.informers import InformerScope
from tonnage.client.metrics import WorkQueueMetrics
from tonnage.client.program import Program, Runtime
from tonnage.controllers import PROGRAM
from tonnage.controllers.controller_context import AttacherHere, ControllerContext, ControllerManagerConfiguration
from tonnage.controllers.registry import (
    Controller,
    ControllerDescriptor,
    enabled_controllers,
)

ALL: Final = ("*",)
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0

_log = logs.logger("tonnage.controllers")


class ControllerManager(Program):
    """Runs the enabled controllers; use it as a context manager."""

    def __init__(
        self,
        runtime: Runtime,
        configuration: ControllerManagerConfiguration,
        *,
        controllers: Sequence[str] = ALL,
        on_synced: Callable[[], object] = lambda: None,
    ) -> None:
        """`controllers`: as for `--controllers`. Raises UnknownController.

        With leader election, the CSI clients too must ask for the leadership before every change.
        """
        super().__init__(runtime)
        self._configuration = configuration
        self._on_synced = on_synced
        self.descriptors: Final = enabled_controllers(controllers)
        # Events name their controller, as upstream's do; controllers of one name share a recorder.
        self._recorder_of = {
            source: self._new_recorder(source, runtime.identity or PROGRAM)
            for source in {descriptor.source for descriptor in self.descriptors}
        }
        self._queues = WorkQueueMetrics(runtime.registry, runtime.clock.monotonic)
        self._attachers: dict[str, AttacherHere] = {}
        self._scopes: dict[str, InformerScope] = {}
        self._controllers: dict[str, Controller] = {each.name: self._build(each) for each in self.descriptors}
        self._restarts = Counter(
            "tonnage_controller_restarts",
            "Controllers that broke and were started again, by name.",
            ("name",),
            registry=runtime.registry,
        )
        self._broken: set[str] = set()
        self._has_run = False

    @property
    def is_synced(self) -> bool:
        """True once all informers were synced. Kinds that definitions add later do not reset it."""
        return self._has_run or super().is_synced

    @property
    def is_healthy(self) -> bool:
        """True if no controller has failed and waits for its restart."""
        return not self._broken

    async def run(self) -> None:
        """Run the controllers until cancelled; pending events are written before it returns."""
        await self._take_over()
        self._has_run = True
        _log.info("Running", controllers=",".join(descriptor.name for descriptor in self.descriptors))
        self._on_synced()
        try:
            await asyncio.gather(*(self._keep_running(descriptor) for descriptor in self.descriptors))
        finally:
            await self._stop_recorders()  # while we still lead: after that nothing may be written

    def _build(self, descriptor: ControllerDescriptor) -> Controller:
        scope = self._scopes[descriptor.name] = InformerScope(self.informers)
        recorder = self._recorder_of[descriptor.source]
        context = ControllerContext(
            self._client,
            scope,
            recorder,
            self._clock,
            self._rng,
            self._queues,
            self._attachers,
            self._configuration,
        )
        return descriptor.build(context)

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
