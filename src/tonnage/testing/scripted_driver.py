"""A CSI driver for tests of nodes: Identity and Node on a real socket, doing as it is told and remembering all calls.

async with ScriptedDriver(address, node_id="node-1", max_volumes=8).served() as driver:
    driver.max_volumes = 3
    driver.refuse("NodeStageVolume", grpc.StatusCode.RESOURCE_EXHAUSTED, "no slot left")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio
from google.protobuf.message import Message

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.csi_pb2_grpc import (
    IdentityServicer,
    NodeServicer,
    add_IdentityServicer_to_server,
    add_NodeServicer_to_server,
)
from tonnage.csi.server import served

Context = grpc.aio.ServicerContext[Any, Any]
_Rpc = csi.NodeServiceCapability.RPC


class ScriptedDriver(IdentityServicer, NodeServicer):
    """A driver of one node. Volumes are folders that it makes at the paths it is given."""

    def __init__(
        self,
        address: str,
        *,
        node_id: str,
        name: str = "csi.example",
        max_volumes: int = 0,
        topology: Mapping[str, str] | None = None,
        stages: bool = True,
    ) -> None:
        self.address = address
        self.name = name
        self.node_id = node_id
        self.max_volumes = max_volumes
        self.topology = dict(topology or {})
        self.stages = stages
        self.calls: list[tuple[str, Message]] = []
        """Every call, in order: the method's name and the request."""
        self.staged: set[str] = set()
        self.published: set[tuple[str, str]] = set()
        """Handle and target path."""
        self.delay_s = 0.0
        self._refusals: dict[str, tuple[grpc.StatusCode, str]] = {}
        self.before_call: Callable[[str], Awaitable[None]] | None = None
        """Awaited with the method's name before it is answered: to look at the world in that instant."""

    def refuse(self, method: str, code: grpc.StatusCode, told: str) -> None:
        """Answer this method so, until it is allowed again."""
        self._refusals[method] = code, told

    def allow(self, method: str) -> None:
        self._refusals.pop(method, None)

    def asked(self, method: str) -> list[Any]:
        """The requests of one method."""
        return [request for called, request in self.calls if called == method]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Self]:
        """Listen while the block runs."""
        register = (
            partial(add_IdentityServicer_to_server, self),
            partial(add_NodeServicer_to_server, self),
        )
        async with served(self.address, register):
            yield self

    async def _note(self, method: str, request: Message, context: Context) -> None:
        self.calls.append((method, request))
        if self.before_call is not None:
            await self.before_call(method)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if method in self._refusals:
            await context.abort(*self._refusals[method])

    # -- Identity -----------------------------------------------------------------------------------------------------

    async def GetPluginInfo(self, request: csi.GetPluginInfoRequest, context: Context) -> csi.GetPluginInfoResponse:
        await self._note("GetPluginInfo", request, context)
        return csi.GetPluginInfoResponse(name=self.name, vendor_version="1")

    # -- Node ---------------------------------------------------------------------------------------------------------

    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: Context) -> csi.NodeGetInfoResponse:
        await self._note("NodeGetInfo", request, context)
        return csi.NodeGetInfoResponse(
            node_id=self.node_id,
            max_volumes_per_node=self.max_volumes,
            accessible_topology=csi.Topology(segments=self.topology),
        )

    async def NodeGetCapabilities(
        self, request: csi.NodeGetCapabilitiesRequest, context: Context
    ) -> csi.NodeGetCapabilitiesResponse:
        types = [_Rpc.EXPAND_VOLUME, *([_Rpc.STAGE_UNSTAGE_VOLUME] if self.stages else [])]
        return csi.NodeGetCapabilitiesResponse(
            capabilities=[csi.NodeServiceCapability(rpc=_Rpc(type=each)) for each in types]
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
