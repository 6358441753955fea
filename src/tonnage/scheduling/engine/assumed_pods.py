"""Pods that were sent to a node and are not seen there yet.

Between a decision and the informer's word that the pod is bound, the cluster must count the pod already, or the next
decision would give its room away. So a decided pod is *assumed*: it is in the cluster's columns at once.

    assume ──► confirm   the informer shows it bound (here, or elsewhere: then it is moved)
        │  └─► expire    nobody confirmed it in time after its binding finished
        └────► forget    its binding failed

Each pod is counted once, whatever order the words come in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo


@dataclass(slots=True)
class _Assumption:
    info: PodInfo
    node: str
    expires_at: float | None = None


class AssumedPods:
    """`expiry_s` None keeps an assumption until it is confirmed or forgotten, as upstream does."""

    def __init__(self, cluster: Cluster, *, expiry_s: float | None = None) -> None:
        self._cluster = cluster
        self._expiry_s = expiry_s
        self._assumed: dict[str, _Assumption] = {}

    def __len__(self) -> int:
        return len(self._assumed)

    def __contains__(self, uid: str) -> bool:
        return uid in self._assumed

    def listed(self) -> Iterator[tuple[PodInfo, str]]:
        """Each assumed pod with its node, in the order of the decisions."""
        return ((each.info, each.node) for each in self._assumed.values())

    def assume(self, info: PodInfo, node: str) -> None:
        """Count a pod on the node it was just sent to. Raises ValueError when it is counted somewhere already."""
        known = self._cluster.node_of(info.uid)
        if known is not None:
            raise ValueError(f"pod {info.key} is on node {known} already and cannot be sent to {node}")
        self._assumed[info.uid] = _Assumption(info, node)
        self._cluster.put_pod(info, node)

    def binding_finished(self, uid: str, now_s: float) -> None:
        """The API accepted the binding; from now on the confirmation may be overdue."""
        assumption = self._assumed.get(uid)
        if assumption is not None and self._expiry_s is not None:
            assumption.expires_at = now_s + self._expiry_s

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

    def expire(self, now_s: float) -> list[str]:
        """Drop the assumptions that are overdue; their uids."""
        overdue = [
            uid
            for uid, assumption in self._assumed.items()
            if assumption.expires_at is not None and assumption.expires_at <= now_s
        ]
        for uid in overdue:
            self.forget(uid)
        return overdue
