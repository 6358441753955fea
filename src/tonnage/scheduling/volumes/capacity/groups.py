"""Which classes share pools, and which capacity objects are siblings (docs/decisions/010).

`tonnage.dev/capacity-group: NAME`: classes of one driver with this name share all their disks. Their capacity objects
with the same `nodeTopology` are *siblings*: a hold on one is a hold on all, and their claims are packed together
(`class_capacity.py`). `tonnage.dev/pool-ids` on objects says which pools are common, and goes before the group where
both objects have ids (`pool_ids.py`, `shared_rooms.py`). A *family* is all classes that are connected in either way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import NamedTuple

from tonnage import logs
from tonnage.keyed import Shelf
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CAPACITY_GROUP, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.storage import Storage, either
from tonnage.scheduling.volumes.capacity.pool_ids import PoolIds, pool_ids_of
from tonnage.scheduling.volumes.capacity.pools import Topology, canonical

_log = logs.logger("tonnage.scheduling")


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
        self._objects: Shelf[tuple[str, Topology], Key, CSIStorageCapacity] = Shelf()
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
