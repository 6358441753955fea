"""Columns: one array a fact, one entry a node, so that a question is asked of all nodes at once.

`LabelColumn` interns the values of one label key to small integers. A requirement is answered once for every distinct
value, as a small table, and then for every node by looking its value up there. 0 means the node has no such label.

`Interner` does the same for whole things (a node's set of taints): equal things, equal number.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.objects.requirements import Requirement

Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rows = slice | npt.NDArray[np.intp]
"""Which nodes are asked about: all of them as a slice, or some as an array of row numbers."""

T = TypeVar("T", bound=Hashable)


def grown(array: npt.NDArray[np.generic], capacity: int) -> npt.NDArray[np.generic]:
    """The array with room for `capacity` rows in its last axis, the new ones zero."""
    wider = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider


class Interner(Generic[T]):
    """Things to small integers, in order of first sight."""

    def __init__(self) -> None:
        self._ids: dict[T, int] = {}
        self.things: list[T] = []

    def id_of(self, thing: T) -> int:
        found = self._ids.get(thing)
        if found is None:
            found = self._ids[thing] = len(self.things)
            self.things.append(thing)
        return found

    def __len__(self) -> int:
        return len(self.things)


class LabelColumn:
    """The values of one label key over all nodes."""

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.zeros(capacity, dtype=np.int32)
        self._values: dict[str, int] = {}
        self.texts: list[str] = [""]  # by id; id 0 is absence
        self._numbers: Ints | None = None

    def id_of(self, value: str) -> int:
        """The id of a value; 0 when no node ever had it."""
        return self._values.get(value, 0)

    def set(self, row: int, value: str | None) -> None:
        if value is None:
            self.ids[row] = 0
            return
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = len(self.texts)
            self.texts.append(value)
            self._numbers = None
        self.ids[row] = found

    def table(self, requirement: Requirement) -> Mask:
        """For every id, does a node with that value meet the requirement? Mirrors labels.Requirement.Matches."""
        size = len(self.texts)
        match requirement.operator:
            case "In":
                answer = np.zeros(size, dtype=np.bool_)
                answer[[self.id_of(value) for value in requirement.values]] = True
                answer[0] = False
            case "NotIn":
                answer = np.ones(size, dtype=np.bool_)
                answer[[self.id_of(value) for value in requirement.values]] = False
                answer[0] = True  # a missing label is not among the values
            case "Exists":
                answer = np.ones(size, dtype=np.bool_)
                answer[0] = False
            case "DoesNotExist":
                answer = np.zeros(size, dtype=np.bool_)
                answer[0] = True
            case _:  # Gt, Lt, and whatever makes no sense, which matches nothing
                answer = np.fromiter((_compares(requirement, text) for text in self.texts), np.bool_, size)
                answer[0] = False
        return answer


def _compares(requirement: Requirement, text: str) -> bool:
    try:
        left, right = int(text), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if requirement.operator == "Gt" else requirement.operator == "Lt" and left < right


class LabelColumns:
    """All label keys of all nodes. A key gets its column when a node first has it."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: dict[str, LabelColumn] = {}

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for column in self._columns.values():
            column.ids = grown(column.ids, capacity)  # type: ignore[assignment]  # numpy's generic loses the dtype

    def get(self, key: str) -> LabelColumn | None:
        return self._columns.get(key)

    def column(self, key: str) -> LabelColumn:
        """The column of a key, made when there is none: its nodes then all lack the label."""
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = LabelColumn(self._capacity)
        return found

    def replace(self, row: int, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Write a row's labels, touching only the keys that changed; tells whether any did."""
        if before == after:
            return False
        for key in before.keys() - after.keys():
            self._columns[key].set(row, None)
        for key, value in after.items():
            if before.get(key) != value:
                self.column(key).set(row, value)
        return True

    def meets(self, requirement: Requirement, rows: Rows) -> Mask:
        """Which of these nodes meet a requirement on their labels."""
        column = self.column(requirement.key)
        if requirement.operator == "In" and len(requirement.values) == 1:
            wanted = column.id_of(requirement.values[0])
            return (column.ids[rows] == wanted) if wanted else np.zeros(column.ids[rows].shape, dtype=np.bool_)
        found: Mask = column.table(requirement)[column.ids[rows]]
        return found
