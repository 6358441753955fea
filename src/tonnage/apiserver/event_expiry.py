"""Events are deleted --event-ttl after they were last written, as kube-apiserver's are.

Ages are measured from when this server first saw the event, so setting the system clock neither deletes nor keeps
events. etcd's leases do the same.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from tonnage.apiserver.registry import Registry
from tonnage.apiserver.stored_documents import encoder
from tonnage.clock import Clock, parse_rfc3339
from tonnage.errors import TonnageError
from tonnage.objects.document import decode, dig
from tonnage.objects.resources import BY_KIND
from tonnage.store.errors import StoreError
from tonnage.store.records import StoreRecord

EVENT_TTL_S: Final = 3600.0
"""kube-apiserver's default."""
_EVERY_S: Final = 30.0
_AT_A_TIME: Final = 64
"""Events checked before other tasks get a turn, and deleted in one commit: one commit each would be slower than a busy
cluster creates them."""
_EVENT: Final = BY_KIND["v1", "Event"]
_TIMES: Final = (
    ("metadata", "creationTimestamp"), ("eventTime",), ("lastTimestamp",), ("series", "lastObservedTime")
)  # fmt: skip


class EventExpiry:
    """Deletes events older than `ttl_s`. Remembers the age of every revision."""

    def __init__(self, registry: Registry, clock: Clock, ttl_s: float) -> None:
        self._store = registry.store
        self._clock = clock
        self._ttl_s = ttl_s
        self._written_s: dict[str, tuple[int, float]] = {}
        """By key: the revision, and when it was written, in the clock's monotonic seconds."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            await self.look()

    async def look(self) -> int:
        """Delete expired events. Returns how many."""
        now_s, gone = self._clock.monotonic(), 0
        records = self._store.list(_EVENT.store_prefix)
        known = {record.key for record in records}
        self._written_s = {key: found for key, found in self._written_s.items() if key in known}
        for start in range(0, len(records), _AT_A_TIME):
            await asyncio.sleep(0)
            batch = records[start : start + _AT_A_TIME]
            over = [store_record for store_record in batch if now_s - self._written(store_record, now_s) >= self._ttl_s]
            gone += sum(await asyncio.gather(*map(self._delete, over)))
        return gone

    async def _delete(self, record: StoreRecord) -> bool:
        """Delete an event. False if it was written again or deleted meanwhile, or the disk refuses: retried later."""
        try:
            await self._store.delete(record.key, encoder(_EVENT, decode(record.document)), expected=record.revision)
        except StoreError:
            return False
        return True

    def _written(self, record: StoreRecord, now_s: float) -> float:
        """When an event was last written, by its own times; without one, or with one in the future, now."""
        found = self._written_s.get(record.key)
        if found is None or found[0] != record.revision:
            now = self._clock.now()
            found = (record.revision, now_s - (now - _last_time(record.document, now)).total_seconds())
            self._written_s[record.key] = found
        return found[1]


def _last_time(document: bytes, now: datetime) -> datetime:
    """The latest time in an event that is not in the future; `now` when there is none."""
    times = []
    with suppress(msgspec.MsgspecError):
        event = decode(document)
        for path in _TIMES:
            with suppress(TonnageError, ValueError, TypeError):
                times.append(parse_rfc3339(dig(event, *path)))
    return max((time for time in times if time <= now), default=now)
