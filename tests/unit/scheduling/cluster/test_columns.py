"""Columns: labels as small integers, requirements as tables, numbers that are given away again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.requirements import InvalidSelector, Requirement
from tonnage.scheduling.cluster.columns import Interner, LabelColumn, LabelColumns, among, grown, row_count, row_numbers

ALL = slice(0, 4)


def columns(*labels: dict[str, str]) -> LabelColumns:
    made = LabelColumns(len(labels))
    for row, each in enumerate(labels):
        made.replace(row, {}, each)
    return made


def meets(labels: LabelColumns, operator: str, *values: str, key: str = "size") -> list[bool]:
    return list(labels.meets(Requirement(key=key, operator=operator, values=values), ALL).tolist())


FOUR: tuple[dict[str, str], ...] = ({"size": "5"}, {"size": "12"}, {"size": ""}, {})


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ("5",), [True, False, False, False]),
        ("In", ("5", "12", "99"), [True, True, False, False]),
        ("In", ("",), [False, False, True, False]),
        ("NotIn", ("5",), [False, True, True, True]),  # a missing label is not among the values
        ("Exists", (), [True, True, True, False]),
        ("DoesNotExist", (), [False, False, False, True]),
        ("Gt", ("5",), [False, True, False, False]),
        ("Lt", ("12",), [True, False, False, False]),
    ],
)
def test_a_requirement_is_met_by_the_nodes_with_the_right_value(operator, values, expected):
    assert meets(columns(*FOUR), operator, *values) == expected


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("In", ()),
        ("NotIn", ()),
        ("Exists", ("5",)),
        ("Gt", ()),
        ("Gt", ("1", "2")),
        ("Lt", ("big",)),
        ("About", ("5",)),
    ],
)
def test_a_requirement_that_makes_no_sense_is_met_by_nobody(operator, values):
    assert meets(columns(*FOUR), operator, *values) == [False] * 4
    assert meets(columns(*FOUR), operator, *values, key="nobody-has-it") == [False] * 4


def test_only_what_go_reads_as_an_integer_is_compared():
    found = columns({"size": "1_000"}, {"size": " 9"}, {"size": "+9"}, {"size": "99999999999999999999"})
    assert meets(found, "Gt", "5") == [False, False, True, False]


def test_a_label_that_nobody_has():
    found = columns(*FOUR)
    assert meets(found, "DoesNotExist", key="other") == [True] * 4
    assert meets(found, "NotIn", "x", key="other") == [True] * 4
    assert meets(found, "In", "x", key="other") == [False] * 4
    assert found.get("other") is None  # asking makes no column


def test_a_key_has_a_column_as_long_as_a_node_has_it():
    found = columns({"zone": "a"}, {"zone": "b"})
    found.replace(0, {"zone": "a"}, {})
    assert found.column("zone").ids.tolist() == [0, 2]
    found.replace(1, {"zone": "b"}, {})
    assert found.get("zone") is None


def test_an_id_is_given_away_again_when_no_node_has_the_value():
    column = LabelColumn(3)
    for row, value in enumerate(("a", "b", "a")):
        column.set(row, value)
    column.set(0, "c")
    assert column.id_of("a") == 1  # row 2 still has it
    column.set(2, "d")
    assert column.id_of("a") == 0
    column.set(1, "e")
    assert (column.id_of("e"), column.texts[1]) == (1, "e")
    assert [column.texts[number] for number in column.ids] == ["c", "e", "d"]


def test_nodes_that_come_and_go_do_not_make_the_tables_grow():
    labels, taints = LabelColumns(1), Interner[str]()
    held = taints.hold("t0")
    before: dict[Any, Any] = {}
    for number in range(1000):
        after = {"kubernetes.io/hostname": f"node-{number}"}
        labels.replace(0, before, after)
        before = after
        held, released = taints.hold(f"t{number + 1}"), held
        taints.release(released)
    assert len(labels.column("kubernetes.io/hostname").texts) <= 3
    assert len(taints) <= 2 and taints.held == 1


def test_a_thing_that_was_asked_for_by_id_keeps_it_for_good():
    interner: Interner[str] = Interner()
    assert [interner.id_of("cpu"), interner.id_of("memory"), interner.id_of("cpu")] == [0, 1, 0]
    interner.release(interner.hold("cpu"))
    assert interner.find("cpu") == 0 and interner.find("disk") is None


@settings(max_examples=tries(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, "a", "b", "5", "7", ""])), max_size=30),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(st.sampled_from(["a", "b", "5", ""]), max_size=2),
)
def test_a_table_says_what_the_requirement_says_of_each_value(writes, operator, values):
    columns = LabelColumns(4)
    labels: list[dict[str, str]] = [{}, {}, {}, {}]
    for row, value in writes:
        after = {} if value is None else {"key": value}
        columns.replace(row, labels[row], after)
        labels[row] = after
    requirement = Requirement(key="key", operator=operator, values=tuple(values))

    def holds(value: str | None) -> bool:
        try:
            return requirement.holds(value)
        except InvalidSelector:
            return False

    assert columns.meets(requirement, ALL).tolist() == [holds(each.get("key")) for each in labels]
    some = np.array([3, 0, 2], dtype=np.intp)
    assert columns.meets(requirement, some).tolist() == [holds(labels[row].get("key")) for row in (3, 0, 2)]


@pytest.mark.parametrize("size", [5, 500])
def test_rows_among_some(size):
    members = {1, 3, size - 1}
    assert among(members, slice(0, size), size).nonzero()[0].tolist() == sorted(members)
    assert among(members, np.array([3, 0]), size).tolist() == [True, False]
    assert among(set(), slice(2, 4), size).tolist() == [False, False]


def test_rows_are_a_range_or_a_choice():
    assert row_numbers(slice(2, 5)).tolist() == [2, 3, 4] and row_count(slice(2, 5)) == 3
    assert row_numbers(np.array([7, 1])).tolist() == [7, 1] and row_count(np.array([7, 1])) == 2


def test_a_grown_array_keeps_what_it_had():
    assert grown(np.array([[1, 2], [3, 4]]), 3).tolist() == [[1, 2, 0], [3, 4, 0]]
    assert grown(np.array([True]), 2).dtype == np.bool_
