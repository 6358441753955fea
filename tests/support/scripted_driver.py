"""A CSI driver for tests: all three services on a real socket, doing as it is told and remembering all calls.

    async with ScriptedDriver(address, node_id="node-1", max_volumes=8).served() as driver:
        driver.max_volumes = 3
        driver.refuse("NodeStageVolume", grpc.StatusCode.RESOURCE_EXHAUSTED, "no slot left")

`ScriptedController` is its Controller service; Identity and Node stand here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Self

from google.protobuf.wrappers_pb2 import BoolValue

from support.scripted_controller import CONTROLLER_RPCS, Context, ScriptedController
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.csi_pb2_grpc import (
    IdentityServicer,
    NodeServicer,
    add_ControllerServicer_to_server,
    add_IdentityServicer_to_server,
    add_NodeServicer_to_server,
)
from tonnage.csi.driver_capabilities import NodeRpc, Service
from tonnage.csi.server import served


class ScriptedDriver(IdentityServicer, ScriptedController, NodeServicer):
    """A driver of one node. Volumes are folders that it makes at the paths it is given."""

    def __init__(
        self,
        address: str,
        *,
        node_id: str = "",
        name: str = "csi.example",
        max_volumes: int = 0,
        topology: Mapping[str, str] | None = None,
        topology_key: str = "topology.example/node",
        stages: bool = True,
        node_rpcs: tuple[int, ...] = (NodeRpc.EXPAND_VOLUME,),
        controller_rpcs: tuple[int, ...] = CONTROLLER_RPCS,
        has_topology: bool = True,
    ) -> None:
        super().__init__(topology_key=topology_key, rpcs=controller_rpcs)
        self.address = address
        self.name = name
        self.node_id = node_id
        self.max_volumes = max_volumes
        self.topology = dict(topology or {})
        self.has_topology = has_topology
        """Whether it says that its volumes cannot be reached from everywhere."""
        self.node_rpcs = (*node_rpcs, *((NodeRpc.STAGE_UNSTAGE_VOLUME,) if stages else ()))
        self.staged: set[str] = set()
        self.published: set[tuple[str, str]] = set()
        """Handle and target path."""

    def run_on(self, node: str) -> None:
        """Say from now on that this is the node it runs on."""
        self.node_id, self.topology = node, {self.topology_key: node}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Self]:
        """Listen while the block runs."""
        register = (
            partial(add_IdentityServicer_to_server, self),
            partial(add_ControllerServicer_to_server, self),
            partial(add_NodeServicer_to_server, self),
        )
        async with served(self.address, register):
            yield self

    # -- Identity -----------------------------------------------------------------------------------------------------

    async def GetPluginInfo(self, request: csi.GetPluginInfoRequest, context: Context) -> csi.GetPluginInfoResponse:
        await self._note("GetPluginInfo", request, context)
        return csi.GetPluginInfoResponse(name=self.name, vendor_version="1")

    async def GetPluginCapabilities(
        self, request: csi.GetPluginCapabilitiesRequest, context: Context
    ) -> csi.GetPluginCapabilitiesResponse:
        types = (
            Service.CONTROLLER_SERVICE,
            *((Service.VOLUME_ACCESSIBILITY_CONSTRAINTS,) if self.has_topology else ()),
        )
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[csi.PluginCapability(service=Service(type=each)) for each in types]
        )

    async def Probe(self, request: csi.ProbeRequest, context: Context) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=BoolValue(value=True))

    # -- Node ---------------------------------------------------------------------------------------------------------

    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: Context) -> csi.NodeGetInfoResponse:
        await self._note("NodeGetInfo", request, context)
        return csi.NodeGetInfoResponse(
            node_id=self.node_id,
            max_volumes_per_node=self.max_volumes,
            accessible_topology=csi.Topology(segments=self.topology) if self.has_topology else None,
        )

    async def NodeGetCapabilities(
        self, request: csi.NodeGetCapabilitiesRequest, context: Context
    ) -> csi.NodeGetCapabilitiesResponse:
        return csi.NodeGetCapabilitiesResponse(
            capabilities=[
                csi.NodeServiceCapability(rpc=NodeRpc(type=NodeRpc.Type.Name(each))) for each in self.node_rpcs
            ]
        )

    async def NodeStageVolume(
        self, request: csi.NodeStageVolumeRequest, context: Context
    ) -> csi.NodeStageVolumeResponse:
        await self._note("NodeStageVolume", request, context)
        self.staged.add(request.volume_id)
        return csi.NodeStageVolumeResponse()

    async def NodeUnstageVolume(
        self, request: csi.NodeUnstageVolumeRequest, context: Context
    ) -> csi.NodeUnstageVolumeResponse:
        await self._note("NodeUnstageVolume", request, context)
        self.staged.discard(request.volume_id)
        return csi.NodeUnstageVolumeResponse()

    async def NodePublishVolume(
        self, request: csi.NodePublishVolumeRequest, context: Context
    ) -> csi.NodePublishVolumeResponse:
        await self._note("NodePublishVolume", request, context)
        _put(Path(request.target_path), is_block=request.volume_capability.HasField("block"))
        self.published.add((request.volume_id, request.target_path))
        return csi.NodePublishVolumeResponse()

    async def NodeUnpublishVolume(
        self, request: csi.NodeUnpublishVolumeRequest, context: Context
    ) -> csi.NodeUnpublishVolumeResponse:
        await self._note("NodeUnpublishVolume", request, context)
        _take_away(Path(request.target_path))
        self.published.discard((request.volume_id, request.target_path))
        return csi.NodeUnpublishVolumeResponse()

    async def NodeExpandVolume(
        self, request: csi.NodeExpandVolumeRequest, context: Context
    ) -> csi.NodeExpandVolumeResponse:
        await self._note("NodeExpandVolume", request, context)
        return csi.NodeExpandVolumeResponse(capacity_bytes=request.capacity_range.required_bytes)


def _put(target: Path, *, is_block: bool) -> None:
    if is_block:
        target.touch()
    else:
        target.mkdir(exist_ok=True)


def _take_away(target: Path) -> None:
    if target.is_dir():
        target.rmdir()
    else:
        target.unlink(missing_ok=True)
