"""The SQLite file: whose it is, how it is opened, and what its errors mean.

A file is checked before anything is written: a database of another program or of another schema version is not
changed. A new file gets its tables in one transaction: a kill leaves nothing or all of it. Errors of SQLite and of the
system become a StoreError here.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import struct
import sys
from contextlib import closing
from importlib import resources
from pathlib import Path

from tonnage.private_files import open_own, require_own_file, sync_path
from tonnage.store import errors, records

APPLICATION_ID = 0x544F4E4E  # "TONN", in bytes 68..71 of the file, where file(1) looks too
SCHEMA_VERSION = 2
_BESIDE = ("-wal", "-shm", "-journal")
"""Files that SQLite opens by their names: their contents become part of the database."""
BUSY_TIMEOUT_MS = 5_000
"""How long a write waits for another program that has locked the file."""
WAL_LIMIT_BYTES = 16 << 20
"""The size to which SQLite cuts its write-ahead log after a burst: four times what it holds between two checkpoints."""


class OpenFiles:
    """The files of an open database, to compare with what their names lead to now.

    SQLite continues with files that have lost their names, and every commit to them is lost. So a commit is
    acknowledged only while the names lead to the open files.
    """

    def __init__(self, path: Path) -> None:
        self._names = (str(path), f"{path}-wal", f"{path}-shm")
        self._files = [os.stat(name) for name in self._names]  # noqa: PTH116 - a Path costs as much as the call

    def require(self) -> None:
        """Raises StoreRemoved if the log or its write-ahead log was removed, replaced, or cut since `confirm`."""
        for name, before in zip(self._names[:2], self._files, strict=False):
            now = self._stat(name, before)
            if now.st_size < before.st_size:
                raise errors.StoreRemoved(Path(name), f"was cut from {before.st_size} to {now.st_size} bytes")

    def confirm(self) -> None:
        """Raises StoreRemoved if a file was removed or replaced. Accepts the present lengths: SQLite changed them."""
        self._files = [self._stat(name, before) for name, before in zip(self._names, self._files, strict=True)]

    def _stat(self, name: str, before: os.stat_result) -> os.stat_result:
        try:
            now = os.stat(name)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            raise errors.StoreRemoved(Path(name), "was removed") from None
        if now.st_ino != before.st_ino or now.st_dev != before.st_dev:
            raise errors.StoreRemoved(Path(name), "was replaced")
        return now


def open_writer(path: Path, key_beside: Path | None = None) -> sqlite3.Connection:
    """The one connection that writes; creates the file (mode 0600) and its tables if they are missing.

    `key_beside` is a file that is made after the store: if it exists, so must the store. Raises StoreError if the file
    is not ours to open, StoreMissing if it must exist and does not, and sqlite3.Error and OSError unchanged.
    """
    if key_beside is not None:
        require_own_file(key_beside)
    lost = errors.StoreLost(path, key_beside) if key_beside is not None and key_beside.exists() else None
    if lost is not None and not path.exists():
        raise lost
    # SQLite would create the file by the umask; its -wal and -shm files get the same mode as this one.
    os.close(open_own(path, os.O_RDWR | os.O_CREAT))
    for suffix in _BESIDE:
        require_own_file(path.with_name(path.name + suffix))
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False)
    try:
        version = judged_version(connection, path)
        if version is None and lost is not None:
            raise lost
        if version is None:  # before the first page is written, or never
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        # A write is acknowledged when COMMIT returns, so COMMIT must sync the write-ahead log every time: FULL.
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise errors.StoreIOError(path, f"the file system cannot hold a write-ahead log (journal mode is {mode!r})")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cell_size_check = ON")  # notice a damaged page when it is read
        # Writes touch one index page per key, anywhere in the index: 16 MiB hold those of 200,000 rows.
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
        if version is None:
            _create(connection)
            sync_path(path.parent)
    except BaseException:
        connection.close()
        raise
    return connection


def translated(exc: sqlite3.Error | OSError | UnicodeDecodeError, path: Path) -> errors.StoreError:
    """The failure as a StoreError; raise it `from` the original."""
    if isinstance(exc, UnicodeDecodeError):  # SQLite's message would quote the damaged text
        return errors.StoreCorrupt(path, "its schema is not text")
    if isinstance(exc, OSError):
        return _translated_os_error(exc, path)
    code = getattr(exc, "sqlite_errorcode", 0)
    # It may quote a damaged schema: make it one line of printable characters.
    told = "".join(each if each.isprintable() else "?" for each in " ".join(str(exc).split()))
    detail = f"{told} ({getattr(exc, 'sqlite_errorname', type(exc).__name__)})"
    # The shared memory beside the log is a file, too: on a full disk it fails to grow.
    if code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return errors.StoreFull(path)
    # SQLite knows a full disk, but not a used-up quota.
    if code == sqlite3.SQLITE_IOERR_WRITE and _is_quota_used_up(path.parent):
        return errors.StoreFull(path)
    if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return errors.StoreCorrupt(path, detail)
    if code & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return errors.StoreNoPermission(path, detail)
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return errors.StoreInUse(path.parent, None)
    return errors.StoreIOError(path, detail)


def copy_database(source: sqlite3.Connection, target: Path) -> None:
    """Copy a whole database, of one moment, over the file `target`, and sync it."""
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode = OFF")  # a failed copy is thrown away
        source.backup(copy)
    sync_path(target)
    sync_path(target.absolute().parent)


def judged_version(connection: sqlite3.Connection, path: Path) -> int | None:
    """The file's schema version, None if it is new; raises if it is not ours to open. Reads only."""
    application_id = int(connection.execute("PRAGMA application_id").fetchone()[0])
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
    if application_id == 0 and version == 0 and tables == 0:
        return None
    if application_id != APPLICATION_ID:
        told = f"is a database of another program (application id {application_id}); it was left as it is"
        raise errors.StoreForeign(path, told, "name another folder")
    has = f"has schema version {version}, this Tonnage knows version"
    if version > SCHEMA_VERSION:
        raise errors.StoreForeign(
            path, f"{has}s up to {SCHEMA_VERSION}", "run the Tonnage that wrote it, or a later one"
        )
    if version < SCHEMA_VERSION:
        way_out = "copy what is needed with a Tonnage that reads it, or remove the folder"
        raise errors.StoreForeign(path, f"{has} {SCHEMA_VERSION}; it was left as it is", way_out)
    return version


def _create(connection: sqlite3.Connection) -> None:
    schema = resources.files("tonnage.store").joinpath("schema.sql").read_text(encoding="utf-8")
    connection.executescript(
        f"BEGIN IMMEDIATE;\n"
        f"PRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {SCHEMA_VERSION};\n{schema}\n"
        f"INSERT INTO compaction VALUES (1, 0, 0, 0, {records.compaction_checksum(0, 0, 0)});\n"
        f"COMMIT;"
    )


def _is_quota_used_up(folder: Path) -> bool:
    """Try with a nameless file, which is gone when it is closed."""
    try:
        fd = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, bytes(1 << 16))
        finally:
            os.close(fd)
    except OSError as exc:
        return exc.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def _translated_os_error(exc: OSError, path: Path) -> errors.StoreError:
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return errors.StoreFull(path)
    if exc.errno in (errno.ENOTDIR, errno.EEXIST):
        return errors.StoreNotADirectory(path)
    if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return errors.StoreNoPermission(path, os.strerror(exc.errno))
    return errors.StoreIOError(path, str(exc))


_HEADER = struct.Struct(">8I")  # magic, version, page size, round, salt 1, salt 2, checksum 1, checksum 2
_FRAME = struct.Struct(">6I")  # page, pages after a commit (else 0), salt 1, salt 2, checksum 1, checksum 2
_LITTLE, _BIG = 0x377F0682, 0x377F0683
_MASK = 0xFFFFFFFF


def wal_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def lost_commits(path: Path) -> int:
    """How many commits follow an unreadable place in the write-ahead log at `path`; 0 if all is well.

    SQLite reads up to the first frame with a wrong checksum and takes the rest for the half-written end of a crash. A
    crash leaves no commit behind such a frame, but a disk that changed a byte does: then acknowledged writes are lost.
    The format: https://www.sqlite.org/fileformat2.html#walformat. Frames of an earlier round have other salts and do
    not count.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return 0
    if len(content) < _HEADER.size + _FRAME.size:
        return 0
    magic, _, page_bytes, _, *salts, sum_1, sum_2 = _HEADER.unpack_from(content)
    order = {_LITTLE: "<", _BIG: ">"}.get(magic, "<" if sys.byteorder == "little" else ">")
    is_header_sound = magic in (_LITTLE, _BIG) and _checksum(content[:24], order, 0, 0) == (sum_1, sum_2)
    if not is_header_sound:
        # SQLite reads nothing of the file. Frames that belong together show that there was something to read.
        page_bytes = 4096
        salts = list(_FRAME.unpack_from(content, _HEADER.size)[2:4])
    is_whole, lost = is_header_sound, 0
    for start in range(_HEADER.size, len(content) - _FRAME.size - page_bytes + 1, _FRAME.size + page_bytes):
        _, commits, *found, frame_1, frame_2 = _FRAME.unpack_from(content, start)
        if found != salts:
            if is_whole and is_header_sound:
                # The end of this round, unless these salts themselves are damaged: then more of the round follows.
                is_whole = False
            continue
        if is_whole:
            sum_1, sum_2 = _checksum(content[start : start + 8], order, sum_1, sum_2)
            page = start + _FRAME.size
            sum_1, sum_2 = _checksum(content[page : page + page_bytes], order, sum_1, sum_2)
            is_whole = (sum_1, sum_2) == (frame_1, frame_2)
        if not is_whole and commits:
            lost += 1
    return lost


def _checksum(content: bytes, order: str, sum_1: int, sum_2: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for position in range(0, len(words), 2):
        sum_1 = (sum_1 + words[position] + sum_2) & _MASK
        sum_2 = (sum_2 + words[position + 1] + sum_1) & _MASK
    return sum_1, sum_2
