"""Every node's pods as columns, the most important first: what preemption adds up for all nodes at once.

    slot   row 0          row 1          row 2
    0      db    1000     web   0        (nobody)        priorities, starts, amounts of a resource, kin
    1      web   0        (nobody)       (nobody)
    2      batch -10      (nobody)       (nobody)

`ResidentColumns` has every pod that is on a node as a line of numbers, written when it comes or goes; `catch_up` puts
the rows that changed in order. Amounts are kept for the resources that were asked for. Pods that no selector can tell
apart are `kin`.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ids, Ints, Mask, Scalar, grown
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PODS, PodInfo
from tonnage.scheduling.preemption.disruption_budgets import DisruptionBudgets

Floats = npt.NDArray[np.float64]
Kind = tuple[str, tuple[tuple[str, str], ...]]
"""Pods that no selector can tell apart: their namespace and labels."""

NOBODY: Final = int(np.iinfo(np.int64).max)
"""The priority where there is no pod: lower than no pod's."""
NOWHERE = -1
"""The row of a number that no pod has."""
UNKNOWN = -1
"""The kind of a pod that nobody has asked about."""
_FIRST_PODS = 64
_LEAST_KINDS = 4096
"""So many kinds of pods are kept in any case; more, while there are half as many pods."""


NOT_STARTED = math.inf
"""The start of a pod that has not said when it started: later than all others. (Upstream takes the time of asking.)"""


def started_at(pod: PodInfo) -> float:
    """When a pod started, in seconds since 1970."""
    start = pod.pod.status.start_time
    return NOT_STARTED if start is None else start.timestamp()


class ResidentColumns:
    """The pods on the nodes of one cluster, by number. An observer of it from the beginning."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.numbers: dict[str, int] = {}
        """By uid."""
        self.pods: list[PodInfo | None] = []
        """By number. How they stand to a decision is kept up to date, not what they say of themselves otherwise."""
        self.rows: Ids = np.full(_FIRST_PODS, NOWHERE, dtype=np.int32)
        self.priorities: Ints = np.zeros(_FIRST_PODS, dtype=np.int64)
        self.starts: Floats = np.zeros(_FIRST_PODS)
        self.kin: Ids = np.full(_FIRST_PODS, UNKNOWN, dtype=np.int32)
        """The kind of a pod by its number in `kinds`, where somebody has asked."""
        self._amounts: dict[str, Ints] = {name: np.zeros(_FIRST_PODS, dtype=np.int64) for name in (CPU, MEMORY)}
        self._by_priority: Counter[int] = Counter()
        self._lowest: int | None = None
        self._free: list[int] = []
        self._touched: set[int] = set()
        self._starts_seen_at = cluster.start_changes.tick
        self.kinds: list[Kind] = []
        self._kind_numbers: dict[Kind, int] = {}
        self.kinds_forgotten = 0
        """Moves when the numbers of kinds are given out anew."""
        cluster.observe(self)

    # -- observing ----------------------------------------------------------------------------------------------------

    def resident_added(self, info: PodInfo, row: int) -> None:
        if self._free:
            number = self._free.pop()
            self.pods[number] = info
        else:
            number = len(self.pods)
            self.pods.append(info)
            if number == len(self.rows):
                self._grow(2 * number)
        self.numbers[info.uid] = number
        self.rows[number] = row
        self.priorities[number] = info.priority
        self._by_priority[info.priority] += 1
        if self._lowest is not None:
            self._lowest = min(self._lowest, info.priority)
        self.starts[number] = started_at(info)
        self.kin[number] = self._kind_of(info) if self._asks_kin() else UNKNOWN
        for name, amounts in self._amounts.items():
            amounts[number] = info.requests.get(name, 0)
        self._touched.add(row)

    def resident_removed(self, info: PodInfo, row: int) -> None:
        number = self.numbers.pop(info.uid)
        priority = self.priorities.item(number)
        self._by_priority[priority] -= 1
        if not self._by_priority[priority]:
            del self._by_priority[priority]
            self._lowest = None
        self.pods[number] = None
        self.rows[number] = NOWHERE
        self._free.append(number)
        self._touched.add(row)

    def grown(self, capacity: int) -> None:
        """Nothing here is as long as the table of nodes."""

    def _grow(self, pods: int) -> None:
        self.rows, self.kin = grown(self.rows, pods), grown(self.kin, pods)
        self.rows[pods // 2 :] = NOWHERE
        self.priorities, self.starts = grown(self.priorities, pods), grown(self.starts, pods)
        self._amounts = {name: grown(amounts, pods) for name, amounts in self._amounts.items()}

    # -- asking -------------------------------------------------------------------------------------------------------

    @property
    def lowest(self) -> int:
        """The lowest priority of any pod; `NOBODY` where there is none."""
        if self._lowest is None:
            self._lowest = min(self._by_priority, default=NOBODY)
        return self._lowest

    def take_touched(self) -> npt.NDArray[np.intp]:
        """The rows where pods came, went, or told when they started since this was last asked."""
        self._read_starts()
        found = np.array(sorted(self._touched), dtype=np.intp)
        self._touched.clear()
        return found

    def _read_starts(self) -> None:
        """Pods tell when they started without coming or going: it is noted for their row, and no observer is told."""
        cluster = self._cluster
        changes, seen_at = cluster.start_changes, self._starts_seen_at
        if changes.tick == seen_at:
            return
        for row in np.flatnonzero(changes.version[: cluster.size] > seen_at).tolist():
            for uid, info in cluster.residents[row].items():
                self.starts[self.numbers[uid]] = started_at(info)
            self._touched.add(row)
        self._starts_seen_at = changes.tick

    def on_rows(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """The numbers of the pods on these rows."""
        is_asked = np.zeros(self._cluster.capacity + 1, dtype=np.bool_)  # the last place is that of NOWHERE
        is_asked[rows] = True
        return np.flatnonzero(is_asked[self.rows[: len(self.pods)]])

    def amounts(self, resource: str) -> Ints:
        """What each pod takes of a resource, by number; of "pods" it is itself one."""
        if resource == PODS:
            return np.ones(len(self.rows), dtype=np.int64)
        found = self._amounts.get(resource)
        if found is None:
            found = self._amounts[resource] = np.zeros(len(self.rows), dtype=np.int64)
            for number, pod in enumerate(self.pods):
                if pod is not None:
                    found[number] = pod.requests.get(resource, 0)
        return found

    def _asks_kin(self) -> bool:
        """Where there are budgets, preemption asks for the kinds of all pods: better one by one, as they come."""
        cluster = self._cluster
        if not cluster.has_index(DisruptionBudgets) or not len(cluster.index(DisruptionBudgets)):
            return False
        self._forget_kinds()
        return True

    def _forget_kinds(self) -> None:
        """Kinds of pods that are gone do not stay for ever."""
        if len(self.kinds) > max(_LEAST_KINDS, 2 * len(self.numbers)):
            self.kinds, self._kind_numbers = [], {}
            self.kin[:] = UNKNOWN
            self.kinds_forgotten += 1

    def read_kin(self, numbers: npt.NDArray[np.integer]) -> None:
        """Find out the kinds of some pods."""
        self._forget_kinds()
        for number in numbers[self.kin[numbers] == UNKNOWN].tolist():
            pod = self.pods[number]
            if pod is not None:
                self.kin[number] = self._kind_of(pod)

    def _kind_of(self, pod: PodInfo) -> int:
        kind = (pod.namespace, tuple(pod.labels.items()))
        number = self._kind_numbers.get(kind)
        if number is None:
            number = self._kind_numbers[kind] = len(self.kinds)
            self.kinds.append(kind)
        return number


RowNumbers = npt.NDArray[np.intp]

_NO_NUMBER = -1
_SLOTS_STEP = 8
_PRIORITY_BITS = 33


class RankedResidents:
    """The pods of all rows by importance. `catch_up` comes before any question, but for `lowest`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._columns = ResidentColumns(cluster)
        self.priorities: Ints = np.full((0, cluster.capacity), NOBODY, dtype=np.int64)
        self.starts: Floats = np.zeros((0, cluster.capacity))
        self._numbers: Ids = np.zeros((0, cluster.capacity), dtype=np.int32)
        """The pods by their numbers in the columns."""
        self._amounts: dict[str, Ints] = {}

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of pods that were met, by number."""
        return self._columns.kinds

    @property
    def kinds_forgotten(self) -> int:
        """Moves when the numbers are given out anew."""
        return self._columns.kinds_forgotten

    def catch_up(self) -> None:
        """Put the rows in order where pods came, went, or told when they started."""
        columns, cluster = self._columns, self._cluster
        if self.priorities.shape[1] < cluster.capacity:
            self._reshape(len(self.priorities), cluster.capacity)
        touched = columns.take_touched()
        if not len(touched):
            return
        numbers = self._by_importance(columns.on_rows(touched))
        rows = columns.rows[numbers]
        slots = np.arange(len(rows)) - np.searchsorted(rows, rows)  # how many of its row come before
        most = int(slots.max(initial=-1)) + 1
        if most > len(self.priorities):
            self._reshape(-(-most // _SLOTS_STEP) * _SLOTS_STEP, self.priorities.shape[1])
        self.priorities[:, touched] = NOBODY
        self.priorities[slots, rows] = columns.priorities[numbers]
        self.starts[slots, rows] = columns.starts[numbers]
        self._numbers[:, touched] = _NO_NUMBER
        self._numbers[slots, rows] = numbers
        for resource, amounts in self._amounts.items():
            amounts[:, touched] = 0
            amounts[slots, rows] = columns.amounts(resource)[numbers]

    def _by_importance(self, numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Pods by row, and those of a row by `candidates.importance`."""
        columns = self._columns
        # One key for the row and, within it, the priority, which is 32 bits: each key costs a sort.
        place = (columns.rows[numbers].astype(np.int64) << _PRIORITY_BITS) - columns.priorities[numbers]
        starts = columns.starts[numbers]
        order = np.lexsort((starts, place))
        numbers, place, starts = numbers[order], place[order], starts[order]
        is_other = (place[1:] != place[:-1]) | (starts[1:] != starts[:-1])
        # Equals go by name, in plain text: few pods of a node began within the same second.
        ends = np.concatenate(([0], np.flatnonzero(is_other) + 1, [len(numbers)]))
        several = np.flatnonzero(np.diff(ends) > 1)
        for start, end in zip(ends[several].tolist(), ends[several + 1].tolist(), strict=True):
            alike = [
                (pod.key, pod.uid, number) for number in numbers[start:end].tolist() if (pod := columns.pods[number])
            ]
            numbers[start:end] = [number for _, _, number in sorted(alike)]
        return numbers

    @property
    def lowest(self) -> int:
        """The lowest priority of any pod, as it is now, caught up or not; `NOBODY` where there is none."""
        return self._columns.lowest

    def amounts(self, resource: str) -> Ints:
        """What each pod takes of a resource, by slot and row; of "pods" it is itself one."""
        found = self._amounts.get(resource)
        if found is None:
            of_pods = self._columns.amounts(resource)
            found = self._amounts[resource] = np.where(self._numbers >= 0, of_pods[self._numbers], 0)
        return found

    def pod_at(self, slot: int, row: int) -> PodInfo:
        """The pod in a slot that has one, of a row whose pods have not been thought away since `catch_up`."""
        pod = self._columns.pods[self._numbers.item(slot, row)]
        if pod is None:
            raise LookupError(f"no pod is in slot {slot} of row {row}")
        return pod

    def depth(self, rows: RowNumbers) -> int:
        """How many slots it takes to see all pods of these rows."""
        occupied = (self.priorities[:, rows] != NOBODY).any(axis=1)
        return int(np.count_nonzero(occupied))

    def kin(self, rows: RowNumbers, asked: Mask) -> Ids:
        """The numbers in `kinds` of pods by slot and place in `rows`, where they are asked for; elsewhere anything."""
        numbers = self._numbers[: len(asked), rows]
        self._columns.read_kin(numbers[asked])
        return np.maximum(self._columns.kin[numbers], 0)

    def _reshape(self, slots: int, capacity: int) -> None:
        self.priorities = _wider(self.priorities, slots, capacity, NOBODY)
        self.starts = _wider(self.starts, slots, capacity, NOT_STARTED)
        self._numbers = _wider(self._numbers, slots, capacity, _NO_NUMBER)
        self._amounts = {name: _wider(each, slots, capacity, 0) for name, each in self._amounts.items()}


def _wider(array: npt.NDArray[Scalar], slots: int, capacity: int, blank: float) -> npt.NDArray[Scalar]:
    """The array with more slots and more rows, the new ones blank."""
    wider = np.full((slots, capacity), blank, dtype=array.dtype)
    wider[: array.shape[0], : array.shape[1]] = array
    return wider
