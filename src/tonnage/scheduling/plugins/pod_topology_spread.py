"""PodTopologySpread: matching pods spread evenly over hostnames, zones, or any other label of nodes.

Filter (DoNotSchedule): a node passes if, in its domain, matching pods + 1 if the pod matches itself - the fewest in any
domain <= maxSkew. Domains come from nodes that have the keys of all hard constraints and count by the inclusion
policies; with fewer domains than minDomains, the fewest are taken as 0.

Score (ScheduleAnyway): the sum over constraints of `count * ln(domains + 2) + maxSkew - 1`, rounded; fewer is better.
Here domains come from the feasible nodes; a hostname counts only its node's pods. A feasible node without one of the
keys scores 0, unless the constraints are the system's defaults.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.requirements import InvalidSelector
from tonnage.scheduling import framework
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Rows, row_count
from tonnage.scheduling.cluster.pod_info import PodInfo, fingerprint
from tonnage.scheduling.cluster.pod_matching import Labels
from tonnage.scheduling.configuration.plugin_args import PodTopologySpreadArgs
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as QUEUE_SKIP
from tonnage.scheduling.spread.constraints import (
    UNLABELLED,
    Constraint,
    Constraints,
    CostsOf,
    SpreadRules,
    Topology,
    costs,
    having,
    lacking,
    refusals,
)
from tonnage.scheduling.spread.residents import MAX_TERMS, Residents


class PodTopologySpread(
    framework.PreFilterPlugin, framework.FilterPlugin, framework.PreScorePlugin, framework.ScorePlugin
):
    name = "PodTopologySpread"
    normalizes = True
    # In the order of the bits CROWDED and UNLABELLED.
    reasons = (
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod topology spread constraints (missing required label)",
    )

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        self._rules = SpreadRules(args)

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        """Its constraints, what they and the selectors of workloads can match, and the nodes that count."""
        constraints = tuple(map(fingerprint, pod.pod.spec.topology_spread_constraints))
        owners = tuple(map(fingerprint, pod.pod.metadata.owner_references)) if self._rules.default_hard else ()
        return pod.namespace, tuple(sorted(pod.labels.items())), constraints, owners, pod.node_constraints

    # -- filtering ----------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: framework.Cycle) -> framework.Status | None:
        if not (cycle.pod.pod.spec.topology_spread_constraints or self._rules.default_hard):
            return framework.SKIP
        if (count := len(cycle.pod.pod.spec.topology_spread_constraints)) > MAX_TERMS:
            return framework.unresolvable(
                f"the pod has {count} topologySpreadConstraints, of at most {MAX_TERMS} that are judged"
            )
        try:
            constraints = cycle.state[_CONSTRAINTS] = self._rules.constraints(cycle.pod, cycle.cluster.workloads)
        except InvalidSelector as exc:
            return framework.Status(framework.Code.ERROR, (f"get constraints from pod: {exc.message}",))
        if not constraints.hard:
            return framework.SKIP
        topologies = [Topology.of(cycle.cluster, constraint.topology_key) for constraint in constraints.hard]
        labelled = having(topologies)
        assert labelled is not None, "there are constraints"
        cycle.state[self.name] = [
            (topology, refusals(cycle, each, topology, labelled))
            for each, topology in zip(constraints.hard, topologies, strict=True)
        ]
        return None

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        bits: Ints | None = None
        for topology, by_value in cycle.state[self.name]:
            told: Ints = by_value.take(topology.ids[rows])
            bits = told if bits is None else np.where(bits == 0, told, bits)
        if bits is None or not bits.any():
            return None
        return framework.Judgement(bits, self.reasons, bits == UNLABELLED)

    def passes_with_fewer_pods(self, cycle: framework.Cycle) -> bool:
        """Always True: without some of its pods, a domain is less ahead of the emptiest, or is the emptiest itself."""
        return True

    # -- scoring ------------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: framework.Cycle) -> framework.Status | None:
        constraints: Constraints | None = cycle.state.get(_CONSTRAINTS)
        if constraints is None:
            constraints = self._rules.constraints(cycle.pod, cycle.cluster.workloads)
        soft = constraints.soft
        if not soft:
            return framework.SKIP
        topologies = [Topology.of(cycle.cluster, constraint.topology_key) for constraint in soft]
        # Nodes without the system's default labels take part; nodes without labels that the pod names are left out.
        labelled = None if constraints.are_system else having(topologies)
        is_ignored = lacking(labelled, cycle.feasible)
        scored = cycle.feasible if is_ignored is None else cycle.feasible[~is_ignored]
        cycle.state[_COSTS] = [
            costs(cycle, each, topology, labelled, scored)
            for each, topology in zip(soft, topologies, strict=True)
            if topology.size > 1  # a key that no node has costs nothing
        ]
        cycle.state[_IGNORED] = is_ignored
        return None

    def score(self, cycle: framework.Cycle, rows: Rows) -> Ints:
        """The sums, rounded: a sum is 0 or more than a half, so adding a half and truncating is exact."""
        asked: list[CostsOf] = cycle.state[_COSTS]
        if not asked:
            return np.zeros(row_count(rows), dtype=np.int64)
        first, *others = asked
        total = first(rows)
        for costs_of in others:
            total = total + costs_of(rows)
        rounded: Ints = (total + 0.5).astype(np.int64)
        return rounded

    def normalize(self, cycle: framework.Cycle, scores: Ints) -> Ints:
        """100 * (most + least - score) // most; 100 if all sums are 0, 0 for nodes that are left out."""
        is_ignored = cycle.state[_IGNORED]
        considered = scores if is_ignored is None else scores[~is_ignored]
        if not len(considered):
            return np.zeros_like(scores)
        least, most = int(considered.min()), int(considered.max())
        if most == 0:
            found = np.full_like(scores, framework.MAX_SCORE)
        else:
            found = framework.MAX_SCORE * (most + least - scores) // most
        return found if is_ignored is None else np.where(is_ignored, 0, found)

    # -- queueing hints -----------------------------------------------------------------------------------------------

    def indexes(self) -> Iterable[type]:
        return (Residents,)

    def events(self) -> Iterable[framework.EventHint]:
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION | ActionType.DELETE
        nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return (
            (ClusterEvent(EventResource.POD, pods), self.after_pod_change),
            (ClusterEvent(EventResource.NODE, nodes), self.after_node_change),
        )

    def after_pod_change(self, waiting: PodInfo, event: ClusterEvent, old: Pod | None, new: Pod | None) -> Hint:
        """Whether a pod that came, changed or went may even the domains out for a refused pod."""
        if not all(_is_involved(pod, waiting) for pod in (old, new) if pod is not None):
            return QUEUE_SKIP
        if len(waiting.pod.spec.topology_spread_constraints) > MAX_TERMS:
            return QUEUE_SKIP  # a pod's constraints never change
        hard = self._hard(waiting)
        if old is not None and new is not None:
            is_itself = PodInfo(new).uid == waiting.uid
            if is_itself and old.spec.tolerations != new.spec.tolerations and any(each.honors_taints for each in hard):
                return QUEUE
            if old.metadata.labels == new.metadata.labels:
                return QUEUE_SKIP
        if hard is self._rules.default_hard:
            return QUEUE  # the workload that selects the pod is not known here
        if any(_matches(constraint, old) != _matches(constraint, new) for constraint in hard):
            return QUEUE
        return QUEUE_SKIP

    def after_node_change(self, waiting: PodInfo, event: ClusterEvent, old: Node | None, new: Node | None) -> Hint:
        """Whether a node that came, changed or went may change the domains for a refused pod. Unlike upstream, reads
        the labels that the pod requires, if a constraint honors them."""
        if len(waiting.pod.spec.topology_spread_constraints) > MAX_TERMS:
            return QUEUE_SKIP
        hard = self._hard(waiting)
        before, after = _domains(hard, old), _domains(hard, new)
        if before != after:
            return QUEUE
        if old is None or new is None or after is None:
            return QUEUE_SKIP
        if old.spec.taints != new.spec.taints:
            return QUEUE
        asked = waiting.pod.required_node_affinity()
        was_asked_for, is_asked_for = (asked.matches(node.metadata.name, node.metadata.labels) for node in (old, new))
        moved = was_asked_for != is_asked_for and any(constraint.honors_affinity for constraint in hard)
        return QUEUE if moved else QUEUE_SKIP

    def _hard(self, waiting: PodInfo) -> tuple[Constraint, ...]:
        if waiting.pod.spec.topology_spread_constraints:
            return self._rules.own(waiting).hard
        return self._rules.default_hard


_CONSTRAINTS: Final = f"{PodTopologySpread.name}/constraints"
_COSTS: Final = f"{PodTopologySpread.name}/costs"
_IGNORED: Final = f"{PodTopologySpread.name}/ignored"


# -- hints ------------------------------------------------------------------------------------------------------------


def _is_involved(pod: Pod, waiting: PodInfo) -> bool:
    """True for the waiting pod itself, and for pods of its namespace with a node or a nomination."""
    if PodInfo(pod).uid == waiting.uid:
        return True
    has_place = bool(pod.spec.node_name or pod.status.nominated_node_name)
    return has_place and pod.metadata.namespace == waiting.namespace


def _matches(constraint: Constraint, pod: Pod | None) -> bool:
    return pod is not None and constraint.matches(pod.metadata.labels)


def _domains(constraints: Sequence[Constraint], node: Node | None) -> tuple[str, ...] | None:
    """The domains of a node; None if it lacks one of the keys and so takes no part."""
    labels: Labels = node.metadata.labels if node is not None else {}
    if not all(constraint.topology_key in labels for constraint in constraints):
        return None
    return tuple(labels[constraint.topology_key] for constraint in constraints)
