"""What the capacity objects of one class say, as columns: how one profile reads their figures and what is held of them.

One row of the table is one object: its pools in bytes, largest first, how large a claim may be, what is kept of it.
How the figures are read depends on the profile (`legacyPools`, the gate), and so does what is held (`reservation`); a
`CapacityPolicy` is both. Objects are judged once for all nodes they reach; `class_capacity.py` knows which those are.

Promises of the ledger are in the driver's hands: where they leave so much room that its choices do not matter, which is
nearly everywhere, that is seen for all objects at once; of the others it is kept what its choices may leave
(`packing.left_by_promises`), and groups are compared with all of that in one table.

What all objects say to a group is kept, and those that changed are asked again (`object_answers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.columns import Changes, Ints, Mask, grown
from tonnage.scheduling.volumes import packing
from tonnage.scheduling.volumes.capacity.object_answers import ObjectAnswers
from tonnage.scheduling.volumes.capacity.pools import Room
from tonnage.scheduling.volumes.capacity.promised_columns import (
    HALF,
    are_seen_to_fit,
    have_room_to_spare,
    have_the_bytes,
)
from tonnage.scheduling.volumes.packing import (
    MOST_BYTES,
    NO_POOL,
    UNLIMITED,
    Grade,
    Grades,
    PoolPolicy,
    SearchBudget,
    Sizes,
)

_MOST_ROWS_LEFT = 1 << 19
"""So many rows of what promises may leave are kept of a class's objects: 16 MB with four pools each."""

Numbers = slice | npt.NDArray[np.intp]
"""Objects by their numbers. A number that is none, -1, may be among them: what is told of it means nothing."""


@dataclass(frozen=True, eq=False)
class CapacityPolicy:
    """How one profile reads capacity objects and what it takes to be held of them.

    `promised` gives the bytes promised of an object (mode Ledger), but for those to some claims, `is_reserved` whether
    it is out of bounds for these claims (mode Object); both by the object as it is now. `scores_best`: where several
    objects of a class would do, the one with most free bytes is scored, and not the first.
    """

    room_of: Callable[[CSIStorageCapacity], Room]
    scored_bytes: Callable[[CSIStorageCapacity], int]
    is_reserved: Callable[[CSIStorageCapacity, Collection[Key]], bool] | None = None
    promised: Callable[[CSIStorageCapacity, Collection[Key]], Sizes] | None = None
    must_be: Grade = Grade.POSSIBLE
    scores_best: bool = False


@dataclass(frozen=True, slots=True)
class HeldByOthers:
    """What is held of objects but for the claims that are asked about, by the objects' numbers."""

    promised: Callable[[int], Sizes]
    is_reserved: Callable[[int], bool]


class Reading:
    """A class's objects as one policy reads them."""

    def __init__(self, policy: CapacityPolicy, objects: int, search: SearchBudget = UNLIMITED) -> None:
        self.policy = policy
        self.search = search
        """The steps that a decision has for searching, over all its objects of all classes."""
        self.pool_policy = PoolPolicy.UNKNOWN
        """Which pool the driver takes for a volume."""
        self.rooms: list[Room] = [Room(())] * objects
        self.pools = _no_pools(objects, 1)
        self.is_unbounded: Mask = np.zeros(objects, dtype=np.bool_)
        """Objects with a pool that never fills up; its column says `MOST_BYTES`, for want of more."""
        self.has_unbounded = False
        self.limits: Ints = np.full(objects, MOST_BYTES, dtype=np.int64)
        self.limits_beside = self.limits.copy()
        """The same beside what is promised."""
        self.told: list[int] = [0] * objects
        """The free bytes that scores are made of, as the objects say."""
        self.scored: Ints = np.zeros(objects, dtype=np.int64)
        """The same less what is promised."""
        self.is_limited = False
        """Some object has a limit for single claims."""
        self.is_reserved: Mask = np.zeros(objects, dtype=np.bool_)
        self.promised: dict[int, Sizes] = {}
        """By number, what is promised of an object, largest first; those of which nothing is are not there."""
        self._left: dict[int, packing.Left | None] = {}
        """By number, what may be left of the pools of an object with promises, where somebody asked."""
        self._rows_left = 0
        self.promised_bytes: Ints = np.zeros(objects, dtype=np.int64)
        self.largest_promised: Ints = np.zeros(objects, dtype=np.int64)
        self._known: dict[int, tuple[Sizes, bool]] = {}
        """By number, the group that an object was last asked about, and the answer; gone when the object changes."""
        self._changes = Changes(objects)
        self._fitting = ObjectAnswers(
            np.bool_,
            self._changes,
            search,
            ask=lambda numbers, sizes, _: self.fits(numbers, sizes),
            ask_one=self.fits_one,
        )
        self._graded = {
            with_order: ObjectAnswers(
                np.int8,
                self._changes,
                search,
                ask=partial(self._grades_of_fitting, with_order=with_order),
                ask_one=partial(self._grade_if_fitting, with_order=with_order),
            )
            for with_order in (False, True)
        }
        """Grades with ORDERED told apart from POSSIBLE, and without."""

    def grow(self, objects: int) -> None:
        self.told += [0] * (objects - len(self.told))
        self.rooms += [Room(())] * (objects - len(self.rooms))
        self._widen_pools(objects, self.pools.shape[1])
        self.limits, self.scored = grown(self.limits, objects), grown(self.scored, objects)
        self.limits_beside = grown(self.limits_beside, objects)
        self.is_reserved, self.is_unbounded = grown(self.is_reserved, objects), grown(self.is_unbounded, objects)
        self.promised_bytes = grown(self.promised_bytes, objects)
        self.largest_promised = grown(self.largest_promised, objects)
        self._changes.grow(objects)

    def _widen_pools(self, objects: int, pools: int) -> None:
        self._forget_all_left()  # tables of as many pools
        wider = _no_pools(objects, pools)
        wider[: self.pools.shape[0], : self.pools.shape[1]] = self.pools
        self.pools = wider

    def write(self, number: int, capacity: CSIStorageCapacity | None) -> None:
        """Bring one object's row to what it says; None blanks it."""
        room = self.policy.room_of(capacity) if capacity is not None else Room(())
        if len(room.pools) > self.pools.shape[1]:
            self._widen_pools(len(self.pools), len(room.pools))
        self.rooms[number] = room
        self.pools[number] = NO_POOL
        self.pools[number, : len(room.pools)] = [max(min(pool, MOST_BYTES), NO_POOL) for pool in room.pools]
        self.is_unbounded[number] = bool(room.pools) and room.pools[0] >= packing.UNBOUNDED
        self.has_unbounded = self.has_unbounded or bool(self.is_unbounded[number])
        self.limits[number] = min(room.claim_limit, MOST_BYTES)
        self.told[number] = self.policy.scored_bytes(capacity) if capacity is not None else 0
        self.is_limited = self.is_limited or min(room.claim_limit, room.free_bytes) < packing.UNBOUNDED
        self.write_holds(number, capacity)

    def write_holds(self, number: int, capacity: CSIStorageCapacity | None) -> None:
        policy = self.policy
        self._changes.note(number)
        self._known.pop(number, None)
        if self._left:
            self._forget_left(number)
        if policy.is_reserved is not None:
            self.is_reserved[number] = capacity is not None and policy.is_reserved(capacity, ())
        promised: Sizes = ()
        if policy.promised is not None:
            promised = policy.promised(capacity, ()) if capacity is not None else ()
            if promised:
                self.promised[number] = promised
            else:
                self.promised.pop(number, None)
            self.promised_bytes[number] = min(sum(promised), MOST_BYTES)
            self.largest_promised[number] = promised[0] if promised else 0
        self.scored[number] = self.scored_beside(number, promised)
        self.limits_beside[number] = min(self.rooms[number].claim_limit_beside(promised), MOST_BYTES)

    def choose_by(self, pool_policy: PoolPolicy) -> None:
        """The driver picks pools like this from now on: what was said before need not hold."""
        self.pool_policy = pool_policy
        self._known.clear()
        self._forget_all_left()
        self._fitting.clear()
        for answers in self._graded.values():
            answers.clear()

    def scored_beside(self, number: int, promised: Sizes) -> int:
        """The free bytes that a score is made of, less what is promised."""
        return max(self.told[number] - sum(promised), 0) if promised else self.told[number]

    def scored_by_object(self, others: HeldByOthers | None) -> Ints:
        """By number, the free bytes that scores are made of, less what is promised to `others` than those who ask."""
        if others is None or not self.promised:
            return self.scored
        found = self.scored.copy()
        for number in self.promised:
            found[number] = self.scored_beside(number, others.promised(number))
        return found

    # -- judging ------------------------------------------------------------------------------------------------------

    def fitting(self, sizes: Sizes, objects: int) -> Mask:
        """Which of the first so many objects hold a group, by number, and a no for number -1. To be read at once."""
        return self._fitting.of(sizes, objects)

    def graded(self, sizes: Sizes, objects: int, *, with_order: bool = True) -> Grades:
        """How sure a group's fit is on each of them; NONE for those that do not hold it, and for number -1."""
        return self._graded[with_order].of(sizes, objects)

    def graded_of(
        self, numbers: npt.NDArray[np.intp], sizes: Sizes, objects: int, *, with_order: bool = True
    ) -> Grades:
        """The same of some objects."""
        return self._graded[with_order].of_some(numbers, sizes, objects)

    def _grades_of_fitting(self, numbers: Numbers, sizes: Sizes, objects: int, *, with_order: bool) -> Grades:
        found = self.grades(numbers, sizes, with_order=with_order)
        found[~self.fitting(sizes, objects)[numbers]] = Grade.NONE
        return found

    def _grade_if_fitting(self, number: int, sizes: Sizes, *, with_order: bool) -> Grade:
        return self.grade_of(number, sizes, with_order=with_order) if self.fits_one(number, sizes) else Grade.NONE

    def fits_one(self, number: int, sizes: Sizes, others: HeldByOthers | None = None) -> bool:
        """Does a group fit one object, beside what is held of it? In plain numbers, for the row that changed.

        A decision asks three times about the row that took the pod before: to judge it, to score it, to plan.
        """
        if others is not None:
            return self._fits_beside(number, sizes, others)
        known = self._known.get(number)
        if known is not None and known[0] == sizes:
            return known[1]
        undecided = self.search.undecided
        found = self._fits_beside(number, sizes, None)
        if self.search.undecided == undecided:
            self._known[number] = (sizes, found)
        return found

    def _fits_beside(self, number: int, sizes: Sizes, others: HeldByOthers | None) -> bool:
        room = self.rooms[number]
        if self.is_reserved.item(number) and (others is None or others.is_reserved(number)):
            return False
        promised = self.promised.get(number, ())
        if promised and others is not None:
            promised = others.promised(number)
        if not room.pools or (sizes and sizes[0] > room.claim_limit_beside(promised)):
            return False
        if self.policy.must_be is Grade.GUARANTEED:
            together = packing.descending(sizes + promised) if promised else sizes
            return packing.is_guaranteed(room.pools, together, self.search, self.pool_policy)
        if promised:
            return packing.fits_beside_one(room.pools, sizes, promised, self.search, self.pool_policy)
        return packing.fits_one(room.pools, sizes, self.search)

    def grade_of(
        self, number: int, sizes: Sizes, others: HeldByOthers | None = None, *, with_order: bool = True
    ) -> Grade:
        room, promised = self.rooms[number], self.promised.get(number, ())
        if promised and others is not None:
            promised = others.promised(number)
        if not room.pools or (sizes and sizes[0] > room.claim_limit_beside(promised)):
            return Grade.NONE
        return packing.grade_one(room.pools, sizes, promised, self.search, self.pool_policy, with_order=with_order)

    def fits(self, numbers: Numbers, sizes: Sizes, others: HeldByOthers | None = None) -> Mask:
        """Which of these objects hold a group, beside what is held of them, or of that only what is by `others`."""
        fits = self._fits_room(numbers, sizes, self.limits_beside if others is None else self.limits)
        if self.policy.is_reserved is not None:
            fits &= ~self._is_reserved(numbers, fits, others)
        if self.policy.must_be is Grade.GUARANTEED and len(sizes) > 1:
            self._keep_guaranteed(numbers, sizes, fits)
        if self.promised:
            self._keep_beside_promises(numbers, sizes, fits, others)
        return fits

    def _keep_beside_promises(self, numbers: Numbers, sizes: Sizes, fits: Mask, others: HeldByOthers | None) -> None:
        """Leave out objects that do not hold a group beside what is promised; those without promises are not looked at.

        Promises are few beside the objects there are: what is promised was asked for since the last refresh.
        """
        open_idx = np.flatnonzero(fits & (self.promised_bytes[numbers] > 0))
        if others is None:
            promised_of = _numbers_at(numbers, open_idx)
            is_sure = fits[open_idx] = self._is_sure(promised_of, sizes)
            # Of a single pool, promises are plain subtraction: what is not sure does not fit.
            is_many = (self.pools[promised_of, 1] != NO_POOL) if self.pools.shape[1] > 1 else np.False_
            open_idx = open_idx[~is_sure & (is_many | (self.promised_bytes[promised_of] >= MOST_BYTES))]
            open_of = _numbers_at(numbers, open_idx)
            open_idx = open_idx[have_the_bytes(self.pools[open_of], self.promised_bytes[open_of], sizes)]
            if self.policy.must_be is not Grade.GUARANTEED and open_idx.size:
                is_seen = are_seen_to_fit(*self._promised_columns(_numbers_at(numbers, open_idx)), sizes)
                fits[open_idx[is_seen]] = True
                open_idx = open_idx[~is_seen]
        known: list[int] = []
        tables: list[packing.Left] = []
        for place, number in zip(open_idx.tolist(), _numbers_at(numbers, open_idx).tolist(), strict=True):
            left = self._left_by_promises(number) if others is None else None
            if left is not None:
                known.append(place)
                tables.append(left)
            else:
                fits[place] = self.fits_one(number, sizes, others)
        if tables:
            self._keep_within(tables, np.array(known), numbers, sizes, fits)

    def _left_by_promises(self, number: int) -> packing.Left | None:
        """What may be left of an object's pools, see `packing.left_by_promises`, as wide as the table; or None."""
        if number in self._left:
            return self._left[number]
        found: packing.Left | None = None
        undecided = self.search.undecided
        if self.policy.must_be is not Grade.GUARANTEED:  # else it is not enough to fit
            pools = self.rooms[number].pools
            found = packing.left_by_promises(pools, self.promised[number], self.search, self.pool_policy)
            if found is not None and len(pools) < self.pools.shape[1]:
                rows = np.full((len(found.rows), self.pools.shape[1]), NO_POOL, dtype=np.int64)
                rows[:, : len(pools)] = found.rows
                found = packing.Left(rows, found.is_exact)
        if self.search.undecided == undecided:
            self._left[number] = found
            self._rows_left += len(found.rows) if found is not None else 0
            while self._rows_left > _MOST_ROWS_LEFT:
                self._forget_left(next(iter(self._left)))
        return found

    def _forget_all_left(self) -> None:
        self._left.clear()
        self._rows_left = 0

    def _forget_left(self, number: int) -> None:
        left = self._left.pop(number, None)
        self._rows_left -= len(left.rows) if left is not None else 0

    def _keep_within(
        self, tables: list[packing.Left], places: npt.NDArray[np.intp], numbers: Numbers, sizes: Sizes, fits: Mask
    ) -> None:
        """Of objects at these places leave out those of which not all that may be left holds a group. Nearly all is
        settled in one table; where that cannot say, the object is asked by itself."""
        counts = np.array([len(each.rows) for each in tables])
        holds = packing.fits_at_a_glance(np.concatenate([each.rows for each in tables]), sizes)
        failing = np.bincount(np.repeat(np.arange(len(tables)), counts)[~holds], minlength=len(tables))
        fits[places] = (counts > 0) & (failing == 0)
        is_final = np.array([each.is_exact for each in tables]) & (len(sizes) <= packing.FEW_CLAIMS)
        for place in places[(failing > 0) & ~is_final].tolist():
            fits[place] = self.fits_one(_number_at(numbers, place), sizes)

    def fits_unheld(self, numbers: Numbers, sizes: Sizes) -> Mask:
        """Which of these objects would hold a group if nothing were held of them."""
        fits = self._fits_room(numbers, sizes, self.limits)
        if self.policy.must_be is Grade.GUARANTEED and len(sizes) > 1:
            self._keep_guaranteed(numbers, sizes, fits)
        return fits

    @property
    def has_holds(self) -> bool:
        """Something is held of some object."""
        return bool(self.promised) or (self.policy.is_reserved is not None and bool(self.is_reserved.any()))

    def is_held(self, numbers: npt.NDArray[np.intp]) -> Mask:
        """Of which of these objects something is held."""
        return self.is_reserved[numbers] | (self.promised_bytes[numbers] > 0)

    def _fits_room(self, numbers: Numbers, sizes: Sizes, limits: Ints) -> Mask:
        """Which of these objects have the room, whoever else it is held for."""
        fits = packing.fits(self.pools[numbers], sizes, self.search)
        if self.has_unbounded:
            fits |= self.is_unbounded[numbers]
        if self.is_limited and sizes:
            fits &= limits[numbers] >= sizes[0]
        return fits

    def _keep_guaranteed(self, numbers: Numbers, sizes: Sizes, fits: Mask) -> None:
        certain = np.flatnonzero(fits & ~self.is_unbounded[numbers])
        pools = self.pools[numbers][certain]
        found = packing.grades(pools, sizes, self.search, self.pool_policy, with_order=False)
        fits[certain] = found == Grade.GUARANTEED

    def _is_reserved(self, numbers: Numbers, fits: Mask, others: HeldByOthers | None) -> Mask:
        """Which objects are out of bounds; where claims have a reservation of their own, asked of those that fit."""
        is_reserved: Mask = self.is_reserved[numbers]
        if others is None:
            return is_reserved
        is_reserved = is_reserved.copy()
        for place in np.flatnonzero(is_reserved & fits).tolist():
            is_reserved[place] = others.is_reserved(_number_at(numbers, place))
        return is_reserved

    def grades(self, numbers: Numbers, sizes: Sizes, *, with_order: bool = True) -> npt.NDArray[np.int8]:
        """How sure a group's fit is on each of these objects."""
        pools = self.pools[numbers]
        found = packing.grades(pools, sizes, self.search, self.pool_policy, with_order=with_order)
        if self.has_unbounded:
            found[self.is_unbounded[numbers]] = Grade.GUARANTEED
        if self.promised:
            open_idx = np.flatnonzero(self.promised_bytes[numbers] > 0)
            promised_of = _numbers_at(numbers, open_idx)
            is_sure = self._is_sure(promised_of, sizes)
            found[open_idx[is_sure]] = Grade.GUARANTEED
            for place, number in zip(open_idx[~is_sure].tolist(), promised_of[~is_sure].tolist(), strict=True):
                found[place] = self.grade_of(number, sizes, with_order=with_order)
        return found

    def _is_sure(self, numbers: npt.NDArray[np.intp], sizes: Sizes) -> Mask:
        """Which objects hold a group and all that is promised, whatever the driver does. A no decides nothing.

        With T bytes in all and c the largest claim, either of these is enough (`pool_grades.py` says why):

            largest pool >= T          sum over pools of max(pool - c + 1, 0) > T - c

        The first is seen at a glance and settles nearly all; the second is asked of the others.
        """
        promised, asked = self.promised_bytes[numbers], sum(sizes)
        # A sum of promises that stopped at 64 bits may be more than it says. Of less, differences stay within 64 bits.
        is_sure: Mask = (self.pools[numbers, 0] - promised >= asked) & (promised < MOST_BYTES)
        if self.has_unbounded:
            is_sure |= self.is_unbounded[numbers]
        if self.pools.shape[1] > 1 and asked < HALF:
            left_idx = np.flatnonzero(~is_sure)
            if left_idx.size:
                is_sure[left_idx] = have_room_to_spare(*self._promised_columns(numbers[left_idx]), sizes)
        return is_sure

    def _promised_columns(self, numbers: npt.NDArray[np.intp]) -> tuple[Ints, Ints, Ints]:
        return self.pools[numbers], self.promised_bytes[numbers], self.largest_promised[numbers]


def _no_pools(objects: int, pools: int) -> Ints:
    """[O, P] in the order of columns: the largest pools of all objects are asked about most, and lie together."""
    return np.full((objects, pools), NO_POOL, dtype=np.int64, order="F")


def _number_at(numbers: Numbers, place: int) -> int:
    return numbers.start + place if isinstance(numbers, slice) else int(numbers[place])


def _numbers_at(numbers: Numbers, places: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    found: npt.NDArray[np.intp] = numbers.start + places if isinstance(numbers, slice) else numbers[places]
    return found
