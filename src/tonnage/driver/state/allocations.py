"""What is allocated: all records in memory, the bytes of pools and the attach slots of nodes. No I/O.

free of a pool = its size - volumes and snapshots in it - unknown contents - what calls under way have reserved
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tonnage.driver.node_pools import PoolId
from tonnage.driver.state.records import SnapshotRecord, VolumeRecord


class Allocations:
    """All records. `volumes` and `snapshots` are by id; only `put` and `remove` change them."""

    def __init__(self, pools: Mapping[str, tuple[int, ...]]) -> None:
        self.pools = dict(pools)
        self.volumes: dict[str, VolumeRecord] = {}
        self.snapshots: dict[str, SnapshotRecord] = {}
        self.unknown_bytes: dict[Path, int] = {}
        """Bytes of contents that no record names, by path; only `put_unknown` and `drop_unknown` change it."""
        self._used_bytes: Counter[PoolId] = Counter()
        self._reserved_bytes: Counter[PoolId] = Counter()
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        self._reserved_slots: defaultdict[str, set[str]] = defaultdict(set)
        self._last_order = 0

    def put(self, record: VolumeRecord | SnapshotRecord) -> None:
        self.remove(record)
        self._last_order = max(self._last_order, record.order)
        self._used_bytes[record.pool_id] += record.size_bytes
        if isinstance(record, SnapshotRecord):
            self.snapshots[record.id] = record
            return
        self.volumes[record.id] = record
        for node in record.users:
            self._users[node].add(record.id)

    def remove(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Remove this volume or snapshot, if it is there."""
        known = self.known(record)
        if known is None:
            return
        self._used_bytes[known.pool_id] -= known.size_bytes
        if isinstance(known, SnapshotRecord):
            del self.snapshots[known.id]
            return
        del self.volumes[known.id]
        for node in known.users:
            self._users[node].discard(known.id)

    def known(self, record: VolumeRecord | SnapshotRecord) -> VolumeRecord | SnapshotRecord | None:
        """The current record of the same volume or snapshot."""
        return (self.volumes if isinstance(record, VolumeRecord) else self.snapshots).get(record.id)

    def put_unknown(self, place: PoolId, path: Path, size_bytes: int) -> None:
        """Count contents that no record names: their bytes are used, whoever owns them."""
        self._used_bytes[place] += size_bytes - self.unknown_bytes.get(path, 0)
        self.unknown_bytes[path] = size_bytes

    def drop_unknown(self, place: PoolId, path: Path) -> None:
        self._used_bytes[place] -= self.unknown_bytes.pop(path, 0)

    def next_order(self) -> int:
        self._last_order += 1
        return self._last_order

    def free_bytes(self, node: str) -> tuple[int, ...]:
        """Free bytes of every pool of a node; 0 for a pool that is smaller than its contents."""
        return tuple(
            max(size - self._used_bytes[PoolId(node, number)] - self._reserved_bytes[PoolId(node, number)], 0)
            for number, size in enumerate(self.pools.get(node, ()))
        )

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
        return frozenset(self._users[node] | self._reserved_slots[node])

    @contextmanager
    def reserving_slot(self, node: str, volume_id: str) -> Iterator[None]:
        self._reserved_slots[node].add(volume_id)
        try:
            yield
        finally:
            self._reserved_slots[node].discard(volume_id)
