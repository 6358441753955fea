"""The state folder: records written whole or not at all, contents beside them, and one rule for what a death leaves.

    STATE/.lock                               held by the driver that runs
    STATE/.volumes/vol-….json                 one record a volume
    STATE/.snapshots/snap-….json              one record a snapshot
    STATE/<node>/pool-<n>/vol-…               contents: a folder (mount) or a sparse file (block)

The rule: contents are made before the record that points to them and removed after it is gone. So at any instant each
record has its contents, and what no record points to may be swept away. A volume moves when its record does.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from tonnage.driver.pool_choice import PoolId
from tonnage.driver.state import contents
from tonnage.driver.state.records import SnapshotRecord, VolumeRecord
from tonnage.errors import TonnageError

R = TypeVar("R", VolumeRecord, SnapshotRecord)

_CONTENTS: Final = re.compile(r"(vol|snap)-[0-9a-f]{32}")
_POOL: Final = re.compile(r"pool-[0-9]+")
_HALF: Final = ".new"
"""How the name of a record ends while it is written."""


class StateFolderError(TonnageError):
    """A state folder that cannot be used."""


class StateFolder:
    """Everything here blocks and is meant for a thread, but for `contents_path`."""

    def __init__(self, path: Path) -> None:
        """Lock the folder for this process.

        Raises StateFolderError when another driver has it, or it cannot be written.
        """
        self.path = path.absolute()
        self._volumes = self.path / ".volumes"
        self._snapshots = self.path / ".snapshots"
        try:
            for folder in (self.path, self._volumes, self._snapshots):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock_fd = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as exc:
            raise StateFolderError(f"cannot use {path} as a state folder: {exc.strerror}") from exc
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            os.close(self._lock_fd)
            raise StateFolderError(f"{path} is in use by another driver", hint="give each its own --state-dir") from exc

    def close(self) -> None:
        """Let go of the folder. The kernel does the same for a process that dies."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def volumes(self) -> list[VolumeRecord]:
        """Every volume on record. Raises StateFolderError for a record that cannot be read."""
        return [_read(path, VolumeRecord) for path in sorted(self._volumes.glob("*.json"))]

    def snapshots(self) -> list[SnapshotRecord]:
        """Every snapshot on record. Raises StateFolderError for a record that cannot be read."""
        return [_read(path, SnapshotRecord) for path in sorted(self._snapshots.glob("*.json"))]

    def save(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Make this the record; it is on disk when this returns."""
        path = self._path(record)
        aside = path.with_suffix(_HALF)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        contents.sync_folder(path.parent)

    def forget(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Remove a record; it is gone from disk when this returns."""
        path = self._path(record)
        path.unlink(missing_ok=True)
        contents.sync_folder(path.parent)

    def contents_path(self, place: PoolId, id: str) -> Path:
        """Where the contents of a volume or a snapshot lie."""
        return self.path / place.node / f"pool-{place.pool}" / id

    def contents_of(self, record: VolumeRecord | SnapshotRecord) -> Path:
        """Where the contents of a record lie."""
        return self.contents_path(record.pool_id, _id(record))

    def sweep(self, records: Iterable[VolumeRecord | SnapshotRecord]) -> list[Path]:
        """Remove what no record points to, and half-written records; the paths that went.

        Only names that this driver gives are touched: a folder that was given by mistake loses nothing.
        """
        kept = {self.contents_of(record) for record in records}
        found = [
            path
            for pool in self.path.glob("[!.]*/pool-*")
            if _POOL.fullmatch(pool.name)
            for path in pool.iterdir()
            if _CONTENTS.fullmatch(path.name) and path not in kept
        ]
        for path in found:
            contents.remove(path)
        for folder in (self._volumes, self._snapshots):
            for path in folder.glob(f"*{_HALF}"):
                path.unlink()
        return found

    def _path(self, record: VolumeRecord | SnapshotRecord) -> Path:
        folder = self._volumes if isinstance(record, VolumeRecord) else self._snapshots
        return folder / f"{_id(record)}.json"


def _id(record: VolumeRecord | SnapshotRecord) -> str:
    return record.volume_id if isinstance(record, VolumeRecord) else record.snapshot_id


def _read(path: Path, kind: type[R]) -> R:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as exc:
        raise StateFolderError(
            f"{path} cannot be read: {exc}", hint="it was not written by this driver; restore it, or move it away"
        ) from exc
