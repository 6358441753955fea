"""Contents that no record names: kept, counted as used, reported, and moved away only on request.

They come from a lost record, a backup restored without its records, or a pool used for something else, and may be data.
`tonnage csi-driver-quarantine` moves them to STATE/.quarantine, where they no longer count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tonnage.driver.node_pools import PoolId
from tonnage.driver.state import contents
from tonnage.driver.state.folder import StateFolder
from tonnage.driver.state.records import Intents, SnapshotRecord, StateFolderError, VolumeRecord, read_records
from tonnage.private_files import own_folder, require_own_folder, sync_folder

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
    for intent in Intents(state_dir).all() if in_use else ():
        pool = state_dir / intent.node / f"pool-{intent.pool}"
        named |= {pool / intent.id, pool / intent.aside_name}
    named |= {state_dir / record.node / f"pool-{record.pool}" / record.id for record in read_records(state_dir)}
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
        sync_folder(to.parent)
        sync_folder(found.path.parent)
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
