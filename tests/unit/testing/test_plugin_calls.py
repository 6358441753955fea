"""Asking a plugin in a test: what is told, and which broken promises are found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.columns import Ints, Rows, row_numbers
from tonnage.scheduling.framework import (
    SKIP,
    Cycle,
    FilterPlugin,
    Judgement,
    Narrowing,
    PreFilterPlugin,
    ScorePlugin,
    Status,
    refuse,
    unresolvable,
)
from tonnage.testing import cluster_of, decide, filter_results, node, node_scores, pod, storage_class

CLUSTER = cluster_of(node("a"), node("b"), node("c"), storage_class())


class OddRows(FilterPlugin):
    name = "OddRows"

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement:
        return refuse(row_numbers(rows) % 2 == 1, "node(s) were odd", unresolvable=False)


class WithPreFilter(OddRows, PreFilterPlugin):
    def __init__(self, answer: Status | Narrowing) -> None:
        self._answer = answer

    def pre_filter(self, cycle: Cycle) -> Status | Narrowing:
        return self._answer


class Scores(ScorePlugin):
    name = "Scores"

    def __init__(self, score: Callable[[Rows], Ints]) -> None:
        self._score = score

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return self._score(rows)


class RowNumbers(Scores):
    def __init__(self, args: object) -> None:
        super().__init__(row_numbers)


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (SKIP, {}),
        (unresolvable("no"), {"a": ("no",), "b": ("no",), "c": ("no",)}),
        (
            Narrowing(frozenset({1, 2})),
            {"a": ("node(s) didn't satisfy plugin(s) [OddRows]",), "b": ("node(s) were odd",)},
        ),
    ],
)
def test_what_pre_filter_says_counts(answer, refused):
    assert filter_results(OddRows(), CLUSTER, pod("web")) == {"b": ("node(s) were odd",)}
    assert filter_results(WithPreFilter(answer), CLUSTER, pod("web")) == refused


def test_a_filter_that_answers_for_other_rows_than_it_was_asked_about_is_found():
    class AllRows(OddRows):
        def filter(self, cycle: Cycle, rows: Rows) -> Judgement:
            return super().filter(cycle, cycle.cluster.all_rows)

    with pytest.raises(AssertionError, match="3 answers for 1 rows"):
        filter_results(AllRows(), CLUSTER, pod("web"))


def test_a_filter_that_judges_by_place_and_not_by_row_is_found():
    class FirstPlace(OddRows):
        def filter(self, cycle: Cycle, rows: Rows) -> Judgement:
            return refuse(np.arange(len(row_numbers(rows))) == 0, "node(s) came first", unresolvable=False)

    with pytest.raises(AssertionError, match=r"b: .*first.* when asked alone, .* among others"):
        filter_results(FirstPlace(), CLUSTER, pod("web"))


def test_scores_are_told_by_node_and_stay_within_their_range():
    assert node_scores(Scores(row_numbers), CLUSTER, pod("web")) == {"a": 0, "b": 1, "c": 2}
    with pytest.raises(AssertionError, match=r"scores are 0 to 100, not \[0, 60, 120\]"):
        node_scores(Scores(lambda rows: row_numbers(rows) * 60), CLUSTER, pod("web"))
    with pytest.raises(AssertionError, match=r"b: .* when asked alone"):
        node_scores(Scores(lambda rows: np.arange(len(row_numbers(rows)))), CLUSTER, pod("web"))


def test_a_decision_is_made_beside_the_default_plugins():
    asking: Pod = pod("web")
    assert decide(CLUSTER, asking, RowNumbers).node == "c"
    cordoned = cluster_of(node("a"), node("b"), node("c", unschedulable=True))
    assert decide(cordoned, asking, RowNumbers).node == "b"
