"""An engine that has seen everything decides as one that was made a moment ago from the objects there are.

Whatever happens to a cluster (`changing_clusters.py`), each decision is made three times and told node by node: by the
engine that was there all along, with all that it keeps from one decision to the next; by its profile assembled anew
over the same cluster; and by an engine that is loaded with the objects, and told what only the first can know: what it
has assumed, reserved and nominated, as its debug pages say. All must agree on who refuses which node and why,
on every score, and on where the bytes of each claim come from. What is placed then is what was told.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from changing_clusters import ChangingCluster
from hypothesis import given, settings
from hypothesis import strategies as st
from told_decisions import comparable

from examples_tried import tries
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler.debug_pages import DebugPages
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.explain import explanation_of
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.profiles import assemble
from tonnage.whatif.scheduler_memory import memory_from

DECISIONS = 40


def told_by_fresh_profile(story: ChangingCluster, asked: Pod) -> dict[str, Any]:
    engine, info = story.engine, PodInfo(asked)
    profile = next(each for each in story.profiles if each.scheduler_name == asked.spec.scheduler_name)
    assembled = assemble(profile, story.lots)
    nominator = engine.queue.nominator
    expected, passed_over = tuple(nominator.ahead_of(info)), nominator.failed_nodes.passed_over(asked)
    decision = assembled.decider.decide(engine.cluster, info, expected, passed_over=passed_over, diagnose=True)
    return explanation_of(
        assembled.decider,
        decision,
        expected,
        pre_enqueue=assembled.rules.pre_enqueue,
        passed_over=passed_over,
        holder_of=engine.nominations.holder_of,
    ).document()


def told_by_fresh_engine(story: ChangingCluster, asked: Pod) -> dict[str, Any]:
    known, objects = story.engine, list(story.objects.values())
    fresh = Engine(story.profiles, clock=story.clock, rng=random.Random(0))
    fresh.load(objects)
    pages = [DebugPages(known).reservations(), DebugPages(known).assumed(), DebugPages(known).nominations()]
    memory_from("http://scheduler", *json.loads(json.dumps(pages))).laid_into(fresh, objects)
    return fresh.explain(asked).document()


def decide_and_compare(story: ChangingCluster, asked: Pod) -> None:
    lots = story.lots.getstate()
    told = story.engine.explain(asked).document()
    story.lots.setstate(lots)
    by_profile = told_by_fresh_profile(story, asked)
    assert {**told, "preemption": None} == {**by_profile, "preemption": None}
    assert comparable(told) == comparable(told_by_fresh_engine(story, asked))
    story.lots.setstate(lots)
    is_nominated_here = story.engine.queue.nominator.node_of(asked) != asked.status.nominated_node_name
    attempt = story.attempt(asked)
    if attempt is not None and attempt.placement is not None and not is_nominated_here:
        assert attempt.placement.node == told["node"]


def tell(seed: int) -> None:
    story = ChangingCluster(seed)
    for _ in range(DECISIONS):
        story.happen()
        asked = story.next_pod()
        story.happen()
        known = story.get(Pod, asked.key)
        if known is not None and not known.spec.node_name:
            decide_and_compare(story, known)


@settings(max_examples=tries(4), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_an_engine_that_remembers_decides_as_a_fresh_one(seed: int):
    tell(seed)


@pytest.mark.slow
@settings(max_examples=tries(300), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_an_engine_that_remembers_decides_as_a_fresh_one_for_long(seed: int):
    tell(seed)


def test_the_stories_are_worth_telling():
    """Pods are placed by choice and without one, refused by everybody who can, and preempt."""
    met = set()
    for seed in range(12):
        story = ChangingCluster(seed)
        for _ in range(DECISIONS):
            story.happen()
            attempt = story.attempt(story.next_pod())
            if attempt is None or attempt.decision is None:
                continue
            decision = attempt.decision
            met.add("chosen" if decision.feasible > 1 else "placed" if attempt.placement else "refused")
            if decision.diagnosis is not None:
                met |= decision.diagnosis.rejecting_plugins()
    assert met >= {
        "chosen",
        "placed",
        "refused",
        "InterPodAffinity",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeUnschedulable",
        "NodeVolumeLimits",
        "PodTopologySpread",
        "TaintToleration",
        "VolumeBinding",
    }
