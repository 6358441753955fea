"""One capacity object beside others that have some of its pools, as one profile reads them: what groups are asked of.

A group of claims of several such classes tells the class of each claim (`OwnedSizes`). Who makes views:
`volumes/shared_rooms.py`; who judges by them: `reading.py`, `claim_sequences.py`, and `explain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tonnage.scheduling.volumes.packing.pool_fits import SearchBudget, Sizes
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.packing.pool_policies import Pieces, SharedPools, pieces_of
from tonnage.scheduling.volumes.packing.shared_pools import shared_grade, shared_next, shared_order


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

    def grade(self, sizes: Sizes, class_name: str, search: SearchBudget, *, with_order: bool, is_held: bool) -> Grade:
        pieces = self.pieces(sizes, class_name)
        if pieces is None:
            return Grade.NONE
        return shared_grade(self.pools, pieces, self.promised if is_held else (), search, with_order=with_order)

    def order(self, sizes: Sizes, class_name: str, search: SearchBudget) -> OwnedSizes | None:
        """An order of the claims that always works (`OwnedSizes`, in that order); None if there is none."""
        pieces, names = self.pieces(sizes, class_name), {place: name for name, place in self.owners.items()}
        found = shared_order(self.pools, pieces, self.promised, search) if pieces is not None else None
        return OwnedSizes.of([(size, names[owner]) for size, owner in found], in_order=True) if found else None

    def next_claim(self, sizes: Sizes, class_name: str, search: SearchBudget) -> OwnedSizes:
        """The claim to send first if there is no such order, as a group of one."""
        names = {place: name for name, place in self.owners.items()}
        size, owner = shared_next(self.pools, self.pieces(sizes, class_name) or (), search)
        return OwnedSizes.of([(size, names[owner])])
