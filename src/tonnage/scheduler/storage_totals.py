"""All bytes of each StorageClass, free and used, in total and by node.

An object's total is its free bytes and those of the volumes in its topology. A volume counts for its class and for the
classes that share its disks (`tonnage.dev/capacity-group`), where its node affinity has every label of the object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.capacity.pools import free_bytes

Label = tuple[str, str]
ByClass = dict[tuple[str], float]
ByClassAndNode = dict[tuple[str, str], float]


def storage_totals(cluster: Cluster) -> tuple[ByClass, ByClassAndNode, ByClassAndNode]:
    """Total bytes by class; free and total bytes by class and node, where an object reaches one node alone."""
    total: ByClass = defaultdict(float)
    free_on: ByClassAndNode = defaultdict(float)
    total_on: ByClassAndNode = defaultdict(float)
    used = _used_bytes(cluster)
    nodes = _nodes_by_label(cluster)
    for capacity in cluster.storage.capacities.values():
        name = capacity.storage_class_name
        labels = _labels(capacity)
        free = max(free_bytes(capacity) or 0, 0)
        all_bytes = free + min((used[_disks(cluster, name), label] for label in labels), default=0)
        total[name,] += all_bytes
        reached = set.intersection(*(nodes[label] for label in labels)) if labels else set()
        if len(reached) == 1:
            key = (name, reached.pop())
            free_on[key] += free
            total_on[key] += all_bytes
    return total, free_on, total_on


def _disks(cluster: Cluster, class_name: str) -> str:
    """The name that classes on the same disks have in common: of their capacity group, else of the class."""
    found = cluster.storage.classes.get(class_name)
    group = found.capacity_group if found is not None else ""
    return f"{found.provisioner}/{group}" if found is not None and group else class_name


def _labels(capacity: CSIStorageCapacity) -> list[Label]:
    topology = capacity.node_topology
    return sorted(topology.match_labels.items()) if topology is not None else []


def _used_bytes(cluster: Cluster) -> Mapping[tuple[str, Label], int]:
    """Bytes of volumes, by disks and by each label that the volume's nodes have."""
    used: dict[tuple[str, Label], int] = defaultdict(int)
    for volume in cluster.storage.volumes:
        disks = _disks(cluster, volume.spec.storage_class_name)
        for label in set(_labels_of_volume(volume)):
            used[disks, label] += volume.size.value()
    return used


def _labels_of_volume(volume: PersistentVolume) -> Iterator[Label]:
    affinity = volume.spec.node_affinity.required
    for term in affinity.node_selector_terms if affinity is not None else ():
        for requirement in term.match_expressions:
            if requirement.operator == "In" and len(requirement.values) == 1:
                yield requirement.key, requirement.values[0]


def _nodes_by_label(cluster: Cluster) -> Mapping[Label, set[str]]:
    """Nodes by the labels that capacity objects select."""
    keys = {key for capacity in cluster.storage.capacities.values() for key, _ in _labels(capacity)}
    nodes: dict[Label, set[str]] = defaultdict(set)
    for node in cluster.nodes:
        if node is not None:
            for key in keys & node.metadata.labels.keys():
                nodes[key, node.metadata.labels[key]].add(node.metadata.name)
    return nodes
