"""PodDisruptionBudgets against the pods of many rows at once: `DisruptionBudgets.violated_by` as arrays.

Each kind of pods (`ranked_residents.py`) has the numbers of the budgets that mean it, end to end in one list:

    kinds      app=web   app=db   app=batch            pods × their budgets = pairs; within a row and a budget, the pair
    budgets    [ 0 ]     [ 0 1 ]  [ ]                  that comes after as many as the budget allows violates it
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Mask
from tonnage.scheduling.preemption.disruption_budgets import DisruptionBudgets
from tonnage.scheduling.preemption.ranked_residents import RankedResidents, RowNumbers

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
        """If these pods went: which of them, by slot and place in `rows`, would find nothing left of a budget?

        The pods of a row use budgets up in order of their slots, and rows know nothing of one another: only one of
        them is going to be chosen.
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
