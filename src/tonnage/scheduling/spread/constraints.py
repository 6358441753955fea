"""Spread constraints for decisions: a pod's own, or the defaults of its profile.

A pod without its own constraints gets the profile's defaults, if a Service or its controller selects it. A domain is
the nodes that share a value of a constraint's topology key. A hard constraint becomes a table of refusals by label
value, a soft one a table of costs. `plugins/pod_topology_spread.py` has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tonnage.objects.core_v1 import TopologySpreadConstraint
from tonnage.objects.core_v1.pod import HOSTNAME, ZONE
from tonnage.objects.requirements import Requirement, find_untolerated
from tonnage.objects.selectors import LabelSelector
from tonnage.scheduling.cluster.cluster import Cluster, matching
from tonnage.scheduling.cluster.columns import Ids, Ints, Mask, Rows
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.pod_matching import NOBODY, Labels, PodMatcher, Workloads, hold, requirements_of
from tonnage.scheduling.configuration.plugin_args import PodTopologySpreadArgs
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.spread.residents import Floats, Residents, RowCounts, RowNumbers

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
_HONOR: Final = "Honor"

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY),
)

_REMEMBERED = 4096
_NOTHING = RowCounts()
_INCLUDED: Final = "PodTopologySpread/included"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint with its selector read. `matcher`: the pods to spread among, in the pod's own namespace."""

    topology_key: str
    max_skew: int
    min_domains: int
    matcher: PodMatcher
    is_hard: bool
    honors_affinity: bool
    honors_taints: bool

    def matches(self, labels: Labels) -> bool:
        """True if a pod of the namespace with these labels is one of the pods to spread among."""
        return self.matcher is not NOBODY and hold(self.matcher.requirements, labels)

    def counted(self, cluster: Cluster) -> RowCounts:
        """The pods to spread among, by row, without terminating ones; an empty selector has none
        (countPodsMatchSelector)."""
        if not self.matcher.requirements:
            return _NOTHING
        return cluster.index(Residents).counted((self.matcher,), terminating=False)


class Constraints(NamedTuple):
    """The constraints of a pod. `are_system`: they are the system's defaults, for which nodes need no labels."""

    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    are_system: bool = False


NO_CONSTRAINTS: Final = Constraints()


class SpreadRules:
    """The constraints of every pod under one profile."""

    def __init__(self, args: PodTopologySpreadArgs | None) -> None:
        self._is_system = args is None or args.defaulting_type != "List"
        defaults = SYSTEM_DEFAULTS if args is None or self._is_system else args.default_constraints
        self._defaults = tuple(_read(constraint, "", None) for constraint in defaults)
        self.default_hard = tuple(default for default in self._defaults if default.is_hard)
        self._own: WeakKeyDictionary[PodInfo, Constraints] = WeakKeyDictionary()
        # Finding what selects a pod asks every Service of its namespace: answers hold until a workload changes.
        self._defaulted: dict[Hashable, Constraints] = {}
        self._defaulted_by: tuple[Workloads | None, int] = (None, -1)

    def own(self, info: PodInfo) -> Constraints:
        """The pod's own constraints, cached: every event may ask for them. Raises InvalidSelector."""
        constraints = self._own.get(info)
        if constraints is None:
            asked = info.pod.spec.topology_spread_constraints
            read = (_read(each, info.namespace, _with_label_keys(each, info.labels)) for each in asked)
            constraints = self._own[info] = _sorted_out(read, are_system=False)
        return constraints

    def constraints(self, info: PodInfo, workloads: Workloads) -> Constraints:
        """The constraints that apply to the pod. Raises InvalidSelector."""
        if info.pod.spec.topology_spread_constraints:
            return self.own(info)
        if not self._defaults or workloads.is_empty:
            return NO_CONSTRAINTS
        if self._defaulted_by != (workloads, workloads.tick) or len(self._defaulted) >= _REMEMBERED:
            self._defaulted.clear()
            self._defaulted_by = (workloads, workloads.tick)
        owner = info.pod.metadata.controller
        named = (owner.api_version, owner.kind, owner.name) if owner is not None else None
        key = (info.namespace, frozenset(info.labels.items()), named)
        found = self._defaulted.get(key)
        if found is None:
            found = self._defaulted[key] = self._default(info.namespace, workloads.selector_for(info.pod))
        return found

    def _default(self, namespace: str, selector: LabelSelector | None) -> Constraints:
        if selector is None:
            return NO_CONSTRAINTS
        matcher = PodMatcher(frozenset((namespace,)), requirements_of(selector))
        filled_in = (replace(default, matcher=matcher) for default in self._defaults)
        return _sorted_out(filled_in, are_system=self._is_system)


def included(cycle: Cycle, constraint: Constraint) -> Mask | None:
    """The rows that count by the constraint's node inclusion policies; None if all do. The affinity policy reads the
    pod's own affinity, not addedAffinity."""
    policies = (constraint.honors_affinity, constraint.honors_taints)
    known: dict[tuple[bool, bool], Mask | None] = cycle.state.setdefault(_INCLUDED, {})
    if policies in known:
        return known[policies]
    cluster, pod = cycle.cluster, cycle.pod
    found: Mask | None = None
    if constraint.honors_affinity and (pod.pod.spec.node_selector or pod.required_nodes is not None):
        found = np.ones(cluster.size, dtype=np.bool_)
        for key, value in pod.pod.spec.node_selector.items():
            found &= cluster.labels.meets(Requirement(key=key, operator="In", values=(value,)), cluster.all_rows)
        if pod.required_nodes is not None:
            found &= matching(cluster, pod.required_nodes, cluster.all_rows)
    sets = cluster.taints.things
    if constraint.honors_taints and len(sets) > 1:
        tolerations = pod.pod.spec.tolerations
        admits = np.fromiter((find_untolerated(taints, tolerations) is None for taints in sets), np.bool_, len(sets))
        tolerated: Mask = admits[cluster.taint_ids[: cluster.size]]
        found = tolerated if found is None else found & tolerated
    known[policies] = found
    return found


def _sorted_out(read: Iterable[Constraint], *, are_system: bool) -> Constraints:
    every = tuple(read)
    return Constraints(
        tuple(each for each in every if each.is_hard), tuple(each for each in every if not each.is_hard), are_system
    )


def _read(constraint: TopologySpreadConstraint, namespace: str, selector: LabelSelector | None) -> Constraint:
    return Constraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains,
        matcher=NOBODY if selector is None else PodMatcher(frozenset((namespace,)), requirements_of(selector)),
        is_hard=constraint.when_unsatisfiable == DO_NOT_SCHEDULE,
        honors_affinity=constraint.node_affinity_policy == _HONOR,
        honors_taints=constraint.node_taints_policy == _HONOR,
    )


def _with_label_keys(constraint: TopologySpreadConstraint, labels: Labels) -> LabelSelector | None:
    """The selector with the pod's own values of `matchLabelKeys`; a 1.36 API server has merged them already. Without a
    selector there is nothing to narrow (mergeLabelSetWithSelector)."""
    selector = constraint.label_selector
    if selector is None or not constraint.match_label_keys:
        return selector
    own = (
        Requirement(key=key, operator="In", values=(labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    )
    return LabelSelector(match_labels=selector.match_labels, match_expressions=(*selector.match_expressions, *own))


CostsOf = Callable[[Rows], Floats]
"""The costs of a constraint for nodes of some rows, not yet rounded."""

CROWDED: Final = 1
"""The bit of a refusal: the domain has too many pods."""
UNLABELLED: Final = 2
"""The bit of a refusal: the node is in no domain."""


@dataclass(frozen=True, slots=True)
class Topology:
    """One topology key over the used rows: value ids, 0 without the label, and the number of ids."""

    ids: Ids
    size: int
    empty_id: int
    """The id of the value ""; 0 if no node has it."""

    @classmethod
    def of(cls, cluster: Cluster, key: str) -> Topology:
        label_column = cluster.labels.get(key)
        if label_column is None:
            return cls(np.zeros(cluster.size, dtype=np.int32), 1, 0)
        return cls(label_column.ids[: cluster.size], len(label_column.texts), label_column.id_of(""))


def lacking(labelled: Mask | None, rows: Rows) -> Mask | None:
    """A mask over `rows`: True if one of the labels is missing; None if none is."""
    if labelled is None:
        return None
    has_all: Mask = labelled[rows]
    return None if has_all.all() else ~has_all


def having(topologies: Sequence[Topology]) -> Mask | None:
    """A mask over all rows: True if all labels are present; None without labels."""
    found: Mask | None = None
    for topology in topologies:
        has_this: Mask = topology.ids != 0
        found = has_this if found is None else found & has_this
    return found


def _pods(
    cycle: Cycle, constraint: Constraint, topology: Topology, labelled: Mask | None, policy: Mask | None
) -> Floats:
    """By label value, the pods to spread among, on nodes that have all required labels and count by the policies."""
    where = constraint.counted(cycle.cluster)
    keep = None if labelled is None else labelled[where.rows]
    if policy is not None:
        keep = policy[where.rows] if keep is None else keep & policy[where.rows]
    return where.by_value(topology.ids, topology.size, keep)


def refusals(cycle: Cycle, constraint: Constraint, topology: Topology, labelled: Mask) -> Ints:
    """By label value: 0 where a hard constraint admits the pod, else the bit of the refusal."""
    policy = included(cycle, constraint)
    pods = _pods(cycle, constraint, topology, labelled, policy)
    ids = topology.ids[labelled if policy is None else labelled & policy]
    is_domain = np.bincount(ids, minlength=topology.size) > 0
    is_domain[0] = False
    fewest = pods[is_domain].min() if np.count_nonzero(is_domain) >= max(constraint.min_domains, 1) else 0
    skew = pods + constraint.matches(cycle.pod.labels) - fewest
    found: Ints = np.where(skew > constraint.max_skew, CROWDED, 0)
    found[0] = UNLABELLED
    return found


def costs(
    cycle: Cycle, constraint: Constraint, topology: Topology, labelled: Mask | None, scored: RowNumbers
) -> CostsOf:
    """The costs of a soft constraint. `scored`: the rows to be scored.

    Nodes without the label take part only with the system's defaults (`labelled` is None): they are one domain with
    nodes whose label is empty, but pay nothing for it."""
    if constraint.topology_key == HOSTNAME:
        return _host_costs(cycle.cluster, constraint, topology, len(scored))
    pods = _pods(cycle, constraint, topology, labelled, included(cycle, constraint))
    is_domain = np.bincount(topology.ids[scored], minlength=topology.size) > 0
    if topology.empty_id:
        pods[topology.empty_id] += pods[0]
        is_domain[topology.empty_id] |= is_domain[0]
        is_domain[0] = False
    by_value = pods * _weight(int(np.count_nonzero(is_domain))) + float(constraint.max_skew - 1)
    by_value[0] = 0.0
    return lambda rows: by_value.take(topology.ids[rows])


def _host_costs(cluster: Cluster, constraint: Constraint, topology: Topology, scored: int) -> CostsOf:
    """A hostname counts the pods of its node, whatever the policies say and however many nodes share the name."""
    least = float(constraint.max_skew - 1)
    by_row = np.where(topology.ids != 0, least, 0.0)
    where = constraint.counted(cluster)
    has_name = topology.ids[where.rows] != 0
    by_row[where.rows] = np.where(has_name, where.counts * _weight(scored) + least, 0.0)
    return lambda rows: by_row[rows]


def _weight(domains: int) -> float:
    """Makes few pods in many domains weigh as much as many pods in few domains."""
    return math.log(domains + 2)
