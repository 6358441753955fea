"""The capacity objects of one class laid out over nodes, and the question they exist for: where does a group fit?

What an object says is judged once for all nodes it reaches (`reading.py`); the answers are laid out over rows
by layers, one of which holds for each row the number of an object that reaches it. `index.py` shows a picture,
and tells of objects and nodes that change.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Set

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows, row_count
from tonnage.scheduling.volumes.capacity.pools import Room
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, HeldByOthers, Reading
from tonnage.scheduling.volumes.packing import UNLIMITED, Grade, Grades, PoolPolicy, SearchBudget, Sizes

_FIRST_OBJECTS = 16
_FEW_ROWS = 64
"""An object of so many rows is entered row by row; past that the layers are made anew."""
NOTHING = -1
"""In a layer: no object reaches the row. As a number it means the last place of a reading, which is kept blank."""

Numbers = npt.NDArray[np.intp]
"""Objects by their numbers in their class, `NOTHING` for none."""


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
    """The objects of one class."""

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

    @property
    def is_empty(self) -> bool:
        return len(self._free) == len(self.entries)

    # -- asking -------------------------------------------------------------------------------------------------------

    def fits(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, own: Collection[Key] = ()) -> Mask:
        """On which of these rows is there one object that holds all of a group's claims? `sizes` descend.

        What is held for the claims of `own` is not in their way.
        """
        reading = self._reading(policy)
        others = self._others(reading, own)
        count = row_count(rows)
        found: Mask = np.zeros(count, dtype=np.bool_)
        if count * 4 < len(self.entries):
            for layer in self.layers:
                numbers = layer[rows]
                asked, place = np.unique(numbers, return_inverse=True)
                found |= reading.fits(asked, sizes, others)[place] & (numbers != NOTHING)
            return found
        if self.layers:
            by_object = self._by_object(reading, sizes, others)
            found = by_object[self.layers[0][rows]]
            for layer in self.layers[1:]:
                found |= by_object[layer[rows]]
        return found

    def _by_object(self, reading: Reading, sizes: Sizes, others: HeldByOthers | None) -> Mask:
        """Which objects hold a group, by number; the last answer is that of `NOTHING`, which holds none."""
        if others is None:
            return reading.fitting(sizes, len(self.entries))
        found: Mask = np.zeros(len(self.entries) + 1, dtype=np.bool_)
        found[:-1] = reading.fits(slice(0, len(self.entries)), sizes, others)
        return found

    def fits_unheld(self, policy: CapacityPolicy, sizes: Sizes, rows: npt.NDArray[np.intp]) -> Mask:
        """On which of these rows a group would fit if nothing were held of any object."""
        reading = self._reading(policy)
        by_object: Mask = np.zeros(len(self.entries) + 1, dtype=np.bool_)
        by_object[:-1] = reading.fits_unheld(slice(0, len(self.entries)), sizes)
        found: Mask = np.zeros(len(rows), dtype=np.bool_)
        for layer in self.layers:
            found |= by_object[layer[rows]]
        return found

    def held_numbers(self, policy: CapacityPolicy, sizes: Sizes, rows: npt.NDArray[np.intp]) -> Numbers:
        """The objects that reach these rows and would hold a group, and of which something is held; each once."""
        reading = self._reading(policy)
        at_rows = [layer[rows] for layer in self.layers] or [np.zeros(0, dtype=np.intp)]
        numbers: Numbers = np.unique(np.concatenate(at_rows))
        numbers = numbers[numbers != NOTHING]
        return numbers[reading.is_held(numbers) & reading.fits_unheld(numbers, sizes)]

    def has_holds(self, policy: CapacityPolicy) -> bool:
        """Something is held of some object of this class."""
        return self._reading(policy).has_holds

    def choice_at(self, policy: CapacityPolicy, sizes: Sizes, row: int, own: Collection[Key] = ()) -> int:
        """The number of the object that would hold a group on a row: the first of those that do; `NOTHING` if none."""
        reading = self._reading(policy)
        others = self._others(reading, own)
        for layer in self.layers:
            number = layer.item(row)
            if number == NOTHING:
                break
            if reading.fits_one(number, sizes, others):
                return number
        return NOTHING

    def fits_at(self, policy: CapacityPolicy, sizes: Sizes, number: int, own: Collection[Key] = ()) -> bool:
        """Whether one object holds a group."""
        reading = self._reading(policy)
        return reading.fits_one(number, sizes, self._others(reading, own))

    def choices(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, own: Collection[Key] = ()) -> Numbers:
        """The same for many rows: the number of the object that would hold a group there."""
        found: Numbers = np.full(row_count(rows), NOTHING, dtype=np.intp)
        reading = self._reading(policy)
        others = self._others(reading, own)
        is_few = len(found) * 4 < len(self.entries)
        by_object = None if is_few or not self.layers else self._by_object(reading, sizes, others)
        for layer in reversed(self.layers):
            numbers = layer[rows]
            if by_object is not None:
                found = np.where(by_object[numbers], numbers, found)
            else:
                found = np.where((numbers != NOTHING) & reading.fits(numbers, sizes, others), numbers, found)
        return found

    def scores(
        self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, own: Collection[Key], value_of: Callable[[Ints], Ints]
    ) -> Ints:
        """By row, what `value_of` makes of the free bytes of the object that would hold a group; 0 where none would.

        Made once for each object, however many rows it reaches.
        """
        reading = self._reading(policy)
        others = self._others(reading, own)
        free_bytes = reading.scored_by_object(others)
        if row_count(rows) * 4 < len(self.entries):
            numbers = self.scored_choices(policy, sizes, rows, own)
            return np.where(numbers != NOTHING, value_of(free_bytes[numbers]), 0)
        values = np.zeros(len(self.entries) + 1, dtype=np.int64)  # the last is that of `NOTHING`
        values[:-1] = value_of(free_bytes[: len(self.entries)])
        if len(self.layers) != 1:
            return values[self.scored_choices(policy, sizes, rows, own)]
        values[~self._by_object(reading, sizes, others)] = 0
        return values[self.layers[0][rows]]

    def scored_choices(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, own: Collection[Key] = ()) -> Numbers:
        """By row, the object that is scored, of those that would hold a group: that with most free bytes, or the first.

        Of several with as much, the first by key.
        """
        if len(self.layers) < 2 or not policy.scores_best:
            return self.choices(policy, sizes, rows, own)
        reading = self._reading(policy)
        others = self._others(reading, own)
        free_bytes = reading.scored_by_object(others)
        found: Numbers = np.full(row_count(rows), NOTHING, dtype=np.intp)
        by_object = None if len(found) * 4 < len(self.entries) else self._by_object(reading, sizes, others)
        for layer in self.layers:
            numbers = layer[rows]
            if by_object is not None:
                fits = by_object[numbers]
            else:
                fits = (numbers != NOTHING) & reading.fits(numbers, sizes, others)
            is_better = fits & ((found == NOTHING) | (free_bytes[numbers] > free_bytes[found]))
            found = np.where(is_better, numbers, found)
        return found

    def scored_at(self, policy: CapacityPolicy, sizes: Sizes, row: int) -> int | None:
        """The free bytes that a group is scored by on a row, in plain numbers; None where it does not fit."""
        reading = self._reading(policy)
        found: int | None = None
        for layer in self.layers:
            number = layer.item(row)
            if number == NOTHING:
                break
            free_bytes = reading.scored.item(number)
            if (found is None or free_bytes > found) and reading.fits_one(number, sizes):
                found = free_bytes
                if not policy.scores_best:
                    break
        return found

    def scored_bytes(self, policy: CapacityPolicy, numbers: Numbers, own: Collection[Key] = ()) -> Ints:
        """The free bytes that scores are made of, of each of these objects; anything for `NOTHING`."""
        reading = self._reading(policy)
        return reading.scored_by_object(self._others(reading, own))[numbers]

    def grades(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, *, with_order: bool) -> Grades:
        """How sure a group's fit is on each row, of the object that would hold it there; NONE where none would.

        Without `with_order`, ORDERED is told as POSSIBLE.
        """
        numbers = self.layers[0][rows] if len(self.layers) == 1 else self.choices(policy, sizes, rows)
        return self._reading(policy).graded_of(numbers, sizes, len(self.entries), with_order=with_order)

    def grade_of(self, policy: CapacityPolicy, sizes: Sizes, number: int, own: Collection[Key] = ()) -> Grade:
        reading = self._reading(policy)
        return reading.grade_of(number, sizes, self._others(reading, own))

    def promised_beside(self, policy: CapacityPolicy, number: int, own: Collection[Key]) -> Sizes:
        """What is promised of an object to other claims than these, the largest first."""
        reading = self._reading(policy)
        promised = reading.promised.get(number, ())
        return policy.promised(self.entries[number].capacity, own) if promised and policy.promised else promised

    def has_promises(self, policy: CapacityPolicy) -> bool:
        return bool(self._reading(policy).promised)

    def leaves_choices(self, policy: CapacityPolicy) -> bool:
        """Whether some object has several pools, or had. With one pool each there is nothing for a driver to choose:
        what fits beside what is promised fits for sure."""
        return bool(self._reading(policy).pools.shape[1] > 1)

    def room_of(self, policy: CapacityPolicy, number: int) -> Room:
        return self._reading(policy).rooms[number]

    def has_number_at(self, row: int, number: int) -> bool:
        """Whether this object reaches a row."""
        return number in self.numbers_at(row)

    def numbers_at(self, row: int) -> list[int]:
        """The objects that reach a row, in order; none for one that came after the layers were laid out."""
        found = []
        for layer in self.layers:
            if row >= len(layer) or (number := layer.item(row)) == NOTHING:
                break
            found.append(number)
        return found

    def _others(self, reading: Reading, own: Collection[Key]) -> HeldByOthers | None:
        """What is held of objects but for these claims themselves; None: all that is."""
        promised, is_reserved = reading.policy.promised, reading.policy.is_reserved
        if not own or (promised is None and is_reserved is None):
            return None
        return HeldByOthers(
            lambda number: promised(self.entries[number].capacity, own) if promised is not None else (),
            lambda number: is_reserved is not None and is_reserved(self.entries[number].capacity, own),
        )

    def _reading(self, policy: CapacityPolicy) -> Reading:
        reading = self._readings.get(policy)
        if reading is None:
            objects = max(_FIRST_OBJECTS, len(self.entries) + 1)  # the last place is that of `NOTHING`: nobody's
            reading = self._readings[policy] = Reading(policy, objects, self._search)
            reading.choose_by(self.pool_policy)
            gone = set(self._free)
            for number, entry in enumerate(self.entries):
                reading.write(number, None if number in gone else entry.capacity)
        if self._width != self._cluster.capacity:
            self._width = self._cluster.capacity
            self.layers = [each if len(each) >= self._width else self._widened(each) for each in self.layers]
        return reading

    def _widened(self, layer: Numbers) -> Numbers:
        wider = np.full(self._cluster.capacity, NOTHING, dtype=np.intp)
        wider[: len(layer)] = layer
        return wider

    def live(self) -> list[CapacityEntry]:
        """The objects that are there, in no order."""
        gone = set(self._free)
        return [entry for number, entry in enumerate(self.entries) if number not in gone]

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
            reading.write_holds(entry.number, entry.capacity)

    def take_out(self, entry: CapacityEntry) -> None:
        """The other way round."""
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
