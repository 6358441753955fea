"""The capacity objects of one class as columns, and the question they exist for: where does a group of claims fit?

One row of a table is one object: its pools in bytes, largest first, and how large a claim may be. How the figures are
read depends on the profile (`legacyPools`, the gate), and so does what is held of an object (`reservation`); a `Policy`
is both. Objects are judged once for all nodes they reach, and the answers are laid out over rows by the layers that
`capacity_index.py` keeps.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster import Cluster
from tonnage.scheduling.columns import Ids, Ints, Mask, Rows, grown, row_count
from tonnage.scheduling.volumes import packing
from tonnage.scheduling.volumes.packing import NO_POOL, Grade, Sizes
from tonnage.scheduling.volumes.pools import Room

_FIRST_OBJECTS = 16
_FEW_ROWS = 64
"""An object of so many rows is entered row by row; past that the layers are made anew."""
NOTHING = -1
"""In a layer: no object reaches the row."""


def identity(capacity: CSIStorageCapacity) -> str:
    """What holds on an object are kept by: its uid; its key for one from a manifest, which has none."""
    return capacity.metadata.uid or capacity.key


class Entry:
    """One object, its place in its class's tables, and the rows it reaches."""

    __slots__ = ("capacity", "class_name", "key", "number", "rows")

    def __init__(self, capacity: CSIStorageCapacity, rows: npt.NDArray[np.intp]) -> None:
        self.capacity = capacity
        self.class_name = capacity.storage_class_name
        self.key: Key = capacity.key
        self.number = NOTHING
        self.rows = rows


@dataclass(frozen=True, eq=False)
class Policy:
    """How one profile reads capacity objects and what it takes to be held of them.

    `promised` gives the bytes promised of an object (mode Ledger), but for those to some claims, `is_reserved` whether
    it is out of bounds (mode Object); both by the object as it is now.
    """

    room_of: Callable[[CSIStorageCapacity], Room]
    scored_bytes: Callable[[CSIStorageCapacity], int]
    is_reserved: Callable[[CSIStorageCapacity], bool] | None = None
    promised: Callable[[CSIStorageCapacity, Collection[Key]], Sizes] | None = None
    must_be: Grade = Grade.POSSIBLE


class _Reading:
    """A class's objects as one policy reads them."""

    def __init__(self, policy: Policy, objects: int) -> None:
        self.policy = policy
        self.rooms: list[Room] = [Room(())] * objects
        self.pools: Ints = np.full((objects, 1), NO_POOL, dtype=np.int64)
        self.limits: Ints = np.full(objects, packing.UNBOUNDED, dtype=np.int64)
        self.scored: Ints = np.zeros(objects, dtype=np.int64)
        self.is_limited = False
        """Some object has a limit for single claims."""
        self.is_reserved: Mask = np.zeros(objects, dtype=np.bool_)
        self.promised: dict[int, Sizes] = {}

    def grow(self, objects: int) -> None:
        self.rooms += [Room(())] * (objects - len(self.rooms))
        wider = np.full((objects, self.pools.shape[1]), NO_POOL, dtype=np.int64)
        wider[: len(self.pools)] = self.pools
        self.pools = wider
        self.limits, self.scored = grown(self.limits, objects), grown(self.scored, objects)
        self.is_reserved = grown(self.is_reserved, objects)

    def write(self, number: int, capacity: CSIStorageCapacity | None) -> None:
        """Bring one object's row to what it says; None blanks it."""
        room = self.policy.room_of(capacity) if capacity is not None else Room(())
        if len(room.pools) > self.pools.shape[1]:
            more = np.full((len(self.pools), len(room.pools) - self.pools.shape[1]), NO_POOL, dtype=np.int64)
            self.pools = np.hstack((self.pools, more))
        self.rooms[number] = room
        self.pools[number] = NO_POOL
        self.pools[number, : len(room.pools)] = room.pools
        self.limits[number] = room.claim_limit
        self.scored[number] = self.policy.scored_bytes(capacity) if capacity is not None else 0
        self.is_limited = self.is_limited or room.claim_limit != packing.UNBOUNDED
        self.write_holds(number, capacity)

    def write_holds(self, number: int, capacity: CSIStorageCapacity | None) -> None:
        policy = self.policy
        if policy.is_reserved is not None:
            self.is_reserved[number] = capacity is not None and policy.is_reserved(capacity)
        if policy.promised is not None:
            promised = policy.promised(capacity, ()) if capacity is not None else ()
            if promised:
                self.promised[number] = promised
            else:
                self.promised.pop(number, None)

    # -- judging ------------------------------------------------------------------------------------------------------

    def fits_one(self, number: int, sizes: Sizes, promised: Sizes) -> bool:
        """Does a group fit one object, beside what is promised of it? In plain numbers, for the row that changed."""
        room = self.rooms[number]
        if self.is_reserved.item(number) or not room.pools or (sizes and sizes[0] > room.claim_limit):
            return False
        if self.policy.must_be is Grade.GUARANTEED:
            return packing.grade_one(room.pools, sizes, promised) is Grade.GUARANTEED
        if promised:
            return packing.fits_beside_one(room.pools, sizes, promised)
        return packing.fits_one(room.pools, sizes)

    def grade_of(self, number: int, sizes: Sizes) -> Grade:
        room = self.rooms[number]
        if not room.pools or (sizes and sizes[0] > room.claim_limit):
            return Grade.NONE
        return packing.grade_one(room.pools, sizes, self.promised.get(number, ()))

    def fits(self, numbers: slice | npt.NDArray[np.intp], sizes: Sizes, promised: Mapping[int, Sizes]) -> Mask:
        """Which of these objects hold a group, beside what is `promised` of them, by number."""
        pools = self.pools[numbers]
        fits = packing.fits(pools, sizes)
        if self.is_limited and sizes:
            fits &= self.limits[numbers] >= sizes[0]
        if self.policy.is_reserved is not None:
            fits &= ~self.is_reserved[numbers]
        if self.policy.must_be is Grade.GUARANTEED and len(sizes) > 1:
            certain = np.flatnonzero(fits)
            fits[certain] = packing.grades(pools[certain], sizes) == Grade.GUARANTEED
        if promised:
            # Few objects are promised at a time; each of them is judged with what it has promised.
            if isinstance(numbers, slice):
                places = {number: number - numbers.start for number in promised if number < len(fits)}
            else:
                places = {n: place for place, n in enumerate(numbers.tolist()) if n in promised}
            for number, place in places.items():
                fits[place] = fits[place] and self.fits_one(number, sizes, promised[number])
        return fits


class ClassCapacity:
    """The objects of one class."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.entries: list[Entry] = []
        self._free: list[int] = []
        self._readings: dict[Policy, _Reading] = {}
        self.layers: list[Ids] = []

    @property
    def is_empty(self) -> bool:
        return len(self._free) == len(self.entries)

    # -- asking -------------------------------------------------------------------------------------------------------

    def fits(self, policy: Policy, sizes: Sizes, rows: Rows, own: Collection[Key] = ()) -> Mask:
        """On which of these rows is there one object that holds all of a group's claims? `sizes` descend.

        What is promised to the claims of `own` is not in their way.
        """
        reading = self._reading(policy)
        promised = self._promised_to_others(reading, own)
        count = row_count(rows)
        found: Mask = np.zeros(count, dtype=np.bool_)
        if self.is_empty:
            return found
        is_few = count * 4 < len(self.entries)
        by_object = None if is_few else reading.fits(slice(0, len(self.entries)), sizes, promised)
        for layer in self.layers:
            numbers = layer[rows]
            if by_object is None:
                asked, place = np.unique(numbers, return_inverse=True)
                answer = reading.fits(asked.astype(np.intp), sizes, promised)
                found |= answer[place] & (numbers != NOTHING)
            else:
                found |= by_object[numbers] & (numbers != NOTHING)
        return found

    def choice_at(self, policy: Policy, sizes: Sizes, row: int, own: Collection[Key] = ()) -> int:
        """The number of the object that would hold a group on a row: the first of those that do; `NOTHING` if none."""
        reading = self._reading(policy)
        promised = self._promised_to_others(reading, own)
        for layer in self.layers:
            number = layer.item(row)
            if number == NOTHING:
                break
            if reading.fits_one(number, sizes, promised.get(number, ())):
                return number
        return NOTHING

    def choices(self, policy: Policy, sizes: Sizes, rows: Rows, own: Collection[Key] = ()) -> Ids:
        """The same for many rows: the number of the object that would hold a group there."""
        found: Ids = np.full(row_count(rows), NOTHING, dtype=np.int32)
        if self.is_empty:
            return found
        reading = self._reading(policy)
        promised = self._promised_to_others(reading, own)
        by_object = reading.fits(slice(0, len(self.entries)), sizes, promised)
        for layer in reversed(self.layers):
            numbers = layer[rows]
            found = np.where((numbers != NOTHING) & by_object[numbers], numbers, found)
        return found

    def grades(self, policy: Policy, sizes: Sizes, numbers: Ids) -> npt.NDArray[np.int8]:
        """How sure a group's fit is on each of these objects; NONE for `NOTHING`."""
        reading = self._reading(policy)
        found = packing.grades(reading.pools[numbers], sizes)
        for place, number in enumerate(numbers.tolist()):
            if number == NOTHING:
                found[place] = Grade.NONE
            elif number in reading.promised:
                found[place] = reading.grade_of(number, sizes)
        return found

    def grade_of(self, policy: Policy, sizes: Sizes, number: int) -> Grade:
        return self._reading(policy).grade_of(number, sizes)

    def has_promises(self, policy: Policy) -> bool:
        return bool(self._reading(policy).promised)

    def room_of(self, policy: Policy, number: int) -> Room:
        return self._reading(policy).rooms[number]

    def scored_bytes(self, policy: Policy, numbers: Ids) -> Ints:
        """The free bytes that scores are made of, of each of these objects; anything for `NOTHING`."""
        return self._reading(policy).scored[numbers]

    def scored_at(self, policy: Policy, number: int) -> int:
        return self._reading(policy).scored.item(number)

    def numbers_at(self, row: int) -> list[int]:
        """The objects that reach a row, in order; none for one that came after the layers were laid out."""
        found = []
        for layer in self.layers:
            if row >= len(layer) or (number := layer.item(row)) == NOTHING:
                break
            found.append(number)
        return found

    def _promised_to_others(self, reading: _Reading, own: Collection[Key]) -> Mapping[int, Sizes]:
        """By object, what is promised of it, but for what these claims were promised themselves."""
        promised = reading.policy.promised
        if not own or promised is None or not reading.promised:
            return reading.promised
        return {number: promised(self.entries[number].capacity, own) for number in reading.promised}

    def _reading(self, policy: Policy) -> _Reading:
        reading = self._readings.get(policy)
        if reading is None:
            reading = self._readings[policy] = _Reading(policy, max(_FIRST_OBJECTS, len(self.entries)))
            gone = set(self._free)
            for number, entry in enumerate(self.entries):
                reading.write(number, None if number in gone else entry.capacity)
        for place, layer in enumerate(self.layers):
            if len(layer) < self._cluster.capacity:
                self.layers[place] = self._widened(layer)
        return reading

    def _widened(self, layer: Ids) -> Ids:
        wider = np.full(self._cluster.capacity, NOTHING, dtype=np.int32)
        wider[: len(layer)] = layer
        return wider

    # -- changing -----------------------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        if self._free:
            entry.number = self._free.pop()
            self.entries[entry.number] = entry
        else:
            entry.number = len(self.entries)
            self.entries.append(entry)
        for reading in self._readings.values():
            if entry.number >= len(reading.rooms):
                reading.grow(2 * len(reading.rooms))
            reading.write(entry.number, entry.capacity)
        if len(entry.rows) > _FEW_ROWS:
            self.rebuild()
            return
        for row in entry.rows.tolist():
            self._enter(row, entry)

    def rewrite(self, entry: Entry) -> None:
        """An object says something new about its room."""
        for reading in self._readings.values():
            reading.write(entry.number, entry.capacity)

    def held_differs(self, entry: Entry) -> None:
        for reading in self._readings.values():
            reading.write_holds(entry.number, entry.capacity)

    def drop(self, entry: Entry) -> None:
        self._free.append(entry.number)
        for reading in self._readings.values():
            reading.write(entry.number, None)
        if len(entry.rows) > _FEW_ROWS:
            self.rebuild()
            return
        for row in entry.rows.tolist():
            self._write_row(row, [number for number in self.numbers_at(row) if number != entry.number])

    def set_row(self, row: int, reaching: Set[Entry]) -> None:
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
        gone = set(self._free)
        live = sorted(
            (entry for number, entry in enumerate(self.entries) if number not in gone), key=lambda each: each.key
        )
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
            layer = np.full(self._cluster.capacity, NOTHING, dtype=np.int32)
            layer[rows[depth == level]] = numbers[depth == level]
            self.layers.append(layer)

    def _enter(self, row: int, entry: Entry) -> None:
        there = [self.entries[number] for number in self.numbers_at(row)]
        insort(there, entry, key=lambda each: each.key)
        self._write_row(row, [each.number for each in there])

    def _in_order(self, entries: Collection[Entry]) -> list[int]:
        return [entry.number for entry in sorted(entries, key=lambda each: each.key)]

    def _write_row(self, row: int, numbers: list[int]) -> None:
        while len(self.layers) < len(numbers):
            self.layers.append(np.full(self._cluster.capacity, NOTHING, dtype=np.int32))
        for level, layer in enumerate(self.layers):
            if row >= len(layer):
                layer = self.layers[level] = self._widened(layer)
            layer[row] = numbers[level] if level < len(numbers) else NOTHING
