"""The loop beside a world that fails: bindings refused, pods held and let go, pods deleted in mid-flight."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tonnage.clock import VirtualClock
from tonnage.errors import Conflict
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler.bindings_under_way import PreBindWaits
from tonnage.scheduler.context import SchedulerContext
from tonnage.scheduler.loop import SchedulingLoop
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.configuration.plugin_catalogue import KnownPlugin
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.framework import (
    Code,
    Cycle,
    PermitPlugin,
    PostFilterPlugin,
    PostFilterResult,
    Status,
    unschedulable,
)
from tonnage.scheduling.queue.queues import QueueName
from tonnage.testing.builders import cluster_of, info, node, pod


class World:
    """Where bindings, conditions and events go. `refuse` makes the next bindings fail."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.conditions: list[tuple[str, str]] = []
        self.events: list[tuple[str, str]] = []
        self.refuse = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def bind(self, info: PodInfo, node_name: str) -> None:
        await self.gate.wait()
        if self.refuse:
            self.refuse -= 1
            raise Conflict(f"pod {info.pod.name} was changed")
        assert info.key not in self.bound, "placed twice"
        self.bound[info.key] = node_name

    async def patch(self, cls: type[Pod], key: str, patch: Any, *, patch_type: Any, subresource: str) -> Pod:
        if "conditions" in patch["status"]:
            self.conditions.append((key, patch["status"]["conditions"][0]["message"]))
        return Pod()

    async def delete(self, kind: type[Pod], key: str, *, uid: str = "") -> None:
        raise AssertionError(f"nobody has to go here, least of all {key}")

    def event(self, regarding: Any, type: Any, reason: str, action: str, note: str, related: Any = None) -> None:
        self.events.append((reason, note))


class HeldBack(PermitPlugin):
    """Holds pods labelled `hold`, refuses those labelled `refuse`."""

    name = "HeldBack"

    def __init__(self, args: Any) -> None: ...

    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        if "refuse" in cycle.pod.labels:
            return unschedulable("not today"), 0.0
        return (Status(Code.WAIT), 30.0) if "hold" in cycle.pod.labels else (Status(), 0.0)


class MakesRoom(PostFilterPlugin):
    """Makes room on node `a` for important pods, and says why not for others."""

    name = "MakesRoom"

    def __init__(self, args: Any) -> None: ...

    def post_filter(self, cycle: Cycle, diagnosis: Any) -> PostFilterResult:
        if cycle.pod.priority:
            return PostFilterResult(Status(), "a")
        return PostFilterResult(unschedulable("preemption: not worth it."))


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      permit: {enabled: [{name: HeldBack}]}
      postFilter: {enabled: [{name: MakesRoom}], disabled: [{name: DefaultPreemption}]}
"""
FOREIGN = {"HeldBack": HeldBack, "MakesRoom": MakesRoom}


class Rig:
    """A loop on virtual time, fed by hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.world = World()
        configuration = parse(CONFIGURATION, source="test", known_plugins=map(KnownPlugin.of, FOREIGN.values()))
        self.engine = Engine(configuration.profiles, clock=self.clock, rng=random.Random(1), foreign=FOREIGN)
        self.engine.open()
        self.cluster, self.queue, self.assumed = self.engine.cluster, self.engine.queue, self.engine.assumed
        (self.profile,) = self.engine.profiles.values()
        self.pods: dict[str, Pod] = {}
        self.loop = SchedulingLoop(
            SchedulerContext(
                engine=self.engine,
                client=self.world,
                api=self.world,  # type: ignore[arg-type]  # only what these tests reach
                events=self.world,
                metrics=SchedulerMetrics(CollectorRegistry(), self.clock),
                newest=self.pods.get,
                waits=PreBindWaits(self.clock),
            )
        )

    def add(self, *objects: Any) -> None:
        for each in objects:
            if isinstance(each, Pod):
                self.pods[each.key] = each
            self.engine.add(each)

    async def step(self) -> None:
        """Everything that can be decided now is, and its bindings are carried out."""
        while (queued := self.queue.pop_nowait()) is not None:
            self.loop.schedule_one(queued)
        await self.loop.settle()


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_decided_pod_is_counted_before_the_api_knows(rig):
    rig.add(node("a", cpu="1"), pod("first", cpu="700m"), pod("second", cpu="700m"))
    await rig.step()
    # 700m + 700m > 1000m: the second must see the first, which no informer has shown yet.
    assert rig.world.bound == {"default/first": "a"} and len(rig.assumed) == 1
    assert rig.world.conditions == [
        ("default/second", "0/1 nodes are available: 1 Insufficient cpu. preemption: not worth it.")
    ]
    assert rig.world.events == [
        ("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu. preemption: not worth it."),
        ("Scheduled", "Successfully assigned default/first to a"),
    ]


async def test_a_refused_binding_gives_its_room_back_and_wakes_who_waited_for_it(rig):
    rig.world.refuse = 1
    rig.add(node("a", cpu="1"), pod("first", cpu="700m"), pod("second", cpu="700m"))
    await rig.step()
    assert rig.world.bound == {} and len(rig.assumed) == 0 and rig.cluster.requested.sum() == 0
    told = 'running Bind plugin "DefaultBinder": pod first was changed'
    assert ("default/first", told) in rig.world.conditions
    rig.clock.advance(11.0)
    rig.queue.flush_backoff_completed(rig.clock.monotonic())
    await rig.step()
    assert len(rig.world.bound) == 1


async def test_a_pod_deleted_while_it_is_bound_leaves_nothing_behind(rig):
    rig.world.gate.clear()
    rig.world.refuse = 1
    rig.add(node("a"), pod("web", cpu="1"))
    queued = rig.queue.pop_nowait()
    rig.loop.schedule_one(queued)
    await asyncio.sleep(0)
    rig.engine.delete(rig.pods.pop("default/web"))
    rig.world.gate.set()
    await rig.loop.settle()
    assert rig.cluster.requested.sum() == 0 and len(rig.assumed) == 0
    assert rig.queue.pop_nowait() is None and rig.world.events == []


async def test_the_informers_word_confirms_an_assumption_once(rig):
    rig.add(node("a"), node("b"), pod("web", cpu="1"))
    await rig.step()
    chosen = rig.world.bound["default/web"]
    bound = pod("web", cpu="1", on=chosen)
    rig.engine.update(rig.pods["default/web"], bound)
    assert len(rig.assumed) == 0 and rig.cluster.requested[0].sum() == 1000
    # Somebody else bound it elsewhere: it is counted there, and there only.
    elsewhere = "b" if chosen == "a" else "a"
    rig.engine.update(bound, pod("web", cpu="1", on=elsewhere))
    assert rig.cluster.requested[0, rig.cluster.row_of[elsewhere]] == 1000 and rig.cluster.requested[0].sum() == 1000


async def test_a_held_pod_keeps_its_room_until_its_time_is_up(rig):
    rig.add(node("a", cpu="1"), pod("held", cpu="700m", labels={"hold": ""}))
    rig.loop.schedule_one(rig.queue.pop_nowait())
    await asyncio.sleep(0)
    assert rig.cluster.requested[0].sum() == 700 and rig.world.bound == {}
    await rig.clock.run_for(31.0)
    await rig.loop.settle()
    assert rig.cluster.requested[0].sum() == 0
    told = "rejected due to timeout after waiting 30s at plugin HeldBack"
    assert rig.world.conditions == [("default/held", told)]


async def test_a_pod_that_permit_refuses_waits_in_the_unschedulable_pool(rig):
    rig.add(node("a"), pod("web", labels={"refuse": ""}))
    await rig.step()
    assert rig.cluster.requested.sum() == 0
    assert rig.queue.pending_pods()[QueueName.UNSCHEDULABLE] == 1
    assert rig.world.conditions == [("default/web", "not today")]


async def test_a_pod_on_its_way_out_is_not_placed(rig):
    rig.add(node("a"), pod("web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    await rig.step()
    assert rig.world.bound == {} and rig.world.events == []


async def test_a_pod_that_room_is_made_for_is_expected_on_that_node(rig):
    rig.add(node("a", cpu="1"), pod("resident", cpu="1", on="a"), pod("important", cpu="1", priority=10))
    await rig.step()
    assert rig.queue.nominator.node_of(rig.pods["default/important"]) == "a"
    assert rig.world.conditions == [("default/important", "0/1 nodes are available: 1 Insufficient cpu.")]


async def test_plugins_are_timed_in_one_decision_of_ten(rig):
    measures = CollectorRegistry()
    metrics = SchedulerMetrics(measures, rig.clock)
    cluster = cluster_of(node("a"), node("b"))
    for i in range(30):
        pod = info(f"p{i}", cpu=f"{i + 1}m")
        assert rig.profile.decider.decide(cluster, pod, times=metrics.plugin_times()).fits
    labels = {"extension_point": "Filter", "plugin": "NodeResourcesFit", "status": "Success"}
    timed = measures.get_sample_value("scheduler_plugin_execution_duration_seconds_count", labels)
    assert timed == 3  # decisions 10, 20 and 30, of pods that are all unlike


async def test_a_broken_plugin_does_not_stop_the_loop(rig, monkeypatch):
    rig.add(node("a"), pod("unlucky"), pod("web"))
    decider = rig.profile.decider
    decide = decider.decide

    def sometimes(cluster, info, *given, **options):
        if info.pod.name == "unlucky":
            raise RuntimeError("boom")
        return decide(cluster, info, *given, **options)

    monkeypatch.setattr(type(decider), "decide", lambda self, *given, **options: sometimes(*given, **options))
    await rig.step()
    assert rig.world.bound == {"default/web": "a"}
    assert rig.world.conditions == [("default/unlucky", "a plugin failed; see the scheduler's log")]
