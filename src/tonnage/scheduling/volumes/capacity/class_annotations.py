"""What an admin says about StorageClasses by annotation: which share their pools, and how a driver picks a pool.

`tonnage.dev/capacity-group: NAME` on classes of one driver: they draw from the same disks. Their capacity objects for
the same `nodeTopology` are *siblings*: what is held of one is held of all, and claims of several classes of a group are
packed together (`class_capacity.py`). Groups of different drivers are different groups, whatever their names.

`tonnage.dev/pool-policy` on a class, else on its CSIDriver: see `packing/pool_policies.py`. An unreadable value is
`unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from tonnage import logs
from tonnage.objects.meta import Key
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import (
    CAPACITY_GROUP,
    POOL_POLICIES,
    POOL_POLICY,
    CSIDriver,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.scheduling.volumes.shelf import Shelf

_log = logs.logger("tonnage.scheduling")
Topology = tuple[tuple[str, str, tuple[str, ...]], ...]
"""A node topology such that those which mean the same are equal."""


class GroupName(NamedTuple):
    """What tells groups apart."""

    driver: str
    name: str


class CapacityGroups:
    """Which classes of a cluster share their pools, and which capacity objects are siblings."""

    def __init__(self, storage: Storage) -> None:
        self.on_change: list[Callable[[Collection[str]], None]] = []
        """Called with the classes whose objects may have other siblings now, after a class joined or left a group."""
        self._group_of: dict[str, GroupName] = {}
        self._classes_of: Shelf[GroupName, str, str] = Shelf()
        self._objects: Shelf[tuple[str, Topology], Key, CSIStorageCapacity] = Shelf()
        """By class and topology."""
        self._place_of: dict[Key, tuple[str, Topology]] = {}
        self._warned: set[str] = set()
        for each in storage.classes.values():
            self._class_changed(None, each)
        for capacity in storage.capacities.values():
            self._capacity_changed(None, capacity)
        storage.on_change(StorageClass, self._class_changed)
        storage.on_change(CSIStorageCapacity, self._capacity_changed)

    @property
    def has_groups(self) -> bool:
        """Some class says that it is in a group, be it alone in it."""
        return bool(self._group_of)

    def of(self, class_name: str) -> GroupName | None:
        return self._group_of.get(class_name)

    def classes_with(self, class_name: str) -> Collection[str]:
        """The class and all that share its pools."""
        group = self._group_of.get(class_name)
        return (class_name,) if group is None else sorted(self._classes_of[group])

    def siblings(self, capacity: CSIStorageCapacity) -> tuple[CSIStorageCapacity, ...]:
        """The objects of other classes that describe the same pools, in order of their classes and keys."""
        group = self._group_of.get(capacity.storage_class_name)
        if group is None or capacity.node_topology is None:
            return ()
        topology = canonical(capacity.node_topology)
        return tuple(
            each
            for name in sorted(self._classes_of[group])
            if name != capacity.storage_class_name
            for _, each in sorted(self._objects.at((name, topology)).items())
        )

    # -- what storage tells -------------------------------------------------------------------------------------------

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        known = new or old
        if known is None:
            return
        before, now = self._group_of.get(known.name), _group_of(new)
        if before == now:
            return
        affected = {known.name, *(name for group in (before, now) if group for name in self._classes_of[group])}
        if before is not None:
            del self._group_of[known.name]
            self._classes_of.take(before, known.name)
        if now is not None:
            self._group_of[known.name] = now
            self._classes_of.put(now, known.name, known.name)
            self._warn_of_other_drivers(known.name, now)
        for changed in self.on_change:
            changed(affected)

    def _warn_of_other_drivers(self, class_name: str, group: GroupName) -> None:
        """Disks belong to one driver: a group across drivers is a slip, and is told once."""
        drivers = sorted({each.driver for each in self._group_of.values() if each.name == group.name})
        if len(drivers) < 2 or group.name in self._warned:
            return
        self._warned.add(group.name)
        _log.warning(
            "Classes of different drivers name one capacity group; each driver's classes are a group of their own",
            object=f"StorageClass {class_name}",
            field=f"metadata.annotations[{CAPACITY_GROUP}]",
            value=group.name,
            drivers=", ".join(drivers),
            remedy="name the groups of different drivers differently",
        )

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        key = new.key if new is not None else old.key if old is not None else ""
        place = self._place_of.get(key)
        is_same = old is not None and new is not None and not is_elsewhere(old, new)
        if place is not None and new is not None and is_same:
            self._objects.put(place, key, new)  # a refresh: nearly always
            return
        if place is not None:
            del self._place_of[key]
            self._objects.take(place, key)
        if new is not None and new.node_topology is not None:
            place = self._place_of[key] = (new.storage_class_name, canonical(new.node_topology))
            self._objects.put(place, key, new)


def canonical(topology: LabelSelector) -> Topology:
    """A topology in one spelling: labels are expressions too, and the order of expressions and values says nothing."""
    labels = [(key, "In", (value,)) for key, value in topology.match_labels.items()]
    others = [(each.key, each.operator, tuple(sorted(set(each.values)))) for each in topology.match_expressions]
    return tuple(sorted({*labels, *others}))


def is_elsewhere(old: CSIStorageCapacity, new: CSIStorageCapacity) -> bool:
    """The object is for another class or other nodes than before, or is another object under the same name."""
    return (
        old.storage_class_name != new.storage_class_name
        or old.node_topology != new.node_topology
        or old.metadata.uid != new.metadata.uid
    )


def _group_of(found: StorageClass | None) -> GroupName | None:
    name = found.capacity_group if found is not None else ""
    return GroupName(found.provisioner, name) if found is not None and name else None


def said_policy(text: str) -> PoolPolicy | None:
    """An annotation's value as a policy; None when it is none of those there are."""
    try:
        return PoolPolicy(text)
    except ValueError:
        return None


def problem_with_policy(found: StorageClass | CSIDriver) -> str:
    """Why an object's annotation cannot be read; empty when it can, or is not there."""
    if POOL_POLICY not in found.metadata.annotations or said_policy(found.pool_policy) is not None:
        return ""
    return f'{POOL_POLICY}="{found.pool_policy}" is none of {", ".join(POOL_POLICIES)}'


def pool_policy_of(found: StorageClass | None, driver: CSIDriver | None) -> PoolPolicy:
    """How volumes of a class are given a pool: by its own word, else by its driver's."""
    for each in (found, driver):
        if each is not None and POOL_POLICY in each.metadata.annotations:
            return said_policy(each.pool_policy) or PoolPolicy.UNKNOWN
    return PoolPolicy.UNKNOWN


def common_policy(policies: Iterable[PoolPolicy]) -> PoolPolicy:
    """That of several classes which share their pools: the one that they all have, else nobody knows."""
    found = set(policies)
    return found.pop() if len(found) == 1 else PoolPolicy.UNKNOWN


class PoolPolicies:
    """The policies of a cluster's classes, as they are now."""

    def __init__(self, storage: Storage) -> None:
        self.on_change: list[Callable[[Collection[str]], None]] = []
        """Called with the classes that have another policy now."""
        self._storage = storage
        self._warned: set[tuple[str, str, str]] = set()
        for driver in storage.drivers.values():
            self._warn(driver)
        for of_class in storage.classes.values():
            self._warn(of_class)
        storage.on_change(StorageClass, self._class_changed)
        storage.on_change(CSIDriver, self._driver_changed)

    def of(self, class_name: str) -> PoolPolicy:
        return self._policy(self._storage.classes.get(class_name))

    def _policy(self, of_class: StorageClass | None) -> PoolPolicy:
        driver = self._storage.drivers.get(of_class.provisioner) if of_class is not None else None
        return pool_policy_of(of_class, driver)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if new is not None:
            self._warn(new)
        if (known := new or old) and self._policy(old) is not self._policy(new):
            self._tell([known.name])

    def _driver_changed(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        if new is not None:
            self._warn(new)
        if known := new or old:
            of_driver = [each for each in self._storage.classes.values() if each.provisioner == known.name]
            self._tell([each.name for each in of_driver if pool_policy_of(each, old) is not pool_policy_of(each, new)])

    def _tell(self, class_names: Collection[str]) -> None:
        for changed in self.on_change if class_names else ():
            changed(class_names)

    def _warn(self, found: StorageClass | CSIDriver) -> None:
        """A slip of the pen makes a fit less sure than it is, and is told once."""
        told = (type(found).__name__, found.name, found.pool_policy)
        if told in self._warned or not problem_with_policy(found):
            return
        self._warned.add(told)
        _log.warning(
            "A pool policy cannot be read and is taken for unknown",
            object=f"{type(found).__name__} {found.name}",
            field=f"metadata.annotations[{POOL_POLICY}]",
            value=found.pool_policy,
            remedy=f"write one of {', '.join(POOL_POLICIES)}",
        )
