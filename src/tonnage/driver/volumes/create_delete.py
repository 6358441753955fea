"""Creates, deletes and expands volumes, and creates and deletes snapshots.

An id comes from a name, so a repeated request finds the first one's work. A snapshot is a copy in its volume's pool; it
outlives its volume, and a volume made from it may be on any node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import (
    already_exists,
    failed_precondition,
    invalid_argument,
    not_found,
    out_of_range,
    resource_exhausted,
)
from tonnage.driver.driver import Driver, refused
from tonnage.driver.node_pools import PoolId
from tonnage.driver.state import contents, records
from tonnage.driver.state.records import SnapshotRecord, VolumeRecord
from tonnage.driver.volumes import publish
from tonnage.driver.volumes.parameters import (
    admits,
    groups_within,
    in_words,
    lies_within,
    read_parameters,
    volume_bytes,
)
from tonnage.objects.size_rules import taken_by, volume_size


async def create_volume(
    driver: Driver, wanted: VolumeRecord, request: csi.CreateVolumeRequest, nodes: Sequence[str]
) -> VolumeRecord:
    """The volume of this name, created if there is none. Raises StatusError as CreateVolume does.

    `wanted` has no place and size yet. `nodes` are the nodes of the service that got the request.
    """
    limits = request.capacity_range
    async with driver.locks.hold(wanted.id, *([wanted.source.id] if wanted.source else [])):
        known = driver.allocations.volumes.get(wanted.id)
        if known is not None:
            return await _on_wanted_node(driver, known, wanted, request, nodes)
        source = _source(driver, wanted)
        at_least_bytes = source.capacity_bytes if source else 0
        rules = read_parameters(wanted.parameters).sizes
        asked_bytes = volume_size(rules, limits.required_bytes, is_block=wanted.access_type == "block")
        size = volume_bytes(asked_bytes, limits.limit_bytes, at_least_bytes=at_least_bytes)
        taken_bytes = taken_by(rules, size)
        place = _place(driver, wanted, taken_bytes, request.accessibility_requirements, nodes)
        made = msgspec.structs.replace(wanted, order=driver.allocations.next_order(), node=place.node, pool=place.pool)
        record = msgspec.structs.replace(made, capacity_bytes=size, taken_bytes=taken_bytes)
        with driver.allocations.reserving_bytes(place, taken_bytes):
            await driver.add(record, driver.folder.contents_of(source) if source else None)
        return record


async def _on_wanted_node(
    driver: Driver, known: VolumeRecord, wanted: VolumeRecord, request: csi.CreateVolumeRequest, nodes: Sequence[str]
) -> VolumeRecord:
    """The volume that exists for this name. Raises StatusError with ALREADY_EXISTS if it differs.

    A volume that only lies elsewhere is moved to where it is wanted: its provisioner died before it got the answer,
    and nobody knows of it. A volume that is used, or may not leave its node, is refused.
    """
    differs, requirement = _difference(known, wanted, request.capacity_range), request.accessibility_requirements
    is_elsewhere = known.node not in nodes or not admits(requirement, known.node)
    if differs is None and is_elsewhere and not driver.users_of(known) and publish.may_leave(driver, known.node):
        return await publish.ensure_on(driver, known, _place(driver, wanted, known.size_bytes, requirement, nodes).node)
    if differs is None and is_elsewhere:
        differs = f"it lives on {known.node}"
    if differs is not None:
        told = f'there is a volume with the name "{known.name}" already, and {differs}'
        raise already_exists(told)
    return known


async def delete_volume(driver: Driver, volume_id: str, nodes: Sequence[str]) -> None:
    """Delete a volume if it exists. Raises StatusError with FAILED_PRECONDITION while it is in use."""
    async with driver.locks.hold(volume_id):
        record = driver.allocations.volumes.get(volume_id)
        if record is None:
            return
        if record.node in driver.settings.pools and record.node not in nodes:
            raise failed_precondition(f"volume {volume_id} lives on {record.node}: ask the driver there")
        users = driver.users_of(record)
        if users:
            raise failed_precondition(f"volume {volume_id} is in use on {', '.join(users)}")
        await driver.remove(record)


async def expand_volume(driver: Driver, volume_id: str, required_bytes: int, limit_bytes: int) -> VolumeRecord:
    """Expand a volume. Raises StatusError: OUT_OF_RANGE for never, RESOURCE_EXHAUSTED for not now."""
    async with driver.locks.hold(volume_id):
        record = driver.volume(volume_id)
        rules = read_parameters(record.parameters).sizes
        asked_bytes = volume_size(rules, required_bytes, is_block=record.access_type == "block")
        size = volume_bytes(asked_bytes, limit_bytes)
        if size <= record.capacity_bytes:
            if not lies_within(record.capacity_bytes, required_bytes, limit_bytes):
                raise out_of_range(
                    f"volume {volume_id} has {in_words(record.capacity_bytes)} and cannot be made smaller"
                )
            return record
        taken_bytes = taken_by(rules, size)
        more = max(taken_bytes - record.size_bytes, 0)
        _require_more(driver, record, taken_bytes, more)
        with driver.allocations.reserving_bytes(record.pool_id, more):
            path = driver.folder.contents_of(record)
            try:
                await asyncio.to_thread(contents.grow, path, record.access_type, size)
            except contents.ForeignContents as exc:
                raise refused(exc) from exc
            grown = msgspec.structs.replace(record, capacity_bytes=size, taken_bytes=taken_bytes)
            await driver.save(grown)
        return grown


async def modify_volume(driver: Driver, volume_id: str, parameters: dict[str, str]) -> VolumeRecord:
    """Change a volume's mutable parameters; others stay. Raises StatusError."""
    async with driver.locks.hold(volume_id):
        record = driver.volume(volume_id)
        wanted = {**record.mutable_parameters, **parameters}
        if wanted != record.mutable_parameters:
            record = msgspec.structs.replace(record, mutable_parameters=wanted)
            await driver.save(record)
        return record


def _place(
    driver: Driver, wanted: VolumeRecord, size_bytes: int, requirement: csi.TopologyRequirement, nodes: Sequence[str]
) -> PoolId:
    """A pool that fits, by preference, then by policy. Raises StatusError with RESOURCE_EXHAUSTED."""
    parameters = read_parameters(wanted.parameters)
    groups = groups_within(requirement, nodes)
    if not groups:
        raise resource_exhausted("no node of this driver lies within the accessibility requirements")
    for group in groups:
        if (place := publish.choose_pool(driver, group, size_bytes, parameters)) is not None:
            return place
    nodes = [node for group in groups for node in group]
    most = publish.most_bytes(driver, nodes, parameters)
    of = ", ".join(nodes) if len(nodes) <= 3 else f"{len(nodes)} nodes"
    raise resource_exhausted(
        f"no pool of {of} has room for {in_words(size_bytes)}: the most that one has free is {in_words(most)}"
    )


def _require_more(driver: Driver, record: VolumeRecord, size_bytes: int, more_bytes: int) -> None:
    sizes = driver.settings.pools.get(record.node, ())
    if record.pool < len(sizes) and size_bytes > sizes[record.pool]:
        raise out_of_range(
            f"volume {record.volume_id} cannot grow to {in_words(size_bytes)}: "
            f"its pool has {in_words(sizes[record.pool])} in all"
        )
    free = driver.free_beside(record)
    if free < more_bytes:
        raise resource_exhausted(
            f"volume {record.volume_id} needs {in_words(more_bytes)} more, and its pool has {in_words(free)} free"
        )


def _source(driver: Driver, wanted: VolumeRecord) -> VolumeRecord | SnapshotRecord | None:
    """The source of a new volume. Raises StatusError: NOT_FOUND, or INVALID_ARGUMENT for another access type."""
    source, allocations = wanted.source, driver.allocations
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


def _difference(known: VolumeRecord, wanted: VolumeRecord, limits: csi.CapacityRange) -> str | None:
    """How the existing volume of this name differs from the request, apart from its place; None if it does not."""
    if not lies_within(known.capacity_bytes, limits.required_bytes, limits.limit_bytes):
        return f"it has {in_words(known.capacity_bytes)}"
    if known.access_type != wanted.access_type:
        return f"it is a {known.access_type} volume"
    if known.parameters != wanted.parameters:
        return "it was made with other parameters"
    return "it was made from another source" if known.source != wanted.source else None


# -- snapshots --------------------------------------------------------------------------------------------------------


async def create_snapshot(driver: Driver, name: str, volume_id: str) -> SnapshotRecord:
    """The snapshot of this name, created if there is none. Raises StatusError as CreateSnapshot does."""
    snapshot_id = records.snapshot_id_of(name)
    async with driver.locks.hold(snapshot_id, volume_id):
        known = driver.allocations.snapshots.get(snapshot_id)
        if known is not None and known.source_volume_id != volume_id:
            raise already_exists(
                f'there is a snapshot with the name "{name}" already, and it is of volume {known.source_volume_id}'
            )
        if known is not None:
            return known
        volume = driver.volume(volume_id)
        free = driver.free_beside(volume)
        if free < volume.capacity_bytes:
            raise resource_exhausted(
                f"a snapshot of volume {volume_id} needs {in_words(volume.capacity_bytes)}, and its pool has "
                f"{in_words(free)} free"
            )
        record = SnapshotRecord(
            snapshot_id=snapshot_id,
            name=name,
            order=driver.allocations.next_order(),
            source_volume_id=volume_id,
            node=volume.node,
            pool=volume.pool,
            size_bytes=volume.capacity_bytes,
            access_type=volume.access_type,
            created_at_ns=int(driver.clock.now().timestamp() * 1_000_000) * 1000,
        )
        with driver.allocations.reserving_bytes(record.pool_id, record.size_bytes):
            await driver.add(record, driver.folder.contents_of(volume))
        return record


async def delete_snapshot(driver: Driver, snapshot_id: str) -> None:
    async with driver.locks.hold(snapshot_id):
        record = driver.allocations.snapshots.get(snapshot_id)
        if record is not None:
            await driver.remove(record)
