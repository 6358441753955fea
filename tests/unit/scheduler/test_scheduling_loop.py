"""The loop beside a world that fails: bindings refused, pods held and let go, pods deleted in mid-flight."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from scheduler_volume_rig import SchedulerRig

from tonnage.errors import Conflict
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler.metrics import SchedulerMetrics
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


POINTS = "postFilter: {disabled: [{name: DefaultPreemption}]}"


async def step(rig: SchedulerRig) -> None:
    """Everything that can be decided now is, and its bindings are carried out."""
    while (queued := rig.queue.pop_nowait()) is not None:
        rig.loop.schedule_one(queued)
    await rig.loop.settle()


def messages(rig: SchedulerRig) -> list[tuple[str, str]]:
    """The conditions that were written: the pod's key, the message."""
    return [(key, message) for key, _, message in rig.conditions]


@pytest.fixture
def rig() -> SchedulerRig:
    return SchedulerRig(plugins=(HeldBack, MakesRoom), points=POINTS)


async def test_a_decided_pod_is_counted_before_the_api_knows(rig):
    rig.is_blind = True
    rig.add(node("a", cpu="1"), pod("first", cpu="700m"), pod("second", cpu="700m"))
    await step(rig)
    # 700m + 700m > 1000m: the second must see the first, which no informer has shown yet.
    assert rig.bound == {"default/first": "a"} and len(rig.assumed) == 1
    assert messages(rig) == [
        ("default/second", "0/1 nodes are available: 1 Insufficient cpu. preemption: not worth it.")
    ]
    assert [(reason, note) for _, reason, note in rig.events] == [
        ("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu. preemption: not worth it."),
        ("Scheduled", "Successfully assigned default/first to a"),
    ]


async def test_a_refused_binding_gives_its_room_back_and_wakes_who_waited_for_it(rig):
    rig.refuse = [Conflict("pod first was changed")]
    rig.add(node("a", cpu="1"), pod("first", cpu="700m"), pod("second", cpu="700m"))
    await step(rig)
    assert rig.bound == {} and len(rig.assumed) == 0 and rig.cluster.requested.sum() == 0
    told = 'running Bind plugin "DefaultBinder": pod first was changed'
    assert ("default/first", told) in messages(rig)
    rig.clock.advance(11.0)
    rig.queue.flush_backoff_completed(rig.clock.monotonic())
    await step(rig)
    assert len(rig.bound) == 1


async def test_a_pod_deleted_while_it_is_bound_leaves_nothing_behind(rig):
    rig.hold = asyncio.Event()
    rig.refuse = [Conflict("pod web was changed")]
    rig.add(node("a"), pod("web", cpu="1"))
    queued = rig.queue.pop_nowait()
    rig.loop.schedule_one(queued)
    await asyncio.sleep(0)
    rig.delete(Pod, "default/web")
    rig.hold.set()
    await rig.loop.settle()
    assert rig.cluster.requested.sum() == 0 and len(rig.assumed) == 0
    assert rig.queue.pop_nowait() is None and rig.events == []


async def test_the_informers_word_confirms_an_assumption_once(rig):
    rig.is_blind = True
    rig.add(node("a"), node("b"), pod("web", cpu="1"))
    await step(rig)
    chosen = rig.bound["default/web"]
    bound = pod("web", cpu="1", on=chosen)
    rig.engine.update(rig.pod("default/web"), bound)
    assert len(rig.assumed) == 0 and rig.cluster.requested[0].sum() == 1000
    # Somebody else bound it elsewhere: it is counted there, and there only.
    elsewhere = "b" if chosen == "a" else "a"
    rig.engine.update(bound, pod("web", cpu="1", on=elsewhere))
    assert rig.cluster.requested[0, rig.cluster.row_of[elsewhere]] == 1000 and rig.cluster.requested[0].sum() == 1000


async def test_a_held_pod_keeps_its_room_until_its_time_is_up(rig):
    rig.add(node("a", cpu="1"), pod("held", cpu="700m", labels={"hold": ""}))
    rig.loop.schedule_one(rig.queue.pop_nowait())
    await asyncio.sleep(0)
    assert rig.cluster.requested[0].sum() == 700 and rig.bound == {}
    await rig.clock.run_for(31.0)
    await rig.loop.settle()
    assert rig.cluster.requested[0].sum() == 0
    told = "rejected due to timeout after waiting 30s at plugin HeldBack"
    assert messages(rig) == [("default/held", told)]


async def test_a_pod_that_permit_refuses_waits_in_the_unschedulable_pool(rig):
    rig.add(node("a"), pod("web", labels={"refuse": ""}))
    await step(rig)
    assert rig.cluster.requested.sum() == 0
    assert rig.queue.pending_pods()[QueueName.UNSCHEDULABLE] == 1
    assert messages(rig) == [("default/web", "not today")]


async def test_a_pod_on_its_way_out_is_not_placed(rig):
    rig.add(node("a"), pod("web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    await step(rig)
    assert rig.bound == {} and rig.events == []


async def test_a_pod_that_room_is_made_for_is_expected_on_that_node(rig):
    rig.add(node("a", cpu="1"), pod("resident", cpu="1", on="a"), pod("important", cpu="1", priority=10))
    await step(rig)
    assert rig.queue.nominator.node_of(rig.pod("default/important")) == "a"
    assert messages(rig) == [("default/important", "0/1 nodes are available: 1 Insufficient cpu.")]


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
    await step(rig)
    assert rig.bound == {"default/web": "a"}
    assert messages(rig) == [("default/unlucky", "a plugin failed; see the scheduler's log")]
