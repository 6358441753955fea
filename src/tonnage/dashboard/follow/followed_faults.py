"""The faults of an embedded cluster as rows, whoever sets them: its file is looked at, which costs one stat.

async with following_faults(cluster, data_dir):        # rows of `faults` follow the file while the block runs
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tonnage.background import in_background, repeatedly
from tonnage.dashboard.follow.shown_cluster import ShownCluster
from tonnage.dashboard.wire.rows import FaultRow, NoticeRow
from tonnage.errors import TonnageError
from tonnage.faults import FAULT_FILE_NAME, FaultFile

LOOK_S: Final = 0.5
_NOTICE: Final = "faults"


class FollowedFaults:
    """Rows of what is made to go wrong, by `kind@node`."""

    def __init__(self, cluster: ShownCluster, data_dir: Path) -> None:
        self._cluster = cluster
        self._collections = cluster.collections
        self._file = FaultFile(data_dir / FAULT_FILE_NAME)

    def look(self) -> None:
        """Make rows of the file as it is now; one that cannot be read is told as a notice."""
        try:
            held = self._file.all()
            self._collections.remove("notices", _NOTICE)
        except TonnageError as exc:
            self._collections.put("notices", _NOTICE, NoticeRow(text=exc.message, hint=exc.hint or ""))
            return
        rows = {f"{each.kind}@{each.node}": FaultRow(kind=each.kind, node=each.node, value=each.value) for each in held}
        for key in self._collections.rows("faults").keys() - rows.keys():
            self._collections.remove("faults", key)
        for key, row in rows.items():
            self._collections.put("faults", key, row)
        self._cluster.suffer(held)  # figures of a driver that tells old ones are not to be believed


@asynccontextmanager
async def following_faults(cluster: ShownCluster, data_dir: Path | None) -> AsyncIterator[None]:
    """Follow the faults of this folder while the block runs; without one there are none."""
    if data_dir is None:
        yield
        return
    followed = FollowedFaults(cluster, data_dir)
    followed.look()
    async with in_background(repeatedly(cluster.clock, LOOK_S, followed.look), "follow the faults"):
        yield
