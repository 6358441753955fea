"""The contract with plugins: the per-node form, reasons without number, normalising."""

from __future__ import annotations

import numpy as np
import pytest

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import MAX_REASONS, OTHER_REASONS, Rows, reason_place, with_reasons
from tonnage.scheduling.decision.answers import NOBODY, Diagnosis
from tonnage.scheduling.framework import (
    Code,
    Cycle,
    Judgement,
    Status,
    scaled_to_max,
    unresolvable,
    unschedulable,
)
from tonnage.scheduling.per_node import NodeFilter, NodeScore, NodeView
from tonnage.testing.builders import cluster_of, info, node, pod


class ByName(NodeFilter):
    """Answers by the node's name."""

    name = "ByName"

    def __init__(self, answers: dict[str, Status]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def filter_node(self, cycle: Cycle, view: NodeView) -> Status | None:
        self.asked.append(view.node.name)
        return self.answers.get(view.node.name)


def judged(plugin: NodeFilter, *names: str, rows: Rows | None = None) -> Judgement | None:
    cluster = cluster_of(*(node(name) for name in names))
    return plugin.filter(Cycle(info("web"), cluster), cluster.all_rows if rows is None else rows)


def test_nodes_are_judged_one_by_one():
    plugin = ByName({"b": unschedulable("full", "busy"), "c": unresolvable("busy"), "d": Status(Code.SUCCESS)})
    judgement = judged(plugin, "a", "b", "c", "d")
    assert judgement is not None and judgement.reasons == ("full", "busy")
    assert judgement.bits.tolist() == [0, 0b11, 0b10, 0]
    assert np.asarray(judgement.unresolvable).tolist() == [False, False, True, False]


def test_nobody_objects():
    assert judged(ByName({}), "a", "b") is None


def test_only_the_rows_asked_about_are_judged():
    plugin = ByName({"c": unschedulable("full")})
    judgement = judged(plugin, "a", "b", "c", rows=np.array([2, 0]))
    assert judgement is not None and judgement.bits.tolist() == [1, 0] and plugin.asked == ["c", "a"]


def test_a_refusal_without_a_reason_is_a_refusal():
    judgement = judged(ByName({"a": unschedulable()}), "a", "b")
    assert judgement is not None and judgement.bits.tolist() == [1, 0]
    assert judgement.reasons == ("node(s) were refused by plugin ByName",)


def test_more_reasons_than_bits_refuse_all_the_same():
    names = [f"n{number}" for number in range(100)]
    judgement = judged(ByName({name: unschedulable(f"{name} is bad") for name in names}), *names)
    assert judgement is not None and len(judgement.reasons) == MAX_REASONS
    assert judgement.reasons[-2:] == ("n61 is bad", OTHER_REASONS)
    assert (judgement.bits > 0).all()
    assert judgement.bits[61:64].tolist() == [1 << 61, 1 << 62, 1 << 62]


def test_nobody_is_asked_about_a_hole_in_the_table():
    cluster = cluster_of(node("a"), node("b"), node("c"))
    cluster.remove_node("b")
    plugin = ByName({"c": unschedulable("full")})
    judgement = plugin.filter(Cycle(info("web"), cluster), cluster.all_rows)
    assert judgement is not None and judgement.bits.tolist() == [0, 0, 1] and plugin.asked == ["a", "c"]


class Residents(NodeScore):
    name = "Residents"

    def score_node(self, cycle: Cycle, view: NodeView) -> int:
        return len(view.pods)


def test_nodes_are_scored_one_by_one():
    cluster = cluster_of(node("a"), node("b"), node("c"), pod("one", on="a"), pod("two", on="a"), pod("three", on="c"))
    cluster.remove_node("b")
    scores = Residents().score(Cycle(info("web"), cluster), cluster.all_rows)
    assert scores.tolist() == [2, 0, 1] and scores.dtype == np.int64


# -- reasons ----------------------------------------------------------------------------------------------------------


def test_reasons_are_added_once_until_there_is_no_room():
    assert with_reasons(("a",), ["b", "a", "b"]) == ("a", "b")
    full = with_reasons((), (f"r{i}" for i in range(200)))
    assert len(full) == MAX_REASONS and with_reasons(full, ["r5", "new"]) == full
    assert [reason_place(full, each) for each in ("r0", "r61", "r62", "new")] == [0, 61, 62, 62]


def test_a_table_of_objections_learns_reasons_as_they_come():
    table = Diagnosis(Cluster(), plugins=("A", "B"), rows=3)
    table.add(1, Judgement(np.array([1, 0, 0]), ("full",), False), slice(0, 3))
    table.add(1, Judgement(np.array([0b10, 0b11]), ("busy", "full"), True), slice(1, 3))
    assert table.reasons == [(), ("full", "busy")]
    assert table.bits.tolist() == [0b01, 0b01, 0b11] and table.final.tolist() == [False, True, True]


def test_the_first_in_order_objects_whoever_speaks_first():
    table = Diagnosis(Cluster(), plugins=("A", "B", "C"), rows=3)
    table.add(2, Judgement(np.array([1, 1, 0]), ("late",), True), slice(0, 3))
    table.add(0, Judgement(np.array([1]), ("early",), False), slice(1, 2))
    table.add(1, Judgement(np.array([1, 1]), ("middle",), False), np.array([2, 1]))
    assert table.first.tolist() == [2, 0, 1] and table.final.tolist() == [True, False, False]
    table.clear(slice(0, 1))
    assert table.first.tolist() == [NOBODY, 0, 1]


# -- normalising ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "reverse", "expected"),
    [
        ([0, 1, 3], False, [0, 33, 100]),
        ([0, 1, 3], True, [100, 67, 0]),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([7], False, [100]),
    ],
)
def test_scores_are_scaled_to_the_largest(scores, reverse, expected):
    assert scaled_to_max(np.array(scores, dtype=np.int64), reverse=reverse).tolist() == expected
