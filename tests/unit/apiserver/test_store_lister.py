"""Objects that admission reads: always the newest, decoded for whoever asks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tonnage.apiserver.admission import StoreLister
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.store.store import Store

CLASSES = BY_PLURAL["scheduling.k8s.io", "priorityclasses"]
LIMITS = BY_PLURAL["", "limitranges"]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "store")
    yield opened
    await opened.close()


async def put(store: Store, resource: Resource, namespace: str, name: str, doc: Doc, expected: int = 0) -> int:
    key = resource.key(namespace, name)
    if expected:
        return (await store.update(key, lambda revision: encode(doc), expected=expected)).revision
    return (await store.create(key, lambda revision: encode(doc))).revision


async def test_a_changed_class_is_seen_at_once_and_a_deleted_one_is_gone(store: Store) -> None:
    lister = StoreLister(store)
    assert lister.get(CLASSES, "high") is None
    first = await put(store, CLASSES, "", "high", {"value": 1})
    assert lister.get(CLASSES, "high") == {"value": 1}
    second = await put(store, CLASSES, "", "high", {"value": 2}, expected=first)
    assert lister.get(CLASSES, "high") == {"value": 2}
    assert list(lister.list(CLASSES)) == [{"value": 2}]
    await store.delete(CLASSES.key("", "high"), lambda revision: encode({"value": 2}), expected=second)
    assert lister.get(CLASSES, "high") is None
    assert list(lister.list(CLASSES)) == []
    await put(store, CLASSES, "", "high", {"value": 3})
    assert list(lister.list(CLASSES)) == [{"value": 3}]


async def test_a_document_that_others_build_on_is_decoded_for_each(store: Store) -> None:
    lister = StoreLister(store)
    await put(store, LIMITS, "shop", "all", {"spec": {"limits": []}})
    one = next(iter(lister.list(LIMITS, "shop")))
    one["spec"]["limits"].append("mine")
    assert list(lister.list(LIMITS, "shop")) == [{"spec": {"limits": []}}]
    assert list(lister.list(LIMITS, "other")) == []
