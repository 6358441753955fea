"""What a driver says about itself, asked once at the start: its name, what it can do, and where it runs."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tonnage import logs
from tonnage.backoff import Backoff
from tonnage.clock import Clock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.address import socket_path
from tonnage.csi.client import CsiClient
from tonnage.csi.errors import Code, CsiError

Service = csi.PluginCapability.Service
Rpc = csi.ControllerServiceCapability.RPC
NodeRpc = csi.NodeServiceCapability.RPC

_LOOK_EVERY_S = 0.1

_log = logs.logger("tonnage.provisioner")


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """A driver's name and capabilities. `node` is where it runs, asked in node-deployment mode only."""

    name: str
    services: frozenset[int] = frozenset()
    rpcs: frozenset[int] = frozenset()
    node_rpcs: frozenset[int] = frozenset()
    node: csi.NodeGetInfoResponse | None = None

    @property
    def has_topology(self) -> bool:
        """Its volumes cannot be reached from everywhere."""
        return Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in self.services

    @property
    def attaches(self) -> bool:
        return Rpc.PUBLISH_UNPUBLISH_VOLUME in self.rpcs

    @property
    def clones(self) -> bool:
        return Rpc.CLONE_VOLUME in self.rpcs

    @property
    def tells_capacity(self) -> bool:
        return Rpc.GET_CAPACITY in self.rpcs

    @property
    def tells_writers_apart(self) -> bool:
        """It knows a volume for one pod from one for all pods of a node."""
        return Rpc.SINGLE_NODE_MULTI_WRITER in self.rpcs

    @property
    def expands_volumes(self) -> bool:
        return Rpc.EXPAND_VOLUME in self.rpcs

    @property
    def expands_on_nodes_only(self) -> bool:
        """Nothing is to be asked of the controller: the node does all of it."""
        return not self.expands_volumes and NodeRpc.EXPAND_VOLUME in self.node_rpcs

    def lacks(self, *, snapshot: bool = False, clone: bool = False, modify: bool = False) -> str:
        """Why it cannot make such volumes, in upstream's words; empty when it can. Mirrors checkDriverCapabilities."""
        dynamic = "CSI driver does not support dynamic provisioning: "
        if Service.CONTROLLER_SERVICE not in self.services:
            return f"{dynamic}plugin CONTROLLER_SERVICE capability is not reported"
        if Rpc.CREATE_DELETE_VOLUME not in self.rpcs:
            return f"{dynamic}controller CREATE_DELETE_VOLUME capability is not reported"
        if snapshot and Rpc.CREATE_DELETE_SNAPSHOT not in self.rpcs:
            return (
                "CSI driver does not support snapshot restore: "
                "controller CREATE_DELETE_SNAPSHOT capability is not reported"
            )
        if clone and Rpc.CLONE_VOLUME not in self.rpcs:
            return "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported"
        if modify and Rpc.MODIFY_VOLUME not in self.rpcs:
            return (
                "CSI driver does not support VolumeAttributesClass: controller MODIFY_VOLUME capability is not reported"
            )
        return ""


async def learn(driver: CsiClient, *, with_node: bool, clock: Clock, rng: random.Random) -> DriverFacts:
    """Ask until the driver answers and is ready; it may start after us."""
    await _wait_for_socket(driver.address, clock)
    backoff = Backoff(clock=clock, rng=rng, first_s=0.1, max_s=5.0)
    while True:
        try:
            probed = await driver.probe()
            if not probed.HasField("ready") or probed.ready.value:
                return await _ask(driver, with_node)
            _log.info("The driver is not ready yet", address=driver.address)
        except CsiError as exc:
            _log.warning("The driver cannot be asked", address=driver.address, error=exc.message)
        await clock.sleep(backoff.next_s())


async def _wait_for_socket(address: str, clock: Clock) -> None:
    """Return when there is something to connect to: looking costs nothing, a refused connection costs a pause."""
    path = socket_path(address)
    if path is not None and not path.exists():
        _log.info("Waiting for the driver's socket", address=address)
        while not path.exists():
            await clock.sleep(_LOOK_EVERY_S)


async def _ask(driver: CsiClient, with_node: bool) -> DriverFacts:
    name = (await driver.plugin_info()).name
    plugin = await driver.plugin_capabilities()
    services = frozenset(each.service.type for each in plugin.capabilities if each.HasField("service"))
    rpcs: frozenset[int] = frozenset()
    if Service.CONTROLLER_SERVICE in services:
        answer = await driver.controller_capabilities()
        rpcs = frozenset(each.rpc.type for each in answer.capabilities if each.HasField("rpc"))
    node_rpcs: frozenset[int] = frozenset()
    try:
        on_node = await driver.node_capabilities()
        node_rpcs = frozenset(each.rpc.type for each in on_node.capabilities if each.HasField("rpc"))
    except CsiError as exc:
        if exc.code is not Code.UNIMPLEMENTED:
            raise
    node = await driver.node_info() if with_node else None
    return DriverFacts(name, services, rpcs, node_rpcs, node)
