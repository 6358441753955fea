"""What readers see: the newest durable state of every key, in memory.

One bucket per resource (the first segment of the key) keeps records and sorted keys, so listing a namespace costs only
its own rows. Of a tombstone only the revision is kept: the next create of the key names it as its predecessor. Only the
event loop's thread touches this, and only after the write is on disk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tonnage.store.log import key_range
from tonnage.store.records import Records, StoreRecord


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
