"""A cluster from a heap of objects: what `explain` and `replay` decide on, and what a test of a whole cluster loads.

The live scheduler is fed by events, one at a time; here everything is known at once, and a replay goes on from there
(`put`, `remove`). Nodes are taken in order of their names, so that the same objects give the same rows, and with a
seeded choice between equals the same decision, whatever order a file or a server lists them in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from tonnage.clock import Clock, VirtualClock
from tonnage.objects.apps_v1 import ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Namespace, Node, Pod, ReplicationController, Service
from tonnage.objects.meta import Key, Object
from tonnage.objects.policy_v1 import PodDisruptionBudget
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.storage import STORAGE_KINDS
from tonnage.scheduling.preemption.disruption_budgets import DisruptionBudgets
from tonnage.scheduling.queue.nominator import Nominator
from tonnage.scheduling.queue.queued_pod import uid_of

_NAME_LABEL = "kubernetes.io/metadata.name"


@dataclass(slots=True)
class Snapshot:
    """The cluster with its residents, the pods that are expected somewhere, and all pods by key."""

    cluster: Cluster = field(default_factory=Cluster)
    nominator: Nominator = field(default_factory=Nominator)
    pods: dict[Key, Pod] = field(default_factory=dict)

    def put(self, each: Object) -> None:
        """An object came or changed; kinds that decisions do not look at are passed over.

        A namespace that has pods is there whether its object is or not, with the one label all have.
        """
        cluster = self.cluster
        match each:
            case Node():
                cluster.put_node(each)
            case Pod():
                self.pods[each.key] = each
                cluster.namespaces.setdefault(each.namespace, {_NAME_LABEL: each.namespace})
                if each.spec.node_name:
                    self.nominator.remove(each)
                    place(cluster, each)
                elif not each.is_terminal:
                    self.nominator.nominate(each)
            case Namespace():
                cluster.namespaces[each.name] = each.metadata.labels
            case Service():
                cluster.workloads.put_service(each.namespace, each.name, each.spec.selector)
            case ReplicaSet() | StatefulSet() | ReplicationController():
                cluster.workloads.put_owner(type(each).__name__, each.namespace, each.name, each.spec.selector)
            case PodDisruptionBudget():
                cluster.view(DisruptionBudgets).put(each)
            case _ if isinstance(each, STORAGE_KINDS):
                cluster.storage.put(each)

    def remove(self, each: Object) -> None:
        """An object is gone."""
        cluster = self.cluster
        match each:
            case Node():
                cluster.remove_node(each.name)
            case Pod():
                self.pods.pop(each.key, None)
                self.nominator.remove(each)
                cluster.remove_pod(uid_of(each))
            case Namespace():
                cluster.namespaces.pop(each.name, None)
            case Service():
                cluster.workloads.remove_service(each.namespace, each.name)
            case ReplicaSet() | StatefulSet() | ReplicationController():
                cluster.workloads.remove_owner(type(each).__name__, each.namespace, each.name)
            case PodDisruptionBudget():
                cluster.view(DisruptionBudgets).remove(each)
            case _ if isinstance(each, STORAGE_KINDS):
                cluster.storage.remove(each)


def snapshot_of(objects: Iterable[Object], clock: Clock | None = None) -> Snapshot:
    """Load objects, in any order. `clock` is the cluster's; without one time stands still."""
    snapshot = Snapshot(Cluster(clock))
    found = list(objects)
    nodes = [each for each in found if isinstance(each, Node)]
    for node in sorted(nodes, key=lambda node: node.name):
        snapshot.put(node)
    for each in found:
        if not isinstance(each, (Node, Pod)):
            snapshot.put(each)
    pods = {each.key: each for each in found if isinstance(each, Pod)}
    for pod in pods.values():
        snapshot.put(pod)
    return snapshot


def clock_of(objects: Iterable[Object]) -> VirtualClock:
    """A clock that stands at the last instant the objects tell of: a dump was taken then, or soon after.

    At a fixed instant when they tell of none.
    """
    told = [at for each in objects for at in _times_in(each)]
    return VirtualClock(max(told)) if told else VirtualClock()


def _times_in(value: Any) -> Iterator[datetime]:
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _times_in(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from _times_in(each)
