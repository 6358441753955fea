"""Contents that no record names and that appear while the driver runs: counted as used, and told once.

Somebody copies a backup into a pool, or uses its folder for something else: the room is gone, and a volume promised to
it would not fit. What lies in the pools is looked at every half minute, in a thread. To measure contents is to walk
through them, so that after a long look the next one is put off: looking takes a twentieth of the time at most.
Contents that are gone count no more.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from tonnage import logs
from tonnage.driver.core import Core
from tonnage.driver.state.unknown import UnknownContents, place_of, unknown_contents
from tonnage.errors import TonnageError

LOOK_EVERY_S: Final = 30.0
_SHARE: Final = 20
_NAMED_AT_MOST: Final = 20
"""Contents that one look names in the log; `tonnage status` names them all."""

_log = logs.logger(__name__)


class UnknownWatch:
    """Keeps `Allocations.unknown_bytes` of a driver true while it runs."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._problem = ""

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        clock, wait_s = self._core.clock, LOOK_EVERY_S
        while True:
            await clock.sleep(wait_s)
            began_at = clock.monotonic()
            await self.look()
            wait_s = max(LOOK_EVERY_S, _SHARE * (clock.monotonic() - began_at))

    async def look(self) -> None:
        """Count what lies in the pools now and no record names. A folder that cannot be read is told, once a reason."""
        allocations, folder = self._core.allocations, self._core.folder.path
        known = tuple(allocations.unknown_bytes)
        try:
            found, gone = await asyncio.to_thread(_look, folder, known)
        except (TonnageError, OSError) as exc:
            if self._problem != str(exc):
                self._problem = str(exc)
                _log.warning("The pools cannot be looked through for contents without a record", error=self._problem)
            return
        self._problem = ""
        # A record that somebody took from under a running driver is still its own: the volume counts already.
        ours = {self._core.folder.contents_of(each) for each in allocations.volumes.values()}
        ours |= {self._core.folder.contents_of(each) for each in allocations.snapshots.values()}
        found = [each for each in found if each.path not in ours]
        new = [each for each in found if each.path not in allocations.unknown_bytes]
        for each in found:
            allocations.put_unknown(each.place, each.path, each.size_bytes)
        for path in gone:
            allocations.drop_unknown(place_of(path), path)
            _log.info("Contents without a record are gone, and count no more", path=str(path))
        tell_unknown(new)


def tell_unknown(unknown: list[UnknownContents]) -> None:
    """Name contents in the log, a few of many."""
    for found in unknown[:_NAMED_AT_MOST]:
        _log.warning(
            "Contents without a record are kept, and count as used", path=str(found.path), bytes=found.size_bytes
        )
    if len(unknown) > _NAMED_AT_MOST:
        _log.warning("More contents without a record are kept", count=len(unknown) - _NAMED_AT_MOST)


def _look(folder: Path, known: tuple[Path, ...]) -> tuple[list[UnknownContents], list[Path]]:
    """What is unknown, and what was and is not there any more. What an intent of a call names is neither."""
    return unknown_contents(folder, in_use=True), [path for path in known if not os.path.lexists(path)]
