"""The victims on one node: the exact answer, by trying. Mirrors SelectVictimsOnNode.

    all pods of lower priority go ─► does the pod fit? ─► they come back, the dearest first, each if the pod still fits

Pods that would violate a PodDisruptionBudget come back first. The pods are removed from the cluster itself and put back
at the end, so that every plugin answers as usual.

Candidates are compared by these rules in turn (pickOneNodeForPreemption):

    1. the fewest victims that violate a PodDisruptionBudget
    2. the lowest priority of the most important victim
    3. the smallest sum of priorities, each counted from the lowest possible, so that one pod less is always less
    4. the fewest victims
    5. the latest start of the victim that is the earliest of the highest priority
    6. the first row
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.nominated_room import not_yet_counted
from tonnage.scheduling.decision.scheduling_cycle import Decider
from tonnage.scheduling.framework import Cycle, FilterPlugin, Status
from tonnage.scheduling.preemption.disruption_budgets import DisruptionBudgets
from tonnage.scheduling.preemption.ranked_residents import started_at

PRIORITY_OFFSET = 2**31
"""Priorities are 32-bit integers; with this added none is negative."""

Cost = tuple[int, int, int, int, float, int]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row where the pod would fit without `victims`: at least one, most important first."""

    row: int
    victims: tuple[PodInfo, ...]
    violations: int
    """How many victims violate a PodDisruptionBudget."""

    @property
    def cost(self) -> Cost:
        first = self.victims[0]  # it also started first among its priority
        total = sum(victim.priority + PRIORITY_OFFSET for victim in self.victims)
        return self.violations, first.priority, total, len(self.victims), -started_at(first), self.row


def importance(pod: PodInfo) -> tuple[int, float, str, str]:
    """A sort key, most important first: by priority, age, name. Mirrors MoreImportantPod."""
    return -pod.priority, started_at(pod), pod.key, pod.uid


NO_VICTIMS = "No preemption victims found for incoming pod"

Reasons = tuple[str, ...]


def victims_on(decider: Decider, cycle: Cycle, row: int) -> Candidate | Reasons:
    """The fewest pods that must go from a row for the cycle's pod to fit; or why that would not help."""
    cluster, pod = cycle.cluster, cycle.pod
    lesser = sorted((each for each in cluster.residents[row].values() if each.priority < pod.priority), key=importance)
    if not lesser:
        return (NO_VICTIMS,)
    with away(cluster, lesser, row):
        if refused := reasons_against(decider, cycle, row):
            return refused
        is_violating = cluster.index(DisruptionBudgets).violated_by(lesser)
        dear = [each for each, violates in zip(lesser, is_violating, strict=True) if violates]
        others = [each for each, violates in zip(lesser, is_violating, strict=True) if not violates]
        for each in (*dear, *others):
            cluster.put_pod(each, cluster.name(row))
            if reasons_against(decider, cycle, row):
                cluster.remove_pod(each.uid)
        there = cluster.residents[row]
        victims = tuple(each for each in lesser if each.uid not in there)
        violations = sum(each.uid not in there for each in dear)
    if not victims:  # it fits without victims but was refused: a plugin gave different answers
        return (f'expected at least one victim pod on node "{cluster.name(row)}"',)
    return Candidate(row, victims, violations)


def fits_without(decider: Decider, cycle: Cycle, row: int, gone: Sequence[PodInfo]) -> bool:
    """True if the cycle's pod fits a row without these pods."""
    with away(cycle.cluster, gone, row):
        return not reasons_against(decider, cycle, row)


def reasons_against(decider: Decider, cycle: Cycle, row: int) -> Reasons:
    """Why the pod does not fit a row now, with the pods nominated there and then without them; empty if it fits."""
    cluster = cycle.cluster
    expected = _still_to_come(cycle, row)
    if expected:
        with visiting(cluster, expected, row):
            if refused := _refusal(decider, cycle, row, expected):
                return refused
    return _refusal(decider, cycle, row)


def passes_with_fewer_pods_but_for(decider: Decider, cycle: Cycle, row: int, fit: FilterPlugin) -> bool:
    """True if every filter but `fit` passes the row with its nominated pods, whichever of its pods go."""
    cluster = cycle.cluster
    expected = _still_to_come(cycle, row)
    with visiting(cluster, expected, row):
        inner = decider.new_cycle(cluster, cycle.pod, expected)
        if isinstance(inner, Status):
            return False
        inner.skip_filter.add(fit.name)
        asked = (plugin for plugin in decider.filters if plugin.name not in inner.skip_filter)
        return (
            all(plugin.passes_with_fewer_pods(inner) for plugin in asked) and decider.first_refusal(inner, row) is None
        )


def expected_on(cycle: Cycle) -> dict[int, list[PodInfo]]:
    """By row, the nominated pods that count there."""
    found = {row: _still_to_come(cycle, row) for row in cycle.nominated}
    return {row: pods for row, pods in found.items() if pods}


def _still_to_come(cycle: Cycle, row: int) -> list[PodInfo]:
    return not_yet_counted(cycle.cluster, row, cycle.nominated.get(row, ()))


def _refusal(decider: Decider, cycle: Cycle, row: int, guests: Sequence[PodInfo] = ()) -> Reasons:
    inner = decider.new_cycle(cycle.cluster, cycle.pod, guests)
    if isinstance(inner, Status):
        return inner.reasons or (f"pod was refused by plugin {inner.plugin}",)
    refusal = decider.first_refusal(inner, row)
    if refusal is None:
        return ()
    judgement = refusal[1]
    bits = int(judgement.bits[0])
    return tuple(reason for place, reason in enumerate(judgement.reasons) if bits >> place & 1)


# -- the hypothetical cluster -----------------------------------------------------------------------------------------


@contextmanager
def away(cluster: Cluster, pods: Sequence[PodInfo], row: int) -> Iterator[None]:
    """Remove pods from their row inside the block; all of them are back afterwards, even after an exception."""
    order = tuple(cluster.residents[row])
    try:
        for pod in pods:
            cluster.remove_pod(pod.uid)
        yield
    finally:
        for pod in pods:
            if pod.uid not in cluster.residents[row]:
                cluster.put_pod(pod, cluster.name(row))
        there = cluster.residents[row]
        cluster.residents[row] = {uid: there[uid] for uid in order}  # restore the order of the residents


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
