"""Everything the store refuses or reports, with the facts as attributes.

The API server turns errors of writes and of history into Kubernetes' Status. Errors of the folder and the disk are for
the person who starts the server: they name the path and a remedy.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tonnage.errors import FormattedError
from tonnage.store.records import Damage, StoreRecord

RESCUED = "rescued-"
"""Prefix of a copy that a server made of a store whose file was removed."""


class StoreError(FormattedError):
    """Base of all errors of the store. `kind` is a word for a metric's label."""

    kind: ClassVar[str] = "io"


# Errors of writes.


class KeyExists(StoreError):
    """A create found the key taken; `existing` is its record."""

    text = 'cannot create "{existing.key}": it exists since revision {existing.revision}; update it instead'
    existing: StoreRecord


class KeyMissing(StoreError):
    text = 'cannot {verb} "{key}": there is no such key; create it first'
    key: str
    verb: str


class StaleRevision(StoreError):
    """An update or a delete expected another revision; `current` is the present record."""

    text = (
        'cannot {verb} "{current.key}" at revision {expected}: it is at revision {current.revision} by now; '
        "read it again and retry"
    )
    verb: str
    expected: int
    current: StoreRecord


class FenceBroken(StoreError):
    """A fenced write came after a change of the fence's key; `record` is the fence's present record."""

    text = 'cannot {verb} "{key}": "{fence_key}" has changed, and the write only held before that'
    verb: str
    key: str
    fence_key: str
    record: StoreRecord | None


class KeyDamaged(StoreError):
    """The newest state of the key is damaged on disk. It is kept out: the state before it is not the present."""

    text = '"{key}" is damaged in {path} ({damage}) and is kept out'
    remedy = "delete it and create it again, or restore a backup"
    path: Path
    key: str
    damage: Damage


class WriteRefused(StoreError):
    """The log's constraints refused a write: the file does not hold what the store believes."""

    text = '{path} refused revision {revision} of "{key}" ({detail}): the file is not as this process left it'
    remedy = "another program wrote to this file; stop that program and start again"
    path: Path
    key: str
    revision: int
    detail: str


# Errors of readers of history.


class RevisionCompacted(StoreError):
    """History from this revision on is no longer complete."""

    text = (
        "revision {revision} is gone: history up to revision {compacted} was compacted; list again and go on from there"
    )
    revision: int
    compacted: int


class RevisionInFuture(StoreError):
    text = "revision {revision} has not happened yet: the newest is {newest}; ask for that, or wait"
    revision: int
    newest: int


class RowDamaged(StoreError):
    """A row that was sound when the store was opened is damaged now; history up to `reached` has a hole."""

    text = "{path} is damaged ({damage})"
    remedy = "run `tonnage apiserver --check`, and restore a backup"
    path: Path
    damage: Damage
    reached: int


class WatchOverrun(StoreError):
    """The consumer of a watch fell too far behind; it has everything up to `revision`."""

    text = (
        'the watch of "{prefix}" fell more than {max_lag} behind; '
        "watch again after revision {revision}, and read faster"
    )
    prefix: str
    revision: int
    max_lag: str


class WatchClosed(StoreError):
    text = 'the watch of "{prefix}" was closed; open another'
    prefix: str


# Errors of the folder, the file and the disk.


class StoreClosed(StoreError):
    """The store is closed or closing: what was acknowledged is on disk, nothing else is accepted."""

    text = "the store in {folder} is closed; open it again"
    folder: Path


class StoreNotADirectory(StoreError):
    text = "cannot keep a store in {folder}: it is not a directory"
    remedy = "name another folder"
    folder: Path


class StoreNoPermission(StoreError):
    kind = "read-only"
    text = "cannot open {path}: {detail}"
    remedy = "run as the user that owns the folder, or name another folder"
    path: Path
    detail: str


class StoreMissing(StoreError):
    """There is no store to read."""

    text = "there is no {path}"
    remedy = "name the --data-dir of a server that was started once"
    path: Path


class StoreLost(StoreMissing):
    """The key of an earlier store exists without the store."""

    text = "{path} is not there or is empty, but {key} of an earlier start is: the store was removed"
    remedy = "copy {source} to {path} and start again; to begin with an empty store, move {key} away first"
    key: Path

    def __post_init__(self) -> None:
        self.source = max(map(str, self.path.parent.glob(f"{RESCUED}*")), default="a backup")
        super().__post_init__()


class BackupExists(StoreError):
    """The name for a backup is taken; nothing is ever overwritten."""

    text = "{path} is there already; it was left as it is"
    remedy = "name another file"
    path: Path


class StoreInUse(StoreError):
    """Another process holds the folder; `pid` is None if it is unknown."""

    kind = "locked"
    text = "the store in {folder} is in use by {holder}"
    remedy = "stop it first, or name another folder"
    folder: Path
    pid: int | None

    def __post_init__(self) -> None:
        self.holder = "another process" if self.pid is None else f"process {self.pid}"
        super().__post_init__()


class StoreRemoved(StoreError):
    """Somebody removed, replaced or cut a file of an open store; nothing more is acknowledged. `rescued` is a copy of
    all that was acknowledged, made from the file that is still open."""

    kind = "removed"
    text = "{path} {detail} while it was in use; nothing more is stored"
    path: Path
    detail: str
    rescued: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        rescued = self.rescued
        self.hint = "put it back as it was, and writing goes on; or stop this server, restore a backup, and start again"
        if rescued is not None and rescued.name.startswith(RESCUED):
            whole = "it has all acknowledged writes"
            self.hint = f"stop this server, move {rescued} to its place ({whole}), and start again"
        elif rescued is not None:
            self.hint = f"start this server again; {rescued} has all acknowledged writes"


class StoreCorrupt(StoreError):
    kind = "corrupt"
    text = "cannot read {path}: {detail}"
    remedy = "restore a backup in its place, or begin with a new folder; `tonnage apiserver --check` says more"
    path: Path
    detail: str


class StoreForeign(StoreError):
    """The file is of another program, or of another version of this one. It was not changed."""

    text = "{path} {detail}"
    remedy = "{way_out}"
    path: Path
    detail: str
    way_out: str


class StoreFull(StoreError):
    """The disk is full: nothing of this write is kept, reads continue, and writes work again once there is space."""

    kind = "full"
    text = "cannot write to {path}: the disk is full; nothing was stored"
    remedy = "{way_out}"
    path: Path
    way_out: str = "make room and retry"


class StoreStalled(StoreError):
    """The disk has not answered for long: it hangs, or is far too slow."""

    kind = "stalled"
    text = "writing {path} has taken {waited_s:.0f} s so far and is not done"
    remedy = "check the disk"
    path: Path
    waited_s: float


class StoreIOError(StoreError):
    """The disk failed, and it is unknown what it kept. Nothing is acknowledged until the file has been reopened and
    read, by the store or a restart: every acknowledged write is found, and the failed one may be there."""

    text = "reading or writing {path} failed: {detail}"
    remedy = "check the disk; writing goes on once it can, and acknowledged writes are kept"
    path: Path
    detail: str
