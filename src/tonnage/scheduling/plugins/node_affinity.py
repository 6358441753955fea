"""NodeAffinity: the nodes a pod asks for by label or name, and those it would rather have.

Requirements are answered once a distinct label value (columns.py). A pod whose required terms all name nodes by
`metadata.name` narrows the race to those in PreFilter, so that ten nodes of five thousand are looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from tonnage.objects.core_v1 import Node
from tonnage.objects.core_v1 import NodeAffinity as Affinity
from tonnage.objects.node_selectors import NODE_NAME_FIELD, NodeSelectorTerm
from tonnage.objects.requirements import Requirement
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Ints, Rows, row_count
from tonnage.scheduling.cluster.node_matching import matching, term_matching
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.framework import (
    SKIP,
    Cycle,
    EventHint,
    FilterPlugin,
    Judgement,
    Narrowing,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Status,
    scaled_to_max,
    unresolvable,
)


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """`added` is the operator's affinity for every pod of the profile (`addedAffinity`)."""

    name = "NodeAffinity"
    row_local = True
    node_only = True
    normalizes = True
    pod_reason = "node(s) didn't match Pod's node affinity/selector"
    enforced_reason = "node(s) didn't match scheduler-enforced node affinity"

    def __init__(self, added: Affinity | None = None) -> None:
        self._added = added or Affinity()

    def events(self) -> Iterable[EventHint]:
        return ((ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), self._now_matches),)

    def _now_matches(self, pod: PodInfo, event: ClusterEvent, old: Node | None, new: Node) -> Hint:
        """A node that matches and did not before. (A new node did not.)

        Upstream does not ask whether the operator's affinity matched before, and lets a pod sleep whose own did.
        """
        enforced, wanted = self._added.required, pod.pod.required_node_affinity()

        def matches(node: Node | None) -> bool:
            if node is None or (enforced is not None and not enforced.matches(node.name, node.metadata.labels)):
                return False
            return wanted.matches(node.name, node.metadata.labels)

        return QUEUE if matches(new) and not matches(old) else NO_HELP

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        found: Hashable = pod.node_constraints
        return found

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        return row_about(cluster, changed)

    def pre_filter(self, cycle: Cycle) -> Status | Narrowing | None:
        spec, required = cycle.pod.pod.spec, cycle.pod.required_nodes
        if required is None and not spec.node_selector and self._added.required is None:
            return SKIP
        if required is None or not required.node_selector_terms:
            return None
        wanted: set[str] = set()
        for term in required.node_selector_terms:
            names = _named(term)
            if names is None:
                return None  # this term admits nodes by label: any node may pass
            wanted |= names
        if not wanted:
            return unresolvable("pod affinity terms conflict")
        return Narrowing(frozenset(cycle.cluster.row_of[name] for name in wanted if name in cycle.cluster.row_of))

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        cluster, spec = cycle.cluster, cycle.pod.pod.spec
        reasons = (self.enforced_reason, self.pod_reason)
        bits = np.zeros(row_count(rows), dtype=np.int64)
        if self._added.required is not None:
            bits |= ~matching(cluster, self._added.required, rows)
        # The operator's word comes first: a node refused by it is not judged by the pod's.
        mine = np.ones(bits.shape, dtype=np.bool_)
        for key, value in spec.node_selector.items():
            mine &= cluster.labels.meets(Requirement(key=key, operator="In", values=(value,)), rows)
        if cycle.pod.required_nodes is not None:
            mine &= matching(cluster, cycle.pod.required_nodes, rows)
        bits |= ((bits == 0) & ~mine).astype(np.int64) << 1
        return Judgement(bits, reasons) if bits.any() else None

    def pre_score(self, cycle: Cycle) -> Status | None:
        preferred = cycle.pod.pod.spec.affinity.node_affinity.preferred or self._added.preferred
        return None if preferred else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The weights of the preferences a node meets, the operator's and the pod's."""
        total = np.zeros(row_count(rows), dtype=np.int64)
        for wish in (*self._added.preferred, *cycle.pod.pod.spec.affinity.node_affinity.preferred):
            if wish.weight:
                total += wish.weight * term_matching(cycle.cluster, wish.preference, rows)
        return total

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        return scaled_to_max(scores)


def _named(term: NodeSelectorTerm) -> set[str] | None:
    """The node names a term is confined to; None when it is not confined by name."""
    names: set[str] | None = None
    for requirement in _name_requirements(term.match_fields):
        values = set(requirement.values)
        names = values if names is None else names & values
    return names


def _name_requirements(fields: Iterable[Requirement]) -> Iterable[Requirement]:
    return (each for each in fields if each.key == NODE_NAME_FIELD and each.operator == "In")
