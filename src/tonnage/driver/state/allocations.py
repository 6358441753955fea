"""What is allocated: every record in memory, the bytes of each pool and the attach slots of each node. No I/O.

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
    """What there is. `volumes` and `snapshots` are by id, and only `put` and `remove` change them."""

    def __init__(self, pools: Mapping[str, tuple[int, ...]]) -> None:
        self.pools = dict(pools)
        self.volumes: dict[str, VolumeRecord] = {}
        self.snapshots: dict[str, SnapshotRecord] = {}
        self.unknown_bytes: dict[Path, int] = {}
        """What contents take that no record names, by their path; only `put_unknown` and `drop_unknown` change it."""
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
        """Take out what there is of this volume or snapshot; nothing happens if there is none."""
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
        """The record that there is now of the same volume or snapshot."""
        return (self.volumes if isinstance(record, VolumeRecord) else self.snapshots).get(record.id)

    def put_unknown(self, place: PoolId, path: Path, size_bytes: int) -> None:
        """Count contents that no record names: their bytes are taken, whosever they are."""
        self._used_bytes[place] += size_bytes - self.unknown_bytes.get(path, 0)
        self.unknown_bytes[path] = size_bytes

    def drop_unknown(self, place: PoolId, path: Path) -> None:
        self._used_bytes[place] -= self.unknown_bytes.pop(path, 0)

    def next_order(self) -> int:
        """A number for the next record, higher than any before it."""
        self._last_order += 1
        return self._last_order

    def free_bytes(self, node: str) -> tuple[int, ...]:
        """What each pool of a node has free. A pool that was made smaller than what is in it has nothing, not less."""
        return tuple(
            max(size - self._used_bytes[PoolId(node, number)] - self._reserved_bytes[PoolId(node, number)], 0)
            for number, size in enumerate(self.pools.get(node, ()))
        )

    @contextmanager
    def reserving_bytes(self, pool_id: PoolId, number_bytes: int) -> Iterator[None]:
        """Nobody else gets these bytes while the block runs; it puts what it has made of them before it ends."""
        self._reserved_bytes[pool_id] += number_bytes
        try:
            yield
        finally:
            self._reserved_bytes[pool_id] -= number_bytes

    def slots_in_use(self, node: str) -> frozenset[str]:
        """The volumes that take an attach slot of a node, those of calls under way included."""
        return frozenset(self._users[node] | self._reserved_slots[node])

    @contextmanager
    def reserving_slot(self, node: str, volume_id: str) -> Iterator[None]:
        self._reserved_slots[node].add(volume_id)
        try:
            yield
        finally:
            self._reserved_slots[node].discard(volume_id)
