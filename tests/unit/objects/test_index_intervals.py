"""Sets of indexes as Jobs write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.objects.texts.index_intervals import (
    IndexSet,
    InvalidIntervals,
    count_of,
    parse_intervals,
    read_intervals,
    written_intervals,
)


@given(st.sets(st.integers(0, 200)))
def test_what_is_written_is_read_again(numbers: set[int]):
    text = written_intervals(IndexSet().with_numbers(numbers))
    assert set(IndexSet(parse_intervals(text, 201))) == numbers == set(IndexSet(read_intervals(text, 201)))
    assert count_of(parse_intervals(text, 201)) == len(numbers)


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.integers(0, 35), st.integers(0, 40))
def test_intervals_are_a_set_of_numbers(one: set[int], other: set[int], bound: int, count: int):
    left, right = IndexSet().with_numbers(one), IndexSet().with_numbers(other)
    assert (set(left), len(left), bool(left)) == (one, len(one), bool(one))
    assert [number in left for number in range(-1, 32)] == [number in one for number in range(-1, 32)]
    assert set(left.united(right)) == one | other
    assert left.count_shared(right) == len(one & other)
    assert left.first_missing(bound, count) == [each for each in range(bound) if each not in one][:count]


def test_a_few_bytes_cost_a_few_steps_however_many_numbers_they_stand_for():
    everything = IndexSet(read_intervals("0-9,11-2147483646", 2**31 - 1))
    assert (len(everything), 10 in everything, 2**31 - 2 in everything) == (2**31 - 2, False, True)
    assert everything.first_missing(2**31 - 1, 500) == [10]
    assert everything.count_shared(IndexSet([(5, 2**30)])) == 2**30 - 5
    assert written_intervals(everything) == "0-9,11-2147483646"


def test_two_neighbours_are_a_list_and_three_a_range():
    assert written_intervals(IndexSet().with_numbers([7, 1, 3, 4, 9, 8])) == "1,3,4,7-9"


@pytest.mark.parametrize("text", ["2,1", "1-1", "1-2-3", "x", "", "5", "0-5", ",", "-"])
def test_what_is_no_list_below_the_bound_is_refused(text: str):
    if not text:
        assert parse_intervals(text, 5) == []
        return
    with pytest.raises(InvalidIntervals):
        parse_intervals(text, 5)


def test_a_controller_reads_what_it_can():
    assert read_intervals("0-2,x,4-9,12", 6) == [(0, 2), (4, 5)]
