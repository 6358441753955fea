"""All bytes of each StorageClass, free and used, in total and by node.

An object's total is its free bytes and those of the volumes in its topology. A volume counts for its class and for the
classes that share its disks (by `tonnage.dev/pool-ids`, else by `tonnage.dev/capacity-group`), where its node
affinity has every label of the object. A volume that its driver may rebuild elsewhere has no affinity; it counts on its
home: the node that the driver names, else the one that is selected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.capacity.groups import pool_ids_of
from tonnage.scheduling.volumes.capacity.pools import free_bytes, largest_volume, rebuilds_volumes
from tonnage.scheduling.volumes.demand import volume_bytes

NEARLY_FULL: Final = 0.10
"""A class with a smaller share of free bytes is nearly full: as the alert TonnageClassNearlyFull has it."""

Label = tuple[str, str]
ByClass = dict[tuple[str], float]
ByClassAndNode = dict[tuple[str, str], float]
Classes = Mapping[str, StorageClass]
HomeOf = Callable[[PersistentVolume], Node | None]
"""The node with the contents of a volume that has no node affinity; None if any node reaches it, or nobody knows."""


@dataclass(slots=True)
class ClassTotals:
    """Bytes of one StorageClass. `largest`: the largest volume that one pool can hold."""

    free: int = 0
    total: int = 0
    largest: int = 0

    @property
    def is_nearly_full(self) -> bool:
        return self.total > 0 and self.free < NEARLY_FULL * self.total


def homes(
    claim_of: Callable[[Key], PersistentVolumeClaim | None],
    nodes: Mapping[str, Node],
    drivers: Mapping[str, CSIDriver],
) -> HomeOf:
    """Answers where volumes are that may be rebuilt elsewhere."""

    def home_of(volume: PersistentVolume) -> Node | None:
        source, user = volume.spec.csi, volume.spec.claim_ref
        if volume.spec.node_affinity.required is not None or source is None or user is None:
            return None
        claim = claim_of(user.key)
        if claim is None or not rebuilds_volumes(drivers.get(source.driver)):
            return None
        return nodes.get(volume.home or claim.selected_node)

    return home_of


def class_totals(
    capacities: Iterable[CSIStorageCapacity], volumes: Iterable[PersistentVolume], classes: Classes, home_of: HomeOf
) -> dict[str, ClassTotals]:
    """Bytes of every class that has capacity objects, by name."""
    found: dict[str, ClassTotals] = defaultdict(ClassTotals)
    for capacity, free, all_bytes in _with_totals(capacities, volumes, classes, home_of):
        each = found[capacity.storage_class_name]
        each.free += free
        each.total += all_bytes
        each.largest = max(each.largest, largest_volume(capacity))
    return dict(found)


def storage_totals(cluster: Cluster) -> tuple[ByClass, ByClassAndNode, ByClassAndNode]:
    """Total bytes by class; free and total bytes by class and node, where an object reaches one node alone."""
    total: ByClass = defaultdict(float)
    free_on: ByClassAndNode = defaultdict(float)
    total_on: ByClassAndNode = defaultdict(float)
    storage = cluster.storage
    capacities = storage.capacities.values()
    nodes = _nodes_by_label(cluster.nodes, capacities)
    home_of = homes(storage.claims.get, {each.name: each for each in cluster.nodes if each}, storage.drivers)
    for capacity, free, all_bytes in _with_totals(capacities, storage.volumes, storage.classes, home_of):
        name, labels = capacity.storage_class_name, _labels(capacity)
        total[name,] += all_bytes
        reached = set.intersection(*(nodes[label] for label in labels)) if labels else set()
        if len(reached) == 1:
            key = (name, reached.pop())
            free_on[key] += free
            total_on[key] += all_bytes
    return total, free_on, total_on


def _with_totals(
    capacities: Iterable[CSIStorageCapacity], volumes: Iterable[PersistentVolume], classes: Classes, home_of: HomeOf
) -> Iterator[tuple[CSIStorageCapacity, int, int]]:
    """Each object with its free bytes and all its bytes."""
    known = list(capacities)
    used = _used_bytes(volumes, classes, home_of, {label for capacity in known for label in _labels(capacity)})
    names: dict[Hashable, set[str]] = defaultdict(set)
    for storage_class in classes.values():
        names[_disks(storage_class)].add(storage_class.name)
    for capacity in known:
        names[_pools(classes, capacity)].add(capacity.storage_class_name)
    for capacity in known:
        free = max(free_bytes(capacity) or 0, 0)
        sharing = names[_pools(classes, capacity)]
        yield (
            capacity,
            free,
            free + min((sum(used[each, at] for each in sharing) for at in _labels(capacity)), default=0),
        )


def _pools(classes: Classes, capacity: CSIStorageCapacity) -> Hashable:
    """What objects of the same pools have in common: their ids and place, else the disks of their class."""
    storage_class, ids = classes.get(capacity.storage_class_name), frozenset(pool_ids_of(capacity))
    if storage_class is None:
        return capacity.storage_class_name
    return (storage_class.provisioner, tuple(_labels(capacity)), ids) if ids else _disks(storage_class)


def _disks(found: StorageClass) -> Hashable:
    """What classes on the same disks have in common: their capacity group, else the class alone."""
    return (found.provisioner, found.capacity_group) if found.capacity_group else found.name


def _labels(capacity: CSIStorageCapacity) -> list[Label]:
    topology = capacity.node_topology
    return sorted(topology.match_labels.items()) if topology is not None else []


def _used_bytes(
    volumes: Iterable[PersistentVolume], classes: Classes, home_of: HomeOf, asked: set[Label]
) -> Mapping[tuple[str, Label], int]:
    """Bytes of volumes, by class and by each of the labels `asked` that the volume's nodes have."""
    used: dict[tuple[str, Label], int] = defaultdict(int)
    for volume in volumes:
        home = home_of(volume)
        for label in asked & set(_labels_of_volume(volume) if home is None else home.metadata.labels.items()):
            used[volume.class_name, label] += volume_bytes(volume, classes.get(volume.class_name))
    return used


def _labels_of_volume(volume: PersistentVolume) -> Iterator[Label]:
    affinity = volume.spec.node_affinity.required
    for term in affinity.node_selector_terms if affinity is not None else ():
        for requirement in term.match_expressions:
            if requirement.operator == "In" and len(requirement.values) == 1:
                yield requirement.key, requirement.values[0]


def _nodes_by_label(
    known: Iterable[Node | None], capacities: Collection[CSIStorageCapacity]
) -> Mapping[Label, set[str]]:
    """Nodes by the labels that capacity objects select."""
    keys = {key for capacity in capacities for key, _ in _labels(capacity)}
    nodes: dict[Label, set[str]] = defaultdict(set)
    for node in known:
        if node is not None:
            for key in keys & node.metadata.labels.keys():
                nodes[key, node.metadata.labels[key]].add(node.metadata.name)
    return nodes
