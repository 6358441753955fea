"""What the driver writes to disk: a record per volume and snapshot, and an intent per call under way.

    STATE/.volumes/vol-….json       one record per volume, written atomically, naming only its own contents
    STATE/.snapshots/snap-….json    one record per snapshot
    STATE/.intents/<token>.json     on disk before a call touches anything, gone once nothing is left to do
    STATE/<node>/pool-<n>/.<token>  contents set aside: an incomplete copy, or contents being removed

Records are the truth. A record also says where its volume is published, staged and linked, so that one atomic write
changes all of it. After a crash only contents that an intent names are repaired, and only if they match the intent.
Every call has a new token, so anything else in a pool is not a leftover: it may be data, and stays.

| action | the call does | after a crash |
| --- | --- | --- |
| make, copy | makes or copies aside, saves the record, moves aside into place | with a record: moved; else removed |
| remove | moves contents aside, saves or forgets the record, removes aside | with a record: moved back, else removed |
"""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from tonnage import errors, logs, private_files
from tonnage.driver.node_pools import PoolId

AccessType = Literal["mount", "block"]
_ID_DIGITS: Final = 32
_CONTENTS_ID: Final = re.compile(r"(vol|snap)-[0-9a-f]{32}")


class Capability(msgspec.Struct, frozen=True):
    """How a volume is used: mounted or as blocks, and CSI's number of the access mode."""

    access_type: AccessType
    mode: int


class Publication(msgspec.Struct, frozen=True):
    capability: Capability
    readonly: bool = False


class Staging(msgspec.Struct, frozen=True):
    """A volume staged on a node, at a path of the caller's choice."""

    path: str
    capability: Capability


class Target(msgspec.Struct, frozen=True):
    """A volume published to a pod of a node, at a path."""

    node: str
    path: str
    capability: Capability
    readonly: bool = False


class VolumeOrigin(msgspec.Struct, frozen=True):
    kind: Literal["snapshot", "volume"]
    id: str


class InPool(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what describes contents in a pool of a node."""

    node: str
    pool: int
    access_type: AccessType

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.node, self.pool)


class VolumeRecord(InPool, frozen=True, kw_only=True):
    """One volume. `order` counts volumes as they are created; lists are sorted by it."""

    volume_id: str
    name: str
    order: int
    capacity_bytes: int
    taken_bytes: int = 0
    """What its pool loses to it, if that is more than its capacity (class parameter `size-rules`)."""
    parameters: dict[str, str] = {}
    mutable_parameters: dict[str, str] = {}
    """The last parameters of a VolumeAttributesClass."""
    source: VolumeOrigin | None = None
    published: dict[str, Publication] = {}
    staged: dict[str, Staging] = {}
    targets: tuple[Target, ...] = ()

    @property
    def id(self) -> str:
        return self.volume_id

    @property
    def size_bytes(self) -> int:
        return max(self.taken_bytes, self.capacity_bytes)

    @property
    def users(self) -> frozenset[str]:
        """The nodes that use this volume; it takes one attach slot on every one."""
        return frozenset({*self.published, *self.staged, *(target.node for target in self.targets)})

    def without_users(self, nodes: frozenset[str]) -> VolumeRecord:
        return msgspec.structs.replace(
            self,
            published={node: known for node, known in self.published.items() if node not in nodes},
            staged={node: known for node, known in self.staged.items() if node not in nodes},
            targets=tuple(target for target in self.targets if target.node not in nodes),
        )


class SnapshotRecord(InPool, frozen=True, kw_only=True):
    """One snapshot: a copy, which takes its own space in a pool and outlives its volume."""

    snapshot_id: str
    name: str
    order: int
    source_volume_id: str
    size_bytes: int
    created_at_ns: int

    @property
    def id(self) -> str:
        return self.snapshot_id

    @property
    def capacity_bytes(self) -> int:
        """The least size of a volume that is made from it."""
        return self.size_bytes

    @property
    def users(self) -> frozenset[str]:
        return frozenset()


def volume_id_of(name: str) -> str:
    """The id of the volume of this name, always the same: a repeated request gets the same volume."""
    return f"vol-{_digest(name)}"


def snapshot_id_of(name: str) -> str:
    return f"snap-{_digest(name)}"


def is_contents_id(text: str) -> bool:
    """True for an id in this driver's form."""
    return _CONTENTS_ID.fullmatch(text) is not None


def is_node_id(text: str) -> bool:
    """True if a node can have this id: it becomes the name of a folder."""
    return bool(text) and "/" not in text and "\0" not in text and not text.startswith(".")


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:_ID_DIGITS]


R = TypeVar("R", VolumeRecord, SnapshotRecord)

VOLUMES: Final = ".volumes"
SNAPSHOTS: Final = ".snapshots"


class StateFolderError(errors.TonnageError):
    """A state folder that cannot be used."""


def read_records(state_dir: Path) -> list[VolumeRecord | SnapshotRecord]:
    """Every record, volumes first; also for a process that does not hold the lock. Raises StateFolderError."""
    volumes = (_read(path, VolumeRecord) for path in sorted((state_dir / VOLUMES).glob("*.json")))
    snapshots = (_read(path, SnapshotRecord) for path in sorted((state_dir / SNAPSHOTS).glob("*.json")))
    return [record for record in (*volumes, *snapshots) if record is not None]


def _read(path: Path, kind: type[R]) -> R | None:
    """Read a record; None if it is gone by now. A record can only lead to its own contents."""
    try:
        record = msgspec.json.decode(private_files.read_own(path), type=kind)
        if record.id != path.stem or not is_contents_id(record.id):
            raise ValueError(f'it is the record of "{record.id}"')
        if not is_node_id(record.node) or record.pool < 0 or record.capacity_bytes < 0:
            raise ValueError(
                f'there is no place "{record.node}", pool {record.pool}, for {record.capacity_bytes} bytes'
            )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.MsgspecError, private_files.NotOurs) as exc:
        raise StateFolderError(
            f"{path} cannot be read: {exc}",
            hint="restore it from a backup, or move it away: its contents stay, count as used, and are not served",
        ) from exc
    return record


Action = Literal["make", "copy", "remove"]
FOLDER_NAME: Final = ".intents"
_TOKEN_BYTES: Final = 16

_log = logs.logger(__name__)


class Intent(InPool, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str
    action: Action
    id: str

    @property
    def aside_name(self) -> str:
        return f".{self.token}"


def intent_of(action: Action, record: VolumeRecord | SnapshotRecord) -> Intent:
    return Intent(
        token=secrets.token_hex(_TOKEN_BYTES),
        action=action,
        id=record.id,
        node=record.node,
        pool=record.pool,
        access_type=record.access_type,
    )


class Intents:
    """The folder of intents. Everything here blocks."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER_NAME

    def write(self, intent: Intent) -> None:
        """Write an intent, synced to disk."""
        private_files.write_private(self._path(intent), msgspec.json.encode(intent))

    def drop(self, intent: Intent) -> None:
        """Remove an intent that is done. Not synced: if it comes back after a power cut, it finds nothing to do."""
        self._path(intent).unlink(missing_ok=True)

    def all(self) -> list[Intent]:
        """Every readable intent. Others are logged and left: the contents they name are then unknown."""
        found: list[Intent] = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                found.append(_checked(path, msgspec.json.decode(private_files.read_own(path), type=Intent)))
            except FileNotFoundError:  # its call has ended
                continue
            except (errors.TonnageError, OSError, ValueError, msgspec.MsgspecError) as exc:
                _log.warning("An intent cannot be read, and is left alone", path=str(path), err=str(exc))
        return found

    def _path(self, intent: Intent) -> Path:
        return self._folder / f"{intent.token}.json"


def _checked(path: Path, intent: Intent) -> Intent:
    """The intent, if nothing in it leads elsewhere. Raises ValueError."""
    is_token = len(intent.token) == 2 * _TOKEN_BYTES and all(digit in "0123456789abcdef" for digit in intent.token)
    if not (is_token and path.stem == intent.token and is_contents_id(intent.id) and is_node_id(intent.node)):
        raise ValueError("it names no contents of this driver")
    if intent.pool < 0:
        raise ValueError(f"there is no pool {intent.pool}")
    return intent
