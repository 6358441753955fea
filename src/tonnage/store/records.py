"""What the store hands out: a record is one state of one key, an event is the step from one state to the next.

Both are frozen and shared: a reader of `list`, the recent events and a hundred watchers may all hold the same object,
so nobody may change one. The document is opaque here; `attributes` is whatever the store's owner wanted to know about
it (labels, fields to select by), computed once by the function given to `Store.open`. Read next: `store.py`.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec


class StoreRecord(msgspec.Struct, frozen=True):
    """One state of one key. `revision` is that of the write that made it."""

    key: str
    revision: int
    document: bytes
    attributes: Any = None


Records = list[StoreRecord]  # for classes that have a method named `list`


class Damage(msgspec.Struct, frozen=True):
    """A row that is not what was written, or is not there. `key` is empty when whose it was cannot be said."""

    key: str
    revision: int
    reason: str

    def __str__(self) -> str:
        whose = f' of "{repr(self.key)[1:-1]}"' if self.key else ""  # a damaged key may hold anything
        return f"revision {self.revision}{whose}: {self.reason}"


class EventType(enum.StrEnum):
    """What a write did, with the word a watch puts on the wire as its value."""

    PUT_NEW = "ADDED"
    PUT = "MODIFIED"
    DELETE = "DELETED"


class StoreEvent(msgspec.Struct, frozen=True):
    """One write: `record` is the state after it; for DELETE the final state, with the revision of the deletion.

    `previous` is the state before, None for PUT_NEW. `frames` starts empty and belongs to the readers of events: what
    one watcher encoded, the next one can send as it is.
    """

    type: EventType
    record: StoreRecord
    previous: StoreRecord | None = None
    frames: dict[str, bytes] = {}  # msgspec gives every event an empty dict of its own

    @property
    def revision(self) -> int:
        return self.record.revision


def event_of(record: StoreRecord, previous: StoreRecord | None, *, deleted: bool) -> StoreEvent:
    """The event that led to `record` from the live state `previous`."""
    if deleted:
        return StoreEvent(EventType.DELETE, record, previous)
    return StoreEvent(EventType.PUT_NEW if previous is None else EventType.PUT, record, previous)
