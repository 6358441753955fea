"""What the store returns: a record is one state of one key, an event the step from one state to the next. Both are
frozen and shared by readers and watchers.

A row's checksum is CRC-32 over every column, including revision and key, so it also catches a document under another
key, a row under another number, and a tombstone come back to life. It is not a signature: a cryptographic hash would
cost the writing thread three times as much, and that thread competes with the event loop.
"""

from __future__ import annotations

import enum
from typing import Any
from zlib import crc32

import msgspec


class StoreRecord(msgspec.Struct, frozen=True):
    """One state of one key. `revision` is that of the write that made it."""

    key: str
    revision: int
    document: bytes
    attributes: Any = None


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
