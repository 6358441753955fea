"""The capacity objects of one class laid out over nodes. It answers on which nodes a group of claims fits.

An object is judged once for all nodes it reaches (`reading.py`). Layers map rows to object numbers (`index.py` has a
picture). Classes of one capacity group are judged together by joined objects: siblings of the same topology become one
object, whose pools are the smallest of its members', and whose holds are those of all members. On nodes without
siblings of every class, all objects that reach the node are joined.

    class "fast"        node-1's 100Gi, 60Gi
    class "slow"        node-1's  80Gi, 60Gi        class "fast,slow"    node-1's 80Gi, 60Gi
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from tonnage.keyed import Shelf
from tonnage.objects.meta import Key, StampedMeta
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Mask, Rows, row_count
from tonnage.scheduling.volumes.capacity.pools import Topology, canonical
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, Numbers, Question, Reading
from tonnage.scheduling.volumes.packing.pool_fits import UNLIMITED, SearchBudget, Sizes
from tonnage.scheduling.volumes.packing.pool_grades import Grades
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy

_FIRST_OBJECTS = 16
NO_ROWS: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
NOTHING = -1
"""In a layer: no object reaches the row. As an index, -1 is the last place of a reading, which is kept blank."""


def identity(capacity: CSIStorageCapacity) -> str:
    """The key of an object's holds: its uid, or its namespace/name if it has no uid (from a manifest)."""
    return capacity.metadata.uid or capacity.key


@dataclass(slots=True, eq=False)
class CapacityEntry:
    """A capacity object, the rows it reaches, and its number in the tables of its class."""

    capacity: CSIStorageCapacity
    rows: npt.NDArray[np.intp]
    number: int = NOTHING

    @property
    def class_name(self) -> str:
        return self.capacity.storage_class_name


class ClassCapacity:
    """The capacity objects of one class. A group of claims is given by `sizes`: bytes, descending. Holds for the claims
    in `own` are ignored."""

    def __init__(
        self,
        cluster: Cluster,
        search: SearchBudget = UNLIMITED,
        pool_policy: PoolPolicy = PoolPolicy.UNKNOWN,
    ) -> None:
        self._cluster = cluster
        self._search = search
        self.pool_policy = pool_policy
        """Which pool of an object the driver chooses for a volume."""
        self.entries: list[CapacityEntry] = []
        self._free: list[int] = []
        self._readings: dict[CapacityPolicy, Reading] = {}
        self.layers: list[Numbers] = []
        self._width = 0
        """The least number of rows in every layer; later layers have as many rows as the cluster has then."""

    # -- asking about rows --------------------------------------------------------------------------------------------

    def fits(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, own: Collection[Key] = ()) -> Mask:
        """A mask over `rows`: True where one object holds all claims of the group."""
        return np.not_equal(self.choices(policy, sizes, rows, own), NOTHING)

    def choices(
        self,
        policy: CapacityPolicy,
        sizes: Sizes,
        rows: Rows,
        own: Collection[Key] = (),
        *,
        is_scored: bool = False,
    ) -> Numbers:
        """By row, the number of the first object that holds the group, or `NOTHING`. `is_scored`: the object to score
        by instead (`CapacityPolicy.scores_best`)."""
        reading = self.reading(policy)
        found: Numbers = np.empty(row_count(rows), dtype=np.intp)
        found.fill(NOTHING)
        for level, layer in enumerate(self.layers):
            numbers = layer[rows]
            is_better = reading.says(Question.FITS, sizes, numbers, own).astype(np.bool_)  # Grade.NONE is 0
            if level and is_scored and policy.scores_best:
                free_bytes = reading.scored_by_object(own)
                is_better &= (found == NOTHING) | (free_bytes[numbers] > free_bytes[found])
            elif level:
                is_better &= found == NOTHING
            found = np.where(is_better, numbers, found)
        return found

    def grades(self, policy: CapacityPolicy, sizes: Sizes, rows: Rows, *, with_order: bool) -> Grades:
        """By row, the grade of the object that would hold the group; NONE where no object would."""
        question = Question.GRADE_WITH_ORDER if with_order else Question.GRADE
        numbers = self.layers[0][rows] if len(self.layers) == 1 else self.choices(policy, sizes, rows)
        return self.reading(policy).says(question, sizes, numbers)

    # -- asking about one row or object -------------------------------------------------------------------------------

    def numbers_at(self, row: int) -> list[int]:
        """The numbers of the objects that reach a row, in order; empty for a row newer than the layers."""
        found = []
        for layer in self.layers:
            if row >= len(layer) or (number := layer.item(row)) == NOTHING:
                break
            found.append(number)
        return found

    def choice_at(
        self, policy: CapacityPolicy, sizes: Sizes, row: int, own: Collection[Key] = (), *, is_scored: bool = False
    ) -> int:
        """`choices` for one row, without arrays."""
        reading = self.reading(policy)
        numbers = self.numbers_at(row)
        fitting = [number for number in numbers if reading.says_one(Question.FITS, sizes, number, own)]
        if is_scored and policy.scores_best and len(fitting) > 1:
            return max(fitting, key=reading.scored_by_object(own).item)
        return fitting[0] if fitting else NOTHING

    # -- asking about all objects -------------------------------------------------------------------------------------

    def numbers_on(self, rows: npt.NDArray[np.intp]) -> Numbers:
        """The numbers of objects that reach these rows, without duplicates, and perhaps `NOTHING`."""
        at_rows = [layer[rows] for layer in self.layers] or [np.zeros(0, dtype=np.intp)]
        return np.unique(np.concatenate(at_rows))

    def live(self) -> list[CapacityEntry]:
        """All current objects, in no particular order."""
        gone = set(self._free)
        return [entry for number, entry in enumerate(self.entries) if number not in gone]

    def reading(self, policy: CapacityPolicy) -> Reading:
        """The objects as `policy` reads them."""
        reading = self._readings.get(policy)
        if reading is None:
            objects = max(_FIRST_OBJECTS, len(self.entries) + 1)  # the last place stays blank, for `NOTHING`
            reading = self._readings[policy] = Reading(policy, objects, self._search)
            reading.choose_by(self.pool_policy)
            for entry in self.live():
                reading.write(entry.number, entry.capacity)
        if self._width != self._cluster.capacity:
            self._width = self._cluster.capacity
            self.layers = [layer if len(layer) >= self._width else self._widened(layer) for layer in self.layers]
        return reading

    def _widened(self, layer: Numbers) -> Numbers:
        wider = np.full(self._cluster.capacity, NOTHING, dtype=np.intp)
        wider[: len(layer)] = layer
        return wider

    # -- changing -----------------------------------------------------------------------------------------------------

    def choose_by(self, pool_policy: PoolPolicy) -> None:
        """Set how the driver chooses pools."""
        self.pool_policy = pool_policy
        for reading in self._readings.values():
            reading.choose_by(pool_policy)

    def add(self, entry: CapacityEntry) -> None:
        """Give an object a number, read it, and lay it out over its rows."""
        if self._free:
            entry.number = self._free.pop()
            self.entries[entry.number] = entry
        else:
            entry.number = len(self.entries)
            self.entries.append(entry)
        self.rewrite(entry)
        self._lay(entry)

    def rewrite(self, entry: CapacityEntry) -> None:
        """Read an object's new figures and holds."""
        for reading in self._readings.values():
            reading.write(entry.number, entry.capacity)

    def read_holds(self, entry: CapacityEntry) -> None:
        """Read what is held of an object now; its figures are the same."""
        for reading in self._readings.values():
            reading.write_holds(entry.number)

    def drop(self, entry: CapacityEntry) -> None:
        self._free.append(entry.number)
        for reading in self._readings.values():
            reading.write(entry.number, None)
        for row in entry.rows.tolist():
            self._write_row(row, [each for each in self.entries_at(row) if each is not entry])

    def set_row(self, row: int, reaching: Set[CapacityEntry]) -> bool:
        """Set the objects (of any class) that reach a row. Returns False if they are the same as before."""
        before = set(self.entries_at(row))
        mine = {entry for entry in reaching if self.entries[entry.number : entry.number + 1] == [entry]}
        for entry in before - mine:
            entry.rows = entry.rows[entry.rows != row]
        for entry in mine - before:
            entry.rows = np.sort(np.append(entry.rows, row))
        if before != mine:
            self._write_row(row, mine)
        return before != mine

    def rebuild(self) -> None:
        """Lay all objects out over their rows again."""
        self.layers = []
        for entry in self.live():
            self._lay(entry)

    def _lay(self, entry: CapacityEntry) -> None:
        for row in entry.rows.tolist():
            self._write_row(row, [*self.entries_at(row), entry])

    def entries_at(self, row: int) -> list[CapacityEntry]:
        return [self.entries[number] for number in self.numbers_at(row)]

    def _write_row(self, row: int, entries: Collection[CapacityEntry]) -> None:
        numbers = [entry.number for entry in sorted(entries, key=lambda each: each.capacity.key)]
        while len(self.layers) < len(numbers):
            self.layers.append(np.full(self._cluster.capacity, NOTHING, dtype=np.intp))
        for level, layer in enumerate(self.layers):
            if row >= len(layer):
                layer = self.layers[level] = self._widened(layer)
            layer[row] = numbers[level] if level < len(numbers) else NOTHING


_SEPARATOR = ","
"""Separates class names; no class name contains it."""


class JoinedCapacity(CSIStorageCapacity):
    """Capacity objects of different classes, joined. It exists only here, not in the API."""

    members: tuple[CSIStorageCapacity, ...] = ()


def joint_name(class_names: Sequence[str]) -> str:
    """The key for a group of claims of these classes; for one class, its name."""
    return _SEPARATOR.join(sorted(set(class_names)))


def class_names_in(name: str) -> list[str]:
    return name.split(_SEPARATOR)


def members_of(capacity: CSIStorageCapacity) -> tuple[CSIStorageCapacity, ...]:
    """The objects that a joined object consists of; otherwise the object itself."""
    return capacity.members if isinstance(capacity, JoinedCapacity) else (capacity,)


def member_of(capacity: CSIStorageCapacity, class_name: str) -> CSIStorageCapacity:
    """The member of one class."""
    if not isinstance(capacity, JoinedCapacity):
        return capacity
    return next((member for member in members_of(capacity) if member.storage_class_name == class_name), capacity)


class JointCapacity(ClassCapacity):
    """The joined objects of several classes, laid out over rows. It is made anew when objects come, go or reach other
    nodes."""

    def __init__(
        self, cluster: Cluster, parts: Sequence[ClassCapacity], search: SearchBudget, pool_policy: PoolPolicy
    ) -> None:
        super().__init__(cluster, search, pool_policy)
        self._of_member: Shelf[str, int, CapacityEntry] = Shelf()
        """Joined objects by the `identity` of a member, and by number."""
        wanted: dict[tuple[CapacityEntry, ...], list[int]] = {}
        for row in range(cluster.size):
            combinations = list(product(*(part.entries_at(row) for part in parts)))
            # On each row those of one topology, otherwise all.
            siblings = [each for each in combinations if len({_topology(entry) for entry in each}) == 1]
            for members in siblings or combinations:
                wanted.setdefault(members, []).append(row)
        for members, rows in wanted.items():
            entry = CapacityEntry(_joined([member.capacity for member in members]), np.array(rows, dtype=np.intp))
            self.add(entry)
            for member in members:
                self._of_member.put(identity(member.capacity), entry.number, entry)

    def member_changed(self, new: CSIStorageCapacity) -> None:
        """Read the new figures and holds of one member."""
        uid = identity(new)
        for entry in self._of_member[uid]:
            members = [new if identity(member) == uid else member for member in members_of(entry.capacity)]
            entry.capacity = _joined(members)
            self.rewrite(entry)


def _topology(entry: CapacityEntry) -> Topology:
    topology = entry.capacity.node_topology
    return canonical(topology) if topology is not None else ()


def _joined(members: Sequence[CSIStorageCapacity]) -> JoinedCapacity:
    metadata = StampedMeta(name=" + ".join(capacity.key for capacity in members), uid="+".join(map(identity, members)))
    return JoinedCapacity(
        metadata=metadata,
        storage_class_name=joint_name([capacity.storage_class_name for capacity in members]),
        members=tuple(members),
    )
