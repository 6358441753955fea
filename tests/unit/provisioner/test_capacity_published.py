"""Which capacity objects are ours, also in the moment between a write and the informer's word of it."""

from __future__ import annotations

from typing import Any

from tonnage.client.cache import Cache
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.provisioner.capacity.controller import PublishedCapacities
from tonnage.provisioner.capacity.objects import key_of
from tonnage.testing.storage_builders import capacity

HERE = {"matchLabels": {"node": "node-1"}}
KEY = "pools/node=node-1"


def found(name: str, free: str = "1Gi", *, version: int, **metadata: Any) -> CSIStorageCapacity:
    return capacity(
        "pools", free=free, name=name, topology=HERE, metadata={"resourceVersion": str(version), **metadata}
    )


def rig() -> tuple[Cache[CSIStorageCapacity], PublishedCapacities]:
    cache = Cache(CSIStorageCapacity)
    return cache, PublishedCapacities(cache)


def test_what_we_made_counts_before_the_informer_shows_it():
    cache, published = rig()
    made = found("one", version=5)
    published.note(made)
    assert published.about(KEY) == [made] and not published.is_confirmed(made)
    cache.put(made)
    assert published.about(KEY) == [made] and published.is_confirmed(made)


def test_an_older_state_that_the_informer_tells_late_does_not_undo_our_write():
    cache, published = rig()
    cache.put(found("one", "1Gi", version=5))
    written = found("one", "2Gi", version=7)
    published.note(written)
    cache.put(found("one", "3Gi", version=6))
    assert published.about(KEY) == [written]
    newest = found("one", "4Gi", version=8)
    cache.put(newest)
    assert published.about(KEY) == [newest]


def test_versions_are_compared_as_numbers():
    _, published = rig()
    published.note(found("one", "1Gi", version=9))
    newer = found("one", "2Gi", version=10)
    published.note(newer)
    assert published.about(KEY) == [newer]


def test_what_is_deleted_is_gone_and_its_successor_of_the_same_name_is_another():
    cache, published = rig()
    cache.put(found("one", version=5, uid="first"))
    again = found("one", version=6, uid="second")
    cache.put(again)
    assert published.about(KEY) == [again]
    cache.remove(again.key)
    assert published.about(KEY) == [] and KEY not in published


def test_one_of_the_same_name_from_before_does_not_confirm_what_we_made():
    cache, published = rig()
    cache.put(found("one", version=5, uid="first"))
    made = found("one", version=6, uid="second")
    published.note(made)
    assert not published.is_confirmed(made)


def test_of_several_the_oldest_is_first_and_of_equally_old_ones_the_first_by_name():
    cache, published = rig()
    early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    for name, created in (("c", early), ("a", late), ("b", early)):
        cache.put(found(name, version=1, creationTimestamp=created))
    assert [each.name for each in published.about(KEY)] == ["b", "c", "a"]


def test_one_that_is_being_deleted_does_not_count():
    cache, published = rig()
    cache.put(found("one", version=5, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert published.about(KEY) == []


def test_objects_are_told_apart_by_what_they_answer():
    cache, published = rig()
    other = capacity("gold", free="1Gi", name="two", topology=HERE)
    cache.put(found("one", version=5))
    cache.put(other)
    assert sorted(published) == ["gold/node=node-1", KEY]
    assert published.about(key_of(other)) == [other]
