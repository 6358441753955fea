"""What is allocated in pools and on nodes, by the records in memory, and what faults on request make of it. No I/O.

    free of a pool = its size - volumes and snapshots in it - unknown contents - what calls under way have reserved

The file of faults changes what the driver sees and how it answers (`InjectedFaults`):

| fault | what changes |
| --- | --- |
| out-of-space | `allocatable_bytes`: no pool of the node has free bytes. GetCapacity reports as before. |
| stale-figures | `reported_bytes`: what was free when the fault, or this process, began. |
| out-of-slots | `has_slot`: no further volume; volumes that have a slot keep it. |
| slots-taken | `max_volumes` and `has_slot`: others have taken this many of the node's slots. |
| slow, dead | `delay_or_refuse`: before the call, for its nodes. |

CSI reads a limit of 0 as "no limit". So a node whose slots are all taken by others says 1 and refuses even that one;
a node without a limit has none to take from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tonnage.clock import Clock
from tonnage.csi.errors import Code, StatusError
from tonnage.driver.node_pools import PoolId
from tonnage.driver.state.folder import place_of
from tonnage.driver.state.records import SnapshotRecord, VolumeRecord
from tonnage.faults import Fault, FaultFile


class Allocations:
    """All records. `volumes` and `snapshots` are by id."""

    def __init__(self, pools: Mapping[str, tuple[int, ...]]) -> None:
        self.pools = dict(pools)
        self.volumes: dict[str, VolumeRecord] = {}
        self.snapshots: dict[str, SnapshotRecord] = {}
        self.unknown_bytes: dict[Path, int] = {}
        """Bytes of contents that no record names, by path: they are used, whoever owns them."""
        self._reserved_bytes: Counter[PoolId] = Counter()
        self._reserved_slots: defaultdict[str, set[str]] = defaultdict(set)
        self._last_order = 0

    def put(self, record: VolumeRecord | SnapshotRecord) -> None:
        self._last_order = max(self._last_order, record.order)
        self._records_like(record)[record.id] = record

    def remove(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Remove this volume or snapshot, if it is there."""
        self._records_like(record).pop(record.id, None)

    def known(self, record: VolumeRecord | SnapshotRecord) -> VolumeRecord | SnapshotRecord | None:
        """The current record of the same volume or snapshot."""
        found: VolumeRecord | SnapshotRecord | None = self._records_like(record).get(record.id)
        return found

    def _records_like(self, record: VolumeRecord | SnapshotRecord) -> dict[str, Any]:
        return self.volumes if isinstance(record, VolumeRecord) else self.snapshots

    def next_order(self) -> int:
        self._last_order += 1
        return self._last_order

    def free_bytes(self, node: str) -> tuple[int, ...]:
        """Free bytes of every pool of a node; 0 for a pool that is smaller than its contents."""
        used: Counter[int] = Counter()
        records: list[VolumeRecord | SnapshotRecord] = [*self.volumes.values(), *self.snapshots.values()]
        for record in records:
            if record.node == node:
                used[record.pool] += record.size_bytes
        unknown = ((place_of(path), size) for path, size in self.unknown_bytes.items())
        for place, size in (*unknown, *self._reserved_bytes.items()):
            if place.node == node:
                used[place.pool] += size
        return tuple(max(size - used[number], 0) for number, size in enumerate(self.pools.get(node, ())))

    @contextmanager
    def reserving_bytes(self, pool_id: PoolId, number_bytes: int) -> Iterator[None]:
        """Reserve these bytes while the block runs; the block must `put` its record before it ends."""
        self._reserved_bytes[pool_id] += number_bytes
        try:
            yield
        finally:
            self._reserved_bytes[pool_id] -= number_bytes

    def slots_in_use(self, node: str) -> frozenset[str]:
        """The volumes that take an attach slot of a node, including calls under way."""
        attached = (record.id for record in self.volumes.values() if node in record.users)
        return frozenset((*attached, *self._reserved_slots[node]))

    @contextmanager
    def reserving_slot(self, node: str, volume_id: str) -> Iterator[None]:
        self._reserved_slots[node].add(volume_id)
        try:
            yield
        finally:
            self._reserved_slots[node].discard(volume_id)


class InjectedFaults:
    """The driver's figures and limits under the current faults. Without a file they are the true ones."""

    def __init__(self, file: FaultFile | None, allocations: Allocations) -> None:
        self._file = file
        self._allocations = allocations
        self._stale_bytes: dict[str, tuple[int, ...]] = {}

    def refresh(self) -> None:
        """Remember the figures of nodes whose figures have begun to be stale.

        Every call begins with this: only calls change what is free, so the first call after the fault still sees what
        was free when it began.
        """
        stale = [fault.node for fault in self._file.all() if fault.kind == "stale-figures"] if self._file else []
        nodes = set(self._allocations.pools) if "" in stale else set(stale)
        self._stale_bytes = {
            node: self._stale_bytes.get(node) or self._allocations.free_bytes(node)
            for node in nodes & set(self._allocations.pools)
        }

    async def delay_or_refuse(self, nodes: Iterable[str], clock: Clock) -> None:
        """Delay a call about these nodes, or about the whole driver. Raises StatusError (UNAVAILABLE) while dead."""
        concerned = tuple(nodes) or ("",)
        if any(self._active("dead", node) for node in concerned):
            raise StatusError(Code.UNAVAILABLE, 'the driver plays dead: the fault "dead" is set')
        slow = [fault.value for node in concerned if (fault := self._active("slow", node)) is not None]
        if slow:
            await clock.sleep(max(slow))

    def allocatable_bytes(self, node: str) -> tuple[int, ...]:
        """Bytes that every pool of a node has for a new volume."""
        free = self._allocations.free_bytes(node)
        return (0,) * len(free) if self._active("out-of-space", node) else free

    def reported_bytes(self, node: str) -> tuple[int, ...]:
        """Bytes that every pool of a node is reported to have free."""
        return self._stale_bytes.get(node) or self._allocations.free_bytes(node)

    def max_volumes(self, node: str, limit: int) -> int:
        """How many volumes a node is reported to take, given its true limit; 0 is no limit."""
        return max(limit - self._slots_taken(node), 1) if limit else 0

    def has_slot(self, node: str, volume_id: str, limit: int) -> bool:
        """True if a volume may be attached to a node, or is attached already."""
        in_use = self._allocations.slots_in_use(node)
        if volume_id in in_use:
            return True
        if self._active("out-of-slots", node):
            return False
        return not limit or len(in_use) + self._slots_taken(node) < limit

    def _slots_taken(self, node: str) -> int:
        fault = self._active("slots-taken", node)
        return int(fault.value) if fault else 0

    def _active(self, kind: str, node: str) -> Fault | None:
        return self._file.active(kind, node) if self._file else None
