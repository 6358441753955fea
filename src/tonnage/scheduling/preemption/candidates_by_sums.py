"""The victims on many nodes at once, for nodes where only sums decide.

On a row that every filter but NodeResourcesFit passes, whichever pods go (`passes_with_fewer_pods`), victims are a
matter of arithmetic. For every resource r that the pod requests:

    room[r] = allocatable[r] - requested[r] - expected[r] - asked[r]          negative where the row is too full
    all pods of lower priority go:   room[r] += their amounts; where it is still negative, nothing helps
    one comes back:                  if room[r] >= its amount for every r, room[r] -= that amount; else it is a victim

A host port that the pod wants is a resource without room: a pod that has it does not come back.
Pods that would violate a budget come back first, in their own pass. The result is the same as that of `victims.py`;
`violating` is `DisruptionBudgets.violated_by` with arrays, by kind of pods (`ranked_residents.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ids, Ints, Mask
from tonnage.scheduling.cluster.pod_info import PODS, PodInfo
from tonnage.scheduling.decision.nominated_room import SumsAsked
from tonnage.scheduling.preemption.disruption_budgets import DisruptionBudgets
from tonnage.scheduling.preemption.ranked_residents import RankedResidents, RowNumbers
from tonnage.scheduling.preemption.victims import NO_VICTIMS, PRIORITY_OFFSET, Candidate

Places = npt.NDArray[np.intp]


def violating(cluster: Cluster, pods: Ids, going: Mask) -> Mask:
    """A mask of the `going` pods, by slot and place: True if the pod's going would violate a budget. The pods of a row
    use budgets up in order of their slots; rows are independent."""
    ranked, budgets = cluster.index(RankedResidents), cluster.index(DisruptionBudgets)
    found, kinds = np.zeros_like(going), ranked.kinds[pods]
    numbers: list[int] = []  # of the budgets that mean the first kind, and the next, …
    keys: dict[Key, int] = {}
    starts, counts = np.zeros((2, len(ranked.known_kinds)), dtype=np.intp)
    for kind in np.flatnonzero(np.bincount(kinds[going])).tolist():
        meaning = budgets.meaning(ranked.known_kinds.things[kind])
        starts[kind], counts[kind] = len(numbers), len(meaning)
        numbers += [keys.setdefault(key, len(keys)) for key in meaning]
    # By place first, so that the pods of a row come in their order.
    places, slots = np.nonzero((going & (counts[kinds] > 0)).T)
    if not len(places):
        return found
    kind_of_pod = kinds[slots, places]
    of_pod = np.repeat(np.arange(len(places)), counts[kind_of_pod])
    nth = np.arange(len(of_pod)) - np.repeat(np.cumsum(counts[kind_of_pod]) - counts[kind_of_pod], counts[kind_of_pod])
    budget = np.array(numbers)[starts[kind_of_pod][of_pod] + nth]
    counted = np.ones(len(budget), dtype=np.bool_)
    for key, number in keys.items():
        disrupted = budgets[key].status.disrupted_pods  # the budget already counts them
        for pair in np.flatnonzero(budget == number).tolist() if disrupted else ():
            pod = ranked.pods[pods.item(slots[of_pod[pair]], places[of_pod[pair]])]
            counted[pair] = pod is None or pod.pod.name not in disrupted
    of_pod, budget = of_pod[counted], budget[counted]
    rank = _rank(places[of_pod] * len(keys) + budget)
    allowed = np.array([budgets[key].status.disruptions_allowed for key in keys])
    violated = of_pod[rank >= np.maximum(allowed, 0)[budget]]
    found[slots[violated], places[violated]] = True
    return found


def _rank(groups: Places) -> Places:
    """For each entry, how many earlier entries are of its group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    starts = np.flatnonzero(is_first)
    found = np.empty(len(groups), dtype=np.intp)
    found[order] = np.arange(len(ordered)) - starts[np.cumsum(is_first) - 1]
    return found


class CandidatesBySums:
    """The rows of `rows` where preemption helps, by sums. `refusals` counts the reasons of the others."""

    def __init__(
        self,
        cluster: Cluster,
        pod: PodInfo,
        sums: SumsAsked,
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
        rooms, amounts = self._with_all_gone(sums.amounts, rows, pods, is_lesser, expected)
        fits = np.ones(len(rows), dtype=np.bool_)
        reasons = sums.reasons
        for place, room in enumerate(rooms):
            is_short = room < 0
            self._refuse(reasons[min(place, len(reasons) - 1)], is_short)
            fits &= ~is_short
        if ports is not None:  # of which there is none left
            rooms, amounts = [*rooms, np.zeros(len(rows), dtype=np.int64)], [*amounts, ports]
        self.rows, self._pods = rows[fits], pods[:, fits]
        self._victims, self._dear = self._brought_back(
            [room[fits] for room in rooms], [each[:, fits] for each in amounts], is_lesser[:, fits]
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
        asked: Sequence[tuple[str, int]],
        rows: RowNumbers,
        pods: Ids,
        is_lesser: Mask,
        expected: Mapping[int, Sequence[PodInfo]],
    ) -> tuple[list[Ints], list[Ints]]:
        """By resource: the room of each row without pods of lower priority, and the amounts of these pods."""
        cluster, rooms, amounts = self._cluster, [], []
        visited = [(place, expected[row]) for place, row in enumerate(rows.tolist()) if row in expected]
        for resource, amount in asked:
            number = cluster.resource_id(resource)
            room, held = cluster.allocatable[number, rows], cluster.requested[number, rows]
            if cluster.counts_large:  # plain integers: sums may exceed 64 bits
                room, held = room.astype(object), self._exactly_held(resource, rows)
            room = room - held - amount
            for place, nominated in visited:
                room[place] -= sum(1 if resource == PODS else each.requests.get(resource, 0) for each in nominated)
            taken = self._ranked.amounts(resource)[pods] * is_lesser
            if cluster.counts_large:
                taken = taken.astype(object)
            rooms.append(room + taken.sum(axis=0))
            amounts.append(taken)
        return rooms, amounts

    def _exactly_held(self, resource: str, rows: RowNumbers) -> Ints:
        """The requests of the pods of each row, as plain integers."""
        residents = [self._cluster.residents[row].values() for row in rows.tolist()]
        if resource == PODS:
            return np.array([len(each) for each in residents], dtype=object)
        return np.array([sum(pod.requests.get(resource, 0) for pod in each) for each in residents], dtype=object)

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
