"""A node like another: its Node, its CSINode and the capacity objects of its disks, empty and under its own name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from tonnage.objects.core_v1 import Node
from tonnage.objects.meta import Object
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity

T = TypeVar("T", bound=Object)
replace = msgspec.structs.replace


def node_like(like: str, name: str, objects: Iterable[Object]) -> list[Object]:
    """What comes when a node `name` joins that is like `like`, as the objects at the beginning have that.

    Wherever the old name stands as a value of a label, the new one does; capacity objects that other nodes reach too
    are not copied: the new node reaches them, or not, by its labels.
    """
    found = list(objects)
    nodes = [each for each in found if isinstance(each, Node)]
    node = next((each for each in nodes if each.name == like), None)
    if node is None:
        return []
    made: list[Object] = [_node(node, name)]
    for each in found:
        if isinstance(each, CSINode) and each.name == like:
            made.append(_csi_node(each, name))
        elif isinstance(each, CSIStorageCapacity) and _is_of(each, node, nodes):
            made.append(_capacity(each, like, name))
    return made


def _is_of(capacity: CSIStorageCapacity, node: Node, nodes: Iterable[Node]) -> bool:
    """Whether a capacity object reaches this node and no other."""
    topology = capacity.node_topology
    if topology is None or not topology.matches(node.metadata.labels):
        return False
    return all(each.name == node.name or not topology.matches(each.metadata.labels) for each in nodes)


def _node(node: Node, name: str) -> Node:
    metadata = replace(_new(node, name).metadata, labels=_exchanged(node.metadata.labels, node.name, name))
    spec = replace(node.spec, unschedulable=False, taints=tuple(each for each in node.spec.taints if _stays(each.key)))
    return replace(node, metadata=metadata, spec=spec)


def _stays(taint: str) -> bool:
    """Whether a taint is the administrator's: what befell the old node has not befallen the new one."""
    return not taint.startswith("node.kubernetes.io/")


def _csi_node(found: CSINode, name: str) -> CSINode:
    drivers = tuple(
        replace(each, node_id=name if each.node_id == found.name else each.node_id) for each in found.spec.drivers
    )
    return replace(_new(found, name), spec=replace(found.spec, drivers=drivers))


def _capacity(found: CSIStorageCapacity, like: str, name: str) -> CSIStorageCapacity:
    topology = found.node_topology
    if topology is not None:
        topology = LabelSelector(
            match_labels=_exchanged(topology.match_labels, like, name),
            match_expressions=tuple(_requirement(each, like, name) for each in topology.match_expressions),
        )
    return replace(_new(found, f"{found.name}-{name}"), node_topology=topology)


def _requirement(each: Requirement, like: str, name: str) -> Requirement:
    return replace(each, values=tuple(name if value == like else value for value in each.values))


def _exchanged(labels: Mapping[str, str], like: str, name: str) -> dict[str, str]:
    return {key: name if value == like else value for key, value in labels.items()}


def _new(found: T, name: str) -> T:
    metadata = replace(found.metadata, name=name, uid="", resource_version="", creation_timestamp=None)
    return replace(found, metadata=metadata)
