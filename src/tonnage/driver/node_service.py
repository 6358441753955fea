"""The Node service of one node: stages a volume once, and links it to every pod's path.

    staging_target_path/volume  ->  contents        target_path  ->  contents

A link is made before the record names it and removed before the record forgets it, so a repeated call finds what to
repair. Anything else at such a path stays, and the call fails. Without attaching (`attachRequired: false`), staging
takes the slot and is the signal to rebuild.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.errors import already_exists, failed_precondition, not_found, out_of_range
from tonnage.driver import messages
from tonnage.driver.driver import Driver
from tonnage.driver.messages import required
from tonnage.driver.state import contents
from tonnage.driver.state.records import Staging, Target, VolumeRecord
from tonnage.driver.volumes import links, moving, parameters

_LINK: Final = "volume"
_SINGLE_WRITER = csi.VolumeCapability.AccessMode.SINGLE_NODE_SINGLE_WRITER
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
        volume_id = required(request.volume_id, "volume_id")
        path = messages.absolute(request.staging_target_path, "staging_target_path")
        wanted = Staging(path, messages.required_capability(request))
        async with self._driver.locks.hold(volume_id):
            record = self._driver.volume(volume_id)
            moving.require_access(record, wanted.capability.access_type)
            known = record.staged.get(self._node)
            if known is not None and known != wanted:
                raise already_exists(
                    f"volume {volume_id} is staged at {known.path} already, or with another capability"
                )
            async with moving.using_on(self._driver, record, self._node) as record:
                link = partial(links.link, Path(path) / _LINK, self._driver.folder.contents_of(record))
                staged = {**record.staged, self._node: wanted}
                await self._driver.save(msgspec.structs.replace(record, staged=staged), first=link)

    async def NodeUnstageVolume(self, request: csi.NodeUnstageVolumeRequest, context: object) -> None:
        volume_id = required(request.volume_id, "volume_id")
        path = required(request.staging_target_path, "staging_target_path")
        async with self._driver.locks.hold(volume_id):
            record = self._driver.allocations.volumes.get(volume_id)
            known = record.staged.get(self._node) if record is not None else None
            is_staged = known is not None and known.path == path
            await asyncio.to_thread(links.unlink, Path(path) / _LINK, volume_id, is_expected=is_staged)
            if record is not None and is_staged:
                left = {node: staging for node, staging in record.staged.items() if node != self._node}
                await self._driver.save(msgspec.structs.replace(record, staged=left))

    async def NodePublishVolume(self, request: csi.NodePublishVolumeRequest, context: object) -> None:
        volume_id = required(request.volume_id, "volume_id")
        path, staging_path = messages.absolute(request.target_path, "target_path"), request.staging_target_path
        wanted = Target(self._node, path, messages.required_capability(request), request.readonly)
        self._driver.volume(volume_id)
        if not staging_path:
            raise failed_precondition("staging_target_path is required: stage the volume first")
        async with self._driver.locks.hold(volume_id):
            record = self._driver.volume(volume_id)
            moving.require_access(record, wanted.capability.access_type)
            staged = record.staged.get(self._node)
            if staged is None or staged.path != staging_path:
                raise failed_precondition(f"volume {volume_id} is not staged at {staging_path} on {self._node}")
            others = [target for target in record.targets if target != wanted]
            if any((target.node, target.path) == (self._node, path) for target in others):
                raise already_exists(f"volume {volume_id} is published at {path} already, otherwise than asked")
            if others and wanted.capability.mode == _SINGLE_WRITER:
                raise failed_precondition(
                    f"volume {volume_id} is for a single writer, and published at {others[0].path} already"
                )
            link = partial(links.link, Path(path), self._driver.folder.contents_of(record))
            await self._driver.save(msgspec.structs.replace(record, targets=(*others, wanted)), first=link)

    async def NodeUnpublishVolume(self, request: csi.NodeUnpublishVolumeRequest, context: object) -> None:
        volume_id, path = required(request.volume_id, "volume_id"), required(request.target_path, "target_path")
        async with self._driver.locks.hold(volume_id):
            record = self._driver.allocations.volumes.get(volume_id)
            targets = record.targets if record is not None else ()
            left = tuple(target for target in targets if (target.node, target.path) != (self._node, path))
            await asyncio.to_thread(links.unlink, Path(path), volume_id, is_expected=left != targets)
            if record is not None:
                await self._driver.save(msgspec.structs.replace(record, targets=left))

    async def NodeGetVolumeStats(
        self, request: csi.NodeGetVolumeStatsRequest, context: object
    ) -> csi.NodeGetVolumeStatsResponse:
        """The size of a block volume; for a folder the bytes and files that are really in it."""
        record = self._at(request)
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
        record = self._at(request)
        if request.HasField("volume_capability"):
            moving.require_access(record, messages.read_capability(request.volume_capability).access_type)
        wanted_bytes, in_words = request.capacity_range.required_bytes, parameters.in_words
        if wanted_bytes > record.capacity_bytes:
            raise out_of_range(
                f"volume {record.volume_id} has {in_words(record.capacity_bytes)}, not {in_words(wanted_bytes)}: "
                "expand it with ControllerExpandVolume first"
            )
        return csi.NodeExpandVolumeResponse(capacity_bytes=record.capacity_bytes)

    def _at(self, request: csi.NodeGetVolumeStatsRequest | csi.NodeExpandVolumeRequest) -> VolumeRecord:
        """The volume, if it is staged or published at the request's path. Raises StatusError with NOT_FOUND."""
        volume_id, path = required(request.volume_id, "volume_id"), required(request.volume_path, "volume_path")
        record = self._driver.volume(volume_id)
        staged = record.staged.get(self._node)
        paths = {target.path for target in record.targets if target.node == self._node}
        if path not in paths and (staged is None or staged.path != path):
            raise not_found(f"volume {volume_id} is not at {path} on {self._node}")
        return record
