"""Everything known about storage: kept by key, told to listeners after it is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.storage import STORAGE_KINDS, Storage
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import attachment, capacity, claim, csi_node, driver, storage_class, volume

EVERY_KIND: list[Object] = [
    storage_class("fast"),
    driver("csi.example"),
    csi_node("a", {"csi.example": 3}),
    capacity("fast", "a", "1Gi"),
    attachment("att-1", "pv-1", "a"),
    claim("data"),
    volume("pv-1"),
]


def kept(storage: Storage) -> dict[str, Object | None]:
    found: dict[str, Any] = {}
    for by_key in (storage.classes, storage.drivers, storage.csi_nodes, storage.capacities, storage.attachments):
        found |= by_key
    return found | {each.key: each for each in (*storage.claims, *storage.volumes)}


def test_every_kind_is_kept_by_its_key_and_goes_when_it_is_removed():
    assert {type(each) for each in EVERY_KIND} == set(STORAGE_KINDS)
    storage = Storage()
    for each in EVERY_KIND:
        storage.put(each)
    assert kept(storage) == {each.key: each for each in EVERY_KIND}
    assert "kube-system/fast-a" in storage.capacities and "default/data" in kept(storage)
    for each in EVERY_KIND:
        storage.remove(each)
    assert kept(storage) == {}


def test_listeners_are_told_of_their_kind_with_what_was_before():
    storage = Storage()
    told: list[tuple[str, object, object]] = []

    def listener(name: str) -> Callable[[Any, Any], None]:
        return lambda old, new: told.append((name, old, new))

    for kind in STORAGE_KINDS:
        storage.on_change(kind, listener(kind.__name__))
    for each in EVERY_KIND:
        name = type(each).__name__
        storage.put(each)
        storage.put(each)
        storage.remove(each)
        storage.remove(each)  # known no more: nothing to tell
        assert told == [(name, None, each), (name, each, each), (name, each, None)]
        told.clear()


def test_a_removal_is_told_with_the_object_as_it_was_known():
    storage = Storage()
    known = capacity("fast", "a", "9Gi")
    storage.put(known)
    told: list[CSIStorageCapacity | None] = []
    storage.on_change(CSIStorageCapacity, lambda old, new: told.append(old))
    storage.remove(capacity("fast", "a"))  # the informer's last word may be older or younger
    assert told == [known]


def test_an_object_is_kept_before_its_listeners_hear_of_it():
    storage = Storage()
    seen: list[bool] = []
    storage.on_change(StorageClass, lambda old, new: seen.append("fast" in storage.classes))
    storage.put(storage_class("fast"))
    storage.remove(storage_class("fast"))
    assert seen == [True, False]


def test_what_is_assumed_of_claims_and_volumes_is_told_as_well():
    storage = Storage()
    told: list[str] = []
    storage.on_change(PersistentVolumeClaim, lambda old, new: told.append(new.selected_node if new else "-"))
    storage.on_change(PersistentVolume, lambda old, new: told.append(new.status.phase if new else "-"))
    storage.put(claim("data", metadata={"resourceVersion": "1"}))
    storage.claims.assume(claim("data", selected_node="a", metadata={"resourceVersion": "1"}))
    storage.claims.restore("default/data")
    storage.put(volume("pv"))
    storage.volumes.assume(volume("pv", claim="default/data"))
    assert told == ["", "a", "", "Available", "Bound"]


@pytest.mark.parametrize("other", [node("a"), pod("web")])
def test_other_kinds_are_none_of_its_business(other: Object):
    with pytest.raises(TypeError, match=f"{type(other).__name__} is not a kind of storage"):
        Storage().put(other)
    with pytest.raises(TypeError, match=f"{type(other).__name__} is not a kind of storage"):
        Storage().remove(other)


def test_a_cluster_has_one_storage_and_one_index_of_a_kind():
    class Index:
        """Something kept beside a cluster."""

    cluster, index = Cluster(), Index()
    with pytest.raises(LookupError, match="no Index is kept for this cluster"):
        cluster.index(Index)
    cluster.add_index(index)
    assert cluster.index(Index) is index and cluster.has_index(Index) and not Cluster().has_index(Index)
    with pytest.raises(ValueError, match="this cluster has a Index already"):
        cluster.add_index(Index())
    assert cluster.storage is not Cluster().storage
