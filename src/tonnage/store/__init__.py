"""The store: revisions of opaque documents in one SQLite file, durable before they are acknowledged.

`Store` is the whole interface (`store.py` has the picture), `Record` and `Event` are what it hands out, `Watch` is
how one follows it, and `errors.py` is what can go wrong. It knows nothing of Kubernetes but that a key starts with
its resource.

    store = await Store.open(Path("data/store"))
    record = await store.create("nodes/node-1", lambda revision: b"...")
    watch = store.watch("nodes/", after=record.revision)
"""

from tonnage.store.errors import (
    FenceBroken,
    KeyExists,
    KeyMissing,
    RevisionCompacted,
    RevisionInFuture,
    StaleRevision,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreInUse,
    StoreIOError,
    StoreNoPermission,
    StoreNotADirectory,
    StoreTooNew,
    WatchClosed,
    WatchOverrun,
    WriteRefused,
)
from tonnage.store.records import Event, EventType, Record
from tonnage.store.store import Store
from tonnage.store.watch import Watch

__all__ = [
    "Event",
    "EventType",
    "FenceBroken",
    "KeyExists",
    "KeyMissing",
    "Record",
    "RevisionCompacted",
    "RevisionInFuture",
    "StaleRevision",
    "Store",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreForeign",
    "StoreFull",
    "StoreIOError",
    "StoreInUse",
    "StoreNoPermission",
    "StoreNotADirectory",
    "StoreTooNew",
    "Watch",
    "WatchClosed",
    "WatchOverrun",
    "WriteRefused",
]
