"""The CSI drivers of one node, and the attach limits that they report (KEP-4876).

A driver is found by its socket, asked for its name, and forgotten when the socket is gone. A killed driver leaves its
socket and stays installed; a new socket is a new process, which is asked again. Files record which driver an address
belonged to: a driver that went while we were not running is noticed after a grace period.

The limits in CSINode follow the drivers: with the gate on and nodeAllocatableUpdatePeriodSeconds in the CSIDriver, a
limit is updated every period, and at once when an attach finds no free slot (`update_now`). Otherwise the count stays
as registered.

The node fails pods for lack of a slot in rounds, per driver. The interval between rounds doubles from 1 s to 2 min; a
pod that came after the last round waits for the next. A successful attach, a changed limit or ten quiet minutes start
again at round 1.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tonnage import errors, logs, private_files
from tonnage.clock import Clock, exponential_s, jittered, remaining_s, within
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.address import socket_identity
from tonnage.csi.client import CsiClient
from tonnage.csi.driver_capabilities import NodeCapabilities, get_driver_name, get_node_capabilities
from tonnage.node.context import NodeContext, NodePart, Trigger
from tonnage.objects.storage_v1 import CSIDriver

_log = logs.logger("tonnage.node.drivers")
_limits_log = logs.logger("tonnage.node.attach_limits")


_ASK_S: Final = 5.0
"""Timeout for a driver's first answers; after it the driver is asked again at the next poll."""


@dataclass(slots=True, eq=False)
class InstalledDriver:
    """A driver installed on a node. `info` is its last NodeGetInfo answer."""

    name: str
    address: str
    client: CsiClient
    info: csi.NodeGetInfoResponse
    can: NodeCapabilities
    socket: tuple[int, ...]
    """Identity of the socket: a different one means a different process."""
    is_registered: bool = False
    """The NodeGetInfo answer of this process has been written into the CSINode."""


class Drivers(NodePart):
    """The list of one node's drivers. `on_change` gets the name of a driver that came, changed or went."""

    def __init__(self, context: NodeContext, on_change: Callable[[str], None]) -> None:
        super().__init__(context)
        self._addresses = tuple(each.replace("{node}", self._node) for each in self._settings.csi_addresses)
        self._folder = self._settings.folder(self._node) / "plugins_registry"
        self._on_change = on_change
        self._by_address: dict[str, InstalledDriver] = {}
        self._clients: dict[str, CsiClient] = {}
        self._complained: set[str] = set()
        self._expected: dict[str, str] = {}
        """Address by name of the drivers that were installed when we last ran and have not been found yet."""
        self._expected_until_s = 0.0
        self.gone: set[str] = set()
        """Drivers that are gone and whose CSINode entries must be removed; then call `unregistered`."""

    def get(self, name: str) -> InstalledDriver:
        for driver in self._by_address.values():
            if driver.name == name:
                return driver
        raise errors.TonnageError(f"driver name {name} not found in the list of registered CSI drivers")

    def is_installed(self, name: str) -> bool:
        return any(driver.name == name for driver in self._by_address.values())

    def installed(self) -> tuple[InstalledDriver, ...]:
        return tuple(self._by_address.values())

    def recover(self) -> None:
        """Read which drivers were installed when we last ran. They have the start's grace period to come back."""
        self._expected_until_s = self._clock.monotonic() + self._settings.driver_start_grace_s
        for path in sorted(self._folder.glob("*.json")):
            try:
                said = json.loads(private_files.read_own(path))
                self._expected[str(said["driverName"])] = str(said["address"])
            except (errors.TonnageError, OSError, ValueError, KeyError, TypeError) as exc:
                _log.warning("A record of a driver cannot be read", path=str(path), error=str(exc))

    async def poll(self) -> None:
        """Look at every address once. Never raises: a driver that does not answer is asked at the next poll."""
        await asyncio.gather(*map(self._poll_one, self._addresses))
        if self._expected and self._clock.monotonic() >= self._expected_until_s:
            # The start's grace period is over: an expected driver without a socket is gone.
            for name, address in self._expected.items():
                if address not in self._addresses or socket_identity(address) is None:
                    self.gone.add(name)
                    _log.info("CSI driver has not come back", driver=name, address=address)
                    self._on_change(name)
            self._expected.clear()

    def unregistered(self, name: str) -> None:
        """Forget a gone driver: its CSINode entry has been removed."""
        self.gone.discard(name)
        if not self.is_installed(name):
            (self._folder / f"{name}.json").unlink(missing_ok=True)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    # -- one driver ---------------------------------------------------------------------------------------------------

    async def _poll_one(self, address: str) -> None:
        known, socket = self._by_address.get(address), socket_identity(address)
        if socket is None:
            if known is not None:
                await self._forget(known)
            return
        if known is not None and known.socket == socket:
            return
        try:
            await within(self._clock, _ASK_S, self._ask(address, socket))
            self._complained.discard(address)
        except (errors.TonnageError, TimeoutError, OSError) as exc:
            if address not in self._complained:
                _log.warning("A driver does not report its name", address=address, error=str(exc))
                self._complained.add(address)

    async def _ask(self, address: str, socket: tuple[int, ...]) -> None:
        client = self._clients.get(address)
        if client is None:
            timeout_s, on_call = self._settings.csi_timeout_s, self._metrics.calls
            client = CsiClient(address, clock=self._clock, rng=self._rng, timeout_s=timeout_s, on_call=on_call)
            self._clients[address] = client
        name = await get_driver_name(client)
        info = await client.node_info()
        can = await get_node_capabilities(client)
        before = self._by_address.get(address)
        self._by_address[address] = InstalledDriver(name, address, client, info, can, socket)
        self.gone.discard(name)
        self._expected.pop(name, None)
        self._record(name, address)
        _log.info("CSI driver registered", driver=name, address=address, node_id=info.node_id)
        if before is not None and before.name != name:
            self.gone.add(before.name)
            self._on_change(before.name)
        self._on_change(name)

    async def _forget(self, driver: InstalledDriver) -> None:
        del self._by_address[driver.address]
        await driver.client.close()
        if not self.is_installed(driver.name):
            self.gone.add(driver.name)
        _log.info("CSI driver is gone", driver=driver.name, address=driver.address)
        self._on_change(driver.name)

    def _record(self, name: str, address: str) -> None:
        text = json.dumps({"driverName": name, "address": address})
        path = self._folder / f"{name}.json"
        private_files.own_folder(self._folder, mode=0o750)
        with suppress(FileNotFoundError):
            if private_files.read_own(path) == text.encode():
                return
        private_files.write_private(path, text.encode())


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


_ASK_AT_TICK_S: Final = 120.0
"""Timeout of NodeGetInfo at a tick; upstream's value."""
_TRIES: Final = 5
_FIRST_PAUSE_S, _JITTER = 0.1, 0.5

Write = Callable[[InstalledDriver], Awaitable[object]]
"""Writes `driver.info` into the driver's CSINode entry."""


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
        _limits_log.info(said, node=self._node, driver=name, period_s=wanted_s, before_s=running_s)

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
            except (errors.TonnageError, TimeoutError) as exc:
                self._failed(name, "exhausted", exc)
                if isinstance(exc, errors.Invalid):
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
                except (errors.TonnageError, TimeoutError) as exc:
                    self._failed(name, "periodic", exc)
                except Exception:
                    self._metrics.failed(name, "periodic")
                    _limits_log.exception("An attach limit could not be updated", node=self._node, driver=name)
            # As Go's tickers: ticks missed during a slow update are skipped, the rhythm stays.
            late = max(self._clock.monotonic() - due_s, 0.0)
            due_s += period_s * (1 + late // period_s)

    def _failed(self, name: str, trigger: Trigger, failure: Exception) -> None:
        """Count a failed update, and log it once per cause: a server that refuses it refuses every tick."""
        self._metrics.failed(name, trigger)
        if self._told.get(name) != str(failure):
            self._told[name] = str(failure)
            _limits_log.warning(
                "An attach limit could not be updated", node=self._node, driver=name, error=str(failure)
            )

    async def _update(self, name: str, trigger: Trigger, *, since_s: float) -> None:
        """Ask the driver and write its answer, unless done after `since_s`. Raises TonnageError, TimeoutError."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            if self._done_from_s.get(name, float("-inf")) < since_s:
                began_s = self._clock.monotonic()
                driver = self._drivers.get(name)
                driver.info = await within(self._clock, _ASK_AT_TICK_S, driver.client.node_info())
                self.refusals.limit_is(name, driver.info.max_volumes_per_node)
                self._metrics.in_step(name, self._node, False)
                await self._write(driver)
                self._metrics.in_step(name, self._node, True)
                self._done_from_s[name] = began_s
                self._told.pop(name, None)
        self._metrics.updated(name, trigger, self._clock.monotonic() - since_s)
