"""Admission's view of the server: the store's objects, and the quotas it charges.

Quotas are charged before an object is stored, so that two concurrent requests cannot both take the last of it. All
quotas of the namespace are checked first, then each is written with the store's optimistic lock; a refusal half-way, or
an object that is not stored after all, gives everything back. Upstream: the admission plugin ResourceQuota. The rules
are in `documents/kinds/resource_quota.py`; `controllers/namespaces.py` counts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tonnage.apiserver import event_loop
from tonnage.apiserver.stored_documents import encoder
from tonnage.clock import Clock
from tonnage.documents import api_errors
from tonnage.documents.kinds.resource_quota import charge, is_counted, may_use_more, with_used
from tonnage.documents.validation.resources import Amounts
from tonnage.errors import ApiError
from tonnage.keyed import KeyedLocks
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.store.errors import KeyMissing, StaleRevision
from tonnage.store.records import StoreRecord
from tonnage.store.store import Store

_QUOTAS = BY_PLURAL["", "resourcequotas"]
_TRIES = 16


Charge = tuple[str, Amounts]
"""The key of a quota's record, and the amounts charged to it."""


class QuotaAdmission:
    def __init__(self, store: Store, clock: Clock, workers: event_loop.Workers) -> None:
        self._store = store
        self._work = workers.work
        self._clock = clock
        self._locks = KeyedLocks()

    async def charge(
        self, resource: Resource, new: Doc, old: Doc | None = None, *, dry_run: bool = False, is_large: bool = False
    ) -> tuple[Charge, ...]:
        """Charge every quota that covers an object, before it is written. Raises Forbidden, and then charges none."""
        namespace = new["metadata"].get("namespace", "")
        prefix = f"{_QUOTAS.store_prefix}{namespace}/"
        if not is_counted(resource) or not self._store.count(prefix):
            return ()
        if old is not None and not may_use_more(resource, new, old):
            return ()
        for record in self._store.list(prefix):
            await self._judge(record, resource, new, old, is_large)
        charged: list[Charge] = []
        if not dry_run:
            async with self._locks.hold(namespace):
                try:
                    for record in self._store.list(prefix):
                        amounts = await self._charge_one(record.key, resource, new, old, is_large)
                        if amounts:
                            charged.append((record.key, amounts))
                except ApiError:
                    for key, amounts in charged:
                        await self._give_back(key, amounts)
                    raise
        return tuple(charged)

    async def release(self, charges: tuple[Charge, ...]) -> None:
        """Give back the charges of an object that is not stored after all."""
        for key, amounts in charges:
            async with self._locks.hold(key.split("/")[1]):
                await self._give_back(key, amounts)

    async def _judge(
        self, record: StoreRecord, resource: Resource, new: Doc, old: Doc | None, is_large: bool
    ) -> tuple[Doc, Amounts]:
        def judged() -> tuple[Doc, Amounts]:
            quota = decode(record.document)
            return quota, charge(quota, resource, new, old, self._clock.now())

        return await self._work(is_large or event_loop.is_large(record.document), judged)

    async def _charge_one(self, key: str, resource: Resource, new: Doc, old: Doc | None, is_large: bool) -> Amounts:
        for _ in range(_TRIES):
            record = self._store.get(key)
            if record is None:
                return {}
            quota, amounts = await self._judge(record, resource, new, old, is_large)
            if not amounts:
                return {}
            try:
                await self._store.update(key, encoder(_QUOTAS, with_used(quota, amounts)), expected=record.revision)
            except (StaleRevision, KeyMissing):
                continue
            return amounts
        raise api_errors.modified(_QUOTAS, key.rpartition("/")[2])

    async def _give_back(self, key: str, amounts: Amounts) -> None:
        """Best effort: the controller counts again in any case."""
        for _ in range(_TRIES):
            record = self._store.get(key)
            if record is None:
                return
            quota = with_used(decode(record.document), amounts, is_release=True)
            with suppress(StaleRevision, KeyMissing):
                await self._store.update(key, encoder(_QUOTAS, quota), expected=record.revision)
                return


class StoreLister:
    """Reads the store on the loop, from any thread in which admission runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, resource: Resource, name: str, namespace: str = "") -> Doc | None:
        key = resource.key(namespace, name)
        record = event_loop.on_loop(lambda: self._store.get(key))
        return decode(record.document) if record is not None else None

    def list(self, resource: Resource, namespace: str = "") -> Iterator[Doc]:
        prefix = f"{resource.store_prefix}{namespace}/" if namespace else resource.store_prefix
        return (decode(record.document) for record in event_loop.on_loop(lambda: self._store.list(prefix)))
