"""Equal pods that fit nowhere are told the same, found out once; any change of a row ends that."""

from __future__ import annotations

import random

from support.virtual_clock import VirtualClock
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.decision.answers import Diagnosis
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node, pod


def engine_of(*objects) -> Engine:
    engine = Engine(default_configuration().profiles, clock=VirtualClock(), rng=random.Random(1))
    engine.load(objects)
    return engine


def refusals(engine: Engine) -> list[tuple[Diagnosis, str]]:
    found = []
    while (queued := engine.pop()) is not None:
        attempt = engine.attempt(queued)
        assert attempt.decision is not None and attempt.decision.diagnosis is not None
        outcome = engine.post_filter(attempt)
        assert outcome is not None
        diagnosis = attempt.decision.diagnosis
        engine.requeue(queued, queued.pod, plugins=diagnosis.rejecting_plugins())
        found.append((diagnosis, diagnosis.message(outcome.result.status.message)))
    return found


def test_equal_pods_share_the_reasons_and_what_preemption_found() -> None:
    engine = engine_of(node("a", cpu="4"), pod("there", cpu="2", on="a"), *(pod(f"p{i}", cpu="3") for i in range(5)))
    found = refusals(engine)
    assert len({id(diagnosis) for diagnosis, _ in found}) == 1
    assert {message for _, message in found} == {
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    }


def test_unequal_pods_do_not() -> None:
    engine = engine_of(
        node("a", cpu="4"),
        pod("there", cpu="2", on="a"),
        pod("much", cpu="3"),
        pod("more", cpu="5"),
        pod("important", cpu="5", priority=10),
    )
    told = {message for _, message in refusals(engine)}
    assert told == {
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod.",
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling.",
    }


def test_what_was_found_out_ends_with_the_next_change() -> None:
    engine = engine_of(node("a", cpu="4"), pod("first", cpu="5"))
    ((before, message),) = refusals(engine)
    engine.add(node("b", cpu="4"))
    engine.add(pod("second", cpu="5"))
    ((after, new_message),) = refusals(engine)
    assert after is not before
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu")
    assert new_message.startswith("0/2 nodes are available: 2 Insufficient cpu")


def test_an_important_pod_is_not_told_what_a_lesser_one_was() -> None:
    lesser, important = pod("lesser", cpu="3"), pod("important", cpu="3", priority=10)
    engine = engine_of(node("a", cpu="4"), pod("there", cpu="2", on="a"), lesser)
    refusals(engine)
    engine.add(important)
    queued = engine.pop()
    assert queued is not None
    outcome = engine.post_filter(engine.attempt(queued))
    assert outcome is not None and [each.key for each in outcome.result.victims] == ["default/there"]
