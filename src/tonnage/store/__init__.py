"""The store: revisions of opaque documents in one SQLite file, durable before they are acknowledged.

`Store` is the whole interface (`store.py` has the picture). All it knows of Kubernetes is that a key starts with its
resource.
"""

from tonnage.store.check import Report, back_up, check_folder
from tonnage.store.errors import (
    FenceBroken,
    KeyDamaged,
    KeyExists,
    KeyMissing,
    RevisionCompacted,
    RevisionInFuture,
    StaleRevision,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreRemoved,
    WatchClosed,
    WatchOverrun,
)
from tonnage.store.health import StoreHealth
from tonnage.store.options import KEEP_BYTES, KEEP_REVISIONS, KEEP_S, StoreOptions
from tonnage.store.records import Damage, EventType, StoreEvent, StoreRecord
from tonnage.store.store import Store
from tonnage.store.watch import Watch

__all__ = [
    "KEEP_BYTES",
    "KEEP_REVISIONS",
    "KEEP_S",
    "Damage",
    "EventType",
    "FenceBroken",
    "KeyDamaged",
    "KeyExists",
    "KeyMissing",
    "Report",
    "RevisionCompacted",
    "RevisionInFuture",
    "StaleRevision",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreEvent",
    "StoreFull",
    "StoreHealth",
    "StoreOptions",
    "StoreRecord",
    "StoreRemoved",
    "Watch",
    "WatchClosed",
    "WatchOverrun",
    "back_up",
    "check_folder",
]
