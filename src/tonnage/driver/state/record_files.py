"""Records as files: one a volume and one a snapshot, each whole or not at all, each leading to its own contents alone.

STATE/.volumes/vol-….json
STATE/.snapshots/snap-….json
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from tonnage.driver.state.records import SnapshotRecord, VolumeRecord, is_contents_id, is_node_id
from tonnage.errors import TonnageError
from tonnage.private_files import NotOurs, own_folder, read_own, sync_folder, write_new

R = TypeVar("R", VolumeRecord, SnapshotRecord)

VOLUMES: Final = ".volumes"
SNAPSHOTS: Final = ".snapshots"
_HALF: Final = re.compile(r"(vol|snap)-[0-9a-f]{32}\.new")
"""The name of a record while it is written."""


class StateFolderError(TonnageError):
    """A state folder that cannot be used."""


def prepare_records(state_dir: Path) -> None:
    """Make the folders of records, and remove what a death left of one. Raises NotOurs."""
    for folder in (state_dir / VOLUMES, state_dir / SNAPSHOTS):
        own_folder(folder)
        for path in folder.iterdir():
            if _HALF.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                path.unlink()  # the record that was to be replaced is whole, or its call had not been answered


def record_path(state_dir: Path, record: VolumeRecord | SnapshotRecord) -> Path:
    """Where a record is kept."""
    return state_dir / (VOLUMES if isinstance(record, VolumeRecord) else SNAPSHOTS) / f"{record.id}.json"


def save_record(state_dir: Path, record: VolumeRecord | SnapshotRecord) -> None:
    """Make this the record; it is on disk when this returns."""
    path = record_path(state_dir, record)
    aside = f"{record.id}.new"
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_new(folder, aside, msgspec.json.encode(record))
        os.rename(aside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        os.close(folder)


def forget_record(state_dir: Path, record: VolumeRecord | SnapshotRecord) -> None:
    """Remove a record; it is gone from disk when this returns."""
    path = record_path(state_dir, record)
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def read_records(state_dir: Path, kind: type[R]) -> list[R]:
    """Every record of a kind, also for one who does not hold the folder. Raises StateFolderError."""
    folder = state_dir / (VOLUMES if kind is VolumeRecord else SNAPSHOTS)
    found = (_read(path, kind) for path in sorted(folder.glob("*.json")))
    return [record for record in found if record is not None]


def _read(path: Path, kind: type[R]) -> R | None:
    """A record; None for one that is gone by now. What it says leads nowhere but to its own contents."""
    try:
        record = msgspec.json.decode(read_own(path), type=kind)
        size_bytes = record.capacity_bytes if isinstance(record, VolumeRecord) else record.size_bytes
        if record.id != path.stem or not is_contents_id(record.id):
            raise ValueError(f'it is the record of "{record.id}"')
        if not is_node_id(record.node) or record.pool < 0 or size_bytes < 0:
            raise ValueError(f'there is no place "{record.node}", pool {record.pool}, for {size_bytes} bytes')
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.MsgspecError, NotOurs) as exc:
        raise StateFolderError(
            f"{path} cannot be read: {exc}",
            hint="restore it from a backup, or move it away: its contents stay, count as used, and are not served",
        ) from exc
    return record
