"""What the store keeps in memory and returns: a record is one state of one key, an event the step from one state to the
next; `State` has the newest durable state of every key. Records and events are frozen and shared by readers and
watchers.

`State` has one bucket per resource (the first segment of the key) with records and sorted keys, so listing a namespace
costs only its own rows. Of a tombstone only the revision is kept: the next create of the key names it as its
predecessor. Only the event loop's thread touches it, and only after the write is on disk.

A row's checksum is CRC-32 over every column, including revision and key, so it also catches a document under another
key, a row under another number, and a tombstone come back to life. It is not a signature: a cryptographic hash would
cost the writing thread three times as much, and that thread competes with the event loop.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import msgspec


class StoreRecord(msgspec.Struct, frozen=True):
    """One state of one key. `revision` is that of the write that made it."""

    key: str
    revision: int
    document: bytes
    attributes: Any = None


Index = Callable[[str, bytes], Any]
"""(key, document) -> the record's `attributes`."""
Records = list[StoreRecord]  # for classes that have a method named `list`


class Damage(msgspec.Struct, frozen=True):
    """A damaged or missing row. `key` is empty if it is unknown."""

    key: str
    revision: int
    reason: str

    def __str__(self) -> str:
        whose = f' of "{repr(self.key)[1:-1]}"' if self.key else ""  # a damaged key may hold anything
        return f"revision {self.revision}{whose}: {self.reason}"


class EventType(enum.StrEnum):
    """What a write did; the value is a watch's word on the wire."""

    PUT_NEW = "ADDED"
    PUT = "MODIFIED"
    DELETE = "DELETED"


class StoreEvent(msgspec.Struct, frozen=True):
    """One write. `record` is the state after it, for DELETE the final state; `previous` is None for PUT_NEW. `frames`
    belongs to the readers of events: an encoding by one watcher can be sent by the next."""

    type: EventType
    record: StoreRecord
    previous: StoreRecord | None = None
    frames: dict[str, bytes] = {}  # msgspec gives every event its own empty dict

    @property
    def revision(self) -> int:
        return self.record.revision


def event_of(record: StoreRecord, previous: StoreRecord | None, *, deleted: bool) -> StoreEvent:
    if deleted:
        return StoreEvent(EventType.DELETE, record, previous)
    return StoreEvent(EventType.PUT_NEW if previous is None else EventType.PUT, record, previous)


def row_checksum(revision: Any, key: Any, previous: Any, follows: Any, deleted: Any, document: Any) -> int:
    """The checksum of a row. Takes whatever a damaged row holds; columns of a wrong type never match."""
    if not isinstance(document, bytes):
        return -1
    # The document's length ends the head: no byte can move from the key into the document unnoticed.
    head = f"{revision} {previous} {follows} {deleted} {len(document)} {key}\0"
    return crc32(document, crc32(head.encode("utf-8", "surrogateescape")))


def compaction_checksum(revision: Any, rows: Any, sealed: Any) -> int:
    return crc32(f"compaction {revision} {rows} {sealed}".encode())


def key_range(prefix: str) -> tuple[str, str]:
    """Bounds, both exclusive, of the keys under a prefix that ends in "/": "0" is the next character."""
    if not prefix.endswith("/"):
        raise ValueError(f'the prefix "{prefix}" must end in "/"')
    return prefix, prefix[:-1] + "0"


@dataclass(slots=True)
class _Bucket:
    keys: list[str] = field(default_factory=list)
    records: dict[str, StoreRecord] = field(default_factory=dict)


_NO_BUCKET: Final = _Bucket()


class State:
    """Records by key, and the revisions of the tombstones still in the log."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}
        self._tombstones: dict[str, int] = {}  # in the order of their revisions

    @classmethod
    def loaded(cls, records: Iterable[StoreRecord], tombstones: Mapping[str, int]) -> State:
        """The state of a loaded log: records sorted by key, tombstones in any order."""
        state = cls()
        for record in records:
            resource = resource_of(record.key)
            bucket = state._buckets.get(resource)
            if bucket is None:
                bucket = state._buckets[resource] = _Bucket()
            bucket.keys.append(record.key)
            bucket.records[record.key] = record
        state._tombstones.update(sorted(tombstones.items(), key=lambda item: item[1]))
        return state

    def get(self, key: str) -> StoreRecord | None:
        bucket = self._buckets.get(resource_of(key))
        return None if bucket is None else bucket.records.get(key)

    def list(self, prefix: str, *, after_key: str = "", limit: int = 0) -> Records:
        """The records under `prefix`, by key, after `after_key`; limit 0 is no limit."""
        bucket, low, high = self._find(prefix, after_key)
        if limit:
            high = min(high, low + limit)
        return [bucket.records[key] for key in bucket.keys[low:high]]

    def count(self, prefix: str) -> int:
        _, low, high = self._find(prefix, "")
        return high - low

    def head_of(self, key: str) -> int:
        """The revision of the key's newest row in the log, 0 if it has none."""
        record = self.get(key)
        return record.revision if record is not None else self._tombstones.get(key, 0)

    def put(self, record: StoreRecord) -> None:
        bucket = self._buckets.setdefault(resource_of(record.key), _Bucket())
        if record.key not in bucket.records:
            insort(bucket.keys, record.key)
            self._tombstones.pop(record.key, None)
        bucket.records[record.key] = record

    def bury(self, key: str, revision: int) -> None:
        """Remove a key whose newest row is a tombstone. Call in the order of the revisions."""
        bucket = self._buckets.get(resource_of(key))
        if bucket is not None and bucket.records.pop(key, None) is not None:
            del bucket.keys[bisect_left(bucket.keys, key)]
            if not bucket.keys:  # custom resources come and go
                del self._buckets[resource_of(key)]
        self._tombstones[key] = revision

    def forget_tombstones(self, revision: int) -> None:
        """Compaction has removed the tombstones up to `revision` from the log."""
        gone = []
        for key, buried_at in self._tombstones.items():
            if buried_at > revision:
                break
            gone.append(key)
        for key in gone:
            del self._tombstones[key]

    def _find(self, prefix: str, after_key: str) -> tuple[_Bucket, int, int]:
        """The bucket, and the bounds in its keys of those under `prefix` and after `after_key`."""
        low, high = key_range(prefix)
        bucket = self._buckets.get(resource_of(prefix), _NO_BUCKET)
        return bucket, bisect_right(bucket.keys, max(low, after_key)), bisect_left(bucket.keys, high)


def resource_of(key: str) -> str:
    return key.partition("/")[0]
