"""What a driver can do: the capabilities of its three services, by CSI's names.

    PluginCapabilities       Identity.GetPluginCapabilities
    ControllerCapabilities   Controller.ControllerGetCapabilities
    NodeCapabilities         Node.NodeGetCapabilities
    DriverInfo               all of them, with the driver's name

A service that was not asked, or that the driver does not have, has no capabilities. Each `get_…` asks once and raises
CsiError; who waits for a driver that is not there yet does so around it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.errors import Code, CsiError
from tonnage.objects.names import csi_driver_name

Service = csi.PluginCapability.Service
ControllerRpc = csi.ControllerServiceCapability.RPC
NodeRpc = csi.NodeServiceCapability.RPC

_NAME_BYTES = 63


@dataclass(frozen=True, slots=True)
class PluginCapabilities:
    services: frozenset[int] = frozenset()

    @property
    def controller_service(self) -> bool:
        return Service.CONTROLLER_SERVICE in self.services

    @property
    def volume_accessibility_constraints(self) -> bool:
        """Its volumes cannot be reached from everywhere: it has topology."""
        return Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in self.services


@dataclass(frozen=True, slots=True)
class ControllerCapabilities:
    rpcs: frozenset[int] = frozenset()

    @property
    def create_delete_volume(self) -> bool:
        return ControllerRpc.CREATE_DELETE_VOLUME in self.rpcs

    @property
    def publish_unpublish_volume(self) -> bool:
        """It attaches volumes to nodes."""
        return ControllerRpc.PUBLISH_UNPUBLISH_VOLUME in self.rpcs

    @property
    def publish_readonly(self) -> bool:
        return ControllerRpc.PUBLISH_READONLY in self.rpcs

    @property
    def list_volumes_published_nodes(self) -> bool:
        """It can list its volumes, each with the nodes that it is attached to."""
        return {ControllerRpc.LIST_VOLUMES, ControllerRpc.LIST_VOLUMES_PUBLISHED_NODES} <= self.rpcs

    @property
    def get_capacity(self) -> bool:
        return ControllerRpc.GET_CAPACITY in self.rpcs

    @property
    def create_delete_snapshot(self) -> bool:
        return ControllerRpc.CREATE_DELETE_SNAPSHOT in self.rpcs

    @property
    def clone_volume(self) -> bool:
        return ControllerRpc.CLONE_VOLUME in self.rpcs

    @property
    def expand_volume(self) -> bool:
        return ControllerRpc.EXPAND_VOLUME in self.rpcs

    @property
    def modify_volume(self) -> bool:
        return ControllerRpc.MODIFY_VOLUME in self.rpcs

    @property
    def single_node_multi_writer(self) -> bool:
        """It knows a volume for one pod from one for all pods of a node."""
        return ControllerRpc.SINGLE_NODE_MULTI_WRITER in self.rpcs


@dataclass(frozen=True, slots=True)
class NodeCapabilities:
    rpcs: frozenset[int] = frozenset()

    @property
    def stage_unstage_volume(self) -> bool:
        return NodeRpc.STAGE_UNSTAGE_VOLUME in self.rpcs

    @property
    def expand_volume(self) -> bool:
        return NodeRpc.EXPAND_VOLUME in self.rpcs

    @property
    def single_node_multi_writer(self) -> bool:
        """It knows a volume for one pod from one for all pods of a node."""
        return NodeRpc.SINGLE_NODE_MULTI_WRITER in self.rpcs

    @property
    def volume_mount_group(self) -> bool:
        """It mounts for a group itself: it is told the pod's fsGroup."""
        return NodeRpc.VOLUME_MOUNT_GROUP in self.rpcs


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """A driver's name and capabilities. `node_info` is where it runs, for those who asked that too."""

    name: str
    plugin: PluginCapabilities = PluginCapabilities()
    controller: ControllerCapabilities = ControllerCapabilities()
    node: NodeCapabilities = NodeCapabilities()
    node_info: csi.NodeGetInfoResponse | None = None

    @property
    def expands_on_nodes_only(self) -> bool:
        """Nothing is to be asked of the controller when a volume grows: the node does all of it."""
        return self.node.expand_volume and not self.controller.expand_volume


async def get_driver_name(driver: CsiClient) -> str:
    """Raises CsiError, also for a name that is none: files and objects are called by it."""
    name = (await driver.plugin_info()).name
    wrong = csi_driver_name(name) or ["must be no more than 63 bytes"] * (len(name) > _NAME_BYTES)
    if wrong:
        told = f'the driver calls itself "{name}": {wrong[0]}'
        raise CsiError("/csi.v1.Identity/GetPluginInfo", Code.FAILED_PRECONDITION, told, address=driver.address)
    return name


async def get_plugin_capabilities(driver: CsiClient) -> PluginCapabilities:
    answer = await driver.plugin_capabilities()
    return PluginCapabilities(frozenset(each.service.type for each in answer.capabilities if each.HasField("service")))


async def get_controller_capabilities(driver: CsiClient) -> ControllerCapabilities:
    answer = await driver.controller_capabilities()
    return ControllerCapabilities(frozenset(each.rpc.type for each in answer.capabilities if each.HasField("rpc")))


async def get_node_capabilities(driver: CsiClient) -> NodeCapabilities:
    answer = await driver.node_capabilities()
    return NodeCapabilities(frozenset(each.rpc.type for each in answer.capabilities if each.HasField("rpc")))
