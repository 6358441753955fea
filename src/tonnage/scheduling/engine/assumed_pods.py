"""Pods that were sent to a node and are not seen there yet: the cluster counts them there, each once.

    assume ──► binding_finished ──► confirm   the informer shows it bound (here, or elsewhere: then it is moved)
        │              └──► overdue: somebody has to ask the API
        │                      ├──► ask_again    no answer
        └──► forget            └──► forget       it is not: the binding was accepted and did not happen
             its binding failed

An assumption is never dropped by the clock alone: a watch that is behind shows no bindings either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import Placement

CONFIRMED_WITHIN_S: Final = 5.0
"""How long after its binding a pod may go without being seen on its node before the API is asked about it. Watches show
it within milliseconds. kube-scheduler waits for ever, and the pod with it."""


@dataclass(slots=True)
class _Assumption:
    info: PodInfo
    node: str
    bound_by: Placement | None = None
    overdue_at: float | None = None


class AssumedPods:
    """The pods that are on their way, by uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._assumed: dict[str, _Assumption] = {}

    def __len__(self) -> int:
        return len(self._assumed)

    def __contains__(self, uid: str) -> bool:
        return uid in self._assumed

    def listed(self) -> Iterator[tuple[PodInfo, str]]:
        """Each assumed pod with its node, in the order of the decisions."""
        return ((each.info, each.node) for each in self._assumed.values())

    def assume(self, info: PodInfo, node: str) -> bool:
        """Count a pod on the node it was just sent to; False, with nothing changed, if it has a node already."""
        if self._cluster.node_of(info.uid) is not None:
            return False
        self._assumed[info.uid] = _Assumption(info, node)
        self._cluster.put_pod(info, node)
        return True

    def binding_finished(self, placement: Placement, now_s: float) -> None:
        """The API accepted the binding; from now on the confirmation may be overdue."""
        assumption = self._assumed.get(placement.pod.uid)
        if assumption is not None:
            assumption.bound_by = placement
            assumption.overdue_at = now_s + CONFIRMED_WITHIN_S

    def is_waited_for(self, placement: Placement) -> bool:
        """Whether the pod is assumed by this very placement, and its binding finished."""
        assumption = self._assumed.get(placement.pod.uid)
        return assumption is not None and assumption.bound_by is placement

    def ask_again(self, placement: Placement, now_s: float) -> None:
        """The API did not answer whether the pod is bound: it is overdue again after a while."""
        if self.is_waited_for(placement):
            self._assumed[placement.pod.uid].overdue_at = now_s + CONFIRMED_WITHIN_S

    def forget(self, uid: str) -> bool:
        """The binding failed: give the room back. False when the pod was not assumed (any more)."""
        if self._assumed.pop(uid, None) is None:
            return False
        self._cluster.remove_pod(uid)
        return True

    def confirm(self, pod: Pod) -> None:
        """The informer shows a bound pod, assumed or not."""
        info = PodInfo(pod)
        self._assumed.pop(info.uid, None)
        if pod.is_terminal:
            self._cluster.remove_pod(info.uid)
        else:
            self._cluster.put_pod(info, pod.spec.node_name)

    def gone(self, uid: str) -> None:
        """The informer shows that a pod is deleted."""
        self._assumed.pop(uid, None)
        self._cluster.remove_pod(uid)

    def overdue(self, now_s: float) -> list[Placement]:
        """The bindings that were accepted and not confirmed in time; each is told once, until `ask_again`."""
        found: list[Placement] = []
        for each in self._assumed.values():
            if each.bound_by is not None and each.overdue_at is not None and each.overdue_at <= now_s:
                each.overdue_at = None
                found.append(each.bound_by)
        return found
