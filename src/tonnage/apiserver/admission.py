"""What the server hands to admission: the store's objects, and the quotas it charges.

Quotas are charged before an object is stored, so that two that come at once cannot both have the last of it. Every
quota of the namespace is judged first, then each is written with the store's optimistic lock; a refusal half-way, or an
object that could not be stored after all, gives everything back. Upstream: the admission plugin ResourceQuota. The
rules are `documents/quota.py`; the controller counts anew (`controllers/namespaces/resource_quotas.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from tonnage.apiserver import event_loop
from tonnage.apiserver.event_loop import on_loop
from tonnage.apiserver.stored_documents import encoder
from tonnage.clock import Clock
from tonnage.documents import api_errors
from tonnage.documents.pod_resources import Amounts
from tonnage.documents.quota import charge, is_counted, may_use_more, with_used
from tonnage.errors import ApiError
from tonnage.keyed import KeyedLocks
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.store import KeyMissing, StaleRevision, Store, StoreRecord
from tonnage.store.state import resource_of

_QUOTAS = BY_PLURAL["", "resourcequotas"]
_TRIES = 16


T = TypeVar("T")


class Work(Protocol):
    """Works something out at once, or beside the loop when it is large."""

    async def __call__(self, is_large: bool, work: Callable[[], T], /) -> T: ...


@dataclass(frozen=True, slots=True)
class Charge:
    """What was charged to one quota, by the key of its record."""

    key: str
    amounts: Amounts


class QuotaAdmission:
    """Charges the quotas of one store."""

    def __init__(self, store: Store, clock: Clock, work: Work) -> None:
        self._store = store
        self._work = work
        self._clock = clock
        self._locks = KeyedLocks()

    async def charge(
        self, resource: Resource, new: Doc, old: Doc | None = None, *, dry_run: bool = False, is_large: bool = False
    ) -> tuple[Charge, ...]:
        """Charge every quota that is about an object, before it is written. Raises Forbidden, and then charges none."""
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
                            charged.append(Charge(record.key, amounts))
                except ApiError:
                    for made in charged:
                        await self._give_back(made)
                    raise
        return tuple(charged)

    async def release(self, charges: tuple[Charge, ...]) -> None:
        """Give back what an object was charged that is not stored after all."""
        for made in charges:
            async with self._locks.hold(made.key.split("/")[1]):
                await self._give_back(made)

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

    async def _give_back(self, charge: Charge) -> None:
        """Best effort: the controller counts anew in any case."""
        for _ in range(_TRIES):
            record = self._store.get(charge.key)
            if record is None:
                return
            quota = with_used(decode(record.document), charge.amounts, is_release=True)
            with suppress(StaleRevision, KeyMissing):
                await self._store.update(charge.key, encoder(_QUOTAS, quota), expected=record.revision)
                return


_SHARED: Final = frozenset({"namespaces", "priorityclasses.scheduling.k8s.io", "storageclasses.storage.k8s.io"})
"""Every new pod or claim asks for objects of these kinds, which are few and hardly change. Admission takes words and
numbers alone from them and never a part of the document, so one decoded document serves all."""
_MAX_KEPT: Final = 1024
"""More are decoded each time: nobody has so many classes, and of namespaces few are busy at a time."""
_MAX_KEPT_BYTES: Final = 8 * 1024
"""Larger documents are not kept; classes and namespaces have a few hundred bytes."""


class StoreLister:
    """Reads the store on the loop, wherever admission runs. Keeps decoded documents while their records are newest."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, tuple[StoreRecord, Doc]] = {}
        for resource in _SHARED:
            store.follow(f"{resource}/", self._forget)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Doc | None:
        key = resource.key(namespace, name)
        record = on_loop(lambda: self._store.get(key))
        return None if record is None else self._decoded(record)

    def list(self, resource: Resource, namespace: str = "") -> Iterator[Doc]:
        prefix = f"{resource.store_prefix}{namespace}/" if namespace else resource.store_prefix
        for record in on_loop(lambda: self._store.list(prefix)):
            yield self._decoded(record)

    def _forget(self, record: StoreRecord, *, is_deleted: bool) -> None:
        self._kept.pop(record.key, None)

    def _decoded(self, record: StoreRecord) -> Doc:
        if resource_of(record.key) not in _SHARED or len(record.document) > _MAX_KEPT_BYTES:
            doc: Doc = decode(record.document)
            return doc
        kept = self._kept.get(record.key)
        if kept is not None and kept[0] is record:
            return kept[1]
        doc = decode(record.document)
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[record.key] = (record, doc)
        return doc
