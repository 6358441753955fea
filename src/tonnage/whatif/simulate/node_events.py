"""What happens to nodes: cordon, drain, failure, out-of-service, removal, recovery, and new nodes.

A drain cordons, then evicts pod after pod as `kubectl drain` does. Volumes of a node that is out of use may be rebuilt
elsewhere, if their driver does that (KEP-5925).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tonnage.behaviour.nodes.node_lifecycle_plan import stay_s
from tonnage.behaviour.workloads.pod_states import Find, guards, with_true_status
from tonnage.clock import rfc3339
from tonnage.documents.kinds.pod_disruption_budget import judge_eviction
from tonnage.errors import ApiError
from tonnage.objects import codec, storage_v1
from tonnage.objects.core_v1 import Node, PersistentVolume, Pod, is_out_of_use
from tonnage.objects.requirements import NO_EXECUTE, NO_SCHEDULE, OUT_OF_SERVICE, UNREACHABLE, Taint
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.whatif.creation import renewed
from tonnage.whatif.simulate import controllers, kubelets
from tonnage.whatif.simulate.world_state import WorldState


def eviction_refusal(
    pod: Pod, budgets: Iterable[PodDisruptionBudget], pods: Callable[[], Sequence[Pod]], find: Find, now: datetime
) -> str:
    """Why a pod may not be evicted now; empty when it may.

    `pods` returns all pods; it is called only if a budget selects the pod. `find` looks up workloads.
    """
    meant = [budget for budget in budgets if budget.namespace == pod.namespace and guards(budget, pod)]
    if not meant:
        return ""
    counted = [codec.to_doc(with_true_status(budget, pods(), find, now)) for budget in meant]
    doc = codec.to_doc(pod)
    doc.setdefault("status", {})["phase"] = pod.status.phase  # a typed pod omits the default phase
    try:
        judge_eviction(doc, counted, {}, now=rfc3339(now))
    except ApiError as exc:
        return ", ".join(cause.message for cause in exc.causes) or exc.message
    return ""


_EVICT_AGAIN_S: Final = 5.0
"""How soon kubectl retries an eviction that a budget refused."""


@dataclass(slots=True)
class NodeEvents:
    _world: WorldState
    _controllers: controllers.Controllers
    _rebuilds: kubelets.Rebuilds
    _draining: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    """Pods that a budget still keeps on a draining node, with the reason."""

    def _may_go(self, pod: Pod) -> bool:
        world = self._world
        why = eviction_refusal(pod, world.all(PodDisruptionBudget), world.pods, world.find, world.clock.now())
        self.refused.pop(pod.key, None)
        if why:
            self.refused[pod.key] = why
        return not why

    def open(self) -> None:
        """Initial terminating pods disappear when their grace period is over, but for those on lost nodes."""
        now = self._world.clock.now()
        for pod in self._world.pods():
            if (ends_at := pod.metadata.deletion_timestamp) is not None:
                left_s = (ends_at - now).total_seconds()
                self._world.agenda.after(left_s, lambda pod=pod: self._terminated(pod))  # type: ignore[misc]

    def _terminated(self, pod: Pod) -> None:
        if not self._is_lost(pod.spec.node_name):
            self._controllers.left(pod, "terminated")

    def _is_lost(self, name: str) -> bool:
        node = self._world.get(Node, name)
        return node is not None and any(taint.key == UNREACHABLE for taint in node.spec.taints)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def cordon(self, name: str) -> None:
        self._change(name, unschedulable=True)
        self._rebuilds.set_free(name, self.volumes_on(name))

    def uncordon(self, name: str) -> None:
        """Put the node back in use; volumes that are still there are confined to it again."""
        self._draining.discard(name)
        self._change(name, unschedulable=False)
        self._confine(name)

    def _confine(self, name: str) -> None:
        if not is_out_of_use(self._world.get(Node, name)):
            for volume in self.volumes_on(name):
                self._rebuilds.confine(volume)

    def drain(self, name: str) -> None:
        self.cordon(name)
        self._draining.add(name)
        self._evict_all(name)

    def fail(self, name: str) -> None:
        """The node stops reporting: it is tainted at once, and pods are deleted when their toleration ends."""
        taints = (Taint(key=UNREACHABLE, effect=NO_SCHEDULE), Taint(key=UNREACHABLE, effect=NO_EXECUTE))
        self._change(name, taints=taints)
        for pod in self._world.pods_on(name):
            stays_s = stay_s(taints[1:], pod.spec.tolerations)
            if not math.isinf(stays_s):
                self._world.agenda.after(stays_s, lambda pod=pod: self._leave(pod, name))  # type: ignore[misc]

    def out_of_service(self, name: str) -> None:
        """A person declares the node dead: its pods are deleted by force, its volumes may be rebuilt elsewhere."""
        taint = Taint(key=OUT_OF_SERVICE, value="nodeshutdown", effect=NO_EXECUTE)
        self._change(name, taints=(taint,))
        self._rebuilds.set_free(name, self.volumes_on(name))
        self._finish(name, "its node is out of service")
        for pod in self._world.pods_on(name):
            if not math.isinf(stay_s((taint,), pod.spec.tolerations)) and not pod.is_terminal:
                self._controllers.replace(pod, "its node is out of service")

    def recover(self, name: str) -> None:
        """The node reports again; pods that were deleted meanwhile disappear."""
        self._change(name, without_taints=(UNREACHABLE, OUT_OF_SERVICE))
        self._finish(name, "its node stopped reporting")
        self._confine(name)

    def remove(self, name: str) -> None:
        """Delete the Node and its CSINode: its pods go too, and its volumes may be rebuilt elsewhere."""
        volumes = self.volumes_on(name)
        self._draining.discard(name)
        self._world.remove(Node, name)
        self._world.remove(storage_v1.CSINode, name)
        self._rebuilds.set_free(name, volumes)
        self._finish(name, "its node is gone")
        for pod in self._world.pods_on(name):
            self._controllers.replace(pod, "its node is gone")

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _evict_all(self, name: str) -> None:
        """Evict every pod that is due; evictions that a budget refuses are retried while the drain lasts."""
        if name not in self._draining:
            return
        refused = False
        for pod in self._world.pods_on(name):
            if stays(pod):
                continue
            if self._may_go(pod):
                self._controllers.replace(pod, "evicted")
            else:
                refused = True
        if refused:
            self._world.agenda.after(_EVICT_AGAIN_S, lambda: self._evict_all(name), is_alarm=True)

    def _leave(self, pod: Pod, name: str) -> None:
        """A pod's toleration of an unreachable node is over. Nothing there can end it: it stays terminating."""
        now = self._world.now(pod)
        is_lost = self._is_lost(name) or self._world.get(Node, name) is None
        if now is not None and not now.metadata.is_terminating and is_lost:
            self._controllers.leaves(self._world.put(renewed(now, {"deletion_timestamp": self._world.clock.now()})))

    def _finish(self, name: str, why: str) -> None:
        for pod in self._world.pods_on(name):
            if pod.metadata.is_terminating:
                self._controllers.left(pod, why)

    def volumes_on(self, name: str) -> list[PersistentVolume]:
        """The volumes that only this node can use, or that are on its disk."""
        node = self._world.get(Node, name)
        if node is None:
            return []
        return [volume for volume in self._world.all(PersistentVolume) if self._rebuilds.model.is_home(volume, node)]

    def _change(
        self,
        name: str,
        *,
        unschedulable: bool | None = None,
        taints: Sequence[Taint] = (),
        without_taints: Sequence[str] = (),
    ) -> None:
        node = self._world.get(Node, name)
        if node is None:
            return
        kept = tuple(taint for taint in node.spec.taints if taint.key not in without_taints)
        added = tuple(taint for taint in taints if taint not in kept)
        is_closed = node.spec.unschedulable if unschedulable is None else unschedulable
        self._world.put(renewed(node, spec={"unschedulable": is_closed, "taints": (*kept, *added)}))


def stays(pod: Pod) -> bool:
    """True for pods that a drain leaves alone: those that belong to the node, have ended, or are terminating."""
    return controllers.is_daemon(pod) or controllers.is_mirror(pod) or pod.is_terminal or pod.metadata.is_terminating
