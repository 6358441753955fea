"""An explanation accounts for every node, and agrees with the decision it explains."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.profiles import assemble
from tonnage.testing.builders import node, pod

PROFILE = default_configuration().profiles[0]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node | Pod], Pod]:
    """Up to eight nodes, some cordoned or tainted, with residents and nominated pods, and a pod to place."""
    nodes = [
        node(
            f"n{idx}",
            cpu=draw(st.sampled_from(["1", "2", "4"])),
            labels={"zone": draw(st.sampled_from("ab"))},
            taints=draw(st.sampled_from([(), ("dedicated=db:NoSchedule",), ("slow:PreferNoSchedule",)])),
            unschedulable=draw(st.integers(0, 9)) == 0,
        )
        for idx in range(draw(st.integers(0, 8)))
    ]
    where = st.sampled_from([each.name for each in nodes] or ["nowhere"])
    residents = [
        pod(f"r{idx}", on=draw(where), cpu=draw(st.sampled_from(["500m", "1"])), labels={"app": "web"})
        for idx in range(draw(st.integers(0, 6)))
    ]
    expected = [
        pod(f"e{idx}", cpu="1", priority=idx, status={"nominatedNodeName": draw(where)})
        for idx in range(draw(st.integers(0, 2)))
    ]
    wanted = pod(
        "web",
        cpu=draw(st.sampled_from(["500m", "1", "3"])),
        labels={"app": "web"},
        priority=draw(st.integers(0, 2)),
        node_selector=draw(st.sampled_from([None, {"zone": "a"}])),
        status=draw(st.sampled_from([None, {"nominatedNodeName": "n0"}])),
    )
    return [*nodes, *residents, *expected], wanted


@settings(max_examples=tries(150), deadline=None)
@given(clusters(), st.integers(0, 3))
def test_every_node_is_accounted_for_and_the_chosen_one_is_best(given_cluster, seed):
    objects, wanted = given_cluster
    engine = Engine([PROFILE], clock=VirtualClock(), rng=random.Random(seed))
    engine.load(objects)
    info = PodInfo(wanted)
    nominated = list(engine.queue.nominator.ahead_of(info))
    decision = assemble(PROFILE, random.Random(seed)).decider.decide(engine.cluster, info, nominated)
    answer = engine.explain(wanted)

    assert answer.node == decision.node
    assert sorted(each.name for each in answer.nodes) == sorted(engine.cluster.row_of)
    feasible = [each for each in answer.nodes if each.feasible]
    refused = [each for each in answer.nodes if not each.feasible]
    assert answer.nodes == [*feasible, *refused]
    assert all(each.rejected_by and each.reasons and not each.scores for each in refused)
    assert all(not each.rejected_by and each.total == sum(each.scores.values()) for each in feasible)
    assert answer.schedulable == bool(feasible)
    if feasible and not wanted.status.nominated_node_name:
        assert feasible[0].name == answer.node
        assert feasible[0].total == max(each.total for each in feasible)
    if feasible:
        assert f"fits on {len(feasible)} of {len(answer.nodes)} nodes" in answer.message
