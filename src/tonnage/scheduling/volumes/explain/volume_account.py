"""What every node would do for a pod's volumes: where the bytes of each claim come from, or why there are none.

claim       kind     of                          pools         takes    grade
shop/data   dynamic  kube-system/node-1-pools    100Gi, 60Gi   pool 0   guaranteed
shop/logs   bound    volume pv-7
shop/temp   dynamic  kube-system/node-1-pools    …             miss: largest free pool 80Gi, needs 120Gi
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tonnage.keyed import grouped
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.size_rules import problem_with_size_rules, rules_of, why_larger
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster import cluster, storage
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.capacity.class_capacity import NOTHING, class_names_in, identity, member_of, members_of
from tonnage.scheduling.volumes.capacity.pools import Room
from tonnage.scheduling.volumes.claim_sequences import claims_in_order, classes_of
from tonnage.scheduling.volumes.demand import Demand, counted_bytes, size_to_make
from tonnage.scheduling.volumes.explain import account_entries as entries
from tonnage.scheduling.volumes.explain.account_entries import ClaimAccount, Miss, NodeAccount, Supply, elsewhere
from tonnage.scheduling.volumes.packing.claim_orders import bad_order, safe_order
from tonnage.scheduling.volumes.packing.pool_fits import (
    UNBOUNDED,
    UNLIMITED,
    SearchBudget,
    Sizes,
    descending,
    place_one,
)
from tonnage.scheduling.volumes.packing.pool_grades import Grade, grade_one
from tonnage.scheduling.volumes.packing.pool_policies import ANY_POOL, PackedClaim, PoolPolicy, placed_by
from tonnage.scheduling.volumes.packing.shared_pools import SharedView, shared_places
from tonnage.scheduling.volumes.reservations.holds import Hold
from tonnage.scheduling.volumes.static_volumes import Match
from tonnage.scheduling.volumes.volume_fit import NO_PROVISIONER, ProvisioningDemand, VolumeFit
from tonnage.scheduling.volumes.volume_reach import reaches


class VolumeAccount:
    """Accounts for one demand on all nodes, as one profile's `VolumeFit` judges them."""

    def __init__(self, fit: VolumeFit, demand: Demand) -> None:
        self._fit = fit
        self._demand = demand
        self._cluster = fit.cluster
        self._storage = fit.cluster.storage
        self._attached = fit.cluster.index(AttachedVolumes)
        self._attached.catch_up()
        self._supplies: dict[tuple[str, Sizes, int, tuple[Key, ...]], Supply] = {}

    def by_row(self) -> dict[int, NodeAccount]:
        """The account of every node, by row."""
        rows = np.array(sorted(self._cluster.row_of.values()), dtype=np.intp)
        found: dict[int, NodeAccount] = {}
        for provisioning, places, match in self._fit.provisioning_demands(self._demand, rows):
            for place in places.tolist():
                row = int(rows[place])
                found[row] = self._node(row, provisioning, match, place)
        return found

    def _node(self, row: int, provisioning: ProvisioningDemand, match: Match | None, place: int) -> NodeAccount:
        rebuilt = {claim.key for claim in provisioning.claims if claim.is_bound}
        claims = []
        for claim, volume in self._demand.bound:
            if claim.key not in rebuilt:
                miss, name = self._unreachable(claim, volume, row), claim.spec.volume_name
                claims.append(ClaimAccount(claim.key, entries.BOUND, _bytes(claim), name, miss=miss))
        claims += [
            ClaimAccount(claim.key, entries.STATIC, _bytes(claim), volume.name)
            for claim, volume in (match.bindings(place) if match is not None else ())
        ]
        claims += self._made(row, provisioning, rebuilt)
        claims = [self._with_sharers(account, row) for account in claims]
        return NodeAccount(tuple(self._with_slots(claims, row)))

    def _with_sharers(self, account: ClaimAccount, row: int) -> ClaimAccount:
        """Add a miss if other pods use the claim on other nodes."""
        rows = dict(self._demand.sharers).get(account.claim)
        if rows is None or row in rows:
            return account
        told = f"a pod that shares the claim is on {', '.join(sorted(map(self._cluster.name, rows)))}"
        if not rows:
            claim = self._storage.claims.get(account.claim)
            gone = self._attached.gone_nodes_with(claim.spec.volume_name) if claim is not None else []
            told = f"a pod that shares the claim has it attached on {', '.join(gone)}, which is gone"
        return replace(account, miss=elsewhere(told))

    # -- existing volumes ---------------------------------------------------------------------------------------------

    def _unreachable(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None, row: int) -> Miss | None:
        if volume is None:
            return elsewhere(f"volume {claim.spec.volume_name} does not exist")
        is_reached = volume.spec.node_affinity.required is None or reaches(self._cluster, volume, row)
        return None if is_reached else elsewhere(f"volume {volume.name} cannot be reached from this node")

    # -- new volumes --------------------------------------------------------------------------------------------------

    def _made(self, row: int, provisioning: ProvisioningDemand, rebuilt: set[Key]) -> Iterator[ClaimAccount]:
        supplies: dict[int, Supply] = {}
        for claim, place in zip(provisioning.claims, provisioning.places, strict=True):
            is_rebuild = claim.key in rebuilt
            volume, miss = "", self._not_here(claim, row)
            if is_rebuild:
                volume = claim.spec.volume_name
                miss = self._unreachable(claim, self._storage.volumes.get(volume), row) or miss
            supply = entries.NO_SUPPLY
            if place >= 0:
                if place not in supplies:
                    supplies[place] = self._supply(row, provisioning, place)
                supply = supplies[place]
                if supply.capacity is not None:
                    supply = replace(supply, capacity=member_of(supply.capacity, claim.class_name))
            kind = entries.REBUILD if is_rebuild else entries.DYNAMIC
            size = size_to_make(claim, self._storage, is_rebuild=is_rebuild)
            sized = "" if is_rebuild else self._sized(claim)
            if miss is None and supply.miss is not None:
                miss = replace(supply.miss, told=f"{supply.miss.told} ({sized})") if sized else supply.miss
            of_class = self._storage.classes.get(claim.class_name)
            copies = of_class.volume_copies if of_class is not None else 1
            yield ClaimAccount(claim.key, kind, size, volume, supply, miss, sized=sized, copies=copies)

    def _sized(self, claim: PersistentVolumeClaim) -> str:
        """Why the driver takes another size than the claim asks for, or why the rules of its class are ignored."""
        of_class = self._storage.classes.get(claim.class_name)
        if of_class is None or claim.requested is None:
            return ""
        told = why_larger(rules_of(of_class), claim.requested.value(), is_block=claim.spec.is_block)
        problem = problem_with_size_rules(of_class)
        return told or (problem and f"the size rules of class {of_class.name} are ignored: {problem}")

    def _not_here(self, claim: PersistentVolumeClaim, row: int) -> Miss | None:
        """Why a claim's volume cannot be created on this node whatever its room; None if it can."""
        if claim in self._demand.pinned and claim.selected_node != self._cluster.name(row):
            return elsewhere(f"its volume is being made for node {claim.selected_node}")
        of_class = self._storage.classes.get(claim.class_name)
        if of_class is None or of_class.provisioner in ("", NO_PROVISIONER):
            return elsewhere(f"no free volume fits, and class {claim.class_name} makes none")
        terms = of_class.allowed_topologies
        if terms and not cluster.in_topology(self._cluster, terms, slice(row, row + 1))[0]:
            return elsewhere(f"class {of_class.name} makes no volumes here (allowedTopologies)")
        return None

    def _supply(self, row: int, provisioning: ProvisioningDemand, place: int) -> Supply:
        """The object that holds all claims of a group, or the one with the nearest miss."""
        class_name, sizes, _ = provisioning.units[place]
        objects = self._fit.index.of(class_name)
        numbers = objects.numbers_at(row)
        if not numbers:
            lacking = [each for each in class_names_in(class_name) if not self._fit.index.of(each).numbers_at(row)]
            return Supply(miss=entries.out_of_reach(" and ".join(lacking)), group=self._group(class_name))
        at_place = zip(provisioning.claims, provisioning.places, strict=True)
        claims = {claim.key: claim for claim, at in at_place if at == place}
        counted = {key: counted_bytes(claim, self._storage, is_rebuild=claim.is_bound) for key, claim in claims.items()}
        sized = {key: each for key, each in counted.items() if each is not None}
        own = self._fit.own_claims(provisioning, place)
        chosen = objects.choice_at(self._fit.policy, sizes, row, own)
        if chosen != NOTHING:
            return self._judged(class_name, sizes, sized, chosen, own, is_refused=False)
        refused = [self._judged(class_name, sizes, sized, number, own, is_refused=True) for number in numbers]
        nearest = min(refused, key=lambda supply: supply.miss or elsewhere(""))
        return replace(nearest, refused=tuple(each for each in refused if each is not nearest))

    def _judged(
        self,
        class_name: str,
        sizes: Sizes,
        sized: dict[Key, int],
        number: int,
        own: tuple[Key, ...],
        *,
        is_refused: bool,
    ) -> Supply:
        known = (class_name, sizes, number, tuple(sized))
        if known in self._supplies:  # an object that reaches many nodes
            return self._supplies[known]
        objects, policy, search = self._fit.index.of(class_name), self._fit.policy, self._fit.index.search
        reading = objects.reading(policy)
        capacity, room = objects.entries[number].capacity, reading.rooms[number]
        held = policy.held(capacity, own)
        if (view := reading.view_beside(number, own)) is not None:
            connected = self._fit.index.groups.ids.connected(members_of(capacity)[0])
            holds = tuple(hold for each in connected for hold in self._holds(each, own))
            judged = SharedAccount(
                view, class_name, sizes, sized, classes_of(self._storage, sized), holds, held, search, room.slots
            )
            found = judged.refusal(capacity) if is_refused else judged.supply(capacity)
            found = self._supplies[known] = replace(
                found, group=self._group(class_name), resting=self._resting(capacity)
            )
            return found
        promised = held or ()
        holds = self._holds(capacity, own) if held != () else ()
        group, miss, pool_policy = self._group(class_name), None, objects.pool_policy
        grade = self._grade(room, sizes, promised, pool_policy)
        is_unsure = grade in (Grade.POSSIBLE.name.lower(), Grade.ORDERED.name.lower())
        bad_order = _bad_order(room, sized, promised, pool_policy) if pool_policy not in ANY_POOL and is_unsure else ()
        if is_refused:
            miss = entries.room_miss(capacity, room, sizes, held, holds, search, pool_policy, bad_order)
            if group:
                miss = replace(miss, told=f"{miss.told} (capacity group {group})")
        order = None
        if is_unsure and not is_refused:
            order = safe_order(room.pools, descending(sized.values()), promised, search, pool_policy)
        supply = self._supplies[known] = Supply(
            capacity,
            room,
            {} if is_refused else _places(room, sized, promised, pool_policy),
            grade,
            holds[0] if held is None and holds else None,
            () if held is None else holds,
            self._resting(capacity),
            miss,
            group,
            pool_policy=pool_policy.value if self._fit.is_joint and pool_policy is not PoolPolicy.UNKNOWN else "",
            bad_order=bad_order if self._fit.is_joint else (),
            order=tuple(claims_in_order(order, sized, {})) if order is not None else (),
        )
        return supply

    def _resting(self, capacity: CSIStorageCapacity) -> tuple[Hold, ...]:
        if self._fit.holds is None:
            return ()
        members = {identity(member): member.storage_class_name for member in members_of(capacity)}
        found = [hold for name in members.values() for hold in self._fit.holds.resting(name)]
        return tuple(hold for hold in found if hold.uid in members)

    def _holds(self, capacity: CSIStorageCapacity, own: tuple[Key, ...]) -> tuple[Hold, ...]:
        """The holds that block a group: the first reservation of a member, or the promises to other claims."""
        all_holds, members = self._fit.holds, members_of(capacity)
        if all_holds is None:
            return ()
        if all_holds.keeps_whole_objects:
            members = tuple(member for member in members if all_holds.held((member,), own) is None)[:1]
            return tuple(hold for member in members for hold in all_holds.holds_on(identity(member)))
        found = {hold.claims: hold for member in members for hold in all_holds.holds_on(identity(member))}
        return tuple(hold for hold in found.values() if not set(hold.claims) & set(own))

    def _group(self, class_name: str) -> str:
        """The capacity group of a class or of joined classes; empty without the gate."""
        return self._fit.index.groups.name_of(class_names_in(class_name)[0]) if self._fit.is_joint else ""

    def _grade(self, room: Room, sizes: Sizes, promised: Sizes, pool_policy: PoolPolicy) -> str:
        """The grade of the fit, ignoring reservations; empty without the gate."""
        if not self._fit.is_joint:
            return ""
        is_too_large = not room.is_known or (sizes and sizes[0] > room.claim_limit_beside(promised))
        is_too_large = is_too_large or len(sizes) + len(promised) > room.slots
        search = self._fit.index.search
        undecided = search.undecided
        grade = Grade.NONE if is_too_large else grade_one(room.pools, sizes, promised, search, pool_policy)
        is_unknown = search.undecided != undecided and grade is Grade.NONE
        return "unknown" if is_unknown else grade.name.lower()

    # -- attach slots -------------------------------------------------------------------------------------------------

    def _with_slots(self, claims: Sequence[ClaimAccount], row: int) -> Iterator[ClaimAccount]:
        """Add the attach slots of drivers that have a limit."""
        ids = {}
        for account in claims:
            claim = self._storage.claims.get(account.claim)
            ids[account.claim] = storage.id_of_claim(claim, self._storage) if claim is not None else None
        new: dict[str, set[Any]] = {}
        for volume in ids.values():
            if volume is not None and row not in self._attached.rows_with(volume):
                new.setdefault(volume.driver, set()).add(volume)
        for account in claims:
            volume = ids[account.claim]
            if volume is None:
                yield account
                continue
            used, limit = self._attached.on(row, volume.driver)
            slots = entries.Slots(volume.driver, used, limit, len(new.get(volume.driver, ())))
            yield account if limit is None else replace(account, slots=slots)


def _bytes(claim: PersistentVolumeClaim) -> int | None:
    return claim.requested.value() if claim.requested is not None else None


def _places(room: Room, sized: dict[Key, int], promised: Sizes, pool_policy: PoolPolicy) -> dict[Key, int]:
    """By claim, the position of its pool in a packing on top of promised claims. Prefers the driver's own choices,
    largest claim first, if its policy is known and all claims find room."""
    if room.pools and room.pools[0] >= UNBOUNDED:
        return dict.fromkeys(sized, 0)
    claims = sorted(sized, key=lambda key: -sized[key])
    if pool_policy not in ANY_POOL:
        by_driver = _as_the_driver_does(room.pools, (*promised, *(sized[key] for key in claims)), pool_policy)
        if by_driver is not None:
            return dict(zip(claims, by_driver[len(promised) :], strict=True))
    free = list(room.pools)
    for place, size in zip(place_one(room.pools, promised) or (), promised, strict=False):
        free[place] -= size
    order = sorted(range(len(free)), key=lambda place: -free[place])
    placed = place_one([free[place] for place in order], tuple(sized[key] for key in claims))
    return {key: order[place] for key, place in zip(claims, placed or (), strict=False)}


def _as_the_driver_does(pools: Sequence[int], sizes: Sequence[int], pool_policy: PoolPolicy) -> list[int] | None:
    """The positions of the pools that a driver chooses for claims in this order; None if a claim finds no room."""
    free, found = list(pools), []
    for size in sizes:
        place = placed_by(pool_policy, tuple(free), size)
        if place is None:
            return None
        free[place] -= size
        found.append(place)
    return found


def _bad_order(room: Room, sized: dict[Key, int], promised: Sizes, pool_policy: PoolPolicy) -> tuple[PackedClaim, ...]:
    """An order in which a claim finds no room, with the pod's claims by name (any name among equal sizes)."""
    left, found = dict(sized), []
    for step in bad_order(room.pools, descending((*sized.values(), *promised)), pool_policy, UNLIMITED):
        name = next((key for key, size in left.items() if size == step.size), "")
        left.pop(name, None)
        found.append(step._replace(claim=name))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class SharedAccount:
    """What one object has for a group of claims, where other classes have some of its pools.

    fast needs 2×60Gi of 100Gi, 60Gi and mixed needs 60Gi of 60Gi, 40Gi: they pack no way into these pools
    160Gi free, 80Gi promised to batch/job-0 since …, needs 40Gi, and the driver … (pools shared with mixed)
    """

    view: SharedView
    class_name: str
    sizes: Sizes
    sized: Mapping[Key, int]
    classes: Mapping[Key, str]
    holds: Sequence[Hold]
    """On the object and on all that are connected with it."""
    held: Sizes | None
    search: SearchBudget
    slots: int = UNBOUNDED
    """How many volumes can still be made from the object."""

    def supply(self, capacity: CSIStorageCapacity) -> Supply:
        grade = self._grade(self.view)
        order = self.view.order(self.sizes, self.class_name, self.search) if grade is Grade.ORDERED else None
        return Supply(
            capacity,
            self._room(),
            self._takes(),
            grade.name.lower(),
            promised=tuple(self.holds),
            shares=self._others(capacity),
            order=tuple(claims_in_order(order, self.sized, self.classes)) if order is not None else (),
        )

    def refusal(self, capacity: CSIStorageCapacity) -> Supply:
        miss, others = self._miss(), self._others(capacity)
        if others:
            miss = Miss(miss.rank, miss.lacking_bytes, f"{miss.told} (pools shared with {', '.join(others)})")
        first = self.holds[0] if self.held is None and self.holds else None
        promised = () if self.held is None else tuple(self.holds)
        return Supply(capacity, self._room(), {}, "none", first, promised, miss=miss, shares=others)

    def _miss(self) -> Miss:
        by_class = self._by_class()
        for name, (sizes, room) in by_class.items():
            miss = entries.lack(room, sizes, self.search)
            if miss is not None:
                return Miss(miss.rank, miss.lacking_bytes, f"{name}: {miss.told}") if len(by_class) > 1 else miss
        if self.held is None:
            return entries.in_use(entries.reserved(self.holds))
        room, together = self._room(), sum(self.sizes)
        if together > sum(room.pools):
            free, needed = entries.amount(sum(room.shown_pools)), entries.amount(together)
            told = f"{free} free in {len(room.pools)} pools, needs {needed} together"
            return entries.lacking(together - sum(room.pools), told)
        if self._grade(self.view._replace(promised=())) is Grade.NONE:
            parts = [
                f"{name} needs {entries.amounts(sizes)} of {entries.amounts(room.shown_pools)}"
                for name, (sizes, room) in by_class.items()
            ]
            return entries.lacking(0, f"{' and '.join(parts)}: they pack no way into these pools")
        miss = entries.slots_miss(room, len(self.sizes), len(self.view.promised), self.holds)
        if miss is not None:
            return miss
        reached, reaches = set(self._places()), self.view.pools.reaches
        promised = [size for size, owner in self.view.promised if not reached.isdisjoint(reaches[owner].places)]
        return entries.promised_miss(room, self.sizes, descending(promised), self.holds)

    def _grade(self, view: SharedView) -> Grade:
        return view.grade(self.sizes, self.class_name, self.search, with_order=True)

    def _by_class(self) -> dict[str, tuple[Sizes, Room]]:
        """By class of the group: its claims, and the pools that it reaches."""
        found = grouped((self.classes[key], size) for key, size in self.sized.items())
        reaches, owners = self.view.pools.reaches, self.view.owners
        limits = {name: reaches[owners[name]].limit for name in found}
        return {
            name: (descending(sizes), Room(self._pools(self._reach(name)), limits[name], keeps=self.view.keeps))
            for name, sizes in sorted(found.items())
        }

    def _reach(self, name: str) -> tuple[int, ...]:
        return self.view.pools.reaches[self.view.owners[name]].places

    def _places(self) -> list[int]:
        return sorted({place for name in set(self.classes.values()) for place in self._reach(name)})

    def _pools(self, places: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.view.pools.free[place] for place in places)

    def _room(self) -> Room:
        """The pools that the group's classes reach."""
        return Room(self._pools(self._places()), keeps=self.view.keeps, slots=self.slots)

    def _takes(self) -> dict[Key, int]:
        pieces, shown = self.view.pieces(self.sizes, self.class_name) or (), self._places()
        places = shared_places(self.view.pools, pieces, self.view.promised, self.search) or ()
        left, found = dict(self.sized), dict[Key, int]()
        for (size, owner), place in zip(pieces, places, strict=False):
            key = next(
                key for key, each in left.items() if each == size and self.view.owners[self.classes[key]] == owner
            )
            del left[key]
            found[key] = shown.index(place)
        return found

    def _others(self, capacity: CSIStorageCapacity) -> tuple[str, ...]:
        """The other classes that reach some of these pools."""
        mine, reached = {member.storage_class_name for member in members_of(capacity)}, set(self._places())
        return tuple(
            name
            for name, owner in sorted(self.view.owners.items())
            if name not in mine and not reached.isdisjoint(self.view.pools.reaches[owner].places)
        )
