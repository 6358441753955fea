"""Who is expected on which node before being bound there.

A nomination comes from a preemption that is making room, from the API (`status.nominatedNodeName`, written by whoever),
or is the scheduler's own choice on its way to the API. Memory and API may differ for a while, and memory is what
decisions use: pods of equal or lower priority leave room for a pod nominated to a node, as if it ran there.

A nomination may name a node that does not exist (yet). It is kept like any other and counts for nobody until the node
appears. Nothing is kept for a pod that is gone, nor for a node that nobody is nominated to. Mirrors upstream's
nominator; who may still be nominated, the queue knows (`SchedulingQueue.nominate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.queued_pod import uid_of

_NOBODY: Final[dict[str, PodInfo]] = {}


class Nominator:
    """Nominated pods by node name, in the order they were nominated; a pod has at most one node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def nominate(self, pod: Pod, node_name: str | None = None) -> None:
        """Expect the pod on a node, and on no other. None takes what the pod's status says; "" expects it nowhere."""
        self.remove(pod)
        wanted = pod.status.nominated_node_name if node_name is None else node_name
        if wanted:
            info = PodInfo(pod)
            self._node_of[info.uid] = wanted
            self._by_node.setdefault(wanted, {})[info.uid] = info

    def update(self, old: Pod, new: Pod) -> None:
        """The pod was changed in the API. If its nomination was, that holds, also when it is taken back.

        If it was not, ours stays: it is on its way there. (Upstream keeps ours only while the API knows of none, and
        falls back to the API's old one otherwise, until the new one arrives.)
        """
        is_told = old.status.nominated_node_name != new.status.nominated_node_name
        self.nominate(new, None if is_told else self.node_of(new))

    def remove(self, pod: Pod) -> None:
        """The pod is gone, bound, or assumed to be: it is no longer expected but there, or not at all."""
        uid = uid_of(pod)
        node_name = self._node_of.pop(uid, "")
        if node_name:
            expected = self._by_node[node_name]
            del expected[uid]
            if not expected:
                del self._by_node[node_name]

    def node_of(self, pod: Pod) -> str:
        """Where the pod is expected; "" for nowhere."""
        return self._node_of.get(uid_of(pod), "")

    def pods_on(self, node_name: str) -> tuple[PodInfo, ...]:
        """Who is expected on a node."""
        return tuple(self._by_node.get(node_name, _NOBODY).values())

    def ahead_of(self, pod: PodInfo) -> Iterator[tuple[str, PodInfo]]:
        """(node, pod expected there) for all that this pod has to leave room for: others, of its priority or higher."""
        for node_name, expected in self._by_node.items():
            for other in expected.values():
                if other.priority >= pod.priority and other.uid != pod.uid:
                    yield node_name, other

    def __len__(self) -> int:
        """How many pods are nominated; 0 lets a decision skip the matter."""
        return len(self._node_of)
