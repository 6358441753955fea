"""A decider that remembers decides as one that has just been made, whatever happened to the cluster in between.

Nodes come, change, go and leave rows that others take over; the table outgrows its columns; pods come, change and go;
other pods are expected on nodes. After each event both are asked, with the same lots, and must agree on everything: who
refuses which node and why, how many are left, and which one is taken.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_worlds import DocumentedCluster, Maker, info_of

from examples_tried import tries
from tonnage.scheduling.cluster.columns import Ints, Rows, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision, Pipeline
from tonnage.scheduling.framework import (
    Cycle,
    ScorePlugin,
    Status,
    scaled_to_max,
    unresolvable,
    unschedulable,
)
from tonnage.scheduling.per_node import NodeFilter, NodeScore, NodeView
from tonnage.scheduling.plugins.node_resources import (
    ImageLocality,
    NodePorts,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
)
from tonnage.scheduling.plugins.pod_and_node import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration
from tonnage.testing.builders import pod

FIRST_CAPACITY = 64


class Grudge(NodeFilter):
    """Somebody's own filter, row by row, with more reasons than a judgement has bits."""

    name = "Grudge"
    row_local = True

    def filter_node(self, cycle: Cycle, view: NodeView) -> Status | None:
        if len(view.pods) >= 3:
            return unschedulable("node(s) had three pods", f"node {view.node.name} is full")
        return unresolvable() if view.node.name.endswith("7") else None


class Crowd(NodeScore):
    """Somebody's own score, to be normalised, that depends on who is there."""

    name = "Crowd"
    row_local = True
    normalizes = True

    def score_node(self, cycle: Cycle, view: NodeView) -> int:
        return len(view.pods)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        return scaled_to_max(scores, reverse=True)


class Number(ScorePlugin):
    """Somebody's own score that looks at the node alone."""

    name = "Number"
    row_local = True
    node_only = True

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.array([len(cycle.cluster.name(row)) for row in row_numbers(rows).tolist()], dtype=np.int64)


def pipeline(*, plain: bool) -> Pipeline:
    """Upstream's row-local plugins; without `plain`, some of somebody else's as well."""
    affinity, ports, taints, fit = NodeAffinity(), NodePorts(), TaintToleration(), NodeResourcesFit()
    balanced, images = NodeResourcesBalancedAllocation(), ImageLocality()
    others: tuple[tuple[ScorePlugin, int], ...] = () if plain else ((Crowd(), 1), (Number(), 5))
    return Pipeline(
        pre_filter=(affinity, ports),
        filter=(NodeUnschedulable(), NodeName(), taints, affinity, ports, fit, *(() if plain else (Grudge(),))),
        pre_score=(affinity, balanced),
        score=((taints, 3), (affinity, 2), (fit, 1), (balanced, 1), (images, 1), *others),
    )


class Story:
    """A cluster and what happens to it."""

    def __init__(self, seed: int, nodes: int, *, plain: bool = False) -> None:
        self.world = DocumentedCluster(Maker(seed))
        self.rng = self.world.make.rng
        self.lots = random.Random()
        self.plain = plain
        self.remembering = Decider(pipeline(plain=plain), self.lots)
        self.numbers = iter(range(10_000))
        self.expected: list[tuple[str, PodInfo]] = []
        for _ in range(nodes):
            self.add_node()
        picky = [self.world.make.pod("picky") for _ in range(2)]
        easy_going: list[dict[str, Any]] = [
            {"tolerations": [{"operator": "Exists"}]},
            {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"zone": "a"}},
        ]
        self.kinds = [
            *(lambda uid, doc=doc: info_of({**doc, "metadata": {**doc["metadata"], "uid": uid}}) for doc in picky),
            *(lambda uid, spec=spec: PodInfo(pod(uid, cpu="100m", spec=spec)) for spec in easy_going),
            lambda uid: PodInfo(pod(uid, memory="100Mi", host_ports=[80], spec=easy_going[0])),
        ]

    def add_node(self) -> None:
        self.world.put_node(f"n{next(self.numbers)}")

    def happen(self) -> None:
        """One event, or a few before anybody asks again."""
        rng, world = self.rng, self.world
        names = sorted(world.nodes) or ["none"]
        for _ in range(rng.choice((0, 1, 1, 1, 2, 30) if rng.random() < 0.97 else (500,))):
            match rng.randrange(7):
                case 0:
                    self.add_node()
                case 1:
                    world.remove_node(rng.choice(names))
                case 2:
                    world.put_node(rng.choice(names))
                case 3 | 4:
                    world.put_pod(f"resident-{rng.randrange(40)}", on=rng.choice(names))
                case 5:
                    world.remove_pod(f"resident-{rng.randrange(40)}")
                case 6:
                    guest = PodInfo(pod(f"guest-{rng.randrange(5)}", cpu="1", priority=rng.randrange(3)))
                    self.expected = [(rng.choice(names), guest)] if rng.random() < 0.5 else []

    def decide_twice(self, step: int) -> Decision:
        """By the one that remembers, and by one that cannot."""
        asking = self.rng.choice(self.kinds)(f"asking-{step}")
        cluster, held = self.world.cluster, self.expected
        self.lots.seed(step)
        quick = self.remembering.decide(cluster, asking, held)
        self.lots.seed(step)
        known = self.remembering.decide(cluster, asking, held, diagnose=True)
        fresh = Decider(pipeline(plain=self.plain), random.Random(step)).decide(cluster, asking, held, diagnose=True)
        for found in (quick, known):
            assert (found.node, found.row, found.feasible) == (fresh.node, fresh.row, fresh.feasible)
        assert quick.cycle.feasible.tolist() == fresh.cycle.feasible.tolist()
        assert known.cycle.feasible.tolist() == fresh.cycle.feasible.tolist()
        for row in self.world.cluster.row_of.values():
            assert _held_against(known, row) == _held_against(fresh, row)
        if known.diagnosis is not None and fresh.diagnosis is not None:
            assert known.diagnosis.message() == fresh.diagnosis.message()
            assert known.diagnosis.rejecting_plugins() == fresh.diagnosis.rejecting_plugins()
        if known.fits and self.rng.random() < 0.7:
            self.world.cluster.put_pod(asking, known.node)
        return known


def _held_against(decision: Decision, row: int) -> object:
    diagnosis = decision.diagnosis
    if diagnosis is None or diagnosis.refusal is not None:
        return diagnosis and diagnosis.refusal
    by = diagnosis.rejected_by(row)
    return by, set(diagnosis.reasons_of(row)), bool(diagnosis.final[row]) if by else False


@settings(max_examples=tries(25), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, FIRST_CAPACITY + 6), st.integers(1, 40), st.booleans())
def test_a_decider_that_remembers_decides_as_a_fresh_one(seed: int, nodes: int, steps: int, plain: bool) -> None:
    story = Story(seed, nodes, plain=plain)
    for step in range(steps):
        story.happen()
        story.decide_twice(step)


def test_the_stories_are_worth_telling() -> None:
    """They outgrow the first table, leave holes, and end in all the ways a decision can."""
    story = Story(7, FIRST_CAPACITY - 4)
    ends = set()
    for step in range(150):
        story.happen()
        decision = story.decide_twice(step)
        if story.world.cluster.count < story.world.cluster.size:
            ends.add("holes")
        ends.add("one" if decision.feasible == 1 else "several" if decision.fits else "none")
        if decision.diagnosis is not None and decision.diagnosis.refusal is None:
            ends |= decision.diagnosis.rejecting_plugins()
    assert ends == {
        "holes",
        "one",
        "several",
        "none",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "Grudge",
    }
    assert story.world.cluster.capacity > FIRST_CAPACITY


def test_a_decider_that_is_given_another_cluster_starts_anew() -> None:
    one, other = Story(1, 5), Story(2, 5)
    asking = one.kinds[2]("asking")
    decider = Decider(pipeline(plain=True), random.Random(0))
    for story in (one, other, one):
        found = decider.decide(story.world.cluster, asking, diagnose=True)
        fresh = Decider(pipeline(plain=True), random.Random(0)).decide(story.world.cluster, asking, diagnose=True)
        assert found.cycle.feasible.tolist() == fresh.cycle.feasible.tolist()
