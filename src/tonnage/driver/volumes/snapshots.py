"""Snapshots: copies of a volume at one instant, beside it in its pool, each with room of its own.

A snapshot outlives its volume and stays where it was made; a volume made from it may live on any node.
"""

from __future__ import annotations

from tonnage.csi.errors import Code
from tonnage.driver.core import Core
from tonnage.driver.errors import StatusError
from tonnage.driver.pool_choice import choose, largest_bytes
from tonnage.driver.state.records import SnapshotRecord, snapshot_id_of
from tonnage.driver.volumes.parameters import in_words


class Snapshots:
    """The calls that change what snapshots there are."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(self, name: str, volume_id: str) -> SnapshotRecord:
        """The snapshot of this name, made if there is none. Raises StatusError as CreateSnapshot does."""
        core, snapshot_id = self._core, snapshot_id_of(name)
        async with core.locks.hold(snapshot_id, volume_id):
            known = core.allocations.snapshots.get(snapshot_id)
            if known is not None and known.source_volume_id != volume_id:
                raise StatusError(
                    Code.ALREADY_EXISTS,
                    f'there is a snapshot with the name "{name}" already, and it is of volume {known.source_volume_id}',
                )
            if known is not None:
                return known
            volume = core.volume(volume_id)
            room = {volume.node: core.faults.allocatable_bytes(volume.node)}
            pool = frozenset({volume.pool})
            place = choose(room, volume.capacity_bytes, policy="first-fit", rng=core.rng, numbers=pool)
            if place is None:
                raise StatusError(
                    Code.RESOURCE_EXHAUSTED,
                    f"a snapshot of volume {volume_id} needs {in_words(volume.capacity_bytes)}, and its pool has "
                    f"{in_words(largest_bytes(room, pool))} free",
                )
            record = SnapshotRecord(
                snapshot_id=snapshot_id,
                name=name,
                order=core.allocations.next_order(),
                source_volume_id=volume_id,
                node=place.node,
                pool=place.pool,
                size_bytes=volume.capacity_bytes,
                access_type=volume.access_type,
                created_at_ns=int(core.clock.now().timestamp() * 1_000_000) * 1000,
            )
            with core.allocations.reserving_bytes(place, record.size_bytes):
                await core.add(record, core.folder.contents_of(volume))
            return record

    async def delete(self, snapshot_id: str) -> None:
        """See to it that there is no such snapshot."""
        core = self._core
        async with core.locks.hold(snapshot_id):
            record = core.allocations.snapshots.get(snapshot_id)
            if record is not None:
                await core.remove(record)
