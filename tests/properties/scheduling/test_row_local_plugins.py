"""Every row-local plugin answers for all rows at once what its slow twin answers for one node after the other.

Verdicts are compared with all their reasons and whether preemption may help, scores as integers before and after
normalising; for all rows, for one, and for any choice of them, holes in the table included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scheduler_twins as twins
from hypothesis import given, settings
from scheduler_twins import Doc, NodeInfo, Refusal
from scheduler_worlds import FPGA, GPU, HUGE, DocumentedCluster, info_of, worlds

from examples_tried import tries
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import NodeAffinity as Affinity
from tonnage.scheduling.cluster.columns import Rows, row_numbers
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
from tonnage.scheduling.plugins.node_resources import (
    ImageLocality,
    NodePorts,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
)
from tonnage.scheduling.plugins.pod_and_node import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration

modest = settings(max_examples=tries(150), deadline=None)

CPU_AND_MEMORY = (("cpu", 1), ("memory", 1))
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU, HUGE, "nobody.example/has-it")


# -- asking -----------------------------------------------------------------------------------------------------------


def some_rows(world: DocumentedCluster) -> list[Rows]:
    """All rows; one as a slice; some in any order, holes among them."""
    size, rng = world.cluster.size, world.make.rng
    row = rng.randrange(size)
    chosen = rng.sample(range(size), rng.randint(1, size))
    return [world.cluster.all_rows, slice(row, row + 1), np.array(chosen, dtype=np.intp)]


def told(judgement: Judgement | None, place: int) -> tuple[set[str], bool] | None:
    if judgement is None or not judgement.bits[place]:
        return None
    final = judgement.unresolvable
    reasons = [reason for i, reason in enumerate(judgement.reasons) if judgement.bits[place] >> i & 1]
    assert len(reasons) == len(set(reasons))
    return set(reasons), bool(final if isinstance(final, bool) else final[place])


def assert_same_verdicts(
    plugin: FilterPlugin, twin: Callable[[Doc, NodeInfo], Refusal | None], world: DocumentedCluster, pod: Doc
) -> None:
    cycle = Cycle(info_of(pod), world.cluster)
    expected = {name: twin(pod, info) for name, info in world.infos().items()}
    if isinstance(plugin, PreFilterPlugin) and plugin.pre_filter(cycle) is SKIP:
        assert not any(expected.values())
        return
    for rows in some_rows(world):
        judgement = plugin.filter(cycle, rows)
        for place, row in enumerate(row_numbers(rows).tolist()):
            name = world.cluster.name(row)
            if name:
                refusal = expected[name]
                assert told(judgement, place) == (refusal and (set(refusal[0]), refusal[1])), name


def scored(plugin: ScorePlugin, world: DocumentedCluster, pod: Doc) -> tuple[list[str], list[int], list[int]] | None:
    """(nodes, scores, normalised scores) of some feasible nodes; None when PreScore skips."""
    rng, cluster = world.make.rng, world.cluster
    feasible = rng.sample(sorted(world.nodes), rng.randint(1, len(world.nodes)))
    cycle = Cycle(info_of(pod), cluster)
    cycle.feasible = np.array([cluster.row_of[name] for name in feasible], dtype=np.intp)
    if isinstance(plugin, PreScorePlugin) and plugin.pre_score(cycle) is SKIP:
        return None
    raw, whole = plugin.score(cycle, cycle.feasible), plugin.score(cycle, cluster.all_rows)
    if raw is None or whole is None:
        assert raw is whole is None
        return feasible, [0] * len(feasible), [0] * len(feasible)
    assert raw.dtype == np.int64 and whole.shape == (cluster.size,)
    assert whole[cycle.feasible].tolist() == raw.tolist()
    row = int(cycle.feasible[0])
    assert plugin.score(cycle, slice(row, row + 1)).tolist() == raw.tolist()[:1]
    return feasible, raw.tolist(), plugin.normalize(cycle, raw).tolist()


# -- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "twin"),
    [
        (NodeName(), twins.node_name),
        (NodeUnschedulable(), twins.node_unschedulable),
        (TaintToleration(), twins.taint_toleration),
        (NodePorts(), twins.node_ports),
        (NodeAffinity(), twins.node_affinity),
        (NodeResourcesFit(), twins.fit),
    ],
    ids=lambda each: getattr(each, "name", "twin"),
)
@modest
@given(world=worlds)
def test_verdicts_equal_those_of_the_twin(plugin: FilterPlugin, twin: Any, world: DocumentedCluster) -> None:
    pod = world.make.pod("incoming")
    pod["spec"]["nodeName"] = world.make.rng.choice(("", "n0", "n1", "ghost"))
    assert_same_verdicts(plugin, twin, world, pod)


@modest
@given(worlds)
def test_ignored_resources_are_not_guarded_if_they_are_extended(world: DocumentedCluster) -> None:
    rng = world.make.rng
    ignored = frozenset(rng.sample((GPU, FPGA, HUGE, "cpu"), rng.randint(0, 2)))
    groups = frozenset(rng.sample(("example.com", "other.example", HUGE), rng.randint(0, 2)))
    plugin = NodeResourcesFit(ignored=ignored, ignored_groups=groups)
    pod = world.make.pod("incoming")
    assert_same_verdicts(plugin, lambda pod, info: twins.fit(pod, info, ignored, groups), world, pod)


@modest
@given(worlds)
def test_the_operators_affinity_comes_before_the_pods(world: DocumentedCluster) -> None:
    added, pod = world.make.node_affinity(), world.make.pod("incoming")
    plugin = NodeAffinity(convert(Affinity, added))
    assert_same_verdicts(plugin, lambda pod, info: twins.node_affinity(pod, info, added), world, pod)


@modest
@given(worlds)
def test_names_in_the_required_terms_narrow_the_race(world: DocumentedCluster) -> None:
    pod = world.make.pod("incoming")
    answer = NodeAffinity().pre_filter(Cycle(info_of(pod), world.cluster))
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
@given(worlds)
def test_preferences_are_weighed_as_the_twin_weighs_them(world: DocumentedCluster) -> None:
    added, pod = world.make.node_affinity(), world.make.pod("incoming")
    found = scored(NodeAffinity(convert(Affinity, added)), world, pod)
    infos = world.infos()
    if found is None:
        assert not any(twins.node_affinity_score(pod, info, added) for info in infos.values())
        return
    feasible, raw, final = found
    expected = [twins.node_affinity_score(pod, infos[name], added) for name in feasible]
    assert raw == expected
    assert final == twins.default_normalize(expected, reverse=False)


@modest
@given(worlds)
def test_soft_taints_cost_what_they_cost_the_twin(world: DocumentedCluster) -> None:
    pod = world.make.pod("incoming")
    found = scored(TaintToleration(), world, pod)
    assert found is not None
    feasible, raw, final = found
    infos = world.infos()
    expected = [twins.taint_score(pod, infos[name]) for name in feasible]
    assert raw == expected
    assert final == twins.default_normalize(expected, reverse=True)


def chosen_resources(world: DocumentedCluster) -> tuple[tuple[str, int], ...]:
    rng = world.make.rng
    if rng.random() < 0.4:
        return CPU_AND_MEMORY
    return tuple((name, rng.randint(1, 3)) for name in rng.sample(RESOURCES, rng.randint(1, 4)))


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
@modest
@given(world=worlds)
def test_allocation_scores_equal_those_of_the_twin(strategy: str, world: DocumentedCluster) -> None:
    rng, pod, resources = world.make.rng, world.make.pod("incoming"), chosen_resources(world)
    points = sorted(rng.sample(range(101), rng.randint(1, 4)))
    shape = tuple((point, rng.randint(0, 10)) for point in points)
    plugin = NodeResourcesFit(
        strategy=strategy, resources=resources, shape=tuple((at, score * 10) for at, score in shape)
    )
    found = scored(plugin, world, pod)
    assert found is not None
    feasible, raw, final = found
    infos = world.infos()
    assert raw == final == [twins.fit_score(pod, infos[name], strategy, resources, shape) for name in feasible]


@modest
@given(worlds)
def test_balance_equals_that_of_the_twin(world: DocumentedCluster) -> None:
    pod, resources = world.make.pod("incoming"), chosen_resources(world)
    found = scored(NodeResourcesBalancedAllocation(resources), world, pod)
    infos = world.infos()
    if found is None:
        assert all(twins.balanced_score(pod, info, resources) is None for info in infos.values())
        return
    feasible, raw, final = found
    assert raw == final == [twins.balanced_score(pod, infos[name], resources) for name in feasible]


@modest
@given(worlds)
def test_image_scores_equal_those_of_the_twin(world: DocumentedCluster) -> None:
    plugin, pod = ImageLocality(), world.make.pod("incoming")
    for _ in range(3):  # from the second time on the scores lie ready, unless the nodes have changed
        found = scored(plugin, world, pod)
        assert found is not None
        feasible, raw, final = found
        infos = world.infos()
        every = list(infos.values())
        assert raw == final == [twins.image_score(pod, infos[name], every) for name in feasible]
        if world.make.rng.random() < 0.7:
            world.put_node(world.make.rng.choice((*world.nodes, "new")))
