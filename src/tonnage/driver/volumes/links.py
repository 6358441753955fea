"""Links from the paths that callers name to the contents of volumes, so that nobody has to be root."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tonnage.csi.errors import StatusError, failed_precondition

_POOL = re.compile(r"pool-[0-9]+")


def _is_ours(path: Path, volume_id: str) -> bool:
    """True if a link leads to this volume's contents in a pool, now or before a move. The id alone is not enough."""
    if not path.is_symlink():
        return False
    parts = path.readlink().parts
    return len(parts) >= 3 and parts[-1] == volume_id and _POOL.fullmatch(parts[-2]) is not None


def unlink(path: Path, volume_id: str, *, is_expected: bool) -> None:
    """Remove a link to this volume only. Raises StatusError if a link `is_expected` and something else is there."""
    if _is_ours(path, volume_id):
        path.unlink()
    elif is_expected and os.path.lexists(path) and not _is_empty_folder(path):
        raise _in_the_way(path, f"volume {volume_id} is not removed")


def link(path: Path, target: Path) -> None:
    """Link `path` to `target`, replacing an empty folder. Raises StatusError for anything else that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_ours(path, target.name):
        if path.readlink() == target:
            return
        path.unlink()
    elif _is_empty_folder(path):
        path.rmdir()
    try:
        path.symlink_to(target)
    except FileExistsError as exc:
        raise _in_the_way(path, f"volume {target.name} is not published") from exc


def _is_empty_folder(path: Path) -> bool:
    return not path.is_symlink() and path.is_dir() and next(path.iterdir(), None) is None


def _in_the_way(path: Path, consequence: str) -> StatusError:
    if path.is_symlink():
        found = f"a symbolic link to {path.readlink()}"
    else:
        found = "a folder with contents" if path.is_dir() else "a file"
    return failed_precondition(
        f"{path} is {found}, which this driver did not put there: it stays, and {consequence}; move it away, and ask "
        "again"
    )
