"""Who has to go from each of many nodes, where nothing but sums decides: all nodes at once.

On a row that every filter but NodeResourcesFit lets pass, and would let pass whoever of it goes
(`passes_with_fewer_pods`), a victim is a matter of arithmetic. For every resource r that the pod asks for:

    room[r] = allocatable[r] - requested[r] - expected[r] - asked[r]          negative where the row is too full
    all pods of lower priority go:   room[r] += their amounts; where it is still negative, nothing helps
    one comes back:                  if room[r] >= its amount for every r, room[r] -= that amount; else it is a victim

Pods that violate a budget come back in a pass of their own before all others. The answer is what `victims.py` finds by
trying. `BudgetsByKind` is `DisruptionBudgets.violated_by` as arrays, by kind of pods (`ranked_residents.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Mask
from tonnage.scheduling.cluster.pod_info import PODS, PodInfo
from tonnage.scheduling.decision.nominated_room import SumsAsked
from tonnage.scheduling.preemption.disruption_budgets import DisruptionBudgets
from tonnage.scheduling.preemption.ranked_residents import RankedResidents, RowNumbers
from tonnage.scheduling.preemption.victims import NO_VICTIMS, PRIORITY_OFFSET, Candidate

Places = npt.NDArray[np.intp]


class BudgetsByKind:
    """Which budgets mean which kinds of pods: `cluster.index(BudgetsByKind)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._ranked = cluster.index(RankedResidents)
        self._budgets = cluster.index(DisruptionBudgets)
        self._read_at = (-1, -1)
        self._keys: dict[Key, int] = {}
        self._numbers: list[int] = []
        self._ends: list[int] = [0]  # where the numbers of each kind end, and those of the next begin

    def violating(self, rows: RowNumbers, going: Mask) -> Mask:
        """If these pods went: which of them, by slot and place in `rows`, would find nothing left of a budget? The pods
        of a row use budgets up in order of their slots, and rows know nothing of one another.
        """
        found = np.zeros_like(going)
        kin = self._ranked.kin(rows, going)
        self._read_kinds()
        ends = np.array(self._ends)
        counts = np.diff(ends)
        # By place first, so that what follows meets the pods of a row in their order.
        places, slots = np.nonzero(going.T & (counts[kin] > 0).T)
        if not len(places):
            return found
        kinds = kin[slots, places]
        of_pod = np.repeat(np.arange(len(places)), counts[kinds])
        nth = np.arange(len(of_pod)) - np.repeat(np.cumsum(counts[kinds]) - counts[kinds], counts[kinds])
        budget = np.array(self._numbers)[ends[kinds][of_pod] + nth]
        counted = self._not_counted_yet(rows, places[of_pod], slots[of_pod], budget)
        of_pod, budget = of_pod[counted], budget[counted]
        rank = _rank(places[of_pod] * len(self._keys) + budget)
        allowed = np.array([self._budgets[key].status.disruptions_allowed for key in self._keys])
        violated = of_pod[rank >= np.maximum(allowed, 0)[budget]]
        found[slots[violated], places[violated]] = True
        return found

    def _not_counted_yet(self, rows: RowNumbers, places: Places, slots: Places, budget: Places) -> Mask:
        """Pairs of a pod and a budget that does not know of its going."""
        found = np.ones(len(budget), dtype=np.bool_)
        for key, number in self._keys.items():
            disrupted = self._budgets[key].status.disrupted_pods
            for pair in np.flatnonzero(budget == number).tolist() if disrupted else ():
                found[pair] = self._ranked.pod_at(int(slots[pair]), int(rows[places[pair]])).pod.name not in disrupted
        return found

    def _read_kinds(self) -> None:
        """Ask for the budgets of kinds that are new here; of all when other pods are meant than before."""
        read_at = (self._budgets.meaning_tick, self._ranked.kinds_forgotten)
        if read_at != self._read_at:
            self._read_at = read_at
            self._keys, self._numbers, self._ends = {}, [], [0]
        for namespace, labels in self._ranked.kinds[len(self._ends) - 1 :]:
            for key in self._budgets.meaning(namespace, dict(labels)):
                self._numbers.append(self._keys.setdefault(key, len(self._keys)))
            self._ends.append(len(self._numbers))


def _rank(groups: Places) -> Places:
    """For each entry, how many before it are of its group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    starts = np.flatnonzero(is_first)
    found = np.empty(len(groups), dtype=np.intp)
    found[order] = np.arange(len(ordered)) - starts[np.cumsum(is_first) - 1]
    return found


class CandidatesBySums:
    """The rows of `rows` where sums say that a preemption helps. `refusals` counts the reasons of the others."""

    def __init__(
        self,
        cluster: Cluster,
        priority: int,
        sums: SumsAsked,
        rows: RowNumbers,
        expected: Mapping[int, Sequence[PodInfo]],
    ) -> None:
        self.refusals: Counter[str] = Counter()
        self._cluster = cluster
        self._ranked = cluster.index(RankedResidents)
        has_lesser: Mask = np.logical_or.reduce(self._ranked.priorities[:, rows] < priority, axis=0)
        self._refuse(NO_VICTIMS, ~has_lesser)
        rows = rows[has_lesser]
        slots = self._ranked.depth(rows)
        is_lesser = self._ranked.priorities[:slots, rows] < priority
        rooms, amounts = self._with_all_gone(sums.amounts, rows, is_lesser, expected)
        fits = np.ones(len(rows), dtype=np.bool_)
        reasons = sums.reasons
        for place, room in enumerate(rooms):
            is_short = room < 0
            self._refuse(reasons[min(place, len(reasons) - 1)], is_short)
            fits &= ~is_short
        self.rows = rows[fits]
        self._victims, self._dear = self._brought_back(
            [room[fits] for room in rooms], [each[:, fits] for each in amounts], is_lesser[:, fits]
        )
        self._count_costs()

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_open))

    @property
    def has_clean(self) -> bool:
        """There is one that violates no budget."""
        return bool((self._violations[self._is_open] == 0).any())

    def best(self) -> Candidate | None:
        """The cheapest of those that were not dropped."""
        left = np.flatnonzero(self._is_open)
        if not len(left):
            return None
        for costs in self._costs:
            of_left = costs[left]
            left = left[of_left == of_left.min()]
        place = int(left[0])  # rows ascend
        row = int(self.rows[place])
        there = self._cluster.residents[row]
        going = np.flatnonzero(self._victims[:, place]).tolist()
        victims = tuple(there[self._ranked.pod_at(slot, row).uid] for slot in going)
        return Candidate(row, victims, int(self._violations[place]))

    def drop(self, row: int) -> None:
        """Leave a row out: trying it gave another answer."""
        self._is_open[self.rows == row] = False

    # -- sums ---------------------------------------------------------------------------------------------------------

    def _refuse(self, reason: str, refused: Mask) -> None:
        count = int(np.count_nonzero(refused))
        if count:
            self.refusals[reason] += count

    def _with_all_gone(
        self,
        asked: Sequence[tuple[str, int]],
        rows: RowNumbers,
        is_lesser: Mask,
        expected: Mapping[int, Sequence[PodInfo]],
    ) -> tuple[list[Ints], list[Ints]]:
        """By resource: the room on each row with nobody of lower priority there, and what each of those takes of it."""
        cluster, rooms, amounts = self._cluster, [], []
        visited = [(place, expected[row]) for place, row in enumerate(rows.tolist()) if row in expected]
        for resource, amount in asked:
            number = cluster.resource_id(resource)
            room, held = cluster.allocatable[number, rows], cluster.requested[number, rows]
            if cluster.counts_large:  # exactly, in plain integers: sums may be more than 64 bits hold
                room, held = room.astype(object), self._exactly_held(resource, rows)
            room = room - held - amount
            for place, nominated in visited:
                room[place] -= sum(1 if resource == PODS else each.requests.get(resource, 0) for each in nominated)
            taken = self._ranked.amounts(resource)[: len(is_lesser), rows] * is_lesser
            if cluster.counts_large:
                taken = taken.astype(object)
            rooms.append(room + taken.sum(axis=0))
            amounts.append(taken)
        return rooms, amounts

    def _exactly_held(self, resource: str, rows: RowNumbers) -> Ints:
        """What the pods of each row ask for, as plain integers."""
        residents = [self._cluster.residents[row].values() for row in rows.tolist()]
        if resource == PODS:
            return np.array([len(each) for each in residents], dtype=object)
        return np.array([sum(pod.requests.get(resource, 0) for pod in each) for each in residents], dtype=object)

    def _brought_back(self, rooms: list[Ints], amounts: list[Ints], is_lesser: Mask) -> tuple[Mask, Mask]:
        """(who does not come back, who violates a budget by going), both by slot and place in `rows`."""
        # What suffices for all of them together holds nobody back.
        scarce = [(room, each) for room, each in zip(rooms, amounts, strict=True) if (room < each.sum(axis=0)).any()]
        cluster, victims = self._cluster, np.zeros_like(is_lesser)
        has_budgets = len(cluster.index(DisruptionBudgets)) > 0
        dear = cluster.index(BudgetsByKind).violating(self.rows, is_lesser) if has_budgets else victims.copy()
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
        """The parts of Candidate.cost as columns, but for the row, in whose order they stand."""
        victims, rows = self._victims, self.rows
        count = victims.sum(axis=0)
        # A row without victims is one where the pod fits by now: the diagnosis is older than the cluster.
        self._is_open: Mask = count > 0
        self._violations: Ints = (victims & self._dear).sum(axis=0)
        if not len(rows):
            self._costs: tuple[npt.NDArray[np.generic], ...] = ()
            return
        priorities = self._ranked.priorities[: len(victims), rows]
        total = (np.where(victims, priorities, -PRIORITY_OFFSET) + PRIORITY_OFFSET).sum(axis=0)
        first = victims.argmax(axis=0), np.arange(len(rows))
        start = self._ranked.starts[: len(victims), rows][first]
        self._costs = (self._violations, priorities[first], total, count, -start)
