"""Claims of several classes in pools that the classes share in part: the packing and the grades, pool by pool.

    pools      ssd-1 100Gi   ssd-2 60Gi   hdd 400Gi
    "fast"     ssd-1, ssd-2                              draws from its own set of pools
    "mixed"                  ssd-2        hdd            and shares ssd-2

Everything means what it means for one class (`pool_grades.py`, `claim_orders.py`), but a claim goes only into pools
that its class reaches, by the policy of its class. A search that gives up answers with the lower grade. A group of
claims of several such classes tells the class of each claim (`OwnedSizes`). `SharedRooms` makes the views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tonnage.scheduling.volumes.packing.pool_fits import UNLIMITED, Found, SearchBudget, Sizes
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.packing.pool_policies import (
    DriverSearch,
    Pieces,
    SharedPools,
    least_harmful,
    pieces_of,
    safe_order_of,
    unless_given_up,
)


def shared_grade(
    pools: SharedPools, pieces: Pieces, promised: Pieces = (), search: SearchBudget = UNLIMITED, *, with_order: bool
) -> Grade:
    """The grade of these claims beside promised ones. Without `with_order`, POSSIBLE replaces ORDERED."""
    if any(size > pools.reaches[owner].limit for size, owner in pieces):
        return Grade.NONE
    return _grades(pools, pieces, promised, with_order, search)


def shared_places(
    pools: SharedPools, pieces: Pieces, promised: Pieces = (), search: SearchBudget = UNLIMITED
) -> tuple[int, ...] | None:
    """For every claim the position of its pool in a packing on top of the promised ones; None if there is none."""
    play = DriverSearch(pools, search)
    found = unless_given_up(lambda: play.packing((*promised, *pieces), pools.free))
    return None if found is None else found[len(promised) :]


def _graded(pools: SharedPools, pieces: Pieces, promised: Pieces, with_order: bool, search: SearchBudget) -> Grade:
    play, asked = DriverSearch(pools, search), DriverSearch(pools, search)
    if unless_given_up(lambda: asked.shut_out(pieces_of((*pieces, *promised)))) == ():
        return Grade.GUARANTEED
    left = unless_given_up(lambda: play.outcomes(promised, {owner for _, owner in pieces}))
    if left is None or not all(play.holds(pieces, free) for _, free in left):
        return Grade.NONE
    is_ordered = with_order and safe_order_of(pools, pieces, promised, search) is not None
    return Grade.ORDERED if is_ordered else Grade.POSSIBLE


_grades = Found(_graded, worst=Grade.NONE)


class OwnedSizes(tuple[int, ...]):
    """The claims of one group in bytes, with the class of each: of classes that share some of their pools."""

    owners: Sequence[str]

    @classmethod
    def of(cls, claims: Iterable[tuple[int, str]], *, in_order: bool = False) -> OwnedSizes:
        """From bytes and class names; descending unless `in_order`."""
        known = list(claims) if in_order else sorted(claims, reverse=True)
        owned_sizes = cls(size for size, _ in known)
        owned_sizes.owners = tuple(name for _, name in known)
        return owned_sizes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnedSizes) and super().__eq__(other) and self.owners == other.owners

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((tuple(self), self.owners))


class SharedView(NamedTuple):
    """An object whose pools are in part those of others, with all that is promised of them."""

    pools: SharedPools
    owners: Mapping[str, int]
    """By class, its position in `pools.reaches`."""
    promised: Pieces
    keeps: int = 0
    """Bytes that stay free in every pool, and that `pools` leaves out."""

    def pieces(self, sizes: Sizes, class_name: str) -> Pieces | None:
        """The claims of a group, all of one class unless they tell theirs; None if a class is not known here."""
        names = sizes.owners if isinstance(sizes, OwnedSizes) else [class_name] * len(sizes)
        if not self.owners.keys() >= set(names):
            return None
        return pieces_of((size, self.owners[name]) for size, name in zip(sizes, names, strict=True))

    def grade(self, sizes: Sizes, class_name: str, search: SearchBudget, *, with_order: bool) -> Grade:
        pieces = self.pieces(sizes, class_name)
        if pieces is None:
            return Grade.NONE
        return shared_grade(self.pools, pieces, self.promised, search, with_order=with_order)

    def order(self, sizes: Sizes, class_name: str, search: SearchBudget) -> OwnedSizes | None:
        """An order of the claims that always works (`OwnedSizes`, in that order); None if there is none."""
        pieces, names = self.pieces(sizes, class_name), {place: name for name, place in self.owners.items()}
        found = safe_order_of(self.pools, pieces, self.promised, search) if pieces is not None else None
        return OwnedSizes.of([(size, names[owner]) for size, owner in found], in_order=True) if found else None

    def next_claim(self, sizes: Sizes, class_name: str, search: SearchBudget) -> OwnedSizes:
        """The claim to send first if there is no such order, as a group of one."""
        names = {place: name for name, place in self.owners.items()}
        size, owner = least_harmful(self.pools, self.pieces(sizes, class_name) or (), search)
        return OwnedSizes.of([(size, names[owner])])
