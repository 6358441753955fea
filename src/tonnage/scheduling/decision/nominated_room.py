"""Counts nominated pods on all of their nodes at once, and names those that hold the missing room (`Holder`).

A row is judged as if the pods nominated to it were there. Most pods only take resources from others; where that is true
for all pods of a row, their requests are added to the row's, and NodeResourcesFit (`SumsFilter`) is asked once about
all such rows. Other rows are judged one by one (`Decider._judge_with_nominated`), with the same result.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from tonnage.clock import rfc3339
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import LARGE
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PodInfo
from tonnage.scheduling.decision.answers import NARROWED, NOBODY, Diagnosis
from tonnage.scheduling.framework import Cycle, FilterPlugin, Judgement

_CPU, _MEMORY, _PODS = 0, 1, 3
"""Rows of `Cluster.allocatable`: every node has these resources."""


class PortsFilter(FilterPlugin):
    """NodePorts: a row passes if and only if none of its pods has a host port that this pod wants."""

    reason: ClassVar[str]


class SumsFilter(FilterPlugin):
    """NodeResourcesFit: a row passes if and only if it has enough left of each resource. A profile has one only if all
    its other filters are Tonnage's own."""

    @abstractmethod
    def sums(self, pod: PodInfo) -> Sequence[tuple[str, int, str]]:
        """The requests of the pod: resource, amount, and the reason for a shortage."""


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
    coming = {row: not_yet_counted(cluster, row, pods) for row, pods in held.items()}
    left = {row for row, pods in coming.items() if not all(takes_only_resources(cycle.pod, pod) for pod in pods)}
    rows = np.array([row for row, pods in coming.items() if pods and row not in left], dtype=np.intp)
    added = [(row, pod.requests) for row in rows.tolist() for pod in coming[row]]
    names = ((name, cluster.resources.find(name)) for name in cycle.pod.requests)
    amounts = {
        number: np.array([asked.get(name, 0) for _, asked in added]) for name, number in names if number is not None
    }
    if any((each >= LARGE).any() for each in amounts.values()):
        return held
    before, places = cluster.requested[:, rows], [row for row, _ in added]
    np.add.at(cluster.requested[_PODS], places, 1)
    for number, each in amounts.items():
        np.add.at(cluster.requested[number], places, each)
    try:
        judgement = fit.filter(cycle, rows)
    finally:
        cluster.requested[:, rows] = before
    if judgement is not None:
        # A filter before this one refuses with the same reasons; one after it no longer counts.
        position, first = filters.index(fit), diagnosis.first[rows]
        refused = (judgement.bits != 0) & (first >= position) & (first != NARROWED)
        diagnosis.held_by |= {row: tuple(coming[row]) for row in rows[refused & (first == NOBODY)].tolist()}
        diagnosis.clear(rows[refused])
        final = judgement.unresolvable
        final = final if isinstance(final, bool) else final[refused]
        diagnosis.add(position, Judgement(judgement.bits[refused], judgement.reasons, final), rows[refused])
    return {row: held[row] for row in left}


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
    has_cpu, has_memory = cluster.allocatable.item(_CPU, row), cluster.allocatable.item(_MEMORY, row)
    return [
        pod
        for pod in expected
        if cluster.node_of(pod.uid) is None
        and pod.requests.get(CPU, 0) <= has_cpu
        and pod.requests.get(MEMORY, 0) <= has_memory
    ]


@contextmanager
def visiting(cluster: Cluster, pods: Sequence[PodInfo], row: int) -> Iterator[None]:
    """Add pods to a row inside the block; they are removed afterwards."""
    try:
        for pod in pods:
            cluster.put_pod(pod, cluster.name(row))
        yield
    finally:
        for pod in pods:
            cluster.remove_pod(pod.uid)


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
