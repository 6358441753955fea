"""The store's objects, for admission.

Every new pod asks for its namespace and for all priority classes, every claim for the storage classes: few objects that
hardly change. Of these kinds admission takes words and numbers alone and never a part of the document, so one decoded
document serves all, for as long as its record is the newest, and goes with it. Documents of other kinds are decoded for
each that asks, who may build on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.apiserver.event_loop.workers import on_loop
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.store import Store, StoreRecord
from tonnage.store.state import resource_of

_SHARED: Final = frozenset(
    BY_PLURAL[named].store_prefix.rstrip("/")
    for named in (
        ("", "namespaces"),
        ("scheduling.k8s.io", "priorityclasses"),
        ("storage.k8s.io", "storageclasses"),
    )
)
_MAX_KEPT: Final = 1024
"""More are decoded each time: nobody has so many classes, and of namespaces few are busy at a time."""
_MAX_KEPT_BYTES: Final = 8 * 1024
"""Larger documents are not kept; classes and namespaces have a few hundred bytes."""


class StoreLister:
    """Reads the store on the loop, wherever admission runs."""

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
        """Let go of what was decoded of a record that is not the newest any more; its key may never come again."""
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
