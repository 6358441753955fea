"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Rows, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import NODE_ADD, ClusterEvent
from tonnage.scheduling.framework import Cycle, EventHint, FilterPlugin, Judgement, refuse


class NodeName(FilterPlugin):
    name = "NodeName"
    row_local = True
    node_only = True
    reason = "node(s) didn't match the requested node name"

    def events(self) -> Iterable[EventHint]:
        return ((NODE_ADD, None),)

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        return pod.pod.spec.node_name

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        return row_about(cluster, changed)

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        wanted = cycle.pod.pod.spec.node_name
        if not wanted:
            return None
        row = cycle.cluster.row_of.get(wanted, -1)
        return refuse(row_numbers(rows) != row, self.reason, unresolvable=True)
