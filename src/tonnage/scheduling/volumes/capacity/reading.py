"""What the capacity objects of one class say to groups of claims: columns of figures, and a memo of verdicts.

One table row is one object: its pools in bytes, largest first, the largest claim, and its holds. A profile's
`CapacityPolicy` decides how objects are read. A verdict is kept until its object changes. The driver decides where
promised claims go: nearly everywhere there is so much room that its choice does not matter, which is checked for all
objects at once; the other objects are compared with all possible outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Final

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.columns import Ints, Mask, grown
from tonnage.scheduling.volumes.capacity.pools import NO_ROOM, Room
from tonnage.scheduling.volumes.packing.pool_fits import (
    FEW_CLAIMS,
    MOST_BYTES,
    NO_POOL,
    UNBOUNDED,
    UNLIMITED,
    Ints2D,
    SearchBudget,
    Sizes,
    descending,
    fits,
    fits_at_a_glance,
)
from tonnage.scheduling.volumes.packing.pool_grades import (
    Grade,
    Grades,
    Left,
    are_seen_to_fit,
    fits_beside_one,
    grade_one,
    grades,
    have_room_to_spare,
    have_the_bytes,
    is_guaranteed,
    left_by_promises,
)
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.scheduling.volumes.packing.shared_pools import SharedView

REMEMBERED: Final = 32
"""Questions whose answers are kept; a workload has few kinds of pods at a time."""
_FEW: Final = 16
"""Up to this many objects are judged one by one: a dozen array operations cost more."""
_UNKNOWN: Final = -1
_GRADES: Final = tuple(Grade)
_NO_CLAIM: Final = -1
_COLUMNS: Final = np.dtype(
    [
        ("is_held", np.bool_),
        ("is_shared", np.bool_),  # in `Reading.shared`
        ("is_unbounded", np.bool_),  # it has an unlimited pool, of which the table of pools shows `MOST_BYTES`
        ("limit", np.int64),  # the largest claim
        ("limit_beside", np.int64),  # the largest claim on top of promises; `_NO_CLAIM` if the object is reserved
        ("slots", np.int64),  # how many volumes can still be made
        ("slots_beside", np.int64),  # the same beside those that are promised
        ("promised", np.int64),
        ("largest_promised", np.int64),
        ("scored", np.int64),  # the free bytes that scores use, less promises
    ]
)
Numbers = npt.NDArray[np.intp]
"""Object numbers. -1 (`NOTHING`) is allowed: it is the last place of the table, which is kept blank."""
Held = Sizes | None
"""The holds on an object: promised bytes, descending (mode Ledger); None if all of it is reserved (mode Object)."""


@dataclass(frozen=True, eq=False)
class CapacityPolicy:
    """How one profile reads capacity objects. `held`: the current holds on an object, except those of given claims."""

    room_of: Callable[[CSIStorageCapacity], Room]
    scored_bytes: Callable[[CSIStorageCapacity], int]
    held: Callable[[CSIStorageCapacity, Collection[Key]], Held] = lambda capacity, own: ()
    must_be: Grade = Grade.POSSIBLE
    shared: Callable[[CSIStorageCapacity, Collection[Key]], SharedView | None] = lambda capacity, own: None
    """An object together with those that have some of its pools, if promises on them have to be told apart by pool."""
    scores_best: bool = False
    """If several objects of a class fit, score the one with the most free bytes, not the first."""


class Question(IntEnum):  # half of every memo's key: numbers have a hash without a call
    """A question to an object about a group of claims. The answer is a grade; for the FITS ones, NONE means no."""

    FITS = auto()
    FITS_UNHELD = auto()
    """Would the group fit if nothing were held?"""
    GRADE = auto()
    """Answers POSSIBLE instead of ORDERED."""
    GRADE_WITH_ORDER = auto()


class Reading:
    """The objects of a class as one policy reads them."""

    def __init__(self, policy: CapacityPolicy, objects: int, search: SearchBudget = UNLIMITED) -> None:
        self.policy = policy
        self.search = search
        """The search steps of a decision, shared by all objects of all classes."""
        self.pool_policy = PoolPolicy.UNKNOWN
        self.rooms: list[Room] = []
        self.held: dict[int, Held] = {}
        """Holds by object number; objects without holds are missing."""
        self.shared: dict[int, SharedView] = {}
        """Objects that must be judged pool by pool, with others, by object number."""
        self._capacities: list[CSIStorageCapacity | None] = []
        self._told_bytes: list[int] = []
        """By object, the free bytes that scores use, as published."""
        self.pools = _no_pools(0, 1)
        self._has_slots = False
        """True if an object has, or had, a limited number of volumes."""
        self._table: npt.NDArray[np.void] = np.zeros(0, dtype=_COLUMNS)
        self._memo: dict[tuple[Question, Sizes], Grades] = {}
        """Answers by object number; most recently used last."""
        self._grow(objects)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _grow(self, objects: int) -> None:
        """Make room for `objects` objects."""
        more = objects - len(self.rooms)
        self.rooms += [NO_ROOM] * more
        self._capacities += [None] * more
        self._told_bytes += [0] * more
        self._table = grown(self._table, objects)
        self._widen_pools(objects, self.pools.shape[1])
        self._memo.clear()

    def _widen_pools(self, objects: int, pools: int) -> None:
        wider = _no_pools(objects, pools)
        wider[: self.pools.shape[0], : self.pools.shape[1]] = self.pools
        self.pools = wider

    def write(self, number: int, capacity: CSIStorageCapacity | None) -> None:
        """Write an object's figures and holds into its row; None blanks the row."""
        if number + 1 >= len(self.rooms):
            self._grow(2 * len(self.rooms))
        room = self.policy.room_of(capacity) if capacity is not None else NO_ROOM
        if len(room.pools) > self.pools.shape[1]:
            self._widen_pools(len(self.pools), len(room.pools))
        self._capacities[number], self.rooms[number] = capacity, room
        self.pools[number] = NO_POOL
        if room.pools:
            self.pools[number, : len(room.pools)] = [max(min(pool, MOST_BYTES), NO_POOL) for pool in room.pools]
        self._has_slots |= room.slots < UNBOUNDED
        self._told_bytes[number] = self.policy.scored_bytes(capacity) if capacity is not None else 0
        self.write_holds(number)

    def write_holds(self, number: int) -> None:
        """Write what is held of an object now into its row."""
        capacity, room = self._capacities[number], self.rooms[number]
        held: Held = ()
        view = None
        if capacity is not None:
            held, view = self.policy.held(capacity, ()), self.policy.shared(capacity, ())
        if view is None:
            self.shared.pop(number, None)
        else:
            self.shared[number] = view
            if held is not None:
                held = descending(size for size, _ in view.promised)
        is_held = held != () or view is not None
        if is_held:
            self.held[number] = held
        else:
            self.held.pop(number, None)
        promised, slots = held or (), min(room.slots, MOST_BYTES)
        self._table[number] = (  # in the order of `_COLUMNS`
            is_held,
            view is not None,
            bool(room.pools) and room.pools[0] >= UNBOUNDED,
            min(room.claim_limit, MOST_BYTES),
            min(room.claim_limit_beside(promised), MOST_BYTES) if held is not None else _NO_CLAIM,
            slots,
            slots - len(promised),
            min(sum(promised), MOST_BYTES),
            promised[0] if promised else 0,
            self._scored_beside(number, promised),
        )
        for answers in self._memo.values():
            answers[number] = _UNKNOWN

    def choose_by(self, pool_policy: PoolPolicy) -> None:
        """Set how the driver chooses pools, and forget all answers."""
        self.pool_policy = pool_policy
        self._memo.clear()

    # -- asking -------------------------------------------------------------------------------------------------------

    def says(self, question: Question, sizes: Sizes, numbers: Numbers, own: Collection[Key] = ()) -> Grades:
        """The answers of these objects to a group (`sizes` descending); NONE for `NOTHING`. Ignores holds of `own`."""
        answers = self._answers(question, sizes)
        found = answers[numbers]
        unknown = numbers[found == _UNKNOWN]
        if len(unknown):
            undecided, is_asked = self.search.undecided, np.zeros(len(answers), dtype=np.bool_)
            is_asked[unknown] = True
            asked = is_asked.nonzero()[0]
            answers[asked] = self._verdicts(question, sizes, asked)
            found = answers[numbers]
            if self.search.undecided != undecided:  # a search with more steps may answer otherwise: do not keep
                answers[asked] = _UNKNOWN
        if own and self.held:
            anew: dict[int, Grade] = {}
            places = np.flatnonzero(self.is_held(numbers))
            for place, number in zip(places.tolist(), numbers[places].tolist(), strict=True):
                if number not in anew:
                    anew[number] = self.says_one(question, sizes, number, own)
                found[place] = anew[number]
        return found

    def says_one(self, question: Question, sizes: Sizes, number: int, own: Collection[Key] = ()) -> Grade:
        """`says` for one object, without arrays."""
        if own and number in self.held:
            return self._verdict(question, sizes, number, self.held_beside(number, own), own)
        answers = self._answers(question, sizes)
        found = answers.item(number)
        if found == _UNKNOWN:
            undecided = self.search.undecided
            found = self._verdict(question, sizes, number, self.held.get(number, ()))
            if self.search.undecided == undecided:
                answers[number] = found
        return _GRADES[found]

    @property
    def scored(self) -> Ints:
        """By object, the free bytes that scores use, less promises."""
        column: Ints = self._table["scored"]
        return column

    def held_beside(self, number: int, own: Collection[Key]) -> Held:
        """The holds on an object, except those for the claims in `own`."""
        capacity = self._capacities[number]
        return () if number not in self.held or capacity is None else self.policy.held(capacity, own)

    def is_held(self, numbers: Numbers) -> Mask:
        """A mask over `numbers`: True for objects with holds."""
        is_held: Mask = self._table["is_held"][numbers]
        return is_held

    def scored_by_object(self, own: Collection[Key] = ()) -> Ints:
        """By object number, the free bytes that scores use, less promises to claims not in `own`."""
        if not own or not self.held:
            return self.scored
        found = self.scored.copy()
        for number in self.held:
            found[number] = self._scored_beside(number, self.held_beside(number, own) or ())
        return found

    def _scored_beside(self, number: int, promised: Sizes) -> int:
        told = self._told_bytes[number]
        return max(told - sum(promised), 0) if promised else told

    def _answers(self, question: Question, sizes: Sizes) -> Grades:
        """The known answers by object number; `_UNKNOWN` for objects not asked yet or changed since."""
        answers = self._memo.pop((question, sizes), None)
        if answers is None:
            answers = np.full(len(self.rooms), _UNKNOWN, dtype=np.int8)
            answers[-1] = Grade.NONE
            if len(self._memo) >= REMEMBERED:
                del self._memo[next(iter(self._memo))]
        self._memo[question, sizes] = answers
        return answers

    # -- judging ------------------------------------------------------------------------------------------------------

    def view_beside(self, number: int, own: Collection[Key]) -> SharedView | None:
        """`shared` for one object, without promises to the claims in `own`."""
        capacity = self._capacities[number]
        if number not in self.shared or capacity is None:
            return None
        return self.policy.shared(capacity, own) if own else self.shared[number]

    def _verdict(self, question: Question, sizes: Sizes, number: int, held: Held, own: Collection[Key] = ()) -> Grade:
        """The answer of one object beside what is `held` of it, without arrays."""
        is_unheld, with_order = question is Question.FITS_UNHELD, question is Question.GRADE_WITH_ORDER
        is_graded, least = with_order or question is Question.GRADE, self.policy.must_be
        promised, search, pool_policy = () if is_unheld else held, self.search, self.pool_policy
        if promised is None:
            return Grade.NONE
        room, capacity = self.rooms[number], self._capacities[number]
        pools, view = room.pools, self.view_beside(number, own)
        if room.slots < UNBOUNDED and len(sizes) + _count(promised, view, is_unheld=is_unheld) > room.slots:
            return Grade.NONE
        if capacity is not None and view is not None:
            name = capacity.storage_class_name
            grade = view.grade(sizes, name, search, with_order=with_order, is_held=not is_unheld)
        elif not pools or sizes[0] > room.claim_limit_beside(promised):
            return Grade.NONE
        elif is_graded:
            grade = grade_one(pools, sizes, promised, search, pool_policy, with_order=with_order)
        elif least is Grade.GUARANTEED:
            together = descending(sizes + promised) if promised else sizes
            return least if is_guaranteed(pools, together, search, pool_policy) else Grade.NONE
        else:
            return least if fits_beside_one(pools, sizes, promised, search, pool_policy) else Grade.NONE
        if grade < least:
            return Grade.NONE
        return grade if is_graded else least

    def _verdicts(self, question: Question, sizes: Sizes, numbers: Numbers) -> Grades:
        """The answers of several objects."""
        if len(numbers) <= _FEW:
            verdicts = [self._verdict(question, sizes, each, self.held.get(each, ())) for each in numbers.tolist()]
            return np.array(verdicts, dtype=np.int8)
        return self._judged(question, sizes, numbers)

    def _judged(self, question: Question, sizes: Sizes, numbers: Numbers) -> Grades:
        """The answers of many objects, with arrays."""
        pools, least = self.pools[numbers], self.policy.must_be
        is_graded = question in (Question.GRADE, Question.GRADE_WITH_ORDER) or least is Grade.GUARANTEED
        if is_graded:
            with_order = question is Question.GRADE_WITH_ORDER
            found = grades(pools, sizes, self.search, self.pool_policy, with_order=with_order)
        else:
            found = fits(pools, sizes, self.search).astype(np.int8)
        found[self._table["is_unbounded"][numbers]] = Grade.GUARANTEED
        limit = "limit" if question is Question.FITS_UNHELD else "limit_beside"
        found[self._table[limit][numbers] < sizes[0]] = Grade.NONE
        if self._has_slots:
            slots = "slots" if question is Question.FITS_UNHELD else "slots_beside"
            found[self._table[slots][numbers] < len(sizes)] = Grade.NONE
        shared_idx = np.flatnonzero((found > Grade.NONE) & self._table["is_shared"][numbers]) if self.shared else ()
        if question is not Question.FITS_UNHELD:
            self._judge_beside_promises(question, sizes, numbers, found, is_graded=is_graded)
        for place in shared_idx:
            number = int(numbers[place])
            found[place] = self._verdict(question, sizes, number, self.held.get(number, ()))
        if is_graded:
            found[found < least] = Grade.NONE
        return found

    def _judge_beside_promises(
        self, question: Question, sizes: Sizes, numbers: Numbers, found: Grades, *, is_graded: bool
    ) -> None:
        """Correct the answers of objects with promises. They are few: promises since the last refresh."""
        is_promised = (self._table["promised"][numbers] > 0) & ~self._table["is_shared"][numbers]
        places = np.flatnonzero((found > Grade.NONE) & is_promised)
        is_sure = self._is_sure(numbers[places], sizes)
        found[places[is_sure]] = Grade.GUARANTEED
        places = places[~is_sure]
        of = numbers[places]
        promised = self._table["promised"][of]
        may_fit = have_the_bytes(self.pools[of], promised, sizes)
        # With a single pool, promises are subtracted: a group that is not sure does not fit.
        is_single = self.pools[of, 1] == NO_POOL if self.pools.shape[1] > 1 else np.True_
        may_fit &= ~(is_single & (promised < MOST_BYTES))
        found[places[~may_fit]] = Grade.NONE
        places = places[may_fit]
        if not is_graded and places.size:
            is_seen = are_seen_to_fit(*self._promised_columns(numbers[places]), sizes)
            found[places[is_seen]] = Grade.POSSIBLE
            places = places[~is_seen]
            # Most room first: if the search ends early, these matter most.
            room = self.pools[numbers[places]].sum(axis=1, dtype=np.float64) - self._table["promised"][numbers[places]]
            places = self._judge_by_what_is_left(sizes, numbers, found, places[np.argsort(-room, kind="stable")])
        for place, number in zip(places.tolist(), numbers[places].tolist(), strict=True):
            found[place] = self._verdict(question, sizes, number, self.held[number])

    def _judge_by_what_is_left(self, sizes: Sizes, numbers: Numbers, found: Grades, places: Numbers) -> Numbers:
        """Compare a group with all that promises may leave of objects. Returns the places that stay undecided."""
        numbered = zip(places.tolist(), numbers[places].tolist(), strict=True)
        tables = {place: self._left_by_promises(number) for place, number in numbered}
        known = {place: left for place, left in tables.items() if left is not None}
        if not known:
            return places
        counts = np.array([len(left.rows) for left in known.values()])
        holds = fits_at_a_glance(np.concatenate([left.rows for left in known.values()]), sizes)
        failing = np.bincount(np.repeat(np.arange(len(counts)), counts)[~holds], minlength=len(counts))
        found[list(known)] = (counts > 0) & (failing == 0)
        is_final = np.array([left.is_exact for left in known.values()]) & (len(sizes) <= FEW_CLAIMS)
        settled = {place for place, is_open in zip(known, (failing > 0) & ~is_final, strict=True) if not is_open}
        return np.array([place for place in tables if place not in settled], dtype=np.intp)

    def _left_by_promises(self, number: int) -> Left | None:
        """What promises may leave of an object's pools (`left_by_promises`), as wide as the table; None if unknown."""
        pools = self.rooms[number].pools
        left = left_by_promises(pools, self.held[number] or (), self.search, self.pool_policy)
        if left is None or len(pools) == self.pools.shape[1]:
            return left
        rows = np.full((len(left.rows), self.pools.shape[1]), NO_POOL, dtype=np.int64)
        rows[:, : len(pools)] = left.rows
        return Left(rows, left.is_exact)

    def _is_sure(self, numbers: Numbers, sizes: Sizes) -> Mask:
        """A mask over `numbers`: True if the object surely holds the group and all promises. False means undecided.

        With T bytes in all and c the largest claim, either condition is enough (`pool_grades.py` says why):

            largest pool >= T          sum over pools of max(pool - c + 1, 0) > T - c
        """
        promised, asked = self._table["promised"][numbers], sum(sizes)
        # A sum of promises is cut at 64 bits and may be larger. Below that, differences stay within 64 bits.
        is_sure: Mask = (self.pools[numbers, 0] - promised >= asked) & (promised < MOST_BYTES)
        is_sure |= self._table["is_unbounded"][numbers]
        if self.pools.shape[1] > 1:
            left_idx = np.flatnonzero(~is_sure)
            is_sure[left_idx] = have_room_to_spare(*self._promised_columns(numbers[left_idx]), sizes)
        return is_sure

    def _promised_columns(self, numbers: Numbers) -> tuple[Ints2D, Ints, Ints]:
        return self.pools[numbers], self._table["promised"][numbers], self._table["largest_promised"][numbers]


def _count(promised: Sizes, view: SharedView | None, *, is_unheld: bool) -> int:
    """How many volumes are promised; with a view, of all connected objects."""
    return 0 if is_unheld else len(promised if view is None else view.promised)


def _no_pools(objects: int, pools: int) -> Ints2D:
    """An [O, P] array in column order: the largest pools of all objects are read most, so they lie together."""
    return np.full((objects, pools), NO_POOL, dtype=np.int64, order="F")
