"""What row-local plugins tell of a pod beyond its signature: whose answers are shared, and with whom; and ties.

`Claims` stands in for a plugin that reads what a pod points to: a colour, by annotation, that nodes have as a label.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Rows, row_count, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision, Pipeline, Prefers
from tonnage.scheduling.framework import SKIP, Cycle, FilterPlugin, Judgement, PreFilterPlugin, ScorePlugin, Status
from tonnage.scheduling.plugins.pod_and_node import NodeUnschedulable
from tonnage.testing.builders import cluster_of, node, pod

COLOURS = {"n0": "red", "n1": "blue", "n2": "red", "n3": "green"}


class Claims(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """Lets pods on nodes of their colour; counts the rows it is asked about, for filters and for scores."""

    name = "Claims"
    row_local = True

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.scored: list[int] = []

    def pre_filter(self, cycle: Cycle) -> Status | None:
        colour = cycle.pod.pod.metadata.annotations.get("colour", "")
        if not colour:
            return SKIP
        cycle.state[self.name] = colour
        if cycle.pod.pod.metadata.annotations.get("alone"):
            cycle.is_unlike_others(self.name)
        else:
            cycle.tell_apart(self.name, colour)
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        self.asked.append(row_count(rows))
        colour = cycle.state[self.name]
        refused = [_colour_of(cycle.cluster, row) != colour for row in row_numbers(rows).tolist()]
        return Judgement(np.array(refused, dtype=np.int64), ("node(s) had another colour",)) if any(refused) else None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        self.scored.append(row_count(rows))
        return row_numbers(rows).astype(np.int64) if self.name in cycle.state else np.zeros(row_count(rows), np.int64)


class Liking:
    """Likes some rows better where all else is equal."""

    def __init__(self, *rows: int) -> None:
        self._rows = rows

    def prefers(self, cycle: Cycle) -> Prefers:
        return Prefers.AMONG_EQUALS

    def preference(self, cycle: Cycle, rows: npt.NDArray[np.intp]) -> Ints | None:
        return np.isin(rows, self._rows).astype(np.int64) if self._rows else None


def _colour_of(cluster: Cluster, row: int) -> str:
    found = cluster.nodes[row]
    return found.metadata.labels.get("colour", "") if found is not None else ""


def asking(name: str, colour: str = "", *, alone: bool = False) -> PodInfo:
    annotations = {"colour": colour, **({"alone": "yes"} if alone else {})}
    return PodInfo(pod(name, metadata={"annotations": annotations} if colour else {}))


class CycleBench:
    def __init__(self) -> None:
        self.cluster = cluster_of(*(node(name, labels={"colour": colour}) for name, colour in COLOURS.items()))
        self.plugin = Claims()
        pipeline = Pipeline(
            pre_filter=(self.plugin,), filter=(NodeUnschedulable(), self.plugin), score=((self.plugin, 1),)
        )
        self.decider = Decider(pipeline, random.Random(1))

    def decide(self, *args: Any, **options: Any) -> Decision:
        return self.decider.decide(self.cluster, asking(*args, **options))

    def nodes(self, *args: Any, **options: Any) -> list[str]:
        decision = self.decide(*args, **options)
        return [self.cluster.name(row) for row in decision.cycle.feasible.tolist()]


def test_pods_that_are_told_apart_do_not_share_answers_and_those_that_are_not_do():
    bench = CycleBench()
    assert bench.nodes("one", "red") == ["n0", "n2"] and bench.nodes("two", "blue") == ["n1"]
    assert bench.plugin.asked == [4, 4]
    assert bench.nodes("three", "red") == ["n0", "n2"] and bench.nodes("four", "blue") == ["n1"]
    assert bench.plugin.asked == [4, 4]  # both lay ready


def test_only_rows_that_changed_are_asked_about_again():
    bench = CycleBench()
    bench.nodes("one", "red")
    bench.cluster.put_node(node("n1", labels={"colour": "red"}))
    assert bench.nodes("two", "red") == ["n0", "n1", "n2"]
    assert bench.plugin.asked == [4, 1]


def test_rows_that_something_else_changed_are_asked_about_again_when_it_says_so():
    bench = CycleBench()
    bench.nodes("one", "red")
    bench.cluster.note_rows(np.array([3], dtype=np.intp))
    assert bench.nodes("two", "red") == ["n0", "n2"]
    bench.cluster.note_rows(np.array([0, 1, 2, 3], dtype=np.intp))
    assert bench.nodes("three", "red") == ["n0", "n2"]
    bench.cluster.note_rows(np.zeros(0, dtype=np.intp))
    bench.nodes("four", "red")
    assert bench.plugin.asked == [4, 1, 4]


def test_a_pod_unlike_others_is_asked_about_every_time_and_leaves_nothing_behind():
    bench = CycleBench()
    for name in ("one", "two"):
        assert bench.nodes(name, "red", alone=True) == ["n0", "n2"]
    assert bench.plugin.asked == [4, 4]
    assert bench.nodes("three", "red") == ["n0", "n2"]  # one that may share still has to ask
    assert bench.nodes("four", "green", alone=True) == ["n3"]  # and one that may not is not given what lies ready
    assert bench.plugin.asked == [4, 4, 4, 4]


def test_a_pod_that_the_plugin_has_nothing_to_say_about_does_not_meet_others_answers():
    bench = CycleBench()
    for _ in range(2):
        assert bench.nodes("red", "red") == ["n0", "n2"]
        assert bench.nodes("alone", "blue", alone=True) == ["n1"]
        assert bench.nodes("plain") == ["n0", "n1", "n2", "n3"]


def test_the_best_node_is_the_same_for_pods_that_share_and_for_those_that_do_not():
    bench = CycleBench()
    for _ in range(2):
        assert bench.decide("shared", "red").node == "n2"
        assert bench.decide("alone", "red", alone=True).node == "n2"
    # Scores that are shared were asked for once; the others each time, of the feasible rows.
    assert bench.plugin.scored == [4, 2, 2]


def test_a_refusal_names_the_plugin_that_this_pod_is_alone_with():
    bench = CycleBench()
    decision = bench.decide("alone", "purple", alone=True)
    assert decision.diagnosis is not None
    assert decision.diagnosis.message() == "0/4 nodes are available: 4 node(s) had another colour."
    assert decision.diagnosis.rejecting_plugins() == {"Claims"}


def test_a_filter_before_it_is_heard_first_although_it_is_asked_later():
    bench = CycleBench()
    bench.cluster.put_node(node("n0", labels={"colour": "red"}, unschedulable=True))
    decision = bench.decider.decide(bench.cluster, asking("alone", "blue", alone=True), diagnose=True)
    assert decision.diagnosis is not None
    assert decision.diagnosis.rejected_by(0) == "NodeUnschedulable" and decision.diagnosis.rejected_by(2) == "Claims"


# -- ties -------------------------------------------------------------------------------------------------------------


def drawn(preferring: Liking | None = None, pods: int = 40) -> set[str]:
    cluster = cluster_of(*(node(f"n{i}") for i in range(5)))
    decider = Decider(Pipeline(preferring=preferring), random.Random(7))
    return {decider.decide(cluster, asking(f"p{i}")).node for i in range(pods)}


def test_ties_are_broken_by_lot():
    assert drawn() == {"n0", "n1", "n2", "n3", "n4"}


def test_of_equal_rows_those_that_a_plugin_prefers_are_drawn_from():
    assert drawn(Liking(1, 3)) == {"n1", "n3"}
    assert drawn(Liking()) == {"n0", "n1", "n2", "n3", "n4"}


def test_a_preference_does_not_outweigh_a_score():
    class Number(ScorePlugin):
        name = "Number"
        row_local = True

        def score(self, cycle: Cycle, rows: Rows) -> Ints:
            return np.where(row_numbers(rows) == 2, 1, 0).astype(np.int64)

    cluster = cluster_of(*(node(f"n{i}") for i in range(5)))
    decider = Decider(Pipeline(score=((Number(), 1),), preferring=Liking(4)), random.Random(7))
    assert {decider.decide(cluster, asking(f"p{i}")).node for i in range(10)} == {"n2"}
