"""Volumes on one node: staged once, then linked to each pod's path. There are no mounts, so that nobody has to be root.

    staging_target_path/volume  ->  contents        target_path  ->  contents

A link is made before it stands in the record and removed before it goes from there, so that a repeated call always
finds what it has to put right. Whatever else is at such a path, a link of somebody's included, is never replaced nor
removed: the call fails and says what is in its way. Read-only is remembered, and left to the pod to keep: a link
cannot enforce it. Where nothing was attached (`attachRequired: false`), staging takes the slot and is the signal to
rebuild.
"""

from __future__ import annotations

import asyncio
import os
import re
from functools import partial
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
_POOL = re.compile(r"pool-[0-9]+")
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
                link = partial(_link, Path(path) / _LINK, core.folder.contents_of(record))
                await core.save(msgspec.structs.replace(record, staged={**record.staged, node: wanted}), first=link)

    async def unstage(self, node: str, volume_id: str, path: str) -> None:
        """See to it that the volume is not staged at that path; one that is not there is not staged."""
        core = self._core
        async with core.locks.hold(volume_id):
            record = core.allocations.volumes.get(volume_id)
            known = record.staged.get(node) if record is not None else None
            is_staged = known is not None and known.path == path
            await asyncio.to_thread(_unlink, Path(path) / _LINK, volume_id, is_expected=is_staged)
            if record is not None and is_staged:
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
            link = partial(_link, Path(wanted.path), core.folder.contents_of(record))
            await core.save(msgspec.structs.replace(record, targets=(*others, wanted)), first=link)

    async def unpublish(self, node: str, volume_id: str, path: str) -> None:
        """See to it that the volume is not at that path; one that is not there is not published."""
        core = self._core
        async with core.locks.hold(volume_id):
            record = core.allocations.volumes.get(volume_id)
            targets = record.targets if record is not None else ()
            is_there = any((target.node, target.path) == (node, path) for target in targets)
            await asyncio.to_thread(_unlink, Path(path), volume_id, is_expected=is_there)
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


def _is_ours(path: Path, volume_id: str) -> bool:
    """Whether a link was made for this volume: it leads to its contents in a pool, here or where it, or the whole state
    folder, was before. A volume's id alone does not make a link ours."""
    if not path.is_symlink():
        return False
    parts = path.readlink().parts
    return len(parts) >= 3 and parts[-1] == volume_id and _POOL.fullmatch(parts[-2]) is not None


def _unlink(path: Path, volume_id: str, *, is_expected: bool) -> None:
    """Remove a link to this volume, and nothing else.

    Raises StatusError with FAILED_PRECONDITION when a link `is_expected`, and something else is there.
    """
    if _is_ours(path, volume_id):
        path.unlink()
    elif is_expected and os.path.lexists(path) and not _is_empty_folder(path):
        raise _in_the_way(path, f"volume {volume_id} is not taken away")


def _link(path: Path, target: Path) -> None:
    """Have `path` point to `target`. An empty folder in its place was made by the caller, and makes room.

    Raises StatusError with FAILED_PRECONDITION for anything else that is there: it is somebody's, and stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_ours(path, target.name):
        if path.readlink() == target:
            return
        path.unlink()
    elif _is_empty_folder(path):
        path.rmdir()
    try:
        path.symlink_to(target)
    except FileExistsError as exc:
        raise _in_the_way(path, f"volume {target.name} is not put there") from exc


def _is_empty_folder(path: Path) -> bool:
    return not path.is_symlink() and path.is_dir() and next(path.iterdir(), None) is None


def _in_the_way(path: Path, consequence: str) -> StatusError:
    if path.is_symlink():
        found = f"a symbolic link to {path.readlink()}"
    else:
        found = "a folder with contents" if path.is_dir() else "a file"
    return StatusError(
        Code.FAILED_PRECONDITION,
        f"{path} is {found}, which this driver did not put there: it stays, and {consequence}; move it away, and ask "
        "again",
    )
