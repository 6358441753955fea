"""The state folder: records (`records.py`), contents beside them, and one rule for recovery after a crash.

    STATE/.lock                               held by the running driver
    STATE/.quarantine/                        where `tonnage csi-driver-quarantine` moves unknown contents
    STATE/<node>/pool-<n>/vol-…               contents: a folder (mount) or a sparse file (block)

The rule: nothing that may be data is ever removed. The intent of a call tells what the call left when it died. Contents
that neither a record nor an intent names are unknown: they stay, count as used, are reported, and are moved to
.quarantine, where they no longer count, only on request. They come from a lost record, a backup restored without its
records, or a pool used for something else.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tonnage import logs
from tonnage.driver.node_pools import PoolId
from tonnage.driver.state import contents, records
from tonnage.driver.state.records import Intent, SnapshotRecord, StateFolderError, VolumeRecord
from tonnage.private_files import NotOurs, open_lock, own_folder, require_own_folder, sync_path, write_private

_log = logs.logger("tonnage.driver.state.folder")


_DRAFT: Final = re.compile(r"\.[a-z0-9-]+\.json\.[0-9]+")
"""The name of a record or an intent while it is written."""


class StateFolder:
    """The folder on disk. Everything here blocks and belongs into a thread, except `contents_path`."""

    def __init__(self, path: Path) -> None:
        """Lock the folder for this process; `prepare` creates the rest. Raises StateFolderError."""
        self.path = path.absolute()
        self.intents = records.Intents(self.path)
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
            raise StateFolderError(
                f"{path} is in use by another driver", hint="stop it, or give each its own --state-dir"
            ) from exc
        try:
            for name in (records.VOLUMES, records.SNAPSHOTS, records.FOLDER_NAME):
                if os.path.lexists(self.path / name):
                    require_own_folder(self.path / name)
        except BaseException:
            self.close()
            raise

    @property
    def is_new(self) -> bool:
        """True if no driver has ever kept records here."""
        return not os.path.lexists(self.path / records.VOLUMES)

    def prepare(self) -> None:
        """Create the folders of records and intents, and remove half-written files. Raises NotOurs."""
        for name in (records.VOLUMES, records.SNAPSHOTS, records.FOLDER_NAME):
            for path in own_folder(self.path / name).iterdir():
                if _DRAFT.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                    path.unlink()  # what it should have replaced is whole, or its call was never answered

    def close(self) -> None:
        """Unlock the folder. The kernel does so for a process that dies."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def record_path(self, record: VolumeRecord | SnapshotRecord) -> Path:
        folder = records.VOLUMES if isinstance(record, VolumeRecord) else records.SNAPSHOTS
        return self.path / folder / f"{record.id}.json"

    def save(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Write or replace the record, synced to disk."""
        write_private(self.record_path(record), msgspec.json.encode(record))

    def forget(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Remove a record, synced to disk."""
        path = self.record_path(record)
        path.unlink(missing_ok=True)
        sync_path(path.parent)

    def contents_path(self, place: PoolId, id: str) -> Path:
        return self.path / place.node / f"pool-{place.pool}" / id

    def contents_of(self, record: VolumeRecord | SnapshotRecord) -> Path:
        return self.contents_path(record.pool_id, record.id)

    # -- calls, each with its intent before it ------------------------------------------------------------------------

    def add(self, record: VolumeRecord | SnapshotRecord, source: Path | None = None) -> None:
        """Create contents, empty or a copy of `source`, and their record.

        Raises ForeignContents if something is in their place, FileNotFoundError without a source; then nothing is left.
        """
        self._new_place(record)
        intent = records.intent_of("make" if source is None else "copy", record)
        self.intents.write(intent)
        try:
            if source is None:
                contents.make(self._aside(intent), record.access_type, record.capacity_bytes)
            else:
                contents.copy(source, self._aside(intent), record.access_type, record.capacity_bytes)
            self.save(record)
            self._into_place(intent, record)
        except Exception:
            self._take_back(None, intent, added=record)
            raise
        self.intents.drop(intent)

    def move(self, record: VolumeRecord, moved: VolumeRecord) -> Intent:
        """Copy contents to the place of `moved`, make it the record, and set the old contents aside for `finish`."""
        self._new_place(moved)
        old = self.contents_of(record)
        copied, removed = records.intent_of("copy", moved), records.intent_of("remove", record)
        self.intents.write(copied)
        try:
            contents.copy(old, self._aside(copied), moved.access_type, moved.capacity_bytes)
            contents.require_no_mounts(old)
            self.intents.write(removed)
        except Exception:
            self._take_back(None, copied)
            raise
        try:
            contents.move(old, self._aside(removed), record.access_type)
            self.save(moved)
            self._into_place(copied, moved)
        except Exception:
            self._take_back(record, removed, copied)
            raise
        self.intents.drop(copied)
        return removed

    def retire(self, record: VolumeRecord | SnapshotRecord) -> Intent:
        """Set contents aside for `finish`, and remove their record. Raises ForeignContents for foreign contents."""
        path, intent = self.contents_of(record), records.intent_of("remove", record)
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
            self._take_back(record, intent)
            raise
        return intent

    def finish(self, intent: Intent) -> Path | None:
        """Remove contents that were set aside; returns the path if that failed, and the next start tries again."""
        aside = self._aside(intent)
        try:
            contents.remove(aside)
        except (OSError, contents.ForeignContents) as exc:
            _log.warning("Removed contents are not all gone; the next start tries again", path=str(aside), err=str(exc))
            return aside
        self.intents.drop(intent)
        return None

    # -- after a death ------------------------------------------------------------------------------------------------

    def recover(self, found: Iterable[VolumeRecord | SnapshotRecord]) -> list[Path]:
        """Finish or undo what intents say was interrupted; returns the removed paths. Everything else stays."""
        known = {self.contents_of(record): record for record in found}
        removed: list[Path] = []
        for intent in self.intents.all():
            pool = self.contents_path(intent.pool_id, intent.id).parent
            if os.path.lexists(pool):
                self._require_pool(intent.pool_id)
            try:
                gone = self._recover(intent, known)
            except contents.ForeignContents as exc:
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
        if not os.path.lexists(aside):
            return None
        contents.require(aside, intent.access_type)
        if path not in known:
            contents.remove(aside)
            return aside
        if not os.path.lexists(path):
            contents.move(aside, path, intent.access_type)
        return None

    def _take_back(
        self,
        record: VolumeRecord | SnapshotRecord | None,
        *intents: Intent,
        added: VolumeRecord | SnapshotRecord | None = None,
    ) -> None:
        """Undo a failed call as a start would: `record` and its contents stay, `added` and other contents go.

        If that fails, both are on disk with their intents, and the next start follows the records.
        """
        known = {} if record is None else {self.contents_of(record): record}
        try:
            if added is not None:
                self.forget(added)  # first, because no record may name missing contents
            for intent in intents:
                self._recover(intent, known)
            if record is not None:
                self.save(record)
        except (OSError, contents.ForeignContents) as exc:
            _log.warning("A call that failed cannot be undone; the next start does it", err=str(exc))
            return
        for intent in intents:
            self.intents.drop(intent)

    def _into_place(self, intent: Intent, record: VolumeRecord | SnapshotRecord) -> None:
        try:
            contents.move(self._aside(intent), self.contents_of(record), record.access_type)
        except FileExistsError as exc:
            raise self._in_the_way(record) from exc

    def _new_place(self, record: VolumeRecord | SnapshotRecord) -> None:
        """Create the pool for new contents. Raises ForeignContents if something is in their place."""
        path = self.contents_of(record)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._require_pool(record.pool_id)
        if os.path.lexists(path):
            raise self._in_the_way(record)

    def _in_the_way(self, record: VolumeRecord | SnapshotRecord) -> contents.ForeignContents:
        return contents.ForeignContents(
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


QUARANTINE: Final = ".quarantine"
_POOL: Final = re.compile(r"pool-(0|[1-9][0-9]*)")
_LOST_AND_FOUND: Final = "lost+found"
"""A filesystem creates this folder; it counts as contents only if fsck has put something there."""


@dataclass(frozen=True, slots=True, order=True)
class UnknownContents:
    """Something in a pool that no record names. `size_bytes` is at least what it takes."""

    path: Path
    place: PoolId
    size_bytes: int


def unknown_contents(state_dir: Path, *, in_use: bool) -> list[UnknownContents]:
    """The unknown contents of a state folder, also while a driver uses it. Raises StateFolderError, NotOurs.

    Contents are read first, then intents, then records: a call under way has one or the other at every instant. In a
    folder not `in_use` no call is under way, and contents that an intent names are unknown, too.
    """
    found = list(_in_pools(state_dir))
    named: set[Path] = set()
    for intent in records.Intents(state_dir).all() if in_use else ():
        pool = state_dir / intent.node / f"pool-{intent.pool}"
        named |= {pool / intent.id, pool / intent.aside_name}
    named |= {state_dir / record.node / f"pool-{record.pool}" / record.id for record in records.read_records(state_dir)}
    return sorted(
        UnknownContents(path, place, measured_bytes(path))
        for path, place in found
        if path not in named and os.path.lexists(path)
    )


def place_of(path: Path) -> PoolId:
    return PoolId(path.parent.parent.name, int(path.parent.name.removeprefix("pool-")))


def measured_bytes(path: Path) -> int:
    """Bytes that contents take of a pool: what is on disk and, for a file, at least its length, which was promised."""
    used_bytes = contents.usage(path)[0]
    try:
        return max(used_bytes, path.lstat().st_size) if path.is_file() and not path.is_symlink() else used_bytes
    except FileNotFoundError:
        return 0


def require_records(
    folder: StateFolder, records: Iterable[VolumeRecord | SnapshotRecord], unknown: list[UnknownContents]
) -> None:
    """Raises StateFolderError for a folder with contents and without a single record: one of them is wrong."""
    if any(True for _ in records):
        return
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise StateFolderError(
            f"{folder.path} has contents and no records: {unknown[0].path.relative_to(folder.path)}{more}",
            hint="restore .volumes and .snapshots from the backup that the contents are from; or move the contents "
            f"away: tonnage csi-driver-quarantine --state-dir {folder.path} --all",
        )
    stranger = _first_file(folder.path) if folder.is_new else None
    if stranger is not None:
        raise StateFolderError(
            f"{folder.path} has contents and no records: this driver did not make {stranger.relative_to(folder.path)}",
            hint="name an empty folder, or one that this driver has used, with --state-dir",
        )


def quarantine(folder: StateFolder, chosen: Iterable[UnknownContents]) -> Iterator[tuple[Path, Path]]:
    """Move unknown contents out of their pools; yields (old path, new path). Raises OSError."""
    for found in chosen:
        relative = found.path.relative_to(folder.path)
        to = folder.path / QUARANTINE / relative
        for parent in (folder.path / QUARANTINE, to.parent.parent, to.parent):
            own_folder(parent)
        number = 1
        while os.path.lexists(to):
            number += 1
            to = to.with_name(f"{relative.name}.{number}")
        found.path.rename(to)
        sync_path(to.parent)
        sync_path(found.path.parent)
        yield found.path, to


def _in_pools(state_dir: Path) -> Iterator[tuple[Path, PoolId]]:
    """Everything in the pools. Raises NotOurs for a pool that is a link or somebody else's."""
    for node in _folders(state_dir):
        if node.name.startswith("."):
            continue
        for pool in _folders(node):
            number = _POOL.fullmatch(pool.name)
            if number is None:
                continue
            for folder in (node, pool):
                require_own_folder(folder, is_inner=True)
            for path in pool.iterdir():
                if path.name != _LOST_AND_FOUND or not _is_empty_folder(path):
                    yield path, PoolId(node.name, int(number[1]))


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, including links to folders, which the caller refuses."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def _first_file(folder: Path) -> Path | None:
    """Something below a folder that is not a folder, besides our own lock."""
    for at, folders, files in os.walk(folder, onerror=_raise):
        for name in sorted((*files, *(each for each in folders if (Path(at) / each).is_symlink()))):
            path = Path(at) / name
            if path != folder / ".lock":
                return path
    return None


def _raise(error: OSError) -> None:
    raise StateFolderError(f"{error.filename} cannot be read: {error.strerror}") from error


def _is_empty_folder(path: Path) -> bool:
    try:
        return not path.is_symlink() and path.is_dir() and next(path.iterdir(), None) is None
    except PermissionError:
        return True  # lost+found is root's; only root can look into it
