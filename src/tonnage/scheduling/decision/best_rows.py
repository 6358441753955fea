"""The rows with the highest total, kept from one equal pod to the next: a row that changes moves one, no array is read.

    totals     7  9  9  3  1  9        best 9, rows 1, 2, 5
    row 2 takes the pod and falls to 8              rows 1, 5
    row 0 is freed and rises to 12     best 12, rows 0

When the last of them falls, the totals are searched for the next best. That is as often as there are fewer rows with
the same total than pods, and costs what every decision cost otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Ints

_MOST = 1024
"""So many rows are kept one by one. More of them, such as the nodes of an empty cluster, are read off the totals."""


class BestRows:
    """Over totals that belong to somebody else, who tells of every row that changes."""

    def __init__(self) -> None:
        self._best = 0
        self._rows: list[int] | None = None
        """In order; None when they are not known, or too many."""

    def forget(self) -> None:
        """More changed than can be told row by row."""
        self._rows = None

    def changed(self, row: int, total: int) -> None:
        """One row's total is this now."""
        rows = self._rows
        if rows is None:
            return
        if total > self._best:
            self._best, self._rows = total, [row]
            return
        place = bisect_left(rows, row)
        is_there = place < len(rows) and rows[place] == row
        if total == self._best:
            if not is_there:
                insort(rows, row)
        elif is_there:
            del rows[place]
            if not rows:
                self._rows = None

    def of(self, totals: Ints) -> list[int] | npt.NDArray[np.intp]:
        """The rows with the highest of these totals, in order; to be read at once, not to be changed."""
        if self._rows is not None:
            return self._rows
        self._best = int(totals.max())
        found: npt.NDArray[np.intp] = (totals == self._best).nonzero()[0]
        if len(found) <= _MOST:
            self._rows = found.tolist()
        return found
