"""Every piece of a run has tests that wait and tests that compute, and no file is torn apart."""

from __future__ import annotations

from itertools import groupby

from support.run_order import spread

LONG = [f"tests/e2e/test_{name}.py::test_{number}" for name in "abcdef" for number in range(2)]
WAITING = [f"tests/integration/test_{name}.py::test_{number}" for name in "abcdefghi" for number in range(5)]
COMPUTING = [f"tests/unit/test_{name}.py::test_{number}" for name in "abcdefghijkl" for number in range(20)]
BROWSER = [f"tests/dashboard/test_{name}.py::test_{number}" for name in "ab" for number in range(3)]
EVERY = [*BROWSER, *LONG, *WAITING, *COMPUTING]


def file_of(test: str) -> str:
    return test.partition("::")[0]


def pieces_of(order: list[str], number: int) -> list[list[str]]:
    """As xdist cuts them."""
    size = len(order) // number
    return [order[first : first + size] for first in range(0, size * number, size)]


def test_each_test_runs_once_and_those_of_a_file_in_a_row_and_in_their_order():
    order = spread(EVERY, 3, file_of=file_of)
    assert sorted(order) == sorted(EVERY)
    rows = [(file, list(tests)) for file, tests in groupby(order, key=file_of)]
    assert len(rows) == len({file for file, _ in rows})
    assert all(tests == sorted(tests, key=EVERY.index) for _, tests in rows)


def test_every_piece_has_some_of_each_kind_and_ends_with_what_computes():
    # 303 tests: 101 to a piece. Clusters: 7 files (the dashboard's count as one) are 3 + 2 + 2, of the servers 3 each.
    for piece in pieces_of(spread(EVERY, 3, file_of=file_of), 3):
        files = [file for file, _ in groupby(piece, key=file_of)]
        assert sum(file.startswith(("tests/e2e", "tests/dashboard/test_a")) for file in files) in (2, 3)
        assert sum(file.startswith("tests/integration") for file in files) in (3, 4)
        # A cut may go through a file: what is at the ends is told of two.
        assert any(file.startswith(("tests/e2e", "tests/dashboard")) for file in files[:2])
        assert any(file.startswith("tests/unit") for file in files[-2:])


def test_the_tests_that_share_a_browser_stay_together():
    order = spread(EVERY, 3, file_of=file_of)
    at = [order.index(test) for test in BROWSER]
    assert at == list(range(min(at), min(at) + len(BROWSER)))


def test_nothing_is_spread_over_more_workers_than_there_are_files():
    assert spread(LONG[:2], 4, file_of=file_of) == LONG[:2]
