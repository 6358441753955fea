"""The Node service of one node. It reads requests; `volumes.publish` does the work."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.driver.core import failed_precondition, out_of_range
from tonnage.driver.driver import Driver
from tonnage.driver.services import messages
from tonnage.driver.services.messages import required
from tonnage.driver.state import contents
from tonnage.driver.state.records import Target
from tonnage.driver.volumes.parameters import in_words, topology_of
from tonnage.driver.volumes.publish import require_access

_Rpc = csi.NodeServiceCapability.RPC
CAPABILITIES: Final = (
    _Rpc.STAGE_UNSTAGE_VOLUME,
    _Rpc.GET_VOLUME_STATS,
    _Rpc.EXPAND_VOLUME,
    _Rpc.VOLUME_CONDITION,
    _Rpc.SINGLE_NODE_MULTI_WRITER,
)


class NodeService(rpc.NodeServicer):
    def __init__(self, driver: Driver, node: str) -> None:
        self._driver = driver
        self._node = node

    async def NodeGetCapabilities(
        self, request: csi.NodeGetCapabilitiesRequest, context: object
    ) -> csi.NodeGetCapabilitiesResponse:
        return csi.NodeGetCapabilitiesResponse(
            capabilities=[csi.NodeServiceCapability(rpc=_Rpc(type=known)) for known in CAPABILITIES]
        )

    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: object) -> csi.NodeGetInfoResponse:
        limit = self._driver.core.settings.max_volumes.get(self._node, 0)
        return csi.NodeGetInfoResponse(
            node_id=self._node,
            max_volumes_per_node=self._driver.core.faults.max_volumes(self._node, limit),
            accessible_topology=topology_of(self._node),
        )

    async def NodeStageVolume(
        self, request: csi.NodeStageVolumeRequest, context: object
    ) -> csi.NodeStageVolumeResponse:
        required(request.volume_id, "volume_id")
        path = messages.absolute(request.staging_target_path, "staging_target_path")
        capability = messages.required_capability(request.volume_capability, request.HasField("volume_capability"))
        await self._driver.uses.stage(self._node, request.volume_id, path, capability)
        return csi.NodeStageVolumeResponse()

    async def NodeUnstageVolume(
        self, request: csi.NodeUnstageVolumeRequest, context: object
    ) -> csi.NodeUnstageVolumeResponse:
        required(request.volume_id, "volume_id")
        path = required(request.staging_target_path, "staging_target_path")
        await self._driver.uses.unstage(self._node, request.volume_id, path)
        return csi.NodeUnstageVolumeResponse()

    async def NodePublishVolume(
        self, request: csi.NodePublishVolumeRequest, context: object
    ) -> csi.NodePublishVolumeResponse:
        required(request.volume_id, "volume_id")
        path = messages.absolute(request.target_path, "target_path")
        capability = messages.required_capability(request.volume_capability, request.HasField("volume_capability"))
        self._driver.core.volume(request.volume_id)
        if not request.staging_target_path:
            raise failed_precondition("staging_target_path is required: stage the volume first")
        wanted = Target(self._node, path, capability, request.readonly)
        await self._driver.uses.publish(request.volume_id, request.staging_target_path, wanted)
        return csi.NodePublishVolumeResponse()

    async def NodeUnpublishVolume(
        self, request: csi.NodeUnpublishVolumeRequest, context: object
    ) -> csi.NodeUnpublishVolumeResponse:
        required(request.volume_id, "volume_id")
        path = required(request.target_path, "target_path")
        await self._driver.uses.unpublish(self._node, request.volume_id, path)
        return csi.NodeUnpublishVolumeResponse()

    async def NodeGetVolumeStats(
        self, request: csi.NodeGetVolumeStatsRequest, context: object
    ) -> csi.NodeGetVolumeStatsResponse:
        """The size of a block volume; for a folder the bytes and files that are really in it."""
        required(request.volume_id, "volume_id")
        path = required(request.volume_path, "volume_path")
        record = self._driver.uses.require_at(self._node, request.volume_id, path)
        at = self._driver.core.folder.contents_of(record)
        condition = messages.condition_response(at)
        total = record.capacity_bytes
        if record.access_type == "block":
            usage = [csi.VolumeUsage(unit=csi.VolumeUsage.BYTES, total=total)]
        else:
            used_bytes, inodes = await asyncio.to_thread(contents.usage, at)
            files = await asyncio.to_thread(os.statvfs, self._driver.core.folder.path)
            usage = [
                csi.VolumeUsage(
                    unit=csi.VolumeUsage.BYTES, total=total, used=used_bytes, available=max(total - used_bytes, 0)
                ),
                csi.VolumeUsage(
                    unit=csi.VolumeUsage.INODES, total=files.f_files, used=inodes, available=files.f_favail
                ),
            ]
        return csi.NodeGetVolumeStatsResponse(usage=usage, volume_condition=condition)

    async def NodeExpandVolume(
        self, request: csi.NodeExpandVolumeRequest, context: object
    ) -> csi.NodeExpandVolumeResponse:
        """Only checks: there is no filesystem to grow, and the controller has grown the volume."""
        required(request.volume_id, "volume_id")
        path = required(request.volume_path, "volume_path")
        record = self._driver.uses.require_at(self._node, request.volume_id, path)
        if request.HasField("volume_capability"):
            require_access(record, messages.read_capability(request.volume_capability).access_type)
        wanted_bytes = request.capacity_range.required_bytes
        if wanted_bytes > record.capacity_bytes:
            raise out_of_range(
                f"volume {record.volume_id} has {in_words(record.capacity_bytes)}, not {in_words(wanted_bytes)}: "
                "expand it with ControllerExpandVolume first"
            )
        return csi.NodeExpandVolumeResponse(capacity_bytes=record.capacity_bytes)
