"""Pods that are nominated to nodes, counted in on all of their nodes at once.

A row is judged as if the pods that are nominated to it were there. Most pods change nothing for most others except for
the resources that they take; where that is so for all pods of a row, NodeResourcesFit does the arithmetic
(`SumsFilter`):

    left[r] = allocatable[r] - requested[r] - nominated[r]          refused where it is less than the pod asks for

The others are judged one by one (`Decider._judge_with_nominated`), with the same answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import LARGE, Ints, Rows
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PODS, PodInfo
from tonnage.scheduling.decision.diagnosis import NARROWED, NOBODY, Diagnosis
from tonnage.scheduling.framework import Cycle, FilterPlugin, Judgement

_NATIVE = ((CPU, 0), (MEMORY, 1))
"""Resources that every node has from its first day, with their places in `Cluster.allocatable`."""


class SumsAsked(NamedTuple):
    """What a pod asks for by resource, and the reason for each that is short; the last reason stands for the rest."""

    amounts: Sequence[tuple[str, int]]
    reasons: tuple[str, ...]


class SumsFilter(FilterPlugin):
    """NodeResourcesFit: a row passes just when it has as much left of each resource as the pod asks for. A profile has
    one only if all its other filters are Tonnage's own.
    """

    @abstractmethod
    def sums(self, pod: PodInfo) -> SumsAsked:
        """What the pod asks for."""

    @abstractmethod
    def filter_beside(self, cycle: Cycle, rows: Rows, taken: Mapping[str, Ints]) -> Judgement | None:
        """Judge rows of which so much more is taken, by resource."""


def judge_by_sums(
    filters: Sequence[FilterPlugin],
    fit: SumsFilter | None,
    cycle: Cycle,
    diagnosis: Diagnosis,
    held: Mapping[int, Sequence[PodInfo]],
) -> Mapping[int, Sequence[PodInfo]]:
    """Refuse the rows where nominated pods leave too little. Returns the rows that sums do not decide."""
    cluster = cycle.cluster
    if not held or fit is None or cluster.counts_large or looks_across_rows(filters, cycle):
        return held
    position = filters.index(fit)
    sums = fit.sums(cycle.pod)
    node_of, allocatable = cluster.node_of, cluster.allocatable
    added = [(row, pod) for row, pods in held.items() for pod in pods if node_of(pod.uid) is None]
    rows = np.array([row for row, _ in added], dtype=np.intp)
    asked = [pod.requests for _, pod in added]
    if any(amount >= LARGE for each in asked for amount in each.values()):
        return held
    amounts = {name: np.array([each.get(name, 0) for each in asked], dtype=np.int64) for name in (CPU, MEMORY)}
    may_come = np.ones(len(rows), dtype=np.bool_)  # as `not_yet_counted` has it
    for name, number in _NATIVE:
        may_come &= amounts[name] <= allocatable[number, rows]
    coming = [each for each, comes in zip(added, may_come.tolist(), strict=True) if comes]
    left = {row for row, pod in coming if not takes_only_resources(cycle.pod, pod)}
    if left:
        may_come &= ~np.isin(rows, list(left))
    distinct, place = np.unique(rows[may_come], return_inverse=True)
    taken: dict[str, Ints] = {}
    for name, _ in sums.amounts:
        of_pods = amounts.get(name)
        if of_pods is None:
            of_pods = np.array([1 if name == PODS else each.get(name, 0) for each in asked], dtype=np.int64)
        taken[name] = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(taken[name], place, of_pods[may_come])
    judgement = fit.filter_beside(cycle, distinct, taken)
    if judgement is not None:
        _hold_against(diagnosis, position, judgement, distinct, held)
    return {row: held[row] for row in left}


def _hold_against(
    diagnosis: Diagnosis,
    position: int,
    judgement: Judgement,
    rows: np.ndarray[tuple[int], np.dtype[np.intp]],
    held: Mapping[int, Sequence[PodInfo]],
) -> None:
    """Enter a refusal with nominated pods in place of what is held against the rows without them."""
    first = diagnosis.first[rows]
    # A filter before this one refuses with the same words; what one after it says is not told any more.
    refused = (judgement.bits != 0) & (first >= position) & (first != NARROWED)
    if not refused.any():
        return
    for row in rows[refused & (first == NOBODY)].tolist():
        diagnosis.held_by[row] = tuple(not_yet_counted(diagnosis.cluster, row, held[row]))
    diagnosis.clear(rows[refused])
    final = judgement.unresolvable
    told = Judgement(judgement.bits[refused], judgement.reasons, final if isinstance(final, bool) else final[refused])
    diagnosis.add(position, told, rows[refused])


def looks_across_rows(filters: Iterable[FilterPlugin], cycle: Cycle) -> bool:
    """Whether a filter takes part that looks at other rows: whoever comes to a row may change its answer."""
    return any(not plugin.row_local and plugin.name not in cycle.skip_filter for plugin in filters)


def takes_only_resources(pod: PodInfo, other: PodInfo) -> bool:
    """Whether `other`, if it comes to a row, changes nothing for `pod` there except for the resources that it takes.

    Of Tonnage's own filters that look at a row, NodePorts minds host ports, those of volumes mind whoever brings some,
    and InterPodAffinity minds whoever keeps others away, even if it has nothing to say before that pod is there.
    """
    if other.pod.spec.affinity.pod_anti_affinity.required or (pod.host_ports and other.host_ports):
        return False
    return not ((pod.has_claims or pod.has_disks) and (other.has_claims or other.has_disks))


def not_yet_counted(cluster: Cluster, row: int, expected: Iterable[PodInfo]) -> list[PodInfo]:
    """The pods expected on a row that are not counted anywhere yet, without those that the node is too small for."""
    return [
        pod
        for pod in expected
        if cluster.node_of(pod.uid) is None
        and all(pod.requests.get(name, 0) <= cluster.allocatable.item(number, row) for name, number in _NATIVE)
    ]
