"""Rows of capacity objects: which nodes they reach, what is free, and what is kept back for whom.

`CapacityBook` keeps between settles what depends on several objects, so that a change costs only what it touches. A
row's `stale` names the reason why its figures may be wrong:

    fault          a fault makes an embedded cluster's driver report old figures, or be dead
    class, driver  the class is gone, or the node no longer has the driver: nobody updates the figures
    silent         tonnage pools has heard nothing from the source of the pools, or has not looked for long
    unreadable     the annotation with pools is no list of quantities
    lagging        volumes were created after the last update, and long enough ago to be counted

Lagging needs another object of the same driver that does follow its volumes: a thin driver's figures never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tonnage.clock import rfc3339
from tonnage.dashboard.model.known_objects import Index, KnownObjects, labels_of_topology
from tonnage.dashboard.wire import CapacityRow, ReservedRow
from tonnage.driver import DRIVER_NAME
from tonnage.faults import Fault, active_fault
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.meta import Key
from tonnage.objects.selectors import InvalidSelector, LabelSelector
from tonnage.objects.storage_v1 import POOLS_CHECKED_AT, POOLS_SOURCE, POOLS_STALE_SINCE, CSIStorageCapacity
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.scheduling.volumes.capacity.pools import problem_with_annotated_pools, told_pools
from tonnage.whatif.scheduler_memory import RememberedCapacity

REFRESH: Final = timedelta(minutes=2)
"""How soon a figure should follow a volume: external-provisioner asks once a minute and after every volume."""
CHECKED_WITHIN: Final = timedelta(minutes=15)
"""`tonnage pools` reads its sources much more often than this."""


def driver_of(objects: KnownObjects, capacity: CSIStorageCapacity) -> str:
    of_class = objects.classes.get(capacity.storage_class_name)
    return of_class.provisioner if of_class is not None else ""


def _by_fault(driver: str, nodes: Sequence[str], faults: Iterable[Fault]) -> str:
    if driver != DRIVER_NAME:
        return ""
    for node in nodes:
        if active_fault(faults, "stale-figures", node) is not None:
            return f"the fault stale-figures is set on {node}: its driver reports what was free when the fault began"
        if active_fault(faults, "dead", node) is not None:
            return f"the fault dead is set on {node}: its driver answers nothing, and these are its last figures"
    return ""


def _by_keeper(objects: KnownObjects, capacity: CSIStorageCapacity, driver: str, nodes: Sequence[str]) -> str:
    if not driver:
        return f"there is no StorageClass {capacity.storage_class_name}: nobody updates these figures any more"
    if nodes and all(_lacks(objects, node, driver) for node in nodes):
        where = nodes[0] if len(nodes) == 1 else f"any of its {len(nodes)} nodes"
        return f"the driver {driver} is not on {where} (CSINode): nobody updates these figures any more"
    return ""


def _lacks(objects: KnownObjects, node: str, driver: str) -> bool:
    """True if the node's CSINode lists drivers and this driver is not among them."""
    csi_node = objects.csi_nodes.get(node)
    return csi_node is not None and csi_node.driver(driver) is None


def _by_source(capacity: CSIStorageCapacity, now: datetime) -> str:
    annotations = capacity.metadata.annotations
    if problem := problem_with_annotated_pools(capacity):
        return f"its annotation with pools cannot be read and is ignored: {problem}"
    if not capacity.has_kept_pools:
        return ""
    source = annotations[POOLS_SOURCE]
    if since := annotations.get(POOLS_STALE_SINCE):
        return (
            f"the source of its pools, {source}, has been silent since {since}: the scheduler still counts with them, "
            "less what it promised itself, until they are removed"
        )
    if capacity.is_unchecked_since(now - CHECKED_WITHIN):
        return (
            f"tonnage pools has not read {source}, their source, since {annotations[POOLS_CHECKED_AT]}: volumes "
            "created since are counted, deleted ones are not noticed"
        )
    return ""


def unseen(capacity: CSIStorageCapacity, volumes: Iterable[PersistentVolume], now: datetime) -> list[PersistentVolume]:
    """Volumes that were created after the object's last update and should long be counted in it."""
    written_at = capacity.metadata.updated_at
    if written_at is None:
        return []
    made = [(volume, volume.metadata.creation_timestamp) for volume in volumes]
    found = [(at, each.name, each) for each, at in made if at is not None and written_at < at <= now - REFRESH]
    return [each for _, _, each in sorted(found, key=lambda one: one[:2])]


def lagging(missing: Sequence[PersistentVolume]) -> str:
    first = missing[0]
    made_at = first.metadata.creation_timestamp
    when = f" at {rfc3339(made_at)}" if made_at is not None else ""
    many = f"{first.name} and {len(missing) - 1} more volumes were" if len(missing) > 1 else f"{first.name} was"
    return (
        f"it was last updated before {many} created there{when}, while other figures of the driver were: the scheduler "
        "uses it, minus what it has promised itself since (mode Ledger)"
    )


def changes_at(capacity: CSIStorageCapacity, volumes: Iterable[PersistentVolume], now: datetime) -> datetime | None:
    """The next instant after `now` at which the same objects may be judged differently; None for never."""
    times = [at + REFRESH for volume in volumes if (at := volume.metadata.creation_timestamp) is not None]
    if capacity.has_kept_pools and (checked := capacity.checked_at) is not None:
        times.append(checked + CHECKED_WITHIN)
    return min((at for at in times if at > now), default=None)


MOST_NODES: Final = 64


def row_of(
    capacity: CSIStorageCapacity, nodes: Sequence[str], held: Sequence[tuple[RememberedCapacity, str]], stale: str
) -> CapacityRow:
    """A capacity object's row. `nodes`: the nodes it reaches, sorted. `held`: what is kept back, with the storage class
    of its claims where that is not the object's."""
    pools = told_pools(capacity)
    free = capacity.capacity if capacity.capacity is not None else capacity.maximum_volume_size
    return CapacityRow(
        storage_class=capacity.storage_class_name,
        nodes=tuple(nodes[:MOST_NODES]),
        node_count=len(nodes),
        pools=pools or ((free.value(),) if free is not None else ()),
        tells_pools=bool(pools),
        capacity=capacity.capacity.value() if capacity.capacity is not None else None,
        largest=capacity.maximum_volume_size.value() if capacity.maximum_volume_size is not None else None,
        told_at=capacity.figures_at,
        stale=stale,
        reserved=tuple(
            ReservedRow(
                mode=str(each.mode),
                pod=each.pod,
                claims=tuple(each.claims),
                bytes=each.bytes,
                since=each.since,
                why=each.why,
                storage_class=of_class,
            )
            for each, of_class in held
        ),
        left=_left(capacity, pools, [each for each, _ in held]),
    )


def _left(capacity: CSIStorageCapacity, pools: Sequence[int], held: Sequence[RememberedCapacity]) -> int | None:
    if any(remembered_capacity.mode is Reservation.OBJECT for remembered_capacity in held):
        return 0
    if not pools and capacity.capacity is None:
        return None
    free = sum(pools) if pools else capacity.capacity.value() if capacity.capacity is not None else 0
    return max(free - sum(remembered_capacity.bytes for remembered_capacity in held), 0)


def reached(objects: KnownObjects, topology: LabelSelector | None) -> list[str]:
    """Sorted names of the nodes that a selector reaches: none without a selector, all with an empty one."""
    if topology is None:
        return []
    labels = labels_of_topology(topology)
    candidates: Iterable[str] = objects.nodes
    if labels:
        candidates = {name for label in labels for name in objects.nodes_by_label[label]}
    try:
        return sorted(name for name in candidates if topology.matches(objects.nodes[name].metadata.labels))
    except InvalidSelector:  # the scheduler ignores such an object as well
        return []


def classes_of(objects: KnownObjects, held: RememberedCapacity) -> set[str]:
    """The storage classes of the claims of a reservation, as far as the claims are known."""
    return {found.class_name for claim in held.claims if (found := objects.claims.get(claim)) is not None}


class _Judged(NamedTuple):
    driver: str
    nodes: Sequence[str]
    """The nodes that the object reaches, sorted."""
    missing: Sequence[PersistentVolume] = ()
    """Volumes there that it should count and does not."""
    is_following: bool = False
    """There are volumes, and it counts all that it should."""
    changes_at: datetime | None = None


class CapacityBook:
    """What rows of capacity objects need from several objects. `volumes_on` gives the volumes on a node."""

    def __init__(self, objects: KnownObjects, volumes_on: Callable[[str], Iterable[PersistentVolume]]) -> None:
        self._objects = objects
        self._volumes_on = volumes_on
        self.held: dict[Key, list[RememberedCapacity]] = {}
        self.faults: Sequence[Fault] = ()
        self.of_node = Index()
        """Capacity objects by node. Objects that reach many nodes are left out."""
        self._judged: dict[Key, _Judged] = {}
        self._following: set[str] = set()
        """Drivers of which an object follows its volumes."""

    def due(self, now: datetime) -> set[Key]:
        """Objects that must be judged again because time has passed."""
        return {key for key, each in self._judged.items() if each.changes_at is not None and each.changes_at <= now}

    def look_at(self, keys: Iterable[Key], now: datetime) -> set[Key]:
        """Update these objects. Returns them and the objects whose rows change with them."""
        touched = set(keys)
        for key in touched:
            known = self._judged.pop(key, None)
            for node in known.nodes[:MOST_NODES] if known is not None else ():
                self.of_node.mark(node, key, is_there=False)
            capacity = self._objects.capacities.get(key)
            if capacity is not None:
                self._judged[key] = self._judge(capacity, now)
        following = {each.driver for each in self._judged.values() if each.is_following}
        turned, self._following = following ^ self._following, following
        return touched | {key for key, each in self._judged.items() if each.missing and each.driver in turned}

    def row_of(self, key: Key, now: datetime) -> CapacityRow | None:
        capacity = self._objects.capacities.get(key)
        if capacity is None:
            return None
        driver, nodes, missing, *_ = self._judged[key]
        near = nodes[:MOST_NODES]
        stale = _by_fault(driver, near, self.faults) or _by_keeper(self._objects, capacity, driver, near)
        stale = stale or _by_source(capacity, now)
        if not stale and missing and driver in self._following:
            stale = lagging(missing)
        held = [(each, self._other_class(each, capacity)) for each in self.held.get(key, ())]
        return row_of(capacity, nodes, held, stale)

    def _other_class(self, held: RememberedCapacity, capacity: CSIStorageCapacity) -> str:
        """The storage class that something is kept back for, where it is not the object's own; else empty.

        The scheduler reports what it keeps back per object: with classes that share pools, the objects of all classes
        are charged until they are updated.
        """
        classes = classes_of(self._objects, held)
        return "" if not classes or capacity.storage_class_name in classes else min(classes)

    def _judge(self, capacity: CSIStorageCapacity, now: datetime) -> _Judged:
        driver, nodes = driver_of(self._objects, capacity), reached(self._objects, capacity.node_topology)
        if len(nodes) > MOST_NODES:
            return _Judged(driver, nodes)
        for node in nodes:
            self.of_node.mark(node, capacity.key, is_there=True)
        class_name = capacity.storage_class_name
        volumes = [volume for node in nodes for volume in self._volumes_on(node) if volume.class_name == class_name]
        missing = unseen(capacity, volumes, now)
        is_following = bool(volumes) and not missing and capacity.metadata.updated_at is not None
        return _Judged(driver, nodes, missing, is_following, changes_at(capacity, volumes, now))
