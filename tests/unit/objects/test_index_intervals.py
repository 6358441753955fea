"""Sets of indexes as Jobs write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.objects.texts.index_intervals import (
    InvalidIntervals,
    count_of,
    numbers_of,
    parse_intervals,
    read_intervals,
    written_intervals,
)


@given(st.sets(st.integers(0, 200)))
def test_what_is_written_is_read_again(numbers: set[int]):
    text = written_intervals(numbers)
    assert numbers_of(parse_intervals(text, 201)) == numbers == numbers_of(read_intervals(text, 201))
    assert count_of(parse_intervals(text, 201)) == len(numbers)


def test_two_neighbours_are_a_list_and_three_a_range():
    assert written_intervals([7, 1, 3, 4, 9, 8]) == "1,3,4,7-9"


@pytest.mark.parametrize("text", ["2,1", "1-1", "1-2-3", "x", "", "5", "0-5", ",", "-"])
def test_what_is_no_list_below_the_bound_is_refused(text: str):
    if not text:
        assert parse_intervals(text, 5) == []
        return
    with pytest.raises(InvalidIntervals):
        parse_intervals(text, 5)


def test_a_controller_reads_what_it_can():
    assert read_intervals("0-2,x,4-9,12", 6) == [(0, 2), (4, 5)]
