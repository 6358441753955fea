"""How many of something there are on which rows, kept for the rows that have any.

A cluster has thousands of rows and thousands of things worth counting, most of them on a few rows only. So rows and
counts stand side by side, packed, and a thing costs what it occupies; a decision reads both as arrays, without a copy.

    rows    [ 4, 17, 2 ]        three rows have any
    counts  [ 1,  3, 1 ]        row 17 has three
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Ids, Ints, Mask

RowNumbers = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]

_FIRST_CAPACITY = 4
_FEW = 64
"""Up to so many rows are added one by one: arrays as long as the table of nodes would cost more."""


class RowCounts:
    """Counts by row. `add` costs the same however many rows there are."""

    __slots__ = ("_counts", "_place", "_rows")

    def __init__(self) -> None:
        self._place: dict[int, int] = {}  # row -> where it stands in the arrays
        self._rows: RowNumbers = np.zeros(_FIRST_CAPACITY, dtype=np.intp)
        self._counts: Ints = np.zeros(_FIRST_CAPACITY, dtype=np.int64)

    @classmethod
    def sum_of(cls, parts: Sequence[RowCounts]) -> Self:
        """A new table with what all the parts have together."""
        made = cls()
        if sum(len(part) for part in parts) <= _FEW:
            for part in parts:
                for row, count in zip(part.rows.tolist(), part.counts.tolist(), strict=True):
                    made.add(row, count)
            return made
        by_row = np.bincount(
            np.concatenate([part.rows for part in parts]), weights=np.concatenate([part.counts for part in parts])
        )
        made._rows = np.flatnonzero(by_row)
        made._counts = by_row[made._rows].astype(np.int64)
        made._place = {row: place for place, row in enumerate(made._rows.tolist())}
        return made

    @property
    def rows(self) -> RowNumbers:
        """The rows that have any, each once, in no order. A view: it is true until the next `add`."""
        return self._rows[: len(self._place)]

    @property
    def counts(self) -> Ints:
        """How many each of `rows` has; never 0."""
        return self._counts[: len(self._place)]

    def by_value(self, ids: Ids, values: int, keep: Mask | None = None) -> Floats:
        """The counts summed up by label value: `ids` is that of every row, of `values` there are.

        `keep` says which of `rows` count. Floats, for that is what bincount makes of weights; the sums are exact.
        """
        counts = self.counts if keep is None else self.counts * keep
        found: Floats = np.bincount(ids[self.rows], weights=counts, minlength=values).astype(np.float64, copy=False)
        return found

    def __len__(self) -> int:
        """How many rows have any."""
        return len(self._place)

    def add(self, row: int, count: int) -> None:
        """Count some more, or fewer, on a row."""
        place = self._place.get(row)
        if place is None:
            place = self._place[row] = len(self._place)
            if place >= len(self._rows):
                self._reserve(2 * place)
            self._rows[place], self._counts[place] = row, count
            return
        left = int(self._counts[place]) + count
        if left:
            self._counts[place] = left
            return
        # The last one moves into the gap, so that the arrays stay packed.
        del self._place[row]
        last = len(self._place)
        if place != last:
            self._rows[place], self._counts[place] = self._rows[last], self._counts[last]
            self._place[int(self._rows[place])] = place

    def _reserve(self, capacity: int) -> None:
        capacity = max(capacity, _FIRST_CAPACITY)
        rows, counts = self._rows, self._counts
        self._rows, self._counts = np.zeros(capacity, dtype=np.intp), np.zeros(capacity, dtype=np.int64)
        self._rows[: len(rows)], self._counts[: len(counts)] = rows, counts
