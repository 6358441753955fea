"""What capacity objects and StorageClasses say about pools, by field and by annotation.

    availableCapacities (KEP-5925)             the free bytes of each pool
    annotation tonnage.dev/available-capacities  the same, on a server that drops the field
    maximumVolumeSize, capacity                what objects said before; how to read them is `legacyPools`

| legacyPools | several claims against capacity 300Gi, maximumVolumeSize 100Gi         |
| Strict      | one pool of 100Gi: the KEP's word                                      |
| Bounded     | each claim at most 100Gi, all of them at most 300Gi                    |
| Independent | each claim at most 100Gi, whatever the others ask: as without the gate |

Beside pools `maximumVolumeSize` still says how large one volume may be. What is promised to other pods counts under
`Independent` too.

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
from tonnage.keyed import Shelf
from tonnage.objects.meta import Key
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    CAPACITY_GROUP,
    POOL_POLICIES,
    POOL_POLICY,
    CSIDriver,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.quantity import InvalidQuantity, Quantity
from tonnage.scheduling.cluster.storage import Storage, either
from tonnage.scheduling.configuration.plugin_args import LegacyPools
from tonnage.scheduling.volumes.packing.pool_fits import MOST_BYTES, UNBOUNDED
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy

VOLUME_REBUILDING = "tonnage.dev/volume-rebuilding"
_log = logs.logger("tonnage.scheduling")


class Room(NamedTuple):
    """What claims may take of one object, jointly: each goes to one of the pools, free bytes descending, and is of
    `claim_limit` at most. No pools: the object does not say, and nothing fits. `free_bytes`: what one claim and all
    promises share where claims are judged one by one (`Independent`)."""

    pools: tuple[int, ...]
    claim_limit: int = UNBOUNDED
    free_bytes: int = UNBOUNDED

    @property
    def is_known(self) -> bool:
        return bool(self.pools)

    def claim_limit_beside(self, promised: Iterable[int]) -> int:
        """How large one claim may be beside what is promised already."""
        if self.free_bytes >= UNBOUNDED or not (taken := sum(promised)):
            return self.claim_limit
        return min(self.claim_limit, max(self.free_bytes - taken, 0))


NO_ROOM = Room(())


def told_pools(capacity: CSIStorageCapacity) -> tuple[int, ...]:
    """The free bytes of each pool in the object's order, by field or else by annotation; empty when it lists none."""
    found = capacity.available_capacities
    if not found and AVAILABLE_CAPACITIES in capacity.metadata.annotations:
        found = _annotated(capacity)
    return tuple([each.value() for each in found])


def listed_pools(capacity: CSIStorageCapacity) -> tuple[int, ...]:
    """The same, largest first."""
    return tuple(sorted(told_pools(capacity), reverse=True))


def room_of(capacity: CSIStorageCapacity, legacy: LegacyPools) -> Room:
    """How much claims may take, read jointly (KEP-5925)."""
    pools = listed_pools(capacity)
    if pools:
        # By the CSI specification nothing larger than the maximum can be made, however large a pool is.
        most = capacity.maximum_volume_size.value() if capacity.maximum_volume_size is not None else pools[0]
        return Room(pools, most if most < pools[0] else UNBOUNDED)
    limit = volume_limit(capacity)
    if limit is None:
        return NO_ROOM
    if legacy is LegacyPools.STRICT:
        return Room((limit,))
    if legacy is LegacyPools.BOUNDED:
        free = UNBOUNDED if capacity.capacity is None else capacity.capacity.value()
        return Room((free,), limit if limit < free else UNBOUNDED)
    return Room((UNBOUNDED,), limit, UNBOUNDED if capacity.capacity is None else capacity.capacity.value())


def room_without_gate(capacity: CSIStorageCapacity) -> Room:
    """The same as kube-scheduler 1.36 reads it: pools are not looked at, and each claim is on its own."""
    limit = volume_limit(capacity)
    return NO_ROOM if limit is None else Room((UNBOUNDED,), limit)


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """How large one volume may be: `maximumVolumeSize` if it is set, even when larger than `capacity`; else that."""
    told = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return None if told is None else told.value()


def largest_volume(capacity: CSIStorageCapacity) -> int:
    """The largest volume that can be made of an object as it stands; 0 when it does not say."""
    limit, pools = volume_limit(capacity), listed_pools(capacity)
    if not pools:
        return limit or 0
    return pools[0] if capacity.maximum_volume_size is None or limit is None else min(pools[0], limit)


def free_bytes(capacity: CSIStorageCapacity) -> int | None:
    """All that an object says is free: its pools together, else its sum, else the largest volume; None: it does not."""
    pools = listed_pools(capacity)
    if pools:
        return sum(pools)
    return capacity.capacity.value() if capacity.capacity is not None else volume_limit(capacity)


def scored_capacity(capacity: CSIStorageCapacity, *, with_pools: bool) -> int:
    """The free bytes a score is made of (KEP-4049): `capacity`, else the sum of the pools, else the largest volume."""
    if capacity.capacity is not None:
        return capacity.capacity.value()
    pools = listed_pools(capacity) if with_pools else ()
    return min(sum(pools), MOST_BYTES) if pools else (volume_limit(capacity) or 0)


def rebuilds_volumes(driver: CSIDriver | None) -> bool:
    """Whether a driver moves a volume to where its pod goes, when the volume's node is out of use (KEP-5925)."""
    if driver is None:
        return False
    return driver.spec.volume_rebuilding or driver.metadata.annotations.get(VOLUME_REBUILDING) == "true"


def problem_with_annotated_pools(capacity: CSIStorageCapacity) -> str:
    """Why the annotation with an object's pools cannot be read; empty when it can, or when nobody reads it."""
    if capacity.available_capacities or AVAILABLE_CAPACITIES not in capacity.metadata.annotations:
        return ""
    try:
        _parsed(capacity.metadata.annotations[AVAILABLE_CAPACITIES])
    except InvalidQuantity as exc:
        return exc.message
    return ""


def _parsed(text: str) -> tuple[Quantity, ...]:
    return tuple(Quantity.parse(each.strip()) for each in text.split(",") if each.strip())


def _annotated(capacity: CSIStorageCapacity) -> tuple[Quantity, ...]:
    """The pools of the annotation. One that cannot be read is told of and passed over: it is not the pod's fault."""
    text = capacity.metadata.annotations[AVAILABLE_CAPACITIES]
    try:
        return _parsed(text)
    except InvalidQuantity as exc:
        _log.warning(
            "The pools of a capacity object cannot be read and are passed over",
            object=f"CSIStorageCapacity {capacity.key}",
            field=f"metadata.annotations[{AVAILABLE_CAPACITIES}]",
            value=text,
            error=exc.message,
            remedy='write quantities with commas between them, such as "100Gi,100Gi"',
        )
        return ()


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
        known = either(old, new)
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
        key = either(old, new).key
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
        if self._policy(old) is not self._policy(new):
            self._tell([either(old, new).name])

    def _driver_changed(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        if new is not None:
            self._warn(new)
        name = either(old, new).name
        of_driver = [each for each in self._storage.classes.values() if each.provisioner == name]
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
