"""The state folder: records (`records.py`), contents beside them, and one rule for what a death leaves.

    STATE/.lock                               held by the driver that runs
    STATE/.quarantine/                        where `tonnage csi-driver-quarantine` moves unknown contents
    STATE/<node>/pool-<n>/vol-…               contents: a folder (mount) or a sparse file (block)

The rule: nothing that may be data is ever removed. What a call leaves when it dies is told by its intent. Contents that
neither a record nor an intent names are unknown: they stay, and count as used.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from tonnage import logs
from tonnage.driver.node_pools import PoolId
from tonnage.driver.state import contents
from tonnage.driver.state.contents import ForeignContents
from tonnage.driver.state.records import FOLDER_NAME as INTENTS
from tonnage.driver.state.records import (
    SNAPSHOTS,
    VOLUMES,
    Intent,
    Intents,
    SnapshotRecord,
    StateFolderError,
    VolumeRecord,
    intent_of,
)
from tonnage.private_files import NotOurs, open_lock, own_folder, require_own_folder, sync_folder, write_new

_HALF: Final = re.compile(r"(vol|snap)-[0-9a-f]{32}\.new")

_log = logs.logger(__name__)


class StateFolder:
    """Everything here blocks and is meant for a thread, but for `contents_path`."""

    def __init__(self, path: Path) -> None:
        """Lock the folder for this process; nothing else is made in it before `prepare`. Raises StateFolderError."""
        self.path = path.absolute()
        self.intents = Intents(self.path)
        try:
            self._lock_fd = open_lock(own_folder(self.path) / ".lock")
        except OSError as exc:
            raise StateFolderError(f"cannot use {path} as a state folder: {exc.strerror}") from exc
        except NotOurs as exc:
            raise StateFolderError(f"cannot use {path} as a state folder: {exc.message}", hint=exc.hint) from exc
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            os.close(self._lock_fd)
            raise StateFolderError(f"{path} is in use by another driver", hint="give each its own --state-dir") from exc
        try:
            for folder in filter(os.path.lexists, [self.path / name for name in (VOLUMES, SNAPSHOTS, INTENTS)]):
                require_own_folder(folder)
        except BaseException:
            self.close()
            raise

    @property
    def is_new(self) -> bool:
        """Whether no driver has ever kept records here."""
        return not os.path.lexists(self.path / VOLUMES)

    def prepare(self) -> None:
        """Make the folders of records and intents, and remove what a death left of those. Raises NotOurs."""
        for folder in (self.path / VOLUMES, self.path / SNAPSHOTS):
            own_folder(folder)
            for path in folder.iterdir():
                if _HALF.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                    path.unlink()  # the record that was to be replaced is whole, or its call had not been answered
        self.intents.prepare()

    def close(self) -> None:
        """Let go of the folder. The kernel does the same for a process that dies."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def record_path(self, record: VolumeRecord | SnapshotRecord) -> Path:
        return self.path / (VOLUMES if isinstance(record, VolumeRecord) else SNAPSHOTS) / f"{record.id}.json"

    def save(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Make this the record; it is on disk when this returns."""
        path, aside = self.record_path(record), f"{record.id}.new"
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            write_new(folder, aside, msgspec.json.encode(record))
            os.rename(aside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        finally:
            os.close(folder)

    def forget(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Remove a record; it is gone from disk when this returns."""
        path = self.record_path(record)
        path.unlink(missing_ok=True)
        sync_folder(path.parent)

    def contents_path(self, place: PoolId, id: str) -> Path:
        return self.path / place.node / f"pool-{place.pool}" / id

    def contents_of(self, record: VolumeRecord | SnapshotRecord) -> Path:
        return self.contents_path(record.pool_id, record.id)

    # -- calls, each with its intent before it ------------------------------------------------------------------------

    def add(self, record: VolumeRecord | SnapshotRecord, source: Path | None = None) -> None:
        """Make contents, empty or a copy of others, and the record of them.

        Raises ForeignContents when something is in their place, FileNotFoundError without a source; nothing is left
        then.
        """
        path = self._new_place(record)
        intent = intent_of("make" if source is None else "copy", record)
        self.intents.write(intent)
        try:
            if source is None:
                with self._placing(record):
                    contents.make(path, record.access_type, record.size_bytes)
            else:
                contents.copy(source, self._aside(intent), record.access_type, record.size_bytes)
            self.save(record)
            if source is not None:
                self._into_place(intent, record)
        except Exception:
            self._take_back(intent, record)
            raise
        self.intents.drop(intent)

    def move(self, record: VolumeRecord, moved: VolumeRecord) -> Intent:
        """Copy contents to where `moved` has them, make it the record, and set the old contents aside, for `finish`."""
        self._new_place(moved)
        old, copied, removed = self.contents_of(record), intent_of("copy", moved), intent_of("remove", record)
        self.intents.write(copied)
        try:
            contents.copy(old, self._aside(copied), moved.access_type, moved.capacity_bytes)
            contents.require_no_mounts(old)
            self.intents.write(removed)
        except Exception:
            self._undo(copied)
            raise
        try:
            contents.move(old, self._aside(removed), record.access_type)
            self.save(moved)
            self._into_place(copied, moved)
        except Exception:
            self._move_back(record, removed, copied)
            raise
        self.intents.drop(copied)
        return removed

    def retire(self, record: VolumeRecord | SnapshotRecord) -> Intent:
        """Set contents aside, for `finish`, and forget their record. Raises ForeignContents for what is not ours."""
        path, intent = self.contents_of(record), intent_of("remove", record)
        aside = self._aside(intent)
        if os.path.lexists(path):
            self._require_pool(record.pool_id)
            contents.require(path, record.access_type)
            contents.require_no_mounts(path)
        self.intents.write(intent)
        try:
            if os.path.lexists(path):
                contents.move(path, aside, record.access_type)
            self.forget(record)
        except Exception:
            self._move_back(record, intent)
            raise
        return intent

    def finish(self, intent: Intent) -> Path | None:
        """Remove what was set aside; the path of what could not be, which the next start tries again."""
        aside = self._aside(intent)
        try:
            contents.remove(aside)
        except (OSError, ForeignContents) as exc:
            _log.warning("Removed contents are not all gone; the next start tries again", path=str(aside), err=str(exc))
            return aside
        self.intents.drop(intent)
        return None

    # -- after a death ------------------------------------------------------------------------------------------------

    def recover(self, records: Iterable[VolumeRecord | SnapshotRecord]) -> list[Path]:
        """Put right what intents say was interrupted; returns the removed paths. What no intent describes stays."""
        known = {self.contents_of(record): record for record in records}
        removed: list[Path] = []
        for intent in self.intents.all():
            pool = self.contents_path(intent.pool_id, intent.id).parent
            if os.path.lexists(pool):
                self._require_pool(intent.pool_id)
            try:
                gone = self._recover(intent, known)
            except ForeignContents as exc:
                _log.warning("What lies there is not what a call left, and stays", path=str(exc.path), err=exc.message)
                gone = None
            except OSError as exc:
                _log.warning("An interrupted call is not put right; the next start tries again", err=str(exc))
                continue
            removed += [gone] if gone is not None else []
            self.intents.drop(intent)
        return removed

    def _recover(self, intent: Intent, known: Mapping[Path, VolumeRecord | SnapshotRecord]) -> Path | None:
        path, aside = self.contents_path(intent.pool_id, intent.id), self._aside(intent)
        if intent.action == "make":
            is_there = os.path.lexists(path)
            if path not in known and is_there and contents.remove_empty(path, intent.access_type):
                return path
            return None
        if not os.path.lexists(aside):
            return None
        contents.require(aside, intent.access_type)
        if path not in known:
            contents.remove(aside)
            return aside
        if not os.path.lexists(path):
            contents.move(aside, path, intent.access_type)
        return None

    def _undo(self, intent: Intent) -> None:
        """Take back what a call that failed has made. What cannot be taken back is left to the next start."""
        try:
            if intent.action == "make":
                contents.remove_empty(self.contents_path(intent.pool_id, intent.id), intent.access_type)
            else:
                contents.remove(self._aside(intent))
        except (OSError, ForeignContents) as exc:
            _log.warning("A call that failed leaves something; the next start removes it", err=str(exc))
            return
        self.intents.drop(intent)

    def _take_back(self, intent: Intent, record: VolumeRecord | SnapshotRecord) -> None:
        """Undo a call that failed to add a record: the record first, as nothing may point to what is not there."""
        try:
            self.forget(record)
        except OSError as exc:  # the record may be there, and so is what it names: the next start sees which it is
            _log.warning("A record cannot be taken back; the next start looks again", id=record.id, err=str(exc))
            return
        self._undo(intent)

    def _move_back(self, record: VolumeRecord | SnapshotRecord, removed: Intent, copied: Intent | None = None) -> None:
        """Undo a call that failed after it had set contents aside: the record and its contents are as they were."""
        path, aside = self.contents_of(record), self._aside(removed)
        try:
            if os.path.lexists(aside):
                contents.move(aside, path, record.access_type)
            self.save(record)
        except OSError as exc:  # both are on disk, and the intents beside them: the next start goes by the record
            _log.error("Contents cannot be put back; the next start does it", id=record.id, err=str(exc))
            return
        if copied is not None:
            self._undo(copied)
        self.intents.drop(removed)

    @contextmanager
    def _placing(self, record: VolumeRecord | SnapshotRecord) -> Iterator[None]:
        try:
            yield
        except FileExistsError as exc:
            raise self._in_the_way(record) from exc

    def _into_place(self, intent: Intent, record: VolumeRecord | SnapshotRecord) -> None:
        with self._placing(record):
            contents.move(self._aside(intent), self.contents_of(record), record.access_type)

    def _new_place(self, record: VolumeRecord | SnapshotRecord) -> Path:
        """Where contents are about to come, in a pool that is there. Raises ForeignContents when something is there."""
        path = self.contents_of(record)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._require_pool(record.pool_id)
        if os.path.lexists(path):
            raise self._in_the_way(record)
        return path

    def _in_the_way(self, record: VolumeRecord | SnapshotRecord) -> ForeignContents:
        return ForeignContents(
            self.contents_of(record),
            "has contents that no record names, and they may be data: they are not replaced",
            hint=f"restore the record {self.record_path(record)}, or move them away: "
            f"tonnage csi-driver-quarantine --state-dir {self.path}",
        )

    def _require_pool(self, place: PoolId) -> None:
        """Raises NotOurs for a node's folder or a pool that is a link or somebody else's."""
        pool = self.contents_path(place, "x").parent
        for folder in (pool.parent, pool):
            require_own_folder(folder, is_inner=True)

    def _aside(self, intent: Intent) -> Path:
        return self.contents_path(intent.pool_id, intent.aside_name)
