"""An engine that has lived through anything decides as one that was started a moment ago, and nobody is forgotten.

Random histories (`lived_histories.py`) are played, and two things are looked at:

    after every few events    no pod sleeps in the unschedulable pool that a node would take: it would sleep until the
                              flush, five minutes later
    at rest                   an engine that is given the API's objects and nothing else places nobody who sleeps, holds
                              the same capacity, and says the same of every pod and node

A few dozen histories are played here. With TONNAGE_HISTORIES=2000 so many are, beginning with the one that
TONNAGE_FIRST_HISTORY names; a failure names the history, which is its seed.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from lived_histories import History
from told_decisions import comparable

from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.volumes.volume_reach import VolumePlaces

COUNT = int(os.environ.get("TONNAGE_HISTORIES", "24"))
FIRST = int(os.environ.get("TONNAGE_FIRST_HISTORY", "0"))
AT_A_TIME = 8
STEPS = 50


def play(seed: int) -> History:
    history = History(seed)
    for step in range(STEPS):
        for _ in range(history.rng.choice((1, 1, 1, 2, 4))):
            history.happen()
        history.try_all()
        assert history.lost() == [], f"history {seed}, step {step}: {history.happened[-8:]}"
        if step % 25 == 24:
            compare(history, f"history {seed}, step {step}")
    return history


def compare(history: History, where: str) -> None:
    history.come_to_rest()
    assert history.lost() == [], where
    fresh = history.new_engine()
    history.wait(70.0)  # what a scheduler keeps back at its start, because figures may not show it, ends by the clock
    fresh.tick(history.clock.monotonic())
    history.try_all()
    if history.bindings:  # somebody fits by now: the two are not asked about the same cluster
        return
    if not knows_the_same(history.engine, fresh):
        return
    assert placed_by(fresh) == [], where
    assert holds_of(history.engine, "Ledger") == holds_of(fresh, "Ledger"), where
    for each in history.waiting(history.engine):
        lived, anew = (undated(comparable(engine.explain(each).document())) for engine in (history.engine, fresh))
        assert lived == anew, where
    history.met.add("compared")


def undated(told: Any) -> Any:
    """All but what a scheduler that was just started cannot tell: since when, and for whose sake a claim was sent."""
    if isinstance(told, dict):
        unknown = ("since",) if "by" in told else ("since", "pod")  # for whom a node is held, both can tell
        return {key: undated(value) for key, value in told.items() if key not in unknown}
    if isinstance(told, str):
        return re.sub(r" since \d[^)]*", "", told)
    return [undated(each) for each in told] if isinstance(told, list) else told


def placed_by(fresh: Engine) -> list[tuple[str, str]]:
    """Whom a fresh engine would place, and where. All others have been tried in vain then, as in the lived one."""
    placed = []
    while (queued := fresh.pop()) is not None:
        attempt = fresh.attempt(queued)
        if attempt.placement is not None:
            placed.append((queued.info.key, attempt.placement.node))
            fresh.done(queued.pod)
            continue
        assert attempt.decision is not None and attempt.decision.diagnosis is not None
        fresh.requeue(queued, queued.pod, plugins=attempt.decision.diagnosis.rejecting_plugins())
    return placed


def knows_the_same(lived: Engine, fresh: Engine) -> bool:
    """Two things are in memory alone, and then the two engines may differ: refusals by attachments that are gone
    (decision 011), and in mode Object that the pod went for whose volumes an object was reserved.
    """
    return missed_targets(lived) == missed_targets(fresh) and holds_of(lived, "Object") == holds_of(fresh, "Object")


def missed_targets(engine: Engine) -> set[tuple[str, str]]:
    if not engine.cluster.has_index(VolumePlaces):
        return set()
    known = engine.cluster.index(VolumePlaces)
    volumes, nodes = engine.cluster.storage.volumes, [each.name for each in engine.cluster.nodes if each is not None]
    return {(volume.name, name) for volume in volumes for name in nodes if known.is_missed(volume.name, name)}


def holds_of(engine: Engine, mode: str) -> set[tuple[str, tuple[str, ...], int]]:
    found = engine.held.modes.get(Reservation(mode))
    return {(hold.capacity, hold.claims, hold.bytes) for hold in found.holds()} if found is not None else set()


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, AT_A_TIME))
def test_nobody_is_forgotten_and_a_fresh_engine_decides_the_same(first: int) -> None:
    for seed in range(first, min(first + AT_A_TIME, FIRST + COUNT)):
        play(seed)


def test_the_histories_are_worth_playing() -> None:
    met = set[str]()
    for seed in range(AT_A_TIME):
        met |= play(seed).met
    assert met == {"placed", "refused", "bound", "preempts", "lost binding", "compared"}
