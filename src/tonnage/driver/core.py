"""`Core`: what the calls of `volumes/` share: the records, how they are saved, and checks that several calls make.

Disk work happens in threads, so that a slow disk does not hold up the calls for other volumes. A record is saved
before it is added to the allocations, and whoever saves holds the volume's lock.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.clock import Clock
from tonnage.csi.errors import Code
from tonnage.driver.errors import StatusError
from tonnage.driver.injected_faults import InjectedFaults
from tonnage.driver.names import DRIVER_NAME
from tonnage.driver.pool_choice import Policy
from tonnage.driver.rebuild_hooks import RebuildHooks
from tonnage.driver.state.allocations import Allocations
from tonnage.driver.state.folder import StateFolder
from tonnage.driver.state.records import SnapshotRecord, VolumeRecord
from tonnage.keyed_locks import KeyedLocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a driver is told when it starts. Sizes are in bytes."""

    pools: Mapping[str, tuple[int, ...]]
    """The pools of each node, by node id; the nodes named here are the nodes there are."""
    name: str = DRIVER_NAME
    max_volumes: Mapping[str, int] = field(default_factory=dict)
    """How many volumes a node can take; 0, or a node not named: as many as you like."""
    policy: Policy = "best-fit"
    report_pools: bool = True
    """Off plays a driver from before KEP-5925: a sum and a largest volume, and no word of pools."""
    rebuild: bool = False
    """Whether a volume may be rebuilt on another node once `RebuildHooks` lets it leave its own."""


@dataclass(slots=True, kw_only=True)
class Core:
    """State, locks and settings of one driver. `hooks` may be exchanged while the driver runs."""

    settings: Settings
    allocations: Allocations
    folder: StateFolder
    locks: KeyedLocks
    faults: InjectedFaults
    clock: Clock
    rng: random.Random
    hooks: RebuildHooks

    def volume(self, volume_id: str) -> VolumeRecord:
        """The record of a volume. Raises StatusError with NOT_FOUND."""
        record = self.allocations.volumes.get(volume_id)
        if record is None:
            raise StatusError(Code.NOT_FOUND, f"there is no volume {volume_id}")
        return record

    def require_node(self, node: str) -> None:
        """Raises StatusError with NOT_FOUND for a node that this driver does not play."""
        if node not in self.settings.pools:
            raise StatusError(Code.NOT_FOUND, f"there is no node {node}")

    def is_gone(self, node: str) -> bool:
        """Whether nobody is left on a node who could say that a volume is no longer used there."""
        return node not in self.settings.pools or self.hooks.is_gone(node)

    def users_of(self, record: VolumeRecord, *, besides: str = "") -> list[str]:
        """The nodes that use a volume and can still let go of it, besides one."""
        return sorted(node for node in record.users if node != besides and not self.is_gone(node))

    def require_slot(self, node: str, volume_id: str) -> None:
        """Raises StatusError with RESOURCE_EXHAUSTED when a node can take no further volume."""
        limit = self.settings.max_volumes.get(node, 0)
        if not self.faults.has_slot(node, volume_id, limit):
            in_use = len(self.allocations.slots_in_use(node))
            raise StatusError(
                Code.RESOURCE_EXHAUSTED,
                f"{node} can take no further volume: {in_use} are attached, and its limit is "
                f"{self.faults.max_volumes(node, limit) or 'exhausted'}",
            )

    async def save(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Write a record to disk, then add it to the allocations. Without a change it costs nothing."""
        known = self.allocations.volumes if isinstance(record, VolumeRecord) else self.allocations.snapshots
        id = record.volume_id if isinstance(record, VolumeRecord) else record.snapshot_id
        if known.get(id) != record:
            await asyncio.to_thread(self.folder.save, record)
            self.allocations.put(record)

    async def forget(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Remove a record from disk, then from the allocations."""
        await asyncio.to_thread(self.folder.forget, record)
        self.allocations.remove(record)
