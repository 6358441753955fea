"""KEP-4876 on one node: the attach limits in CSINode follow the drivers.

With the gate on and nodeAllocatableUpdatePeriodSeconds in the CSIDriver, a limit is updated every period, and at once
when an attach finds no free slot (`update_now`). Otherwise the count stays as registered.

The node fails pods for lack of a slot in rounds, per driver. The interval between rounds doubles from 1 s to 2 min; a
pod that came after the last round waits for the next. A successful attach, a changed limit or ten quiet minutes start
again at round 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tonnage import logs
from tonnage.backoff import exponential_s, jittered, remaining_s
from tonnage.clock import Clock, within
from tonnage.errors import Invalid, TonnageError
from tonnage.node.context import NodeContext, NodePart, Trigger
from tonnage.node.drivers import Drivers, InstalledDriver
from tonnage.objects.storage_v1 import CSIDriver

FIRST_S: Final = 1.0
MAX_S: Final = 120.0
FORGET_S: Final = 600.0
"""After so long without a refusal, counted from the end of an interval, rounds start again at 1."""


@dataclass(frozen=True, slots=True)
class _Round:
    number: int
    at_s: float

    @property
    def next_s(self) -> float:
        """When the next round may begin: the interval after round n is 2^(n-1) s, at most 2 min."""
        return self.at_s + exponential_s(FIRST_S, self.number - 1, max_s=MAX_S)


class AttachRefusals:
    """The refused attaches of one node. `came_s`: when a pod came to the node, in the clock's monotonic seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rounds: dict[str, _Round] = {}
        self._limits: dict[str, int] = {}

    def wait_s(self, driver: str, came_s: float) -> float:
        """Seconds until a pod whose volume this driver refused may be failed; 0 for now."""
        last = self._last(driver)
        if last is None or came_s <= last.at_s:
            return 0.0
        return remaining_s(last.next_s, self._clock.monotonic())

    def failed(self, driver: str, came_s: float) -> None:
        """A pod was failed for lack of a slot: start the next round, unless the pod belongs to the last round."""
        last = self._last(driver)
        if last is None or came_s > last.at_s:
            self._rounds[driver] = _Round(last.number + 1 if last is not None else 1, self._clock.monotonic())

    def succeeded(self, driver: str) -> None:
        self._rounds.pop(driver, None)

    def limit_is(self, driver: str, count: int) -> None:
        """Note the driver's limit. A changed limit starts again at round 1."""
        if self._limits.get(driver, count) != count:
            self._rounds.pop(driver, None)
        self._limits[driver] = count

    def _last(self, driver: str) -> _Round | None:
        last = self._rounds.get(driver)
        if last is not None and self._clock.monotonic() > last.next_s + FORGET_S:
            del self._rounds[driver]
            return None
        return last


def update_period_s(driver: CSIDriver | None, *, gate_on: bool, is_installed: bool) -> int:
    """Seconds between two periodic updates; 0 turns off all updates, also the update after a failed attach."""
    if not gate_on or not is_installed or driver is None:
        return 0
    period_s = driver.spec.node_allocatable_update_period_seconds
    return max(period_s or 0, 0)


_ASK_S: Final = 120.0
"""Timeout of NodeGetInfo at a tick; upstream's value."""
_TRIES: Final = 5
_FIRST_PAUSE_S, _JITTER = 0.1, 0.5

Write = Callable[[InstalledDriver], Awaitable[bool]]
"""Writes `driver.info` into the driver's CSINode entry."""

_log = logs.logger(__name__)


class AttachLimitUpdater(NodePart):
    """Updates the attach limits of one node. `write` puts a driver's answer into the CSINode."""

    def __init__(self, context: NodeContext, drivers: Drivers, write: Write) -> None:
        super().__init__(context)
        self._drivers = drivers
        self._write = write
        self._tickers: dict[str, tuple[int, asyncio.Task[None]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._done_from_s: dict[str, float] = {}  # when the last successful update began
        self._told: dict[str, str] = {}  # why a driver's last update failed
        self.refusals = AttachRefusals(self._clock)

    def period_s(self, name: str) -> int:
        """Seconds between two updates of a driver now; 0 is never, also not after a failed attach."""
        gate_on, is_installed = self._settings.gates.MutableCSINodeAllocatableCount, self._drivers.is_installed(name)
        return update_period_s(self._csi_drivers.get(name), gate_on=gate_on, is_installed=is_installed)

    @property
    def running(self) -> dict[str, int]:
        """The period in seconds of every driver that has a ticker."""
        return {name: period_s for name, (period_s, _) in self._tickers.items()}

    def sync(self, name: str) -> None:
        """Start, stop or replace the ticker of a driver. Does nothing if nothing changed."""
        if self._drivers.is_installed(name):
            self.refusals.limit_is(name, self._drivers.get(name).info.max_volumes_per_node)
        wanted_s = self.period_s(name)
        running_s, ticker = self._tickers.get(name, (0, None))
        if wanted_s == running_s:
            return
        if ticker is not None:
            ticker.cancel()
            del self._tickers[name]
            self._metrics.in_step(name, self._node, True)  # no ticker compares them any more
        if wanted_s:
            task = asyncio.create_task(self._tick(name, wanted_s), name=f"limits {self._node} {name}")
            self._tickers[name] = wanted_s, task
        said = "An attach limit follows its driver" if wanted_s else "An attach limit no longer follows its driver"
        _log.info(said, node=self._node, driver=name, period_s=wanted_s, before_s=running_s)

    async def stop(self) -> None:
        tasks = [task for _, task in self._tickers.values()]
        self._tickers.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def update_now(self, name: str) -> bool:
        """Ask the driver after an attach found no slot, and write its answer; False if that failed.

        Shares the outcome of an update that is under way if it began after this call.
        """
        noticed_s = self._clock.monotonic()
        for attempt in range(_TRIES):
            if attempt:
                pause_s = exponential_s(_FIRST_PAUSE_S, attempt - 1)
                await self._clock.sleep(jittered(pause_s, _JITTER, self._rng))
            try:
                await self._update(name, "exhausted", since_s=noticed_s)
                return True
            except (TonnageError, TimeoutError) as exc:
                self._failed(name, "exhausted", exc)
                if isinstance(exc, Invalid):
                    break  # the server refuses it for now: a retry changes nothing
        return False

    # -- behind them --------------------------------------------------------------------------------------------------

    async def _tick(self, name: str, period_s: int) -> None:
        due_s = self._clock.monotonic() + period_s
        while True:
            await self._clock.sleep(due_s - self._clock.monotonic())
            if not self._context.is_idle:
                try:
                    await self._update(name, "periodic", since_s=due_s)
                except (TonnageError, TimeoutError) as exc:
                    self._failed(name, "periodic", exc)
                except Exception:
                    self._metrics.failed(name, "periodic")
                    _log.exception("An attach limit could not be updated", node=self._node, driver=name)
            # As Go's tickers: ticks missed during a slow update are skipped, the rhythm stays.
            late = max(self._clock.monotonic() - due_s, 0.0)
            due_s += period_s * (1 + late // period_s)

    def _failed(self, name: str, trigger: Trigger, failure: Exception) -> None:
        """Count a failed update, and log it once per cause: a server that refuses it refuses every tick."""
        self._metrics.failed(name, trigger)
        if self._told.get(name) != str(failure):
            self._told[name] = str(failure)
            _log.warning("An attach limit could not be updated", node=self._node, driver=name, error=str(failure))

    async def _update(self, name: str, trigger: Trigger, *, since_s: float) -> None:
        """Ask the driver and write its answer, unless done after `since_s`. Raises TonnageError, TimeoutError."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            if self._done_from_s.get(name, float("-inf")) < since_s:
                began_s = self._clock.monotonic()
                driver = self._drivers.get(name)
                driver.info = await within(self._clock, _ASK_S, driver.client.node_info())
                self.refusals.limit_is(name, driver.info.max_volumes_per_node)
                self._metrics.in_step(name, self._node, False)
                await self._write(driver)
                self._metrics.in_step(name, self._node, True)
                self._done_from_s[name] = began_s
                self._told.pop(name, None)
        self._metrics.updated(name, trigger, self._clock.monotonic() - since_s)
