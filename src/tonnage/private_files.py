"""Files and folders that only we may change: keys, tokens, records, locks, logs. Planted files are never used.

Every check is made on the descriptor that is used afterwards (`O_NOFOLLOW`, `fstat`), never on a path before it is
opened. Only the last part of a path is checked: `/var` or a home may be a link. Whoever can rename a folder above ours
can replace ours, but the replacement is not ours and is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from tonnage.errors import TonnageError

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ROOT: Final = 0
_CHUNK_BYTES: Final = 1 << 20
_KINDS: Final = {
    stat.S_IFREG: "a plain file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
}


class NotOurs(TonnageError):
    """A file or folder that another user owns, can change, or put in place of ours. It was not touched."""

    def __init__(self, path: Path, problem: str, *, hint: str | None = None) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path} {problem}", hint=hint)


def own_folder(path: Path, *, mode: int = 0o700) -> Path:
    """Create the folder and its parents if missing, and ensure that only we can write to it.

    Raises NotOurs for a link, another user's folder, or one with contents that others can write to: they may be
    planted. An empty one is closed to others instead: a umask of 002 makes such folders. OSError as it comes.
    """
    missing = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except FileExistsError:
        if not path.is_symlink():
            raise
    require_own_folder(path)
    for made in missing:  # else the folder's name, and all files synced in it, could be lost
        with suppress(PermissionError):  # a folder that we may not read is its owner's to sync
            sync_path(made.parent)
    return path


def sync_path(path: Path) -> None:
    """Write a file's content or a folder's entries to disk: a new file is durable only when its name is."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def require_own_folder(path: Path, *, is_inner: bool = False) -> None:
    """Ensure that only we can write to a folder. `is_inner`: it lies in a folder that was already checked."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        # Another owner is reported as that, whatever error the kernel gives: the folder may also be closed to us.
        found = path.lstat()
        _require_owner(path, found)
        if stat.S_ISLNK(found.st_mode):
            raise NotOurs(
                path, "is a symbolic link, not a folder", hint=f"name the folder itself: {path.resolve()}"
            ) from exc
        raise
    try:
        found = os.fstat(fd)
        _require_owner(path, found)
        if found.st_mode & _OTHERS_WRITE and not is_inner:
            permissions = stat.S_IMODE(found.st_mode)
            if _is_empty(fd):
                os.fchmod(fd, permissions & ~_OTHERS_WRITE)
            if not _is_empty(fd):  # checked after it was closed to others: nobody can have planted a file since
                raise NotOurs(
                    path,
                    f"has contents, and others can write to it (mode {permissions:04o}): they may have put them there",
                    hint=f"if what is in it is yours: chmod go-w {path}; else name another folder",
                )
    finally:
        os.close(fd)


def open_own(path: Path, flags: int) -> int:
    """Open a plain file of ours, checked before it is truncated; no link is followed. Raises NotOurs, OSError."""
    cuts = flags & os.O_TRUNC
    # O_NONBLOCK: opening a planted pipe must not block.
    try:
        fd = os.open(path, (flags & ~os.O_TRUNC) | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as exc:
        found = None if exc.errno == errno.ENOENT else _lstat(path)
        if found is not None:
            _require_plain(path, found)
            _require_owner(path, found)
        raise
    try:
        found = os.fstat(fd)
        _require_plain(path, found)
        _require_owner(path, found)
        if flags & os.O_ACCMODE != os.O_WRONLY:  # a file that we only append to is not trusted
            _require_closed(path, found)
        if cuts and found.st_size:
            os.ftruncate(fd, 0)
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def require_own_file(path: Path) -> None:
    """Ensure that a file, if it exists, is a plain file of ours; for files that a library opens by name."""
    try:
        os.close(open_own(path, os.O_RDONLY))
    except FileNotFoundError:
        return


def read_own(path: Path) -> bytes:
    """The content of a plain file of ours; no link is followed. Raises NotOurs, OSError."""
    return _content(open_own(path, os.O_RDONLY))


def read_given(path: Path) -> bytes:
    """The content of a file that a user named; a link's target must be ours or root's. Raises NotOurs, OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        _require_owner(path, found, or_root=True)
        if stat.S_ISREG(found.st_mode):
            _require_closed(path, found)
    except BaseException:
        os.close(fd)
        raise
    return _content(fd)


def open_lock(path: Path) -> int:
    """Open a file to lock, created if missing. Raises NotOurs, OSError."""
    return open_own(path, os.O_RDWR | os.O_CREAT)


def try_lock(lock: int, *, is_shared: bool = False) -> bool:
    """Lock an open file; False while another process has it. The kernel releases the lock when its process ends."""
    try:
        fcntl.flock(lock, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def pid_in(lock: int) -> int:
    """The process that holds a lock, as it wrote itself into the file; 0 if that is unknown."""
    word = next(iter(os.pread(lock, 64, 0).split()), b"")
    return int(word) if word.isdigit() else 0


def open_log(path: Path) -> int:
    """Open a log for appending, created if missing. Raises NotOurs, OSError."""
    return open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def write_private(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file with mode 0600 atomically. `durable`: it is on disk on return. Raises NotOurs, OSError."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _require_owner(path.parent, os.fstat(folder), or_root=True)
        found = _lstat(path)
        if found is not None:
            _require_plain(path, found)
            _require_owner(path, found)
            if (stat.S_IMODE(found.st_mode), found.st_size) == (0o600, len(content)) and read_own(path) == content:
                return  # a start on a full disk finds most files unchanged
        draft = f".{path.name}.{os.getpid()}"
        try:
            write_new(folder, draft, content, durable=durable)
            os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            if durable:
                os.fsync(folder)  # the name too: without it a power cut may bring back the old content, or none
        except BaseException:
            with suppress(OSError):  # leave no partial file on a full disk
                os.unlink(draft, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def write_new(folder: int, name: str, content: bytes, *, durable: bool = True) -> None:
    """Write a new file with mode 0600 into our open folder; an old one of that name, left by a crash, is removed."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def require_place_for_socket(path: Path) -> None:
    """Raises NotOurs unless the path is free or a socket of ours, in a folder that is ours or root's."""
    _require_owner(path.parent, path.parent.stat(), or_root=True)
    found = _lstat(path)
    if found is None:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise NotOurs(
            path, f"is {_kind(found)}, not a socket: it is not replaced", hint="name another path, or move it"
        )
    _require_owner(path, found)


def _content(fd: int) -> bytes:
    with os.fdopen(fd, "rb", buffering=_CHUNK_BYTES) as file:
        return file.read()


def _require_owner(path: Path, found: os.stat_result, *, or_root: bool = False) -> None:
    us = os.geteuid()
    if found.st_uid != us and not (or_root and found.st_uid == _ROOT):
        raise NotOurs(
            path,
            f"belongs to somebody else (uid {found.st_uid}, and we are {us})",
            hint="name one of your own: below your home, or made by mktemp -d",
        )


def _require_plain(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotOurs(path, f"is {_kind(found)}, not a plain file", hint="look who put it there, and remove it")


def _require_closed(path: Path, found: os.stat_result) -> None:
    if found.st_mode & _OTHERS_WRITE:
        raise NotOurs(
            path,
            f"can be written to by others (mode {stat.S_IMODE(found.st_mode):04o})",
            hint=f"if what is in it is yours: chmod go-w {path}",
        )


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _is_empty(fd: int) -> bool:
    with os.scandir(fd) as entries:
        return next(entries, None) is None


def _kind(found: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(found.st_mode), "a device")
