"""Every row-local plugin answers for all rows at once what its slow twin answers for one node after the other.

Verdicts are compared with all their reasons and whether preemption may help, scores as integers before and after
normalising; for all rows, for one, and for any choice of them, holes in the table included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scheduler_twins as twins
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_twins import Doc, NodeInfo, Refusal
from scheduler_worlds import FPGA, GPU, HUGE, World, node_affinities, nodes, pod_of, pods, worlds

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import NodeAffinity as Affinity
from tonnage.scheduling.columns import Rows
from tonnage.scheduling.framework import (
    SKIP,
    Code,
    Cycle,
    FilterPlugin,
    Judgement,
    Narrowing,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Status,
)
from tonnage.scheduling.plugins.image_locality import ImageLocality
from tonnage.scheduling.plugins.node_affinity import NodeAffinity
from tonnage.scheduling.plugins.node_name import NodeName
from tonnage.scheduling.plugins.node_ports import NodePorts
from tonnage.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tonnage.scheduling.plugins.node_resources_fit import NodeResourcesFit
from tonnage.scheduling.plugins.node_unschedulable import NodeUnschedulable
from tonnage.scheduling.plugins.taint_toleration import TaintToleration
from tonnage.scheduling.pod_info import PodInfo

modest = settings(max_examples=120, deadline=None)

incoming = pods("incoming")
pinned = st.builds(
    lambda pod, name: {**pod, "spec": {**pod["spec"], "nodeName": name}},
    incoming,
    st.sampled_from(["", "n0", "n1", "ghost"]),
)
ignored_names = st.frozensets(st.sampled_from([GPU, FPGA, HUGE, "cpu"]), max_size=2)
ignored_groups = st.frozensets(st.sampled_from(["example.com", "other.example", HUGE]), max_size=2)
some_resources = st.lists(
    st.tuples(
        st.sampled_from(["cpu", "memory", "ephemeral-storage", GPU, HUGE, "nobody.example/has-it"]), st.integers(1, 3)
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each[0],
).map(tuple)
shapes = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=4, unique_by=lambda each: each[0]
).map(lambda points: tuple(sorted(points)))


# -- asking -----------------------------------------------------------------------------------------------------------


def some_rows(data: st.DataObject, world: World) -> list[Rows]:
    """All rows; one as a slice; some in any order, holes among them."""
    size = world.cluster.size
    row = data.draw(st.integers(0, size - 1))
    chosen = data.draw(st.lists(st.integers(0, size - 1), unique=True, min_size=1))
    return [world.cluster.all_rows, slice(row, row + 1), np.array(chosen, dtype=np.intp)]


def numbers(rows: Rows) -> list[int]:
    return list(range(rows.start, rows.stop)) if isinstance(rows, slice) else rows.tolist()


def told(judgement: Judgement | None, place: int) -> tuple[set[str], bool] | None:
    if judgement is None or not judgement.bits[place]:
        return None
    final = judgement.unresolvable
    reasons = [reason for i, reason in enumerate(judgement.reasons) if judgement.bits[place] >> i & 1]
    assert len(reasons) == len(set(reasons))
    return set(reasons), bool(final if isinstance(final, bool) else final[place])


def assert_same_verdicts(
    plugin: FilterPlugin, twin: Callable[[Doc, NodeInfo], Refusal | None], world: World, pod: Doc, data: st.DataObject
) -> None:
    cycle = Cycle(PodInfo(pod_of(pod)), world.cluster)
    expected = {name: twin(pod, info) for name, info in world.infos().items()}
    if isinstance(plugin, PreFilterPlugin):
        answer = plugin.pre_filter(cycle)
        if answer is SKIP:
            assert not any(expected.values())
            return
    for rows in some_rows(data, world):
        judgement = plugin.filter(cycle, rows)
        for place, row in enumerate(numbers(rows)):
            name = world.cluster.name(row)
            if name:
                refusal = expected[name]
                assert told(judgement, place) == (refusal and (set(refusal[0]), refusal[1])), name


def scored(
    plugin: ScorePlugin, world: World, pod: Doc, data: st.DataObject
) -> tuple[list[str], list[int], list[int]] | None:
    """(nodes, scores, normalised scores) of some feasible nodes; None when PreScore skips."""
    feasible = data.draw(st.lists(st.sampled_from(sorted(world.nodes)), unique=True, min_size=1))
    cycle = Cycle(PodInfo(pod_of(pod)), world.cluster)
    cycle.feasible = np.array([world.cluster.row_of[name] for name in feasible], dtype=np.intp)
    if isinstance(plugin, PreScorePlugin) and plugin.pre_score(cycle) is SKIP:
        return None
    raw = plugin.score(cycle, cycle.feasible)
    whole = plugin.score(cycle, world.cluster.all_rows)
    assert raw.dtype == np.int64 and whole.shape == (world.cluster.size,)
    assert whole[cycle.feasible].tolist() == raw.tolist()
    for row, score in zip(cycle.feasible.tolist(), raw.tolist(), strict=True):
        assert plugin.score(cycle, slice(row, row + 1)).tolist() == [score]
    return feasible, raw.tolist(), plugin.normalize(cycle, raw).tolist()


# -- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "twin", "asking"),
    [
        (NodeName(), twins.node_name, pinned),
        (NodeUnschedulable(), twins.node_unschedulable, incoming),
        (TaintToleration(), twins.taint_toleration, incoming),
        (NodePorts(), twins.node_ports, incoming),
        (NodeAffinity(), twins.node_affinity, incoming),
        (NodeResourcesFit(), twins.fit, incoming),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
@modest
@given(world=worlds(), data=st.data())
def test_verdicts_equal_those_of_the_twin(
    plugin: FilterPlugin, twin: Any, asking: Any, world: World, data: Any
) -> None:
    assert_same_verdicts(plugin, twin, world, data.draw(asking), data)


@modest
@given(worlds(), incoming, ignored_names, ignored_groups, st.data())
def test_ignored_resources_are_not_guarded_if_they_are_extended(
    world: World, pod: Doc, ignored: frozenset[str], groups: frozenset[str], data: Any
) -> None:
    plugin = NodeResourcesFit(ignored=ignored, ignored_groups=groups)
    assert_same_verdicts(plugin, lambda pod, info: twins.fit(pod, info, ignored, groups), world, pod, data)


@modest
@given(worlds(), incoming, node_affinities, st.data())
def test_the_operators_affinity_comes_before_the_pods(world: World, pod: Doc, added: Doc, data: Any) -> None:
    plugin = NodeAffinity(convert(Affinity, added))
    assert_same_verdicts(plugin, lambda pod, info: twins.node_affinity(pod, info, added), world, pod, data)


@modest
@given(worlds(), incoming)
def test_names_in_the_required_terms_narrow_the_race(world: World, pod: Doc) -> None:
    answer = NodeAffinity().pre_filter(Cycle(PodInfo(pod_of(pod)), world.cluster))
    names = twins.names_asked_for(pod)
    if names is None:
        assert answer is None or answer is SKIP
    elif not names:
        assert isinstance(answer, Status)
        assert (answer.code, answer.reasons) == (Code.UNRESOLVABLE, ("pod affinity terms conflict",))
    else:
        assert isinstance(answer, Narrowing)
        assert {world.cluster.name(row) for row in answer.rows} == names & world.nodes.keys()


# -- scores -----------------------------------------------------------------------------------------------------------


@modest
@given(worlds().filter(lambda world: world.nodes), incoming, node_affinities, st.data())
def test_preferences_are_weighed_as_the_twin_weighs_them(world: World, pod: Doc, added: Doc, data: Any) -> None:
    found = scored(NodeAffinity(convert(Affinity, added)), world, pod, data)
    infos = world.infos()
    if found is None:
        assert not any(twins.node_affinity_score(pod, info, added) for info in infos.values())
        return
    feasible, raw, final = found
    expected = [twins.node_affinity_score(pod, infos[name], added) for name in feasible]
    assert raw == expected
    assert final == twins.default_normalize(expected, reverse=False)


@modest
@given(worlds().filter(lambda world: world.nodes), incoming, st.data())
def test_soft_taints_cost_what_they_cost_the_twin(world: World, pod: Doc, data: Any) -> None:
    found = scored(TaintToleration(), world, pod, data)
    assert found is not None
    feasible, raw, final = found
    infos = world.infos()
    expected = [twins.taint_score(pod, infos[name]) for name in feasible]
    assert raw == expected
    assert final == twins.default_normalize(expected, reverse=True)


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
@modest
@given(
    world=worlds().filter(lambda world: world.nodes),
    pod=incoming,
    resources=st.one_of(st.just((("cpu", 1), ("memory", 1))), some_resources),
    shape=shapes,
    data=st.data(),
)
def test_allocation_scores_equal_those_of_the_twin(
    strategy: str, world: World, pod: Doc, resources: Any, shape: Any, data: Any
) -> None:
    plugin = NodeResourcesFit(
        strategy=strategy, resources=resources, shape=tuple((at, score * 10) for at, score in shape)
    )
    found = scored(plugin, world, pod, data)
    assert found is not None
    feasible, raw, final = found
    infos = world.infos()
    assert raw == final == [twins.fit_score(pod, infos[name], strategy, resources, shape) for name in feasible]


@modest
@given(
    worlds().filter(lambda world: world.nodes),
    incoming,
    st.one_of(st.just((("cpu", 1), ("memory", 1))), some_resources),
    st.data(),
)
def test_balance_equals_that_of_the_twin(
    world: World, pod: Doc, resources: Sequence[tuple[str, int]], data: Any
) -> None:
    found = scored(NodeResourcesBalancedAllocation(tuple(resources)), world, pod, data)
    infos = world.infos()
    if found is None:
        assert all(twins.balanced_score(pod, info, resources) is None for info in infos.values())
        return
    feasible, raw, final = found
    assert raw == final == [twins.balanced_score(pod, infos[name], resources) for name in feasible]


@modest
@given(worlds().filter(lambda world: world.nodes), incoming, st.data())
def test_image_scores_equal_those_of_the_twin(world: World, pod: Doc, data: Any) -> None:
    plugin = ImageLocality()
    for _ in range(2):  # the second time the scores lie ready, unless the nodes have changed
        found = scored(plugin, world, pod, data)
        infos = world.infos()
        every = list(infos.values())
        if found is None:
            assert not any(twins.image_score(pod, info, every) for info in every)
        else:
            feasible, raw, final = found
            assert raw == final == [twins.image_score(pod, infos[name], every) for name in feasible]
        changed = data.draw(st.sampled_from(sorted(world.nodes)))
        world.put_node(data.draw(nodes(changed)))
