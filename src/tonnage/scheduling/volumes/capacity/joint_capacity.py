"""Objects of several classes of one capacity group, joined: room for claims that are packed together.

    class "fast"        node-1's 100Gi, 60Gi
    class "slow"        node-1's  80Gi, 60Gi        class "fast,slow"    node-1's 80Gi, 60Gi

Joined they are one object: it has what the *least* of them says, is reserved if one of them is, and promised of it is
what is promised of any. Siblings, of the same topology, are joined. On a node that has none of all classes, whatever
reaches it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import StampedMeta
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.capacity.class_annotations import Topology, canonical
from tonnage.scheduling.volumes.capacity.class_capacity import CapacityEntry, ClassCapacity, identity
from tonnage.scheduling.volumes.capacity.pools import NO_ROOM, Room
from tonnage.scheduling.volumes.packing import UNLIMITED, SearchBudget

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
