"""Can these claims be created in those pools, all of them at once? The joint packing of KEP-5925, exactly.

Every claim needs one pool that holds it whole. An *arrangement* shares the claims out, and only the bytes that come
together matter. With those sums and the pools both descending,

    the claims fit  <=>  in some arrangement  sum[i] <= pool[i]  for every i,

because a larger sum never does better in a smaller pool. Few arrangements are compared as whole columns. Where there
are many, first-fit-decreasing settles most objects, and what it refuses is searched object by object (`_search`).
A decision has a number of search steps for all objects together; answers are remembered, so that a retry gets further.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod
from operator import ge
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Mask

T = TypeVar("T")
MOST_STEPS_A_DECISION: Final = 1_000_000
"""About a quarter of a second. The hardest question that is answered exactly takes 50,000: twenty objects of that kind,
or thousands of an ordinary one. First-fit-decreasing, which settles most objects, takes none."""
_REMEMBERED: Final = 16_384


@dataclass(slots=True, eq=False)
class SearchBudget:
    """The steps of one decision. `limit` None: as many as it takes."""

    limit: int | None = MOST_STEPS_A_DECISION
    undecided: int = 0
    """How many questions were answered with no because the steps were used up."""
    _left: int = 0

    def __post_init__(self) -> None:
        self.renew()

    @property
    def is_spent(self) -> bool:
        return self.limit is not None and self._left <= 0

    def renew(self) -> None:
        """Another decision begins."""
        self._left, self.undecided = self.limit or 0, 0

    def spend(self, steps: int) -> None:
        self._left -= steps


UNLIMITED: Final = SearchBudget(None)


class Found(Generic[T]):
    """Answers by question, the latest so many."""

    __slots__ = ("_answers", "_remembered")

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._answers: dict[Hashable, T] = {}

    def clear(self) -> None:
        self._answers.clear()

    def ask(self, question: Hashable, search: SearchBudget, answer: Callable[[SearchBudget], T], *, worst: T) -> T:
        """The answer as it is known, or worked out now; `worst` when there are no steps left for it."""
        try:
            return self._answers[question]
        except KeyError:
            pass
        if search.is_spent:
            search.undecided += 1
            return worst
        undecided = search.undecided
        found = answer(search)
        if search.undecided == undecided:  # else it rests on a question that was not answered
            if len(self._answers) >= self._remembered:
                for oldest in list(self._answers)[: self._remembered // 2]:
                    del self._answers[oldest]
            self._answers[question] = found
        return found


Sizes = tuple[int, ...]
"""The claims of one group in bytes, descending."""
Ints2D = npt.NDArray[np.int64]
"""[O, P]: a row an object, its pools in bytes, descending, padded with NO_POOL at the end."""
NO_POOL = -1
"""Holds nothing, not even a claim of 0 bytes; a pool of 0 bytes holds that."""
MOST_BYTES = (1 << 63) - 1
"""What a quantity's value stops at, and so does a column of pools. Sums of claims may be more: they are plain integers,
and more than any pool holds."""
UNBOUNDED = MOST_BYTES + 1
"""A pool that never fills up: room for every claim, whatever it holds already. No quantity says so much, and no column
can hold it: whoever lays such pools out as columns keeps them apart."""
EXACT_SETS = 1 << 13
"""A search for one object is exact if the claims have no more subsets than this, claims of one size being alike: 13 of
different sizes, 40 of three sizes; 20 ms at most. Beyond, it keeps the most promising states, for about as long."""
FEW_ARRANGEMENTS = 16
"""So many are compared for all objects at once, without asking first-fit-decreasing first: four different claims."""
FEW_CLAIMS = 4
"""Groups of so many claims never have more."""
SOME_ARRANGEMENTS, SOME_OBJECTS = 256, 8
MOST_ARRANGEMENTS, MANY_OBJECTS = 5_000, 100
"""So many are compared (six different claims have 203, eight 4,140) when first-fit-decreasing refuses so many objects;
for fewer objects as many searches cost less."""
FIRST_LOOK = 24
"""How many states a search keeps at its first try. Where a packing exists, that nearly always finds one."""


def descending(sizes: Iterable[int]) -> Sizes:
    """Sizes or pools in the order every function here expects."""
    return tuple(sorted(sizes, reverse=True))


# -- all objects ------------------------------------------------------------------------------------------------------


def fits(pools: Ints2D, sizes: Sizes, search: SearchBudget = UNLIMITED) -> Mask:
    """Which of the O objects can hold all claims at once. No claims fit everywhere. A no may be wrong beyond 13 claims
    of different sizes (EXACT_SETS), and when the steps of `search` are used up; a yes never is."""
    if not sizes:
        return np.ones(len(pools), dtype=np.bool_)
    if not pools.shape[1]:
        return np.zeros(len(pools), dtype=np.bool_)
    if len(sizes) == 1:
        return pools[:, 0] >= sizes[0]
    if sizes[0] > MOST_BYTES:
        return np.zeros(len(pools), dtype=np.bool_)
    sizes = needing_room(sizes)
    ways = arrangements(sizes, pools.shape[1], most=FEW_ARRANGEMENTS)
    if ways is not None:
        return _fits_some_way(pools, ways)
    is_packed = _first_fit_decreasing(pools, sizes)
    left_idx = np.flatnonzero(~is_packed & (pools[:, 0] >= sizes[0]))
    if left_idx.size >= min(SOME_OBJECTS, MANY_OBJECTS):
        most = MOST_ARRANGEMENTS if left_idx.size >= MANY_OBJECTS else SOME_ARRANGEMENTS
        ways = arrangements(sizes, pools.shape[1], most=most)
    if ways is not None:
        is_packed[left_idx] = _fits_some_way(pools[left_idx], ways)
    elif left_idx.size:
        rows = pools[left_idx, : len(sizes)].tolist()
        is_packed[left_idx] = [_search(tuple(row), sizes, search) is not None for row in rows]
    return is_packed


def fits_at_a_glance(pools: Ints2D, sizes: Sizes) -> Mask:
    """Which objects are seen to hold all claims without a search; up to FEW_CLAIMS a no is final as well."""
    return fits(pools, sizes) if len(sizes) <= FEW_CLAIMS else _first_fit_decreasing(pools, sizes)


def without(sizes: Sizes, size: int) -> Sizes:
    """The sizes with one of these less."""
    place = sizes.index(size)
    return sizes[:place] + sizes[place + 1 :]


def needing_room(sizes: Sizes) -> Sizes:
    """The claims that decide, of at least one: empty ones go where another goes."""
    return tuple(size for size in sizes if size) or sizes[:1]


@lru_cache(maxsize=2048)
def arrangements(sizes: Sizes, pool_count: int, *, most: int, partial: bool = False) -> tuple[Sizes, ...] | None:
    """Every way to share the claims out over so many pools, or with `partial` some of them: the bytes that come
    together, descending; fewest first. None when there are more than `most`."""
    found: set[Sizes] = {()}
    for size in sizes:
        wider = set(found) if partial else set()
        for sums in found:
            if len(sums) < pool_count:
                wider.add((*sums, size))  # in its place: every sum so far has a claim in it that is no smaller
            for place, together in enumerate(sums):
                wider.add(descending((*sums[:place], together + size, *sums[place + 1 :])))
        if len(wider) > most:
            return None
        found = wider
    return tuple(sorted(found, key=lambda sums: (len(sums), sums)))


def _fits_some_way(pools: Ints2D, ways: tuple[Sizes, ...]) -> Mask:
    columns = np.ascontiguousarray(pools.T)
    is_packed = np.zeros(len(pools), dtype=np.bool_)
    for sums in ways:
        holds = columns[0] >= sums[0]
        for column, together in zip(columns[1:], sums[1:], strict=False):
            holds &= column >= together
        is_packed |= holds
    return is_packed


def _first_fit_decreasing(pools: Ints2D, sizes: Sizes) -> Mask:
    """Which objects take every claim, largest first, each in the first pool that has room. A no decides nothing."""
    free_bytes = np.array(pools.T, order="C")
    is_packed = np.ones(len(pools), dtype=np.bool_)
    for size in sizes:
        is_waiting = is_packed.copy()
        for column in free_bytes:
            takes = column >= size
            takes &= is_waiting
            column -= takes * np.int64(size)
            is_waiting ^= takes
        is_packed ^= is_waiting
    return is_packed


# -- one object -------------------------------------------------------------------------------------------------------


def fits_one(pools: Sequence[int], sizes: Sizes, search: SearchBudget = UNLIMITED) -> bool:
    """`fits` for one object: its pools, descending, and the claims, descending, as plain numbers."""
    count = len(sizes)
    if not count:
        return True
    if not pools:
        return False
    if pools[0] >= UNBOUNDED or count == 1:
        return pools[0] >= sizes[0] or pools[0] >= UNBOUNDED
    ways = arrangements(sizes, len(pools), most=FEW_ARRANGEMENTS) if count <= FEW_CLAIMS else None
    if ways is None:
        return place_one(pools, sizes, search) is not None
    return any(all(map(ge, pools, sums)) for sums in ways)


def fits_all(pools: Ints2D, sizes: Sizes, search: SearchBudget = UNLIMITED) -> bool:
    """Whether the claims fit each of the O objects; `fits(…).all()`, which ends with the first that refuses."""
    if len(sizes) <= FEW_CLAIMS:
        return bool(fits(pools, sizes, search).all())
    left = pools[~fits_at_a_glance(pools, sizes)]
    # Those with the least room first, then the smallest largest pool: mostly they are seen to be hopeless.
    order = np.lexsort((left[:, 0], left.sum(axis=1, dtype=np.float64)))
    return all(fits_one(row, sizes, search) for row in left[order].tolist())


def place_one(pools: Sequence[int], sizes: Sizes, search: SearchBudget = UNLIMITED) -> tuple[int, ...] | None:
    """For every claim the position of its pool in a packing, that of first-fit-decreasing if it finds one; None when
    there is none."""
    if sizes and pools and pools[0] >= UNBOUNDED:
        return (0,) * len(sizes)
    placed = _first_fit(pools, sizes)
    return placed if placed is not None else _search(tuple(pools[: len(sizes)]), sizes, search)


def _first_fit(pools: Sequence[int], sizes: Sizes) -> tuple[int, ...] | None:
    free_bytes = list(pools)
    placed = []
    for size in sizes:
        for place, free in enumerate(free_bytes):
            if free >= size:
                free_bytes[place] = free - size
                placed.append(place)
                break
        else:
            return None
    return tuple(placed)


_placements: Found[tuple[int, ...] | None] = Found()


def _search(pools: Sizes, sizes: Sizes, search: SearchBudget) -> tuple[int, ...] | None:
    """`place_one` by trying, where first fit failed; no more pools are handed in than there are claims."""
    if _is_hopeless(pools, sizes):
        return None
    return _placements.ask((pools, sizes), search, lambda search: _tried(pools, sizes, search), worst=None)


def _tried(pools: Sizes, sizes: Sizes, search: SearchBudget) -> tuple[int, ...] | None:
    pools = tuple(pool for pool in pools if pool >= sizes[-1])
    placement = _fill(pools, sizes, FIRST_LOOK, search)
    return placement if placement is not None else _fill(pools, sizes, _states_kept(sizes), search)


def _fill(pools: Sizes, sizes: Sizes, width: int, search: SearchBudget) -> tuple[int, ...] | None:
    """A packing, if one is found with `width` states kept at a time.

    Pools are filled one after the other, the largest first, and never returned to. Of all ways to place the same
    claims, only the one that got by with fewest pools, and of those left most room in the last, can be needed: it can
    do whatever the others can. So one state is kept for every set of claims (claims alike being interchangeable), and
    a state goes when the room ahead is less than what is still to be placed. What is left of that room is its slack.
    """
    last = len(pools) - 1
    # the claims placed, as bits -> (the pool being filled, its room left, slack)
    states = {0: (0, pools[0], sum(pools) - sum(sizes))}
    came_by: dict[int, tuple[int, int, int]] = {}  # the claims placed -> the last one, its pool, those before it
    for _ in sizes:
        if len(states) > width:
            states = dict(sorted(states.items(), key=lambda state: -state[1][2])[:width])
        search.spend(len(states) * len(sizes))
        following: dict[int, tuple[int, int, int]] = {}
        for placed, (place, free, slack) in states.items():
            tried = NO_POOL
            for claim, size in enumerate(sizes):
                if size == tried or placed >> claim & 1:
                    continue
                tried = size
                if free >= size:
                    at, left, slack_left = place, free - size, slack
                elif place < last and pools[place + 1] >= size and slack >= free:
                    at, left, slack_left = place + 1, pools[place + 1] - size, slack - free
                else:
                    continue  # neither this pool nor the next has room, and the later ones are no larger
                union = placed | 1 << claim
                known = following.get(union)
                if known is None or at < known[0] or (at == known[0] and left > known[1]):
                    following[union] = (at, left, slack_left)
                    came_by[union] = (claim, at, placed)
        states = following
    placed = (1 << len(sizes)) - 1
    if placed not in states:
        return None
    placement = [0] * len(sizes)
    while placed:
        claim, at, placed = came_by[placed]
        placement[claim] = at
    return tuple(placement)


def _is_hopeless(pools: Sizes, sizes: Sizes) -> bool:
    """The largest claims alone, however many, are more in bytes or in number than the pools can take. Every pool is
    taken to hold the smallest of them, as many as go in."""
    for count in range(1, len(sizes) + 1):
        smallest = sizes[count - 1]
        if sum(sizes[:count]) > sum(pool for pool in pools if pool >= smallest):
            return True
        bytes_of_smallest = list(accumulate(reversed(sizes[:count])))
        if sum(bisect_right(bytes_of_smallest, pool) for pool in pools) < count:
            return True
    return False


def _states_kept(sizes: Sizes) -> int:
    """How many states a search keeps at a time: all of them while it is exact, else the most promising ones."""
    alike = Counter(sizes)
    if prod(count + 1 for count in alike.values()) <= EXACT_SETS:
        return EXACT_SETS
    return max(1, 8 * EXACT_SETS // (len(sizes) * len(alike)))
