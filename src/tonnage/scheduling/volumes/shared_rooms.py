"""How a profile reads capacity objects, alone and joined, and what is held of them: the room that claims may take.

Where objects have pools in common by their ids (`capacity/groups.py`), each pool has the least bytes that one of them
tells. Promises of all connected objects count in the pools that they may have gone to. If they all go to the same pools
as the claims that are judged, that is plain subtraction from one list of pools; otherwise it takes a `SharedView`. In
mode Object, the pools of a connected object that is reserved are not there for others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tonnage.objects.meta import Key
from tonnage.objects.size_rules import rules_of
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.capacity.class_capacity import members_of, room_of_members
from tonnage.scheduling.volumes.capacity.groups import pool_ids_of
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import NO_ROOM, Room
from tonnage.scheduling.volumes.capacity.reading import Held
from tonnage.scheduling.volumes.packing.pool_fits import descending
from tonnage.scheduling.volumes.packing.pool_policies import PoolReach, SharedPools, pieces_of
from tonnage.scheduling.volumes.packing.shared_pools import SharedView
from tonnage.scheduling.volumes.reservations.holds import CapacityHolds


class SharedRooms:
    """`room_of`: how the profile reads one object, with these pools instead of its own if they are given."""

    def __init__(
        self,
        cluster: Cluster,
        room_of: Callable[[CSIStorageCapacity, tuple[int, ...] | None], Room],
        holds: CapacityHolds | None,
    ) -> None:
        self._classes = cluster.storage.classes
        self._index = cluster.index(CapacityIndex)
        self._ids = self._index.groups.ids
        self._room_of = room_of
        self._holds = holds

    def room(self, joined: CSIStorageCapacity) -> Room:
        """What claims may take of an object, or of joined ones: for classes with different pools, all of them."""
        members, connected = self._connected(joined)
        if not connected:
            return room_of_members(joined, self._room)
        least = self._ids.least_of(connected)
        rooms = [self._room(member, descending(least[pool] for pool in pool_ids_of(member))) for member in members]
        if not all(room.is_known for room in rooms):
            return NO_ROOM
        slots = min(room.slots for room in rooms)
        if len({frozenset(pool_ids_of(capacity)) for capacity in members}) == 1:
            return rooms[0]._replace(
                claim_limit=min(room.claim_limit for room in rooms),
                keeps=max(room.keeps for room in rooms),
                pools=min(room.pools for room in rooms),
                slots=slots,
            )
        kept = max(room.keeps for room in rooms)
        pools = {pool for capacity in members for pool in pool_ids_of(capacity)}
        return Room(descending(least[pool] - kept for pool in pools), keeps=kept, slots=slots)

    def held(self, joined: CSIStorageCapacity, own: Collection[Key]) -> Held:
        """The holds on an object, on those that it is joined of, and on those with exactly the same pools."""
        if self._holds is None:
            return ()
        members, connected = self._connected(joined)
        alike = [capacity for capacity in connected if self._is_alike(capacity, members)]
        return self._holds.held(alike or members, own)

    def view(self, joined: CSIStorageCapacity, own: Collection[Key]) -> SharedView | None:
        """The object with its connected ones, pool by pool; None if a list of pools and of promises says all."""
        members, connected = self._connected(joined)
        if not connected:
            return None
        others = [capacity for capacity in connected if not self._is_alike(capacity, members)]
        promised = self._holds.promised_by_class(connected, own) if self._holds is not None else []
        taken = {pool for capacity in others if self._is_reserved(capacity, own) for pool in pool_ids_of(capacity)}
        mine = {capacity.storage_class_name for capacity in connected} - {
            capacity.storage_class_name for capacity in others
        }
        is_uniform = all(self._is_alike(capacity, members[:1]) for capacity in members)
        if is_uniform and not taken and all(name in mine for _, name in promised):
            return None
        least = self._ids.least_of(connected)
        rooms = {capacity.storage_class_name: self._room(capacity) for capacity in connected}
        kept = max(room.keeps for room in rooms.values())
        order = sorted(least, key=lambda pool: (-least[pool], pool))
        reached: dict[str, set[str]] = {}
        for capacity in connected:
            reached.setdefault(capacity.storage_class_name, set()).update(set(pool_ids_of(capacity)) - taken)
        reaches = tuple(
            PoolReach(
                tuple(place for place, pool in enumerate(order) if pool in pools),
                self._index.policy_of([name]),
                rooms[name].claim_limit,
            )
            for name, pools in reached.items()
        )
        owners = {name: place for place, name in enumerate(reached)}
        everywhere = tuple(range(len(order)))
        unknown = [(size, name) for size, name in promised if name not in owners]
        if unknown:  # its object is gone: it may be anywhere
            reaches = (*reaches, PoolReach(everywhere))
            owners |= {name: len(reaches) - 1 for _, name in unknown}
        pieces = pieces_of((size, owners[name]) for size, name in promised)
        return SharedView(SharedPools(tuple(least[pool] - kept for pool in order), reaches), owners, pieces, kept)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _connected(
        self, joined: CSIStorageCapacity
    ) -> tuple[Sequence[CSIStorageCapacity], Sequence[CSIStorageCapacity]]:
        """The members of an object, and all objects that are connected with them by ids, in their newest version. The
        second is empty if there are no others, or if the members are not connected."""
        members = members_of(joined)
        if not self._ids.links:
            return members, ()
        found = {capacity.key: capacity for capacity in self._ids.connected(members[0])}
        if len(found) < 2 or any(capacity.key not in found for capacity in members):
            return members, ()
        return [found[capacity.key] for capacity in members], list(found.values())

    def _is_alike(self, one: CSIStorageCapacity, members: Sequence[CSIStorageCapacity]) -> bool:
        """True if the object has exactly the pools of all members, and its driver chooses among them as for these."""
        pools, policy = set(pool_ids_of(one)), self._index.policy_of([one.storage_class_name])
        return all(
            pools == set(pool_ids_of(capacity)) and policy is self._index.policy_of([capacity.storage_class_name])
            for capacity in members
        )

    def _is_reserved(self, capacity: CSIStorageCapacity, own: Collection[Key]) -> bool:
        return self._holds is not None and self._holds.held((capacity,), own) is None

    def _room(self, capacity: CSIStorageCapacity, pools: tuple[int, ...] | None = None) -> Room:
        return self._room_of(capacity, pools).kept_by(rules_of(self._classes.get(capacity.storage_class_name)))
