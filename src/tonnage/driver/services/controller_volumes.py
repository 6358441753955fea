"""Controller calls that make, delete, grow, check and show volumes: fields are read, `volumes.create_delete` does
the work."""

from __future__ import annotations

from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.errors import Code
from tonnage.driver.driver import Driver
from tonnage.driver.errors import StatusError
from tonnage.driver.services.request_fields import common_access_type, read_capability, required
from tonnage.driver.services.responses import condition_response, page, volume_response
from tonnage.driver.state.records import VolumeOrigin, VolumeRecord
from tonnage.driver.volumes.create_delete import VolumeRequest
from tonnage.driver.volumes.parameters import driver_parameters, read_mutable_parameters
from tonnage.driver.volumes.publish import require_access


class VolumeCalls(rpc.ControllerServicer):
    """Volumes of `nodes`, which are all nodes of the driver or the one that the service is bound to."""

    def __init__(self, driver: Driver, nodes: tuple[str, ...]) -> None:
        self._driver = driver
        self._nodes = nodes

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: object) -> csi.CreateVolumeResponse:
        required(request.name, "name")
        required(request.volume_capabilities, "volume_capabilities")
        mutable = read_mutable_parameters(request.mutable_parameters)
        record = await self._driver.volumes.create(
            VolumeRequest(
                name=request.name,
                nodes=self._nodes,
                access_type=common_access_type(request.volume_capabilities),
                required_bytes=request.capacity_range.required_bytes,
                limit_bytes=request.capacity_range.limit_bytes,
                parameters=dict(request.parameters),
                mutable_parameters=mutable,
                source=_source(request),
                requirement=request.accessibility_requirements,
            )
        )
        return csi.CreateVolumeResponse(volume=volume_response(record))

    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: object) -> csi.DeleteVolumeResponse:
        await self._driver.volumes.delete(required(request.volume_id, "volume_id"), self._nodes)
        return csi.DeleteVolumeResponse()

    async def ControllerExpandVolume(
        self, request: csi.ControllerExpandVolumeRequest, context: object
    ) -> csi.ControllerExpandVolumeResponse:
        """A folder has no filesystem to grow, and a file is grown here: the node has nothing left to do."""
        record = self._driver.core.volume(required(request.volume_id, "volume_id"))
        required(request.HasField("capacity_range"), "capacity_range")
        if request.HasField("volume_capability"):
            require_access(record, read_capability(request.volume_capability).access_type)
        wanted = request.capacity_range
        grown = await self._driver.volumes.expand(request.volume_id, wanted.required_bytes, wanted.limit_bytes)
        return csi.ControllerExpandVolumeResponse(capacity_bytes=grown.capacity_bytes, node_expansion_required=False)

    async def ControllerModifyVolume(
        self, request: csi.ControllerModifyVolumeRequest, context: object
    ) -> csi.ControllerModifyVolumeResponse:
        volume_id = required(request.volume_id, "volume_id")
        await self._driver.volumes.modify(volume_id, read_mutable_parameters(request.mutable_parameters))
        return csi.ControllerModifyVolumeResponse()

    async def ValidateVolumeCapabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest, context: object
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        required(request.volume_id, "volume_id")
        required(request.volume_capabilities, "volume_capabilities")
        record = self._driver.core.volume(request.volume_id)
        try:
            require_access(record, common_access_type(request.volume_capabilities))
        except StatusError as exc:
            return csi.ValidateVolumeCapabilitiesResponse(message=exc.message)
        if request.parameters and driver_parameters(request.parameters) != record.parameters:
            return csi.ValidateVolumeCapabilitiesResponse(message="the volume was made with other parameters")
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
        mine = [record for record in self._driver.core.allocations.volumes.values() if self._is_mine(record)]
        shown, token = page(mine, request.max_entries, request.starting_token)
        return csi.ListVolumesResponse(entries=[self._entry(record) for record in shown], next_token=token)

    async def ControllerGetVolume(
        self, request: csi.ControllerGetVolumeRequest, context: object
    ) -> csi.ControllerGetVolumeResponse:
        record = self._driver.core.volume(required(request.volume_id, "volume_id"))
        return csi.ControllerGetVolumeResponse(
            volume=volume_response(record),
            status=csi.ControllerGetVolumeResponse.VolumeStatus(
                published_node_ids=sorted(record.published), volume_condition=self._condition(record)
            ),
        )

    def _entry(self, record: VolumeRecord) -> csi.ListVolumesResponse.Entry:
        status = csi.ListVolumesResponse.VolumeStatus(
            published_node_ids=sorted(record.published), volume_condition=self._condition(record)
        )
        return csi.ListVolumesResponse.Entry(volume=volume_response(record), status=status)

    def _condition(self, record: VolumeRecord) -> csi.VolumeCondition:
        return condition_response(self._driver.core.folder.contents_of(record))

    def _is_mine(self, record: VolumeRecord) -> bool:
        """A volume of a node that this driver no longer plays is shown where all nodes are."""
        return record.node in self._nodes or (self._nodes == self._driver.nodes)


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
    raise StatusError(Code.INVALID_ARGUMENT, "volume_content_source: a snapshot or a volume is required")
