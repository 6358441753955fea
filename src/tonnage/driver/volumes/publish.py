"""Volumes in use: attached to a node, staged there once, linked to every pod's path, and rebuilt on another node.

A volume can be used on its own node, and by one node at a time. Publishing or staging it on another is KEP-5925's
signal to rebuild it there, if it may leave its node:

    space on the new node is reserved  ->  contents copied  ->  the record names the new place  ->  the old copy goes

All nodes share the state folder, so the contents of a gone node can still be read: they stand for the replica elsewhere
that a real driver would have. A node's pods see links, so that nobody has to be root:

    staging_target_path/volume  ->  contents        target_path  ->  contents

A link is made before the record names it and removed before the record forgets it, so a repeated call finds what to
repair. Anything else at such a path stays, and the call fails. Without attaching (`attachRequired: false`), staging
takes the slot and is the signal to rebuild.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from tonnage import logs
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError, already_exists, failed_precondition, invalid_argument, not_found
from tonnage.driver.driver import Driver
from tonnage.driver.node_pools import PoolId, choose, largest_bytes
from tonnage.driver.state.records import Capability, Publication, Staging, Target, VolumeRecord
from tonnage.driver.volumes.parameters import Parameters, in_words, read_parameters

_log = logs.logger(__name__)


def choose_pool(driver: Driver, nodes: Iterable[str], size_bytes: int, parameters: Parameters) -> PoolId | None:
    """The pool on these nodes for a volume of this size, by its class's policy or the driver's; None if none fits."""
    return choose(
        {node: driver.faults.allocatable_bytes(node) for node in nodes},
        size_bytes,
        policy=parameters.policy or driver.settings.policy,
        rng=driver.rng,
        numbers=parameters.pools,
        kept_bytes=int(parameters.sizes.is_strict),
    )


def most_bytes(driver: Driver, nodes: Iterable[str], parameters: Parameters) -> int:
    """The most that one pool of these nodes has free for such volumes."""
    return largest_bytes({node: driver.faults.allocatable_bytes(node) for node in nodes}, parameters.pools)


# -- rebuilding; the caller of `require_may_rebuild` or `ensure_on` must hold the volume's lock ------------------------


def may_leave(driver: Driver, node: str) -> bool:
    """True if volumes may leave a node: this driver rebuilds, and the node is out of use or gone."""
    return driver.settings.rebuild and (driver.hooks.may_leave(node) or driver.is_gone(node))


def require_may_rebuild(driver: Driver, record: VolumeRecord, to_node: str) -> None:
    """Raises StatusError with FAILED_PRECONDITION unless the volume is on that node or may be rebuilt there."""
    if record.node == to_node:
        return
    where = f"volume {record.volume_id} lives on {record.node} and cannot be used on {to_node}"
    if not driver.settings.rebuild:
        raise failed_precondition(f"{where}: this driver does not rebuild volumes")
    if not may_leave(driver, record.node):
        raise failed_precondition(f"{where}: {record.node} is not out of use")


async def ensure_on(driver: Driver, record: VolumeRecord, to_node: str) -> VolumeRecord:
    """The volume, moved to that node if necessary. Uses on gone nodes are removed with the old place.

    A crash at any instant leaves the volume whole on the old node or the new one; a repeated call finishes it.
    Raises StatusError: FAILED_PRECONDITION if no pool fits (RESOURCE_EXHAUSTED would mean attach slots, and fail
    the pod: KEP-4876), DATA_LOSS if the contents are missing.
    """
    if record.node == to_node:
        return record
    old = driver.folder.contents_of(record)
    parameters = read_parameters(record.parameters)
    place = choose_pool(driver, [to_node], record.size_bytes, parameters)
    if place is None:
        driver.hooks.on_refused(record.volume_id, to_node)
        raise failed_precondition(
            f"volume {record.volume_id} cannot be rebuilt on {to_node}: no pool has room for "
            f"{in_words(record.size_bytes)}, the most that one has free is "
            f"{in_words(most_bytes(driver, [to_node], parameters))}"
        )
    gone = frozenset(node for node in record.users if driver.is_gone(node))
    moved = msgspec.structs.replace(record.without_users(gone), node=place.node, pool=place.pool)
    with driver.allocations.reserving_bytes(place, record.size_bytes):
        try:
            await driver.move(record, moved)
        except FileNotFoundError as exc:
            if old.exists():
                raise
            lost = f"volume {record.volume_id} has no contents left on {record.node}"
            raise StatusError(Code.DATA_LOSS, lost) from exc
    _log.info("Volume rebuilt", volume=record.volume_id, from_node=record.node, to_node=to_node, pool=place.pool)
    driver.hooks.on_rebuilt(record.volume_id, record.node, to_node)
    return moved


def require_access(record: VolumeRecord, access_type: str) -> None:
    """Raises StatusError with INVALID_ARGUMENT for a block use of a mount volume, or the reverse."""
    if record.access_type != access_type:
        raise invalid_argument(
            f"volume {record.volume_id} is a {record.access_type} volume, not a {access_type} volume"
        )


_LINK = "volume"
_POOL = re.compile(r"pool-[0-9]+")
_SINGLE_WRITER = csi.VolumeCapability.AccessMode.SINGLE_NODE_SINGLE_WRITER


async def attach(driver: Driver, volume_id: str, node: str, wanted: Publication) -> None:
    """Attach a volume to a node. Raises StatusError as ControllerPublishVolume does."""
    async with driver.locks.hold(volume_id):
        record = driver.volume(volume_id)
        driver.require_node(node)
        require_access(record, wanted.capability.access_type)
        known = record.published.get(node)
        if known is not None and known != wanted:
            raise already_exists(f"volume {volume_id} is published on {node} already, otherwise than asked")
        async with _using_on(driver, record, node) as record:
            await driver.save(msgspec.structs.replace(record, published={**record.published, node: wanted}))


async def detach(driver: Driver, volume_id: str, node: str) -> None:
    """Detach a volume from a node, or from all. Its stagings are forgotten, too, as after a forced detach."""
    async with driver.locks.hold(volume_id):
        record = driver.allocations.volumes.get(volume_id)
        if record is not None:
            await driver.save(record.without_users(frozenset({node}) if node else record.users))


@asynccontextmanager
async def _using_on(driver: Driver, record: VolumeRecord, node: str) -> AsyncIterator[VolumeRecord]:
    """The volume, moved to that node; an attach slot is reserved while the block runs.

    Raises StatusError if the volume is in use elsewhere, may not or cannot be rebuilt here (FAILED_PRECONDITION),
    or the node has no slot (RESOURCE_EXHAUSTED, only for this: kubelets read it as the attach limit).
    """
    others = driver.users_of(record, besides=node)
    if others:
        raise failed_precondition(f"volume {record.volume_id} is published on {', '.join(others)} already")
    require_may_rebuild(driver, record, node)
    driver.require_slot(node, record.volume_id)
    with driver.allocations.reserving_slot(node, record.volume_id):
        yield await ensure_on(driver, record, node)


async def stage(driver: Driver, node: str, volume_id: str, path: str, capability: Capability) -> None:
    """Stage a volume at a path. Raises StatusError as NodeStageVolume does."""
    wanted = Staging(path, capability)
    async with driver.locks.hold(volume_id):
        record = driver.volume(volume_id)
        require_access(record, capability.access_type)
        known = record.staged.get(node)
        if known is not None and known != wanted:
            raise already_exists(f"volume {volume_id} is staged at {known.path} already, or with another capability")
        async with _using_on(driver, record, node) as record:
            link = partial(_link, Path(path) / _LINK, driver.folder.contents_of(record))
            await driver.save(msgspec.structs.replace(record, staged={**record.staged, node: wanted}), first=link)


async def unstage(driver: Driver, node: str, volume_id: str, path: str) -> None:
    """Unstage the volume from that path, if it is staged there."""
    async with driver.locks.hold(volume_id):
        record = driver.allocations.volumes.get(volume_id)
        known = record.staged.get(node) if record is not None else None
        is_staged = known is not None and known.path == path
        await asyncio.to_thread(_unlink, Path(path) / _LINK, volume_id, is_expected=is_staged)
        if record is not None and is_staged:
            left = {other: staging for other, staging in record.staged.items() if other != node}
            await driver.save(msgspec.structs.replace(record, staged=left))


async def publish(driver: Driver, volume_id: str, staging_path: str, wanted: Target) -> None:
    """Link a staged volume to a pod's path. Raises StatusError as NodePublishVolume does."""
    async with driver.locks.hold(volume_id):
        record = driver.volume(volume_id)
        require_access(record, wanted.capability.access_type)
        staged = record.staged.get(wanted.node)
        if staged is None or staged.path != staging_path:
            raise failed_precondition(f"volume {volume_id} is not staged at {staging_path} on {wanted.node}")
        others = [target for target in record.targets if target != wanted]
        if any((target.node, target.path) == (wanted.node, wanted.path) for target in others):
            raise already_exists(f"volume {volume_id} is published at {wanted.path} already, otherwise than asked")
        if others and wanted.capability.mode == _SINGLE_WRITER:
            raise failed_precondition(
                f"volume {volume_id} is for a single writer, and published at {others[0].path} already"
            )
        link = partial(_link, Path(wanted.path), driver.folder.contents_of(record))
        await driver.save(msgspec.structs.replace(record, targets=(*others, wanted)), first=link)


async def unpublish(driver: Driver, node: str, volume_id: str, path: str) -> None:
    """Unpublish the volume from that path, if it is there."""
    async with driver.locks.hold(volume_id):
        record = driver.allocations.volumes.get(volume_id)
        targets = record.targets if record is not None else ()
        is_there = any((target.node, target.path) == (node, path) for target in targets)
        await asyncio.to_thread(_unlink, Path(path), volume_id, is_expected=is_there)
        if record is not None:
            left = tuple(target for target in record.targets if (target.node, target.path) != (node, path))
            await driver.save(msgspec.structs.replace(record, targets=left))


def require_at(driver: Driver, node: str, volume_id: str, path: str) -> VolumeRecord:
    """The volume, if it is staged or published at that path. Raises StatusError with NOT_FOUND."""
    record = driver.volume(volume_id)
    staged = record.staged.get(node)
    paths = {target.path for target in record.targets if target.node == node}
    if path not in paths and (staged is None or staged.path != path):
        raise not_found(f"volume {volume_id} is not at {path} on {node}")
    return record


def _is_ours(path: Path, volume_id: str) -> bool:
    """True if a link leads to this volume's contents in a pool, now or before a move. The id alone is not enough."""
    if not path.is_symlink():
        return False
    parts = path.readlink().parts
    return len(parts) >= 3 and parts[-1] == volume_id and _POOL.fullmatch(parts[-2]) is not None


def _unlink(path: Path, volume_id: str, *, is_expected: bool) -> None:
    """Remove a link to this volume only. Raises StatusError if a link `is_expected` and something else is there."""
    if _is_ours(path, volume_id):
        path.unlink()
    elif is_expected and os.path.lexists(path) and not _is_empty_folder(path):
        raise _in_the_way(path, f"volume {volume_id} is not removed")


def _link(path: Path, target: Path) -> None:
    """Link `path` to `target`, replacing an empty folder. Raises StatusError for anything else that is there."""
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
        raise _in_the_way(path, f"volume {target.name} is not published") from exc


def _is_empty_folder(path: Path) -> bool:
    return not path.is_symlink() and path.is_dir() and next(path.iterdir(), None) is None


def _in_the_way(path: Path, consequence: str) -> StatusError:
    if path.is_symlink():
        found = f"a symbolic link to {path.readlink()}"
    else:
        found = "a folder with contents" if path.is_dir() else "a file"
    return failed_precondition(
        f"{path} is {found}, which this driver did not put there: it stays, and {consequence}; move it away, and ask "
        "again"
    )
