"""The capacity objects of one class laid out over nodes, and the question they exist for: where does a group fit?

What an object says is judged once for all nodes it reaches (`reading.py`); the answers are laid out over rows by
layers, one of which holds for each row the number of an object that reaches it (`index.py` shows a picture).

Objects of several classes of one capacity group are joined for claims that are packed together: a joined object has
what the *least* of its members says, is reserved if one of them is, and promised of it is what is promised of any.
Siblings, of the same topology, are joined. On a node that has none of all classes, whatever reaches it is.

    class "fast"        node-1's 100Gi, 60Gi
    class "slow"        node-1's  80Gi, 60Gi        class "fast,slow"    node-1's 80Gi, 60Gi
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from itertools import product

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key, StampedMeta
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Mask, Rows, row_count
from tonnage.scheduling.volumes.capacity.pools import NO_ROOM, Room, Topology, canonical
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, Numbers, Question, Reading
from tonnage.scheduling.volumes.packing.pool_fits import UNLIMITED, SearchBudget, Sizes
from tonnage.scheduling.volumes.packing.pool_grades import Grade, Grades
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy

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
    """The objects of one class. Groups are asked about by their sizes, descending; holds for the claims of `own` do not
    count."""

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
        """By row, the number of the first object that would hold a group, or with `is_scored` of the one that is scored
        (`CapacityPolicy.scores_best`); `NOTHING` if none."""
        reading = self.reading(policy)
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

    def grades(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, *, with_order: bool) -> Grades:
        """How sure a group's fit is on each row, of the object that would hold it there; NONE where none would."""
        question = Question.GRADE_WITH_ORDER if with_order else Question.GRADE
        numbers = self.layers[0][rows] if len(self.layers) == 1 else self.choices(policy, sizes, rows)
        return self.reading(policy).says(question, sizes, numbers)

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
        return self.reading(policy).says_one(Question.FITS, sizes, number, own) > Grade.NONE

    def scored_at(self, policy: CapacityPolicy, sizes: Sizes, row: int) -> int | None:
        """The free bytes that a group is scored by on a row, in plain numbers; None where it does not fit."""
        scored = self.reading(policy).scored
        found = [scored.item(each) for each in self.numbers_at(row) if self.fits_at(policy, sizes, each)]
        if not found:
            return None
        return max(found) if policy.scores_best else found[0]

    # -- asking about all of them -------------------------------------------------------------------------------------

    def held_numbers(self, policy: CapacityPolicy, sizes: Sizes, rows: npt.NDArray[np.intp]) -> Numbers:
        """The objects that reach these rows and would hold a group, and of which something is held; each once."""
        reading = self.reading(policy)
        at_rows = [layer[rows] for layer in self.layers] or [np.zeros(0, dtype=np.intp)]
        numbers: Numbers = np.unique(np.concatenate(at_rows))
        is_wanted = reading.is_held(numbers) & (reading.says(Question.FITS_UNHELD, sizes, numbers) > Grade.NONE)
        return numbers[is_wanted]

    def live(self) -> list[CapacityEntry]:
        """The objects that are there, in no order."""
        gone = set(self._free)
        return [entry for number, entry in enumerate(self.entries) if number not in gone]

    def reading(self, policy: CapacityPolicy) -> Reading:
        """These objects as a policy reads them."""
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
            self._write_row(row, [*self._entries_at(row), entry])

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
            self._write_row(row, [each for each in self._entries_at(row) if each is not entry])

    def set_row(self, row: int, reaching: Set[CapacityEntry]) -> None:
        """A node came, went, or has other labels: exactly these objects (of any class) reach it now."""
        before = self._entries_at(row)
        for entry in before:
            if entry not in reaching:
                entry.rows = entry.rows[entry.rows != row]
        mine = [entry for entry in reaching if entry.number < len(self.entries) and self.entries[entry.number] is entry]
        for entry in mine:
            if entry not in before:
                entry.rows = np.sort(np.append(entry.rows, row))
        if before or mine:
            self._write_row(row, mine)

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

    def _entries_at(self, row: int) -> list[CapacityEntry]:
        return [self.entries[number] for number in self.numbers_at(row)]

    def _write_row(self, row: int, entries: Collection[CapacityEntry]) -> None:
        numbers = [entry.number for entry in sorted(entries, key=lambda each: each.key)]
        while len(self.layers) < len(numbers):
            self.layers.append(np.full(self._cluster.capacity, NOTHING, dtype=np.intp))
        for level, layer in enumerate(self.layers):
            if row >= len(layer):
                layer = self.layers[level] = self._widened(layer)
            layer[row] = numbers[level] if level < len(numbers) else NOTHING


_SEPARATOR = ","
"""Between class names; none has it."""


class JoinedCapacity(CSIStorageCapacity):
    """Objects of different classes taken as one. No server knows it."""

    members: tuple[CSIStorageCapacity, ...] = ()


def joint_name(class_names: Sequence[str]) -> str:
    """What a group of claims of these classes is filed under; of one class its own name."""
    return _SEPARATOR.join(sorted(set(class_names)))


def class_names_in(name: str) -> list[str]:
    return name.split(_SEPARATOR)


def members_of(capacity: CSIStorageCapacity) -> tuple[CSIStorageCapacity, ...]:
    """The objects that it stands for: itself, unless it is joined."""
    return capacity.members if isinstance(capacity, JoinedCapacity) else (capacity,)


def member_of(capacity: CSIStorageCapacity, class_name: str) -> CSIStorageCapacity:
    """That of one class."""
    if not isinstance(capacity, JoinedCapacity):
        return capacity
    return next((each for each in members_of(capacity) if each.storage_class_name == class_name), capacity)


def room_of_members(capacity: CSIStorageCapacity, room_of: Callable[[CSIStorageCapacity], Room]) -> Room:
    """What claims may take of all of the members at once: the least of each pool, largest first."""
    if not isinstance(capacity, JoinedCapacity):
        return room_of(capacity)
    rooms = [room_of(each) for each in capacity.members]
    if not all(room.is_known for room in rooms):
        return NO_ROOM
    pools = tuple(min(each) for each in zip(*(room.pools for room in rooms), strict=False))
    return Room(pools, min(room.claim_limit for room in rooms), min(room.free_bytes for room in rooms))


class JointCapacity(ClassCapacity):
    """The joined objects of some classes, laid out over rows like the objects of one."""

    def __init__(self, cluster: Cluster, parts: Sequence[ClassCapacity], search: SearchBudget = UNLIMITED) -> None:
        super().__init__(cluster, search)
        self._parts = parts
        self.is_stale = True
        """Objects came or went, or reach other nodes: `follow` is to be called."""
        self._joined: dict[tuple[str, ...], CapacityEntry] = {}
        self._by_member: dict[str, list[tuple[str, ...]]] = {}

    def follow(self) -> None:
        """Join what there is now."""
        self.is_stale = False
        wanted = dict(self._combinations())
        for uids in [uids for uids in self._joined if uids not in wanted]:
            self.take_out(self._joined.pop(uids))
        for uids, (members, rows) in wanted.items():
            entry = self._joined.get(uids)
            now = [each.capacity for each in members]
            if entry is None:
                entry = self._joined[uids] = CapacityEntry(_joined(now), rows)
                self.put_in(entry)
            elif any(each is not known for each, known in zip(now, members_of(entry.capacity), strict=True)):
                entry.capacity = _joined(now)  # an object that went came back, with other figures
                self.rewrite(entry)
            entry.rows = rows
        self._by_member = {}
        for uids in self._joined:
            for uid in uids:
                self._by_member.setdefault(uid, []).append(uids)
        self.rebuild()

    def member_changed(self, new: CSIStorageCapacity) -> None:
        """One of the objects says something new about its room."""
        for uids in self._by_member.get(identity(new), ()):
            entry = self._joined[uids]
            members = [new if identity(each) == identity(new) else each for each in members_of(entry.capacity)]
            entry.capacity = _joined(members)
            self.rewrite(entry)

    def held_of_member_differs(self, uid: str) -> None:
        for uids in self._by_member.get(uid, ()):
            self.held_differs(self._joined[uids])

    def _combinations(self) -> Iterator[tuple[tuple[str, ...], tuple[Sequence[CapacityEntry], npt.NDArray[np.intp]]]]:
        """One object of each class, and the rows that they are joined for."""
        by_topology = [_by_topology(part) for part in self._parts]
        is_joined = np.zeros(self._cluster.capacity, dtype=np.bool_)
        for topology in by_topology[0]:
            if all(topology in each for each in by_topology):
                for members in product(*(each[topology] for each in by_topology)):
                    is_joined[members[0].rows] = True
                    yield _uids(members), (members, members[0].rows)
        is_reached = ~is_joined
        for part in self._parts:
            reached = np.zeros(self._cluster.capacity, dtype=np.bool_)
            for entry in part.live():
                reached[entry.rows] = True
            is_reached &= reached
        odd: dict[tuple[str, ...], tuple[Sequence[CapacityEntry], list[int]]] = {}
        for row in np.flatnonzero(is_reached).tolist():
            reaching = [[part.entries[number] for number in part.numbers_at(row)] for part in self._parts]
            for combination in product(*reaching):
                odd.setdefault(_uids(combination), (combination, []))[1].append(row)
        for uids, (entries, rows) in odd.items():
            yield uids, (entries, np.array(rows, dtype=np.intp))


def _by_topology(part: ClassCapacity) -> dict[Topology, list[CapacityEntry]]:
    found: dict[Topology, list[CapacityEntry]] = {}
    for entry in part.live():
        if entry.capacity.node_topology is not None:
            found.setdefault(canonical(entry.capacity.node_topology), []).append(entry)
    return found


def _uids(members: Sequence[CapacityEntry]) -> tuple[str, ...]:
    return tuple(identity(each.capacity) for each in members)


def _joined(members: Sequence[CSIStorageCapacity]) -> JoinedCapacity:
    metadata = StampedMeta(name=" + ".join(each.key for each in members), uid="+".join(map(identity, members)))
    return JoinedCapacity(
        metadata=metadata,
        storage_class_name=joint_name([each.storage_class_name for each in members]),
        members=tuple(members),
    )
