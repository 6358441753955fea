"""Whatever a scheduler has decided and not written yet: `explain`, told what it knows, says what it would decide."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.configurations import storage_configuration
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduler.debug_pages import DebugPages
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.attempt import EngineSettings
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.explain import explain_pod
from tonnage.whatif.scheduler_memory import memory_from

SIZES = st.sampled_from(["10Gi", "30Gi", "60Gi", "90Gi"])


@st.composite
def worlds(draw: st.DrawFn) -> list[Object]:
    """A few nodes with pools, some free volumes, and pods with up to two claims, some of which two pods share."""
    objects: list[Object] = [driver(), storage_class()]
    for name in "abc"[: draw(st.integers(1, 3))]:
        objects += [node(name, cpu="4"), capacity(node=name, pools=draw(st.lists(SIZES, min_size=1, max_size=3)))]
        if draw(st.booleans()):
            objects.append(volume(f"free-{name}", draw(SIZES), on=name))
    if draw(st.booleans()):
        objects.append(capacity(free="100Gi", topology={}, name="zone"))
    count = draw(st.integers(2, 6))
    objects += [claim(f"c{number}", draw(SIZES)) for number in range(count)]
    for number in range(count):
        claims = draw(st.lists(st.integers(0, count - 1), max_size=2, unique=True))
        nominated = draw(st.sampled_from(["", "", "a"]))
        options = {"priority": draw(st.integers(0, 1)), "cpu": draw(st.sampled_from(["1", "2"]))}
        if nominated:
            options["status"] = {"nominatedNodeName": nominated}
        objects.append(pod_with(f"p{number}", *(f"c{each}" for each in claims), **options))
    return objects


@settings(max_examples=tries(150), deadline=None)
@given(objects=worlds(), mode=st.sampled_from(["Object", "Ledger"]), attempts=st.integers(0, 4))
def test_explain_agrees_with_the_scheduler(objects: list[Object], mode: str, attempts: int):
    clock, profile = VirtualClock(), parse(storage_configuration(reservation=mode), source="config.yaml").profiles[0]
    chosen = EngineSettings(takes_any_pod=True, implies_namespaces=True)
    live = Engine([profile], clock=clock, rng=random.Random(1), settings=chosen)
    live.load(objects)
    for _ in range(attempts):
        queued = live.pop()
        if queued is None:
            break
        attempt = live.attempt(queued)
        if attempt.placement is None:
            live.requeue(queued, queued.pod, plugins=("VolumeBinding",))
    pages = [DebugPages(live).reservations(), DebugPages(live).assumed(), DebugPages(live).nominations()]
    memory = memory_from("http://scheduler", *json.loads(json.dumps(pages)))
    for pod in [each for each in objects if isinstance(each, Pod)]:
        if pod.uid in live.assumed:
            continue
        said = explain_pod(pod, objects, profile, clock=clock, memory=memory).document()
        would = live.explain(pod).document()
        assert said["schedulable"] == would["schedulable"]
        assert _comparable(said) == _comparable(would)


def _comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """All but what is by lot (which of equally good nodes is chosen), and the order in which promises are told."""
    for entries in answer["volumes"].values():
        for entry in entries:
            entry.pop("miss", None)
            entry.get("promised", []).sort(key=lambda each: each["claim"])
    nodes = sorted(answer["nodes"], key=lambda each: str(each["name"]))
    return {**answer, "node": "", "nodes": nodes}
