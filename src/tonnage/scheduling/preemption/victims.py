"""The victims on one node by trying, and on many nodes at once where only sums decide. Mirrors SelectVictimsOnNode.

    all pods of lower priority go ─► does the pod fit? ─► they come back, the dearest first, each if the pod still fits

Pods that would violate a PodDisruptionBudget come back first. To try a node, the pods are removed from the cluster
itself and put back at the end, so that every plugin answers as usual.

On a row that every filter but NodeResourcesFit passes, whichever pods go (`passes_with_fewer_pods`), victims are a
matter of arithmetic, with the same result. For every resource r that the pod requests:

    room[r] = allocatable[r] - requested[r] - expected[r] - asked[r]          negative where the row is too full
    all pods of lower priority go:   room[r] += their amounts; where it is still negative, nothing helps
    one comes back:                  if room[r] >= its amount for every r, room[r] -= that amount; else it is a victim

A host port that the pod wants is a resource without room: a pod that has it does not come back.

Candidates are compared by these rules in turn (pickOneNodeForPreemption):

    1. the fewest victims that violate a PodDisruptionBudget
    2. the lowest priority of the most important victim
    3. the smallest sum of priorities, each counted from the lowest possible, so that one pod less is always less
    4. the fewest victims
    5. the latest start of the victim that is the earliest of the highest priority
    6. the first row
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ids, Ints, Mask
from tonnage.scheduling.cluster.pod_info import PODS, PodInfo
from tonnage.scheduling.decision.nominated_room import not_yet_counted
from tonnage.scheduling.decision.scheduling_cycle import Decider
from tonnage.scheduling.framework import Cycle, Status
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets, RankedResidents, RowNumbers, started_at

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
    expected = _still_to_come(cycle, row)
    return (_refusal(decider, cycle, row, expected) if expected else ()) or _refusal(decider, cycle, row)


def expected_on(cycle: Cycle) -> dict[int, list[PodInfo]]:
    """By row, the nominated pods that count there."""
    found = {row: _still_to_come(cycle, row) for row in cycle.nominated}
    return {row: pods for row, pods in found.items() if pods}


def _still_to_come(cycle: Cycle, row: int) -> list[PodInfo]:
    return not_yet_counted(cycle.cluster, row, cycle.nominated.get(row, ()))


def _refusal(decider: Decider, cycle: Cycle, row: int, guests: Sequence[PodInfo] = ()) -> Reasons:
    refusal = decider.refusal_beside(cycle, row, guests)
    if refusal is None:
        return ()
    if isinstance(refusal, Status):
        return refusal.reasons or (f"pod was refused by plugin {refusal.plugin}",)
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


def violating(cluster: Cluster, pods: Ids, going: Mask) -> Mask:
    """`DisruptionBudgets.violated_by` for many rows: a mask of the `going` pods, by slot and place. The pods of a row
    use budgets up in order of their slots; rows are independent."""
    ranked, budgets = cluster.index(RankedResidents), cluster.index(DisruptionBudgets)
    found, kinds = np.zeros_like(going), ranked.kinds[pods]
    known = (
        (kind, budgets.meaning(ranked.known_kinds.things[kind]))
        for kind in np.bincount(kinds[going]).nonzero()[0].tolist()
    )
    meant = {kind: [(key, budgets[key].status) for key in keys] for kind, keys in known if keys}
    # By place first, so that the pods of a row come in their order.
    is_meant = np.zeros(len(ranked.known_kinds), dtype=np.bool_)
    is_meant[list(meant)] = True
    places, slots = np.nonzero((going & is_meant[kinds]).T)
    left: dict[tuple[int, Key], int] = {}
    of_pods = zip(kinds[slots, places].tolist(), pods[slots, places].tolist(), strict=True)
    for slot, place, (kind, number) in zip(slots.tolist(), places.tolist(), of_pods, strict=True):
        for key, status in meant[kind]:
            pod = ranked.pods[number] if status.disrupted_pods else None
            if pod is None or pod.pod.name not in status.disrupted_pods:  # the budget already counts them
                left[place, key] = left.get((place, key), status.disruptions_allowed) - 1
                if left[place, key] < 0:
                    found[slot, place] = True
    return found


class CandidatesBySums:
    """The rows of `rows` where preemption helps, by sums. `refusals` counts the reasons of the others."""

    def __init__(
        self,
        cluster: Cluster,
        pod: PodInfo,
        sums: Sequence[tuple[str, int, str]],
        rows: RowNumbers,
        expected: Mapping[int, Sequence[PodInfo]],
        *,
        port_reason: str = "",
    ) -> None:
        """`port_reason`: the reason for a taken host port; empty if the pod wants none."""
        self.refusals: Counter[str] = Counter()
        self._cluster = cluster
        self._ranked = cluster.index(RankedResidents)
        pods = self._ranked.ranked(rows)
        is_lesser: Mask = self._ranked.priorities[pods] < pod.priority
        has_lesser: Mask = np.logical_or.reduce(is_lesser, axis=0)
        self._refuse(NO_VICTIMS, ~has_lesser)
        rows, pods, is_lesser = rows[has_lesser], pods[:, has_lesser], is_lesser[:, has_lesser]
        ports: Ints | None = None
        if port_reason:
            in_conflict = self._ranked.in_conflict(pod.host_ports)[pods]
            is_taken: Mask = np.logical_or.reduce(in_conflict & ~is_lesser, axis=0)
            self._refuse(port_reason, is_taken)
            rows, pods, is_lesser = rows[~is_taken], pods[:, ~is_taken], is_lesser[:, ~is_taken]
            ports = in_conflict[:, ~is_taken].astype(np.int64)
        rooms, amounts = self._with_all_gone(sums, rows, pods, is_lesser, expected)
        fits = np.ones(len(rows), dtype=np.bool_)
        for (_, _, reason), room in zip(sums, rooms, strict=True):
            is_short = room < 0
            self._refuse(reason, is_short)
            fits &= ~is_short
        if ports is not None:  # of which there is none left
            rooms, amounts = [*rooms, np.zeros(len(rows), dtype=np.int64)], [*amounts, ports]
        self.rows, self._pods = rows[fits], pods[:, fits]
        self._victims, self._dear = self._brought_back(
            [room[fits] for room in rooms], [amount[:, fits] for amount in amounts], is_lesser[:, fits]
        )
        self._count_costs()

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_open))

    @property
    def has_clean(self) -> bool:
        """True if a candidate violates no budget."""
        return bool((self._violations[self._is_open] == 0).any())

    def best(self) -> Candidate | None:
        """The cheapest candidate that was not dropped."""
        left = np.flatnonzero(self._is_open)
        if not len(left):
            return None
        for costs in self._costs:
            of_left = costs[left]
            left = left[of_left == of_left.min()]
        place = int(left[0])  # rows ascend
        row = int(self.rows[place])
        there = self._cluster.residents[row]
        going = self._pods[self._victims[:, place], place].tolist()
        victims = tuple(there[pod.uid] for number in going if (pod := self._ranked.pods[number]) is not None)
        return Candidate(row, victims, int(self._violations[place]))

    def drop(self, row: int) -> None:
        """Drop a row: trying it gave another answer."""
        self._is_open[self.rows == row] = False

    # -- sums ---------------------------------------------------------------------------------------------------------

    def _refuse(self, reason: str, refused: Mask) -> None:
        count = int(np.count_nonzero(refused))
        if count:
            self.refusals[reason] += count

    def _with_all_gone(
        self,
        asked: Sequence[tuple[str, int, str]],
        rows: RowNumbers,
        pods: Ids,
        is_lesser: Mask,
        expected: Mapping[int, Sequence[PodInfo]],
    ) -> tuple[list[Ints], list[Ints]]:
        """By resource: the room of each row without pods of lower priority, and the amounts of these pods."""
        cluster, rooms, amounts = self._cluster, [], []
        visited = [(place, expected[row]) for place, row in enumerate(rows.tolist()) if row in expected]
        for resource, amount, _ in asked:
            number = cluster.resource_id(resource)
            room = cluster.allocatable[number, rows] - cluster.requested[number, rows] - amount
            for place, nominated in visited:
                room[place] -= sum(1 if resource == PODS else pod.requests.get(resource, 0) for pod in nominated)
            taken = self._ranked.amounts(resource)[pods] * is_lesser
            rooms.append(room + taken.sum(axis=0))
            amounts.append(taken)
        return rooms, amounts

    def _brought_back(self, rooms: list[Ints], amounts: list[Ints], is_lesser: Mask) -> tuple[Mask, Mask]:
        """(pods that do not come back, pods that violate a budget), both by slot and place in `rows`."""
        # A resource with enough for all pods together keeps none away.
        scarce = [(room, each) for room, each in zip(rooms, amounts, strict=True) if (room < each.sum(axis=0)).any()]
        cluster, victims = self._cluster, np.zeros_like(is_lesser)
        has_budgets = len(cluster.index(DisruptionBudgets)) > 0
        dear = violating(cluster, self._pods, is_lesser) if has_budgets else victims.copy()
        passes = (dear, is_lesser & ~dear) if dear.any() else (is_lesser,)
        for asking in passes:
            for slot in np.flatnonzero(asking.any(axis=1)).tolist():
                comes_back = asking[slot].copy()
                for room, each in scarce:
                    comes_back &= room >= each[slot]
                for room, each in scarce:
                    room -= each[slot] * comes_back
                victims[slot] |= asking[slot] & ~comes_back
        return victims, dear

    def _count_costs(self) -> None:
        """The parts of Candidate.cost as columns, except the row: they are in row order."""
        victims, rows = self._victims, self.rows
        count = victims.sum(axis=0)
        # On a row without victims the pod fits by now: the diagnosis is older than the cluster.
        self._is_open: Mask = count > 0
        self._violations: Ints = (victims & self._dear).sum(axis=0)
        if not len(rows):
            self._costs: tuple[npt.NDArray[np.generic], ...] = ()
            return
        priorities = self._ranked.priorities[self._pods]
        total = (np.where(victims, priorities, -PRIORITY_OFFSET) + PRIORITY_OFFSET).sum(axis=0)
        first = victims.argmax(axis=0), np.arange(len(rows))
        start = self._ranked.starts[self._pods[first]]
        self._costs = (self._violations, priorities[first], total, count, -start)
