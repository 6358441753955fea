"""The volumes themselves: a folder, or a sparse file that is as long as the volume is large.

Everything here blocks. Copies keep holes, links, times and modes, so that a volume of 100Gi with nothing in it costs
nothing to copy either; sockets, pipes and devices stay behind. What a copy replaces is removed first: it can only be
the remains of an earlier try.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from tonnage.driver.state.records import AccessType

_CHUNK_BYTES: Final = 16 << 20


def make(path: Path, access_type: AccessType, size_bytes: int) -> None:
    """Empty contents, on disk when this returns."""
    _clear(path)
    if access_type == "block":
        with open(path, "xb", opener=_private) as file:
            file.truncate(size_bytes)
            os.fsync(file.fileno())
    else:
        path.mkdir(mode=0o700)
    sync_folder(path.parent)


def copy(source: Path, path: Path, access_type: AccessType, size_bytes: int) -> None:
    """The same contents at another path, in a volume of `size_bytes`, on disk when this returns."""
    _clear(path)
    if access_type == "block":
        _copy_file(str(source), str(path))
        grow(path, access_type, size_bytes)
    else:
        shutil.copytree(source, path, symlinks=True, copy_function=_copy_file, ignore=_special_files)
    sync_folder(path.parent)


def grow(path: Path, access_type: AccessType, size_bytes: int) -> None:
    """Make room for `size_bytes`; never cuts anything off. A folder grows by itself."""
    if access_type == "block" and path.stat().st_size < size_bytes:
        with path.open("r+b") as file:
            file.truncate(size_bytes)
            os.fsync(file.fileno())


def remove(path: Path) -> None:
    """Remove contents, all or what is left of them."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def usage(path: Path) -> tuple[int, int]:
    """`(bytes, inodes)` that contents really take on disk. Files that go while this looks are not counted."""
    used_bytes = inodes = 0
    folders = [path]
    while folders:
        at = folders.pop()
        try:
            found = at.lstat()
            if stat.S_ISDIR(found.st_mode):
                folders.extend(at.iterdir())
        except FileNotFoundError:
            continue
        used_bytes += found.st_blocks * 512
        inodes += 1
    return used_bytes, inodes


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder are on disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _clear(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove(path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _special_files(folder: str, names: list[str]) -> set[str]:
    """The names that a copy leaves out: neither file, folder nor link."""
    kept = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
    return {name for name in names if stat.S_IFMT((Path(folder) / name).lstat().st_mode) not in kept}


def _copy_file(source: str, path: str) -> str:
    """Copy the parts of a file that hold data; shutil's own copy would fill every hole with zeros."""
    old_fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    new_fd = _private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        length = os.fstat(old_fd).st_size
        os.ftruncate(new_fd, length)
        at = 0
        while at < length:
            try:
                at = os.lseek(old_fd, at, os.SEEK_DATA)
            except OSError:  # ENXIO: nothing but a hole until the end
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
        if not data:  # cut short while it was read
            return end
        at += os.pwrite(new_fd, data, at)
    return at
