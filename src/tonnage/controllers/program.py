"""The controllers put together: one client, one set of informers, all of `roster`. `tonnage controllers` is this.

    async with ControllerManager(client, Settings(), clock=clock, rng=rng, measures=measures) as manager:
        await manager.run()

                                run() returns, or raises: logged, counted
      built ──► in step ──► running ───────────────────────────────────────► pause that grows ──► built anew
                               └── cancelled: all of them end

Informers follow from the start; no controller acts before all of them are in step. An API server that is away is waited
for, without end. A controller that breaks takes no other with it.
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
from tonnage.client.informers import Informers
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock
from tonnage.controllers.registry import Controller, Parts, Row, Settings, chosen

PROGRAM: Final = "tonnage-controllers"
ALL: Final = ("*",)
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0

_log = logs.logger("tonnage.controllers")


class ControllerManager:
    """Runs the chosen controllers; use it as a context manager."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        *,
        clock: Clock,
        rng: random.Random,
        measures: CollectorRegistry,
        controllers: Sequence[str] = ALL,
        identity: str = PROGRAM,
        on_synced: Callable[[], object] = lambda: None,
    ) -> None:
        """`controllers` is what `--controllers` says. Raises UnknownController."""
        self._clock = clock
        self._rng = rng
        self._on_synced = on_synced
        self.rows: Final = chosen(controllers)
        self.informers: Final = Informers(client)
        # Events say which controller they are from, as upstream's do; what goes with one name shares a recorder.
        self._recorders = {
            source: Recorder(client, source, identity, by_note=True) for source in {row.source for row in self.rows}
        }
        self._parts = {
            row.name: Parts(client, self.informers, self._recorders[row.source], clock, rng, settings)
            for row in self.rows
        }
        self._controllers: dict[str, Controller] = {row.name: self._build(row) for row in self.rows}
        self._restarts = Counter(
            "tonnage_controller_restarts",
            "Controllers that broke and were started again, by name.",
            ("name",),
            registry=measures,
        )
        self._broken: set[str] = set()

    async def __aenter__(self) -> Self:
        for recorder in self._recorders.values():
            recorder.start()
        self.informers.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.informers.stop()
        await asyncio.gather(*(recorder.stop() for recorder in self._recorders.values()))

    @property
    def is_synced(self) -> bool:
        return self.informers.are_synced

    @property
    def is_healthy(self) -> bool:
        """No controller lies broken at the moment."""
        return not self._broken

    async def run(self) -> None:
        """Run the controllers until cancelled."""
        await self.informers.wait_synced()
        _log.info("Running", controllers=",".join(row.name for row in self.rows))
        self._on_synced()
        await asyncio.gather(*(self._keep_running(row) for row in self.rows))

    def _build(self, row: Row) -> Controller:
        return row.build(self._parts[row.name])

    async def _keep_running(self, row: Row) -> None:
        backoff = Backoff(clock=self._clock, rng=self._rng, first_s=_FIRST_PAUSE_S, max_s=_MAX_PAUSE_S)
        while True:
            try:
                await self._controllers[row.name].run()
                _log.error("A controller ended; it is started again", controller=row.name)
            except Exception:
                _log.exception("A controller broke; it is started again", controller=row.name)
            self._restarts.labels(row.name).inc()
            self._broken.add(row.name)
            await self._clock.sleep(backoff.next_s())
            # A new one, because the old one's queue is closed; what it knew it finds again in the informers.
            self._controllers[row.name] = self._build(row)
            self._broken.discard(row.name)
