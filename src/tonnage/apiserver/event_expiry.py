"""Events are deleted --event-ttl after they were last written, as kube-apiserver's are.

An age is measured from when the event was first seen here: setting the machine's clock neither drops events nor keeps
them. etcd's leases are the same.
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
from tonnage.store import StoreError, StoreRecord

EVENT_TTL_S: Final = 3600.0
"""kube-apiserver's default."""
_EVERY_S: Final = 30.0
_AT_A_TIME: Final = 64
"""So many are looked at before others have a turn, and deleted by one commit: one by one, each with its own, they would
go more slowly than a busy cluster makes them."""
_EVENT: Final = BY_KIND["v1", "Event"]
_TIMES: Final = (
    ("metadata", "creationTimestamp"), ("eventTime",), ("lastTimestamp",), ("series", "lastObservedTime")
)  # fmt: skip


class EventExpiry:
    """Deletes events that are older than `ttl_s`. Remembers since when each is there, by its revision."""

    def __init__(self, registry: Registry, clock: Clock, ttl_s: float) -> None:
        self._store = registry.store
        self._clock = clock
        self._ttl_s = ttl_s
        self._written_s: dict[str, tuple[int, float]] = {}
        """By key: the revision, and when that was written, in the clock's monotonic seconds."""

    async def run(self) -> None:
        """Look every 30 seconds, until cancelled."""
        while True:
            await self._clock.sleep(_EVERY_S)
            await self.look()

    async def look(self) -> int:
        """Delete those whose time is over; how many they were."""
        now_s, gone = self._clock.monotonic(), 0
        records = self._store.list(_EVENT.store_prefix)
        known = {record.key for record in records}
        self._written_s = {key: found for key, found in self._written_s.items() if key in known}
        for start in range(0, len(records), _AT_A_TIME):
            await asyncio.sleep(0)
            batch = records[start : start + _AT_A_TIME]
            over = [each for each in batch if now_s - self._written(each, now_s) >= self._ttl_s]
            gone += sum(await asyncio.gather(*map(self._delete, over)))
        return gone

    async def _delete(self, record: StoreRecord) -> bool:
        """Delete an event. False when it was written again or is gone meanwhile, or the disk refuses: another time."""
        try:
            await self._store.delete(record.key, encoder(_EVENT, decode(record.document)), expected=record.revision)
        except StoreError:
            return False
        return True

    def _written(self, record: StoreRecord, now_s: float) -> float:
        """When an event was last written, as far as it says; one that says nothing, or the future, is new now."""
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
