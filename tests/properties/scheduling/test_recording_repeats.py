"""Whatever happens to an engine, the same done again to another one leads to the same decisions."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.configurations import storage_configuration
from support.virtual_clock import VirtualClock
from tonnage.gates import Gates
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import Configuration, parse
from tonnage.scheduling.engine.attempt import EngineSettings, Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.plugins.volume_binding import assumed_in
from tonnage.scheduling.queue.waiting_pods import QueuedPod
from tonnage.scheduling.recording.recording_engine import RecordingEngine, read_header, read_line
from tonnage.scheduling.recording.repetition import Difference, Repetition
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class

SETTINGS = EngineSettings(implies_namespaces=True)


def configuration(mode: str) -> Configuration:
    return parse(storage_configuration(reservation=mode), source="test", gates=Gates())


class Life:
    """A small cluster and a scheduler that is led through a random life; what is done depends on the lot alone."""

    def __init__(self, seed: int, engine: Engine, clock: VirtualClock) -> None:
        self.lot, self.engine, self.clock = random.Random(seed), engine, clock
        self.known: dict[tuple[type[Object], str], Object] = {}
        self.under_way: list[tuple[QueuedPod, Placement]] = []
        self.decisions: list[tuple[str, str]] = []
        self.version = 100
        for each in (storage_class(), driver(), *map(node, "abcd"), *(self.room(name) for name in "abcd")):
            self.put(each)
        engine.open()

    def room(self, name: str) -> Object:
        self.version += 1
        return capacity(node=name, free=f"{self.lot.randint(0, 60)}Gi", metadata={"resourceVersion": str(self.version)})

    def put(self, new: Object) -> None:
        place = (type(new), new.key)
        old = self.known.get(place)
        self.known[place] = new
        if old is None:
            self.engine.add(new)
        else:
            self.engine.update(old, new)

    def remove(self, old: Object) -> None:
        del self.known[type(old), old.key]
        self.engine.delete(old)

    def step(self) -> None:
        getattr(self, self.lot.choice(["comes", "comes", "goes", "refresh", "decide", "decide", "bind", "wait"]))()

    def comes(self) -> None:
        name, priority = f"p{self.lot.randint(0, 30)}", self.lot.choice([0, 0, 10])
        if (Pod, f"default/{name}") in self.known:
            return
        cpu = self.lot.choice(["500m", "2", "3"])
        self.version += 1
        uid = {"uid": f"{name}-{self.version}"}
        if self.lot.random() < 0.6:
            self.put(claim(name, f"{self.lot.randint(1, 40)}Gi", metadata={"resourceVersion": "1", **uid}))
            self.put(pod_with(name, name, cpu=cpu, priority=priority, metadata=uid))
        else:
            self.put(pod(name, cpu=cpu, priority=priority, metadata=uid))

    def goes(self) -> None:
        pods = [each for each in self.known.values() if isinstance(each, Pod)]
        if pods:
            gone = self.lot.choice(pods)
            self.remove(gone)
            if (PersistentVolumeClaim, gone.key) in self.known:
                self.remove(self.known[PersistentVolumeClaim, gone.key])

    def refresh(self) -> None:
        self.put(self.room(self.lot.choice("abcd")))

    def wait(self) -> None:
        self.clock.advance(self.lot.choice([0.3, 1.0, 20.0, 400.0]))
        for placement in self.engine.tick(self.clock.monotonic()):
            found = self.known.get((Pod, placement.pod.key))
            if self.engine.overdue_binding(placement, found if isinstance(found, Pod) else None):
                assert placement.queued is not None
                self.back(placement.queued)

    def decide(self) -> None:
        queued = self.engine.pop()
        if queued is None:
            return
        attempt = self.engine.attempt(queued)
        if attempt.placement is not None:
            self.decisions.append((queued.info.key, attempt.placement.node))
            self.under_way.append((queued, attempt.placement))
            return
        self.decisions.append((queued.info.key, ""))
        outcome = self.engine.post_filter(attempt)
        nomination: str | None = None
        if outcome is not None and outcome.plugin is not None:
            nomination = outcome.result.nominated_node
            self.engine.preemption_begins(outcome.plugin, queued.info)
        self.back(queued, nomination)
        if outcome is not None and outcome.plugin is not None:
            self.engine.make_way(outcome.result.nominated_node, below=queued.info.priority)
            for victim in outcome.result.victims:
                if (Pod, victim.key) in self.known:
                    self.remove(self.known[Pod, victim.key])
            self.engine.preemption_ends(outcome.plugin, queued.info, succeeded=self.lot.random() < 0.8)

    def back(self, queued: QueuedPod, nomination: str | None = None) -> None:
        found: Any = self.known.get((Pod, queued.info.key))
        self.engine.requeue(queued, found, nomination=nomination)

    def bind(self) -> None:
        if not self.under_way:
            return
        queued, placement = self.under_way.pop(self.lot.randrange(len(self.under_way)))
        known = self.known.get((Pod, placement.pod.key))
        if self.lot.random() < 0.3 or known is None or known.uid != queued.uid:
            assumed = assumed_in(placement.cycle)
            if assumed is not None and self.lot.random() < 0.5:
                for each in list(assumed.claims):
                    assumed.mark_written(each)
            self.engine.withdraw(placement)
            self.engine.failed_on(queued, placement.node, "it is said so")
            self.back(queued)
            return
        self.engine.done(queued.pod)
        self.engine.binding_finished(placement)
        if self.lot.random() < 0.8:
            assert isinstance(known, Pod)
            spec = msgspec.structs.replace(known.spec, node_name=placement.node)
            self.put(msgspec.structs.replace(known, spec=spec))


def recorded(seed: int, mode: str, steps: int) -> tuple[Life, list[bytes]]:
    clock = VirtualClock()
    lines: list[bytes] = []
    engine = RecordingEngine(
        configuration(mode).profiles,
        clock=clock,
        rng=random.Random(seed),
        seed=seed,
        sink=lines.append,
        settings=SETTINGS,
    )
    life = Life(seed, engine, clock)
    for _ in range(steps):
        life.step()
    engine.ended()
    return life, lines


def repeated(lines: list[bytes], mode: str) -> tuple[int, Difference | None]:
    repetition = Repetition(read_header(lines[0]), configuration(mode).profiles)
    for text in lines[1:]:
        if (found := repetition.repeat(read_line(text))) is not None:
            return repetition.decisions, found
    return repetition.decisions, None


@settings(max_examples=tries(12), deadline=None)
@given(seed=st.integers(0, 10_000), mode=st.sampled_from(["Object", "Ledger", "None"]))
def test_a_recording_repeats_decision_by_decision(seed: int, mode: str) -> None:
    life, lines = recorded(seed, mode, steps=120)
    assert repeated(lines, mode) == (len(life.decisions), None)


@pytest.mark.slow
@settings(max_examples=tries(150), deadline=None)
@given(seed=st.integers(0, 1_000_000), mode=st.sampled_from(["Object", "Ledger", "None"]))
def test_a_long_recording_repeats_decision_by_decision(seed: int, mode: str) -> None:
    life, lines = recorded(seed, mode, steps=400)
    assert repeated(lines, mode) == (len(life.decisions), None)


@settings(max_examples=tries(6), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_recording_changes_no_decision(seed: int) -> None:
    clock = VirtualClock()
    plain = Engine(configuration("Ledger").profiles, clock=clock, rng=random.Random(seed), settings=SETTINGS)
    life = Life(seed, plain, clock)
    for _ in range(100):
        life.step()
    assert recorded(seed, "Ledger", steps=100)[0].decisions == life.decisions


def test_a_decision_that_was_written_down_wrongly_is_found() -> None:
    """The comparison can fail: a line that says another node is told as the difference."""
    _, lines = recorded(7, "Ledger", steps=120)
    at = next(number for number, text in enumerate(lines) if b'"op":"attempt"' in text and b'"node":"' in text)
    told = read_line(lines[at]).node
    other = "a" if told != "a" else "b"
    lines[at] = lines[at].replace(f'"node":"{told}"'.encode(), f'"node":"{other}"'.encode())
    _, found = repeated(lines, "Ledger")
    assert found is not None
    assert (found.what, found.recorded, found.repeated) == ("attempt", other, told)
