"""Can these claims be created in these pools, all at once? The joint packing of KEP-5925, exactly.

Every claim needs one pool that holds it whole. An *arrangement* divides the claims into sets; only the sums of the sets
matter. With sums and pools both descending,

    the claims fit  <=>  in some arrangement  sum[i] <= pool[i]  for every i,

because a larger sum never does better in a smaller pool. Few arrangements are compared as whole columns. For many,
first-fit-decreasing settles most objects, and the rest is searched object by object (`_search`). A decision has a
limited number of search steps for all objects; answers are cached, so a retry gets further.
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
from typing import Final, Generic, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Mask

P = ParamSpec("P")
T = TypeVar("T")
MOST_STEPS_A_DECISION: Final = 220_000
"""Less than 50 ms. The hardest question that is answered exactly takes 50,000 steps, an ordinary one far
fewer. First-fit-decreasing, which settles most objects, takes none."""
_REMEMBERED: Final = 16_384


@dataclass(slots=True, eq=False)
class SearchBudget:
    """The search steps of one decision. `limit` None: unlimited."""

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
        """Start a new decision with all its steps."""
        self._left, self.undecided = self.limit or 0, 0

    def spend(self, steps: int) -> None:
        self._left -= steps


UNLIMITED: Final = SearchBudget(None)


class Found(Generic[P, T]):
    """A search with a cache of its latest answers. The last argument is the budget of the decision; if it is spent, a
    question that is not cached is answered with `worst`."""

    __slots__ = ("_answers", "_find", "_remembered", "_worst")

    def __init__(self, find: Callable[P, T], *, worst: T, remembered: int = _REMEMBERED) -> None:
        self._find = find
        self._worst = worst
        self._remembered = remembered
        self._answers: dict[Hashable, T] = {}

    def clear(self) -> None:
        self._answers.clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        question, search = args[:-1], args[-1]
        assert isinstance(search, SearchBudget)
        try:
            return self._answers[question]
        except KeyError:
            pass
        if search.is_spent:
            search.undecided += 1
            return self._worst
        undecided = search.undecided
        found = self._find(*args, **kwargs)
        if search.undecided == undecided:  # otherwise the answer depends on an undecided question
            if len(self._answers) >= self._remembered:
                for oldest in list(self._answers)[: self._remembered // 2]:
                    del self._answers[oldest]
            self._answers[question] = found
        return found


Sizes = tuple[int, ...]
"""The claims of one group in bytes, descending."""
Ints2D = npt.NDArray[np.int64]
"""[O, P]: one row per object, its pools in bytes, descending, padded with NO_POOL."""
NO_POOL = -1
"""Holds nothing, not even a claim of 0 bytes; a pool of 0 bytes holds such a claim."""
MOST_BYTES = (1 << 63) - 1
"""The largest value of a quantity and of a pool column. Sums of claims may exceed it: they are plain integers."""
UNBOUNDED = MOST_BYTES + 1
"""An unlimited pool: room for every claim. It exceeds every quantity and does not fit a column, so callers with columns
mark such pools separately."""
EXACT_SETS = 1 << 13
"""A search is exact if the claims have at most this many subsets, equal sizes being interchangeable: 13 different
sizes, or 40 claims of three sizes; 20 ms at most. Beyond, it keeps the most promising states, for about as long."""
FEW_ARRANGEMENTS = 16
"""At most this many arrangements are compared directly, without first-fit-decreasing: four different claims."""
FEW_CLAIMS = 4
"""Groups of at most this many claims never have more than FEW_ARRANGEMENTS."""
SOME_ARRANGEMENTS, SOME_OBJECTS = 256, 8
MOST_ARRANGEMENTS, MANY_OBJECTS = 5_000, 100
"""So many arrangements (six different claims have 203, eight 4,140) are compared if first-fit-decreasing refuses so
many objects; for fewer objects, searches cost less."""
FIRST_LOOK = 24
"""How many states a first search keeps. If a packing exists, that nearly always finds one."""


def descending(sizes: Iterable[int]) -> Sizes:
    """Sizes or pools in the order that every function here expects."""
    return tuple(sorted(sizes, reverse=True))


# -- all objects ------------------------------------------------------------------------------------------------------


def fits(pools: Ints2D, sizes: Sizes, search: SearchBudget = UNLIMITED) -> Mask:
    """A mask over objects: True if the object holds all claims at once. No claims fit everywhere. True is always right.
    False may be wrong beyond 13 different sizes (EXACT_SETS), or if `search` ran out."""
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


def without(sizes: Sizes, size: int) -> Sizes:
    """The sizes without one claim of `size`."""
    place = sizes.index(size)
    return sizes[:place] + sizes[place + 1 :]


def needing_room(sizes: Sizes) -> Sizes:
    """The claims larger than 0, or one empty claim if all are: an empty claim fits wherever another does."""
    return tuple(size for size in sizes if size) or sizes[:1]


@lru_cache(maxsize=2048)
def arrangements(sizes: Sizes, pool_count: int, *, most: int, partial: bool = False) -> tuple[Sizes, ...] | None:
    """All ways to divide the claims among so many pools, as sums in descending order; fewest sums first. `partial`:
    also ways that leave claims out. None if there are more than `most`."""
    found: set[Sizes] = {()}
    for size in sizes:
        wider = set(found) if partial else set()
        for sums in found:
            if len(sums) < pool_count:
                wider.add((*sums, size))  # stays descending: every earlier sum contains a claim that is no smaller
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
    """A mask over objects: True if first-fit-decreasing places every claim. False decides nothing."""
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
    """`fits` for one object; pools and claims descending, as plain integers."""
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
    """True if the claims fit all O objects: `fits(…).all()`, but stops at the first refusal."""
    if len(sizes) <= FEW_CLAIMS:
        return bool(fits(pools, sizes, search).all())
    left = pools[~_first_fit_decreasing(pools, sizes)]
    # Least room first, then smallest largest pool: these objects mostly refuse at once.
    order = np.lexsort((left[:, 0], left.sum(axis=1, dtype=np.float64)))
    return all(fits_one(left[place].tolist(), sizes, search) for place in order)


def place_one(pools: Sequence[int], sizes: Sizes, search: SearchBudget = UNLIMITED) -> tuple[int, ...] | None:
    """For every claim, the position of its pool in a packing; None if there is none. Prefers first-fit-decreasing."""
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


def _search(pools: Sizes, sizes: Sizes, search: SearchBudget) -> tuple[int, ...] | None:
    """`place_one` by search, after first fit failed; there are at most as many pools as claims."""
    if _is_hopeless(pools, sizes):
        return None
    return _placements(pools, sizes, search)


def _tried(pools: Sizes, sizes: Sizes, search: SearchBudget) -> tuple[int, ...] | None:
    pools = tuple(pool for pool in pools if pool >= sizes[-1])
    placement = _fill(pools, sizes, FIRST_LOOK, search)
    return placement if placement is not None else _fill(pools, sizes, _states_kept(sizes), search)


_placements = Found(_tried, worst=None)


def _fill(pools: Sizes, sizes: Sizes, width: int, search: SearchBudget) -> tuple[int, ...] | None:
    """A packing, if one is found with `width` states kept at a time.

    Pools are filled one after the other, largest first, and never returned to. Of all ways to place the same claims,
    only the one with the fewest pools, and then with the most room in the last pool, is needed: it can do whatever the
    others can. So one state is kept per set of claims (equal claims being interchangeable), and a state is dropped if
    the room ahead is less than what remains to be placed. The difference is its slack.
    """
    last = len(pools) - 1
    # claims placed, as bits -> (pool being filled, its free bytes, slack)
    states = {0: (0, pools[0], sum(pools) - sum(sizes))}
    came_by: dict[int, tuple[int, int, int]] = {}  # claims placed -> (last claim, its pool, claims before)
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
                    continue  # neither this pool nor the next has room, and later pools are no larger
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
    """True if some number of the largest claims exceeds the pools in bytes or in count; every pool is assumed to hold
    the smallest of them as often as possible."""
    for count in range(1, len(sizes) + 1):
        smallest = sizes[count - 1]
        if sum(sizes[:count]) > sum(pool for pool in pools if pool >= smallest):
            return True
        bytes_of_smallest = list(accumulate(reversed(sizes[:count])))
        if sum(bisect_right(bytes_of_smallest, pool) for pool in pools) < count:
            return True
    return False


def _states_kept(sizes: Sizes) -> int:
    """How many states a search keeps at a time: all while it is exact, otherwise the most promising ones."""
    alike = Counter(sizes)
    if prod(count + 1 for count in alike.values()) <= EXACT_SETS:
        return EXACT_SETS
    return max(1, 8 * EXACT_SETS // (len(sizes) * len(alike)))
