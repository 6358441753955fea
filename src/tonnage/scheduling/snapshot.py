"""A cluster from a heap of objects: what `explain` and `replay` decide on, and what a test of a whole cluster loads.

The live scheduler is fed by events, one at a time; here everything is known at once. Nodes are taken in order of their
names, so that the same objects give the same rows, and with a seeded choice between equals the same decision, whatever
order a file or a server lists them in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tonnage.objects.apps_v1 import ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Namespace, Node, Pod, ReplicationController, Service
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.cluster import Cluster, place
from tonnage.scheduling.nominator import Nominator

_NAME_LABEL = "kubernetes.io/metadata.name"


@dataclass(slots=True)
class Snapshot:
    """The cluster with its residents, the pods that are expected somewhere, and all pods by key."""

    cluster: Cluster = field(default_factory=Cluster)
    nominator: Nominator = field(default_factory=Nominator)
    pods: dict[Key, Pod] = field(default_factory=dict)


def snapshot_of(objects: Iterable[Object]) -> Snapshot:
    """Load objects, in any order; kinds that decisions do not look at are passed over.

    A namespace that has pods and is not among the objects is there all the same, with the one label all have.
    """
    snapshot = Snapshot()
    cluster = snapshot.cluster
    nodes: list[Node] = []
    for each in objects:
        match each:
            case Node():
                nodes.append(each)
            case Pod():
                snapshot.pods[each.key] = each
            case Namespace():
                cluster.namespaces[each.name] = each.metadata.labels
            case Service():
                cluster.workloads.put_service(each.namespace, each.name, each.spec.selector)
            case ReplicaSet() | StatefulSet() | ReplicationController():
                cluster.workloads.put_owner(type(each).__name__, each.namespace, each.name, each.spec.selector)
    for node in sorted(nodes, key=lambda node: node.name):
        cluster.put_node(node)
    for pod in snapshot.pods.values():
        cluster.namespaces.setdefault(pod.namespace, {_NAME_LABEL: pod.namespace})
        if pod.spec.node_name:
            place(cluster, pod)
        elif not pod.is_terminal:
            snapshot.nominator.nominate(pod)
    return snapshot
