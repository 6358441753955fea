"""Which rows changed since when."""

from __future__ import annotations

import random

from support.held_memory import entries_held
from tonnage.scheduling.cluster.columns import Changes, row_numbers


def since(changes: Changes, tick: int, size: int = 64) -> list[int]:
    return list(row_numbers(changes.since(tick, size)).tolist())


def test_nothing_one_or_some_rows_changed():
    changes = Changes(64)
    start = changes.tick
    assert since(changes, start) == []
    changes.note(7)
    assert since(changes, start) == [7]
    for row in (3, 7, 3, 5):
        changes.note(row)
    assert since(changes, start) == [3, 5, 7]
    assert since(changes, start + 4) == [5]
    assert changes.version[[3, 5, 7]].tolist() == [4, 5, 3]


def test_the_same_row_many_times_is_one_row():
    changes = Changes(64)
    for _ in range(50):
        changes.note(9)
    assert changes.since(0, 64) == slice(9, 10)


def test_when_many_rows_changed_all_are_asked_about():
    changes = Changes(64)
    for row in range(12):
        changes.note(row)
    assert since(changes, 0) == list(range(12))  # 12 of 64 is less than a fifth
    changes.note(20)
    assert changes.since(0, 64) == slice(0, 64)


def test_what_the_log_has_forgotten_is_found_by_version():
    rng, changes = random.Random(5), Changes(64)
    last = [0] * 64
    for tick in range(1, 2000):
        row = rng.randrange(8)
        changes.note(row)
        last[row] = tick
        then = rng.randrange(tick)
        assert since(changes, then) == [row for row in range(64) if last[row] > then]
    assert entries_held(changes) <= 2 * 64


def test_a_grown_log_knows_the_new_rows():
    changes = Changes(2)
    changes.note(1)
    changes.grow(64)
    changes.note(40)
    assert since(changes, 0) == [1, 40]
