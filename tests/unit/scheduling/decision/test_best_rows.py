"""The rows with the highest total, kept as rows change, against reading all totals every time."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tonnage.scheduling.cluster.columns import Ints
from tonnage.scheduling.decision import best_rows
from tonnage.scheduling.decision.best_rows import BestRows

UNFIT = -(1 << 62)


def read_off(totals: Ints) -> list[int]:
    return list((totals == totals.max()).nonzero()[0].tolist())


def change(best: BestRows, totals: Ints, row: int, total: int) -> None:
    before, totals[row] = int(totals[row]), total
    best.changed(row, before, total)


def test_levels_are_emptied_one_after_the_other():
    totals = np.array([7, 9, 9, 3, 1, 9], dtype=np.int64)
    best = BestRows(UNFIT)
    assert list(best.of(totals)) == [1, 2, 5]
    for row, total, expected in ((2, 8, [1, 5]), (0, 12, [0]), (0, 2, [1, 5]), (1, 0, [5]), (5, 0, [2])):
        change(best, totals, row, total)
        assert list(best.of(totals)) == expected


def test_nobody_is_left():
    totals = np.array([4, UNFIT], dtype=np.int64)
    best = BestRows(UNFIT)
    assert list(best.of(totals)) == [0]
    change(best, totals, 0, UNFIT)
    assert list(best.of(totals)) == [0, 1]
    change(best, totals, 1, 3)
    assert list(best.of(totals)) == [1]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("few", "below"), [(4, 2), (16, 20), (best_rows._FEW, best_rows._BELOW)])
def test_what_is_kept_is_what_is_read_off(monkeypatch: pytest.MonkeyPatch, seed: int, few: int, below: int):
    """Rows that take pods fall, rows that are freed rise, some stop fitting, and sometimes many change at once."""
    monkeypatch.setattr(best_rows, "_FEW", few)
    monkeypatch.setattr(best_rows, "_BELOW", below)
    rng = random.Random(seed)
    size = rng.choice([1, 5, 40, 400])
    spread = rng.choice([3, 30, 1000])
    totals = np.array([rng.choice([UNFIT, rng.randrange(spread)]) for _ in range(size)], dtype=np.int64)
    best = BestRows(UNFIT)
    for _ in range(400):
        found = read_off(totals)
        assert list(best.of(totals)) == found
        if rng.random() < 0.03:
            for _ in range(rng.randrange(5)):
                totals[rng.randrange(size)] = rng.randrange(spread)
            best.forget()
            continue
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            row = rng.choice(found) if rng.random() < 0.7 else rng.randrange(size)
            before = int(totals[row])
            fallen = before - rng.randrange(1, 5) if before != UNFIT else rng.randrange(spread)
            change(best, totals, row, rng.choice([fallen, fallen, fallen, UNFIT, rng.randrange(spread), before]))
