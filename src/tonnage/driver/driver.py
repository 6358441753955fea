"""`Driver`: the reference CSI driver, many nodes in one object.

Invariant, also across `kill -9` at any point: every volume is whole, in one pool of one node, and no pool holds more
than its size.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Final

from tonnage import errors, keyed, logs
from tonnage.clock import Clock
from tonnage.driver.core import Allocations, Core, CsiDriverSettings, InjectedFaults, RebuildHooks
from tonnage.driver.state.folder import StateFolder, UnknownContents, place_of, require_records, unknown_contents
from tonnage.driver.state.records import StateFolderError, is_node_id, read_records
from tonnage.faults import FaultFile

__all__ = ["CsiDriverSettings", "Driver", "RebuildHooks"]

LOOK_EVERY_S: Final = 30.0
"""Seconds between two looks for contents that appear without a record while the driver runs."""
_SHARE: Final = 20
_NAMED_AT_MOST: Final = 20
"""How many contents one look names in the log; `tonnage status` names all."""

_log = logs.logger(__name__)


class UnknownWatch:
    """Keeps a driver's `Allocations.unknown_bytes` up to date. Looking takes at most 5 % of the time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._problem = ""

    async def run(self) -> None:
        clock, wait_s = self._core.clock, LOOK_EVERY_S
        while True:
            await clock.sleep(wait_s)
            began_at = clock.monotonic()
            await self.look()
            wait_s = max(LOOK_EVERY_S, _SHARE * (clock.monotonic() - began_at))

    async def look(self) -> None:
        """Count the contents in the pools that no record names. An unreadable folder is logged once per reason."""
        allocations, folder = self._core.allocations, self._core.folder.path
        known = tuple(allocations.unknown_bytes)
        try:
            found, gone = await asyncio.to_thread(_look, folder, known)
        except (errors.TonnageError, OSError) as exc:
            if self._problem != str(exc):
                self._problem = str(exc)
                _log.warning("The pools cannot be looked through for contents without a record", error=self._problem)
            return
        self._problem = ""
        # A volume whose record somebody removed under a running driver is still its own, and counts already.
        ours = {self._core.folder.contents_of(volume) for volume in allocations.volumes.values()}
        ours |= {self._core.folder.contents_of(snapshot) for snapshot in allocations.snapshots.values()}
        found = [each for each in found if each.path not in ours]
        new = [each for each in found if each.path not in allocations.unknown_bytes]
        for each in found:
            allocations.put_unknown(each.place, each.path, each.size_bytes)
        for path in gone:
            allocations.drop_unknown(place_of(path), path)
            _log.info("Contents without a record are gone, and count no more", path=str(path))
        tell_unknown(new)


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


class Driver:
    """The driver without its sockets: its state, for the functions of `volumes/`."""

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
            require_records(folder, records, unknown)
            folder.prepare()
            for contents in unknown:
                allocations.put_unknown(contents.place, contents.path, contents.size_bytes)
        except BaseException:
            folder.close()
            raise
        if removed:
            _log.info("Remains of interrupted calls removed", count=len(removed))
        tell_unknown(unknown)
        self.core = Core(
            settings=settings,
            allocations=allocations,
            folder=folder,
            locks=keyed.KeyedLocks(),
            faults=InjectedFaults(faults, allocations),
            clock=clock,
            rng=rng,
            hooks=hooks or RebuildHooks(),
        )
        self.unknown_watch = UnknownWatch(self.core)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.core.settings.pools)

    def node_of(self, volume_id: str) -> str | None:
        """The node that a volume is on now; None if there is no such volume."""
        record = self.core.allocations.volumes.get(volume_id)
        return record.node if record else None

    def volumes_on(self, node: str) -> tuple[str, ...]:
        """The ids of the volumes on a node, also on one that this driver no longer has."""
        return tuple(record.volume_id for record in self.core.allocations.volumes.values() if record.node == node)

    def close(self) -> None:
        self.core.folder.close()
