"""The Controller service: capacity, publishing, and what the driver says it can do; volumes and snapshots stand beside.

Bound to all nodes it is what a central provisioner speaks to; bound to one node it is a node deployment's.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.wrappers_pb2 import Int64Value

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code
from tonnage.driver.errors import StatusError
from tonnage.driver.services.controller_snapshots import SnapshotCalls
from tonnage.driver.services.controller_volumes import VolumeCalls
from tonnage.driver.services.request_fields import read_capability, required, required_capability
from tonnage.driver.state.records import Publication
from tonnage.driver.volumes.parameters import read_parameters
from tonnage.driver.volumes.sizes import BLOCK_BYTES
from tonnage.driver.volumes.topology import nodes_within

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


class ControllerService(VolumeCalls, SnapshotCalls):
    """All calls of the service."""

    async def ControllerGetCapabilities(
        self, request: csi.ControllerGetCapabilitiesRequest, context: object
    ) -> csi.ControllerGetCapabilitiesResponse:
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[csi.ControllerServiceCapability(rpc=_Rpc(type=known)) for known in CAPABILITIES]
        )

    async def ControllerPublishVolume(
        self, request: csi.ControllerPublishVolumeRequest, context: object
    ) -> csi.ControllerPublishVolumeResponse:
        required(request.volume_id, "volume_id")
        required(request.node_id, "node_id")
        capability = required_capability(request.volume_capability, request.HasField("volume_capability"))
        self._driver.core.volume(request.volume_id)
        if request.node_id not in self._nodes:
            raise StatusError(Code.NOT_FOUND, f"there is no node {request.node_id}")
        wanted = Publication(capability, request.readonly)
        await self._driver.publications.publish(request.volume_id, request.node_id, wanted)
        return csi.ControllerPublishVolumeResponse()

    async def ControllerUnpublishVolume(
        self, request: csi.ControllerUnpublishVolumeRequest, context: object
    ) -> csi.ControllerUnpublishVolumeResponse:
        await self._driver.publications.unpublish(required(request.volume_id, "volume_id"), request.node_id)
        return csi.ControllerUnpublishVolumeResponse()

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: object) -> csi.GetCapacityResponse:
        """Free bytes of the pools that a volume as described could go to, in whole blocks."""
        parameters = read_parameters(request.parameters)
        try:
            for capability in request.volume_capabilities:
                read_capability(capability)
        except StatusError:  # no volume can be made that way, however much is free
            return csi.GetCapacityResponse()
        free_bytes = [
            free // BLOCK_BYTES * BLOCK_BYTES
            for node in nodes_within(request.accessible_topology, self._nodes)
            for number, free in enumerate(self._driver.core.faults.reported_bytes(node))
            if parameters.pools is None or number in parameters.pools
        ]
        one_number = self._driver.settings.one_number
        if one_number:
            free = max(free_bytes, default=0) if one_number == "largest" else sum(free_bytes)
            return csi.GetCapacityResponse(available_capacity=min(free, _MOST_BYTES))
        return csi.GetCapacityResponse(
            available_capacity=min(sum(free_bytes), _MOST_BYTES),
            maximum_volume_size=Int64Value(value=max(free_bytes, default=0)),
            available_capacities=free_bytes if self._driver.settings.report_pools else (),
        )
