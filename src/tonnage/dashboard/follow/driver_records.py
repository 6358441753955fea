"""The faults of an embedded cluster, and the contents of its pools, read from the driver's records.

    async with following_folder(cluster, data_dir):     # rows show faults and pools while the block runs

Without changes a look costs a few stats: a folder's mtime shows that a record was added, changed or removed. Contents
without a record are searched rarely, because that lists every pool. Nothing is written or locked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from tonnage import logs, private_files
from tonnage.clock import in_background
from tonnage.dashboard.model.known_objects import Content, DriverContents
from tonnage.dashboard.model.shown_cluster import ShownCluster, look_at_faults
from tonnage.dashboard.wire import NoticeRow
from tonnage.driver import DRIVER_NAME
from tonnage.driver.node_pools import PoolId, parse_node_pools, pools_by_node
from tonnage.driver.state.folder import unknown_contents
from tonnage.driver.state.records import FOLDER_NAME as INTENTS
from tonnage.driver.state.records import SNAPSHOTS, VOLUMES, Intents, SnapshotRecord, VolumeRecord
from tonnage.errors import TonnageError
from tonnage.faults import FAULT_FILE_NAME, FaultFile
from tonnage.plane.settings import STATE_DIR, PlaneSettings

LOOK_S: Final = 0.5
UNKNOWN_EVERY: Final = 20
"""Every how many looks contents without a record are searched."""
MOST_RECORDS: Final = 50_000
"""With more records pools are not shown: an embedded cluster is for one machine."""
SAME_TIME_NS: Final = 100_000_000
"""Far longer than the resolution of filesystem timestamps."""
_NOTICE: Final = "pools"

R = TypeVar("R", VolumeRecord, SnapshotRecord)

_log = logs.logger("tonnage.dashboard")


def _records(folder: Path, kind: type[R]) -> Iterator[R]:
    """The records of one kind. Unreadable records are skipped: the driver reports them when it starts."""
    paths = sorted(folder.glob("*.json"))
    if len(paths) > MOST_RECORDS:
        raise TonnageError(f"{folder} has more than {MOST_RECORDS} records: pools are not shown")
    for path in paths:
        try:
            yield msgspec.json.decode(private_files.read_own(path), type=kind)
        except FileNotFoundError:
            continue  # deleted since the listing: the next look sees that
        except (OSError, TonnageError, msgspec.MsgspecError) as exc:
            _log.warning("A record of the driver cannot be read", path=str(path), error=str(exc))


class DriverRecords:
    """The driver's folder of one embedded cluster. `look` blocks: call it in a thread."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._state_dir = data_dir / STATE_DIR
        self._seen: tuple[int, ...] = ()
        self._unknown: dict[PoolId, int] = {}
        self._looks = 0

    def look(self) -> DriverContents | None:
        """The current pool contents; None when nothing changed since the last look. Raises TonnageError, OSError."""
        looks_for_unknown = self._looks % UNKNOWN_EVERY == 0
        self._looks += 1
        folders = (self._state_dir / name for name in (VOLUMES, SNAPSHOTS, INTENTS))
        seen = tuple(_time(path) for path in (self._data_dir / "cluster.json", *folders))
        unknown = self._unknown
        if looks_for_unknown:
            unknown = {}
            for each in unknown_contents(self._state_dir, in_use=True) if self._state_dir.exists() else ():
                unknown[each.place] = unknown.get(each.place, 0) + each.size_bytes
        if seen == self._seen and unknown == self._unknown:
            return None
        # Two changes may have the same mtime: a folder that changed just now is read again.
        is_settled = abs(time.time_ns() - max(seen)) > SAME_TIME_NS  # or the clock was set back since
        self._unknown = unknown
        contents = self._contents()
        self._seen = seen if is_settled else ()
        return contents

    def _contents(self) -> DriverContents:
        volumes: dict[str, Content] = {}
        arriving = {
            each.id: PoolId(each.node, each.pool) for each in Intents(self._state_dir).all() if each.action == "copy"
        }
        for record in _records(self._state_dir / VOLUMES, VolumeRecord):
            place = PoolId(record.node, record.pool)
            target = arriving.get(record.volume_id)
            volumes[record.volume_id] = Content(
                place, record.capacity_bytes, record.name, target if target != place else None
            )
        snapshots: dict[PoolId, int] = {}
        for copy in _records(self._state_dir / SNAPSHOTS, SnapshotRecord):
            place = PoolId(copy.node, copy.pool)
            snapshots[place] = snapshots.get(place, 0) + copy.size_bytes
        return DriverContents(DRIVER_NAME, self._sizes(), volumes, snapshots, self._unknown)

    def _sizes(self) -> dict[str, tuple[int, ...]]:
        shape = PlaneSettings(self._data_dir).resolved()
        try:
            return pools_by_node(map(parse_node_pools, shape.pools), shape.node_names)
        except (ValueError, TypeError) as exc:
            raise TonnageError(f"the pools of {self._data_dir} are not known: {exc}") from exc


@asynccontextmanager
async def following_folder(cluster: ShownCluster, data_dir: Path | None) -> AsyncIterator[None]:
    """Show this folder's faults and its driver's pools while the block runs. Does nothing without a folder."""
    if data_dir is None:
        yield
        return
    faults, records = FaultFile(data_dir / FAULT_FILE_NAME), DriverRecords(data_dir)

    async def look() -> None:
        look_at_faults(cluster, faults)
        await _look(cluster, records)

    async def follow() -> None:
        while True:
            await cluster.clock.sleep(LOOK_S)
            try:
                await look()
            except Exception:  # a bug of ours must not stop the updates for good
                _log.exception("Faults and pools cannot be shown")

    await look()
    async with in_background(follow(), "follow the cluster's folder"):
        yield


async def _look(cluster: ShownCluster, records: DriverRecords) -> None:
    try:
        driver_contents = await asyncio.to_thread(records.look)
    except (TonnageError, OSError) as exc:
        text = exc.message if isinstance(exc, TonnageError) else f"{exc.filename}: {exc.strerror}"
        notice = NoticeRow(text=f"what lies in the driver's pools cannot be seen: {text}")
        cluster.collections.put("notices", _NOTICE, notice)
        return
    cluster.collections.remove("notices", _NOTICE)
    if driver_contents is not None:
        cluster.model.look_into(driver_contents)
        cluster.settle()


def _time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
