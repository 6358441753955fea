"""Everything the store refuses or reports, with the facts as attributes.

The API server turns errors of writes and of history into Kubernetes' Status. Errors of the folder and the disk are for
the person who starts the server: they name the path and a remedy.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tonnage.errors import TonnageError
from tonnage.store.records import Damage, StoreRecord

RESCUED = "rescued-"
"""Prefix of a copy that a server made of a store whose file was removed."""


class StoreError(TonnageError):
    """Base of all errors of the store. `kind` is a word for a metric's label."""

    kind: ClassVar[str] = "io"


# Errors of writes.


class KeyExists(StoreError):
    """A create found the key taken; `existing` is its record."""

    def __init__(self, existing: StoreRecord) -> None:
        super().__init__(
            f'cannot create "{existing.key}": it exists since revision {existing.revision}; update it instead'
        )
        self.key = existing.key
        self.existing = existing


class KeyMissing(StoreError):
    def __init__(self, key: str, verb: str) -> None:
        super().__init__(f'cannot {verb} "{key}": there is no such key; create it first')
        self.key = key
        self.verb = verb


class StaleRevision(StoreError):
    """An update or a delete expected another revision; `current` is the present record."""

    def __init__(self, verb: str, expected: int, current: StoreRecord) -> None:
        super().__init__(
            f'cannot {verb} "{current.key}" at revision {expected}: it is at revision {current.revision} by now; '
            f"read it again and retry"
        )
        self.key = current.key
        self.verb = verb
        self.expected = expected
        self.current = current


class FenceBroken(StoreError):
    """A fenced write came after a change of the fence's key; `record` is the fence's present record."""

    def __init__(self, verb: str, key: str, fence_key: str, record: StoreRecord | None) -> None:
        super().__init__(f'cannot {verb} "{key}": "{fence_key}" has changed, and the write only held before that')
        self.key = key
        self.fence_key = fence_key
        self.record = record


class KeyDamaged(StoreError):
    """The newest state of the key is damaged on disk. It is kept out: the state before it is not the present."""

    def __init__(self, path: Path, key: str, damage: Damage) -> None:
        super().__init__(
            f'"{key}" is damaged in {path} ({damage}) and is kept out',
            hint="delete it and create it again, or restore a backup",
        )
        self.path = path
        self.key = key
        self.damage = damage


class WriteRefused(StoreError):
    """The log's constraints refused a write: the file does not hold what the store believes."""

    def __init__(self, path: Path, key: str, revision: int, detail: str) -> None:
        super().__init__(
            f'{path} refused revision {revision} of "{key}" ({detail}): the file is not as this process left it',
            hint="another program wrote to this file; stop that program and start again",
        )
        self.path = path
        self.key = key
        self.revision = revision
        self.detail = detail


# Errors of readers of history.


class RevisionCompacted(StoreError):
    """History from this revision on is no longer complete."""

    def __init__(self, revision: int, compacted: int) -> None:
        super().__init__(
            f"revision {revision} is gone: history up to revision {compacted} was compacted; "
            f"list again and go on from there"
        )
        self.revision = revision
        self.compacted = compacted


class RevisionInFuture(StoreError):
    def __init__(self, revision: int, newest: int) -> None:
        super().__init__(f"revision {revision} has not happened yet: the newest is {newest}; ask for that, or wait")
        self.revision = revision
        self.newest = newest


class RowDamaged(StoreError):
    """A row that was sound when the store was opened is damaged now; history up to `reached` has a hole."""

    def __init__(self, path: Path, damage: Damage, reached: int) -> None:
        super().__init__(f"{path} is damaged ({damage})", hint="run `tonnage apiserver --check`, and restore a backup")
        self.path = path
        self.damage = damage
        self.reached = reached


class WatchOverrun(StoreError):
    """The consumer of a watch fell too far behind; it has everything up to `revision`."""

    def __init__(self, prefix: str, revision: int, max_lag: str) -> None:
        super().__init__(
            f'the watch of "{prefix}" fell more than {max_lag} behind; '
            f"watch again after revision {revision}, and read faster"
        )
        self.prefix = prefix
        self.revision = revision
        self.max_lag = max_lag


class WatchClosed(StoreError):
    def __init__(self, prefix: str) -> None:
        super().__init__(f'the watch of "{prefix}" was closed; open another')
        self.prefix = prefix


# Errors of the folder, the file and the disk.


class StoreClosed(StoreError):
    """The store is closed or closing: what was acknowledged is on disk, nothing else is accepted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the store in {folder} is closed; open it again")
        self.folder = folder


class StoreNotADirectory(StoreError):
    def __init__(self, folder: Path) -> None:
        super().__init__(f"cannot keep a store in {folder}: it is not a directory", hint="name another folder")
        self.folder = folder


class StoreNoPermission(StoreError):
    kind = "read-only"

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"cannot open {path}: {detail}", hint="run as the user that owns the folder, or name another folder"
        )
        self.path = path
        self.detail = detail


class StoreMissing(StoreError):
    """There is no store to read; or the key of an earlier store exists without the store."""

    def __init__(self, path: Path, key: Path | None = None) -> None:
        if key is None:
            super().__init__(f"there is no {path}", hint="name the --data-dir of a server that was started once")
        else:
            copies = sorted(path.parent.glob(f"{RESCUED}*"))
            source = str(copies[-1]) if copies else "a backup"
            super().__init__(
                f"{path} is not there or is empty, but {key} of an earlier start is: the store was removed",
                hint=f"copy {source} to {path} and start again; to begin with an empty store, move {key} away first",
            )
        self.path = path
        self.key = key


class BackupExists(StoreError):
    """The name for a backup is taken; nothing is ever overwritten."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is there already; it was left as it is", hint="name another file")
        self.path = path


class StoreInUse(StoreError):
    """Another process holds the folder; `pid` is None if it is unknown."""

    kind = "locked"

    def __init__(self, folder: Path, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"the store in {folder} is in use by {holder}", hint="stop it first, or name another folder")
        self.folder = folder
        self.pid = pid


class StoreRemoved(StoreError):
    """Somebody removed, replaced or cut a file of an open store; nothing more is acknowledged. `rescued` is a copy of
    all that was acknowledged, made from the file that is still open."""

    kind = "removed"

    def __init__(self, path: Path, detail: str, rescued: Path | None = None) -> None:
        remedy = "put it back as it was, and writing goes on; or stop this server, restore a backup, and start again"
        if rescued is not None and rescued.name.startswith(RESCUED):
            remedy = f"stop this server, move {rescued} to its place (it has all acknowledged writes), and start again"
        elif rescued is not None:
            remedy = f"start this server again; {rescued} has all acknowledged writes"
        super().__init__(f"{path} {detail} while it was in use; nothing more is stored", hint=remedy)
        self.path = path
        self.detail = detail
        self.rescued = rescued


class StoreCorrupt(StoreError):
    kind = "corrupt"

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"cannot read {path}: {detail}",
            hint="restore a backup in its place, or begin with a new folder; `tonnage apiserver --check` says more",
        )
        self.path = path
        self.detail = detail


class StoreForeign(StoreError):
    def __init__(self, path: Path, application_id: int) -> None:
        super().__init__(
            f"{path} is a database of another program (application id {application_id}); it was left as it is",
            hint="name another folder",
        )
        self.path = path
        self.application_id = application_id


class StoreTooNew(StoreError):
    def __init__(self, path: Path, version: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {version}, this Tonnage knows versions up to {known}",
            hint="run the Tonnage that wrote it, or a later one",
        )
        self.path = path
        self.version = version
        self.known = known


class StoreFull(StoreError):
    """The disk is full: nothing of this write is kept, reads continue, and writes work again once there is space."""

    kind = "full"

    def __init__(self, path: Path, *, hint: str = "make room and retry") -> None:
        super().__init__(f"cannot write to {path}: the disk is full; nothing was stored", hint=hint)
        self.path = path


class StoreStalled(StoreError):
    """The disk has not answered for long: it hangs, or is far too slow."""

    kind = "stalled"

    def __init__(self, path: Path, waited_s: float) -> None:
        super().__init__(f"writing {path} has taken {waited_s:.0f} s so far and is not done", hint="check the disk")
        self.path = path
        self.waited_s = waited_s


class StoreIOError(StoreError):
    """The disk failed, and it is unknown what it kept. Nothing is acknowledged until the file has been reopened and
    read, by the store or a restart: every acknowledged write is found, and the failed one may be there."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"reading or writing {path} failed: {detail}",
            hint="check the disk; writing goes on once it can, and acknowledged writes are kept",
        )
        self.path = path
        self.detail = detail
