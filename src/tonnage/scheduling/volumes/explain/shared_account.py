"""What one capacity object has for a group of claims, where other classes have some of its pools (`SharedView`).

fast needs 2×60Gi of 100Gi, 60Gi and mixed needs 60Gi of 60Gi, 40Gi: they pack no way into these pools
160Gi free, 80Gi promised to batch/job-0 since …, needs 40Gi, and the driver may pick pools … (pools shared with mixed)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.volumes.capacity.class_capacity import members_of
from tonnage.scheduling.volumes.capacity.pools import Room
from tonnage.scheduling.volumes.claim_sequences import claims_in_order
from tonnage.scheduling.volumes.explain.account_entries import (
    Miss,
    Supply,
    amount,
    amounts,
    in_use,
    lack,
    lacking,
    promised_miss,
    reserved,
    slots_miss,
)
from tonnage.scheduling.volumes.packing.pool_fits import UNBOUNDED, SearchBudget, Sizes, descending
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.packing.shared_pools import SharedView, shared_places
from tonnage.scheduling.volumes.reservations.holds import Hold


@dataclass(frozen=True, slots=True)
class SharedAccount:
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
            miss = lack(room, sizes, self.search)
            if miss is not None:
                return Miss(miss.rank, miss.lacking_bytes, f"{name}: {miss.told}") if len(by_class) > 1 else miss
        if self.held is None:
            return in_use(reserved(self.holds))
        room, together = self._room(), sum(self.sizes)
        if together > sum(room.pools):
            told = f"{amount(sum(room.shown_pools))} free in {len(room.pools)} pools, needs {amount(together)} together"
            return lacking(together - sum(room.pools), told)
        if self._grade(self.view._replace(promised=())) is Grade.NONE:
            parts = [
                f"{name} needs {amounts(sizes)} of {amounts(room.shown_pools)}"
                for name, (sizes, room) in by_class.items()
            ]
            return lacking(0, f"{' and '.join(parts)}: they pack no way into these pools")
        miss = slots_miss(room, len(self.sizes), len(self.view.promised), self.holds)
        if miss is not None:
            return miss
        reached = {place for name in by_class for place in self._reach(name)}
        promised = [
            size for size, owner in self.view.promised if not reached.isdisjoint(self.view.pools.reaches[owner].places)
        ]
        return promised_miss(room, self.sizes, descending(promised), self.holds)

    def _grade(self, view: SharedView) -> Grade:
        return view.grade(self.sizes, self.class_name, self.search, with_order=True)

    def _by_class(self) -> dict[str, tuple[Sizes, Room]]:
        """By class of the group: its claims, and the pools that it reaches."""
        found: dict[str, list[int]] = {}
        for key, size in self.sized.items():
            found.setdefault(self.classes[key], []).append(size)
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
