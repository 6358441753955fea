"""Volumes on one node: staged once, then linked to each pod's path. There are no mounts, so that nobody has to be root.

    staging_target_path/volume  ->  contents        target_path  ->  contents

A link is made before it stands in the record and removed before it goes from there, so that a repeated call always
finds what it has to put right. Read-only is remembered, and left to the pod to keep: a link cannot enforce it.
Where nothing was attached (`attachRequired: false`), staging takes the slot and is the signal to rebuild.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code
from tonnage.driver.core import Core
from tonnage.driver.errors import StatusError
from tonnage.driver.state.records import Capability, Staging, Target, VolumeRecord
from tonnage.driver.volumes.publish import require_access, using_on
from tonnage.driver.volumes.rebuild import Rebuilder

_LINK = "volume"
_SINGLE_WRITER = csi.VolumeCapability.AccessMode.SINGLE_NODE_SINGLE_WRITER


class Stagings:
    """What the pods of a node see of the volumes."""

    def __init__(self, core: Core, rebuilder: Rebuilder) -> None:
        self._core = core
        self._rebuilder = rebuilder

    async def stage(self, node: str, volume_id: str, path: str, capability: Capability) -> None:
        """Stage a volume at a path. Raises StatusError as NodeStageVolume does."""
        core, wanted = self._core, Staging(path, capability)
        async with core.locks.hold(volume_id):
            record = core.volume(volume_id)
            require_access(record, capability.access_type)
            known = record.staged.get(node)
            if known is not None and known != wanted:
                raise StatusError(
                    Code.ALREADY_EXISTS,
                    f"volume {volume_id} is staged at {known.path} already, or with another capability",
                )
            async with using_on(core, self._rebuilder, record, node) as record:
                await asyncio.to_thread(_link, Path(path) / _LINK, core.folder.contents_of(record))
                await core.save(msgspec.structs.replace(record, staged={**record.staged, node: wanted}))

    async def unstage(self, node: str, volume_id: str, path: str) -> None:
        """See to it that the volume is not staged at that path; one that is not there is not staged."""
        core = self._core
        async with core.locks.hold(volume_id):
            await asyncio.to_thread(_unlink, Path(path) / _LINK, volume_id)
            record = core.allocations.volumes.get(volume_id)
            if record is None:
                return
            known = record.staged.get(node)
            if known is not None and known.path == path:
                left = {other: staging for other, staging in record.staged.items() if other != node}
                await core.save(msgspec.structs.replace(record, staged=left))

    async def publish(self, volume_id: str, staging_path: str, wanted: Target) -> None:
        """Link a staged volume to a pod's path. Raises StatusError as NodePublishVolume does."""
        core = self._core
        async with core.locks.hold(volume_id):
            record = core.volume(volume_id)
            require_access(record, wanted.capability.access_type)
            staged = record.staged.get(wanted.node)
            if staged is None or staged.path != staging_path:
                raise StatusError(
                    Code.FAILED_PRECONDITION, f"volume {volume_id} is not staged at {staging_path} on {wanted.node}"
                )
            others = [target for target in record.targets if target != wanted]
            if any((target.node, target.path) == (wanted.node, wanted.path) for target in others):
                raise StatusError(
                    Code.ALREADY_EXISTS,
                    f"volume {volume_id} is published at {wanted.path} already, otherwise than asked",
                )
            if others and wanted.capability.mode == _SINGLE_WRITER:
                raise StatusError(
                    Code.FAILED_PRECONDITION,
                    f"volume {volume_id} is for a single writer, and published at {others[0].path} already",
                )
            await asyncio.to_thread(_link, Path(wanted.path), core.folder.contents_of(record))
            await core.save(msgspec.structs.replace(record, targets=(*others, wanted)))

    async def unpublish(self, node: str, volume_id: str, path: str) -> None:
        """See to it that the volume is not at that path; one that is not there is not published."""
        core = self._core
        async with core.locks.hold(volume_id):
            await asyncio.to_thread(_unlink, Path(path), volume_id)
            record = core.allocations.volumes.get(volume_id)
            if record is not None:
                left = tuple(target for target in record.targets if (target.node, target.path) != (node, path))
                await core.save(msgspec.structs.replace(record, targets=left))

    def require_at(self, node: str, volume_id: str, path: str) -> VolumeRecord:
        """The volume, if it is staged or published at that path. Raises StatusError with NOT_FOUND."""
        record = self._core.volume(volume_id)
        staged = record.staged.get(node)
        paths = {target.path for target in record.targets if target.node == node}
        if path not in paths and (staged is None or staged.path != path):
            raise StatusError(Code.NOT_FOUND, f"volume {volume_id} is not at {path} on {node}")
        return record


def _unlink(path: Path, volume_id: str) -> None:
    """Remove a link to this volume, wherever it points: the volume, or the whole state folder, may have moved since."""
    if path.is_symlink() and path.readlink().name == volume_id:
        path.unlink()


def _link(path: Path, target: Path) -> None:
    """Have `path` point to `target`. An empty folder in its place was made by the caller, and makes room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        if path.readlink() == target:
            return
        path.unlink()
    elif path.is_dir():
        path.rmdir()
    path.symlink_to(target)
