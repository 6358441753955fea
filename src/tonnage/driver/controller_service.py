"""The Controller service, of all nodes or of one.

An id comes from a name, so a repeated request finds the first one's work. A snapshot is a copy in its volume's pool; it
outlives its volume, and a volume made from it may be on any node.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from google.protobuf.wrappers_pb2 import Int64Value

from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.client import POOL_IDS_METADATA
from tonnage.csi.errors import (
    StatusError,
    already_exists,
    failed_precondition,
    invalid_argument,
    not_found,
    out_of_range,
    resource_exhausted,
)
from tonnage.driver import messages
from tonnage.driver.driver import Driver, refused
from tonnage.driver.messages import required
from tonnage.driver.node_pools import PoolId
from tonnage.driver.state import contents
from tonnage.driver.state.records import (
    Publication,
    SnapshotRecord,
    VolumeOrigin,
    VolumeRecord,
    snapshot_id_of,
    volume_id_of,
)
from tonnage.driver.volumes import moving, parameters
from tonnage.driver.volumes.parameters import in_words, lies_within
from tonnage.objects.size_rules import taken_by, volume_size

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
        async with self._driver.locks.hold(wanted.id, *([wanted.source.id] if wanted.source else [])):
            known = self._driver.allocations.volumes.get(wanted.id)
            make = self._make(wanted, request) if known is None else self._on_wanted_node(known, wanted, request)
            return csi.CreateVolumeResponse(volume=messages.volume_response(await make))

    async def _make(self, wanted: VolumeRecord, request: csi.CreateVolumeRequest) -> VolumeRecord:
        """Make a volume; `wanted` has no place and size yet."""
        limits, source = request.capacity_range, self._source_of(wanted)
        at_least_bytes = source.capacity_bytes if source else 0
        rules = parameters.read_parameters(wanted.parameters).sizes
        asked_bytes = volume_size(rules, limits.required_bytes, is_block=wanted.access_type == "block")
        size = parameters.volume_bytes(asked_bytes, limits.limit_bytes, at_least_bytes=at_least_bytes)
        taken_bytes = taken_by(rules, size)
        place = self._place(wanted, taken_bytes, request.accessibility_requirements)
        order = self._driver.allocations.next_order()
        made = msgspec.structs.replace(wanted, order=order, node=place.node, pool=place.pool)
        record = msgspec.structs.replace(made, capacity_bytes=size, taken_bytes=taken_bytes)
        with self._driver.allocations.reserving_bytes(place, taken_bytes):
            await self._driver.add(record, self._driver.folder.contents_of(source) if source else None)
        return record

    async def _on_wanted_node(
        self, known: VolumeRecord, wanted: VolumeRecord, request: csi.CreateVolumeRequest
    ) -> VolumeRecord:
        """The volume that exists for this name. Raises StatusError with ALREADY_EXISTS if it differs.

        A volume that only lies elsewhere is moved to where it is wanted: its provisioner died before it got the answer,
        and nobody knows of it. A volume that is used, or may not leave its node, is refused.
        """
        differs, requirement = _difference(known, wanted, request.capacity_range), request.accessibility_requirements
        is_elsewhere = known.node not in self._nodes or not parameters.admits(requirement, known.node)
        may_leave = not self._driver.users_of(known) and moving.may_leave(self._driver, known.node)
        if differs is None and is_elsewhere and may_leave:
            place = self._place(wanted, known.size_bytes, requirement)
            return await moving.ensure_on(self._driver, known, place.node)
        if differs is None and is_elsewhere:
            differs = f"it lives on {known.node}"
        if differs is not None:
            raise already_exists(f'there is a volume with the name "{known.name}" already, and {differs}')
        return known

    def _place(self, wanted: VolumeRecord, size_bytes: int, requirement: csi.TopologyRequirement) -> PoolId:
        """A pool that fits, by preference, then by policy. Raises StatusError with RESOURCE_EXHAUSTED."""
        asked = parameters.read_parameters(wanted.parameters)
        groups = parameters.groups_within(requirement, self._nodes)
        if not groups:
            raise resource_exhausted("no node of this driver lies within the accessibility requirements")
        for group in groups:
            if (place := moving.choose_pool(self._driver, group, size_bytes, asked)) is not None:
                return place
        nodes = [node for group in groups for node in group]
        most = moving.most_bytes(self._driver, nodes, asked)
        of = ", ".join(nodes) if len(nodes) <= 3 else f"{len(nodes)} nodes"
        raise resource_exhausted(
            f"no pool of {of} has room for {in_words(size_bytes)}: the most that one has free is {in_words(most)}"
        )

    def _source_of(self, wanted: VolumeRecord) -> VolumeRecord | SnapshotRecord | None:
        """What a volume is made from. Raises StatusError: NOT_FOUND, or INVALID_ARGUMENT for another access type."""
        source, allocations = wanted.source, self._driver.allocations
        if source is None:
            return None
        found = allocations.volumes.get(source.id) if source.kind == "volume" else allocations.snapshots.get(source.id)
        if found is None:
            raise not_found(f"there is no {source.kind} {source.id} to make a volume from")
        if found.access_type != wanted.access_type:
            raise invalid_argument(
                f"{source.kind} {source.id} holds a {found.access_type} volume, not a {wanted.access_type} volume"
            )
        return found

    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: object) -> None:
        volume_id = required(request.volume_id, "volume_id")
        async with self._driver.locks.hold(volume_id):
            record = self._driver.allocations.volumes.get(volume_id)
            if record is None:
                return
            if record.node in self._driver.settings.pools and record.node not in self._nodes:
                raise failed_precondition(f"volume {volume_id} lives on {record.node}: ask the driver there")
            users = self._driver.users_of(record)
            if users:
                raise failed_precondition(f"volume {volume_id} is in use on {', '.join(users)}")
            await self._driver.remove(record)

    async def ControllerExpandVolume(
        self, request: csi.ControllerExpandVolumeRequest, context: object
    ) -> csi.ControllerExpandVolumeResponse:
        """Leaves nothing to the node: a folder has no filesystem to grow, and a file is grown here.

        Raises StatusError: OUT_OF_RANGE for never, RESOURCE_EXHAUSTED for not now.
        """
        volume_id, limits = required(request.volume_id, "volume_id"), request.capacity_range
        self._driver.volume(volume_id)
        required(request.HasField("capacity_range"), "capacity_range")
        async with self._driver.locks.hold(volume_id):
            record = self._driver.volume(volume_id)
            if request.HasField("volume_capability"):
                moving.require_access(record, messages.read_capability(request.volume_capability).access_type)
            rules = parameters.read_parameters(record.parameters).sizes
            asked_bytes = volume_size(rules, limits.required_bytes, is_block=record.access_type == "block")
            size = parameters.volume_bytes(asked_bytes, limits.limit_bytes)
            if size > record.capacity_bytes:
                record = await self._grow(record, size, taken_by(rules, size))
            elif not lies_within(record.capacity_bytes, limits.required_bytes, limits.limit_bytes):
                told = f"volume {volume_id} has {in_words(record.capacity_bytes)} and cannot be made smaller"
                raise out_of_range(told)
        return csi.ControllerExpandVolumeResponse(capacity_bytes=record.capacity_bytes, node_expansion_required=False)

    async def _grow(self, record: VolumeRecord, size: int, taken_bytes: int) -> VolumeRecord:
        sizes = self._driver.settings.pools.get(record.node, ())
        if record.pool < len(sizes) and taken_bytes > sizes[record.pool]:
            raise out_of_range(
                f"volume {record.volume_id} cannot grow to {in_words(taken_bytes)}: "
                f"its pool has {in_words(sizes[record.pool])} in all"
            )
        more, free = max(taken_bytes - record.size_bytes, 0), self._driver.free_beside(record)
        if free < more:
            raise resource_exhausted(
                f"volume {record.volume_id} needs {in_words(more)} more, and its pool has {in_words(free)} free"
            )
        with self._driver.allocations.reserving_bytes(record.pool_id, more):
            path = self._driver.folder.contents_of(record)
            try:
                await asyncio.to_thread(contents.grow, path, record.access_type, size)
            except contents.ForeignContents as exc:
                raise refused(exc) from exc
            grown = msgspec.structs.replace(record, capacity_bytes=size, taken_bytes=taken_bytes)
            await self._driver.save(grown)
        return grown

    async def ControllerModifyVolume(self, request: csi.ControllerModifyVolumeRequest, context: object) -> None:
        """Change a volume's mutable parameters; others stay."""
        volume_id = required(request.volume_id, "volume_id")
        changed = parameters.read_mutable_parameters(request.mutable_parameters)
        async with self._driver.locks.hold(volume_id):
            record = self._driver.volume(volume_id)
            wanted = {**record.mutable_parameters, **changed}
            await self._driver.save(msgspec.structs.replace(record, mutable_parameters=wanted))

    async def ValidateVolumeCapabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest, context: object
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        required(request.volume_id, "volume_id")
        required(request.volume_capabilities, "volume_capabilities")
        record = self._driver.volume(request.volume_id)
        try:
            moving.require_access(record, messages.common_access_type(request.volume_capabilities))
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
        """The snapshot of this name, created if there is none."""
        name, volume_id = required(request.name, "name"), required(request.source_volume_id, "source_volume_id")
        if request.parameters:
            raise invalid_argument(f"unknown parameter {', '.join(sorted(request.parameters))}")
        snapshot_id = snapshot_id_of(name)
        async with self._driver.locks.hold(snapshot_id, volume_id):
            known = self._driver.allocations.snapshots.get(snapshot_id)
            if known is not None and known.source_volume_id != volume_id:
                told = f"and it is of volume {known.source_volume_id}"
                raise already_exists(f'there is a snapshot with the name "{name}" already, {told}')
            record = known or await self._copy(snapshot_id, name, self._driver.volume(volume_id))
        return csi.CreateSnapshotResponse(snapshot=messages.snapshot_response(record))

    async def _copy(self, snapshot_id: str, name: str, volume: VolumeRecord) -> SnapshotRecord:
        free = self._driver.free_beside(volume)
        if free < volume.capacity_bytes:
            raise resource_exhausted(
                f"a snapshot of volume {volume.id} needs {in_words(volume.capacity_bytes)}, and its pool has "
                f"{in_words(free)} free"
            )
        record = SnapshotRecord(
            snapshot_id=snapshot_id,
            name=name,
            order=self._driver.allocations.next_order(),
            source_volume_id=volume.id,
            node=volume.node,
            pool=volume.pool,
            size_bytes=volume.capacity_bytes,
            access_type=volume.access_type,
            created_at_ns=int(self._driver.clock.now().timestamp() * 1_000_000) * 1000,
        )
        with self._driver.allocations.reserving_bytes(record.pool_id, record.size_bytes):
            await self._driver.add(record, self._driver.folder.contents_of(volume))
        return record

    async def DeleteSnapshot(self, request: csi.DeleteSnapshotRequest, context: object) -> None:
        snapshot_id = required(request.snapshot_id, "snapshot_id")
        async with self._driver.locks.hold(snapshot_id):
            record = self._driver.allocations.snapshots.get(snapshot_id)
            if record is not None:
                await self._driver.remove(record)

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
        volume_id, node = required(request.volume_id, "volume_id"), required(request.node_id, "node_id")
        wanted = Publication(messages.required_capability(request), request.readonly)
        self._driver.volume(volume_id)
        if node not in self._nodes:
            raise not_found(f"there is no node {node}")
        async with self._driver.locks.hold(volume_id):
            record = self._driver.volume(volume_id)
            moving.require_access(record, wanted.capability.access_type)
            known = record.published.get(node)
            if known is not None and known != wanted:
                raise already_exists(f"volume {volume_id} is published on {node} already, otherwise than asked")
            async with moving.using_on(self._driver, record, node) as record:
                published = {**record.published, node: wanted}
                await self._driver.save(msgspec.structs.replace(record, published=published))

    async def ControllerUnpublishVolume(self, request: csi.ControllerUnpublishVolumeRequest, context: object) -> None:
        """Detach from a node, or from all. The volume's stagings are forgotten, too, as after a forced detach."""
        volume_id, node = required(request.volume_id, "volume_id"), request.node_id
        async with self._driver.locks.hold(volume_id):
            record = self._driver.allocations.volumes.get(volume_id)
            if record is not None:
                await self._driver.save(record.without_users(frozenset({node}) if node else record.users))

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


def _difference(known: VolumeRecord, wanted: VolumeRecord, limits: csi.CapacityRange) -> str | None:
    """How the existing volume of this name differs from the request, apart from its place; None if it does not."""
    if not lies_within(known.capacity_bytes, limits.required_bytes, limits.limit_bytes):
        return f"it has {in_words(known.capacity_bytes)}"
    if known.access_type != wanted.access_type:
        return f"it is a {known.access_type} volume"
    if known.parameters != wanted.parameters:
        return "it was made with other parameters"
    return "it was made from another source" if known.source != wanted.source else None
