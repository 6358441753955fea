"""A pod that no longer waits for a node: nothing more is written for it, and nothing stays kept, whenever it ends.

Between a pod's decision and its binding much is awaited: a binding slot, its nomination, Permit plugins, each claim's
write, its volumes. Meanwhile the pod may be deleted, begin to go, or get its node from somebody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from support.scheduling_sight import in_flight
from tonnage.errors import Timeout
from tonnage.objects.core_v1 import Pod
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.framework import Code, Cycle, PermitPlugin, Status
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class

CLASS = (storage_class(), driver())
WEB = "default/web"


class Waits(PermitPlugin):
    """Holds every pod with claims."""

    name = "Waits"

    def __init__(self, args: Any) -> None: ...

    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 600.0) if cycle.pod.pod.claim_names() else (Status(), 0.0)


def deleted(rig: SchedulerRig, key: str = WEB) -> None:
    rig.delete(Pod, key)


def going(rig: SchedulerRig, key: str = WEB) -> None:
    """Its finalizer keeps it."""
    rig.change(Pod, key, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}})


def bound_by_another(rig: SchedulerRig, key: str = WEB) -> None:
    rig.change(Pod, key, {"spec": {"nodeName": "elsewhere"}})


ENDS = pytest.mark.parametrize("ends", [deleted, going, bound_by_another])
End = Callable[[SchedulerRig], None]


def room(on: str) -> CSIStorageCapacity:
    return capacity("fast", on, "100Gi")


def rig_of(*plugins: type[PermitPlugin], **options: Any) -> SchedulerRig:
    """Two claims, written one by one, on the one node that has room for them."""
    claims = (claim("data", "20Gi"), claim("log", "20Gi"))
    return SchedulerRig(
        *CLASS, node("a", cpu="4"), node("elsewhere", cpu="4"), room("a"), *claims, plugins=plugins, **options
    )


def web() -> Pod:
    return pod_with("web", "data", "log")


def assert_quiet(rig: SchedulerRig, *, claims_written: int = 0) -> None:
    """Nobody was told anything, and nothing is kept for the pod."""
    assert [key for key, _ in rig.writes] == ["default/data", "default/log"][:claims_written]
    assert rig.bound == {} and rig.conditions == [] and rig.events == []
    untidy = (len(rig.waits), len(rig.waiting), rig.slots.taken, rig.slots.resting, len(rig.assumed))
    assert untidy == (0, 0, 0, 0, 0) and in_flight(rig.queue) == []
    # The claims that were written keep what they asked for: their volumes are being made.
    kept = {key for each in rig.pages.reservations() for key in each["claims"]}
    assert kept <= {key for key, _ in rig.writes}
    assert rig.metric("scheduler_schedule_attempts_total", result="error", profile="default-scheduler") is None


@ENDS
async def test_a_pod_that_ends_before_its_binding_begins(ends: End):
    rig = rig_of()
    rig.add(web())
    queued = rig.engine.pop()
    assert queued is not None
    rig.loop.schedule_one(queued)
    ends(rig)
    await rig.loop.settle()
    assert rig.calls == []
    assert_quiet(rig)


@ENDS
async def test_a_popped_pod_that_ends_before_its_attempt(ends: End):
    rig = rig_of()
    rig.add(web())
    queued = rig.engine.pop()
    assert queued is not None
    ends(rig)
    rig.loop.schedule_one(queued)
    await rig.loop.settle()
    assert rig.calls == []
    assert_quiet(rig)


@ENDS
async def test_an_attempt_at_a_pod_that_has_ended_raises_nothing(ends: End):
    rig = rig_of()
    rig.add(web())
    queued = rig.engine.pop()
    assert queued is not None
    ends(rig)
    attempt = rig.engine.attempt(queued)
    if ends is bound_by_another:
        assert attempt.placement is None and attempt.status.message == "pod is on node elsewhere already"
        assert len(rig.assumed) == 0 and rig.pages.reservations() == []


@ENDS
async def test_a_pod_that_ends_while_its_nomination_is_written_gets_no_selected_node(ends: End):
    rig = rig_of()
    rig.at_call["patch status", WEB] = lambda: ends(rig)
    async with rig.running():
        rig.add(web())
        await rig.settle(1.0)
        assert_quiet(rig)


@ENDS
async def test_a_nomination_that_failed_is_not_tried_again_for_a_pod_that_has_ended(ends: End):
    rig = rig_of()
    rig.refuse_status.append(Timeout("busy"))
    async with rig.running():
        rig.add(web())
        await rig.settle(0.1)
        ends(rig)
        await rig.settle(60.0)
        assert rig.calls == [("patch status", WEB)]
        assert_quiet(rig)


@ENDS
async def test_a_pod_that_ends_while_permit_holds_it_gives_everything_back_at_once(ends: End):
    rig = rig_of(Waits)
    async with rig.running():
        rig.add(web())
        await rig.settle(1.0)
        assert len(rig.waiting) == 1 and rig.pages.reservations() != []
        ends(rig)
        await rig.settle()
        assert_quiet(rig)
        assert rig.pages.reservations() == []


@ENDS
async def test_a_pod_that_ends_while_its_first_claim_is_written_gets_no_second(ends: End):
    rig = rig_of()
    rig.at_call["patch", "default/data"] = lambda: ends(rig)
    async with rig.running():
        rig.add(web())
        await rig.settle(1.0)
        assert_quiet(rig, claims_written=1)
        assert rig.claim("log").selected_node == ""


@ENDS
async def test_a_pod_that_ends_while_it_waits_for_its_volumes_ends_its_wait(ends: End):
    rig = rig_of()
    async with rig.running():
        rig.add(web())
        await rig.settle(1.0)
        assert len(rig.waits) == 1
        ends(rig)
        await rig.settle()
        assert_quiet(rig, claims_written=2)


@ENDS
async def test_a_pod_that_ends_while_another_takes_the_last_slot_is_not_tried(ends: End):
    rig = rig_of(slots=1)
    async with rig.running() as loop:
        rig.hold = asyncio.Event()
        rig.add(pod("slow", cpu="1"))
        await rig.settle()
        rig.add(web(), pod("next", cpu="1"))
        await rig.settle()
        ends(rig)
        rig.hold.set()
        await rig.settle(1.0)
        assert not loop.done() and set(rig.bound) == {"default/slow", "default/next"}
        assert rig.writes == [] and in_flight(rig.queue) == []


@ENDS
async def test_a_pod_that_ends_between_claims_that_are_sent_one_after_the_other(ends: End):
    # 80 goes first: 40 might be put into the 100, and 60 does not hold 80.
    pools = capacity("fast", "a", "160Gi", pools=["100Gi", "60Gi"])
    nodes = (node("a", cpu="4"), node("elsewhere", cpu="4"))
    rig = SchedulerRig(*CLASS, *nodes, pools, claim("data", "80Gi"), claim("log", "40Gi"))
    async with rig.running():
        rig.add(web())
        await rig.settle(1.0)
        assert [key for key, _ in rig.writes] == ["default/data"]
        ends(rig)
        rig.provision("data")
        left = {"capacity": "80Gi", "availableCapacities": ["20Gi", "60Gi"]}
        rig.change(CSIStorageCapacity, "kube-system/fast-a", left)
        await rig.settle(30.0)
        assert_quiet(rig, claims_written=1)
        assert rig.claim("log").selected_node == "" and rig.pages.reservations() == []
