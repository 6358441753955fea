"""The rows with the highest totals, kept from one equal pod to the next: a row that changes moves one, and that is all.

    totals     7  9  9  3  1  9          level 9: rows 1, 2, 5       kept from 9 on
    row 2 takes the pod and falls to 8   level 9: rows 1, 5
    row 0 is freed and rises to 12       level 9: rows 1, 5          level 12: row 0
    rows 0, 1 and 5 take pods            nothing is left: the totals are searched

Where rows differ much, a level is empty after a pod or two. So a search that follows because all of the best fell keeps
the levels below as well. Where more changed than is told row by row, all is forgotten, and the next search keeps the
best level only: it may be of use to one decision.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from enum import Enum
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Ints
from tonnage.scheduling.framework import Cycle

_FEW: Final = 256
_BELOW: Final = 64
"""Levels down to so far below the best are kept, as long as there are few rows in them together."""


class BestRows:
    """Over totals that belong to somebody else, who tells of every row that changes. `unfit` is less than any total."""

    def __init__(self, unfit: int) -> None:
        self._unfit = unfit
        self._best = 0
        self._floor = 0
        """All rows with at least this total are kept, and no others."""
        self._levels: dict[int, array[int]] = {}
        """By total, the rows that have it, in order, as an array that numpy reads as it is; empty: not known."""
        self._ran_out = False
        """All that were kept fell, one by one."""

    def forget(self) -> None:
        """More changed than can be told row by row."""
        self._levels = {}
        self._ran_out = False

    def changed(self, row: int, before: int, total: int) -> None:
        """One row's total was that, and is this now."""
        levels = self._levels
        if not levels or before == total:
            return
        if total >= self._floor:
            if total not in levels:
                levels[total] = array("q")
            insort(levels[total], row)
            self._best = max(self._best, total)
        if before < self._floor:
            return
        rows = levels[before]
        del rows[bisect_left(rows, row)]
        if not rows:
            del levels[before]
            self._ran_out = not levels
            if before == self._best and levels:
                self._best = max(levels)

    def of(self, totals: Ints) -> array[int]:
        """The rows with the highest of these totals, in order; to be read at once, not to be changed."""
        if self._levels:
            return self._levels[self._best]
        self._best = self._floor = int(totals.max())
        rows = _level((totals == self._best).nonzero()[0])
        if self._best > self._unfit:
            self._levels = {self._best: rows}
            if self._ran_out and len(rows) < _FEW:
                self._keep_more(totals)
        return rows

    def _keep_more(self, totals: Ints) -> None:
        """Keep the levels below the best as well, as many as have few rows together."""
        below = np.minimum(self._best - totals, _BELOW)  # of rows that are unfit, this is far more
        together = np.bincount(below, minlength=_BELOW + 1)[:_BELOW].cumsum()
        levels = max(int(np.searchsorted(together, _FEW, side="right")), 1)
        rows = (below < levels).nonzero()[0]
        kept = totals[rows]
        self._floor = self._best - levels + 1
        self._levels = {total: _level(rows[kept == total]) for total in set(kept.tolist())}


def _level(rows: npt.NDArray[np.intp]) -> array[int]:
    found = array("q")
    found.frombytes(rows.astype(np.int64, copy=False).tobytes())
    return found


class Prefers(Enum):
    """What a plugin's preference among rows decides, beside their scores."""

    NOTHING = "nothing: all rows are alike to it"
    AMONG_EQUALS = "among equals: which of the rows with the best total is taken"
    BEFORE_SCORES = "before scores: a row that it prefers is taken, whatever the totals are"


class Preference(Protocol):
    """Somebody who tells rows apart beside their scores: VolumeBinding, by how surely the volumes fit."""

    def prefers(self, cycle: Cycle) -> Prefers:
        """What `preference` decides: nothing for this pod, between rows with the same best total, or before totals."""
        ...

    def preference(self, cycle: Cycle, rows: npt.NDArray[np.intp]) -> Ints | None:
        """How good each row is beside its score: 0 is as good as it gets, less is worse. None: they are all alike."""
        ...
