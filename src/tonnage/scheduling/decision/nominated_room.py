"""Counts nominated pods on all of their nodes at once, and names those that hold the missing room (`Holder`).

A row is judged as if the pods nominated to it were there. Most pods only take resources from others; if that is true
for all pods of a row, NodeResourcesFit does the arithmetic (`SumsFilter`):

    left[r] = allocatable[r] - requested[r] - nominated[r]          refused if it is less than the pod's request

Other rows are judged one by one (`Decider._judge_with_nominated`), with the same result.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np

from tonnage.clock import rfc3339
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import LARGE, Ints, Rows
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PODS, PodInfo
from tonnage.scheduling.decision.answers import NARROWED, NOBODY, Diagnosis
from tonnage.scheduling.framework import Cycle, FilterPlugin, Judgement

_NATIVE = ((CPU, 0), (MEMORY, 1))
"""Resources that every node always has, with their columns in `Cluster.allocatable`."""


class SumsAsked(NamedTuple):
    """A pod's requests by resource, and the reason for each shortage; the last reason is for all other resources."""

    amounts: Sequence[tuple[str, int]]
    reasons: tuple[str, ...]


class PortsFilter(FilterPlugin):
    """NodePorts: a row passes if and only if none of its pods has a host port that this pod wants."""

    reason: ClassVar[str]


class SumsFilter(FilterPlugin):
    """NodeResourcesFit: a row passes if and only if it has enough left of each resource. A profile has one only if all
    its other filters are Tonnage's own."""

    @abstractmethod
    def sums(self, pod: PodInfo) -> SumsAsked:
        """The requests of the pod."""

    @abstractmethod
    def filter_beside(self, cycle: Cycle, rows: Rows, taken: Mapping[str, Ints]) -> Judgement | None:
        """Judge rows from which `taken` is subtracted, by resource."""


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
    may_come = np.ones(len(rows), dtype=np.bool_)  # like `not_yet_counted`
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
    """Replace the refusals of rows by those with nominated pods."""
    first = diagnosis.first[rows]
    # A filter before this one refuses with the same reasons; one after it no longer counts.
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
    """True if a filter that reads other rows takes part: any new pod may change its answer."""
    return any(not plugin.row_local and plugin.name not in cycle.skip_filter for plugin in filters)


def takes_only_resources(pod: PodInfo, other: PodInfo) -> bool:
    """True if `other`, placed on a row, changes nothing for `pod` there except the free resources.

    Of Tonnage's row-local filters, NodePorts reads host ports, the volume filters read pods with volumes, and
    InterPodAffinity reads pods with anti-affinity, even if it has nothing to say before that pod is there.
    """
    if other.pod.spec.affinity.pod_anti_affinity.required or (pod.host_ports and other.host_ports):
        return False
    return not ((pod.has_claims or pod.has_disks) and (other.has_claims or other.has_disks))


def not_yet_counted(cluster: Cluster, row: int, expected: Iterable[PodInfo]) -> list[PodInfo]:
    """The nominated pods of a row that are not counted anywhere yet, without those that are too large for the node."""
    return [
        pod
        for pod in expected
        if cluster.node_of(pod.uid) is None
        and all(pod.requests.get(name, 0) <= cluster.allocatable.item(number, row) for name, number in _NATIVE)
    ]


# -- for people --------------------------------------------------------------------------------------------------------

_MAX_NODES: Final = 3
_MAX_PODS: Final = 3
"""At most this many are named: an event has little room, and a condition should not change often."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A nominated pod. `since` and `by` are empty if not known."""

    pod: str
    since: datetime | None = None
    by: str = ""

    @property
    def told(self) -> str:
        by = f" by {self.by}" if self.by else ""
        since = f" since {rfc3339(self.since)}" if self.since is not None else ""
        return f"{self.pod} (nominated{by}{since})"

    def document(self) -> dict[str, Any]:
        return {"pod": self.pod, "since": rfc3339(self.since) if self.since is not None else "", "by": self.by}


HolderOf: TypeAlias = Callable[[PodInfo], Holder]


def holders_by_node(diagnosis: Diagnosis | None, holder_of: HolderOf) -> dict[str, tuple[Holder, ...]]:
    """By node name, the nominated pods that hold the missing room."""
    if diagnosis is None:
        return {}
    name = diagnosis.cluster.name
    found = {name(row): tuple(map(holder_of, pods)) for row, pods in diagnosis.held_by.items()}
    return dict(sorted(found.items()))


def held_sentence(holders: Mapping[str, Sequence[Holder]]) -> str:
    """One sentence about held room; empty if there is none."""
    if not holders:
        return ""
    parts = [f"on {node_name} is held for {_listed(pods)}" for node_name, pods in list(holders.items())[:_MAX_NODES]]
    more = len(holders) - len(parts)
    return f"Room {', '.join(parts)}{f', and on {more} more' if more else ''}."


def _listed(pods: Sequence[Holder]) -> str:
    named = " and ".join(pod.told for pod in pods[:_MAX_PODS])
    more = len(pods) - _MAX_PODS
    return f"{named} and {more} more" if more > 0 else named
