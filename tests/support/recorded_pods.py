"""A recording of a few pods with a claim each, decided one after the other, for tests of those that read recordings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from support.virtual_clock import VirtualClock
from tonnage.gates import Gates
from tonnage.scheduling.configuration.configuration import default_configuration, parse
from tonnage.scheduling.recording.recording_engine import RecordingEngine
from tonnage.testing.storage_builders import claim, driver, pod_with, storage_class


def recorded_pods(folder: Path, names: list[str], size: str, *objects: Any, configuration: str = "") -> Path:
    """The file of it. `objects` are there at the start; a pod that finds no node goes back to the queue."""
    gates, lines = Gates(), list[bytes]()
    chosen = parse(configuration, source="test", gates=gates) if configuration else default_configuration(gates=gates)
    engine = RecordingEngine(
        chosen.profiles,
        clock=VirtualClock(),
        rng=random.Random(3),
        seed=3,
        sink=lines.append,
        version="0.0.1",
        configuration=configuration,
        feature_gates=str(gates),
    )
    for each in (storage_class(), driver(), *objects):
        engine.add(each)
    engine.open()
    for name in names:
        engine.add(claim(name, size))
        engine.add(pod_with(name, name, cpu="500m"))
        queued = engine.pop()
        assert queued is not None
        attempt = engine.attempt(queued)
        if attempt.placement is None:
            engine.requeue(queued, queued.pod)
        else:
            engine.done(queued.pod)
            engine.binding_finished(attempt.placement)
    engine.ended()
    path = folder / "recording.jsonl"
    path.write_bytes(b"".join(lines))
    return path
