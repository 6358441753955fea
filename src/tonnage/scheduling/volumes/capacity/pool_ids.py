"""Which capacity objects have pools in common, by the annotation `tonnage.dev/pool-ids`.

    object of class "fast"     availableCapacities: 100Gi,60Gi     pool-ids: ssd-1,ssd-2
    object of class "mixed"    availableCapacities: 60Gi,400Gi     pool-ids: ssd-2,hdd

Pools with one id are one pool if their objects are of one driver and one topology. Figures of one pool may differ while
an object is stale: the least counts. Objects are *connected* if they have a pool in common, or both have one in common
with a third.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from tonnage.keyed import Shelf
from tonnage.objects.meta import Key
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import POOL_IDS, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.volumes.capacity.pools import Topology, canonical, told_pools

Ids = tuple[str, ...]
_Place = tuple[str, Topology]
"""A driver and a topology."""


def problem_with_pool_ids(capacity: CSIStorageCapacity) -> str:
    """Why the ids of an object's pools cannot be used; empty if they can, or are missing."""
    return _read(capacity)[1]


def pool_ids_of(capacity: CSIStorageCapacity) -> Ids:
    """The ids of an object's pools, in the order of `told_pools`; empty if they are missing or cannot be used."""
    return _read(capacity)[0] if POOL_IDS in capacity.metadata.annotations else ()


def _read(capacity: CSIStorageCapacity) -> tuple[Ids, str]:
    text = capacity.metadata.annotations.get(POOL_IDS, "")
    ids, pools = tuple(each.strip() for each in text.split(",") if each.strip()), len(told_pools(capacity))
    if ids and len(ids) != pools:
        return (), f'{POOL_IDS}="{text}" has {len(ids)} ids, and the object {pools} pools; write one id for each pool'
    if len(set(ids)) != len(ids):
        return (), f'{POOL_IDS}="{text}" names a pool twice; write one id for each pool'
    return ids, ""


class PoolIds:
    """The capacity objects with ids, by driver and topology."""

    def __init__(self, storage: Storage) -> None:
        self.on_change: list[Callable[[Collection[str]], None]] = []
        """Called with classes that have pools in common now and had none before, or the other way round."""
        self.links: Counter[tuple[str, str]] = Counter()
        """Pairs of classes, by how many pairs of their objects have pools in common."""
        self.touched: set[Key] = set()
        """Objects whose connections may differ since somebody emptied this."""
        self._storage = storage
        self._ids: dict[Key, tuple[_Place, Ids]] = {}
        self._at: Shelf[_Place, Key, CSIStorageCapacity] = Shelf()
        for capacity in storage.capacities.values():
            self._capacity_changed(None, capacity)
        storage.on_change(CSIStorageCapacity, self._capacity_changed)
        storage.on_change(StorageClass, self._class_changed)

    def linked_with(self, class_name: str) -> Iterator[str]:
        """The classes that have pools in common with this one, somewhere."""
        for one, other in self.links:
            if class_name in (one, other):
                yield other if one == class_name else one

    def connected(self, capacity: CSIStorageCapacity) -> Sequence[CSIStorageCapacity]:
        """The object and all that are connected with it, ordered by class and key; empty if it has no ids."""
        known = self._ids.get(capacity.key)
        if known is None:
            return ()
        place, ids = known
        left = dict(self._at.at(place))
        found, pools = [left.pop(capacity.key)], set(ids)
        while more := [each for key, each in left.items() if not pools.isdisjoint(self._ids[key][1])]:
            for each in more:
                pools.update(self._ids[each.key][1])
                found.append(left.pop(each.key))
        return sorted(found, key=lambda each: (each.storage_class_name, each.key))

    def least_of(self, objects: Sequence[CSIStorageCapacity]) -> dict[str, int]:
        """Free bytes by pool, the least that one of the objects tells."""
        found: dict[str, int] = {}
        for capacity in objects:
            for pool, free in zip(pool_ids_of(capacity), told_pools(capacity), strict=True):
                found[pool] = min(free, found.get(pool, free))
        return found

    # -- storage events -----------------------------------------------------------------------------------------------

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        ids = pool_ids_of(new) if new is not None else ()
        known = self._ids.get(new.key) if new is not None else None
        if new is not None and ids and known == (self._place(new), ids):
            self._at.put(known[0], new.key, new)  # other figures of the same pools
            return
        before = set(self.links)
        if old is not None and old.key in self._ids:
            self.touched.update(capacity.key for capacity in self.connected(old))
            self._take(old)
        if new is not None and ids and new.node_topology is not None:
            self._put(new, ids)
            self.touched.update(capacity.key for capacity in self.connected(new))
        self._tell(before)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """A class of another driver has other pools."""
        changed = old if new is None else new
        if changed is None or (old is not None and new is not None and old.provisioner == new.provisioner):
            return
        before = set(self.links)
        for capacity in [each for each in self._storage.capacities.values() if each.storage_class_name == changed.name]:
            if capacity.key in self._ids:
                _, ids = self._ids[capacity.key]
                self.touched.update(capacity.key for capacity in self.connected(capacity))
                self._take(capacity)
                self._put(capacity, ids)
                self.touched.update(capacity.key for capacity in self.connected(capacity))
        self._tell(before)

    def _place(self, capacity: CSIStorageCapacity) -> _Place:
        of_class = self._storage.classes.get(capacity.storage_class_name)
        driver = of_class.provisioner if of_class is not None else f"class {capacity.storage_class_name}"
        return driver, canonical(capacity.node_topology or LabelSelector())

    def _put(self, capacity: CSIStorageCapacity, ids: Ids) -> None:
        place = self._place(capacity)
        self.links.update(self._pairs(capacity, place, ids))
        self._ids[capacity.key] = place, ids
        self._at.put(place, capacity.key, capacity)

    def _take(self, capacity: CSIStorageCapacity) -> None:
        place, ids = self._ids.pop(capacity.key)
        self._at.take(place, capacity.key)
        self.links.subtract(self._pairs(capacity, place, ids))
        self.links = +self.links

    def _pairs(self, capacity: CSIStorageCapacity, place: _Place, ids: Ids) -> list[tuple[str, str]]:
        """The pairs of this object's class with others that have pools in common with it."""
        found = []
        for key, other in self._at.at(place).items():
            one, two = sorted((capacity.storage_class_name, other.storage_class_name))
            if one != two and not set(ids).isdisjoint(self._ids[key][1]):
                found.append((one, two))
        return found

    def _tell(self, before: set[tuple[str, str]]) -> None:
        names = {name for pair in before ^ set(self.links) for name in pair}
        for changed in self.on_change if names else ():
            changed(names)
