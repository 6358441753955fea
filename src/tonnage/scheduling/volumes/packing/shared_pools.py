"""Claims of several classes in pools that the classes share in part: the packing and the grades, pool by pool.

    pools      ssd-1 100Gi   ssd-2 60Gi   hdd 400Gi
    "fast"     ssd-1, ssd-2                              draws from its own set of pools
    "mixed"                  ssd-2        hdd            and shares ssd-2

Everything means what it means for one class (`pool_grades.py`, `claim_orders.py`), but a claim goes only into pools
that its class reaches, by the policy of its class. A search that gives up answers with the lower grade.
"""

from __future__ import annotations

from typing import Final

from tonnage.scheduling.volumes.packing.pool_fits import UNLIMITED, Found, SearchBudget
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.packing.pool_policies import (
    DriverSearch,
    Piece,
    Pieces,
    SharedPools,
    pieces_of,
    unless_given_up,
    without_piece,
)


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
    return _orders.ask(asked, search, lambda search: _ordered(pools, pieces, promised, search), worst=None)


def shared_places(
    pools: SharedPools, pieces: Pieces, promised: Pieces = (), search: SearchBudget = UNLIMITED
) -> tuple[int, ...] | None:
    """For every claim the position of its pool in a packing on top of the promised ones; None if there is none."""
    play = DriverSearch(pools, search)
    found = unless_given_up(lambda: play.packing((*promised, *pieces), pools.free), worst=None)
    return None if found is None else found[len(promised) :]


def shared_next(pools: SharedPools, pieces: Pieces, search: SearchBudget = UNLIMITED) -> Piece:
    """The claim to send first if there is no safe order: the one with the smallest share of driver choices that leave
    no room for the others; among equals the largest."""

    def harm(piece: Piece) -> float:
        play, rest = DriverSearch(pools, search), without_piece(pieces, piece)
        after = unless_given_up(lambda: play.outcomes((piece,), set()), worst=None) or ()
        return sum(not play.holds(rest, free) for _, free in after) / max(len(after), 1)

    return min(dict.fromkeys(pieces), key=harm)


_NONE: Final = Grade.NONE
_grades: Found[Grade] = Found()
_orders: Found[Pieces | None] = Found()


def _graded(pools: SharedPools, pieces: Pieces, promised: Pieces, search: SearchBudget, with_order: bool) -> Grade:
    play, asked = DriverSearch(pools, search), DriverSearch(pools, search)
    if unless_given_up(lambda: asked.shut_out(pieces_of((*pieces, *promised))), worst=None) == ():
        return Grade.GUARANTEED
    left = unless_given_up(lambda: play.outcomes(promised, {owner for _, owner in pieces}), worst=None)
    if left is None or not all(play.holds(pieces, free) for _, free in left):
        return Grade.NONE
    is_ordered = with_order and _ordered(pools, pieces, promised, search) is not None
    return Grade.ORDERED if is_ordered else Grade.POSSIBLE


def _ordered(pools: SharedPools, pieces: Pieces, promised: Pieces, search: SearchBudget) -> Pieces | None:
    return unless_given_up(lambda: DriverSearch(pools, search).order(pieces, promised), worst=None)
