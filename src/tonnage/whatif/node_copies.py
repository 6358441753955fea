"""Nodes like another: the Node, its CSINode and its capacity objects under a new name, with nothing on them.

A capacity object that reaches the node alone is the node's own and copied; one for a zone is not, it reaches the new
node by itself. What volumes on the node take now is free on its copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    FREE_VOLUMES,
    POOL_IDS,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
    VolumeNodeResources,
)
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity.groups import pool_ids_of
from tonnage.scheduling.volumes.capacity.pools import free_bytes, free_volumes, listed_pools, told_pools
from tonnage.scheduling.volumes.demand import volume_bytes

_NEW_POOL: Final = "one-more-pool"
"""The id of a pool that is added to objects whose pools have ids."""


def own_objects(node: Node, objects: Iterable[Object]) -> list[Object]:
    """The node, its CSINode, and the capacity objects that reach it and no other node."""
    known = list(objects)
    others = [each for each in known if isinstance(each, Node) and each.name != node.name]
    found: list[Object] = [node]
    for each in known:
        if isinstance(each, CSINode) and each.name == node.name:
            found.append(each)
        elif isinstance(each, CSIStorageCapacity) and each.node_topology is not None:
            matches = each.node_topology.matches
            if matches(node.metadata.labels) and not any(matches(other.metadata.labels) for other in others):
                found.append(each)
    return found


def copy_of(objects: Sequence[Object], name: str) -> list[Object]:
    """The objects of one node (`emptied`) as those of another."""
    node = next(each for each in objects if isinstance(each, Node))
    return [_renamed(each, node.name, name) for each in objects]


def emptied(node: Node, objects: Iterable[Object]) -> list[Object]:
    """A node's own objects, with the room of its volumes given back: in the largest pool of their class."""
    known = list(objects)
    own = {(type(each), each.key): each for each in own_objects(node, known)}
    classes = {each.name: each for each in known if isinstance(each, StorageClass)}
    for volume in volumes_on(node, known):
        here = [each for each in own.values() if isinstance(each, CSIStorageCapacity)]
        of_class = next((capacity for capacity in here if capacity.storage_class_name == volume.class_name), None)
        if of_class is not None:
            size, ids = volume_bytes(volume, classes.get(volume.class_name)), ids_largest_first(of_class)
            sharing = sharing_pools(of_class, [*classes.values(), *here])
            roomier = (
                with_more_in(ids[0], size, of_class, here)
                if ids
                else [with_more_room(capacity, size, as_pool=False) for capacity in sharing]
            )
            own.update(((type(capacity), capacity.key), with_one_more_volume(capacity)) for capacity in roomier)
    return list(own.values())


def with_one_more_volume(capacity: CSIStorageCapacity) -> CSIStorageCapacity:
    """An object that can make one volume more, if it tells a limit."""
    if (told := free_volumes(capacity)) is None:
        return capacity
    annotations = {**capacity.metadata.annotations, FREE_VOLUMES: str(told + 1)}
    metadata = msgspec.structs.replace(capacity.metadata, annotations=annotations)
    return msgspec.structs.replace(capacity, metadata=metadata)


def volumes_on(node: Node, objects: Iterable[Object]) -> list[PersistentVolume]:
    """The volumes that can be used on this node and on no other."""
    known = list(objects)
    others = [each for each in known if isinstance(each, Node) and each.name != node.name]
    found = []
    for each in known:
        if isinstance(each, PersistentVolume) and each.spec.node_affinity.required is not None:
            admits = each.spec.node_affinity.admits
            if admits(node.name, node.metadata.labels) and not any(
                admits(other.name, other.metadata.labels) for other in others
            ):
                found.append(each)
    return found


def with_more_room(
    capacity: CSIStorageCapacity, size_bytes: int, *, as_pool: bool, number: int = 0
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
        annotations = {**annotations, POOL_IDS: ",".join(ids[at] for at in order)}
    if capacity.available_capacities:
        changes["available_capacities"] = quantities
    elif AVAILABLE_CAPACITIES in annotations:
        annotations = {**annotations, AVAILABLE_CAPACITIES: ",".join(map(str, quantities))}
    if capacity.capacity is not None:
        changes["capacity"] = Quantity.from_bytes(sum(pools))
    if capacity.maximum_volume_size is not None:
        most = capacity.maximum_volume_size.value()
        changes["maximum_volume_size"] = Quantity.from_bytes(max(most, size_bytes, pools[0] if not is_listed else 0))
    metadata = msgspec.structs.replace(capacity.metadata, annotations=annotations, resource_version="")
    return msgspec.structs.replace(capacity, metadata=metadata, **changes)


def with_more_in(
    pool: str, size_bytes: int, capacity: CSIStorageCapacity, objects: Iterable[Object]
) -> list[CSIStorageCapacity]:
    """All objects of the topology that have the pool of this id, with so much more in it."""
    here = [each for each in objects if isinstance(each, CSIStorageCapacity)]
    return [
        with_more_room(each, size_bytes, as_pool=False, number=ids_largest_first(each).index(pool))
        for each in here
        if each.node_topology == capacity.node_topology and pool in ids_largest_first(each)
    ]


def sharing_pools(capacity: CSIStorageCapacity, objects: Iterable[Object]) -> list[CSIStorageCapacity]:
    """The capacity object, and those of other classes that tell of the same pools: by ids, or by a capacity group."""
    known, ids = list(objects), set(pool_ids_of(capacity))
    classes = {each.name: each for each in known if isinstance(each, StorageClass)}
    mine = classes.get(capacity.storage_class_name)

    def is_alike(other: CSIStorageCapacity) -> bool:
        of_class = classes.get(other.storage_class_name)
        if other is capacity or mine is None or of_class is None:
            return other is capacity
        if ids and (theirs := set(pool_ids_of(other))):
            return ids == theirs and mine.provisioner == of_class.provisioner
        return bool(mine.capacity_group) and mine.capacity_group == of_class.capacity_group

    objects_here = [each for each in known if isinstance(each, CSIStorageCapacity)]
    return [each for each in objects_here if each.node_topology == capacity.node_topology and is_alike(each)]


def ids_largest_first(capacity: CSIStorageCapacity) -> list[str]:
    """The ids of an object's pools, in the order of `listed_pools`; empty if they have none."""
    pairs = zip(pool_ids_of(capacity), told_pools(capacity), strict=False)
    return [pool for pool, _ in sorted(pairs, key=lambda each: -each[1])]


def with_more_slots(node: CSINode, driver: str, more: int) -> CSINode:
    """A CSINode that lets so many more volumes of a driver be attached."""
    drivers = tuple(
        msgspec.structs.replace(each, allocatable=VolumeNodeResources(count=(each.allocatable.count or 0) + more))
        if each.name == driver
        else each
        for each in node.spec.drivers
    )
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, drivers=drivers))


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
    replace = msgspec.structs.replace
    own = name if found.name == like else f"{found.name}-{name}"
    labels = {key: name if value == like else value for key, value in found.metadata.labels.items()}
    metadata = replace(found.metadata, name=own, uid="", resource_version="", creation_timestamp=None, labels=labels)
    if isinstance(found, CSIStorageCapacity) and found.node_topology is not None:
        matched = {key: name if value == like else value for key, value in found.node_topology.match_labels.items()}
        ruled = tuple(
            replace(requirement, values=tuple(name if value == like else value for value in requirement.values))
            for requirement in found.node_topology.match_expressions
        )
        topology = replace(found.node_topology, match_labels=matched, match_expressions=ruled)
        return replace(found, metadata=metadata, node_topology=topology)
    if isinstance(found, Node):
        kept = tuple(taint for taint in found.spec.taints if not taint.key.startswith("node.kubernetes.io/"))
        return replace(found, metadata=metadata, spec=replace(found.spec, unschedulable=False, taints=kept))
    return replace(found, metadata=metadata)
