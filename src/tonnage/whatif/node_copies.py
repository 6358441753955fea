"""Nodes like another: the Node, its CSINode and its capacity objects under a new name, with nothing on them.

A capacity object that reaches the node alone is the node's own and copied; one for a zone is not, it reaches the new
node by itself. What volumes on the node take now is free on its copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tonnage.objects import storage_v1
from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.meta import Object, changed
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity.groups import pool_ids_of
from tonnage.scheduling.volumes.capacity.pools import free_bytes, free_volumes, listed_pools, told_pools
from tonnage.scheduling.volumes.demand import volume_bytes
from tonnage.whatif.creation import ObjectsByKind, renewed

_NEW_POOL: Final = "one-more-pool"
"""The id of a pool that is added to objects whose pools have ids."""


def copy_of(objects: Sequence[Object], name: str) -> list[Object]:
    """The objects of one node (`emptied`) as those of another."""
    node = next(each for each in objects if isinstance(each, Node))
    return [_renamed(each, node.name, name) for each in objects]


def emptied(node: Node, objects: ObjectsByKind) -> list[Object]:
    """The node, its CSINode, and the capacity objects that reach it and no other node, with the room of its volumes
    given back: in the largest pool of their class."""
    others = [each.metadata.labels for each in objects.all(Node) if each.name != node.name]
    own = {
        each.key: each
        for each in objects.all(CSIStorageCapacity)
        if (topology := each.node_topology) is not None
        and topology.matches(node.metadata.labels)
        and not any(map(topology.matches, others))
    }
    classes = objects.of(StorageClass)
    for volume in objects.all(PersistentVolume):
        of_class = next((each for each in own.values() if each.storage_class_name == volume.class_name), None)
        if of_class is not None and is_only_on(node, volume, objects):
            places = room_given_back(volume, of_class, ObjectsByKind([*classes.values(), *own.values()]))
            own.update((capacity.key, capacity) for capacity in places[0])
    csi_node = objects.get(CSINode, node.name)
    return [node, *([csi_node] if csi_node is not None else []), *own.values()]


def room_given_back(
    volume: PersistentVolume, capacity: CSIStorageCapacity, objects: ObjectsByKind
) -> list[list[CSIStorageCapacity]]:
    """For each pool of a capacity object that a volume's room may come back to, the largest first: the objects of this
    pool as they are then."""
    size = volume_bytes(volume, objects.get(StorageClass, volume.class_name))
    found: list[list[CSIStorageCapacity]] = []
    for pool in ids_largest_first(capacity):
        alike = [each for each in objects.all(CSIStorageCapacity) if each.node_topology == capacity.node_topology]
        places = [(each, ids_largest_first(each)) for each in alike]
        found.append([with_more_room(each, size, number=ids.index(pool)) for each, ids in places if pool in ids])
    for number in range(0 if found else max(1, len(listed_pools(capacity)))):
        found.append([with_more_room(each, size, number=number) for each in sharing_pools(capacity, objects)])
    return [[_with_one_more_volume(each) for each in roomier] for roomier in found]


def _with_one_more_volume(capacity: CSIStorageCapacity) -> CSIStorageCapacity:
    """An object that can make one volume more, if it tells a limit."""
    if (told := free_volumes(capacity)) is None:
        return capacity
    return changed(
        capacity, metadata={"annotations": {**capacity.metadata.annotations, storage_v1.FREE_VOLUMES: str(told + 1)}}
    )


def is_only_on(node: Node, volume: PersistentVolume, objects: ObjectsByKind) -> bool:
    """True for a volume that can be used on this node and on no other."""
    if volume.spec.node_affinity.required is None:
        return False
    admits = volume.spec.node_affinity.admits
    others = (each for each in objects.all(Node) if each.name != node.name)
    return admits(node.name, node.metadata.labels) and not any(
        admits(each.name, each.metadata.labels) for each in others
    )


def with_more_room(
    capacity: CSIStorageCapacity, size_bytes: int, *, as_pool: bool = False, number: int = 0
) -> CSIStorageCapacity:
    """A capacity object that tells of so many bytes more: a pool of its own where it lists pools, or more in the one
    of this number, the largest first."""
    ids, pools = list(pool_ids_of(capacity)), list(listed_pools(capacity))
    is_listed = bool(pools)
    if ids:
        ids = ids_largest_first(capacity)
    if not is_listed:
        quantity = capacity.capacity or capacity.maximum_volume_size
        pools = [quantity.value() if quantity is not None else 0]
    if as_pool and is_listed:
        pools.append(size_bytes)
        ids += [_NEW_POOL] if ids else []
    else:
        pools[number] += size_bytes
    annotations, changes = capacity.metadata.annotations, dict[str, object]()
    order = sorted(range(len(pools)), key=lambda at: -pools[at])
    quantities = tuple(Quantity.from_bytes(pools[at]) for at in order)
    if ids:
        annotations = {**annotations, storage_v1.POOL_IDS: ",".join(ids[at] for at in order)}
    if capacity.available_capacities:
        changes["available_capacities"] = quantities
    elif storage_v1.AVAILABLE_CAPACITIES in annotations:
        annotations = {**annotations, storage_v1.AVAILABLE_CAPACITIES: ",".join(map(str, quantities))}
    if capacity.capacity is not None:
        changes["capacity"] = Quantity.from_bytes(sum(pools))
    if capacity.maximum_volume_size is not None:
        most = capacity.maximum_volume_size.value()
        changes["maximum_volume_size"] = Quantity.from_bytes(max(most, size_bytes, pools[0] if not is_listed else 0))
    return renewed(capacity, {"annotations": annotations}, **changes)


def sharing_pools(capacity: CSIStorageCapacity, objects: ObjectsByKind) -> list[CSIStorageCapacity]:
    """The capacity object, and those of other classes that tell of the same pools: by ids, or by a capacity group."""
    ids, classes = set(pool_ids_of(capacity)), objects.of(StorageClass)
    mine = classes.get(capacity.storage_class_name)

    def is_alike(other: CSIStorageCapacity) -> bool:
        of_class = classes.get(other.storage_class_name)
        if other.key == capacity.key or mine is None or of_class is None:
            return other.key == capacity.key
        if ids and (theirs := set(pool_ids_of(other))):
            return ids == theirs and mine.provisioner == of_class.provisioner
        return bool(mine.capacity_group) and mine.capacity_group == of_class.capacity_group

    here = (each for each in objects.all(CSIStorageCapacity) if each.node_topology == capacity.node_topology)
    return [each for each in here if is_alike(each)]


def ids_largest_first(capacity: CSIStorageCapacity) -> list[str]:
    """The ids of an object's pools, in the order of `listed_pools`; empty if they have none."""
    pairs = zip(pool_ids_of(capacity), told_pools(capacity), strict=False)
    return [pool for pool, _ in sorted(pairs, key=lambda each: -each[1])]


def with_more_slots(node: CSINode, driver: str, more: int) -> CSINode:
    """A CSINode that lets so many more volumes of a driver be attached."""
    drivers = tuple(
        changed(each, allocatable={"count": (each.allocatable.count or 0) + more}) if each.name == driver else each
        for each in node.spec.drivers
    )
    return changed(node, spec={"drivers": drivers})


def shape_of(objects: Iterable[Object]) -> tuple[Any, ...]:
    """What tells one kind of node from another: all but its names."""
    found: list[Any] = []
    for each in objects:
        if isinstance(each, Node):
            labels = {key: value for key, value in each.metadata.labels.items() if value != each.name}
            amounts = {name: str(amount) for name, amount in each.status.allocatable.items()}
            taints = sorted((taint.key, taint.effect) for taint in each.spec.taints)
            found.append((sorted(labels.items()), sorted(amounts.items()), taints))
        elif isinstance(each, CSIStorageCapacity):
            found.append((each.storage_class_name, listed_pools(each), free_bytes(each), free_volumes(each)))
        elif isinstance(each, CSINode):
            found.append(sorted((driver.name, driver.allocatable.count or -1) for driver in each.spec.drivers))
    return tuple(map(str, found))


def _renamed(found: Object, like: str, name: str) -> Object:
    """An object with another node's name wherever it has this one's, as its own and as a value of labels."""

    def moved(labels: Mapping[str, str]) -> dict[str, str]:
        return {key: name if value == like else value for key, value in labels.items()}

    own = name if found.name == like else f"{found.name}-{name}"
    labels = moved(found.metadata.labels)
    copied = renewed(found, {"name": own, "uid": "", "creation_timestamp": None, "labels": labels})
    if isinstance(copied, CSIStorageCapacity) and copied.node_topology is not None:
        ruled = tuple(
            changed(requirement, values=tuple(name if value == like else value for value in requirement.values))
            for requirement in copied.node_topology.match_expressions
        )
        matched = moved(copied.node_topology.match_labels)
        return changed(copied, node_topology={"match_labels": matched, "match_expressions": ruled})
    if isinstance(copied, Node):
        kept = tuple(taint for taint in copied.spec.taints if not taint.key.startswith("node.kubernetes.io/"))
        return changed(copied, spec={"unschedulable": False, "taints": kept})
    return copied
