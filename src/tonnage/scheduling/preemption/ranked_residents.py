"""Every node's pods as columns, the most important first: what preemption adds up for all nodes at once.

    slot   row 0          row 1          row 2
    0      db    1000     web   0        (nobody)        priorities, starts, amounts of a resource, kin
    1      web   0        (nobody)       (nobody)
    2      batch -10      (nobody)       (nobody)

The pods below some priority are the last ones of each column, so that one pass over the slots meets them in order of
importance. `NOBODY` in a slot has a priority that nothing is above.

What pods say lies in columns by pod already (`resident_columns.py`); `catch_up` puts the rows that changed in order,
all of them at once. Amounts are kept for the resources that were asked for. Pods that no selector can tell apart are
`kin`, so that a selector is asked about each kind once (`budgets_by_kind.py`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ids, Ints, Mask, Scalar
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.preemption.candidates import NOT_STARTED
from tonnage.scheduling.preemption.resident_columns import NOBODY, Floats, Kind, ResidentColumns

RowNumbers = npt.NDArray[np.intp]

_NO_NUMBER = -1
_SLOTS_STEP = 8
_PRIORITY_BITS = 33


class RankedResidents:
    """The pods of all rows by importance: `cluster.index(RankedResidents)`.

    `catch_up` comes before any question, but for `lowest`, which is always true.
    """

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
