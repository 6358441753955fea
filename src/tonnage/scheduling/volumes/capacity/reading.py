"""What the capacity objects of one class say to groups of claims: columns of figures, and a memo of verdicts.

One table row is one object: its pools in bytes, largest first, the largest claim, and its holds. A profile's
`CapacityPolicy` decides how objects are read. A verdict is kept until its object changes. The driver decides where
promised claims go: nearly everywhere there is so much room that its choice does not matter, which is checked for all
objects at once; the other objects with promises are judged one by one.
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
    MOST_BYTES,
    NO_POOL,
    UNBOUNDED,
    UNLIMITED,
    Ints2D,
    SearchBudget,
    Sizes,
    descending,
    fits,
)
from tonnage.scheduling.volumes.packing.pool_grades import (
    Grade,
    Grades,
    fits_beside_one,
    grade_one,
    grades,
    have_room_to_spare,
    is_guaranteed,
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
        ("is_unbounded", np.bool_),  # it has an unlimited pool, of which the table of pools shows `MOST_BYTES`
        ("limit", np.int64),  # the largest claim on top of promises; `_NO_CLAIM` if the object is reserved
        ("slots", np.int64),  # how many volumes can still be made beside those that are promised
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
    """A question to an object about a group of claims. The answer is a grade; for FITS, NONE means no."""

    FITS = auto()
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
        self.pools = _no_pools(0, 1)
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
        if held != () or view is not None:
            self.held[number] = held
        else:
            self.held.pop(number, None)
        promised = held or ()
        self._table[number] = (  # in the order of `_COLUMNS`
            bool(room.pools) and room.pools[0] >= UNBOUNDED,
            min(room.claim_limit_beside(promised), MOST_BYTES) if held is not None else _NO_CLAIM,
            min(room.slots, MOST_BYTES) - len(promised),
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

    def held_beside(self, number: int, own: Collection[Key]) -> Held:
        """The holds on an object, except those for the claims in `own`."""
        capacity = self._capacities[number]
        return () if number not in self.held or capacity is None else self.policy.held(capacity, own)

    def is_held(self, numbers: Numbers) -> Mask:
        """A mask over `numbers`: True for objects with holds."""
        return np.isin(numbers, list(self.held))

    def scored_by_object(self, own: Collection[Key] = ()) -> Ints:
        """By object number, the free bytes that scores use, less promises to claims not in `own`."""
        column: Ints = self._table["scored"]
        if not own or not self.held:
            return column
        found = column.copy()
        for number in self.held:
            found[number] = self._scored_beside(number, self.held_beside(number, own) or ())
        return found

    def _scored_beside(self, number: int, promised: Sizes) -> int:
        capacity = self._capacities[number]
        told = self.policy.scored_bytes(capacity) if capacity is not None else 0
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
        with_order, least = question is Question.GRADE_WITH_ORDER, self.policy.must_be
        is_graded, search, pool_policy = question is not Question.FITS, self.search, self.pool_policy
        if held is None:
            return Grade.NONE
        room, capacity = self.rooms[number], self._capacities[number]
        pools, view = room.pools, self.view_beside(number, own)
        if len(sizes) + len(held if view is None else view.promised) > room.slots:
            return Grade.NONE
        if capacity is not None and view is not None:
            grade = view.grade(sizes, capacity.storage_class_name, search, with_order=with_order)
        elif not pools or sizes[0] > room.claim_limit_beside(held):
            return Grade.NONE
        elif is_graded:
            grade = grade_one(pools, sizes, held, search, pool_policy, with_order=with_order)
        elif least is Grade.GUARANTEED:
            together = descending(sizes + held) if held else sizes
            return least if is_guaranteed(pools, together, search, pool_policy) else Grade.NONE
        else:
            return least if fits_beside_one(pools, sizes, held, search, pool_policy) else Grade.NONE
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
        pools, table, least = self.pools[numbers], self._table, self.policy.must_be
        is_graded = question is not Question.FITS or least is Grade.GUARANTEED
        if is_graded:
            with_order = question is Question.GRADE_WITH_ORDER
            found = grades(pools, sizes, self.search, self.pool_policy, with_order=with_order)
        else:
            found = fits(pools, sizes, self.search).astype(np.int8)
        found[table["is_unbounded"][numbers]] = Grade.GUARANTEED
        found[(table["limit"][numbers] < sizes[0]) | (table["slots"][numbers] < len(sizes))] = Grade.NONE
        is_shared = (found > Grade.NONE) & np.isin(numbers, list(self.shared)) if self.shared else ()
        # Promises since the last refresh are few.
        places = np.flatnonzero((found > Grade.NONE) & (table["promised"][numbers] > 0))
        is_sure = self._is_sure(pools[places], table[numbers[places]], sizes)
        found[places] = np.where(is_sure, Grade.GUARANTEED, Grade.NONE)
        if pools.shape[1] == 1:  # promises are subtracted: a group that is not sure does not fit
            is_sure |= table["promised"][numbers[places]] < MOST_BYTES
        for place in {*places[~is_sure].tolist(), *np.flatnonzero(is_shared).tolist()}:
            number = int(numbers[place])
            found[place] = self._verdict(question, sizes, number, self.held.get(number, ()))
        if is_graded:
            found[found < least] = Grade.NONE
        return found

    def _is_sure(self, pools: Ints2D, columns: npt.NDArray[np.void], sizes: Sizes) -> Mask:
        """A mask over objects: True if the object surely holds the group and all promises. False means undecided.

        With T bytes in all and c the largest claim, either condition is enough (`pool_grades.py` says why):

            largest pool >= T          sum over pools of max(pool - c + 1, 0) > T - c
        """
        promised = columns["promised"]
        # A sum of promises is cut at 64 bits and may be larger. Below that, differences stay within 64 bits.
        is_sure: Mask = (pools[:, 0] - promised >= sum(sizes)) & (promised < MOST_BYTES)
        is_sure |= columns["is_unbounded"]
        if pools.shape[1] > 1:
            is_sure |= have_room_to_spare(pools, promised, columns["largest_promised"], sizes)
        return is_sure


def _no_pools(objects: int, pools: int) -> Ints2D:
    """An [O, P] array in column order: the largest pools of all objects are read most, so they lie together."""
    return np.full((objects, pools), NO_POOL, dtype=np.int64, order="F")
