"""Preemption from the decision to the bound pod: victims told and deleted, the pod held back, kept and never lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.errors import Forbidden, InternalError, NotFound, TonnageError
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Pod
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.framework import Code, Cycle, PermitPlugin, Status
from tonnage.scheduling.queue.queues import QueueName
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class


def small(name: str, **options: Any) -> Pod:
    """A pod that fills half of a node of one CPU."""
    return pod(name, cpu="500m", **options)


def big(name: str, **options: Any) -> Pod:
    """A pod that fills it."""
    return pod(name, cpu="1", **options)


def nominated_to(rig: SchedulerRig, name: str) -> str:
    found = rig.pod(f"default/{name}")
    assert found is not None
    return found.status.nominated_node_name


NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


async def test_a_victim_goes_and_the_pod_takes_its_place():
    rig = SchedulerRig(node("a", cpu="1"), big("victim", on="a"), big("web", priority=10))
    async with rig.running():
        await rig.settle(2.0)
        # One write tells the condition and the nomination; the victim is told why, then deleted; then the binding.
        assert rig.calls == [
            ("patch status", "default/web"),
            ("patch status", "default/victim"),
            ("delete", "default/victim"),
            ("bind", "default/web"),
        ]
        assert rig.conditions == [("default/web", "Unschedulable", NO_ROOM)]
    assert rig.bound == {"default/web": "a"}
    assert ("Normal", "Preempted", "Preempted by pod default-web on node a") in rig.events
    assert rig.metric("scheduler_preemption_attempts_total") == 1.0
    assert rig.metric("scheduler_preemption_victims_sum") == 1.0
    assert rig.slots.taken == 0 and len(rig.waits) == 0


async def test_a_victims_own_status_says_why_it_goes():
    rig = SchedulerRig(node("a", cpu="1"), big("victim", on="a"), big("web", priority=10), is_graceful=True)
    async with rig.running():
        await rig.settle()
        victim = rig.pod("default/victim")
        assert victim is not None and victim.metadata.is_terminating
        told = victim.condition("DisruptionTarget")
        assert told is not None
        assert (told.status, told.reason) == ("True", "PreemptionByScheduler")
        assert told.message == "default-scheduler: preempting to accommodate a higher priority pod"


async def test_a_victim_that_takes_its_time_is_waited_for():
    rig = SchedulerRig(
        node("a", cpu="1"), node("b", cpu="1"), big("one", on="a"), big("two", on="b", priority=5), is_graceful=True
    )
    rig.add(big("web", priority=10))
    async with rig.running():
        await rig.settle()
        assert nominated_to(rig, "web") == "a" and ("delete", "default/one") in rig.calls
        # Tried again, it still waits for its victim, and takes no other.
        rig.queue.activate([big("web")])
        await rig.settle(5.0)
        waits = "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to a terminating pod on the "
        assert rig.conditions[-1] == ("default/web", "Unschedulable", f"{waits}nominated node.")
        assert nominated_to(rig, "web") == "a" and ("delete", "default/two") not in rig.calls
        rig.delete(Pod, "default/one")
        await rig.settle(5.0)
    assert rig.bound == {"default/web": "a"}


async def test_the_last_victim_is_deleted_when_all_others_are():
    pods = [small("lesser", on="a", priority=1), small("greater", on="a", priority=2)]
    rig = SchedulerRig(node("a", cpu="1"), *pods, big("web", priority=10))
    async with rig.running():
        await rig.settle(2.0)
        assert [name for verb, name in rig.calls if verb == "delete"] == ["default/greater", "default/lesser"]
        gone = rig.calls.index(("delete", "default/greater"))
        assert gone < rig.calls.index(("patch status", "default/lesser"))
    assert rig.bound == {"default/web": "a"} and rig.metric("scheduler_preemption_victims_sum") == 2.0


async def test_while_its_victims_are_being_deleted_the_pod_is_held_back():
    rig = SchedulerRig(node("a", cpu="1"), big("victim", on="a"), big("web", priority=10))
    held: list[int] = []

    def room_comes_by_itself() -> None:
        rig.add(node("b", cpu="1"))
        held.append(rig.queue.pending_pods()[QueueName.GATED])

    rig.at_call["delete", "default/victim"] = room_comes_by_itself
    async with rig.running():
        await rig.settle(3.0)
    # What it was kept from hearing is made up for.
    assert held == [1] and set(rig.bound) == {"default/web"}


@pytest.mark.parametrize("trouble", [InternalError("etcd is away"), Forbidden("pods may not be deleted by you")])
async def test_a_victim_that_cannot_be_deleted_does_not_cost_the_pod_its_chance(trouble: TonnageError):
    rig = SchedulerRig(node("a", cpu="1"), big("victim", on="a"), big("web", priority=10))
    rig.refuse_delete += [trouble, trouble]
    async with rig.running():
        await rig.settle()
        assert rig.pod("default/victim") is not None and rig.refuse_delete == [trouble]
        await rig.settle(0.9)  # it backs off, so that a server that refuses is not asked without end
        assert rig.refuse_delete == [trouble]
        await rig.settle(10.0)
    assert rig.bound == {"default/web": "a"} and rig.refuse_delete == []


async def test_a_failure_spares_the_last_victim():
    rig = SchedulerRig(
        node("a", cpu="1"), small("one", on="a"), small("two", on="a", priority=1), big("web", priority=10)
    )
    rig.refuse_delete.append(InternalError("etcd is away"))
    async with rig.running():
        await rig.settle()
        assert rig.pod("default/one") is not None and rig.pod("default/two") is not None
        assert [verb for verb, _ in rig.calls].count("delete") == 1
        await rig.settle(5.0)
    assert rig.bound == {"default/web": "a"}


async def test_a_victim_that_went_by_itself_is_as_good():
    rig = SchedulerRig(node("a", cpu="1"), big("victim", on="a"), big("web", priority=10))
    rig.refuse_delete.append(NotFound('pods "victim" not found'))
    async with rig.running():
        await rig.settle()
        assert ("Normal", "Preempted", "Preempted by pod default-web on node a") not in rig.events
        rig.delete(Pod, "default/victim")
        await rig.settle()
    assert rig.bound == {"default/web": "a"}


async def test_another_pod_of_the_victims_name_is_spared():
    rig = SchedulerRig(node("a", cpu="1"), big("victim", on="a"), big("web", priority=10))

    def made_again() -> None:
        rig.delete(Pod, "default/victim")
        rig.add(pod("victim", metadata={"uid": "another"}))

    rig.at_call["delete", "default/victim"] = made_again
    async with rig.running():
        await rig.settle(5.0)
        assert rig.bound["default/web"] == "a" and [verb for verb, _ in rig.calls].count("delete") == 1
    found = rig.pod("default/victim")
    assert found is not None and found.metadata.uid == "another"


async def test_a_nomination_that_cannot_be_written_is_kept_in_memory_and_followed():
    rig = SchedulerRig(
        node("a", cpu="1"), node("b", cpu="1"), big("one", on="a", priority=1), big("two", on="b", priority=5)
    )
    rig.refuse_status.append(InternalError("etcd is away"))
    rig.is_graceful = True
    rig.add(big("web", priority=10))
    async with rig.running():
        await rig.settle()
        assert nominated_to(rig, "web") == "" and ("delete", "default/one") in rig.calls
        # By now a would not be the cheapest node. The API does not know of the nomination, but the scheduler does.
        rig.delete(Pod, "default/two")
        rig.add(big("three", on="b", priority=0))
        rig.queue.activate([big("web")])
        await rig.settle(5.0)
        assert ("delete", "default/three") not in rig.calls
        rig.delete(Pod, "default/one")
        await rig.settle(5.0)
    assert rig.bound == {"default/web": "a"}


async def test_whoever_waits_for_a_pod_to_go_is_told_when_it_begins_to():
    rig = SchedulerRig(node("a"), big("victim", on="a"))

    def is_going() -> Status | None:
        found = rig.pod("default/victim")
        return Status() if found is None or found.metadata.is_terminating else None

    waiting = asyncio.create_task(rig.waits.settled(is_going, 30.0, [(Pod, "default/victim")]))
    await rig.settle()
    rig.change(Pod, "default/victim", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    await rig.settle()
    assert waiting.done() and rig.clock.monotonic() == 0.0


async def test_a_pod_deleted_before_its_victims_are_told_spares_them():
    rig = SchedulerRig(node("a", cpu="1"), big("victim", on="a"), big("web", priority=10))
    rig.at_call["patch status", "default/web"] = lambda: rig.delete(Pod, "default/web")
    async with rig.running():
        await rig.settle(2.0)
    assert rig.calls == [("patch status", "default/web")] and rig.pod("default/victim") is not None
    assert len(rig.queue.nominator) == 0


async def test_victims_that_are_going_already_cost_no_call():
    going = big("victim", on="a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    rig = SchedulerRig(node("a", cpu="1"), going, big("web", priority=10))
    async with rig.running():
        await rig.settle()
        assert rig.calls == [("patch status", "default/web")] and nominated_to(rig, "web") == "a"
        rig.delete(Pod, "default/victim")
        await rig.settle(2.0)
    assert rig.bound == {"default/web": "a"}


async def test_budgets_are_minded_where_there_is_a_choice():
    budget = convert(
        PodDisruptionBudget,
        {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "db", "namespace": "default", "uid": "budget"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 0},
        },
    )
    rig = SchedulerRig(node("a", cpu="1"), node("b", cpu="1"), budget)
    rig.add(big("guarded", on="a", labels={"app": "db"}), big("plain", on="b", priority=5), big("web", priority=10))
    async with rig.running():
        await rig.settle(2.0)
    assert rig.bound == {"default/web": "b"}


async def test_told_to_stop_it_finishes_what_it_began():
    rig = SchedulerRig(
        node("a", cpu="1"), small("one", on="a"), small("two", on="a"), big("web", priority=10), is_graceful=True
    )
    async with rig.running() as task:
        rig.at_call["patch status", "default/web"] = task.cancel
        await rig.settle()
        assert task.done()
    assert [verb for verb, _ in rig.calls].count("delete") == 2 and rig.clock.monotonic() == 0.0


# -- victims that are not bound yet -----------------------------------------------------------------------------------


class Patient(PermitPlugin):
    """Holds pods labelled `hold`."""

    name = "Patient"

    def __init__(self, args: Any) -> None: ...

    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 600.0) if "hold" in cycle.pod.labels else (Status(), 0.0)


async def test_a_victim_that_waits_for_permission_is_sent_back_and_not_deleted():
    rig = SchedulerRig(node("a", cpu="1"), big("held", labels={"hold": ""}), plugins=[Patient])
    async with rig.running():
        await rig.settle()
        rig.add(big("web", priority=10))
        await rig.settle(2.0)
        assert rig.bound == {"default/web": "a"} and rig.pod("default/held") is not None
        assert ("default/held", "SchedulerError", "waiting on permit for pod: preempted") in rig.conditions
        told = "Preempted by pod default-web on node a (in kube-scheduler memory)."
        assert ("Normal", "Preempted", told) in rig.events
        assert not any(verb == "delete" for verb, _ in rig.calls)
        # It queues up again, and gets its turn.
        rig.delete(Pod, "default/web")
        await rig.settle(20.0)
        assert len(rig.waiting) == 1


async def test_a_victim_that_waits_for_its_volumes_is_sent_back_and_not_deleted():
    storage = (storage_class(), driver(), capacity("fast", "a", "100Gi"), claim("data", "20Gi"))
    rig = SchedulerRig(node("a", cpu="1"), *storage, pod_with("db", "data", cpu="1"))
    async with rig.running():
        await rig.settle()
        assert rig.slots.resting == 1
        rig.add(big("web", priority=10))
        await rig.settle(2.0)
        assert rig.bound == {"default/web": "a"} and rig.pod("default/db") is not None
        assert ("default/db", "SchedulerError", "preempted by DefaultPreemption") in rig.conditions
        assert rig.slots.resting == 0 and len(rig.waits) == 0 and rig.pages.reservations() == []
        assert not any(verb == "delete" for verb, _ in rig.calls)


# -- lesser pods that were expected there -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_shown", [True, False])
async def test_lesser_pods_that_were_expected_there_are_released(is_shown):
    # Upstream: medium preempts low, then high takes the node by another preemption.
    rig = SchedulerRig(node("a", cpu="1"), big("low", on="a"), is_shown=is_shown, is_graceful=True)
    rig.add(small("medium", priority=5))
    async with rig.running():
        await rig.settle(1.0)
        assert nominated_to(rig, "medium") == "a"
        rig.delete(Pod, "default/low")
        rig.add(big("high", priority=10))
        await rig.settle()
    # High found the node empty but for medium, whose room it need not mind.
    assert rig.bound == {"default/high": "a"}


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_second_preemption_takes_the_node_from_a_lesser_pod_that_waits_for_it(is_shown):
    rig = SchedulerRig(node("a", cpu="1"), small("one", on="a"), small("two", on="a", priority=1), is_shown=is_shown)
    rig.is_graceful = True
    rig.add(small("medium", priority=5))
    async with rig.running():
        await rig.settle(1.0)
        assert nominated_to(rig, "medium") == "a" and ("delete", "default/one") in rig.calls
        rig.add(big("high", priority=10))
        await rig.settle(5.0)
        # High needs both halves. Medium's nomination stays where the KEP's rule is followed, and goes where it is not.
        assert nominated_to(rig, "high") == "a"
        assert nominated_to(rig, "medium") == ("a" if is_shown else "")
        assert ("delete", "default/two") in rig.calls
        rig.delete(Pod, "default/one")
        rig.delete(Pod, "default/two")
        await rig.settle(10.0)
        assert rig.bound == {"default/high": "a"}
        rig.add(node("b", cpu="1"))
        await rig.settle(10.0)
    assert rig.bound == {"default/high": "a", "default/medium": "b"}
