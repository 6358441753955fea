"""Which rows changed since when: how a decision knows what it may reuse.

Every change is one tick of a counter. The log keeps the row of each tick, so that "what changed since I last looked"
costs the changes and not the rows; and for each row the tick of its last change, for those who looked so long ago that
the log has forgotten.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Ints, Rows, grown

_ASK_ALL_FROM = 0.2
"""With a larger share of rows changed, asking about all of them in one go is cheaper."""


class Changes:
    """Changes of rows, in order."""

    def __init__(self, capacity: int) -> None:
        self.tick = 0
        """How many changes there were."""
        self.version: Ints = np.zeros(capacity, dtype=np.int64)
        """By row, the tick of its last change."""
        self._log: list[int] = []  # rows; the last entry is that of `tick`
        self._last: tuple[int, int, int, Rows] = (0, 0, 0, slice(0, 0))
        """The last question and its answer: those who judge rows and those who score them ask the same."""

    def grow(self, capacity: int) -> None:
        self.version = grown(self.version, capacity)

    def note(self, row: int) -> None:
        """A row changed."""
        self.tick += 1
        self.version[row] = self.tick
        self._log.append(row)
        if len(self._log) > 2 * len(self.version):
            del self._log[: len(self.version)]

    def note_many(self, rows: npt.NDArray[np.intp]) -> None:
        """Several rows changed, at once."""
        self.tick += len(rows)
        self.version[rows] = self.tick
        self._log.extend(rows.tolist())
        if len(self._log) > 2 * len(self.version):
            del self._log[: -len(self.version)]

    def since(self, tick: int, size: int) -> Rows:
        """The rows below `size` that changed after a tick; all of them when they are many."""
        missed = self.tick - tick
        if missed == 0:
            return slice(0, 0)
        if missed == 1:  # the commonest by far: the pod placed last
            row = self._log[-1]
            return slice(row, row + 1)
        if self._last[:3] == (tick, self.tick, size):
            return self._last[3]
        rows = self._rows_since(tick, size)
        self._last = (tick, self.tick, size, rows)
        return rows

    def _rows_since(self, tick: int, size: int) -> Rows:
        missed = self.tick - tick
        if missed > len(self._log):
            found = np.flatnonzero(self.version[:size] > tick)
        else:
            rows = set(self._log[-missed:])
            if len(rows) == 1:  # a pod, what is held for it and what its driver says are changes of one row
                (row,) = rows
                return slice(row, row + 1)
            found = np.array(sorted(rows), dtype=np.intp)
        if len(found) == 1:
            return slice(int(found[0]), int(found[0]) + 1)
        return found if len(found) <= _ASK_ALL_FROM * size else slice(0, size)
