"""A driver's capabilities by service, with CSI's names; empty for a service that was not asked."""

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


class _Has:
    """An attribute that is True if a driver has all of these capabilities."""

    def __init__(self, *capabilities: int) -> None:
        self._capabilities = frozenset(capabilities)

    def __get__(self, owner: PluginCapabilities | ControllerCapabilities | NodeCapabilities, _: type) -> bool:
        return self._capabilities <= owner.rpcs


@dataclass(frozen=True, slots=True)
class PluginCapabilities:
    rpcs: frozenset[int] = frozenset()

    controller_service = _Has(Service.CONTROLLER_SERVICE)
    volume_accessibility_constraints = _Has(Service.VOLUME_ACCESSIBILITY_CONSTRAINTS)
    """The driver has topology: its volumes cannot be reached from everywhere."""


@dataclass(frozen=True, slots=True)
class ControllerCapabilities:
    rpcs: frozenset[int] = frozenset()

    create_delete_volume = _Has(ControllerRpc.CREATE_DELETE_VOLUME)
    publish_unpublish_volume = _Has(ControllerRpc.PUBLISH_UNPUBLISH_VOLUME)
    publish_readonly = _Has(ControllerRpc.PUBLISH_READONLY)
    list_volumes_published_nodes = _Has(ControllerRpc.LIST_VOLUMES, ControllerRpc.LIST_VOLUMES_PUBLISHED_NODES)
    """It can list its volumes with the nodes that they are attached to."""
    get_capacity = _Has(ControllerRpc.GET_CAPACITY)
    create_delete_snapshot = _Has(ControllerRpc.CREATE_DELETE_SNAPSHOT)
    clone_volume = _Has(ControllerRpc.CLONE_VOLUME)
    expand_volume = _Has(ControllerRpc.EXPAND_VOLUME)
    modify_volume = _Has(ControllerRpc.MODIFY_VOLUME)
    single_node_multi_writer = _Has(ControllerRpc.SINGLE_NODE_MULTI_WRITER)
    """It distinguishes a volume for one pod from a volume for all pods of a node."""


@dataclass(frozen=True, slots=True)
class NodeCapabilities:
    rpcs: frozenset[int] = frozenset()

    stage_unstage_volume = _Has(NodeRpc.STAGE_UNSTAGE_VOLUME)
    expand_volume = _Has(NodeRpc.EXPAND_VOLUME)
    single_node_multi_writer = _Has(NodeRpc.SINGLE_NODE_MULTI_WRITER)
    volume_mount_group = _Has(NodeRpc.VOLUME_MOUNT_GROUP)
    """It mounts for a group itself: it gets the pod's fsGroup."""


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """A driver's name and capabilities. `node_info` is where it runs, if that was asked."""

    name: str
    plugin: PluginCapabilities = PluginCapabilities()
    controller: ControllerCapabilities = ControllerCapabilities()
    node: NodeCapabilities = NodeCapabilities()
    node_info: csi.NodeGetInfoResponse | None = None

    @property
    def expands_on_nodes_only(self) -> bool:
        """True if the node alone expands volumes, without a controller call."""
        return self.node.expand_volume and not self.controller.expand_volume


async def get_driver_name(driver: CsiClient) -> str:
    """Raises CsiError, also for an invalid name: files and objects are named after it."""
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
