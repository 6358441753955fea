"""NodePorts: two pods cannot have the same port of one node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Rows, among, only_row
from tonnage.scheduling.cluster.images_and_ports import HostPorts
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import NODE_ADD, QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.framework import (
    SKIP,
    Cycle,
    EventHint,
    FilterPlugin,
    Judgement,
    PreFilterPlugin,
    Status,
    refuse,
)


class NodePorts(PreFilterPlugin, FilterPlugin):
    name = "NodePorts"
    row_local = True
    reason = "node(s) didn't have free ports for the requested pod ports"

    def events(self) -> Iterable[EventHint]:
        return ((ClusterEvent(EventResource.POD, ActionType.DELETE), _port_freed), (NODE_ADD, None))

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        found: Hashable = pod.host_ports
        return found

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        return row_about(cluster, changed)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return None if cycle.pod.host_ports else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        ports = cycle.cluster.ports
        if (row := only_row(rows)) >= 0:
            is_taken = ports.is_in_conflict(cycle.pod.host_ports, row)
            return refuse(np.array([True]), self.reason, unresolvable=False) if is_taken else None
        taken = ports.rows_in_conflict(cycle.pod.host_ports)
        if not taken:
            return None
        return refuse(among(taken, rows, cycle.cluster.size), self.reason, unresolvable=False)

    def passes_with_fewer_pods(self, cycle: Cycle) -> bool:
        return True


def _port_freed(pod: PodInfo, event: ClusterEvent, old: Pod, new: None) -> Hint:
    """A pod that was on a node, or expected there, and had a port this one wants."""
    if not old.spec.node_name and not old.status.nominated_node_name:
        return NO_HELP
    freed = HostPorts()
    freed.add(PodInfo(old).host_ports, 0)
    return QUEUE if freed.rows_in_conflict(pod.host_ports) else NO_HELP
