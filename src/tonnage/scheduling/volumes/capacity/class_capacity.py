"""The capacity objects of one class laid out over nodes, and the question they exist for: where does a group fit?

What an object says is judged once for all nodes it reaches (`reading.py`); the answers are laid out over rows
by layers, one of which holds for each row the number of an object that reaches it. `index.py` shows a picture,
and tells of objects and nodes that change.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Set

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows, row_count
from tonnage.scheduling.volumes.capacity.pools import Room
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, Numbers, Question, Reading
from tonnage.scheduling.volumes.packing import UNLIMITED, Grade, Grades, PoolPolicy, SearchBudget, Sizes

_FIRST_OBJECTS = 16
_FEW_ROWS = 64
"""An object of so many rows is entered row by row; past that the layers are made anew."""
NOTHING = -1
"""In a layer: no object reaches the row. As a number it means the last place of a reading, which is kept blank."""


def identity(capacity: CSIStorageCapacity) -> str:
    """What holds on an object are kept by: its uid; its key for one from a manifest, which has none."""
    return capacity.metadata.uid or capacity.key


class CapacityEntry:
    """One object, its place in its class's tables, and the rows it reaches."""

    __slots__ = ("capacity", "class_name", "key", "number", "rows")

    def __init__(self, capacity: CSIStorageCapacity, rows: npt.NDArray[np.intp]) -> None:
        self.capacity = capacity
        self.class_name = capacity.storage_class_name
        self.key: Key = capacity.key
        self.number = NOTHING
        self.rows = rows


class ClassCapacity:
    """The objects of one class. A group is asked about by its sizes, descending, as one profile's policy reads them;
    what is held for the claims of `own` is not in their way."""

    def __init__(
        self,
        cluster: Cluster,
        search: SearchBudget = UNLIMITED,
        pool_policy: PoolPolicy = PoolPolicy.UNKNOWN,
    ) -> None:
        self._cluster = cluster
        self._search = search
        self.pool_policy = pool_policy
        """Which pool of an object the driver takes for a volume."""
        self.entries: list[CapacityEntry] = []
        self._free: list[int] = []
        self._readings: dict[CapacityPolicy, Reading] = {}
        self.layers: list[Numbers] = []
        self._width = 0
        """How many rows all layers have, at least: those that are made later have as many as there are then."""

    # -- asking about rows --------------------------------------------------------------------------------------------

    def fits(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, own: Collection[Key] = ()) -> Mask:
        """On which of these rows is there one object that holds all of a group's claims?"""
        return np.not_equal(self.choices(policy, sizes, rows, own), NOTHING)

    def fits_unheld(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows) -> Mask:
        """On which of these rows a group would fit if nothing were held of any object."""
        return np.not_equal(self.choices(policy, sizes, rows, question=Question.FITS_UNHELD), NOTHING)

    def choices(
        self,
        policy: CapacityPolicy,
        sizes: Sizes,
        rows: Rows,
        own: Collection[Key] = (),
        *,
        question: Question = Question.FITS,
        is_scored: bool = False,
    ) -> Numbers:
        """By row, the number of the object that would hold a group: the first of those that do; `NOTHING` if none.

        With `is_scored` the one that is scored: by `policy.scores_best` that with most free bytes.
        """
        reading = self._reading(policy)
        found: Numbers = np.full(row_count(rows), NOTHING, dtype=np.intp)
        for level, layer in enumerate(self.layers):
            numbers = layer[rows]
            is_better = reading.says(question, sizes, numbers, own) > Grade.NONE
            if level and is_scored and policy.scores_best:
                free_bytes = reading.scored_by_object(own)
                is_better &= (found == NOTHING) | (free_bytes[numbers] > free_bytes[found])
            elif level:
                is_better &= found == NOTHING
            found = np.where(is_better, numbers, found)
        return found

    def scored_bytes(self, policy: CapacityPolicy, numbers: Numbers, own: Collection[Key] = ()) -> Ints:
        """The free bytes that scores are made of, of each of these objects; anything for `NOTHING`."""
        return self._reading(policy).scored_by_object(own)[numbers]

    def grades(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, *, with_order: bool) -> Grades:
        """How sure a group's fit is on each row, of the object that would hold it there; NONE where none would.

        Without `with_order`, ORDERED is told as POSSIBLE.
        """
        question = Question.GRADE_WITH_ORDER if with_order else Question.GRADE
        numbers = self.layers[0][rows] if len(self.layers) == 1 else self.choices(policy, sizes, rows)
        return self._reading(policy).says(question, sizes, numbers)

    # -- asking about one row or object -------------------------------------------------------------------------------

    def numbers_at(self, row: int) -> list[int]:
        """The objects that reach a row, in order; none for one that came after the layers were laid out."""
        found = []
        for layer in self.layers:
            if row >= len(layer) or (number := layer.item(row)) == NOTHING:
                break
            found.append(number)
        return found

    def choice_at(self, policy: CapacityPolicy, sizes: Sizes, row: int, own: Collection[Key] = ()) -> int:
        """`choices` of one row, in plain numbers."""
        for number in self.numbers_at(row):
            if self.fits_at(policy, sizes, number, own):
                return number
        return NOTHING

    def fits_at(self, policy: CapacityPolicy, sizes: Sizes, number: int, own: Collection[Key] = ()) -> bool:
        """Whether one object holds a group."""
        return self._reading(policy).says_one(Question.FITS, sizes, number, own) > Grade.NONE

    def scored_at(self, policy: CapacityPolicy, sizes: Sizes, row: int) -> int | None:
        """The free bytes that a group is scored by on a row, in plain numbers; None where it does not fit."""
        scored = self._reading(policy).scored
        found = [scored.item(each) for each in self.numbers_at(row) if self.fits_at(policy, sizes, each)]
        if not found:
            return None
        return max(found) if policy.scores_best else found[0]

    def grade_of(self, policy: CapacityPolicy, sizes: Sizes, number: int, own: Collection[Key] = ()) -> Grade:
        return self._reading(policy).says_one(Question.GRADE_WITH_ORDER, sizes, number, own)

    def promised_beside(self, policy: CapacityPolicy, number: int, own: Collection[Key]) -> Sizes:
        """What is promised of an object to other claims than these, the largest first."""
        return self._reading(policy).held_beside(number, own) or ()

    def room_of(self, policy: CapacityPolicy, number: int) -> Room:
        return self._reading(policy).rooms[number]

    # -- asking about all of them -------------------------------------------------------------------------------------

    def has_holds(self, policy: CapacityPolicy) -> bool:
        """Something is held of some object of this class."""
        return bool(self._reading(policy).held)

    def has_promises(self, policy: CapacityPolicy) -> bool:
        """Bytes are promised of some object of this class."""
        return any(self._reading(policy).held.values())

    def held_numbers(self, policy: CapacityPolicy, sizes: Sizes, rows: npt.NDArray[np.intp]) -> Numbers:
        """The objects that reach these rows and would hold a group, and of which something is held; each once."""
        reading = self._reading(policy)
        at_rows = [layer[rows] for layer in self.layers] or [np.zeros(0, dtype=np.intp)]
        numbers: Numbers = np.unique(np.concatenate(at_rows))
        is_wanted = reading.is_held(numbers) & (reading.says(Question.FITS_UNHELD, sizes, numbers) > Grade.NONE)
        return numbers[is_wanted]

    def leaves_choices(self, policy: CapacityPolicy) -> bool:
        """Whether some object has several pools, or had. With one pool each there is nothing for a driver to choose:
        what fits beside what is promised fits for sure."""
        return bool(self._reading(policy).pools.shape[1] > 1)

    def live(self) -> list[CapacityEntry]:
        """The objects that are there, in no order."""
        gone = set(self._free)
        return [entry for number, entry in enumerate(self.entries) if number not in gone]

    def _reading(self, policy: CapacityPolicy) -> Reading:
        reading = self._readings.get(policy)
        if reading is None:
            objects = max(_FIRST_OBJECTS, len(self.entries) + 1)  # the last place is that of `NOTHING`: nobody's
            reading = self._readings[policy] = Reading(policy, objects, self._search)
            reading.choose_by(self.pool_policy)
            for entry in self.live():
                reading.write(entry.number, entry.capacity)
        if self._width != self._cluster.capacity:
            self._width = self._cluster.capacity
            self.layers = [each if len(each) >= self._width else self._widened(each) for each in self.layers]
        return reading

    def _widened(self, layer: Numbers) -> Numbers:
        wider = np.full(self._cluster.capacity, NOTHING, dtype=np.intp)
        wider[: len(layer)] = layer
        return wider

    # -- changing -----------------------------------------------------------------------------------------------------

    def choose_by(self, pool_policy: PoolPolicy) -> None:
        """The driver picks pools like this from now on."""
        self.pool_policy = pool_policy
        for reading in self._readings.values():
            reading.choose_by(pool_policy)

    def add(self, entry: CapacityEntry) -> None:
        self.put_in(entry)
        if len(entry.rows) > _FEW_ROWS:
            self.rebuild()
            return
        for row in entry.rows.tolist():
            self._enter(row, entry)

    def put_in(self, entry: CapacityEntry) -> None:
        """Give an object its number and read it; where it is reached from is laid out by whoever calls."""
        if self._free:
            entry.number = self._free.pop()
            self.entries[entry.number] = entry
        else:
            entry.number = len(self.entries)
            self.entries.append(entry)
        for reading in self._readings.values():
            if entry.number + 1 >= len(reading.rooms):
                reading.grow(2 * len(reading.rooms))
            reading.write(entry.number, entry.capacity)

    def rewrite(self, entry: CapacityEntry) -> None:
        """An object says something new about its room."""
        for reading in self._readings.values():
            reading.write(entry.number, entry.capacity)

    def held_differs(self, entry: CapacityEntry) -> None:
        for reading in self._readings.values():
            reading.write_holds(entry.number)

    def take_out(self, entry: CapacityEntry) -> None:
        """Remove an object from every reading. Undoes `put_in`."""
        self._free.append(entry.number)
        for reading in self._readings.values():
            reading.write(entry.number, None)

    def drop(self, entry: CapacityEntry) -> None:
        self.take_out(entry)
        if len(entry.rows) > _FEW_ROWS:
            self.rebuild()
            return
        for row in entry.rows.tolist():
            self._write_row(row, [number for number in self.numbers_at(row) if number != entry.number])

    def set_row(self, row: int, reaching: Set[CapacityEntry]) -> None:
        """A node came, went, or has other labels: exactly these objects (of any class) reach it now."""
        before = [self.entries[number] for number in self.numbers_at(row)]
        for entry in before:
            if entry not in reaching:
                entry.rows = entry.rows[entry.rows != row]
        mine = [entry for entry in reaching if entry.number < len(self.entries) and self.entries[entry.number] is entry]
        for entry in mine:
            if entry not in before:
                entry.rows = np.sort(np.append(entry.rows, row))
        if before or mine:
            self._write_row(row, self._in_order(mine))

    def rebuild(self) -> None:
        """Lay all objects out over their rows anew."""
        live = sorted(self.live(), key=lambda each: each.key)
        self.layers = []
        if not live:
            return
        rows = np.concatenate([entry.rows for entry in live])
        numbers = np.repeat(np.array([entry.number for entry in live]), [len(entry.rows) for entry in live])
        order = np.argsort(rows, kind="stable")  # by row, and within a row by key
        rows, numbers = rows[order], numbers[order]
        starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]]) if len(rows) else np.zeros(0, dtype=np.intp)
        depth = np.arange(len(rows)) - np.repeat(starts, np.diff(np.r_[starts, len(rows)]))
        for level in range(int(depth.max(initial=-1)) + 1):
            layer = np.full(self._cluster.capacity, NOTHING, dtype=np.intp)
            layer[rows[depth == level]] = numbers[depth == level]
            self.layers.append(layer)

    def _enter(self, row: int, entry: CapacityEntry) -> None:
        there = [self.entries[number] for number in self.numbers_at(row)]
        insort(there, entry, key=lambda each: each.key)
        self._write_row(row, [each.number for each in there])

    def _in_order(self, entries: Collection[CapacityEntry]) -> list[int]:
        return [entry.number for entry in sorted(entries, key=lambda each: each.key)]

    def _write_row(self, row: int, numbers: list[int]) -> None:
        while len(self.layers) < len(numbers):
            self.layers.append(np.full(self._cluster.capacity, NOTHING, dtype=np.intp))
        for level, layer in enumerate(self.layers):
            if row >= len(layer):
                layer = self.layers[level] = self._widened(layer)
            layer[row] = numbers[level] if level < len(numbers) else NOTHING
