"""Claims of several classes in pools that the classes share in part: the packing and the grades, pool by pool.

    pools      ssd-1 100Gi   ssd-2 60Gi   hdd 400Gi
    "fast"     ssd-1, ssd-2                              draws from its own set of pools
    "mixed"                  ssd-2        hdd            and shares ssd-2

Everything means what it means for one class (`pool_grades.py`, `pool_policies.py`), but a claim goes only into pools
that its class reaches, by the policy of its class. Equal pools are not interchangeable here, because others may reach
one of them and not the other: of pools that a policy likes equally, each may be chosen. Searches are exact and bounded;
one that gives up answers with the lower grade.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Final, NamedTuple

from tonnage.scheduling.volumes.packing.pool_fits import UNBOUNDED, UNLIMITED, Found, SearchBudget
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.packing.pool_policies import MOST_POOLS_IN_ORDER, PoolPolicy

MOST_STEPS: Final = 20_000
"""A search gives up after placing this many claims, about 50 ms."""
Piece = tuple[int, int]
"""A claim: its bytes, and the position of its class in `SharedPools.reaches`."""
Pieces = tuple[Piece, ...]
"""Descending."""


class PoolReach(NamedTuple):
    """The pools that a class draws from, by position, how its driver chooses among them, and its largest volume."""

    places: tuple[int, ...]
    policy: PoolPolicy = PoolPolicy.UNKNOWN
    limit: int = UNBOUNDED


class SharedPools(NamedTuple):
    free: tuple[int, ...]
    """Free bytes of all pools, descending."""
    reaches: tuple[PoolReach, ...]
    """By class."""


def shared_grade(
    pools: SharedPools, pieces: Pieces, promised: Pieces = (), search: SearchBudget = UNLIMITED, *, with_order: bool
) -> Grade:
    """The grade of these claims beside promised ones. Without `with_order`, POSSIBLE replaces ORDERED."""
    if any(size > pools.reaches[owner].limit for size, owner in pieces):
        return Grade.NONE
    asked = ("grade", pools, pieces, promised, with_order)
    return _grades.ask(asked, search, lambda search: _graded(pools, pieces, promised, search, with_order), worst=_NONE)


def shared_order(
    pools: SharedPools, pieces: Pieces, promised: Pieces = (), search: SearchBudget = UNLIMITED
) -> Pieces | None:
    """The claims in an order that always works; None if there is none, or the search gives up."""
    asked = ("order", pools, pieces, promised)
    return _orders.ask(asked, search, lambda search: _Play(pools, search).order(pieces, promised), worst=None)


def shared_places(
    pools: SharedPools, pieces: Pieces, promised: Pieces = (), search: SearchBudget = UNLIMITED
) -> tuple[int, ...] | None:
    """For every claim the position of its pool in a packing on top of the promised ones; None if there is none."""
    found = _Play(pools, search).packing((*promised, *pieces), pools.free)
    return None if found is None else found[len(promised) :]


def shared_next(pools: SharedPools, pieces: Pieces, search: SearchBudget = UNLIMITED) -> Piece:
    """The claim to send first if there is no safe order: the one with the smallest share of driver choices that leave
    no room for the others; among equals the largest."""

    def harm(piece: Piece) -> float:
        play, rest = _Play(pools, search), _without(pieces, piece)
        after = play.outcomes((piece,), set()) or set()
        return sum(play.packing(rest, free) is None for _, free in after) / max(len(after), 1)

    return min(dict.fromkeys(pieces), key=harm)


_NONE: Final = Grade.NONE
_grades: Found[Grade] = Found()
_orders: Found[Pieces | None] = Found()


def _graded(pools: SharedPools, pieces: Pieces, promised: Pieces, search: SearchBudget, with_order: bool) -> Grade:
    play = _Play(pools, search)
    if play.is_sure(pieces_of((*pieces, *promised))):
        return Grade.GUARANTEED
    play = _Play(pools, search)
    left = play.outcomes(promised, {owner for _, owner in pieces})
    if left is None or not all(play.packing(pieces, free) is not None for _, free in left):
        return Grade.NONE
    is_ordered = with_order and _Play(pools, search).order(pieces, promised) is not None
    return Grade.ORDERED if is_ordered else Grade.POSSIBLE


class _GaveUp(Exception):  # an answer, not an error
    pass


_State = tuple[tuple[int, ...], tuple[int, ...]]
"""The driver's fixed order of pools, which only first-fit asks for, and the free bytes."""


class _Play:
    """One search over what drivers may do. Every public answer is the worse one if the search gives up."""

    def __init__(self, pools: SharedPools, search: SearchBudget) -> None:
        self._search = search
        self._left = MOST_STEPS
        is_first_fit = any(each.policy is PoolPolicy.FIRST_FIT and len(each.places) > 1 for each in pools.reaches)
        in_order = is_first_fit and len(pools.free) <= MOST_POOLS_IN_ORDER
        self._reaches = pools.reaches
        if is_first_fit and not in_order:
            self._reaches = tuple(
                each._replace(policy=PoolPolicy.UNKNOWN) if each.policy is PoolPolicy.FIRST_FIT else each
                for each in pools.reaches
            )
        places = tuple(range(len(pools.free)))
        self._starts: list[_State] = [
            (order, pools.free) for order in (permutations(places) if in_order else (places,))
        ]

    # -- what may be asked --------------------------------------------------------------------------------------------

    def is_sure(self, coming: Pieces) -> bool:
        """True if every claim finds room in any order and with any choices."""
        try:
            stack = [(state, coming) for state in self._starts]
            seen = set(stack)
            while stack:
                state, coming = stack.pop()
                if self._is_roomy(state[1], coming):
                    continue
                for piece in dict.fromkeys(coming):
                    choices = self._choices(state, piece)
                    if not choices:
                        return False
                    rest = _without(coming, piece)
                    for each in choices:
                        if (each, rest) not in seen:
                            seen.add((each, rest))
                            stack.append((each, rest))
        except _GaveUp:
            return False
        return True

    def outcomes(self, promised: Pieces, owners: set[int]) -> set[_State] | None:
        """What may be left after the promised claims; None if one of the classes `owners` may find no room, or the
        search gives up. A claim of another class without room is refused by its driver, and takes nothing."""
        try:
            ends: set[_State] = set()
            stack = [(state, promised) for state in self._starts]
            seen = set(stack)
            while stack:
                state, coming = stack.pop()
                if not coming:
                    ends.add(state)
                    continue
                for piece in dict.fromkeys(coming):
                    choices = self._choices(state, piece)
                    if not choices and piece[1] in owners:
                        return None
                    rest = _without(coming, piece)
                    for each in choices or [state]:
                        if (each, rest) not in seen:
                            seen.add((each, rest))
                            stack.append((each, rest))
        except _GaveUp:
            return None
        return ends

    def packing(self, pieces: Sequence[Piece], free: tuple[int, ...]) -> tuple[int, ...] | None:
        """For every claim the position of its pool, in some packing; None if there is none, or the search gives up."""
        order = sorted(range(len(pieces)), key=lambda at: (len(self._reaches[pieces[at][1]].places), -pieces[at][0]))
        placed: list[int] = []
        failed: set[tuple[int, tuple[int, ...]]] = set()

        def goes_on(free: tuple[int, ...]) -> bool:
            at = len(placed)
            if at == len(order):
                return True
            if (at, free) in failed:
                return False
            size, owner = pieces[order[at]]
            for place in self._reaches[owner].places:
                if free[place] >= size:
                    self._step()
                    placed.append(place)
                    if goes_on(_after(free, place, size)):
                        return True
                    placed.pop()
            failed.add((at, free))
            return False

        try:
            if not goes_on(free):
                return None
        except _GaveUp:
            return None
        found = dict(zip(order, placed, strict=True))
        return tuple(found[at] for at in range(len(pieces)))

    def order(self, pieces: Pieces, promised: Pieces) -> Pieces | None:
        """An order of claims that holds whatever the drivers choose, and whenever they make the promised ones."""
        try:
            states = self._settled({(state, promised) for state in self._starts}, pieces)
            return None if states is None else self._order_from(states, pieces, set())
        except _GaveUp:
            return None

    # -- steps --------------------------------------------------------------------------------------------------------

    def _order_from(
        self, states: frozenset[tuple[_State, Pieces]], pieces: Pieces, failed: set[tuple[object, Pieces]]
    ) -> Pieces | None:
        if not states:  # every remaining claim finds room
            return pieces
        for piece in dict.fromkeys(pieces):
            rest = _without(pieces, piece)
            after: set[tuple[_State, Pieces]] | None = set()
            for state, promised in states:
                choices = self._choices(state, piece)
                if not choices or after is None:
                    after = None
                    break
                after.update((each, promised) for each in choices)
            settled = self._settled(after, rest) if after is not None else None
            if settled is None or (settled, rest) in failed:
                continue
            if (found := self._order_from(settled, rest, failed)) is not None:
                return (piece, *found)
            failed.add((settled, rest))
        return None

    def _settled(self, states: set[tuple[_State, Pieces]], rest: Pieces) -> frozenset[tuple[_State, Pieces]] | None:
        """These states and all after promised claims, without those where everything finds room. None if a promised
        claim finds none."""
        kept: set[tuple[_State, Pieces]] = set()
        while states:
            state, promised = states.pop()
            if (state, promised) in kept or self._is_roomy(state[1], pieces_of((*rest, *promised))):
                continue
            kept.add((state, promised))
            for piece in dict.fromkeys(promised):
                choices = self._choices(state, piece)
                if not choices:
                    return None
                left = _without(promised, piece)
                states.update((each, left) for each in choices)
        return frozenset(kept)

    def _choices(self, state: _State, piece: Piece) -> list[_State]:
        """The states after placing a claim, for every pool that its driver may choose; none if no pool has room."""
        order, free = state
        size, owner = piece
        places, policy, _ = self._reaches[owner]
        roomy = [place for place in places if free[place] >= size]
        self._step(len(roomy) + 1)
        if not roomy:
            return []
        if policy is PoolPolicy.MOST_FREE or policy is PoolPolicy.BEST_FIT:
            best = (max if policy is PoolPolicy.MOST_FREE else min)(free[place] for place in roomy)
            roomy = [place for place in roomy if free[place] == best]
        elif policy is PoolPolicy.FIRST_FIT:
            roomy = [next(place for place in order if place in roomy)]
        return [(order, _after(free, place, size)) for place in roomy]

    def _is_roomy(self, free: tuple[int, ...], coming: Pieces) -> bool:
        """True if no claim can be shut out: all others lack the bytes to fill every pool that it reaches. False decides
        nothing."""
        for size, owner in dict.fromkeys(coming):
            places = self._reaches[owner].places
            to_shut_out = sum([free[place] - size + 1 for place in places if free[place] >= size])
            others = sum([other for other, of in coming if of == owner or self._touch(of, owner)]) - size
            if to_shut_out <= others:
                return False
        return True

    def _touch(self, one: int, other: int) -> bool:
        return not set(self._reaches[one].places).isdisjoint(self._reaches[other].places)

    def _step(self, steps: int = 1) -> None:
        self._left -= steps
        self._search.spend(steps)
        if self._left < 0:
            raise _GaveUp


def pieces_of(pieces: Iterable[Piece]) -> Pieces:
    """Claims in the order that every function here expects."""
    return tuple(sorted(pieces, reverse=True))


def _without(pieces: Pieces, piece: Piece) -> Pieces:
    place = pieces.index(piece)
    return pieces[:place] + pieces[place + 1 :]


def _after(free: tuple[int, ...], place: int, size: int) -> tuple[int, ...]:
    return (*free[:place], free[place] - size, *free[place + 1 :])
