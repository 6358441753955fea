"""`Driver`: the reference CSI driver, many nodes in one object.

Invariant, also across `kill -9` at any point: every volume is whole, in one pool of one node, and no pool holds more
than its size.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tonnage import errors, keyed, logs, private_files
from tonnage.clock import Clock
from tonnage.csi.errors import StatusError, failed_precondition, not_found, resource_exhausted
from tonnage.driver import DRIVER_NAME
from tonnage.driver.allocations import Allocations, InjectedFaults
from tonnage.driver.node_pools import Policy
from tonnage.driver.state import folder as state_folder
from tonnage.driver.state.contents import ForeignContents
from tonnage.driver.state.folder import StateFolder, UnknownContents, measured_bytes, unknown_contents
from tonnage.driver.state.records import (
    Intent,
    SnapshotRecord,
    StateFolderError,
    VolumeRecord,
    is_node_id,
    read_records,
)
from tonnage.faults import FaultFile

LOOK_EVERY_S: Final = 30.0
"""Seconds between two looks for contents that appear without a record while the driver runs."""
_SHARE: Final = 20
_NAMED_AT_MOST: Final = 20
"""How many contents one look names in the log; `tonnage status` names all."""

_log = logs.logger(__name__)


def tell_unknown(unknown: list[UnknownContents]) -> None:
    for contents in unknown[:_NAMED_AT_MOST]:
        _log.warning(
            "Contents without a record are kept, and count as used", path=str(contents.path), bytes=contents.size_bytes
        )
    if len(unknown) > _NAMED_AT_MOST:
        _log.warning("More contents without a record are kept", count=len(unknown) - _NAMED_AT_MOST)


def _look(folder: Path, known: tuple[Path, ...]) -> tuple[list[UnknownContents], list[Path]]:
    """Unknown contents, and known ones that are gone. Contents that an intent names are neither."""
    return unknown_contents(folder, in_use=True), [path for path in known if not os.path.lexists(path)]


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
    name: str = DRIVER_NAME
    max_volumes: Mapping[str, int] = field(default_factory=dict)
    """How many volumes a node can take; 0 or no entry: no limit."""
    policy: Policy = "best-fit"
    report_pools: bool = True
    """False imitates a driver from before KEP-5925: it reports a sum and a largest volume, but no pools."""
    one_number: str = ""
    """`sum` or `largest` imitates a driver that reports only that number; empty does not."""
    rebuild: bool = False
    """Whether a volume may be rebuilt on another node when `RebuildHooks` lets it leave its own."""


class Driver:
    """The driver without its sockets: its state, and what the services share.

    Disk work runs in threads. A record is saved before it is added to the allocations, and the caller holds the
    volume's lock. The driver itself knows nothing of Kubernetes: without `RebuildHooks` no volume leaves its node.
    """

    def __init__(
        self,
        settings: CsiDriverSettings,
        state_dir: Path,
        *,
        clock: Clock,
        rng: random.Random,
        faults: FaultFile | None = None,
        hooks: RebuildHooks | None = None,
    ) -> None:
        """Load `state_dir`, and repair what interrupted calls left. Raises TonnageError."""
        for node in settings.pools:
            if not is_node_id(node):
                raise StateFolderError(f'"{node}" cannot be a node id: each node has a folder of its name')
        folder = StateFolder(state_dir)
        try:
            allocations = Allocations(settings.pools)
            records = read_records(folder.path)
            for record in records:
                allocations.put(record)
            removed = folder.recover(records)
            unknown = unknown_contents(folder.path, in_use=False)
            state_folder.require_records(folder, records, unknown)
            folder.prepare()
            for contents in unknown:
                allocations.unknown_bytes[contents.path] = contents.size_bytes
        except BaseException:
            folder.close()
            raise
        if removed:
            _log.info("Remains of interrupted calls removed", count=len(removed))
        tell_unknown(unknown)
        self.settings, self.allocations, self.folder = settings, allocations, folder
        self.faults = InjectedFaults(faults, allocations)
        self.locks = keyed.KeyedLocks()
        self.clock, self.rng = clock, rng
        self.hooks = hooks or RebuildHooks()
        """May be replaced while the driver runs."""
        self._unknown_problem = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.settings.pools)

    def node_of(self, volume_id: str) -> str | None:
        """The node that a volume is on now; None if there is no such volume."""
        record = self.allocations.volumes.get(volume_id)
        return record.node if record else None

    def volumes_on(self, node: str) -> tuple[str, ...]:
        """The ids of the volumes on a node, also on one that this driver no longer has."""
        return tuple(record.volume_id for record in self.allocations.volumes.values() if record.node == node)

    def close(self) -> None:
        self.folder.close()

    # -- contents without a record ------------------------------------------------------------------------------------

    async def watch_unknown(self) -> None:
        """Keep `Allocations.unknown_bytes` up to date until cancelled. Looking takes at most 5 % of the time."""
        wait_s = LOOK_EVERY_S
        while True:
            await self.clock.sleep(wait_s)
            began_at = self.clock.monotonic()
            await self.look_for_unknown()
            wait_s = max(LOOK_EVERY_S, _SHARE * (self.clock.monotonic() - began_at))

    async def look_for_unknown(self) -> None:
        """Count the contents in the pools that no record names. An unreadable folder is logged once per reason."""
        allocations, folder = self.allocations, self.folder
        known = tuple(allocations.unknown_bytes)
        try:
            found, gone = await asyncio.to_thread(_look, folder.path, known)
        except (errors.TonnageError, OSError) as exc:
            if self._unknown_problem != str(exc):
                self._unknown_problem = str(exc)
                _log.warning(
                    "The pools cannot be looked through for contents without a record", error=self._unknown_problem
                )
            return
        self._unknown_problem = ""
        # A volume whose record somebody removed under a running driver is still its own, and counts already.
        ours = {folder.contents_of(volume) for volume in allocations.volumes.values()}
        ours |= {folder.contents_of(snapshot) for snapshot in allocations.snapshots.values()}
        found = [each for each in found if each.path not in ours]
        new = [each for each in found if each.path not in allocations.unknown_bytes]
        for each in found:
            allocations.unknown_bytes[each.path] = each.size_bytes
        for path in gone:
            del allocations.unknown_bytes[path]
            _log.info("Contents without a record are gone, and count no more", path=str(path))
        tell_unknown(new)

    # -- records ------------------------------------------------------------------------------------------------------

    def volume(self, volume_id: str) -> VolumeRecord:
        record = self.allocations.volumes.get(volume_id)
        if record is None:
            raise not_found(f"there is no volume {volume_id}")
        return record

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
            await self._count_unknown(left)

    async def _count_unknown(self, path: Path) -> None:
        self.allocations.unknown_bytes[path] = await asyncio.to_thread(measured_bytes, path)

    @asynccontextmanager
    async def _refusing(self, wanted: VolumeRecord | SnapshotRecord) -> AsyncIterator[None]:
        """Refuse if something foreign is at the place of `wanted`; it counts as used."""
        try:
            yield
        except (ForeignContents, private_files.NotOurs) as exc:
            if isinstance(exc, ForeignContents) and exc.path == self.folder.contents_of(wanted):
                await self._count_unknown(exc.path)
            raise refused(exc) from exc


def refused(exc: errors.TonnageError) -> StatusError:
    remedy = f"; {exc.hint}" if exc.hint else ""
    return failed_precondition(f"{exc.message}{remedy}")
