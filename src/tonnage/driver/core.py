"""`Core`: what the calls of `volumes/` share: the records, how they are saved, and common checks.

Disk work runs in threads. A record is saved before it is added to the allocations, and the caller holds the volume's
lock. The driver itself knows nothing of Kubernetes: without `RebuildHooks` no volume leaves its node.

`Allocations` has all records in memory, the bytes of pools and the attach slots of nodes. It does no I/O.

    free of a pool = its size - volumes and snapshots in it - unknown contents - what calls under way have reserved

The file of faults changes what the driver sees and how it answers, only here (`InjectedFaults`):

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

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tonnage import driver, errors, keyed, private_files
from tonnage.clock import Clock
from tonnage.csi.errors import Code
from tonnage.driver.node_pools import Policy, PoolId
from tonnage.driver.state.contents import ForeignContents
from tonnage.driver.state.folder import StateFolder, measured_bytes
from tonnage.driver.state.records import Intent, SnapshotRecord, VolumeRecord
from tonnage.faults import Fault, FaultFile


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
        self._records_like(record)[record.id] = record
        for node in record.users:
            self._users[node].add(record.id)

    def remove(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Remove this volume or snapshot, if it is there."""
        known = self._records_like(record).pop(record.id, None)
        if known is not None:
            self._used_bytes[known.pool_id] -= known.size_bytes
            for node in known.users:
                self._users[node].discard(known.id)

    def known(self, record: VolumeRecord | SnapshotRecord) -> VolumeRecord | SnapshotRecord | None:
        """The current record of the same volume or snapshot."""
        found: VolumeRecord | SnapshotRecord | None = self._records_like(record).get(record.id)
        return found

    def _records_like(self, record: VolumeRecord | SnapshotRecord) -> dict[str, Any]:
        return self.volumes if isinstance(record, VolumeRecord) else self.snapshots

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


class StatusError(errors.TonnageError):
    """A refused call, with the CSI specification's code; the interceptor turns it into the answer."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


invalid_argument = partial(StatusError, Code.INVALID_ARGUMENT)
not_found = partial(StatusError, Code.NOT_FOUND)
already_exists = partial(StatusError, Code.ALREADY_EXISTS)
failed_precondition = partial(StatusError, Code.FAILED_PRECONDITION)
resource_exhausted = partial(StatusError, Code.RESOURCE_EXHAUSTED)
out_of_range = partial(StatusError, Code.OUT_OF_RANGE)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildHooks:
    """Callbacks for rebuilding. They are called from the event loop and must answer at once, from memory."""

    may_leave: Callable[[str], bool] = lambda _node: False
    """True if volumes may leave this node: it is out of use."""
    is_gone: Callable[[str], bool] = lambda _node: False
    """True if nothing on this node can unpublish or unstage a volume: it is gone, or NotReady and out of service. A
    volume published or staged on a cordoned node stays there (its pod may be running); on a gone node it need not."""
    on_rebuilt: Callable[[str, str, str], None] = lambda *_: None
    """Called with (volume_id, from_node, to_node) after the volume's record names its new node. A driver that dies in
    between never calls it, so after a start `Driver.node_of` is the truth."""
    on_refused: Callable[[str, str], None] = lambda *_: None
    """Called with (volume_id, to_node) when a volume was wanted on a node without a large enough pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiDriverSettings:
    """The settings of a driver. Sizes are in bytes."""

    pools: Mapping[str, tuple[int, ...]]
    """Pools by node id; these nodes are all nodes there are."""
    name: str = driver.DRIVER_NAME
    max_volumes: Mapping[str, int] = field(default_factory=dict)
    """How many volumes a node can take; 0 or no entry: no limit."""
    policy: Policy = "best-fit"
    report_pools: bool = True
    """False imitates a driver from before KEP-5925: it reports a sum and a largest volume, but no pools."""
    one_number: str = ""
    """`sum` or `largest` imitates a driver that reports only that number; empty does not."""
    rebuild: bool = False
    """Whether a volume may be rebuilt on another node when `RebuildHooks` lets it leave its own."""


@dataclass(slots=True, kw_only=True)
class Core:
    """State, locks and settings of one driver. `hooks` may be replaced while the driver runs."""

    settings: CsiDriverSettings
    allocations: Allocations
    folder: StateFolder
    locks: keyed.KeyedLocks
    faults: InjectedFaults
    clock: Clock
    rng: random.Random
    hooks: RebuildHooks

    def volume(self, volume_id: str) -> VolumeRecord:
        record = self.allocations.volumes.get(volume_id)
        if record is None:
            raise not_found(f"there is no volume {volume_id}")
        return record

    def require_node(self, node: str) -> None:
        """Raises StatusError with NOT_FOUND for a node that this driver does not have."""
        if node not in self.settings.pools:
            raise not_found(f"there is no node {node}")

    def is_gone(self, node: str) -> bool:
        """True if nothing on a node can report that a volume is no longer used there."""
        return node not in self.settings.pools or self.hooks.is_gone(node)

    def users_of(self, record: VolumeRecord, *, besides: str = "") -> list[str]:
        """The nodes, besides one, that use a volume and can still release it."""
        return sorted(node for node in record.users if node != besides and not self.is_gone(node))

    def require_slot(self, node: str, volume_id: str) -> None:
        """Raises StatusError with RESOURCE_EXHAUSTED if a node can take no further volume."""
        limit = self.settings.max_volumes.get(node, 0)
        if not self.faults.has_slot(node, volume_id, limit):
            in_use = len(self.allocations.slots_in_use(node))
            raise resource_exhausted(
                f"{node} can take no further volume: {in_use} are attached, and its limit is "
                f"{self.faults.max_volumes(node, limit) or 'exhausted'}"
            )

    def free_beside(self, record: VolumeRecord) -> int:
        """Free bytes in a volume's pool; 0 for a pool that is gone."""
        room = self.faults.allocatable_bytes(record.node)
        return room[record.pool] if record.pool < len(room) else 0

    async def save(self, record: VolumeRecord | SnapshotRecord, *, first: Callable[[], None] | None = None) -> None:
        """Write a record to disk, then add it to the allocations. Does nothing without a change.

        `first` is disk work that comes before, with or without a change. If it raises, the record stays as it was.
        """
        if self.allocations.known(record) != record:
            await asyncio.to_thread(self._save, record, first)
            self.allocations.put(record)
        elif first is not None:
            await asyncio.to_thread(first)

    def _save(self, record: VolumeRecord | SnapshotRecord, first: Callable[[], None] | None) -> None:
        if first is not None:
            first()
        self.folder.save(record)

    async def add(self, record: VolumeRecord | SnapshotRecord, source: Path | None = None) -> None:
        """Create contents, empty or copied from `source`, and their record. Raises StatusError, OSError."""
        unknown = next((path for path in self.allocations.unknown_bytes if path.name == record.id), None)
        if unknown is not None:
            raise failed_precondition(
                f"{unknown} has contents that no record names, and they may be data: restore the record, or move them "
                f"away with tonnage csi-driver-quarantine --state-dir {self.folder.path}"
            )
        async with self._refusing(record):
            await asyncio.to_thread(self.folder.add, record, source)
        self.allocations.put(record)

    async def move(self, record: VolumeRecord, moved: VolumeRecord) -> None:
        """Move contents and record to where `moved` has them, then remove the old contents. Raises as `add` does."""
        async with self._refusing(moved):
            intent = await asyncio.to_thread(self.folder.move, record, moved)
        self.allocations.put(moved)
        await self._finish(intent)

    async def remove(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Remove a record and its contents. Raises StatusError for contents that are not the driver's; they stay."""
        try:
            intent = await asyncio.to_thread(self.folder.retire, record)
        except (ForeignContents, private_files.NotOurs) as exc:
            raise refused(exc) from exc
        self.allocations.remove(record)
        await self._finish(intent)

    async def _finish(self, intent: Intent) -> None:
        left = await asyncio.to_thread(self.folder.finish, intent)
        if left is not None:
            await self._count_unknown(intent.pool_id, left)

    async def _count_unknown(self, place: PoolId, path: Path) -> None:
        self.allocations.put_unknown(place, path, await asyncio.to_thread(measured_bytes, path))

    @asynccontextmanager
    async def _refusing(self, wanted: VolumeRecord | SnapshotRecord) -> AsyncIterator[None]:
        """Refuse if something foreign is at the place of `wanted`; it counts as used."""
        try:
            yield
        except (ForeignContents, private_files.NotOurs) as exc:
            if isinstance(exc, ForeignContents) and exc.path == self.folder.contents_of(wanted):
                await self._count_unknown(wanted.pool_id, exc.path)
            raise refused(exc) from exc


def refused(exc: errors.TonnageError) -> StatusError:
    remedy = f"; {exc.hint}" if exc.hint else ""
    return failed_precondition(f"{exc.message}{remedy}")
