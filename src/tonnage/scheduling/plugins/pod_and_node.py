"""Plugins that read only the pod, or the pod and a node, without other pods.

NodeName, NodeUnschedulable, TaintToleration and NodeAffinity read only the node and `PodInfo.node_constraints`: a
requirement is answered once per distinct label value, taints once per distinct set; then every node is looked up. If
all required terms of a pod name nodes by `metadata.name`, PreFilter narrows the decision to these nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.core_v1 import NodeAffinity as Affinity
from tonnage.objects.requirements import (
    NO_SCHEDULE,
    NODE_NAME_FIELD,
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE,
    NodeSelectorTerm,
    Requirement,
    Taint,
    find_untolerated,
    tolerates,
)
from tonnage.scheduling import framework
from tonnage.scheduling.cluster.cluster import Cluster, matching, row_about, term_matching
from tonnage.scheduling.cluster.columns import Ints, Rows, row_count, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import NODE_ADD, QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP


def reach_of_row(plugin: framework.Plugin, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
    """`Plugin.reach` of plugins that judge a row by that row alone."""
    return row_about(cluster, changed)


class NodeAffinity(framework.PreFilterPlugin, framework.FilterPlugin, framework.PreScorePlugin, framework.ScorePlugin):
    """`added` is the operator's affinity for every pod of the profile (`addedAffinity`)."""

    name = "NodeAffinity"
    reach = reach_of_row
    row_local = True
    node_only = True
    normalizes = True
    pod_reason = "node(s) didn't match Pod's node affinity/selector"
    enforced_reason = "node(s) didn't match scheduler-enforced node affinity"

    def __init__(self, added: Affinity | None = None) -> None:
        self._added = added or Affinity()

    def events(self) -> Iterable[framework.EventHint]:
        return ((ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), self._now_matches),)

    def _now_matches(self, pod: PodInfo, event: ClusterEvent, old: Node | None, new: Node) -> Hint:
        """A node that matches now and did not before. (Upstream ignores the operator's affinity before.)"""
        enforced, wanted = self._added.required, pod.pod.required_node_affinity()

        def matches(node: Node | None) -> bool:
            if node is None or (enforced is not None and not enforced.matches(node.name, node.metadata.labels)):
                return False
            return wanted.matches(node.name, node.metadata.labels)

        return QUEUE if matches(new) and not matches(old) else NO_HELP

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        return pod.node_constraints

    def pre_filter(self, cycle: framework.Cycle) -> framework.Status | framework.Narrowing | None:
        spec, required = cycle.pod.pod.spec, cycle.pod.required_nodes
        if required is None and not spec.node_selector and self._added.required is None:
            return framework.SKIP
        if required is None or not required.node_selector_terms:
            return None
        wanted: set[str] = set()
        for term in required.node_selector_terms:
            names = _named(term)
            if names is None:
                return None  # this term selects nodes by label: any node may pass
            wanted |= names
        if not wanted:
            return framework.unresolvable("pod affinity terms conflict")
        return framework.Narrowing(
            frozenset(cycle.cluster.row_of[name] for name in wanted if name in cycle.cluster.row_of)
        )

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        cluster, spec = cycle.cluster, cycle.pod.pod.spec
        reasons = (self.enforced_reason, self.pod_reason)
        bits = np.zeros(row_count(rows), dtype=np.int64)
        for key, value in spec.node_selector.items():
            bits[~cluster.labels.meets(Requirement(key=key, operator="In", values=(value,)), rows)] = 2
        if cycle.pod.required_nodes is not None:
            bits[~matching(cluster, cycle.pod.required_nodes, rows)] = 2
        # The operator's affinity comes first: a node that it refuses is not judged by the pod's.
        if self._added.required is not None:
            bits[~matching(cluster, self._added.required, rows)] = 1
        return framework.Judgement(bits, reasons) if bits.any() else None

    def pre_score(self, cycle: framework.Cycle) -> framework.Status | None:
        preferred = cycle.pod.pod.spec.affinity.node_affinity.preferred or self._added.preferred
        return None if preferred else framework.SKIP

    def score(self, cycle: framework.Cycle, rows: Rows) -> Ints:
        """The sum of the weights of the preferences that a node meets, the operator's and the pod's."""
        total = np.zeros(row_count(rows), dtype=np.int64)
        for wish in (*self._added.preferred, *cycle.pod.pod.spec.affinity.node_affinity.preferred):
            if wish.weight:
                total += wish.weight * term_matching(cycle.cluster, wish.preference, rows)
        return total

    def normalize(self, cycle: framework.Cycle, scores: Ints) -> Ints:
        return framework.scaled_to_max(scores)


def _named(term: NodeSelectorTerm) -> set[str] | None:
    """The node names that a term is limited to; None if it is not limited by name."""
    names: set[str] | None = None
    for requirement in term.match_fields:
        if requirement.key == NODE_NAME_FIELD and requirement.operator == "In":
            values = set(requirement.values)
            names = values if names is None else names & values
    return names


class TaintToleration(framework.FilterPlugin, framework.ScorePlugin):
    name = "TaintToleration"
    reach = reach_of_row
    row_local = True
    node_only = True
    normalizes = True
    reason = "node(s) had untolerated taint(s)"

    def events(self) -> Iterable[framework.EventHint]:
        node_changed = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        tolerates_more = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
        return ((node_changed, _taint_gone), (tolerates_more, about_itself))

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        return pod.pod.spec.tolerations

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        cluster, tolerations = cycle.cluster, cycle.pod.pod.spec.tolerations
        sets = cluster.taints.things
        if len(sets) == 1:  # the empty set: no node has a taint
            return None
        repels = np.fromiter(
            (find_untolerated(taints, tolerations) is not None for taints in sets), np.bool_, len(sets)
        )
        return (
            framework.refuse(repels[cluster.taint_ids[rows]], self.reason, unresolvable=True) if repels.any() else None
        )

    def score(self, cycle: framework.Cycle, rows: Rows) -> Ints:
        """The number of soft taints the pod does not tolerate; tolerations without effect, or a soft one, count."""
        sets = cycle.cluster.taints.things
        soft = [each for each in cycle.pod.pod.spec.tolerations if each.effect in ("", PREFER_NO_SCHEDULE)]

        def intolerable(taints: tuple[Taint, ...]) -> int:
            unloved = (taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE)
            return sum(not any(tolerates(toleration, taint) for toleration in soft) for taint in unloved)

        counts = np.fromiter((intolerable(taints) for taints in sets), np.int64, len(sets))
        found: Ints = counts[cycle.cluster.taint_ids[rows]]
        return found

    def normalize(self, cycle: framework.Cycle, scores: Ints) -> Ints:
        return framework.scaled_to_max(scores, reverse=True)


def _taint_gone(pod: PodInfo, event: ClusterEvent, old: Node | None, new: Node) -> Hint:
    tolerations = pod.pod.spec.tolerations
    was_repelled = old is None or find_untolerated(old.spec.taints, tolerations) is not None
    return QUEUE if was_repelled and find_untolerated(new.spec.taints, tolerations) is None else NO_HELP


def about_itself(pod: PodInfo, event: ClusterEvent, old: Pod | None, new: Pod) -> Hint:
    """A change of the waiting pod itself may help it; changes of other pods do not."""
    return QUEUE if new.metadata.uid == pod.uid else NO_HELP


class NodeName(framework.FilterPlugin):
    name = "NodeName"
    reach = reach_of_row
    row_local = True
    node_only = True
    reason = "node(s) didn't match the requested node name"

    def events(self) -> Iterable[framework.EventHint]:
        return ((NODE_ADD, None),)

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        return pod.pod.spec.node_name

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        wanted = cycle.pod.pod.spec.node_name
        if not wanted:
            return None
        row = cycle.cluster.row_of.get(wanted, -1)
        return framework.refuse(row_numbers(rows) != row, self.reason, unresolvable=True)


_CORDONED = Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE)


class NodeUnschedulable(framework.FilterPlugin):
    name = "NodeUnschedulable"
    reach = reach_of_row
    row_local = True
    node_only = True
    reason = "node(s) were unschedulable"

    def events(self) -> Iterable[framework.EventHint]:
        node_changed = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        tolerates_more = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
        return ((node_changed, _uncordoned), (tolerates_more, _now_tolerates))

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        return pod.pod.spec.tolerations

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        cordoned = cycle.cluster.unschedulable[rows]
        if not cordoned.any() or any(tolerates(toleration, _CORDONED) for toleration in cycle.pod.pod.spec.tolerations):
            return None
        return framework.refuse(cordoned, self.reason, unresolvable=True)


def _uncordoned(pod: PodInfo, event: ClusterEvent, old: Node | None, new: Node) -> Hint:
    return QUEUE if not new.spec.unschedulable and (old is None or old.spec.unschedulable) else NO_HELP


def _now_tolerates(pod: PodInfo, event: ClusterEvent, old: Pod | None, new: Pod) -> Hint:
    mine = new.metadata.uid == pod.uid
    return QUEUE if mine and any(tolerates(toleration, _CORDONED) for toleration in new.spec.tolerations) else NO_HELP


class SchedulingGates(framework.PreEnqueuePlugin):
    name = "SchedulingGates"

    def events(self) -> Iterable[framework.EventHint]:
        opened = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return ((opened, about_itself),)

    def pre_enqueue(self, pod: PodInfo) -> framework.Status:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return framework.SUCCESS
        names = " ".join(gate.name for gate in gates)
        return framework.Status(framework.Code.UNRESOLVABLE, (f"waiting for scheduling gates: [{names}]",), self.name)


class PrioritySort(framework.QueueSortPlugin):
    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        return -pod.priority, queued_at


class DefaultBinder(framework.BindPlugin):
    name = "DefaultBinder"

    async def bind(self, cycle: framework.Cycle, node_name: str, api: framework.Api) -> framework.Status:
        await api.bind(cycle.pod, node_name)
        return framework.SUCCESS


class OutOfScope(framework.PreFilterPlugin):
    name = "OutOfScope"

    def pre_filter(self, cycle: framework.Cycle) -> framework.Status | None:
        spec = cycle.pod.pod.spec
        if spec.resource_claims:
            return framework.unresolvable("pod asks for devices by resource claims, which Tonnage does not allocate")
        if spec.scheduling_group is not None:
            return framework.unresolvable("pod belongs to a pod group, and Tonnage does not place groups")
        return None
