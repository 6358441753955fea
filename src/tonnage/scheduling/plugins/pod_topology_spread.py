"""PodTopologySpread: pods of a kind lie evenly over hostnames, zones, or whatever the nodes are labelled with.

The nodes that share a value of a constraint's topology key are a domain. How many pods there are to spread among, and
where, is counted in `residents.py`; `spread_constraints.py` knows what a pod is held to and which nodes count. Every
constraint becomes a table by label value, which is looked up for all nodes at once.

Filter (DoNotSchedule): a node passes if, in its domain, matching pods + 1 if the pod matches itself - the fewest in any
domain <= maxSkew. Domains are those of the nodes that have the keys of all hard constraints and count by the inclusion
policies; with fewer of them than minDomains, the fewest are taken to be 0. The first constraint in order to object
gives a node its reason.

Score (ScheduleAnyway): the sum over constraints of `count * ln(domains + 2) + maxSkew - 1`, rounded, the fewer the
better. Here domains are those of the feasible nodes; a hostname counts the pods of its node alone, whatever the
policies say. A feasible node without one of the keys scores 0, unless the constraints are the system's defaults.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.node_selectors import required_node_affinity
from tonnage.objects.requirements import InvalidSelector
from tonnage.scheduling.cluster import Cluster
from tonnage.scheduling.columns import Ids, Ints, Mask, Rows
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as QUEUE_SKIP
from tonnage.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    Code,
    Cycle,
    EventHint,
    FilterPlugin,
    Judgement,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Status,
)
from tonnage.scheduling.plugin_args import PodTopologySpreadArgs
from tonnage.scheduling.pod_info import PodInfo
from tonnage.scheduling.pod_matching import Labels
from tonnage.scheduling.row_counts import Floats
from tonnage.scheduling.spread_constraints import HOSTNAME, Constraint, Constraints, SpreadRules, included

_CROWDED, _UNLABELLED = 1, 2  # bits of a judgement, in the order of `reasons`


@dataclass(frozen=True, slots=True)
class _Column:
    """One topology key over the rows in use: value ids, 0 where the label is missing, and how many ids there are."""

    ids: Ids
    size: int
    empty_id: int
    """The id of the value "", 0 when no node has it."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """What one soft constraint costs a node: a look-up by the node's label value, or by the node itself."""

    column: _Column
    by_value: Floats | None = None
    by_row: Floats | None = None

    def of(self, rows: Rows) -> Floats:
        if self.by_row is not None:
            return self.by_row[rows]
        assert self.by_value is not None
        found: Floats = self.by_value[self.column.ids[rows]]
        return found


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "PodTopologySpread"
    normalizes = True
    reasons = (
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod topology spread constraints (missing required label)",
    )

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        self._rules = SpreadRules(args)

    # -- filtering ----------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Status | None:
        if not (cycle.pod.pod.spec.topology_spread_constraints or self._rules.default_hard):
            return SKIP
        try:
            constraints = cycle.state[_CONSTRAINTS] = self._rules.constraints(cycle.pod, cycle.cluster.workloads)
        except InvalidSelector as exc:
            return Status(Code.ERROR, (f"get constraints from pod: {exc.message}",))
        if not constraints.hard:
            return SKIP
        columns = [_column(cycle.cluster, each.topology_key) for each in constraints.hard]
        cycle.state[self.name] = [
            (each.topology_key, _objections(cycle, each, column, columns))
            for each, column in zip(constraints.hard, columns, strict=True)
        ]
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        bits: Ints | None = None
        for key, objections in cycle.state[self.name]:
            told: Ints = objections[_column(cycle.cluster, key).ids[rows]]
            bits = told if bits is None else np.where(bits == 0, told, bits)
        if bits is None or not bits.any():
            return None
        return Judgement(bits, self.reasons, bits == _UNLABELLED)

    # -- scoring ------------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle) -> Status | None:
        constraints: Constraints | None = cycle.state.get(_CONSTRAINTS)
        if constraints is None:
            constraints = self._rules.constraints(cycle.pod, cycle.cluster.workloads)
        soft = constraints.soft
        if not soft:
            return SKIP
        columns = [_column(cycle.cluster, each.topology_key) for each in soft]
        # Nodes without the system's labels take part; those without the labels a pod names itself are left out.
        required = () if constraints.are_system else columns
        is_ignored = _lacks_any(required, cycle.feasible)
        scored = cycle.feasible if is_ignored is None else cycle.feasible[~is_ignored]
        cycle.state[_COSTS] = [
            _host_costs(cycle, each, column, len(scored))
            if each.topology_key == HOSTNAME
            else _domain_costs(cycle, each, column, required, column.ids[scored])
            for each, column in zip(soft, columns, strict=True)
        ]
        cycle.state[_REQUIRED] = required
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The sums, rounded. All are 0 or more than a half, so that adding a half and cutting off is exact."""
        first, *others = cycle.state[_COSTS]
        total = first.of(rows)
        for costs in others:
            total = total + costs.of(rows)
        rounded: Ints = (total + 0.5).astype(np.int64)
        is_ignored = _lacks_any(cycle.state[_REQUIRED], rows)
        return rounded if is_ignored is None else np.where(is_ignored, 0, rounded)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """100 * (most + least - score) // most; 100 when nothing is there yet, 0 for nodes that are left out."""
        is_ignored = _lacks_any(cycle.state[_REQUIRED], cycle.feasible)
        considered = scores if is_ignored is None else scores[~is_ignored]
        if not len(considered):
            return np.zeros_like(scores)
        least, most = int(considered.min()), int(considered.max())
        if most == 0:
            found = np.full_like(scores, MAX_SCORE)
        else:
            found = MAX_SCORE * (most + least - scores) // most
        return found if is_ignored is None else np.where(is_ignored, 0, found)

    # -- queueing hints -----------------------------------------------------------------------------------------------

    def events(self) -> Iterable[EventHint]:
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION | ActionType.DELETE
        nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return (
            (ClusterEvent(EventResource.POD, pods), self.after_pod_change),
            (ClusterEvent(EventResource.NODE, nodes), self.after_node_change),
        )

    def after_pod_change(self, waiting: PodInfo, event: ClusterEvent, old: Pod | None, new: Pod | None) -> Hint:
        """May a pod that came, changed or went even things out for a pod that was turned away?"""
        if not all(_is_involved(each, waiting) for each in (old, new) if each is not None):
            return QUEUE_SKIP
        hard = self._hard(waiting)
        if old is not None and new is not None:
            is_itself = PodInfo(new).uid == waiting.uid
            if is_itself and old.spec.tolerations != new.spec.tolerations and any(each.honors_taints for each in hard):
                return QUEUE
            if old.metadata.labels == new.metadata.labels:
                return QUEUE_SKIP
        if hard is self._rules.default_hard:
            return QUEUE  # which workload selects the pod is not known here
        if any(_matches(each, old) != _matches(each, new) for each in hard):
            return QUEUE
        return QUEUE_SKIP

    def after_node_change(self, waiting: PodInfo, event: ClusterEvent, old: Node | None, new: Node | None) -> Hint:
        """May a node that came, changed or went change the domains for a pod that was turned away?

        Upstream looks at topology keys and taints. A change of other labels may also take a node out of a domain, when
        the pod asks for those labels and a constraint honors that; ours looks at this too.
        """
        hard = self._hard(waiting)
        before, after = _domains(hard, old), _domains(hard, new)
        if before != after:
            return QUEUE
        if old is None or new is None or after is None:
            return QUEUE_SKIP
        if old.spec.taints != new.spec.taints:
            return QUEUE
        asked = required_node_affinity(waiting.pod)
        was_asked_for, is_asked_for = (asked.matches(each.metadata.name, each.metadata.labels) for each in (old, new))
        moved = was_asked_for != is_asked_for and any(each.honors_affinity for each in hard)
        return QUEUE if moved else QUEUE_SKIP

    def _hard(self, waiting: PodInfo) -> tuple[Constraint, ...]:
        if waiting.pod.spec.topology_spread_constraints:
            return self._rules.own(waiting).hard
        return self._rules.default_hard


_CONSTRAINTS: Final = f"{PodTopologySpread.name}/constraints"
_COSTS: Final = f"{PodTopologySpread.name}/costs"
_REQUIRED: Final = f"{PodTopologySpread.name}/required"


# -- tables by label value --------------------------------------------------------------------------------------------


def _column(cluster: Cluster, key: str) -> _Column:
    found = cluster.labels.get(key)
    if found is None:
        return _Column(np.zeros(cluster.size, dtype=np.int32), 1, 0)
    return _Column(found.ids[: cluster.size], len(found.texts), found.id_of(""))


def _has_all(columns: Sequence[_Column], rows: Rows) -> Mask | None:
    """Which of these rows have all the labels; None when there are none to have."""
    found: Mask | None = None
    for column in columns:
        has_this: Mask = column.ids[rows] != 0
        found = has_this if found is None else found & has_this
    return found


def _lacks_any(columns: Sequence[_Column], rows: Rows) -> Mask | None:
    """Which of these rows lack one of the labels; None when none of them does."""
    has_all = _has_all(columns, rows)
    return None if has_all is None or has_all.all() else ~has_all


def _pods(
    cycle: Cycle, constraint: Constraint, column: _Column, columns: Sequence[_Column], policy: Mask | None
) -> Floats:
    """By label value, the pods to spread among, on nodes that have all keys and count by the policies."""
    where = constraint.counted(cycle)
    keep = _has_all(columns, where.rows)
    if policy is not None:
        keep = policy[where.rows] if keep is None else keep & policy[where.rows]
    return where.by_value(column.ids, column.size, keep)


def _objections(cycle: Cycle, constraint: Constraint, column: _Column, columns: Sequence[_Column]) -> Ints:
    """By label value: 0 where the constraint lets the pod in, else the bit of its reason."""
    policy = included(cycle, constraint)
    pods = _pods(cycle, constraint, column, columns, policy)
    if len(columns) == 1 and policy is None:
        ids = column.ids
    else:
        has_all = _has_all(columns, cycle.cluster.all_rows)
        ids = column.ids[has_all if policy is None else has_all & policy]
    is_domain = np.bincount(ids, minlength=column.size) > 0
    is_domain[0] = False
    fewest = pods[is_domain].min() if np.count_nonzero(is_domain) >= max(constraint.min_domains, 1) else 0
    skew = pods + constraint.matches(cycle.pod.labels) - fewest
    objections: Ints = np.where(skew > constraint.max_skew, _CROWDED, 0)
    objections[0] = _UNLABELLED
    return objections


def _domain_costs(
    cycle: Cycle, constraint: Constraint, column: _Column, required: Sequence[_Column], scored_ids: Ids
) -> _Costs:
    """What the domains cost; `scored_ids` are the label values of the nodes to be scored.

    Only with the system's defaults do nodes without the label take part. They are then one domain with those whose
    label is empty, as a missing entry of a Go map reads, but pay nothing for it.
    """
    pods = _pods(cycle, constraint, column, required, included(cycle, constraint))
    is_domain = np.bincount(scored_ids, minlength=column.size) > 0
    if column.empty_id:
        pods[column.empty_id] += pods[0]
        is_domain[column.empty_id] |= is_domain[0]
        is_domain[0] = False
    costs = pods * _weight(int(np.count_nonzero(is_domain))) + float(constraint.max_skew - 1)
    costs[0] = 0.0
    return _Costs(column, by_value=costs)


def _host_costs(cycle: Cycle, constraint: Constraint, column: _Column, scored_nodes: int) -> _Costs:
    """What the pods of the node itself cost it, whatever the policies say and however many nodes share its hostname."""
    least = float(constraint.max_skew - 1)
    costs = np.where(column.ids != 0, least, 0.0)
    where = constraint.counted(cycle)
    costs[where.rows] = np.where(column.ids[where.rows] != 0, where.counts * _weight(scored_nodes) + least, 0.0)
    return _Costs(column, by_row=costs)


def _weight(domains: int) -> float:
    """So that a few pods in many domains weigh as much as many pods in few."""
    return math.log(domains + 2)


# -- hints ------------------------------------------------------------------------------------------------------------


def _is_involved(pod: Pod, waiting: PodInfo) -> bool:
    """Is it the pod that waits, or one with a place, of its namespace?"""
    if PodInfo(pod).uid == waiting.uid:
        return True
    has_place = bool(pod.spec.node_name or pod.status.nominated_node_name)
    return has_place and pod.metadata.namespace == waiting.namespace


def _matches(constraint: Constraint, pod: Pod | None) -> bool:
    return pod is not None and constraint.matches(pod.metadata.labels)


def _domains(constraints: Sequence[Constraint], node: Node | None) -> tuple[str, ...] | None:
    """The domains a node is in; None when it lacks one of the keys, and so takes no part."""
    labels: Labels = node.metadata.labels if node is not None else {}
    if not all(each.topology_key in labels for each in constraints):
        return None
    return tuple(labels[each.topology_key] for each in constraints)
