"""One decision: order of refusals, the sentence, narrowing, nominated pods, ties, and memory that changes nothing."""

from __future__ import annotations

import random

import numpy as np

from tonnage.scheduling.columns import Rows
from tonnage.scheduling.cycle import Decider, Pipeline
from tonnage.scheduling.framework import (
    Cycle,
    FilterPlugin,
    Judgement,
    NodeFilter,
    NodeView,
    ScorePlugin,
    Status,
    unresolvable,
)
from tonnage.scheduling.plugins.node_affinity import NodeAffinity
from tonnage.scheduling.plugins.node_name import NodeName
from tonnage.scheduling.plugins.node_resources_fit import NodeResourcesFit
from tonnage.scheduling.plugins.node_unschedulable import NodeUnschedulable
from tonnage.scheduling.plugins.taint_toleration import TaintToleration
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
    return sum(
        (weight * score for _, weight, score in by.scores(decision.cycle)), np.zeros(decision.feasible, np.int64)
    ).tolist()


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


def test_a_removed_node_leaves_a_hole_that_is_not_counted():
    cluster = cluster_of(node("a"), node("b"), node("c"))
    cluster.remove_node("b")
    decision = Decider(Pipeline(filter=(Everything(),)), random.Random(1)).decide(cluster, info("web"))
    assert decision.diagnosis.message() == "0/2 nodes are available: 2 one, 2 two."
