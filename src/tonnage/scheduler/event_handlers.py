"""What informers see, told to those who must know: the cluster, the assumed pods, whoever waits for it, the queue.

A pod without a node waits in the queue, if one of our profiles is asked to place it; a pod with a node is a resident.
An event is applied to the cluster first, its columns or its storage, and told to bindings that wait and to the queue
after, so that a pod woken by it is judged on the new state.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from tonnage.objects.apps_v1 import ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Namespace, Node, Pod, ReplicationController, Service
from tonnage.objects.meta import Object
from tonnage.objects.policy_v1 import PodDisruptionBudget
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.engine.assumed_pods import AssumedPods
from tonnage.scheduling.preemption.disruption_budgets import DisruptionBudgets
from tonnage.scheduling.queue.queued_pod import uid_of
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue

Owner = ReplicaSet | StatefulSet | ReplicationController


class Feed:
    """Handlers for informers. All of them are quick, and run on the loop between two decisions.

    `on_change` is told what a node, a pod that goes, or an object of storage was and is, None for "not there";
    `on_pod_gone` the uid of every pod that is gone or has ended.
    """

    def __init__(
        self,
        cluster: Cluster,
        assumed: AssumedPods,
        queue: SchedulingQueue,
        scheduler_names: Container[str],
        *,
        on_change: Callable[[Object | None, Object | None], None] = lambda old, new: None,
        on_pod_gone: Callable[[str], None] = lambda uid: None,
    ) -> None:
        self._cluster = cluster
        self._assumed = assumed
        self._queue = queue
        self._names = scheduler_names
        self._on_change = on_change
        self._on_pod_gone = on_pod_gone

    # -- pods ---------------------------------------------------------------------------------------------------------

    def pod_added(self, pod: Pod) -> None:
        if pod.is_terminal:
            return
        if pod.spec.node_name:
            self._assumed.confirm(pod)
            self._queue.delete(pod, bound_to=pod.spec.node_name)
            self._queue.assigned_pod_added(pod)
        elif pod.spec.scheduler_name in self._names:
            self._queue.add(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        if uid_of(old) != uid_of(new):
            self.pod_deleted(old)
            self.pod_added(new)
        elif new.is_terminal:
            if not old.is_terminal:
                self.pod_deleted(old)
        elif old.is_terminal:
            self.pod_added(new)
        elif new.spec.node_name:
            self._assumed.confirm(new)
            if new.metadata.is_terminating and not old.metadata.is_terminating:
                self._on_change(old, new)
            if old.spec.node_name:
                self._queue.assigned_pod_updated(old, new)
            else:
                self._queue.delete(new, bound_to=new.spec.node_name)
                self._queue.assigned_pod_added(new)
        elif new.spec.scheduler_name in self._names and uid_of(new) not in self._assumed:
            # An assumed pod is on its way to a node; the queue would take it for a new one.
            self._queue.update(old, new)

    def pod_deleted(self, pod: Pod) -> None:
        assumed_on = self._cluster.node_of(uid_of(pod))
        self._assumed.gone(uid_of(pod))
        self._on_pod_gone(uid_of(pod))
        self._on_change(pod, None)
        if pod.spec.node_name:
            self._queue.assigned_pod_deleted(pod)
            return
        if pod.spec.scheduler_name in self._names:
            self._queue.delete(pod)
        if assumed_on is not None:
            self._queue.assigned_pod_deleted(pod, assumed_on=assumed_on)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def node_added(self, node: Node) -> None:
        self._cluster.put_node(node)
        self._tell(None, node)

    def node_updated(self, old: Node, new: Node) -> None:
        self._cluster.put_node(new)
        self._tell(old, new)

    def node_deleted(self, node: Node) -> None:
        self._cluster.remove_node(node.metadata.name)
        self._tell(node, None)

    # -- storage ------------------------------------------------------------------------------------------------------

    def storage_added(self, new: Object) -> None:
        """An object of `STORAGE_KINDS` came."""
        self._cluster.storage.put(new)
        self._tell(None, new)

    def storage_updated(self, old: Object, new: Object) -> None:
        self._cluster.storage.put(new)
        self._tell(old, new)

    def storage_deleted(self, old: Object) -> None:
        self._cluster.storage.remove(old)
        self._tell(old, None)

    def _tell(self, old: Object | None, new: Object | None) -> None:
        self._on_change(old, new)
        self._queue.cluster_changed(old, new)

    # -- what plugins look up -----------------------------------------------------------------------------------------

    def namespace_put(self, namespace: Namespace) -> None:
        self._cluster.namespaces[namespace.metadata.name] = namespace.metadata.labels

    def namespace_deleted(self, namespace: Namespace) -> None:
        self._cluster.namespaces.pop(namespace.metadata.name, None)

    def budget_put(self, budget: PodDisruptionBudget) -> None:
        self._cluster.view(DisruptionBudgets).put(budget)

    def budget_deleted(self, budget: PodDisruptionBudget) -> None:
        self._cluster.view(DisruptionBudgets).remove(budget)

    def service_put(self, service: Service) -> None:
        self._cluster.workloads.put_service(service.namespace, service.name, service.spec.selector)

    def service_deleted(self, service: Service) -> None:
        self._cluster.workloads.remove_service(service.namespace, service.name)

    def owner_put(self, owner: Owner) -> None:
        self._cluster.workloads.put_owner(type(owner).__name__, owner.namespace, owner.name, owner.spec.selector)

    def owner_deleted(self, owner: Owner) -> None:
        self._cluster.workloads.remove_owner(type(owner).__name__, owner.namespace, owner.name)
