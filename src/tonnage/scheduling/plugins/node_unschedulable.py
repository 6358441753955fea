"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint cordoning stands for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.node_selectors import NO_SCHEDULE, UNSCHEDULABLE, Taint, tolerates
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Rows
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import QUEUE, SKIP, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.framework import Cycle, EventHint, FilterPlugin, Judgement, refuse

_CORDONED = Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE)


class NodeUnschedulable(FilterPlugin):
    name = "NodeUnschedulable"
    row_local = True
    node_only = True
    reason = "node(s) were unschedulable"

    def events(self) -> Iterable[EventHint]:
        node_changed = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        tolerates_more = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
        return ((node_changed, _uncordoned), (tolerates_more, _now_tolerates))

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        return pod.pod.spec.tolerations

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        return row_about(cluster, changed)

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        cordoned = cycle.cluster.unschedulable[rows]
        if not cordoned.any() or any(tolerates(each, _CORDONED) for each in cycle.pod.pod.spec.tolerations):
            return None
        return refuse(cordoned, self.reason, unresolvable=True)


def _uncordoned(pod: PodInfo, event: ClusterEvent, old: Node | None, new: Node) -> Hint:
    return QUEUE if not new.spec.unschedulable and (old is None or old.spec.unschedulable) else SKIP


def _now_tolerates(pod: PodInfo, event: ClusterEvent, old: Pod | None, new: Pod) -> Hint:
    mine = new.metadata.uid == pod.uid
    return QUEUE if mine and any(tolerates(each, _CORDONED) for each in new.spec.tolerations) else SKIP
