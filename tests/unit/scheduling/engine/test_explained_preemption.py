"""`explain` tells who would have to go for a pod that fits nowhere, and what it tells changes no decision."""

from __future__ import annotations

import random

from support.virtual_clock import VirtualClock
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node, pod


def engine_of(*objects: Object, seed: int = 1) -> Engine:
    found = Engine(default_configuration().profiles, clock=VirtualClock(), rng=random.Random(seed))
    found.load(objects)
    return found


def test_victims_are_told_with_their_node():
    urgent = pod("urgent", cpu="3", priority=10)
    lesser = [pod("small", cpu="2", on="a", priority=1), pod("big", cpu="3", on="b", priority=10)]
    answer = engine_of(node("a"), node("b"), *lesser, urgent).explain(urgent).document()
    assert answer["schedulable"] is False
    assert answer["preemption"] == {"node": "a", "victims": ["default/small"], "budgetViolations": 0}


def test_nobody_goes_for_a_pod_that_fits_or_that_is_held_back_or_that_is_the_least():
    full = pod("full", cpu="4", on="a")
    gated = pod("gated", cpu="3", priority=10, spec={"schedulingGates": [{"name": "wait"}]})
    for incoming, others in ((pod("x", cpu="1"), ()), (gated, (full,)), (pod("x", cpu="1"), (full,))):
        assert "preemption" not in engine_of(node("a"), *others, incoming).explain(incoming).document()


def test_what_is_told_changes_no_decision_after_it():
    nodes = [node(f"n{number}") for number in range(8)]
    lesser = [pod(f"l{number}", cpu="3", on=f"n{number}") for number in range(8)]
    urgent, later = pod("urgent", cpu="2", priority=10), pod("later", cpu="100m")
    chosen = set()
    for explains in (True, False):
        engine = engine_of(*nodes, *lesser, urgent, later)
        for each in (urgent, later):
            queued = engine.queue.take_nowait(each)
            assert queued is not None
            attempt = engine.attempt(queued, explains=explains)
        chosen.add(attempt.placement.node)
    assert len(chosen) == 1
