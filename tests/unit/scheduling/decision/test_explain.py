"""A decision with everything it was made from, in the form that scripts rely on."""

from __future__ import annotations

import random

from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node, pod


def explained(wanted: Pod, *objects: Node | Pod, seed: int = 0) -> Explanation:
    """The default plugins' word on a pod, among these objects."""
    engine = Engine(default_configuration().profiles, clock=VirtualClock(), rng=random.Random(seed))
    engine.load(objects)
    return engine.explain(wanted)


def test_the_document_is_the_contract():
    answer = explained(
        pod("web", cpu="2", memory="2Gi"),
        node("a", cpu="4", memory="8Gi"),
        node("b", cpu="8", memory="8Gi"),
        node("c", cpu="1", memory="8Gi"),
        node("d", unschedulable=True),
    ).document()
    assert list(answer) == ["pod", "schedulable", "node", "message", "nodes", "volumes"]
    assert {key: answer[key] for key in answer if key != "nodes"} == {
        "pod": "default/web",
        "schedulable": True,
        "node": "b",
        "message": "fits on 2 of 4 nodes",
        "volumes": {},
    }
    best, second, small, cordoned = answer["nodes"]
    # Least allocated, cpu and memory alike: b ((8-2)/8 + (8-2)/8)/2 = 75, a ((4-2)/4 + (8-2)/8)/2 = 62.
    # c has 1 cpu in all, less than the 2 asked for: no preemption can help, it is unresolvable.
    assert (best["name"], best["feasible"], best["scores"]["NodeResourcesFit"]) == ("b", True, 75)
    assert (second["name"], second["feasible"], second["scores"]["NodeResourcesFit"]) == ("a", True, 62)
    assert best["total"] == sum(best["scores"].values())
    assert small == {
        "name": "c",
        "feasible": False,
        "rejectedBy": "NodeResourcesFit",
        "reasons": ["Insufficient cpu"],
        "unresolvable": True,
        "scores": {},
        "total": 0,
    }
    assert (cordoned["rejectedBy"], cordoned["reasons"]) == ("NodeUnschedulable", ["node(s) were unschedulable"])


def test_a_pod_that_fits_nowhere_gets_the_schedulers_sentence():
    answer = explained(pod("web", cpu="9"), node("a"), node("b", unschedulable=True)).document()
    assert (answer["schedulable"], answer["node"]) == (False, None)
    assert answer["message"] == "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."


def test_without_nodes_there_is_a_sentence_too():
    answer = explained(pod("web")).document()
    assert (answer["schedulable"], answer["message"]) == (False, "no nodes available to schedule pods")
    assert answer["nodes"] == []


def test_a_refusal_of_the_pod_speaks_for_every_node():
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    answer = explained(pod("web", spec={"resourceClaims": claims}), node("a"), node("b"))
    assert not answer.schedulable
    assert {(each.rejected_by, each.reasons) for each in answer.nodes} == {
        ("OutOfScope", ("pod asks for devices by resource claims, which Tonnage does not allocate",))
    }


def test_the_only_node_that_fits_is_not_scored():
    answer = explained(pod("web", cpu="6"), node("a", cpu="8"), node("b", cpu="4"))
    assert (answer.node, answer.nodes[0].scores, answer.nodes[0].total) == ("a", {}, 0)


def test_of_equals_the_chosen_comes_first_and_a_seed_chooses_the_same_again():
    nodes = [node(f"n{number}") for number in range(8)]
    answers = [explained(pod("web"), *nodes, seed=seed) for seed in range(12)]
    assert all(answer.nodes[0].name == answer.node for answer in answers)
    assert len({answer.node for answer in answers}) > 1
    assert [explained(pod("web"), *reversed(nodes), seed=seed).node for seed in range(12)] == [
        answer.node for answer in answers
    ]


def test_a_pod_with_gates_is_not_tried_and_told_what_would_be():
    gated = pod("web", spec={"schedulingGates": [{"name": "a"}, {"name": "b"}]})
    answer = explained(gated, node("n1"))
    assert (answer.schedulable, answer.node, answer.held_back) == (False, "n1", "waiting for scheduling gates: [a b]")
    document = answer.document()
    assert (document["schedulable"], document["node"]) == (False, None)
    assert document["message"] == "not tried: waiting for scheduling gates: [a b]; otherwise: fits on 1 of 1 nodes"
    assert document["nodes"][0]["feasible"] is True


def test_a_nominated_pod_goes_to_its_node_and_the_others_are_accounted_for():
    wanted = pod("web", cpu="1", status={"nominatedNodeName": "small"})
    answer = explained(wanted, node("small", cpu="2"), node("large", cpu="64"), node("full", cpu="0"))
    assert answer.node == "small"
    assert answer.message == "fits on small, the node it is nominated to; fits on 2 of 3 nodes"
    assert [(each.name, each.feasible) for each in answer.nodes] == [("large", True), ("small", True), ("full", False)]


def test_a_nomination_where_it_does_not_fit_counts_for_nothing():
    wanted = pod("web", cpu="3", status={"nominatedNodeName": "small"})
    answer = explained(wanted, node("small", cpu="2"), node("large", cpu="64"))
    assert (answer.node, answer.message) == ("large", "fits on 1 of 2 nodes")


def test_room_is_left_for_pods_that_are_expected():
    expected = pod("first", cpu="3", status={"nominatedNodeName": "a"})
    answer = explained(pod("web", cpu="3"), node("a", cpu="4"), node("b", cpu="2"), expected)
    held = "Room on a is held for default/first (nominated since 2000-01-01T00:00:00Z)."
    assert answer.message == f"0/2 nodes are available: 2 Insufficient cpu. {held}"


def test_scores_are_weighted_as_they_add_up():
    answer = explained(pod("web"), node("a"), node("b", taints=["slow:PreferNoSchedule"]))
    # TaintToleration has weight 3: 100 for the node with the fewest taints that are not tolerated, 0 for the other.
    assert [(each.name, each.scores["TaintToleration"]) for each in answer.nodes] == [("a", 300), ("b", 0)]
    assert answer.nodes[0].total - answer.nodes[1].total == 300
