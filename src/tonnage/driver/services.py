"""The Controller service, of all nodes or of one, and the Node service of one node. They read requests; `volumes/` does
the work.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

from google.protobuf.wrappers_pb2 import Int64Value

from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.client import POOL_IDS_METADATA
from tonnage.csi.errors import StatusError, failed_precondition, invalid_argument, not_found, out_of_range
from tonnage.driver import messages
from tonnage.driver.driver import Driver
from tonnage.driver.messages import required
from tonnage.driver.state import contents
from tonnage.driver.state.records import Publication, Target, VolumeOrigin, VolumeRecord, volume_id_of
from tonnage.driver.volumes import create_delete, parameters, publish

_MOST_BYTES: Final = (1 << 63) - 1
_Rpc = csi.ControllerServiceCapability.RPC
CAPABILITIES: Final = (
    _Rpc.CREATE_DELETE_VOLUME,
    _Rpc.PUBLISH_UNPUBLISH_VOLUME,
    _Rpc.LIST_VOLUMES,
    _Rpc.GET_CAPACITY,
    _Rpc.CREATE_DELETE_SNAPSHOT,
    _Rpc.LIST_SNAPSHOTS,
    _Rpc.CLONE_VOLUME,
    _Rpc.PUBLISH_READONLY,
    _Rpc.EXPAND_VOLUME,
    _Rpc.LIST_VOLUMES_PUBLISHED_NODES,
    _Rpc.VOLUME_CONDITION,
    _Rpc.GET_VOLUME,
    _Rpc.SINGLE_NODE_MULTI_WRITER,
    _Rpc.MODIFY_VOLUME,
    _Rpc.GET_SNAPSHOT,
)


class ControllerService(rpc.ControllerServicer):
    """The calls about `nodes`: all nodes of the driver, or the one of its socket."""

    def __init__(self, driver: Driver, nodes: tuple[str, ...]) -> None:
        self._driver, self._nodes = driver, nodes

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: object) -> csi.CreateVolumeResponse:
        required(request.name, "name")
        required(request.volume_capabilities, "volume_capabilities")
        mutable = parameters.read_mutable_parameters(request.mutable_parameters)
        wanted = VolumeRecord(
            volume_id=volume_id_of(request.name),
            name=request.name,
            access_type=messages.common_access_type(request.volume_capabilities),
            parameters=parameters.driver_parameters(request.parameters),
            mutable_parameters=mutable,
            source=_source(request),
            order=0,
            node="",
            pool=0,
            capacity_bytes=0,
        )
        record = await create_delete.create_volume(self._driver, wanted, request, self._nodes)
        return csi.CreateVolumeResponse(volume=messages.volume_response(record))

    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: object) -> None:
        await create_delete.delete_volume(self._driver, required(request.volume_id, "volume_id"), self._nodes)

    async def ControllerExpandVolume(
        self, request: csi.ControllerExpandVolumeRequest, context: object
    ) -> csi.ControllerExpandVolumeResponse:
        """Leaves nothing to the node: a folder has no filesystem to grow, and a file is grown here."""
        record = self._driver.volume(required(request.volume_id, "volume_id"))
        required(request.HasField("capacity_range"), "capacity_range")
        if request.HasField("volume_capability"):
            publish.require_access(record, messages.read_capability(request.volume_capability).access_type)
        wanted = request.capacity_range
        grown = await create_delete.expand_volume(
            self._driver, request.volume_id, wanted.required_bytes, wanted.limit_bytes
        )
        return csi.ControllerExpandVolumeResponse(capacity_bytes=grown.capacity_bytes, node_expansion_required=False)

    async def ControllerModifyVolume(self, request: csi.ControllerModifyVolumeRequest, context: object) -> None:
        volume_id = required(request.volume_id, "volume_id")
        await create_delete.modify_volume(
            self._driver, volume_id, parameters.read_mutable_parameters(request.mutable_parameters)
        )

    async def ValidateVolumeCapabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest, context: object
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        required(request.volume_id, "volume_id")
        required(request.volume_capabilities, "volume_capabilities")
        record = self._driver.volume(request.volume_id)
        try:
            publish.require_access(record, messages.common_access_type(request.volume_capabilities))
        except StatusError as exc:
            return csi.ValidateVolumeCapabilitiesResponse(message=exc.message)
        if request.parameters and parameters.driver_parameters(request.parameters) != record.parameters:
            return csi.ValidateVolumeCapabilitiesResponse(message="the volume was created with other parameters")
        if request.volume_context:
            return csi.ValidateVolumeCapabilitiesResponse(message="volumes of this driver have no volume_context")
        if not request.mutable_parameters.items() <= record.mutable_parameters.items():
            return csi.ValidateVolumeCapabilitiesResponse(message="the volume has other mutable parameters")
        return csi.ValidateVolumeCapabilitiesResponse(
            confirmed=csi.ValidateVolumeCapabilitiesResponse.Confirmed(
                volume_capabilities=request.volume_capabilities,
                parameters=request.parameters,
                mutable_parameters=request.mutable_parameters,
            )
        )

    async def ListVolumes(self, request: csi.ListVolumesRequest, context: object) -> csi.ListVolumesResponse:
        # A volume of a node that this driver no longer has is shown where all nodes are.
        volumes, is_whole = self._driver.allocations.volumes.values(), self._nodes == self._driver.nodes
        mine = [record for record in volumes if is_whole or record.node in self._nodes]
        shown, token = messages.page(mine, request.max_entries, request.starting_token)
        entries = [
            csi.ListVolumesResponse.Entry(
                volume=messages.volume_response(record),
                status=csi.ListVolumesResponse.VolumeStatus(
                    published_node_ids=sorted(record.published), volume_condition=self._condition(record)
                ),
            )
            for record in shown
        ]
        return csi.ListVolumesResponse(entries=entries, next_token=token)

    async def ControllerGetVolume(
        self, request: csi.ControllerGetVolumeRequest, context: object
    ) -> csi.ControllerGetVolumeResponse:
        record = self._driver.volume(required(request.volume_id, "volume_id"))
        return csi.ControllerGetVolumeResponse(
            volume=messages.volume_response(record),
            status=csi.ControllerGetVolumeResponse.VolumeStatus(
                published_node_ids=sorted(record.published), volume_condition=self._condition(record)
            ),
        )

    def _condition(self, record: VolumeRecord) -> csi.VolumeCondition:
        return messages.condition_response(self._driver.folder.contents_of(record))

    # -- snapshots: the driver's as a whole, on whichever socket they are asked for ----------------------------------

    async def CreateSnapshot(self, request: csi.CreateSnapshotRequest, context: object) -> csi.CreateSnapshotResponse:
        required(request.name, "name")
        required(request.source_volume_id, "source_volume_id")
        if request.parameters:
            raise invalid_argument(f"unknown parameter {', '.join(sorted(request.parameters))}")
        record = await create_delete.create_snapshot(self._driver, request.name, request.source_volume_id)
        return csi.CreateSnapshotResponse(snapshot=messages.snapshot_response(record))

    async def DeleteSnapshot(self, request: csi.DeleteSnapshotRequest, context: object) -> None:
        await create_delete.delete_snapshot(self._driver, required(request.snapshot_id, "snapshot_id"))

    async def ListSnapshots(self, request: csi.ListSnapshotsRequest, context: object) -> csi.ListSnapshotsResponse:
        wanted = [
            record
            for record in self._driver.allocations.snapshots.values()
            if request.snapshot_id in ("", record.snapshot_id)
            and request.source_volume_id in ("", record.source_volume_id)
        ]
        shown, token = messages.page(wanted, request.max_entries, request.starting_token)
        entries = [csi.ListSnapshotsResponse.Entry(snapshot=messages.snapshot_response(record)) for record in shown]
        return csi.ListSnapshotsResponse(entries=entries, next_token=token)

    async def GetSnapshot(self, request: csi.GetSnapshotRequest, context: object) -> csi.GetSnapshotResponse:
        record = self._driver.allocations.snapshots.get(required(request.snapshot_id, "snapshot_id"))
        if record is None:
            raise not_found(f"there is no snapshot {request.snapshot_id}")
        return csi.GetSnapshotResponse(snapshot=messages.snapshot_response(record))

    # -- publishing and capacity --------------------------------------------------------------------------------------

    async def ControllerGetCapabilities(
        self, request: csi.ControllerGetCapabilitiesRequest, context: object
    ) -> csi.ControllerGetCapabilitiesResponse:
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[csi.ControllerServiceCapability(rpc=_Rpc(type=known)) for known in CAPABILITIES]
        )

    async def ControllerPublishVolume(self, request: csi.ControllerPublishVolumeRequest, context: object) -> None:
        required(request.volume_id, "volume_id")
        required(request.node_id, "node_id")
        capability = messages.required_capability(request.volume_capability, request.HasField("volume_capability"))
        self._driver.volume(request.volume_id)
        if request.node_id not in self._nodes:
            raise not_found(f"there is no node {request.node_id}")
        wanted = Publication(capability, request.readonly)
        await publish.attach(self._driver, request.volume_id, request.node_id, wanted)

    async def ControllerUnpublishVolume(self, request: csi.ControllerUnpublishVolumeRequest, context: object) -> None:
        await publish.detach(self._driver, required(request.volume_id, "volume_id"), request.node_id)

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: Any) -> csi.GetCapacityResponse:
        """Free bytes, in whole blocks, of the pools where such a volume could go, and beside them their ids."""
        asked = parameters.read_parameters(request.parameters)
        try:
            for capability in request.volume_capabilities:
                messages.read_capability(capability)
        except StatusError:  # no such volume can be created, however much is free
            return csi.GetCapacityResponse()
        by_id = {
            f"{node}/{number}": free // parameters.BLOCK_BYTES * parameters.BLOCK_BYTES
            for node in parameters.nodes_within(request.accessible_topology, self._nodes)
            for number, free in enumerate(self._driver.faults.reported_bytes(node))
            if asked.pools is None or number in asked.pools
        }
        free_bytes = list(by_id.values())
        one_number = self._driver.settings.one_number
        if one_number:
            free = max(free_bytes, default=0) if one_number == "largest" else sum(free_bytes)
            return csi.GetCapacityResponse(available_capacity=min(free, _MOST_BYTES))
        if context is not None and self._driver.settings.report_pools:
            context.set_trailing_metadata(((POOL_IDS_METADATA, ",".join(by_id)),))
        return csi.GetCapacityResponse(
            available_capacity=min(sum(free_bytes), _MOST_BYTES),
            maximum_volume_size=Int64Value(value=max(free_bytes, default=0)),
            available_capacities=free_bytes if self._driver.settings.report_pools else (),
        )


def _source(request: csi.CreateVolumeRequest) -> VolumeOrigin | None:
    if not request.HasField("volume_content_source"):
        return None
    asked = request.volume_content_source
    if asked.HasField("snapshot"):
        return VolumeOrigin(
            "snapshot", required(asked.snapshot.snapshot_id, "volume_content_source.snapshot.snapshot_id")
        )
    if asked.HasField("volume"):
        return VolumeOrigin("volume", required(asked.volume.volume_id, "volume_content_source.volume.volume_id"))
    raise invalid_argument("volume_content_source: a snapshot or a volume is required")


_NodeRpc = csi.NodeServiceCapability.RPC
NODE_CAPABILITIES: Final = (
    _NodeRpc.STAGE_UNSTAGE_VOLUME,
    _NodeRpc.GET_VOLUME_STATS,
    _NodeRpc.EXPAND_VOLUME,
    _NodeRpc.VOLUME_CONDITION,
    _NodeRpc.SINGLE_NODE_MULTI_WRITER,
)


class NodeService(rpc.NodeServicer):
    def __init__(self, driver: Driver, node: str) -> None:
        self._driver, self._node = driver, node

    async def NodeGetCapabilities(
        self, request: csi.NodeGetCapabilitiesRequest, context: object
    ) -> csi.NodeGetCapabilitiesResponse:
        return csi.NodeGetCapabilitiesResponse(
            capabilities=[csi.NodeServiceCapability(rpc=_NodeRpc(type=known)) for known in NODE_CAPABILITIES]
        )

    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: object) -> csi.NodeGetInfoResponse:
        limit = self._driver.settings.max_volumes.get(self._node, 0)
        return csi.NodeGetInfoResponse(
            node_id=self._node,
            max_volumes_per_node=self._driver.faults.max_volumes(self._node, limit),
            accessible_topology=parameters.topology_of(self._node),
        )

    async def NodeStageVolume(self, request: csi.NodeStageVolumeRequest, context: object) -> None:
        required(request.volume_id, "volume_id")
        path = messages.absolute(request.staging_target_path, "staging_target_path")
        capability = messages.required_capability(request.volume_capability, request.HasField("volume_capability"))
        await publish.stage(self._driver, self._node, request.volume_id, path, capability)

    async def NodeUnstageVolume(self, request: csi.NodeUnstageVolumeRequest, context: object) -> None:
        required(request.volume_id, "volume_id")
        path = required(request.staging_target_path, "staging_target_path")
        await publish.unstage(self._driver, self._node, request.volume_id, path)

    async def NodePublishVolume(self, request: csi.NodePublishVolumeRequest, context: object) -> None:
        required(request.volume_id, "volume_id")
        path = messages.absolute(request.target_path, "target_path")
        capability = messages.required_capability(request.volume_capability, request.HasField("volume_capability"))
        self._driver.volume(request.volume_id)
        if not request.staging_target_path:
            raise failed_precondition("staging_target_path is required: stage the volume first")
        wanted = Target(self._node, path, capability, request.readonly)
        await publish.publish(self._driver, request.volume_id, request.staging_target_path, wanted)

    async def NodeUnpublishVolume(self, request: csi.NodeUnpublishVolumeRequest, context: object) -> None:
        required(request.volume_id, "volume_id")
        path = required(request.target_path, "target_path")
        await publish.unpublish(self._driver, self._node, request.volume_id, path)

    async def NodeGetVolumeStats(
        self, request: csi.NodeGetVolumeStatsRequest, context: object
    ) -> csi.NodeGetVolumeStatsResponse:
        """The size of a block volume; for a folder the bytes and files that are really in it."""
        required(request.volume_id, "volume_id")
        path = required(request.volume_path, "volume_path")
        record = publish.require_at(self._driver, self._node, request.volume_id, path)
        at = self._driver.folder.contents_of(record)
        condition = messages.condition_response(at)
        total = record.capacity_bytes
        if record.access_type == "block":
            usage = [csi.VolumeUsage(unit=csi.VolumeUsage.BYTES, total=total)]
        else:
            used_bytes, inodes = await asyncio.to_thread(contents.usage, at)
            files = await asyncio.to_thread(os.statvfs, self._driver.folder.path)
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
        record = publish.require_at(self._driver, self._node, request.volume_id, path)
        if request.HasField("volume_capability"):
            publish.require_access(record, messages.read_capability(request.volume_capability).access_type)
        wanted_bytes, in_words = request.capacity_range.required_bytes, parameters.in_words
        if wanted_bytes > record.capacity_bytes:
            raise out_of_range(
                f"volume {record.volume_id} has {in_words(record.capacity_bytes)}, not {in_words(wanted_bytes)}: "
                "expand it with ControllerExpandVolume first"
            )
        return csi.NodeExpandVolumeResponse(capacity_bytes=record.capacity_bytes)
