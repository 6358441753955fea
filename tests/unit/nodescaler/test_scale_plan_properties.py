"""Whatever a cluster looks like: no node beyond the limit, no foreign nomination touched, no used node removed."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_builders import burst, marked, member, nominated_to, not_ready, stuck

from examples_tried import tries
from tonnage.nodescaler.plan import ScalePlan, plan, removals
from tonnage.objects.core_v1 import Node, Pod
from tonnage.testing.builders import node, pod

NAMES = ("burst-1", "burst-2", "burst-3", "burst-4")
"""One more than the pool has, as a lower limit would leave."""


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], list[Pod], set[str], int, int]:
    """Nodes in every state, pods bound, stuck and expected, some by us; the pool's limits."""
    maker = st.sampled_from([member, not_ready, marked])
    nodes = [draw(maker)(name) for name in draw(st.sets(st.sampled_from(NAMES)))]
    nodes += [node(name, cpu="2") for name in draw(st.sets(st.sampled_from(("plain", "burst-9"))))]
    pods: list[Pod] = []
    ours: set[str] = set()
    for number in range(draw(st.integers(0, 6))):
        cpu = draw(st.sampled_from(("1", "2", "3", "4", "5")))
        priority = draw(st.sampled_from((0, 10)))
        name = f"p{number}"
        where = draw(st.sampled_from(("", *NAMES, "plain", "elsewhere")))
        if draw(st.booleans()):
            each = stuck(name, cpu, nominated=where, priority=priority)
            if where.startswith("burst") and draw(st.booleans()):
                ours.add(each.uid)
        else:
            each = pod(name, cpu=cpu, on=where, priority=priority)
        pods.append(each)
    max_nodes = draw(st.integers(0, 3))
    return nodes, pods, ours, max_nodes, draw(st.integers(0, max_nodes))


@settings(max_examples=tries(150), deadline=None)
@given(worlds(), st.booleans())
def test_a_plan_keeps_the_rules(world: Any, is_backing_off: bool) -> None:
    nodes, pods, ours, max_nodes, min_nodes = world
    pool = burst(max_nodes, min_nodes=min_nodes, unneeded_s=0.0, settle_s=0.0)
    drawn = plan([*nodes, *pods], pool, ours, is_backing_off=is_backing_off)
    by_key = {each.key: each for each in pods}

    # Never more nodes than the limit, and none that exists is made again.
    assert not drawn.wanted or len(drawn.members) + len(drawn.wanted) <= max_nodes
    assert set(drawn.wanted) <= set(pool.names) - {each.name for each in nodes}
    assert not (is_backing_off and drawn.wanted)

    # Only pods without a nomination, or with one of ours, are written to; a proposal names a node there is or will be.
    for key, node_name in drawn.proposals.items():
        assert not by_key[key].status.nominated_node_name or by_key[key].uid in ours
        assert node_name in drawn.wanted or node_name in drawn.members
    assert all(by_key[key].uid in ours for key in drawn.withdrawals)
    assert not set(drawn.proposals) & set(drawn.withdrawals)

    # No node goes that somebody is on or expected on; the minimum stays.
    used = {each.spec.node_name or each.status.nominated_node_name for each in pods} | set(drawn.proposals.values())
    todo = removals(drawn, {each.name: each for each in nodes}, pool, {}, now_s=0.0, time_s=1.0)
    going = {*todo.mark, *todo.remove}
    assert not going & used
    assert going <= set(drawn.members)
    assert not going or len(drawn.members) - len(going) >= min_nodes


@settings(max_examples=tries(100), deadline=None)
@given(worlds())
def test_plans_that_are_carried_out_come_to_rest(world: Any) -> None:
    """Proposals may move as others make room; after a few rounds nothing is left to write, nor when the nodes come."""
    nodes, pods, ours, max_nodes, min_nodes = world
    pool = burst(max_nodes, min_nodes=min_nodes)
    for _ in range(2 * len(pods) + 1):
        drawn = plan([*nodes, *pods], pool, ours)
        pods, ours = _written(drawn, pods, ours)
    assert (drawn.proposals, drawn.withdrawals) == ({}, ())
    made = [not_ready(name) for name in drawn.wanted]
    after = plan([*nodes, *made, *pods], pool, ours)
    assert (after.proposals, after.withdrawals, after.wanted) == ({}, (), ())


@settings(max_examples=tries(100), deadline=None)
@given(worlds())
def test_what_is_proposed_to_a_node_to_come_fits_there_together(world: Any) -> None:
    nodes, pods, ours, max_nodes, _ = world
    drawn = plan([*nodes, *pods], burst(max_nodes), ours)
    pods, ours = _written(drawn, pods, ours)
    for name in drawn.wanted:
        # 4 cores a node; what others expect there counts too, if the node is made for them.
        asked = [each for each in pods if each.uid in ours and each.status.nominated_node_name == name]
        cores = [each.spec.containers[0].resources.requests["cpu"].value() for each in asked]
        assert sum(cores) <= 4


def _written(drawn: ScalePlan, pods: list[Pod], ours: set[str]) -> tuple[list[Pod], set[str]]:
    """The pods after the plan's nominations are written, and which are ours then."""
    after = []
    mine = set(ours)
    for each in pods:
        if each.key in drawn.proposals:
            after.append(nominated_to(each, drawn.proposals[each.key]))
            mine.add(each.uid)
        elif each.key in drawn.withdrawals:
            after.append(nominated_to(each, ""))
            mine.discard(each.uid)
        else:
            after.append(msgspec.structs.replace(each))
    return after, mine
