"""The engine: attempts from the queue, what is given back, and events that are told once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.scheduling_sight import in_flight_events
from support.virtual_clock import VirtualClock
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.configuration.profile_plugins import KnownPlugin
from tonnage.scheduling.engine.attempt import AttemptStage, EngineHooks, EngineSettings
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.profiles import INDEXES, add_indexes
from tonnage.scheduling.framework import Code, Cycle, PermitPlugin, Plugin, ReservePlugin, Status, unschedulable
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.queue.waiting_pods import QueuedPod
from tonnage.testing.builders import cluster_of, node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {{multiPoint: {{enabled: [{plugins}]}}}}
    pluginConfig: [{{name: StorageCapacity, args: {{reservation: {reservation}}}}}]
"""


def engine_with(
    *objects: Object, plugins: tuple[type[Plugin], ...] = (), reservation: str = "Object", **options: Any
) -> Engine:
    listed = ", ".join(f"{{name: {each.name}}}" for each in plugins)
    text = CONFIGURATION.format(plugins=listed, reservation=reservation)
    configuration = parse(text, source="test", known_plugins=map(KnownPlugin.of, plugins))
    engine = Engine(configuration.profiles, clock=VirtualClock(), rng=random.Random(1), **options)
    engine.load(objects)
    return engine


def popped(engine: Engine) -> QueuedPod:
    queued = engine.pop()
    assert queued is not None
    return queued


def test_an_attempt_reserves_and_assumes_what_it_decided():
    engine = engine_with(node("a", cpu="1"), pod("first", cpu="700m"), pod("second", cpu="700m"))
    first, second = engine.attempt(popped(engine)), engine.attempt(popped(engine))
    assert first.placement is not None and (first.stage, first.placement.node) == (AttemptStage.PLACED, "a")
    assert first.pod.uid in engine.assumed and engine.cluster.node_of(first.pod.uid) == "a"
    # 700m + 700m > 1000m: the first counts already.
    assert second.placement is None and second.decision is not None and second.decision.diagnosis is not None
    assert second.decision.diagnosis.message() == "0/1 nodes are available: 1 Insufficient cpu."


def test_a_withdrawn_placement_wakes_who_was_turned_away_by_it():
    engine = engine_with(node("a", cpu="1"), pod("first", cpu="700m"), pod("second", cpu="700m"))
    first, turned_away = engine.attempt(popped(engine)), popped(engine)
    engine.attempt(turned_away)
    engine.requeue(turned_away, turned_away.pod, plugins=["NodeResourcesFit"])
    assert first.placement is not None and engine.queue.pending_pods()[QueueName.UNSCHEDULABLE] == 1
    engine.withdraw(first.placement)
    assert engine.cluster.node_of(first.pod.uid) is None
    assert popped(engine).pod.name == "second"


class Breaks(ReservePlugin):
    """Comes after VolumeBinding, which has reserved by then, and breaks."""

    name = "Breaks"

    def __init__(self, args: Any) -> None: ...

    def reserve(self, cycle: Cycle, node_name: str) -> Status:
        raise RuntimeError("boom")


def test_a_plugin_that_breaks_in_reserve_leaves_nothing_behind():
    storage = (storage_class(), driver(), capacity("fast", "a", "100Gi"), claim("data", "20Gi"))
    engine = engine_with(node("a"), *storage, pod_with("web", "data"), plugins=(Breaks,))
    attempt = engine.attempt(popped(engine))
    assert (attempt.stage, attempt.placement) == (AttemptStage.RESERVE, None)
    assert isinstance(attempt.exception, RuntimeError) and attempt.status.code is Code.ERROR
    assert not any(each.holds() for each in engine.held.modes.values()) and len(engine.assumed) == 0


class Never(PermitPlugin):
    name = "Never"

    def __init__(self, args: Any) -> None: ...

    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        return unschedulable("not today"), 0.0


def test_a_pod_that_is_not_permitted_gives_everything_back():
    engine = engine_with(node("a"), pod("web"), plugins=(Never,))
    attempt = engine.attempt(popped(engine))
    assert (attempt.stage, attempt.status) == (AttemptStage.PERMIT, Status(Code.UNSCHEDULABLE, ("not today",), "Never"))
    assert attempt.placement is None and len(engine.assumed) == 0 and list(engine.cluster.pods()) == []


def test_pods_of_another_scheduler_are_not_taken_up_unless_any_pod_is():
    other = pod("web", spec={"schedulerName": "another"})
    assert engine_with(node("a"), other).pop() is None
    engine = engine_with(node("a"), other, settings=EngineSettings(takes_any_pod=True))
    assert engine.attempt(popped(engine)).placement is not None


def test_a_refresh_that_ends_a_reservation_wakes_a_pod_once():
    seen: list[str] = []
    storage = (storage_class(), driver(), claim("one", "20Gi"), claim("two", "20Gi"))
    before = capacity("fast", "a", "100Gi")
    hooks = EngineHooks(on_queued=lambda queued, queue, why: seen.append(f"{queued.pod.name}: {why}"))
    engine = engine_with(node("a"), *storage, before, pod_with("first", "one"), pod_with("second", "two"), hooks=hooks)
    assert engine.attempt(popped(engine)).placement is not None
    waiting = popped(engine)
    assert engine.attempt(waiting).placement is None, "the object is reserved"
    engine.requeue(waiting, waiting.pod, plugins=["VolumeBinding"])
    in_flight = pod_with("third", "two", metadata={"uid": "third"})
    engine.add(in_flight)
    popped(engine)
    seen.clear()
    engine.update(before, capacity("fast", "a", "80Gi"))
    assert popped(engine).pod.name == "second" and engine.pop() is None
    assert seen == ["second: storage.k8s.io/CSIStorageCapacityUpdate", "second: PopFromBackoffQ"]
    assert in_flight_events(engine.queue) == 1, "the event is kept once for the pod that is being tried"


def test_capacity_that_is_let_go_without_an_event_of_its_own_wakes_who_waits():
    storage = (storage_class(), driver(), claim("one", "20Gi"), claim("two", "20Gi"))
    engine = engine_with(
        node("a"), *storage, capacity("fast", "a", "100Gi"), pod_with("first", "one"), pod_with("second", "two")
    )
    first, waiting = engine.attempt(popped(engine)), popped(engine)
    engine.attempt(waiting)
    engine.requeue(waiting, waiting.pod, plugins=["VolumeBinding"])
    assert engine.queue.pending_pods()[QueueName.UNSCHEDULABLE] == 1
    engine.delete(first.pod.pod)
    assert popped(engine).pod.name == "second"


def test_indexes_are_added_in_one_order_and_only_those_that_are_read():
    with_object, with_ledger = engine_with(reservation="Object"), engine_with(reservation="Ledger")
    for engine, left_out in ((with_object, "Ledger"), (with_ledger, "Reservations")):
        kept = [kind for kind in INDEXES if engine.cluster.has_index(kind)]
        assert [kind.__name__ for kind in INDEXES if kind not in kept] == [left_out]
        assert list(engine.cluster._indexes) == kept
    with pytest.raises(LookupError, match="there is no index int"):
        add_indexes(cluster_of(), (int,))


def test_backoffs_end_and_pods_that_waited_too_long_are_tried_again_as_time_passes():
    engine = engine_with(node("a", cpu="1"), pod("web", cpu="2"))
    queued = popped(engine)
    engine.attempt(queued)
    engine.requeue(queued, queued.pod, plugins=["NodeResourcesFit"])
    for _ in range(331):
        engine.clock.advance(1.0)  # type: ignore[attr-defined]  # the virtual clock
        engine.tick(engine.clock.monotonic())
    assert popped(engine).flushed_at is not None


def test_a_pod_that_is_shown_without_its_node_again_is_counted_once():
    """A server that was restored from a copy shows a pod as it was before its binding: it is placed anew."""
    bound, waiting = pod("p", cpu="700m", on="a"), pod("p", cpu="700m")
    engine = engine_with(node("a", cpu="1"), bound)
    engine.update(bound, waiting)
    assert engine.cluster.node_of(waiting.uid) is None
    attempt = engine.attempt(popped(engine))
    assert attempt.placement is not None and engine.cluster.node_of(waiting.uid) == "a"
    engine.queue.add(waiting)  # whoever puts a pod that has its place into the queue again
    assert engine.pop() is None


def test_an_accepted_binding_that_nobody_sees_is_told_once_and_ends_by_what_the_api_says():
    waiting = pod("p", cpu="700m")
    engine = engine_with(node("a", cpu="1"), waiting)
    placement = engine.attempt(popped(engine)).placement
    assert placement is not None
    engine.done(waiting)
    engine.binding_finished(placement)

    def tick(seconds: float) -> list[str]:
        engine.clock.advance(seconds)  # type: ignore[attr-defined]  # the virtual clock
        return [each.pod.key for each in engine.tick(engine.clock.monotonic())]

    assert tick(4.9) == []
    assert tick(0.2) == ["default/p"] and tick(60.0) == []
    # No answer: it is told again. Bound, and the informer behind: it stays counted, and is not asked about any more.
    assert not engine.overdue_binding(placement, None, was_answered=False)
    assert tick(5.0) == ["default/p"]
    assert not engine.overdue_binding(placement, pod("p", cpu="700m", on="a"))
    assert tick(600.0) == [] and engine.cluster.node_of(waiting.uid) == "a"
    # Not bound after all: the room is free, and the pod goes back.
    assert engine.overdue_binding(placement, waiting)
    assert engine.cluster.node_of(waiting.uid) is None and len(engine.assumed) == 0
    assert placement.queued is not None and engine.requeue(placement.queued, waiting)
    # A second word on the same binding, when it is on its way again, changes nothing.
    engine.clock.advance(10.0)  # type: ignore[attr-defined]
    engine.tick(engine.clock.monotonic())
    assert engine.attempt(popped(engine)).placement is not None
    assert not engine.overdue_binding(placement, waiting) and engine.cluster.node_of(waiting.uid) == "a"
