"""How drivers choose the pools of volumes, and what may come of it: a search over their choices and orders of claims.

    most-free    the pool with the most room at that moment
    best-fit     the pool with the least room of those that have enough
    first-fit    the first that has enough, in a fixed order of the driver's own
    random       any that has enough; `unknown` is treated the same

A class draws from its own set of pools, by its own policy (`PoolReach`). With one class, equal pools are
interchangeable. With several, others may reach one of them and not the other: of pools that a policy likes equally,
each may be chosen. Searches are exact and bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import permutations
from typing import Final, NamedTuple, TypeVar

from tonnage.scheduling.volumes.packing.pool_fits import UNBOUNDED, Found, SearchBudget, Sizes, descending

T = TypeVar("T")
MOST_STEPS: Final = 20_000
"""A search gives up after placing this many claims, about 50 ms."""
MOST_POOLS_IN_ORDER: Final = 6
"""First-fit is searched for up to this many relevant pools, in all orders; beyond, it is treated as random."""


class PoolPolicy(StrEnum):
    """Which pool a driver chooses."""

    MOST_FREE = "most-free"
    BEST_FIT = "best-fit"
    FIRST_FIT = "first-fit"
    RANDOM = "random"
    UNKNOWN = "unknown"

    @property
    def is_better_in_every_order(self) -> bool:
        """True if the policy can be sure where a random driver may fail. Most-free cannot."""
        return self in (PoolPolicy.BEST_FIT, PoolPolicy.FIRST_FIT)


ANY_POOL: Final = (PoolPolicy.RANDOM, PoolPolicy.UNKNOWN)
"""The policies that say no more than that the pool has room."""


class PackedClaim(NamedTuple):
    """A placed claim and the free bytes of its pool before; None: no pool had room. `claim`: its name, if known."""

    size: int
    pool_bytes: int | None
    claim: str = ""


def placed_by(policy: PoolPolicy, pools: Sizes, size: int) -> int | None:
    """The position of the chosen pool (the first of equals), `pools` in the driver's order; None if none has room."""
    roomy = [place for place, free in enumerate(pools) if free >= size]
    if not roomy:
        return None
    if policy is PoolPolicy.MOST_FREE:
        return max(roomy, key=lambda place: pools[place])
    if policy is PoolPolicy.BEST_FIT:
        return min(roomy, key=lambda place: pools[place])
    return roomy[0]


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


def pools_of_one(pools: Sequence[int], policy: PoolPolicy) -> SharedPools:
    """The pools of a single class; its claims are `pieces_of_one`."""
    return SharedPools(tuple(pools), (PoolReach(tuple(range(len(pools))), policy),))


def pieces_of_one(sizes: Sizes) -> Pieces:
    return tuple([(size, 0) for size in sizes])


class GaveUp(Exception):  # an answer, not an error
    """A search has used up its steps."""


State = tuple[tuple[int, ...], tuple[int, ...]]
"""The driver's fixed order of pools, which only first-fit with several classes asks for, and the free bytes."""


def unless_given_up(answer: Callable[[], T]) -> T | None:
    """The answer of a search; None if it gives up."""
    try:
        return answer()
    except GaveUp:
        return None


class DriverSearch:
    """One search over what drivers may do. Every method raises GaveUp after `most` steps in all. `cost`: the steps of
    a decision that one of these takes."""

    def __init__(self, pools: SharedPools, search: SearchBudget, *, most: int = MOST_STEPS, cost: int = 1) -> None:
        self._search = search
        self._cost = cost
        self._left = most
        self._reaches, places = pools.reaches, tuple(range(len(pools.free)))
        self.is_of_one = len(pools.reaches) == 1 and pools.reaches[0].places == places
        self._in_order = any(reach.policy is PoolPolicy.FIRST_FIT and len(reach.places) > 1 for reach in pools.reaches)
        if self._in_order and len(places) > MOST_POOLS_IN_ORDER:
            self._in_order = False
            self._reaches = tuple(
                reach._replace(policy=PoolPolicy.UNKNOWN) if reach.policy is PoolPolicy.FIRST_FIT else reach
                for reach in pools.reaches
            )
        self._starts: list[State] = [((), pools.free)]
        if self._in_order and self.is_of_one:  # the free bytes stand in the driver's order
            self._starts = [((), free) for free in dict.fromkeys(permutations(pools.free))]
        elif self._in_order:
            self._starts = [(order, pools.free) for order in permutations(places)]

    # -- what may be asked --------------------------------------------------------------------------------------------

    def shut_out(self, coming: Pieces) -> tuple[PackedClaim, ...]:
        """The shortest sequence of these claims, with the pools taken, whose last finds no room; empty if every claim
        finds room in any order and with any choices."""
        came_by: dict[tuple[State, Pieces], tuple[tuple[State, Pieces], PackedClaim] | None]
        came_by = {(start, coming): None for start in self._starts}
        level = list(came_by)
        while level:
            following = []
            for at in level:
                state, coming = at
                for piece in dict.fromkeys(coming) if not self._is_roomy(state[1], coming) else ():
                    rest, is_placed = without_piece(coming, piece), False
                    for pool_bytes, after in self._choices(state, piece):
                        is_placed = True
                        if (after, rest) not in came_by:
                            came_by[after, rest] = at, PackedClaim(piece[0], pool_bytes)
                            following.append((after, rest))
                    if not is_placed:
                        steps = [PackedClaim(piece[0], None)]
                        while (before := came_by[at]) is not None:
                            at, step = before
                            steps.append(step)
                        return tuple(reversed(steps))
            level = following
        return ()

    def outcomes(self, promised: Pieces, owners: set[int]) -> set[State] | None:
        """What may be left after the promised claims; None if one of the classes `owners` may find no room. A claim of
        another class without room is refused by its driver, and takes nothing."""
        ends: set[State] = set()
        stack = [(state, promised) for state in self._starts]
        seen = set(stack)
        while stack:
            state, coming = stack.pop()
            if not coming:
                ends.add(state)
                continue
            for piece in dict.fromkeys(coming):
                choices = [after for _, after in self._choices(state, piece)]
                if not choices and piece[1] in owners:
                    return None
                rest = without_piece(coming, piece)
                for choice in choices or [state]:
                    if (choice, rest) not in seen:
                        seen.add((choice, rest))
                        stack.append((choice, rest))
        return ends

    def packing(self, pieces: Sequence[Piece], free: tuple[int, ...]) -> tuple[int, ...] | None:
        """For every claim the position of its pool, in some packing; None if there is none."""
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

        if not goes_on(free):
            return None
        found = dict(zip(order, placed, strict=True))
        return tuple(found[at] for at in range(len(pieces)))

    def holds(self, pieces: Sequence[Piece], free: tuple[int, ...]) -> bool:
        """True if a packing is found; False also if the search gives up."""
        return unless_given_up(lambda: self.packing(pieces, free)) is not None

    def order(self, pieces: Pieces, promised: Pieces) -> Pieces | None:
        """An order of claims that holds whatever the drivers choose, and whenever they make the promised ones. Of one
        class of an unknown policy, the largest claims go first: no other order has to be tried."""
        states = self._settled({(state, promised) for state in self._starts}, pieces)
        return None if states is None else self._order_from(states, pieces, set())

    # -- steps --------------------------------------------------------------------------------------------------------

    def _order_from(
        self, states: frozenset[tuple[State, Pieces]], pieces: Pieces, failed: set[tuple[object, Pieces]]
    ) -> Pieces | None:
        if not states or not pieces:  # all that may still come finds room
            return pieces
        has_one_order = self.is_of_one and self._reaches[0].policy in ANY_POOL
        for piece in pieces[:1] if has_one_order else dict.fromkeys(pieces):
            rest = without_piece(pieces, piece)
            settled = self._placed(states, piece, rest)
            if settled is None or (settled, rest) in failed:
                continue
            if (found := self._order_from(settled, rest, failed)) is not None:
                return (piece, *found)
            failed.add((settled, rest))
        return None

    def _placed(
        self, states: frozenset[tuple[State, Pieces]], piece: Piece, rest: Pieces
    ) -> frozenset[tuple[State, Pieces]] | None:
        """The states after one more claim; None if it finds no room in one of them."""
        after: set[tuple[State, Pieces]] = set()
        for state, promised in states:
            choices = [(each, promised) for _, each in self._choices(state, piece)]
            if not choices:
                return None
            after.update(choices)
        return self._settled(after, rest)

    def _settled(self, states: set[tuple[State, Pieces]], rest: Pieces) -> frozenset[tuple[State, Pieces]] | None:
        """These states and all after promised claims, without those where everything finds room. None if a promised
        claim finds none."""
        kept: set[tuple[State, Pieces]] = set()
        while states:
            state, promised = states.pop()
            coming = pieces_of((*rest, *promised)) if promised else rest
            if (state, promised) in kept or self._is_roomy(state[1], coming):
                continue
            if self.is_of_one and max(state[1]) < coming[0][0]:
                return None
            kept.add((state, promised))
            for piece in dict.fromkeys(promised):
                choices = self._choices(state, piece)
                if not choices:
                    return None
                left = without_piece(promised, piece)
                states.update((each, left) for _, each in choices)
        return frozenset(kept)

    def _choices(self, state: State, piece: Piece) -> list[tuple[int, State]]:
        """For every pool that the driver of a claim may choose, its free bytes and the state afterwards; none if no
        pool has room."""
        order, free = state
        size, owner = piece
        places, policy, _ = self._reaches[owner]
        roomy = [place for place in places if free[place] >= size]
        if not roomy:
            self._step()
            return []
        if policy is PoolPolicy.MOST_FREE or policy is PoolPolicy.BEST_FIT:
            best = (max if policy is PoolPolicy.MOST_FREE else min)(free[place] for place in roomy)
            roomy = [place for place in roomy if free[place] == best]
        elif policy is PoolPolicy.FIRST_FIT:
            roomy = [next((place for place in order if place in roomy), roomy[0])]
        self._step(len(roomy) + 1)
        if not self.is_of_one:
            return [(free[place], (order, _after(free, place, size))) for place in roomy]
        found = {free[place]: _after(free, place, size) for place in roomy}  # equal pools are one choice
        return [(room, (order, each if self._in_order else descending(each))) for room, each in found.items()]

    def _is_roomy(self, free: tuple[int, ...], coming: Pieces) -> bool:
        """True if no claim can be shut out: all others lack the bytes to fill every pool that it reaches. False decides
        nothing. Of one class, that is so if it holds for the largest."""
        for size, owner in coming[:1] if self.is_of_one else dict.fromkeys(coming):
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
        self._search.spend(self._cost * steps)
        if self._left < 0:
            raise GaveUp


def least_harmful(pools: SharedPools, pieces: Pieces, search: SearchBudget) -> Piece:
    """The claim to send first if there is no safe order: the one with the smallest share of driver choices that leave
    no room for the others; among equals the largest."""

    def harm(piece: Piece) -> float:
        play, rest = DriverSearch(pools, search), without_piece(pieces, piece)
        ends = unless_given_up(lambda: play.outcomes((piece,), set())) or ()
        after = {descending(free) if play.is_of_one else free for _, free in ends}
        return sum(not play.holds(rest, free) for free in after) / max(len(after), 1)

    return min(dict.fromkeys(pieces), key=harm)


def _ordered(pools: SharedPools, pieces: Pieces, promised: Pieces, search: SearchBudget) -> Pieces | None:
    return unless_given_up(lambda: DriverSearch(pools, search).order(pieces, promised))


safe_order_of = Found(_ordered, worst=None)
"""The claims in an order that always works beside promised ones; None if there is none, or the search gives up."""


def pieces_of(pieces: Iterable[Piece]) -> Pieces:
    """Claims in the order that every function here expects."""
    return tuple(sorted(pieces, reverse=True))


def without_piece(pieces: Pieces, piece: Piece) -> Pieces:
    place = pieces.index(piece)
    return pieces[:place] + pieces[place + 1 :]


def _after(free: tuple[int, ...], place: int, size: int) -> tuple[int, ...]:
    return (*free[:place], free[place] - size, *free[place + 1 :])
