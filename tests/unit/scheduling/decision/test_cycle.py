"""One decision: order of refusals, the sentence, narrowing, nominated pods, ties, and memory that changes nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tonnage.scheduling.cluster.columns import Rows
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision, Pipeline
from tonnage.scheduling.framework import (
    Code,
    Cycle,
    FilterPlugin,
    Judgement,
    Narrowing,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Status,
    unresolvable,
    unschedulable,
)
from tonnage.scheduling.per_node import NodeFilter, NodeView
from tonnage.scheduling.plugins.node_resources import NodeResourcesFit
from tonnage.scheduling.plugins.pod_and_node import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration
from tonnage.testing.builders import cluster_of, info, node, pod


def decider(seed: int = 1) -> Decider:
    affinity, fit = NodeAffinity(), NodeResourcesFit()
    return Decider(
        Pipeline(
            pre_filter=(affinity,),
            filter=(NodeUnschedulable(), NodeName(), TaintToleration(), affinity, fit),
            score=((fit, 1),),
        ),
        random.Random(seed),
    )


def test_no_nodes_at_all_has_a_sentence_of_its_own():
    decision = decider().decide(cluster_of(), info("web"))
    assert decision.diagnosis.message() == "no nodes available to schedule pods"


def test_reasons_are_counted_and_sorted_as_text():
    cluster = cluster_of(
        node("a", cpu="1"),
        node("b", taints=["dedicated=db:NoSchedule"]),
        node("c", taints=["dedicated=db:NoSchedule"]),
    )
    decision = decider().decide(cluster, info("web", cpu="2"))
    assert not decision.fits
    assert decision.diagnosis.message() == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    )
    assert decision.diagnosis.rejecting_plugins() == {"NodeResourcesFit", "TaintToleration"}


def test_a_node_with_two_reasons_counts_in_both():
    decision = decider().decide(cluster_of(node("a", cpu="1", memory="1Gi")), info("web", cpu="2", memory="2Gi"))
    assert decision.diagnosis.message() == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."


def test_the_first_plugin_in_order_to_object_is_the_one_that_counts():
    full_and_cordoned = node("a", cpu="1", unschedulable=True)
    decision = decider().decide(cluster_of(full_and_cordoned), info("web", cpu="2"))
    assert decision.diagnosis.message() == "0/1 nodes are available: 1 node(s) were unschedulable."


def test_only_a_request_beyond_the_whole_node_is_beyond_preemption():
    cluster = cluster_of(node("small", cpu="1"), node("busy", cpu="4"), pod("db", cpu="3", on="busy"))
    decision = decider().decide(cluster, info("web", cpu="2"))
    # small: 2 > 1 in all, hopeless. busy: 2 > 4 - 3, but 2 <= 4: somebody might go.
    assert [cluster.name(row) for row in decision.diagnosis.resolvable_rows()] == ["busy"]


def test_names_in_match_fields_narrow_the_race():
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
            }
        }
    }
    cluster = cluster_of(node("a"), node("b", cpu="1"), node("c"))
    decision = decider().decide(cluster, info("web", cpu="2", spec={"affinity": affinity}))
    assert decision.diagnosis.message() == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert decider().decide(cluster, info("web", cpu="500m", spec={"affinity": affinity})).node == "b"


def test_a_nominated_node_that_fits_ends_the_search():
    cluster = cluster_of(node("empty"), node("busy"), pod("db", cpu="3", on="busy"))
    wanted = info("web", cpu="1", status={"nominatedNodeName": "busy"})
    # LeastAllocated would choose empty; the nomination is taken because 3 + 1 <= 4.
    assert decider().decide(cluster, wanted).node == "busy"
    too_large = info("web", cpu="2", status={"nominatedNodeName": "busy"})
    assert decider().decide(cluster, too_large).node == "empty"


def test_room_of_nominated_pods_is_held_against_equal_and_lower_priority_only():
    cluster = cluster_of(node("a"))
    expected = info("expected", cpu="3", priority=5)
    held = [("a", expected)]
    # 4 cores, 3 of them expected to be taken: 2 more do not fit.
    assert not decider().decide(cluster, info("equal", cpu="2", priority=5), held).fits
    assert decider().decide(cluster, info("higher", cpu="2", priority=6), held).node == "a"
    assert decider().decide(cluster, expected, held).node == "a"
    assert list(cluster.pods()) == [] and cluster.requested.sum() == 0


def test_a_node_whose_room_is_held_is_passed_over_though_it_is_the_best():
    cluster = cluster_of(node("best", cpu="8"), node("good"), node("poor", cpu="2"), pod("db", cpu="1", on="good"))
    held = [("best", info("expected", cpu="7"))]
    # LeastAllocated: best has 6 of 8 left, good 1 of 4, poor 0 of 2. But 7 of best are expected to be taken.
    assert decider().decide(cluster, info("web", cpu="2")).node == "best"
    assert decider().decide(cluster, info("web", cpu="2"), held).node == "good"


def test_a_node_is_judged_with_its_expected_pods_first():
    """Upstream tells what is held against the node then (RunFilterPluginsWithNominatedPods)."""
    cluster = cluster_of(node("a", cpu="4", memory="4Gi"), pod("db", cpu="3", on="a"))
    wanted, expected = info("web", cpu="2", memory="2Gi"), info("expected", memory="3Gi")
    # Alone it lacks CPU: 2 > 4 - 3. With the other pod there it lacks memory as well: 2 > 4 - 3.
    alone = decider().decide(cluster, wanted)
    assert alone.diagnosis.message() == "0/1 nodes are available: 1 Insufficient cpu."
    together = decider().decide(cluster, wanted, [("a", expected)])
    assert together.diagnosis.message() == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."


def test_a_decision_that_fits_says_who_refused_the_others_when_asked():
    cluster = cluster_of(node("a"), node("b", unschedulable=True), node("c"))
    assert decider().decide(cluster, info("web")).diagnosis is None
    told = decider().decide(cluster, info("web"), diagnose=True)
    assert told.fits and told.diagnosis.counts() == {"node(s) were unschedulable": 1}


class Says(PreFilterPlugin):
    """A PreFilter plugin that says what it is told to."""

    def __init__(self, name: str, answer: Status | Narrowing | None) -> None:
        self.name = name  # type: ignore[misc]  # a class has one name; these differ
        self.answer = answer
        self.asked = 0

    def pre_filter(self, cycle: Cycle) -> Status | Narrowing | None:
        self.asked += 1
        return self.answer


def narrowing(*rows: int) -> Narrowing:
    return Narrowing(frozenset(rows))


def asked(*plugins: PreFilterPlugin) -> Decision:
    cluster = cluster_of(*(node(name) for name in "abcd"))
    return Decider(Pipeline(pre_filter=plugins), random.Random(1)).decide(cluster, info("web"))


def test_plugins_that_narrow_together_leave_what_all_of_them_leave():
    decision = asked(Says("One", narrowing(0, 1, 2)), Says("Two", narrowing(2, 3)))
    assert decision.node == "c" and decision.feasible == 1


def test_plugins_that_leave_nothing_together_refuse_the_pod():
    decision = asked(Says("Two", narrowing(0, 1)), Says("One", narrowing(2, 3)), Says("Never", None))
    assert decision.diagnosis.message() == (
        "0/4 nodes are available: node(s) didn't satisfy plugin(s) [One Two] simultaneously."
    )
    assert decision.diagnosis.rejecting_plugins() == {"One", "Two"}
    assert decision.diagnosis.resolvable_rows().tolist() == []


def test_a_refusal_that_preemption_may_help_lets_the_others_look_as_well():
    full, other = Says("Full", unschedulable("pod found everything full")), Says("Other", None)
    decision = asked(full, other)
    assert decision.diagnosis.message() == "0/4 nodes are available: pod found everything full."
    assert decision.diagnosis.resolvable_rows().tolist() == [0, 1, 2, 3] and other.asked == 1
    decision = asked(full, Says("Hopeless", unresolvable("pod is hopeless")), other)
    assert decision.diagnosis.message() == "0/4 nodes are available: pod is hopeless."
    assert decision.diagnosis.rejecting_plugins() == {"Hopeless"}
    assert decision.diagnosis.resolvable_rows().tolist() == [] and other.asked == 1


def test_a_plugin_that_broke_ends_the_attempt_with_its_name():
    decision = asked(Says("Broken", Status(Code.ERROR, ("it broke",))))
    assert not decision.fits and decision.diagnosis is None
    assert decision.error.message == 'running PreFilter plugin "Broken": it broke'


class Breaks(PreScorePlugin):
    name = "Breaks"

    def pre_score(self, cycle: Cycle) -> Status | None:
        return Status(Code.ERROR, ("it broke",))


def test_a_plugin_that_broke_before_scoring_ends_the_attempt_as_well():
    own = Decider(Pipeline(pre_score=(Breaks(),)), random.Random(1))
    decision = own.decide(cluster_of(node("a"), node("b")), info("web"))
    assert not decision.fits and decision.error.message == 'running PreScore plugin "Breaks": it broke'
    assert own.decide(cluster_of(node("a")), info("web")).node == "a"  # nobody is asked to score a single node


def test_ties_are_broken_by_the_seeded_lot():
    cluster = cluster_of(*(node(f"n{i}") for i in range(10)))
    chosen = [decider(seed).decide(cluster, info("web")).node for seed in range(40)]
    assert len(set(chosen)) > 5
    assert [decider(7).decide(cluster, info("web")).node for _ in range(3)] == [
        decider(7).decide(cluster, info("web")).node
    ] * 3


def test_a_remembered_answer_is_the_fresh_answer_after_every_change():
    rng = random.Random(3)
    cluster = cluster_of(*(node(f"n{i}", cpu="4") for i in range(30)))
    remembering = decider()
    for step in range(200):
        action = rng.randrange(6)
        if action == 0:
            cluster.put_node(
                node(f"n{rng.randrange(40)}", cpu=rng.choice(["2", "4"]), unschedulable=rng.random() < 0.3)
            )
        elif action == 1:
            cluster.remove_node(f"n{rng.randrange(40)}")
        elif action == 2 and cluster.count:
            cluster.remove_pod(rng.choice([p.uid for p in cluster.pods()] or ["none"]))
        wanted = info(f"p{step}", cpu=rng.choice(["500m", "1"]))
        known = remembering.decide(cluster, wanted)
        fresh = decider().decide(cluster, wanted)
        assert np.array_equal(known.cycle.feasible, fresh.cycle.feasible)
        if known.fits:
            assert known.feasible == fresh.feasible
            totals = dict(zip(known.cycle.feasible, _totals(remembering, known), strict=True))
            assert totals[known.row] == max(totals.values())
            cluster.put_pod(wanted, known.node)


def _totals(by: Decider, decision) -> list[int]:
    scores = (weight * score for _, weight, score in by.scores(decision.cycle))
    return list(sum(scores, np.zeros(decision.feasible, np.int64)).tolist())


class OddNodesOnly(NodeFilter):
    name = "OddNodesOnly"

    def filter_node(self, cycle: Cycle, view: NodeView) -> Status | None:
        return None if int(view.node.metadata.name[1:]) % 2 else unresolvable("node(s) were even")


class PrefersLate(ScorePlugin):
    name = "PrefersLate"

    def score(self, cycle: Cycle, rows: Rows):
        return np.array([int(cycle.cluster.name(row)[1:]) for row in rows], dtype=np.int64)


def test_a_plugin_may_judge_nodes_one_by_one():
    own = Decider(Pipeline(filter=(OddNodesOnly(),), score=((PrefersLate(), 1),)), random.Random(1))
    cluster = cluster_of(*(node(f"n{i}") for i in range(6)))
    decision = own.decide(cluster, info("web"), diagnose=True)
    assert (decision.node, decision.feasible) == ("n5", 3)
    assert decision.diagnosis.counts() == {"node(s) were even": 3}


class Everything(FilterPlugin):
    name = "Everything"

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        return Judgement(np.full(cycle.cluster.exists[rows].shape, 3, dtype=np.int64), ("one", "two"), False)


def test_a_removed_node_is_never_chosen():
    own = Decider(Pipeline(), random.Random(1))
    cluster = cluster_of(node("a"), node("b"), node("c"))
    assert own.decide(cluster, info("web")).feasible == 3
    cluster.remove_node("b")
    decision = own.decide(cluster, info("web"))
    assert decision.cycle.feasible.tolist() == [0, 2] and decision.feasible == 2
    afresh = Decider(Pipeline(), random.Random(1)).decide(cluster, info("web"))
    assert afresh.cycle.feasible.tolist() == [0, 2] and afresh.feasible == 2
    cluster.remove_node("a")
    assert own.decide(cluster, info("web")).node == "c"


def test_a_removed_node_leaves_a_hole_that_is_not_counted():
    cluster = cluster_of(node("a"), node("b"), node("c"))
    cluster.remove_node("b")
    decision = Decider(Pipeline(filter=(Everything(),)), random.Random(1)).decide(cluster, info("web"))
    assert decision.diagnosis.message() == "0/2 nodes are available: 2 one, 2 two."


class Scores(PreScorePlugin, ScorePlugin):
    """Row-local scores of 1. `raises` and `skips` are set by the test."""

    row_local = True
    raises = skips = False

    def __init__(self, name: str, *, node_only: bool) -> None:
        self.name, self.node_only = name, node_only  # type: ignore[misc]

    def pre_score(self, cycle: Cycle) -> Status | None:
        return Status(Code.SKIP) if self.skips else None

    def score(self, cycle: Cycle, rows: Rows) -> np.ndarray:
        if self.raises:
            raise RuntimeError("no score today")
        return np.ones(len(cycle.cluster.exists[rows]), dtype=np.int64)


@pytest.mark.parametrize("node_only", [False, True])
def test_after_a_score_that_raised_no_node_is_taken_that_was_refused(node_only: bool):
    fit, first, other = NodeResourcesFit(), Scores("First", node_only=node_only), Scores("Other", node_only=node_only)
    asked = Decider(Pipeline(filter=(fit,), pre_score=(first, other), score=((first, 1), (other, 1))), random.Random(1))
    # Of four nodes a and c hold the pod.
    nodes = (node("a", cpu="4"), node("b", cpu="1"), node("c", cpu="4"), node("d", cpu="1"))
    cluster, web = cluster_of(*nodes), info("web", cpu="2")
    assert asked.decide(cluster, web).node in ("a", "c")
    other.skips = first.raises = True  # other plugins score than those that did before, and one of them fails
    with pytest.raises(RuntimeError, match="no score today"):
        asked.decide(cluster, web)
    first.raises = False
    assert {asked.decide(cluster, web).node for _ in range(20)} == {"a", "c"}
