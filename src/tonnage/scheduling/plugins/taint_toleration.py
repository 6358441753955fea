"""TaintToleration: hard taints refuse, soft ones cost.

Nodes with the same set of taints are one question: it is answered once a set, and looked up for every node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.node_selectors import PREFER_NO_SCHEDULE, Taint, find_untolerated, tolerates
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Ints, Rows
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.framework import (
    Cycle,
    EventHint,
    FilterPlugin,
    Judgement,
    ScorePlugin,
    refuse,
    scaled_to_max,
)


class TaintToleration(FilterPlugin, ScorePlugin):
    name = "TaintToleration"
    row_local = True
    node_only = True
    normalizes = True
    reason = "node(s) had untolerated taint(s)"

    def events(self) -> Iterable[EventHint]:
        node_changed = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        tolerates_more = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
        return ((node_changed, _taint_gone), (tolerates_more, about_itself))

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        return pod.pod.spec.tolerations

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        return row_about(cluster, changed)

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        cluster, tolerations = cycle.cluster, cycle.pod.pod.spec.tolerations
        sets = cluster.taints.things
        if len(sets) == 1:  # the empty set: no node has a taint
            return None
        repels = np.fromiter(
            (find_untolerated(taints, tolerations) is not None for taints in sets), np.bool_, len(sets)
        )
        return refuse(repels[cluster.taint_ids[rows]], self.reason, unresolvable=True) if repels.any() else None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Soft taints the pod does not tolerate; a toleration without effect, or with the soft one, counts."""
        sets = cycle.cluster.taints.things
        soft = [each for each in cycle.pod.pod.spec.tolerations if each.effect in ("", PREFER_NO_SCHEDULE)]

        def intolerable(taints: tuple[Taint, ...]) -> int:
            unloved = (taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE)
            return sum(not any(tolerates(each, taint) for each in soft) for taint in unloved)

        counts = np.fromiter((intolerable(taints) for taints in sets), np.int64, len(sets))
        found: Ints = counts[cycle.cluster.taint_ids[rows]]
        return found

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        return scaled_to_max(scores, reverse=True)


def _taint_gone(pod: PodInfo, event: ClusterEvent, old: Node | None, new: Node) -> Hint:
    tolerations = pod.pod.spec.tolerations
    was_repelled = old is None or find_untolerated(old.spec.taints, tolerations) is not None
    return QUEUE if was_repelled and find_untolerated(new.spec.taints, tolerations) is None else NO_HELP


def about_itself(pod: PodInfo, event: ClusterEvent, old: Pod | None, new: Pod) -> Hint:
    """A change of the waiting pod may help it; of other pods not."""
    return QUEUE if new.metadata.uid == pod.uid else NO_HELP
