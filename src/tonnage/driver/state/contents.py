"""The contents of volumes: a folder, or a sparse file as long as the volume is large. Everything here blocks.

Copies keep holes, links, times and modes; sockets, pipes and devices are left out. Nothing is ever replaced: whatever
is in the place of new contents belongs to somebody. Removing follows no links and enters no mounts.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Final

from tonnage import errors, private_files
from tonnage.driver.state.records import AccessType

_CHUNK_BYTES: Final = 16 << 20
_MOUNTS: Final = Path("/proc/self/mountinfo")


class ForeignContents(errors.TonnageError):
    """Something that this driver did not put there is at a volume's place. It was not touched."""

    def __init__(self, path: Path, problem: str, *, hint: str) -> None:
        self.path = path
        super().__init__(f"{path} {problem}", hint=hint)


def make(path: Path, access_type: AccessType, size_bytes: int) -> None:
    """Create empty contents, synced to disk. Raises FileExistsError if something is there."""
    if access_type == "block":
        with os.fdopen(_new_file(path), "wb") as file:
            file.truncate(size_bytes)
            os.fsync(file.fileno())
    else:
        path.mkdir(mode=0o700)
    private_files.sync_path(path.parent)


def copy(source: Path, path: Path, access_type: AccessType, size_bytes: int) -> None:
    """Copy contents, synced to disk. Raises FileExistsError, or ForeignContents for the source."""
    require(source, access_type)
    if access_type == "block":
        _copy_file(str(source), str(path))
        grow(path, access_type, size_bytes)
    else:
        shutil.copytree(source, path, symlinks=True, copy_function=_copy_file, ignore=_special_files)
        for folder, _, _ in os.walk(path):
            private_files.sync_path(Path(folder))
    private_files.sync_path(path.parent)


def grow(path: Path, access_type: AccessType, size_bytes: int) -> None:
    """Grow contents to `size_bytes`; never shortens. A folder needs nothing."""
    require(path, access_type)
    if access_type == "block":
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size < size_bytes:
                os.ftruncate(fd, size_bytes)
                os.fsync(fd)
        finally:
            os.close(fd)


def require(path: Path, access_type: AccessType) -> None:
    """Raises ForeignContents unless the path is a folder (mount) or a plain file (block), and FileNotFoundError."""
    mode = path.lstat().st_mode
    if not (stat.S_ISREG(mode) if access_type == "block" else stat.S_ISDIR(mode)):
        expected = "a plain file" if access_type == "block" else "a folder"
        found = "a symbolic link" if stat.S_ISLNK(mode) else "something else"
        raise ForeignContents(
            path,
            f"is {found} in the place of the volume's contents, which are {expected}: this driver did not put it there",
            hint="put the contents back, or move away what is there",
        )


def require_no_mounts(path: Path, mounts: Path = _MOUNTS) -> None:
    """Raises ForeignContents if something is mounted in a folder: removing the folder would remove it, too."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:  # another system without this file: its kernel refuses to remove a mount point
        return
    place = path.parent.resolve() / path.name
    for line in lines:
        mounted = Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line.split(" ")[4]))
        if mounted == place or place in mounted.parents:
            raise ForeignContents(path, f"has something mounted at {mounted}", hint=f"unmount {mounted}, and ask again")


def remove(path: Path) -> None:
    """Remove contents, or what is left of them. Raises ForeignContents for a mount in them."""
    if path.is_dir() and not path.is_symlink():
        require_no_mounts(path)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def move(path: Path, to: Path, access_type: AccessType) -> None:
    """Move contents within a pool, synced to disk. Raises FileExistsError, ForeignContents, FileNotFoundError."""
    require(path, access_type)
    if os.path.lexists(to):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(to))
    path.rename(to)
    try:
        private_files.sync_path(to.parent)
    except OSError:
        to.rename(path)
        raise


def usage(path: Path) -> tuple[int, int]:
    """`(bytes, inodes)` that contents take on disk. Files that vanish meanwhile are not counted."""
    used_bytes = inodes = 0
    folders = [path]
    while folders:
        at = folders.pop()
        try:
            found = at.lstat()
            if stat.S_ISDIR(found.st_mode):
                folders.extend(at.iterdir())
        except (FileNotFoundError, PermissionError):
            continue
        used_bytes += found.st_blocks * 512
        inodes += 1
    return used_bytes, inodes


def _new_file(path: Path | str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _special_files(folder: str, names: list[str]) -> set[str]:
    """The names that a copy leaves out: neither file, folder nor link."""
    kept = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
    return {name for name in names if stat.S_IFMT((Path(folder) / name).lstat().st_mode) not in kept}


def _copy_file(source: str, path: str) -> str:
    """Copy the parts of a file that hold data; shutil's own copy would fill every hole with zeros."""
    old_fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    new_fd = _new_file(path)
    try:
        length = os.fstat(old_fd).st_size
        os.ftruncate(new_fd, length)
        at = 0
        while at < length:
            try:
                at = os.lseek(old_fd, at, os.SEEK_DATA)
            except OSError as exc:
                if exc.errno != errno.ENXIO:  # a failing disk must not pass for a hole
                    raise
                break
            at = _copy_data(old_fd, new_fd, at, os.lseek(old_fd, at, os.SEEK_HOLE))
        os.fsync(new_fd)
    finally:
        os.close(old_fd)
        os.close(new_fd)
    shutil.copystat(source, path)
    return path


def _copy_data(old_fd: int, new_fd: int, at: int, end: int) -> int:
    while at < end:
        data = os.pread(old_fd, min(_CHUNK_BYTES, end - at), at)
        if not data:  # shortened while it was read
            return end
        at += os.pwrite(new_fd, data, at)
    return at
