"""Which classes share pools, and which capacity objects are siblings (docs/decisions/010).

`tonnage.dev/capacity-group: NAME`: classes of one driver with this name share all their disks. Their capacity objects
with the same `nodeTopology` are *siblings*: a hold on one is a hold on all, and their claims are packed together
(`class_capacity.py`). `tonnage.dev/pool-ids` on objects says which pools are common, and goes before the group where
both objects have ids (`SharedRooms`). A *family* is all classes that are connected in either way.

    object of class "fast"     availableCapacities: 100Gi,60Gi     pool-ids: ssd-1,ssd-2
    object of class "mixed"    availableCapacities: 60Gi,400Gi     pool-ids: ssd-2,hdd

Pools with one id are one pool if their objects are of one driver and one topology. Figures of one pool may differ while
an object is stale: the least counts. Objects are *connected* if they have a pool in common, or both have one in common
with a third.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tonnage import keyed, logs
from tonnage.objects.meta import Key
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import CAPACITY_GROUP, POOL_IDS, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.storage import Storage, either
from tonnage.scheduling.volumes.capacity.pools import Topology, canonical, told_pools

_log = logs.logger("tonnage.scheduling")


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
        self._at: keyed.Shelf[_Place, Key, CSIStorageCapacity] = keyed.Shelf()
        for capacity in storage.capacities.values():
            self._write(capacity.key, capacity)
        storage.on_change(CSIStorageCapacity, lambda old, new: self._write(either(old, new).key, new))
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

    def _write(self, key: Key, new: CSIStorageCapacity | None) -> None:
        """Note the ids of an object that came or changed, or whose class did; None if it is gone."""
        ids = pool_ids_of(new) if new is not None and new.node_topology is not None else ()
        known, now = self._ids.get(key), (self._place(new), ids) if new is not None and ids else None
        if new is not None and now is not None and now == known:
            self._at.put(now[0], key, new)  # other figures of the same pools
            return
        before = set(self.links)
        if known is not None:
            place = known[0]
            self.touched.update(capacity.key for capacity in self.connected(self._at.at(place)[key]))
            self.links.subtract(self._pairs(key))
            del self._ids[key]
            self._at.take(place, key)
        if new is not None and now is not None:
            self._ids[key] = now
            self._at.put(now[0], key, new)
            self.links.update(self._pairs(key))
            self.touched.update(capacity.key for capacity in self.connected(new))
        self.links = +self.links
        names = {name for pair in before ^ set(self.links) for name in pair}
        for changed in self.on_change if names else ():
            changed(names)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """A class of another driver has other pools."""
        name = either(old, new).name
        for capacity in [each for each in self._storage.capacities.values() if each.storage_class_name == name]:
            self._write(capacity.key, capacity)

    def _place(self, capacity: CSIStorageCapacity) -> _Place:
        of_class = self._storage.classes.get(capacity.storage_class_name)
        driver = of_class.provisioner if of_class is not None else f"class {capacity.storage_class_name}"
        return driver, canonical(capacity.node_topology or LabelSelector())

    def _pairs(self, key: Key) -> list[tuple[str, str]]:
        """The pairs of an object's class with those of others that have pools in common with it."""
        place, ids = self._ids[key]
        there = self._at.at(place)
        others = [each for each in there.values() if not set(ids).isdisjoint(self._ids[each.key][1])]
        pairs = [sorted((there[key].storage_class_name, other.storage_class_name)) for other in others]
        return [(one, two) for one, two in pairs if one != two]


class GroupName(NamedTuple):
    """The identity of a capacity group: groups of different drivers differ, whatever their names."""

    driver: str
    name: str


class CapacityGroups:
    """Which classes share their pools, and which capacity objects are siblings."""

    def __init__(self, storage: Storage) -> None:
        self.on_change: list[Callable[[Collection[str]], None]] = []
        """Called after a class joined or left a group, with the classes whose objects may have other siblings now."""
        self._storage = storage
        self.ids = PoolIds(storage)
        """Which objects have pools in common, by ids."""
        self.ids.on_change.append(self._links_changed)
        self._families: dict[str, tuple[str, ...]] = {}
        """By class; filled when asked for."""
        self._objects: keyed.Shelf[tuple[str, Topology], Key, CSIStorageCapacity] = keyed.Shelf()
        """Capacity objects by class and topology."""
        self._warned: set[str] = set()
        classes = list(storage.classes.values())
        for number in range(len(classes)):
            self._warn_of_other_drivers(classes[number], classes[: number + 1])
        for capacity in storage.capacities.values():
            self._capacity_changed(None, capacity)
        storage.on_change(StorageClass, self._class_changed)
        storage.on_change(CSIStorageCapacity, self._capacity_changed)

    def name_of(self, class_name: str) -> str:
        """The capacity group of a class by its annotation; empty for none."""
        storage_class = self._storage.classes.get(class_name)
        return storage_class.capacity_group if storage_class is not None else ""

    def of(self, class_name: str) -> Hashable | None:
        """The identity of a class's family; None for a class that is alone."""
        if not self.ids.links:
            return _group_of(self._storage.classes.get(class_name))
        family = self.classes_with(class_name)
        return family if len(family) > 1 else None

    def is_linked(self, class_name: str) -> bool:
        """True if the class has pools in common with others by ids, or a class of its family has."""
        linked = {name for pair in self.ids.links for name in pair}
        return not linked.isdisjoint(self.classes_with(class_name)) if linked else False

    def classes_with(self, class_name: str) -> tuple[str, ...]:
        """The class and its family, by name."""
        if not self.ids.links:
            return self.grouped_with(class_name)
        family = self._families.get(class_name)
        if family is None:
            found, news = {class_name}, [class_name]
            while news:
                name = news.pop()
                more = {*self.grouped_with(name), *self.ids.linked_with(name)} - found
                found |= more
                news += more
            family = self._families[class_name] = tuple(sorted(found))
        return family

    def grouped_with(self, class_name: str) -> tuple[str, ...]:
        """The class and the classes of its capacity group, by name."""
        group = _group_of(self._storage.classes.get(class_name))
        if group is None:
            return (class_name,)
        return tuple(sorted(each.name for each in self._storage.classes.values() if _group_of(each) == group))

    def siblings(self, capacity: CSIStorageCapacity) -> tuple[CSIStorageCapacity, ...]:
        """The objects of other classes of the group for the same pools, ordered by class and key; without those whose
        ids tell which pools are common."""
        if not self.name_of(capacity.storage_class_name) or capacity.node_topology is None:
            return ()
        topology, has_ids = canonical(capacity.node_topology), bool(pool_ids_of(capacity))
        return tuple(
            each
            for name in self.grouped_with(capacity.storage_class_name)
            if name != capacity.storage_class_name
            for _, each in sorted(self._objects.at((name, topology)).items())
            if not (has_ids and pool_ids_of(each))
        )

    # -- storage events -----------------------------------------------------------------------------------------------

    def _links_changed(self, class_names: Collection[str]) -> None:
        families = {family for name in class_names for family in self._families.get(name, ())}
        self._families.clear()
        for changed in self.on_change:
            changed({*class_names, *families})

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        self._families.clear()
        before, now = _group_of(old), _group_of(new)
        if before == now:
            return
        classes, groups = self._storage.classes.values(), {before, now} - {None}
        if new is not None:
            self._warn_of_other_drivers(new, classes)
        affected = {either(old, new).name, *(each.name for each in classes if _group_of(each) in groups)}
        for changed in self.on_change:
            changed(affected)

    def _warn_of_other_drivers(self, new: StorageClass, classes: Iterable[StorageClass]) -> None:
        """Warn once about a group name used by several drivers: disks belong to one driver, so this is a mistake."""
        group = _group_of(new)
        if group is None or group.name in self._warned:
            return
        drivers = sorted({each.provisioner for each in classes if each.capacity_group == group.name})
        if len(drivers) < 2:
            return
        self._warned.add(group.name)
        _log.warning(
            "Classes of different drivers name one capacity group; each driver's classes are a group of their own",
            object=f"StorageClass {new.name}",
            field=f"metadata.annotations[{CAPACITY_GROUP}]",
            value=group.name,
            drivers=", ".join(drivers),
            remedy="name the groups of different drivers differently",
        )

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None and old.node_topology is not None:
            self._objects.take((old.storage_class_name, canonical(old.node_topology)), old.key)
        if new is not None and new.node_topology is not None:
            self._objects.put((new.storage_class_name, canonical(new.node_topology)), new.key, new)


def _group_of(found: StorageClass | None) -> GroupName | None:
    name = found.capacity_group if found is not None else ""
    return GroupName(found.provisioner, name) if found is not None and name else None
