"""Every node's pods as columns, the most important first: what preemption adds up for all nodes at once.

    slot   row 0          row 1          row 2
    0      db    1000     web   0        (nobody)        priorities, starts, amounts of a resource, kin
    1      web   0        (nobody)       (nobody)
    2      batch -10      (nobody)       (nobody)

The pods below some priority are the last ones of each column, so that one pass over the slots meets them in order of
importance. `NOBODY` in a slot has a priority that nothing is above.

`catch_up` rewrites the rows that changed; it costs nothing to a cluster where nobody preempts, and the first time it
costs all rows. Amounts are kept for the resources that were asked for. Pods that no selector can tell apart are `kin`,
so that a selector is asked about each kind once (`budgets_by_kind.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.amounts import PODS
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ids, Ints, Mask, Scalar
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.preemption.candidates import NOT_STARTED, importance

RowNumbers = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]
Kind = tuple[str, tuple[tuple[str, str], ...]]
"""Pods that no selector can tell apart: their namespace and labels."""

NOBODY = np.iinfo(np.int64).max
"""The priority in a slot without a pod: lower than no pod's."""
_UNKNOWN = -1
_SLOTS_STEP = 8
_LEAST_KINDS = 4096
"""So many kinds of pods are kept in any case; more, while there are as many pods."""


class RankedResidents:
    """The pods of all rows by importance: `cluster.index(RankedResidents)`. `catch_up` comes before any question."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen_at = -1
        self._starts_seen_at = -1
        self._lowest: int | None = None
        self.pods: list[list[PodInfo]] = []
        """By row. How they stand to a decision is kept up to date, not what they say of themselves otherwise."""
        self.priorities: Ints = np.full((0, cluster.capacity), NOBODY, dtype=np.int64)
        self.starts: Floats = np.zeros((0, cluster.capacity))
        self._amounts: dict[str, Ints] = {}
        self._kin: Ids = np.zeros((0, cluster.capacity), dtype=np.int32)
        self._kind_numbers: dict[Kind, int] = {}
        self.kinds: list[Kind] = []
        """Kinds of pods that were met, by number."""
        self.kinds_forgotten = 0
        """Moves when the numbers are given out anew."""

    def catch_up(self) -> None:
        """Rewrite the rows where pods came, went, or told when they started."""
        cluster = self._cluster
        if (self._seen_at, self._starts_seen_at) == (cluster.changes.tick, cluster.start_changes.tick):
            return
        self._lowest = None
        if self.priorities.shape[1] < cluster.capacity:
            self._reshape(len(self.priorities), cluster.capacity)
        size = cluster.size
        self.pods.extend([] for _ in range(size - len(self.pods)))
        touched = cluster.changes.version[:size] > self._seen_at
        touched |= cluster.start_changes.version[:size] > self._starts_seen_at
        for row in np.flatnonzero(touched).tolist():
            there, known = cluster.residents[row], self.pods[row]
            # Most rows that are touched between two preemptions were merely asked about.
            if len(there) != len(known) or any(there.get(pod.uid) is not pod for pod in known):
                self._write(row, there.values())
        self._seen_at, self._starts_seen_at = cluster.changes.tick, cluster.start_changes.tick

    @property
    def lowest(self) -> int:
        """The lowest priority of any pod; `NOBODY` where there is none."""
        if self._lowest is None:
            self._lowest = int(self.priorities.min(initial=NOBODY))
        return self._lowest

    def amounts(self, resource: str) -> Ints:
        """What each pod takes of a resource, by slot and row; of "pods" it is itself one."""
        found = self._amounts.get(resource)
        if found is None:
            found = self._amounts[resource] = np.zeros(self.priorities.shape, dtype=np.int64)
            for row, pods in enumerate(self.pods):
                if pods:
                    found[: len(pods), row] = _amounts_of(pods, resource)
        return found

    def depth(self, rows: RowNumbers) -> int:
        """How many slots it takes to see all pods of these rows."""
        occupied = (self.priorities[:, rows] != NOBODY).any(axis=1)
        return int(np.count_nonzero(occupied))

    def kin(self, rows: RowNumbers, asked: Mask) -> Ids:
        """The numbers in `kinds` of pods by slot and place in `rows`, where they are asked for; elsewhere anything."""
        if len(self.kinds) > max(_LEAST_KINDS, sum(map(len, self.pods))):
            self.kinds, self._kind_numbers = [], {}
            self._kin[:] = _UNKNOWN
            self.kinds_forgotten += 1
        found = self._kin[: len(asked), rows]
        slots, places = np.nonzero(asked & (found == _UNKNOWN))
        if len(slots):
            unknown = zip(slots.tolist(), rows[places].tolist(), strict=True)
            numbers = [self._number_of(self.pods[row][slot]) for slot, row in unknown]
            found[slots, places] = self._kin[slots, rows[places]] = numbers
        return np.maximum(found, 0)

    def _number_of(self, pod: PodInfo) -> int:
        kind = (pod.namespace, tuple(pod.labels.items()))
        number = self._kind_numbers.get(kind)
        if number is None:
            number = self._kind_numbers[kind] = len(self.kinds)
            self.kinds.append(kind)
        return number

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write(self, row: int, there: Iterable[PodInfo]) -> None:
        ranked = sorted([(*importance(pod), pod) for pod in there])
        pods = [each[-1] for each in ranked]
        if len(pods) > len(self.priorities):
            self._reshape(-(-len(pods) // _SLOTS_STEP) * _SLOTS_STEP, self.priorities.shape[1])
        end, known = len(pods), len(self.pods[row])
        self.pods[row] = pods
        self.priorities[end:known, row] = NOBODY
        self.priorities[:end, row] = [-each[0] for each in ranked]
        self.starts[:end, row] = [each[1] for each in ranked]
        self._kin[:end, row] = _UNKNOWN
        for resource, amounts in self._amounts.items():
            amounts[:end, row] = _amounts_of(pods, resource)
            amounts[end:known, row] = 0

    def _reshape(self, slots: int, capacity: int) -> None:
        self.priorities = _wider(self.priorities, slots, capacity, NOBODY)
        self.starts = _wider(self.starts, slots, capacity, NOT_STARTED)
        self._kin = _wider(self._kin, slots, capacity, _UNKNOWN)
        self._amounts = {name: _wider(each, slots, capacity, 0) for name, each in self._amounts.items()}


def _wider(array: npt.NDArray[Scalar], slots: int, capacity: int, blank: float) -> npt.NDArray[Scalar]:
    """The array with more slots and more rows, the new ones blank."""
    wider = np.full((slots, capacity), blank, dtype=array.dtype)
    wider[: array.shape[0], : array.shape[1]] = array
    return wider


def _amounts_of(pods: Sequence[PodInfo], resource: str) -> list[int]:
    return [1] * len(pods) if resource == PODS else [pod.requests.get(resource, 0) for pod in pods]
