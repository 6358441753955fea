"""Applies informer events to the cluster, the assumed pods and the queue; lists the kinds that decisions read.

    add, update, delete ──► cluster, storage (indexes follow) ──► on_change ──► queue: pods that may fit are tried again

The cluster is updated first, then the queue hears of the event once. Capacity freed by the event is announced after it,
but not for the object of the event itself. Mirrors eventhandlers.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tonnage.objects.apps_v1 import ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Event, Namespace, Node, Pod, ReplicationController, Service
from tonnage.objects.core_v1.persistent_volume import PROVISIONING_FAILED
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.storage import STORAGE_KINDS
from tonnage.scheduling.engine import attempt, held_room
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.queue.waiting_pods import uid_of

LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Decisions ignore ended pods; a server need not send them."""


PROVISIONING_FAILURES: Final = f"reason={PROVISIONING_FAILED},involvedObject.kind=PersistentVolumeClaim"
"""Events that say why a claim has no volume; decisions ignore all others."""


class ReadKind(NamedTuple):
    """A kind that decisions read."""

    cls: type[Object]
    is_needed: bool = False
    """True if nothing can be decided without it; without the other kinds, most decisions are still right."""
    field_selector: str = ""
    """Which of its objects decisions read; empty for all."""
    is_told: bool = False
    """Its objects are mainly for people: a role may leave them out, and an API server may keep them in a separate
    store, whose resourceVersions cannot be compared with those of other kinds."""


READ_KINDS: Final[tuple[ReadKind, ...]] = (
    # Nodes first, so that pods find their rows; any order works, because orphans are adopted.
    ReadKind(Node, is_needed=True),
    ReadKind(Pod, is_needed=True, field_selector=LIVE_PODS),
    *(
        ReadKind(cls)
        for cls in (Namespace, PodDisruptionBudget, Service, ReplicaSet, StatefulSet, ReplicationController)
    ),
    *(ReadKind(cls) for cls in STORAGE_KINDS),
    ReadKind(Event, field_selector=PROVISIONING_FAILURES, is_told=True),
)


_NAME_LABEL = "kubernetes.io/metadata.name"


@dataclass(slots=True, eq=False)
class EventHandlers:
    """Handlers of informer events; all are quick, and run between two decisions.

    `is_ours`: True if this scheduler places the pod. `on_change` hears of nodes, storage objects, and pods that go,
    begin terminating or get their node; `on_pod_gone` of the uid of every pod that is gone or has ended.
    `implies_namespaces`: a namespace with pods exists even without its object.
    """

    cluster: Cluster
    assumed: attempt.AssumedPods
    queue: SchedulingQueue
    held: held_room.HeldCapacity
    nominations: held_room.EngineNominations
    is_ours: Callable[[Pod], bool]
    on_change: attempt.Handler
    on_pod_gone: Callable[[str], None]
    implies_namespaces: bool

    def changed(self, old: Object | None, new: Object | None) -> None:
        """An object came (`old` is None), changed, or went (`new` is None). Kinds that are not read are ignored."""
        match old if new is None else new:
            case Node():
                self._node(old, new)
            case Pod():
                self._pod(old, new)
            case Namespace(metadata=metadata):
                if new is not None:
                    self.cluster.namespaces[metadata.name] = metadata.labels
                else:
                    self.cluster.namespaces.pop(metadata.name, None)
            case PodDisruptionBudget() as budget:
                budgets = self.cluster.index(DisruptionBudgets)
                (budgets.remove if new is None else budgets.put)(budget)
            case Service() | ReplicaSet() | StatefulSet() | ReplicationController() as workload:
                selector = workload.spec.selector if new is not None else None  # the default spreading rules read it
                self.cluster.workloads.put(type(workload).__name__, workload.key, selector)
            case Event():
                self._event(old, new)
            case each if isinstance(each, STORAGE_KINDS):
                self._storage(old, new)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _pod(self, old: Object | None, new: Object | None) -> None:
        assert isinstance(old, Pod | None) and isinstance(new, Pod | None)
        if new is None:
            if old is not None:
                self._pod_deleted(old)
        elif old is None:
            self._pod_added(new)
        else:
            self._pod_updated(old, new)

    def _pod_added(self, pod: Pod) -> None:
        if self.implies_namespaces:
            self.cluster.namespaces.setdefault(pod.namespace, {_NAME_LABEL: pod.namespace})
        if pod.is_terminal:
            return
        if pod.spec.node_name:
            self._confirm(pod)
            self._has_node(pod)
        elif self.is_ours(pod):
            self.nominations.waits(pod)
            self.queue.add(pod)

    def _confirm(self, pod: Pod) -> None:
        """Count a pod on the informer's node. If it was assumed on another node, that node has room again."""
        counted_on = self.cluster.node_of(uid_of(pod))
        self.assumed.confirm(pod)
        if counted_on is not None and counted_on != pod.spec.node_name:
            self.queue.assigned_pod_deleted(pod, assumed_on=counted_on)

    def _has_node(self, pod: Pod) -> None:
        self.nominations.left(pod)
        self.queue.delete(pod, bound_to=pod.spec.node_name)
        self.queue.cluster_changed(None, pod)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if uid_of(old) != uid_of(new):
            self._pod_deleted(old)
            self._pod_added(new)
        elif new.is_terminal:
            if not old.is_terminal:
                self._pod_deleted(old)
        elif old.is_terminal:
            self._pod_added(new)
        elif new.spec.node_name:
            self._confirm(new)
            if not old.spec.node_name or (new.metadata.is_terminating and not old.metadata.is_terminating):
                self.on_change(old, new)
            if old.spec.node_name:
                self.queue.cluster_changed(old, new)
            else:
                self._has_node(new)
        elif old.spec.node_name:
            # A pod never leaves its node alive: the server has gone back to before the binding.
            self._pod_deleted(old)
            self._pod_added(new)
        elif self.is_ours(new):
            if new.metadata.is_terminating and not old.metadata.is_terminating:
                self.on_change(old, new)
            if uid_of(new) not in self.assumed:
                # An assumed pod is on its way to a node; the queue would treat it as new.
                self.queue.update(old, new)

    def _pod_deleted(self, pod: Pod) -> None:
        uid = uid_of(pod)
        assumed_on = self.cluster.node_of(uid)
        self.assumed.gone(uid)
        self.nominations.left(pod)
        self.held.pod_gone(uid)
        self.on_pod_gone(uid)
        self.on_change(pod, None)
        if pod.spec.node_name:
            self.nominations.assigned_pod_gone(pod)
            self.queue.assigned_pod_deleted(pod)
            return
        if self.is_ours(pod):
            self.queue.delete(pod)
        if assumed_on is not None:
            self.queue.assigned_pod_deleted(pod, assumed_on=assumed_on)

    # -- nodes and storage --------------------------------------------------------------------------------------------

    def _node(self, old: Object | None, new: Object | None) -> None:
        with self.nominations.changing(old, new):
            if isinstance(new, Node):
                self.cluster.put_node(new)
            elif old is not None:
                self.cluster.remove_node(old.metadata.name)
            self.on_change(old, new)
            self.queue.cluster_changed(old, new)
        if new is not None:
            self.queue.nominator.node_changed(new.metadata.name, is_new=old is None)

    def _storage(self, old: Object | None, new: Object | None) -> None:
        storage = self.cluster.storage
        with self.held.told_after(new), self.nominations.changing(old, new):
            if new is not None:
                storage.put(new)
            elif old is not None:
                storage.remove(old)
            self.on_change(old, new)
            self.queue.cluster_changed(old, new)
            if isinstance(known := new or old, VolumeAttachment):
                self._attachment_changed(known)

    def _attachment_changed(self, attachment: VolumeAttachment) -> None:
        """An attachment decides where a volume's pods may go: for the queue, the volume has changed."""
        volume = self.cluster.storage.volumes.get(attachment.spec.source.persistent_volume_name)
        if volume is not None and volume.spec.claim_ref is not None:
            self.queue.cluster_changed(volume, volume)

    def _event(self, old: Object | None, new: Object | None) -> None:
        """A provisioning failure of a claim. Capacity that it frees is announced; the event itself helps no pod."""
        known = new or old
        is_read = isinstance(known, Event) and known.reason == PROVISIONING_FAILED
        if not is_read or not isinstance(known, Event) or known.involved_object.kind != "PersistentVolumeClaim":
            return
        with self.held.told_after(None):
            if new is not None:
                self.cluster.storage.put(new)
            else:
                self.cluster.storage.remove(known)
