"""Controller calls about snapshots: fields are read, `volumes.snapshots` does the work."""

from __future__ import annotations

from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.errors import Code
from tonnage.driver.driver import Driver
from tonnage.driver.errors import StatusError
from tonnage.driver.services.request_fields import required
from tonnage.driver.services.responses import page, snapshot_response


class SnapshotCalls(rpc.ControllerServicer):
    """Snapshots are the driver's as a whole, on whichever socket they are asked for."""

    _driver: Driver

    async def CreateSnapshot(self, request: csi.CreateSnapshotRequest, context: object) -> csi.CreateSnapshotResponse:
        required(request.name, "name")
        required(request.source_volume_id, "source_volume_id")
        if request.parameters:
            raise StatusError(Code.INVALID_ARGUMENT, f"unknown parameter {', '.join(sorted(request.parameters))}")
        record = await self._driver.snapshots.create(request.name, request.source_volume_id)
        return csi.CreateSnapshotResponse(snapshot=snapshot_response(record))

    async def DeleteSnapshot(self, request: csi.DeleteSnapshotRequest, context: object) -> csi.DeleteSnapshotResponse:
        await self._driver.snapshots.delete(required(request.snapshot_id, "snapshot_id"))
        return csi.DeleteSnapshotResponse()

    async def ListSnapshots(self, request: csi.ListSnapshotsRequest, context: object) -> csi.ListSnapshotsResponse:
        wanted = [
            record
            for record in self._driver.core.allocations.snapshots.values()
            if request.snapshot_id in ("", record.snapshot_id)
            and request.source_volume_id in ("", record.source_volume_id)
        ]
        shown, token = page(wanted, request.max_entries, request.starting_token)
        entries = [csi.ListSnapshotsResponse.Entry(snapshot=snapshot_response(record)) for record in shown]
        return csi.ListSnapshotsResponse(entries=entries, next_token=token)

    async def GetSnapshot(self, request: csi.GetSnapshotRequest, context: object) -> csi.GetSnapshotResponse:
        record = self._driver.core.allocations.snapshots.get(required(request.snapshot_id, "snapshot_id"))
        if record is None:
            raise StatusError(Code.NOT_FOUND, f"there is no snapshot {request.snapshot_id}")
        return csi.GetSnapshotResponse(snapshot=snapshot_response(record))
