"""Which pods a node has admitted; the rules are in `behaviour.nodes.kubelet_admission`.

A pod keeps its share until it has ended or is gone. After a start, pods that ran before are judged first, then by age.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from tonnage.behaviour.nodes.kubelet_admission import NODE_AFFINITY, AdmittedPods, KubeletPreemption, PodRejection
from tonnage.errors import NotFound
from tonnage.node.context import NodeContext, NodePart
from tonnage.node.node_objects import new_node
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, Pod

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class NodeAdmission(NodePart):
    def __init__(self, context: NodeContext) -> None:
        super().__init__(context)
        self.admitted = AdmittedPods()

    def restore(self) -> None:
        """Admit the pods that are here at the start and fit. The others are rejected when synced."""
        active = [pod for pod in self._pods.on_node(self._node) if not pod.is_terminal]
        node = self._node_object()
        for pod in sorted(active, key=_order):
            if not pod.metadata.is_terminating:
                self._judge(pod, node)
            elif pod.status.start_time is not None:
                self.admitted.admit(pod)

    async def decide(self, pod: Pod) -> PodRejection | KubeletPreemption | None:
        """None if the pod is or was admitted. Raises TonnageError."""
        verdict = self._judge(pod, self._node_object())
        if isinstance(verdict, PodRejection) and verdict.reason == NODE_AFFINITY:
            with suppress(NotFound):  # the scheduler may have seen labels that our watch has not shown yet
                verdict = self._judge(pod, await self._client.get(Node, self._node))
        return verdict

    def _judge(self, pod: Pod, node: Node) -> PodRejection | KubeletPreemption | None:
        def is_active(uid: str) -> bool:
            known = self._pods.pod(uid)
            return known is not None and not known.is_terminal

        return self.admitted.judge(pod, node, is_active)

    def _node_object(self) -> Node:
        """The Node, or the one that registration will create."""
        found = self._nodes.get(self._node)
        return found or convert(Node, new_node(self._node, self._settings, now=self._clock.now()))


def _order(pod: Pod) -> tuple[bool, datetime, str]:
    return pod.status.start_time is None, pod.metadata.creation_timestamp or _EPOCH, pod.key
