"""Can a node hold a pod's volumes? The rule of VolumeBinding, for all nodes at once and for one.

A pod's `Demand` is judged in upstream's order (FindPodVolumes), each step over all rows:

    shared claims     the pods that use them are there               else  a pod that shares a claim is elsewhere
    bound claims      the node can reach the volume                  else  didn't match PersistentVolume's node affinity
    pinned claims     the node is the selected one                   else  didn't find available persistent volumes
    loose claims      the smallest free volume that fits, smallest claim first; the others need a new volume:
      a class that creates volumes, and may do so here               else  didn't find available persistent volumes
      room in a capacity object                                      else  did not have enough free storage

Room is judged jointly (KEP-5925): all claims of a class or capacity group must fit one object that is not reserved.
Without the gate each claim is judged alone, as in kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.requirements import TopologySelectorTerm
from tonnage.objects.size_rules import rules_of
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster, in_topology
from tonnage.scheduling.cluster.columns import SEARCH_ENDED, Bits, Rows, count, only_row, row_count, row_numbers
from tonnage.scheduling.configuration.plugin_args import LegacyPools, PoolFit, StorageCapacityArgs
from tonnage.scheduling.volumes.capacity.class_capacity import NOTHING, joint_name, member_of, members_of
from tonnage.scheduling.volumes.capacity.groups import pool_ids_of
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import Room, room_in_all, room_of, room_without_gate, scored_capacity
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, Held
from tonnage.scheduling.volumes.demand import ClaimGroup, Demand, Provision, VolumePlan, by_size, counted_bytes
from tonnage.scheduling.volumes.packing.pool_fits import Sizes, descending
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.packing.pool_policies import PoolReach, SharedPools, pieces_of
from tonnage.scheduling.volumes.packing.shared_pools import OwnedSizes, SharedView
from tonnage.scheduling.volumes.reservations.holds import CapacityHolds
from tonnage.scheduling.volumes.static_volumes import Match, StaticVolumes
from tonnage.scheduling.volumes.volume_reach import Rebuild, reachable

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
SHARED_ELSEWHERE = "node(s) didn't have the pod(s) that share a ReadWriteOnce PersistentVolumeClaim"
REASONS = (NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_GONE, SHARED_ELSEWHERE, SEARCH_ENDED)
_NODE, _BIND, _SPACE, _GONE, _SHARED, _ENDED = (1 << place for place in range(len(REASONS)))
NO_SPACE, NO_VOLUME, NO_SPACE_FOUND = _SPACE, _BIND, _SPACE | _ENDED
"""Bits: too little room; nothing to bind; no room, or the search for it ran out of steps."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class ProvisioningDemand(NamedTuple):
    """Claims whose volumes must be created on a node, and what that takes; the same for all such nodes."""

    claims: tuple[PersistentVolumeClaim, ...]
    """In upstream's order: claims with this node selected, then by size."""
    places: tuple[int, ...]
    """By claim, its position in `units`; -1 if its capacity is not checked."""
    units: tuple[ClaimGroup, ...]
    """What must fit one capacity object: all claims of a class or capacity group; without the gate, each claim."""
    checks: tuple[tuple[TopologySelectorTerm, ...] | int | None, ...]
    """The first that fails on a row gives the reason: where classes create volumes, the room for a unit by its
    position, or None, which always fails: the class of a claim creates no volumes."""
    has_nodes: bool
    """True if a node was selected for a claim."""


def _capacity_policy(
    cluster: Cluster, args: StorageCapacityArgs, holds: CapacityHolds | None, *, is_joint: bool
) -> CapacityPolicy:
    """How a profile reads capacity objects; without the gate (`is_joint`), like kube-scheduler 1.36."""
    if not is_joint:
        classes = cluster.storage.classes
        return CapacityPolicy(
            lambda each: room_without_gate(each).kept_by(rules_of(classes.get(each.storage_class_name))),
            lambda each: scored_capacity(each, with_pools=False),
        )
    if holds is not None:
        holds.tell_timeout(float(args.reservation_timeout_seconds))
    rooms = SharedRooms(cluster, args.legacy_pools, holds)
    return CapacityPolicy(
        rooms.room,
        lambda joined: min(scored_capacity(capacity, with_pools=True) for capacity in members_of(joined)),
        rooms.held,
        Grade.GUARANTEED if args.pool_fit is PoolFit.GUARANTEED else Grade.POSSIBLE,
        rooms.view,
        scores_best=True,
    )


class SharedRooms:
    """How a profile reads capacity objects, alone and joined, and what is held of them: the room that claims may take.

    Where objects have pools in common by their ids (`capacity/groups.py`), each pool has the least bytes that one of
    them tells. Promises of all connected objects count in the pools that they may have gone to. If they all go to the
    same pools as the claims that are judged, that is plain subtraction from one list of pools; otherwise it takes a
    `SharedView`. In mode Object, the pools of a connected object that is reserved are not there for others.
    """

    def __init__(self, cluster: Cluster, legacy: LegacyPools, holds: CapacityHolds | None) -> None:
        self._classes = cluster.storage.classes
        self._index = cluster.index(CapacityIndex)
        self._ids = self._index.groups.ids
        self._legacy = legacy
        self._holds = holds

    def room(self, joined: CSIStorageCapacity) -> Room:
        """What claims may take of an object, or of joined ones: for classes with different pools, all of them."""
        members, connected = self._connected(joined)
        if not connected:
            return room_in_all([self._room(member) for member in members])
        least, pools = self._ids.least_of(connected), {member.key: pool_ids_of(member) for member in members}
        rooms = [self._room(each, descending(least[pool] for pool in pools[each.key])) for each in members]
        room = room_in_all(rooms)
        if not room.is_known or len({frozenset(each) for each in pools.values()}) == 1:
            return room
        every = {pool for each in pools.values() for pool in each}
        return Room(descending(least[pool] - room.keeps for pool in every), keeps=room.keeps, slots=room.slots)

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
        reserved = [each for each in others if self._holds is not None and self._holds.held((each,), own) is None]
        taken = {pool for capacity in reserved for pool in pool_ids_of(capacity)}
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

    def _room(self, capacity: CSIStorageCapacity, pools: tuple[int, ...] | None = None) -> Room:
        return room_of(capacity, self._legacy, pools).kept_by(rules_of(self._classes.get(capacity.storage_class_name)))


class VolumeFit:
    """Judges the nodes of one cluster by one profile's rules."""

    def __init__(
        self, cluster: Cluster, args: StorageCapacityArgs, holds: CapacityHolds | None, *, is_joint: bool
    ) -> None:
        self.cluster = cluster
        self.policy = _capacity_policy(cluster, args, holds, is_joint=is_joint)
        self.unheld = _capacity_policy(cluster, args, None, is_joint=is_joint)
        """The same as if nothing were held."""
        self.holds = holds
        """The profile's holds on capacity; None if it makes none."""
        self.is_joint = is_joint
        self.index = cluster.index(CapacityIndex)
        self.static = cluster.index(StaticVolumes)
        self._undecided_rows: set[int] = set()
        """Rows refused because a decision ran out of search steps."""

    def begin(self) -> None:
        """Start a decision with new search steps; rows that the last one left undecided are judged again."""
        self.index.search.renew()
        if self._undecided_rows:
            self.cluster.note_rows(np.array(sorted(self._undecided_rows), dtype=np.intp))
            self._undecided_rows.clear()

    # -- volumes to create --------------------------------------------------------------------------------------------

    def provisioning_demand(self, claims: Sequence[PersistentVolumeClaim]) -> ProvisioningDemand:
        """What it takes to create volumes for these claims."""
        storage, groups = self.cluster.storage, self.index.groups
        units: dict[Hashable, tuple[list[str], list[int]]] = {}
        places: list[int] = []
        checks: list[tuple[TopologySelectorTerm, ...] | int | None] = []
        for number, claim in enumerate(claims):
            name, of_class = claim.class_name, storage.classes.get(claim.class_name)
            if of_class is None or of_class.provisioner in ("", NO_PROVISIONER):
                checks.append(None)
            elif of_class.allowed_topologies:
                checks.append(of_class.allowed_topologies)
            size = counted_bytes(claim, storage, is_rebuild=claim.is_bound)
            if size is None:
                places.append(-1)
                continue
            key = (groups.of(name) or name) if self.is_joint else number
            names, sizes = units.setdefault(key, ([], []))
            names.append(name)
            sizes.append(size)
            places.append(list(units).index(key))
            checks += () if self.is_joint else (places[-1],)
        if self.is_joint:  # what holds on a whole topology counts before room
            checks = [*dict.fromkeys(checks), *range(len(units))] if None not in checks else [None]
        made = []
        for names, sizes in units.values():
            name, sized = joint_name(names), self.sizes_of(zip(sizes, names, strict=True))
            made.append(ClaimGroup(name, sized, self.index.of(name).pool_policy))
        has_nodes = any(claim.selected_node for claim in claims)
        return ProvisioningDemand(tuple(claims), tuple(places), tuple(made), tuple(checks), has_nodes)

    def sizes_of(self, claims: Iterable[tuple[int, str]]) -> Sizes:
        """A group of claims, given by bytes and class; it knows their classes if these share some pools."""
        known = list(claims)
        is_linked = self.is_joint and bool(self.index.groups.ids.links) and self.index.groups.is_linked(known[0][1])
        return OwnedSizes.of(known) if is_linked else descending([size for size, _ in known])

    def has_free_volumes(self, demand: Demand) -> bool:
        return bool(demand.loose) and self.static.may_match(demand.loose)

    def may_differ(self, provisioning: ProvisioningDemand) -> bool:
        """True if some nodes may fit these volumes more surely than others; False without the gate."""
        return self.is_joint and any(map(self.has_grades, provisioning.units))

    def has_grades(self, unit: ClaimGroup) -> bool:
        """False for a single claim and for objects with one pool: such claims fit or they do not."""
        reading = self.index.of(unit.class_name).reading(self.policy)
        has_choices = reading.pools.shape[1] > 1
        return has_choices and (len(unit.sizes) > 1 or any(reading.held.values()))

    # -- judging rows -------------------------------------------------------------------------------------------------

    def refusals_of_provisioning(self, provisioning: ProvisioningDemand, rows: Rows) -> Bits:
        """By row, why these volumes cannot be created there, as bits of `REASONS`."""
        bits: Bits = np.zeros(row_count(rows), dtype=np.int64)
        if (row := only_row(rows)) >= 0 and self._passes_at(provisioning, row):
            return bits  # nearly every question: equal pods ask about the row that took the last one
        for check in provisioning.checks:
            if check is None:
                bits[bits == 0] = _BIND
            elif not isinstance(check, int):
                bits[(bits == 0) & ~in_topology(self.cluster, check, rows)] = _BIND
            else:
                unit, own = provisioning.units[check], self.own_claims(provisioning, check)
                undecided = self.index.search.undecided
                fits = self.index.of(unit.class_name).fits(self.policy, unit.sizes, rows, own)
                if count(fits) < len(fits):
                    bits[(bits == 0) & ~fits] = _SPACE
                if self.index.search.undecided != undecided:
                    self._tell_undecided(unit, own, rows, np.flatnonzero((bits == _SPACE) & ~fits), bits)
        return bits

    def _passes_at(self, provisioning: ProvisioningDemand, row: int) -> bool:
        """True if nothing refuses these volumes on one row; without arrays."""
        for check in provisioning.checks:
            if isinstance(check, int):
                if self.number_at(provisioning, check, row) == NOTHING:
                    return False
            elif check is None or not in_topology(self.cluster, check, slice(row, row + 1))[0]:
                return False
        return True

    def _tell_undecided(
        self, unit: ClaimGroup, own: Sequence[Key], rows: Rows, places: npt.NDArray[np.intp], bits: Bits
    ) -> None:
        """Mark refused rows as undecided if the search ran out of steps there."""
        objects, search, known = self.index.of(unit.class_name), self.index.search, {}
        for place, row in zip(places.tolist(), row_numbers(rows)[places].tolist(), strict=True):
            numbers = tuple(objects.numbers_at(row))
            if numbers not in known:
                undecided = search.undecided
                objects.choice_at(self.policy, unit.sizes, row, own)
                known[numbers] = search.undecided != undecided
            if known[numbers]:
                bits[place] = _ENDED
                self._undecided_rows.add(row)

    def refusals(self, demand: Demand, rows: Rows) -> Bits:
        """By row, why the node is refused, as bits of `REASONS`."""
        bits = self._bound(demand, rows)
        if not demand.is_settled:
            bits |= self._unbound(demand, rows)
        for _, shared in demand.sharers:
            # On rows without the pods that share a claim, nothing else matters.
            bits[~np.isin(row_numbers(rows), list(shared))] = _SHARED
        return bits

    def _bound(self, demand: Demand, rows: Rows) -> Bits:
        """The first claim that fails gives the reason."""
        bits: Bits = np.zeros(row_count(rows), dtype=np.int64)
        for _, volume in demand.bound:
            if volume is None:
                bits[bits == 0] = _GONE
                break
            bits[(bits == 0) & ~reachable(self.cluster, volume, rows)] = _NODE
        return bits

    def _unbound(self, demand: Demand, rows: Rows) -> Bits:
        numbers = row_numbers(rows)
        bits: Bits = np.zeros(len(numbers), dtype=np.int64)
        if demand.pinned:
            nodes = {claim.selected_node for claim in demand.pinned}
            pinned_at = self.cluster.row_of.get(nodes.pop(), -1) if len(nodes) == 1 else -1
            bits[numbers != pinned_at] = _BIND
        judged = np.flatnonzero(bits == 0)
        for provisioning, places, _ in self.provisioning_demands(demand, numbers[judged]):
            if provisioning.claims:
                bits[judged[places]] = self.refusals_of_provisioning(provisioning, numbers[judged[places]])
        return bits

    def provisioning_demands(
        self, demand: Demand, rows: Rows
    ) -> Iterator[tuple[ProvisioningDemand, npt.NDArray[np.intp], Match | None]]:
        """What must be created on which of these rows, after existing free volumes are taken."""
        match = self.static.match(demand.loose, rows) if self.has_free_volumes(demand) else None
        for rebuilds, places in _by_home(demand, rows):
            if match is None:
                yield self.to_provision(demand, demand.loose, rebuilds), places, None
                continue
            pattern = _found_on(match, places)
            for each in np.unique(pattern).tolist():
                left = [claim for place, claim in enumerate(match.claims) if not each >> place & 1]
                yield self.to_provision(demand, left, rebuilds), places[pattern == each], match

    def made_at(self, demand: Demand, row: int) -> tuple[ProvisioningDemand, Match | None]:
        """What must be created on one row, and which volumes are taken there."""
        provisioning, _, match = next(self.provisioning_demands(demand, slice(row, row + 1)))
        return provisioning, match

    def to_provision(
        self, demand: Demand, loose: Iterable[PersistentVolumeClaim], rebuilds: Iterable[Rebuild]
    ) -> ProvisioningDemand:
        """What must be created for pinned claims, these `loose` ones, and `rebuilds`."""
        rebuilt = [rebuild.claim for rebuild in rebuilds]
        return self.provisioning_demand((*demand.pinned, *by_size((*loose, *rebuilt))))

    # -- one node -----------------------------------------------------------------------------------------------------

    def plan(self, demand: Demand, row: int) -> VolumePlan:
        """What a node that passed would do: the choices behind `refusals`."""
        provisioning, match = self.made_at(demand, row)
        static = () if match is None else tuple(match.bindings(0))
        return VolumePlan(static, self.provisions(provisioning, row))

    def provisions(self, provisioning: ProvisioningDemand, row: int) -> tuple[Provision, ...]:
        """The capacity object that each new volume would be created from."""
        chosen: list[CSIStorageCapacity | None] = []
        for place, unit in enumerate(provisioning.units):
            number = self.number_at(provisioning, place, row)
            chosen.append(None if number == NOTHING else self.index.of(unit.class_name).entries[number].capacity)
        found = []
        for claim, place in zip(provisioning.claims, provisioning.places, strict=True):
            of = chosen[place] if place >= 0 else None
            found.append(Provision(claim, member_of(of, claim.class_name) if of is not None else None, claim.is_bound))
        return tuple(found)

    def number_at(self, provisioning: ProvisioningDemand, unit: int, row: int, *, is_scored: bool = False) -> int:
        """The number of the object on a row that would hold a unit, or by which it is scored; or `NOTHING`."""
        wanted, own = provisioning.units[unit], self.own_claims(provisioning, unit)
        return self.index.of(wanted.class_name).choice_at(self.policy, wanted.sizes, row, own, is_scored=is_scored)

    def own_claims(self, provisioning: ProvisioningDemand, unit: int) -> tuple[Key, ...]:
        """Claims whose own holds are ignored, because a node was selected for one of them."""
        if self.holds is None or not provisioning.has_nodes:
            return ()
        of_unit = [claim for claim, at in zip(provisioning.claims, provisioning.places, strict=True) if at == unit]
        return tuple(self.holds.own_claims(provisioning.claims, of_unit))


def _by_home(demand: Demand, rows: Rows) -> Iterator[tuple[Sequence[Rebuild], npt.NDArray[np.intp]]]:
    """Which volumes are rebuilt on which of these rows: on its home, a volume stays."""
    if not demand.rebuilds:
        yield (), np.arange(row_count(rows))
        return
    numbers = row_numbers(rows)
    is_home = np.isin(numbers, [rebuild.row for rebuild in demand.rebuilds])
    if not is_home.all():
        yield demand.rebuilds, np.flatnonzero(~is_home)
    for home in {rebuild.row for rebuild in demand.rebuilds}:
        places = np.flatnonzero(numbers == home)
        if places.size:
            yield [rebuild for rebuild in demand.rebuilds if rebuild.row != home], places


def _found_on(match: Match, places: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """By row, the claims that find a volume, as bits: rows with equal bits need the same new volumes."""
    bits = np.int64 if len(match.claims) < 63 else object  # plain integers have no limit, but are slower
    pattern = np.zeros(len(places), dtype=bits)
    for place, chosen in enumerate(match.chosen):
        pattern |= (chosen[places] >= 0).astype(bits) << place
    return pattern
