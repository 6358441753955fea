"""Pods with equal signatures are judged and scored alike by every row-local plugin, wherever they are asked about.

One part of a pod at a time is exchanged for another pod's. If any plugin tells the two apart on any node of a cluster,
their signatures differ; if a node-only plugin does, their node constraints differ.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_twins import Doc
from scheduler_worlds import DocumentedCluster, info_of, worlds

from examples_tried import tries
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import SKIP, Cycle, FilterPlugin, Plugin, PreFilterPlugin, PreScorePlugin, ScorePlugin
from tonnage.scheduling.plugins.node_resources import NodePorts, NodeResourcesBalancedAllocation, NodeResourcesFit
from tonnage.scheduling.plugins.pod_and_node import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration

MANY = (("cpu", 1), ("memory", 2), ("ephemeral-storage", 1), ("example.com/gpu", 3), ("hugepages-2Mi", 1))
PLUGINS: tuple[Plugin, ...] = (
    NodeName(),
    NodeUnschedulable(),
    TaintToleration(),
    NodeAffinity(),
    NodePorts(),
    NodeResourcesFit(),
    NodeResourcesFit(strategy="MostAllocated", resources=MANY),
    NodeResourcesBalancedAllocation(),
    NodeResourcesBalancedAllocation(MANY),
)


def answers(plugin: Plugin, pod: PodInfo, world: DocumentedCluster) -> Any:
    """Everything a plugin says to a pod about the nodes of a world."""
    cycle, rows = Cycle(pod, world.cluster), world.cluster.all_rows
    told: list[Any] = []
    if isinstance(plugin, FilterPlugin):
        skips = isinstance(plugin, PreFilterPlugin) and plugin.pre_filter(cycle) is SKIP
        judgement = None if skips else plugin.filter(cycle, rows)
        for row in world.cluster.row_of.values():
            if judgement is None or not judgement.bits[row]:
                told.append(None)
            else:
                final = judgement.unresolvable
                told.append((int(judgement.bits[row]), bool(final if isinstance(final, bool) else final[row])))
        told.append(None if judgement is None or not any(told) else judgement.reasons)
    if isinstance(plugin, ScorePlugin):
        skips = isinstance(plugin, PreScorePlugin) and plugin.pre_score(cycle) is SKIP
        scores = None if skips else plugin.score(cycle, rows)
        told.append(None if scores is None else scores[list(world.cluster.row_of.values())].tolist())
    return told


def exchanged(pod: Doc, other: Doc, part: str) -> Doc:
    made, source = copy.deepcopy(pod), copy.deepcopy(other)
    if part in ("image", "ports", "resources") and part not in made["spec"]:
        made["spec"]["containers"][0][part] = source["spec"]["containers"][0][part]
    elif part in source["spec"]:
        made["spec"][part] = source["spec"][part]
    else:
        made["spec"].pop(part, None)
    return made


PARTS = (
    "containers",
    "initContainers",
    "tolerations",
    "nodeSelector",
    "affinity",
    "overhead",
    "resources",
    "image",
    "ports",
    "nodeName",
)


@settings(max_examples=tries(300), deadline=None)
@given(worlds, st.sampled_from(PARTS))
def test_who_is_told_apart_has_another_signature(world: DocumentedCluster, part: str) -> None:
    one, other = world.make.pod("one"), world.make.pod("other")
    other["spec"]["nodeName"] = world.make.rng.choice(("", "n0", "ghost"))
    before, after = info_of(one), info_of(exchanged(one, other, part))
    for plugin in PLUGINS:
        if answers(plugin, before, world) != answers(plugin, after, world):
            assert before.signature != after.signature, plugin.name
            if plugin.node_only:
                assert before.node_constraints != after.node_constraints, plugin.name


@settings(max_examples=tries(50), deadline=None)
@given(worlds)
def test_an_image_tells_nobody_apart(world: DocumentedCluster) -> None:
    one, other = world.make.pod("one"), world.make.pod("other")
    assert info_of(one).signature == info_of(exchanged(one, other, "image")).signature
