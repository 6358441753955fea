"""Spread constraints as decisions see them: what a pod asks for itself, or what its scheduler asks of every pod.

A pod with constraints of its own is held to those alone. One without any gets the profile's defaults, if a Service or
the controller that owns the pod selects it: then that selector says among which pods it is spread. The system defaults
are upstream's: mildly over hostnames, more mildly over zones, and never a reason to refuse a node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tonnage.objects.core_v1 import TopologySpreadConstraint
from tonnage.objects.core_v1.node import HOSTNAME, ZONE
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.taints import find_untolerated
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Mask
from tonnage.scheduling.cluster.node_matching import matching
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.pod_matching import NOBODY, Labels, PodMatcher, hold, requirements_of
from tonnage.scheduling.cluster.residents import Residents
from tonnage.scheduling.cluster.row_counts import RowCounts
from tonnage.scheduling.cluster.workloads import Workloads
from tonnage.scheduling.configuration.plugin_args import PodTopologySpreadArgs
from tonnage.scheduling.framework import Cycle

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
    """One constraint with its selector read. `matcher` means the pods to spread among, of the pod's own namespace."""

    topology_key: str
    max_skew: int
    min_domains: int
    matcher: PodMatcher
    is_hard: bool
    honors_affinity: bool
    honors_taints: bool

    def matches(self, labels: Labels) -> bool:
        """Would a pod of the namespace with these labels be among them?"""
        return self.matcher is not NOBODY and hold(self.matcher.requirements, labels)

    def counted(self, cluster: Cluster) -> RowCounts:
        """The pods to spread among, by row; those that are terminating are left out.

        An empty selector counts nobody, although it matches the pod itself: upstream's countPodsMatchSelector.
        """
        if not self.matcher.requirements:
            return _NOTHING
        return cluster.index(Residents).counted((self.matcher,), terminating=False)


class Constraints(NamedTuple):
    """The constraints a pod is held to, and whether they are the system's: those ask no node for labels it lacks."""

    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    are_system: bool = False


NO_CONSTRAINTS: Final = Constraints()


class SpreadRules:
    """The constraints of every pod under one profile."""

    def __init__(self, args: PodTopologySpreadArgs | None) -> None:
        self._is_system = args is None or args.defaulting_type != "List"
        defaults = SYSTEM_DEFAULTS if args is None or self._is_system else args.default_constraints
        self._defaults = tuple(_read(each, "", None) for each in defaults)
        self.default_hard = tuple(each for each in self._defaults if each.is_hard)
        self._own: WeakKeyDictionary[PodInfo, Constraints] = WeakKeyDictionary()
        # Finding what selects a pod asks every Service of its namespace: the answers hold until a workload changes.
        self._defaulted: dict[Hashable, Constraints] = {}
        # Pods of a StatefulSet have labels of their own, and are selected by the same as the others.
        self._selected: dict[Hashable, Constraints] = {}
        self._defaulted_by: tuple[Workloads | None, int] = (None, -1)

    def own(self, info: PodInfo) -> Constraints:
        """What the pod asks for itself, read once: every event may ask for it. Raises InvalidSelector."""
        found = self._own.get(info)
        if found is None:
            asked = info.pod.spec.topology_spread_constraints
            read = (_read(each, info.namespace, _with_label_keys(each, info.labels)) for each in asked)
            found = self._own[info] = _sorted_out(read, are_system=False)
        return found

    def constraints(self, info: PodInfo, workloads: Workloads) -> Constraints:
        """What the pod is held to. Raises InvalidSelector."""
        if info.pod.spec.topology_spread_constraints:
            return self.own(info)
        if not self._defaults or workloads.is_empty:
            return NO_CONSTRAINTS
        if self._defaulted_by != (workloads, workloads.tick) or len(self._defaulted) >= _REMEMBERED:
            self._defaulted.clear()
            self._selected.clear()
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
        key = (namespace, tuple(selector.match_labels.items()), selector.match_expressions)
        if key not in self._selected:
            self._selected[key] = self._selected_by(namespace, selector)
        return self._selected[key]

    def _selected_by(self, namespace: str, selector: LabelSelector) -> Constraints:
        matcher = PodMatcher(frozenset((namespace,)), requirements_of(selector))
        filled_in = (replace(each, matcher=matcher) for each in self._defaults)
        return _sorted_out(filled_in, are_system=self._is_system)


def included(cycle: Cycle, constraint: Constraint) -> Mask | None:
    """The rows whose pods and domains count, by the constraint's node inclusion policies; None when all do.

    The affinity policy looks at the pod's nodeSelector and required node affinity, not at the profile's addedAffinity.
    Constraints of equal policies, and there are four kinds, count the same rows: they are found once in a decision.
    """
    policies = (constraint.honors_affinity, constraint.honors_taints)
    known: dict[tuple[bool, bool], Mask | None] = cycle.state.setdefault(_INCLUDED, {})
    if policies not in known:
        known[policies] = _included(cycle, constraint)
    return known[policies]


def _included(cycle: Cycle, constraint: Constraint) -> Mask | None:
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
    """The selector with the pod's own values of `matchLabelKeys` added.

    A 1.36 API server has merged them already, and saying it twice changes nothing; pods of older servers need it.
    Without a selector there is nothing to narrow: upstream's mergeLabelSetWithSelector.
    """
    selector = constraint.label_selector
    if selector is None or not constraint.match_label_keys:
        return selector
    own = (
        Requirement(key=key, operator="In", values=(labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    )
    return LabelSelector(match_labels=selector.match_labels, match_expressions=(*selector.match_expressions, *own))
