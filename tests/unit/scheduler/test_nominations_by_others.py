"""Proposals by others (KEP-5278): kept through failures, held against equals, followed, given up; and restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.errors import Conflict
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, csi_node, driver, pod_with, storage_class

STORAGE = (storage_class(), driver())
GATED = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}


def proposal(node_name: str) -> dict[str, Any]:
    return {"nominatedNodeName": node_name}


def nominated(name: str, node_name: str, **options: Any) -> Pod:
    return pod(name, status=proposal(node_name), **options)


def nominated_to(rig: SchedulerRig, name: str) -> str:
    found = rig.pod(f"default/{name}")
    assert found is not None
    return found.status.nominated_node_name


# -- a node that is yet to come ---------------------------------------------------------------------------------------


async def test_a_node_that_does_not_exist_yet_is_remembered_and_used_ahead_of_other_pending_pods():
    rig = SchedulerRig(node("full", cpu="1"), pod("resident", cpu="1", on="full"))
    rig.add(*(pod(f"older-{i}", cpu="1") for i in range(5)))
    async with rig.running():
        await rig.settle(1.0)
        rig.add(pod("web", cpu="1"))
        await rig.settle(1.0)
        rig.change(Pod, "default/web", {"status": proposal("new")})
        rig.queue.activate([pod("web")])
        await rig.settle(60.0)
        assert nominated_to(rig, "web") == "new" and rig.bound == {}
        rig.add(node("new", cpu="1"))
        await rig.settle(12.0)
        assert rig.bound == {"default/web": "new"}


async def test_a_node_that_is_not_ready_yet_is_waited_for():
    rig = SchedulerRig(node("full", cpu="1"), pod("resident", cpu="1", on="full"))
    rig.add(*(pod(f"older-{i}", cpu="1") for i in range(5)), nominated("web", "new", cpu="1"))
    async with rig.running():
        await rig.settle(1.0)
        rig.add(node("new", cpu="1", taints=["node.kubernetes.io/not-ready:NoSchedule"]))
        await rig.settle(12.0)
        told = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
        assert ("default/web", True) in [(key, text.startswith(told)) for key, _, text in rig.conditions]
        assert nominated_to(rig, "web") == "new" and rig.bound == {}
        rig.change(Node, "new", {"spec": {"taints": []}})
        await rig.settle(12.0)
        assert rig.bound == {"default/web": "new"}


async def test_nodes_that_never_come_leave_nothing_behind():
    rig = SchedulerRig(node("a", cpu="1"), pod("resident", cpu="1", on="a"))
    async with rig.running():
        for i in range(50):
            rig.add(nominated(f"web-{i}", f"never-{i}", cpu="1"))
        await rig.settle(30.0)
        assert len(rig.queue.nominator) == 50
        for i in range(50):
            rig.delete(Pod, f"default/web-{i}")
        await rig.settle(1.0)
    nominator = rig.queue.nominator
    assert not nominator._node_of and not nominator._by_node


async def test_a_proposal_that_fails_again_and_again_costs_one_write():
    rig = SchedulerRig(node("a", cpu="1"), nominated("web", "never", cpu="2"))
    async with rig.running():
        for _ in range(5):
            await rig.settle(20.0)
            rig.queue.activate([pod("web")])
        await rig.settle(20.0)
        assert rig.calls == [("patch status", "default/web")] and nominated_to(rig, "web") == "never"


# -- what is held -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("priority", "fits"), [(4, False), (5, False), (6, True)])
async def test_a_gated_pod_holds_its_room_against_its_equals(priority, fits):
    rig = SchedulerRig(node("a", cpu="1"), nominated("job", "a", cpu="1", priority=5, spec=GATED))
    rig.add(pod("web", cpu="1", priority=priority))
    async with rig.running():
        await rig.settle(2.0)
        assert rig.bound == ({"default/web": "a"} if fits else {})
        rig.change(Pod, "default/job", {"spec": {"schedulingGates": []}})
        await rig.settle(2.0)
        assert ("default/job" in rig.bound) is not fits
        assert nominated_to(rig, "job") == ("a" if fits else "")


@pytest.mark.parametrize(("priority", "fits"), [(5, False), (6, True)])
async def test_the_capacity_its_volumes_need_is_held_too(priority, fits):
    rig = SchedulerRig(*STORAGE, node("a"), capacity("fast", "a", "100Gi"), claim("one", "60Gi"), claim("two", "60Gi"))
    rig.add(pod_with("job", "one", priority=5, status=proposal("a"), spec=GATED))
    rig.add(pod_with("web", "two", priority=priority))
    async with rig.running():
        await rig.settle(2.0)
        # 60 Gi + 60 Gi > 100 Gi
        assert rig.claim("two").selected_node == ("a" if fits else "")


@pytest.mark.parametrize(("priority", "fits"), [(5, False), (6, True)])
async def test_the_slots_its_volumes_need_are_held_too(priority, fits):
    rig = SchedulerRig(*STORAGE, node("a"), capacity("fast", "a", "100Gi"), csi_node("a", {"csi.example": 1}))
    rig.add(claim("one", class_name="fast"), claim("two", class_name="fast"))
    rig.add(pod_with("job", "one", priority=5, status=proposal("a"), spec=GATED))
    rig.add(pod_with("web", "two", priority=priority))
    async with rig.running():
        await rig.settle(2.0)
        assert rig.claim("two").selected_node == ("a" if fits else "")


# -- proposals that change --------------------------------------------------------------------------------------------


def held_back() -> SchedulerRig:
    return SchedulerRig(node("a", cpu="1"), nominated("job", "a", cpu="1", priority=5, spec=GATED), pod("web", cpu="1"))


@pytest.mark.parametrize("ending", ["changed", "withdrawn", "deleted"])
async def test_pods_that_were_held_back_are_tried_again_at_once(ending):
    rig = held_back()
    async with rig.running():
        await rig.settle(1.0)
        assert rig.bound == {}
        match ending:
            case "changed":
                rig.change(Pod, "default/job", {"status": proposal("b")})
            case "withdrawn":
                rig.change(Pod, "default/job", {"status": {"nominatedNodeName": None}})
            case _:
                rig.delete(Pod, "default/job")
        await rig.settle()
        assert rig.bound == {"default/web": "a"}


async def test_a_proposal_for_a_gated_pod_counts_when_it_comes():
    rig = SchedulerRig(node("a", cpu="1"), pod("job", cpu="1", priority=5, spec=GATED))
    async with rig.running():
        await rig.settle()
        rig.change(Pod, "default/job", {"status": proposal("a")})
        rig.add(pod("web", cpu="1"))
        await rig.settle(1.0)
        assert rig.bound == {} and rig.queue.nominator.node_of(pod("job")) == "a"


async def test_a_proposal_for_a_pod_that_backs_off_is_followed():
    rig = SchedulerRig(*(node(name) for name in "abcdef"), pod("web"))
    rig.hold = asyncio.Event()
    async with rig.running():
        await rig.settle()
        # Its binding is refused, so that it backs off, as after an error.
        rig.refuse.append(Conflict("somebody was faster"))
        rig.hold.set()
        await rig.settle()
        rig.change(Pod, "default/web", {"status": proposal("e")})
        await rig.settle(2.0)
    assert rig.bound == {"default/web": "e"}


async def test_a_proposal_that_comes_in_flight_holds_its_room_at_once():
    rig = SchedulerRig(node("a", cpu="1"), pod("web", cpu="1", priority=5))
    popped = rig.queue.pop_nowait()
    assert popped is not None  # decided about in a moment, when a slot is free
    rig.change(Pod, "default/web", {"status": proposal("a")})
    other = PodInfo(pod("other", cpu="1"))
    assert [(name, each.pod.name) for name, each in rig.queue.nominator.ahead_of(other)] == [("a", "web")]
    rig.change(Pod, "default/web", {"status": {"nominatedNodeName": None}})
    assert list(rig.queue.nominator.ahead_of(other)) == []
    rig.loop.schedule_one(popped)
    await rig.loop.settle()
    assert rig.bound == {"default/web": "a"}


async def test_a_proposal_for_a_pod_that_waits_in_its_binding_counts_when_that_fails():
    storage = (*STORAGE, capacity("fast", "a", "100Gi"), capacity("fast", "b", "100Gi"), claim("data"))
    rig = SchedulerRig(*storage, node("a"), pod_with("web", "data"), timeout_s=10)
    async with rig.running():
        await rig.settle()
        assert nominated_to(rig, "web") == "a"
        rig.change(Pod, "default/web", {"status": proposal("b")})
        await rig.settle(10.1)
        assert rig.queue.nominator.node_of(pod("web")) == "a", "its volume is being made there, and it cannot go to b"
        taken_back = {"volume.kubernetes.io/selected-node": None}
        rig.change(PersistentVolumeClaim, "default/data", {"metadata": {"annotations": taken_back}})
        assert rig.queue.nominator.node_of(pod("web")) == "b"


# -- restart ----------------------------------------------------------------------------------------------------------


def restarted(rig: SchedulerRig, **options: Any) -> SchedulerRig:
    """Another scheduler finds what the first has left in the API."""
    again = SchedulerRig(*rig.objects.values(), **options)
    again._version = rig._version
    return again


async def test_a_scheduler_that_takes_over_goes_on_where_the_first_ended():
    nodes = [node(name) for name in "abcdef"]
    rooms = [capacity("fast", name, "100Gi") for name in "abcdef"]
    first = SchedulerRig(*STORAGE, *nodes, *rooms, claim("data"), pod_with("web", "data"))
    async with first.running():
        await first.settle()
    chosen = first.claim("data").selected_node
    assert nominated_to(first, "web") == chosen
    second = restarted(first)
    async with second.running():
        await second.settle()
        assert second.calls == [], "nothing is repeated"
        second.provision("data")
        await second.settle()
    assert second.bound == {"default/web": chosen} and second.calls == [("bind", "default/web")]


async def test_a_scheduler_that_takes_over_between_nomination_and_selected_node_takes_the_same_node():
    nodes = [node(name) for name in "abcdef"]
    rooms = [capacity("fast", name, "100Gi") for name in "abcdef"]
    rig = SchedulerRig(*STORAGE, *nodes, *rooms, claim("data"), pod_with("web", "data", status=proposal("e")))
    async with rig.running():
        await rig.settle()
        assert rig.claim("data").selected_node == "e" and rig.calls == [("patch", "default/data")]


async def test_a_scheduler_that_takes_over_waits_for_the_victims_of_the_first():
    first = SchedulerRig(node("a", cpu="1"), node("b", cpu="1"), pod("one", cpu="1", on="a"), is_graceful=True)
    first.add(pod("two", cpu="1", on="b", priority=5), pod("web", cpu="1", priority=10))
    async with first.running():
        await first.settle()
    assert nominated_to(first, "web") == "a"
    second = restarted(first, is_graceful=True)
    async with second.running():
        await second.settle(5.0)
        # It says what it waits for; nobody else has to go.
        assert second.calls == [("patch status", "default/web")]
        second.delete(Pod, "default/one")
        await second.settle(5.0)
    assert second.bound == {"default/web": "a"}
