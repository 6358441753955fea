"""The CSI drivers of one node: found by their sockets, asked for their name, forgotten when the socket is gone.

A killed driver leaves its socket and stays installed; a new socket is a new process, which is asked again. Files record
which driver an address belonged to: a driver that went while we were not running is noticed after a grace period.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tonnage import logs
from tonnage.clock import within
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.address import socket_identity
from tonnage.csi.client import CsiClient
from tonnage.csi.driver_capabilities import NodeCapabilities, get_driver_name, get_node_capabilities
from tonnage.errors import TonnageError
from tonnage.node.context import NodeContext, NodePart
from tonnage.private_files import own_folder, read_own, write_private

_ASK_S: Final = 5.0
"""Timeout for a driver's first answers; after it the driver is asked again at the next poll."""

_log = logs.logger(__name__)


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
        raise TonnageError(f"driver name {name} not found in the list of registered CSI drivers")

    def is_installed(self, name: str) -> bool:
        return any(driver.name == name for driver in self._by_address.values())

    def installed(self) -> tuple[InstalledDriver, ...]:
        return tuple(self._by_address.values())

    def recover(self) -> None:
        """Read which drivers were installed when we last ran. They have the start's grace period to come back."""
        self._expected_until_s = self._clock.monotonic() + self._settings.driver_start_grace_s
        for path in sorted(self._folder.glob("*.json")):
            try:
                said = json.loads(read_own(path))
                self._expected[str(said["driverName"])] = str(said["address"])
            except (TonnageError, OSError, ValueError, KeyError, TypeError) as exc:
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
        except (TonnageError, TimeoutError, OSError) as exc:
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
        own_folder(self._folder, mode=0o750)
        with suppress(FileNotFoundError):
            if read_own(path) == text.encode():
                return
        write_private(path, text.encode())
