"""What a driver may do with equal replicas that come one after the other: the course that runs fewest or most of them.

    pools ──► the scheduler lets a replica in ──► its claims are in flight ──► the driver makes one of them ──► pools …

A policy tells the pool of a claim and not which claim comes first. The scheduler sends the claims of a replica together
where every order and every choice places them all, and provisioners make them in any order, those of several replicas
in between: so claims in flight come in any order, and a replica is let in beside others as soon as all of them find
room in every order. Otherwise its claims come one after the other, in the order that the scheduler finds. Pools 200,
180 and 60 hold two replicas of 180 and 20 with most-free if each 180 comes before its 20. If the first 180 comes
before its 20, the 20 goes to the other large pool, and no second 180 has room.

    unknown, random    takes any pool with room. The order does not matter: what can be reached in one order can be
                       reached in every order, so the largest come first.
    first-fit          also has an order of pools of its own, assumed for the worst or for the best.

The search is bounded: `is_cut` says that it was cut and the rest is a guess.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from tonnage.scheduling.volumes.packing import pool_policies, shared_pools
from tonnage.scheduling.volumes.packing.claim_orders import safe_order
from tonnage.scheduling.volumes.packing.pool_fits import SearchBudget, descending
from tonnage.scheduling.volumes.packing.pool_grades import Grade, grade_one, is_guaranteed
from tonnage.scheduling.volumes.packing.pool_policies import ANY_POOL, DriverSearch, PoolPolicy, SharedPools

MOST_STATES: Final = 30_000
"""Limit of pool states per question, about a second. Beyond, the first choice is taken."""
MOST_TOGETHER: Final = 10_000
"""The same for replicas that come together."""
MOST_VOLUMES: Final = 10_000
"""A course ends after so many; the next one goes on from there."""
_MOST_ORDERS: Final = 720
_GRADING_STEPS: Final = 20_000
_BESIDE_STEPS: Final = 2_000_000
_ORDERING_STEPS: Final = 500
_FEW_PROMISED: Final = 4
"""Beside more, no replica is let in whose claims need an order."""


class DriverLuck(Enum):
    """What is assumed about a driver whose choices are unknown."""

    WORST = "worst"
    BEST = "best"


class Pool(NamedTuple):
    free: int
    classes: tuple[str, ...]
    """That draw from it."""


class Ask(NamedTuple):
    """A claim: what its volume takes, what the driver keeps free beside it, its class and the policy of that."""

    size: int
    kept: int
    class_name: str
    policy: PoolPolicy = PoolPolicy.UNKNOWN


Pools = tuple[Pool, ...]
"""Descending; with first-fit in the driver's order."""
Asks = tuple[Ask, ...]


class DriverState(NamedTuple):
    pools: Pools
    in_flight: Asks
    """Descending; they come in any order."""
    in_turn: Asks = ()
    """They come in this order, between those in flight."""


class Move(NamedTuple):
    """A claim that is made next, and the position of its pool."""

    ask: Ask
    place: int
    after: DriverState


@dataclass
class DriverChoices:
    """All searches of one question."""

    luck: DriverLuck
    is_cut: bool = False
    has_chosen: bool = False
    """There was a choice, so another luck may end differently."""
    _searches: dict[tuple[Asks, int], _Courses] = field(default_factory=dict)
    _states: int = 0
    _together: int = 0
    """The states of searches in which replicas come together."""
    beside: SearchBudget = field(default_factory=lambda: SearchBudget(_BESIDE_STEPS))
    """For questions about replicas beside others."""

    def course(self, pools: Pools, asks: Asks, rest: Asks, *, overlaps: bool, order: Sequence[int] = ()) -> Course:
        """The whole course of a disk: of this replica, of which `rest` is still to be made, and of replicas that ask
        for `asks`. With `overlaps`, several replicas come together: two, then four, and so on while the search has
        states left. `order`: of the pools, if it is known by now."""
        found: Course | None = None
        most = 1
        while True:
            search = self._searches.setdefault((asks, most), _Courses(self, asks, most))
            chosen = self._order(search, pools, rest, order)
            course = search.course(search.start(pools, chosen, rest), pools, chosen)
            lengths = [len(each.volumes) for each in (found, course) if each is not None]
            if found is None or self.better(lengths) != lengths[0]:
                found = course
            if not overlaps or not search.is_full:
                return found
            if self._together > MOST_TOGETHER or self.beside.is_spent:
                self.is_cut = True
                return found
            most *= 2

    def _order(self, search: _Courses, pools: Pools, rest: Asks, known: Sequence[int]) -> Sequence[int]:
        """The driver's order of pools with which the fewest or the most replicas run."""
        orders: list[Sequence[int]] = [known or range(len(pools))]
        if search.is_in_order and not known:
            orders = list(islice(distinct_orders(pools), _MOST_ORDERS + 1))
            self.is_cut |= len(orders) > _MOST_ORDERS
            self.has_chosen |= len(orders) > 1
        worth = {tuple(order): search.worth(search.start(pools, order, rest)) for order in orders[:_MOST_ORDERS]}
        best = self.better(worth.values())
        return next(order for order in worth if worth[order] == best)

    def better(self, worths: Iterable[int]) -> int:
        return min(worths) if self.luck is DriverLuck.WORST else max(worths)

    def spent(self, *, together: bool) -> float:
        """Count a state, and return how many there were, as a share of the limit."""
        self._states += not together
        self._together += together
        share = self._together / MOST_TOGETHER if together else self._states / MOST_STATES
        self.is_cut |= share > 1
        return share


@dataclass
class Course:
    """The volumes that are made from now on, and the free bytes of the disk's pools, by number, before them."""

    free: list[int]
    volumes: list[tuple[Ask, int]]
    """The pool of each, by number."""
    order: tuple[int, ...]
    """The pools in the driver's order."""

    def take(self, ask: Ask) -> int | None:
        """The pool of the next claim that asks for this; None if no such claim is in the course."""
        at = next((at for at, (each, _) in enumerate(self.volumes) if each == ask), None)
        if at is None:
            return None
        _, number = self.volumes.pop(at)
        self.free[number] -= ask.size
        return number


class _Courses:
    """The courses of replicas that all ask for the same of a disk."""

    def __init__(self, choices: DriverChoices, asks: Asks, most: int) -> None:
        """`most`: so many replicas have claims in flight at a time."""
        self._choices, self._asks, self._most = choices, tuple(sorted(asks, reverse=True)), most
        self.is_full = False
        """More replicas would have been let in at some time."""
        policies = {ask.policy for ask in asks}
        self.is_in_order = PoolPolicy.FIRST_FIT in policies
        self._takes_any = policies <= {*ANY_POOL}
        self._kept = max((ask.kept for ask in asks), default=0)
        self._worth: dict[DriverState, int] = {}

    def start(self, pools: Pools, order: Sequence[int], rest: Asks) -> DriverState:
        """The state before a replica; or with the rest of one, or one that hardly fits, which comes in turn."""
        ordered = tuple(pools[number] for number in order)
        if sorted(rest, reverse=True) == [*self._asks] and self._grade(pools) is not Grade.NONE:
            rest = ()
        return DriverState(self._canonical(ordered), (), tuple(sorted(rest, reverse=True)))

    def worth(self, state: DriverState) -> int:
        """How many more replicas run in the end; -1: and not the one that is in turn."""
        known, stack = self._worth, [state]
        counts: dict[DriverState, tuple[int, list[Move]]] = {}
        while stack:
            at = stack[-1]
            if at not in counts:
                counts[at] = self._seen(at)
            count, moves = counts[at]
            open_ends = [move.after for move in moves if move.after not in known]
            if open_ends:
                stack += open_ends
                continue
            known[at] = count + self._choices.better([known[move.after] for move in moves]) if moves else count
            stack.pop()
        return known[state]

    def _seen(self, state: DriverState) -> tuple[int, list[Move]]:
        """How many replicas are let in here, and what may happen next."""
        spent = self._choices.spent(together=self._most > 1)
        if spent > 1 + MOST_VOLUMES / MOST_STATES:
            return 0, []
        now, count = self._admitted(state)
        moves = self._moves(now)
        if spent > 1:
            moves = moves[:1] if self._choices.luck is DriverLuck.WORST else moves[-1:]
        is_refused = not moves and (now.in_flight or now.in_turn)
        return count - bool(is_refused), moves

    def course(self, state: DriverState, pools: Pools, order: Sequence[int]) -> Course:
        """The course with that worth, to its end."""
        free = [pool.free for pool in pools]
        found = Course(list(free), [], tuple(order))
        while len(found.volumes) < MOST_VOLUMES:
            now, _ = self._admitted(state)
            moves = self._moves(now)
            if not moves:
                break
            self._choices.has_chosen |= len(moves) > 1
            worths = [self.worth(move.after) for move in moves]
            best = self._choices.better(worths)
            asks = [move.ask for move, worth in zip(moves, worths, strict=True) if worth == best]
            move = min(
                (move for move, worth in zip(moves, worths, strict=True) if worth == best and move.ask == asks[0]),
                key=lambda move: now.pools[move.place],
            )
            pool = now.pools[move.place]
            if self.is_in_order:
                number = order[move.place]
            else:
                number = next(each for each in order if Pool(free[each], pools[each].classes) == pool)
            free[number] -= move.ask.size
            found.volumes.append((move.ask, number))
            state = move.after
        return found

    def _admitted(self, state: DriverState) -> tuple[DriverState, int]:
        """The state once the scheduler has let in all replicas that it lets in now, and how many these are."""
        pools, in_flight, in_turn = state
        count = 0
        while not in_turn:
            is_last = len(in_flight) > (self._most - 1) * len(self._asks)
            if is_last and (self._takes_any or self.is_full):
                break
            grade = self._grade_beside(pools, in_flight) if in_flight else self._grade(pools)
            if is_last:
                self.is_full |= grade is not Grade.NONE
                break
            if grade is Grade.NONE:
                break
            count += 1
            if grade is Grade.GUARANTEED and not self._takes_any:
                in_flight = tuple(sorted((*in_flight, *self._asks), reverse=True))
            else:
                in_turn = (self._order(pools, in_flight) if grade is Grade.ORDERED else ()) or self._asks
        return DriverState(pools, in_flight, in_turn), count

    def _moves(self, state: DriverState) -> list[Move]:
        pools, in_flight, in_turn = state
        asked = [(ask, _without(in_flight, ask), in_turn) for ask in dict.fromkeys(in_flight)]
        asked += [(ask, in_flight, in_turn[1:]) for ask in in_turn[:1]]
        return [
            Move(ask, place, DriverState(self._after(pools, place, ask), flying, turn))
            for ask, flying, turn in asked
            for place in self._places(pools, ask)
        ]

    def _places(self, pools: Pools, ask: Ask) -> list[int]:
        """The pools that the driver may take for a claim; of equal pools one."""
        open_to = [(place, pool) for place, pool in enumerate(pools) if ask.class_name in pool.classes]
        roomy = {pool: place for place, pool in reversed(open_to) if pool.free >= ask.size + ask.kept}
        if not roomy or ask.policy in ANY_POOL:
            return [*reversed(roomy.values())]
        if ask.policy is PoolPolicy.FIRST_FIT:
            return [min(roomy.values())]
        best = (max if ask.policy is PoolPolicy.MOST_FREE else min)(pool.free for pool in roomy)
        return [place for pool, place in roomy.items() if pool.free == best]

    def _after(self, pools: Pools, place: int, ask: Ask) -> Pools:
        left = [*pools]
        left[place] = pools[place]._replace(free=pools[place].free - ask.size)
        return self._canonical(left)

    def _canonical(self, pools: Iterable[Pool]) -> Pools:
        return tuple(pools) if self.is_in_order else tuple(sorted(pools, reverse=True))

    # -- the scheduler's view: the pools without their order ----------------------------------------------------------

    def _grade(self, pools: Pools) -> Grade:
        search = SearchBudget(_GRADING_STEPS)
        if (policy := self._policy_of_one(pools)) is not None:
            return grade_one(self._free(pools), _sizes(self._asks), (), search, policy)
        return shared_pools.shared_grade(*self._shared(pools, ()), search, with_order=True)

    def _grade_beside(self, pools: Pools, promised: Asks) -> Grade:
        """GUARANTEED, ORDERED, or NONE: this replica waits until all others have their volumes."""
        search = self._choices.beside
        if search.is_spent:
            self.is_full = True
            return Grade.NONE
        shared, pieces, beside = self._shared(pools, promised)
        together = pool_policies.pieces_of((*pieces, *beside))
        if sum(size for size, _ in together) > sum(free for free in shared.free if free > 0):
            return Grade.NONE
        if (policy := self._policy_of_one(pools)) is not None:
            is_sure = is_guaranteed(self._free(pools), _sizes((*self._asks, *promised)), search, policy)
        else:
            play = DriverSearch(shared, search, most=_ORDERING_STEPS)
            is_sure = pool_policies.unless_given_up(lambda: play.shut_out(together)) == ()
        if is_sure:
            return Grade.GUARANTEED
        is_small = len(promised) <= _FEW_PROMISED
        return Grade.ORDERED if is_small and self._order(pools, promised) else Grade.NONE

    def _order(self, pools: Pools, promised: Asks) -> Asks:
        """An order of a replica's claims that always works; empty if none is found."""
        if (policy := self._policy_of_one(pools)) is not None and not promised:
            search, sizes = SearchBudget(_GRADING_STEPS), _sizes(self._asks)
            in_order = [(size, "") for size in safe_order(self._free(pools), sizes, (), search, policy) or ()]
        else:
            names, (shared, pieces, beside) = self._names(), self._shared(pools, promised)
            play = DriverSearch(shared, self._choices.beside, most=_ORDERING_STEPS)
            found = pool_policies.unless_given_up(lambda: play.order(pieces, beside))
            in_order = [(size, names[owner]) for size, owner in found or ()]
        left, order = list(self._asks), list[Ask]()
        for size, name in in_order:
            order.append(next(ask for ask in left if ask.size == size and name in ("", ask.class_name)))
            left.remove(order[-1])
        return tuple(order)

    def _policy_of_one(self, pools: Pools) -> PoolPolicy | None:
        """The policy, if all claims can go to all pools by one policy."""
        policies = {ask.policy for ask in self._asks}
        is_common = all(ask.class_name in pool.classes for ask in self._asks for pool in pools)
        return next(iter(policies)) if is_common and len(policies) == 1 else None

    def _names(self) -> list[str]:
        return sorted({ask.class_name for ask in self._asks})

    def _free(self, pools: Pools) -> tuple[int, ...]:
        return descending(pool.free - self._kept for pool in pools)

    def _shared(self, pools: Pools, promised: Asks) -> tuple[SharedPools, pool_policies.Pieces, pool_policies.Pieces]:
        names, ordered = self._names(), sorted(pools, reverse=True)
        policies = {ask.class_name: ask.policy for ask in self._asks}
        reaches = tuple(
            pool_policies.PoolReach(
                tuple(at for at, pool in enumerate(ordered) if name in pool.classes), policies[name]
            )
            for name in names
        )
        pieces, beside = (
            pool_policies.pieces_of((ask.size, names.index(ask.class_name)) for ask in asks)
            for asks in (self._asks, promised)
        )
        return SharedPools(tuple(pool.free - self._kept for pool in ordered), reaches), pieces, beside


def _without(asks: Asks, ask: Ask) -> Asks:
    at = asks.index(ask)
    return asks[:at] + asks[at + 1 :]


def _sizes(asks: Asks) -> tuple[int, ...]:
    return descending(ask.size for ask in asks)


def distinct_orders(pools: Sequence[Hashable]) -> Iterator[tuple[int, ...]]:
    """The orders of these pools, by number, of which no two differ by equal pools alone."""

    def orders_of(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        firsts = {pools[number]: number for number in reversed(left)}
        for first in reversed(firsts.values()):
            for rest in orders_of(tuple(number for number in left if number != first)):
                yield first, *rest
        if not left:
            yield ()

    return orders_of(tuple(range(len(pools))))
