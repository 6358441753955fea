"""Filter results: which plugin refuses which row, and why. Filters write this table, decisions read it.

For every row it holds the first plugin, in the profile's order, that objects to it, that plugin's reasons as bits, and
whether preemption could help. Plugins may be entered in any order: the one that comes first in the profile wins.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Mask, Rows, grown, only_row
from tonnage.scheduling.framework import Bits, Judgement
from tonnage.scheduling.reason_bits import reason_place, with_reasons

NOBODY = 127
"""In `first`: no plugin objects. More than any position, so that the smaller of two is the first to object."""
NARROWED = 126
"""In `first`: a PreFilter plugin left the node out."""


class FilterResults:
    """By row: `first`, a position in the profile's filters; `bits`, one for each of its `reasons`; and `final`."""

    __slots__ = ("bits", "final", "first", "reasons")

    def __init__(self, first: npt.NDArray[np.int8], bits: Bits, final: Mask, reasons: list[tuple[str, ...]]) -> None:
        self.first = first
        self.bits = bits
        self.final = final
        self.reasons = reasons

    @classmethod
    def none(cls, rows: int, filters: int) -> Self:
        """Nobody objects to any of so many rows."""
        return cls(
            np.full(rows, NOBODY, dtype=np.int8),
            np.zeros(rows, dtype=np.int64),
            np.zeros(rows, dtype=np.bool_),
            [()] * filters,
        )

    def copy(self) -> FilterResults:
        return FilterResults(self.first.copy(), self.bits.copy(), self.final.copy(), list(self.reasons))

    def grow(self, rows: int) -> None:
        """Make room for more rows. What the new ones hold means nothing until they are written."""
        self.first, self.bits, self.final = grown(self.first, rows), grown(self.bits, rows), grown(self.final, rows)

    def clear(self, rows: Rows) -> None:
        self.first[rows] = NOBODY

    def take(self, other: FilterResults, rows: Rows) -> None:
        """Hold against these rows what another table does, whose plugins are others than those entered here."""
        row = only_row(rows)
        at = rows if row < 0 else row  # a plain index is cheaper than a range of one
        self.first[at] = other.first[at]
        self.bits[at] = other.bits[at]
        self.final[at] = other.final[at]

    def add(self, position: int, judgement: Judgement, rows: Rows) -> None:
        """Enter what a plugin holds against rows that no earlier plugin refuses."""
        bits = self._in_our_words(position, judgement)
        places = np.flatnonzero((bits != 0) & (self.first[rows] > position))
        if not len(places):
            return
        # Most plugins object to few rows: writing those alone costs a third of three selections over all of them.
        objected = places + rows.start if isinstance(rows, slice) else rows[places]
        final = judgement.unresolvable
        self.first[objected] = position
        self.bits[objected] = bits[places]
        self.final[objected] = final if isinstance(final, bool) else final[places]

    def _in_our_words(self, position: int, judgement: Judgement) -> Bits:
        """The judgement's bits under the reasons this table knows; reasons that are new are appended."""
        known = self.reasons[position]
        if judgement.reasons == known:
            return judgement.bits
        if not known:
            self.reasons[position] = judgement.reasons
            return judgement.bits
        merged = self.reasons[position] = with_reasons(known, judgement.reasons)
        bits = np.zeros_like(judgement.bits)
        for i, reason in enumerate(judgement.reasons):
            bits |= ((judgement.bits >> i) & 1) << reason_place(merged, reason)
        return bits
