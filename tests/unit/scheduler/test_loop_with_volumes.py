"""Pods that bring volumes, from the queue to their node: claims sent, waited for, given up, and nothing left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.errors import Conflict
from tonnage.objects import codec
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.framework import SUCCESS, Api, Cycle, PreBindPlugin, ReservePlugin, Status
from tonnage.scheduling.queue.queues import QueueName
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

CLASS = (storage_class(), driver())


def room(on: str, free: str = "100Gi") -> CSIStorageCapacity:
    return capacity("fast", on, free)


def tidy(rig: SchedulerRig) -> bool:
    """Nobody waits, and nothing is kept for anybody."""
    return not (len(rig.waits) or rig.slots.taken or rig.slots.resting or len(rig.assumed) or rig.pages.reservations())


def failed(text: str, name: str = "default/web") -> tuple[str, str, str]:
    return (name, "SchedulerError", f'running PreBind plugin "VolumeBinding": {text}')


async def test_a_claim_gets_its_node_and_the_pod_is_bound_when_the_volume_is():
    rig = SchedulerRig(*CLASS, node("a"), room("a"), claim("data", "20Gi"), pod_with("web", "data"))
    async with rig.running():
        await rig.settle()
        assert rig.writes == [
            ("default/data", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}})
        ]
        assert rig.bound == {} and (rig.slots.taken, rig.slots.resting) == (0, 1)
        rig.provision("data")
        await rig.settle()
        assert rig.bound == {"default/web": "a"} and len(rig.waits) == 0


async def test_a_static_volume_is_given_to_the_claim():
    rig = SchedulerRig(*CLASS, node("a"), node("b"), claim("data"), volume("pv-1", on="b"), pod_with("web", "data"))
    async with rig.running():
        await rig.settle()
        owner = rig.volume("pv-1").spec.claim_ref
        assert owner is not None and owner.key == "default/data" and rig.bound == {}
        rig.bind_claim("data", "pv-1")
        await rig.settle()
    assert rig.bound == {"default/web": "b"}


async def test_a_claim_that_its_provisioner_gives_back_goes_to_another_node():
    rig = SchedulerRig(
        *CLASS, node("a"), node("b"), room("a"), room("b"), claim("data", "20Gi"), pod_with("web", "data")
    )
    async with rig.running():
        await rig.settle()
        first = rig.claim("data").selected_node
        # The driver found no room: it says so in its capacity, and takes its hands off the claim.
        rig.change(CSIStorageCapacity, f"kube-system/fast-{first}", {"capacity": "0"})
        rig.change(
            PersistentVolumeClaim,
            "default/data",
            {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None, "tried": "yes"}}},
        )
        await rig.settle()
        assert rig.conditions == [failed('binding volumes: provisioning failed for PVC "data"')]
        assert tidy(rig)
        await rig.settle(2.0)  # one second of backoff
        second = rig.claim("data").selected_node
        assert {first, second} == {"a", "b"}
        rig.provision("data")
        await rig.settle()
        assert rig.bound == {"default/web": second}


async def test_a_node_that_gave_a_claim_back_is_not_tried_first_again_though_its_figures_still_say_room():
    proposed = pod_with("web", "data", status={"nominatedNodeName": "b"})
    rig = SchedulerRig(*CLASS, node("a"), node("b"), room("a"), room("b", "50Gi"), claim("data", "20Gi"), proposed)
    async with rig.running():
        await rig.settle()
        assert rig.claim("data").selected_node == "b"  # as proposed, though a has more
        given_back = {"annotations": {"volume.kubernetes.io/selected-node": None, "tried": "yes"}}
        rig.change(PersistentVolumeClaim, "default/data", {"metadata": given_back})
        await rig.settle()
        assert rig.conditions == [failed('binding volumes: provisioning failed for PVC "data"')]
        web = rig.pod("default/web")
        assert web is not None and web.status.nominated_node_name == "b"  # nobody's proposal is taken away
        await rig.settle(2.0)  # one second of backoff
        assert rig.claim("data").selected_node == "a"
        rig.provision("data")
        await rig.settle()
        assert rig.bound == {"default/web": "a"}


async def test_a_volume_that_never_comes_ends_the_wait_after_the_bind_timeout():
    rig = SchedulerRig(*CLASS, node("a"), room("a"), claim("data"), pod_with("web", "data"), timeout_s=600)
    async with rig.running():
        await rig.settle(599.0)
        assert rig.conditions == []
        await rig.settle(1.5)
        assert rig.conditions[0] == failed("binding volumes: context deadline exceeded")
        assert ("Warning", "FailedScheduling", rig.conditions[0][2]) in rig.events
        assert rig.metric("scheduler_volume_scheduling_stage_error_total", operation="bind") == 1.0
        # The claim stays with its node, and the next attempt waits there again.
        await rig.settle(2.0)
        assert rig.claim("data").selected_node == "a" and len(rig.waits) == 1
        rig.provision("data")
        await rig.settle()
    assert rig.bound == {"default/web": "a"}


async def test_pods_that_wait_for_volumes_do_not_hold_up_those_that_do_not():
    claims = [claim(f"data-{i}", "1Gi", class_name="slow") for i in range(20)]
    pods = [pod_with(f"db-{i}", f"data-{i}") for i in range(20)]
    rig = SchedulerRig(storage_class("slow"), node("a"), *claims, *pods, slots=2)
    async with rig.running():
        await rig.settle()
        assert rig.slots.resting == 20
        rig.add(pod("web"))
        await rig.settle()
        assert rig.bound == {"default/web": "a"}
        for i in range(20):
            rig.provision(f"data-{i}")
        await rig.settle()
        assert len(rig.bound) == 21 and rig.slots.taken == 0


async def test_somebody_elses_change_to_the_claim_fails_the_attempt_and_the_next_succeeds():
    rig = SchedulerRig(*CLASS, node("a"), room("a"), claim("data"), pod_with("web", "data"))
    rig.refuse.append(Conflict('Operation cannot be fulfilled on persistentvolumeclaims "data"'))
    async with rig.running():
        await rig.settle()
        assert rig.conditions == [failed('Operation cannot be fulfilled on persistentvolumeclaims "data"')]
        assert tidy(rig) and not rig.cluster.storage.claims.is_assumed("default/data")
        await rig.settle(2.0)
        rig.provision("data")
        await rig.settle()
    assert rig.bound == {"default/web": "a"}


async def test_a_refused_binding_keeps_the_volume_where_it_was_made():
    rig = SchedulerRig(*CLASS, node("a"), node("b"), room("a"), room("b"), claim("data"), pod_with("web", "data"))
    async with rig.running():
        await rig.settle()
        chosen = rig.claim("data").selected_node
        rig.refuse.append(Conflict("pod web was changed"))
        rig.provision("data")
        await rig.settle()
        told = 'running Bind plugin "DefaultBinder": pod web was changed'
        assert rig.conditions == [("default/web", "SchedulerError", told)]
        await rig.settle(2.0)
    assert rig.bound == {"default/web": chosen}


async def test_a_pod_deleted_while_it_waits_leaves_nothing_behind():
    rig = SchedulerRig(*CLASS, node("a"), room("a"), claim("data"), pod_with("web", "data"))
    async with rig.running():
        await rig.settle()
        rig.delete(Pod, "default/web")
        await rig.settle()
        assert tidy(rig) and rig.conditions == [] and rig.cluster.requested.sum() == 0
        assert rig.queue.pending_pods()[QueueName.UNSCHEDULABLE] == 0


async def test_a_node_deleted_meanwhile_ends_the_wait():
    rig = SchedulerRig(*CLASS, node("a"), room("a"), claim("data"), pod_with("web", "data"))
    async with rig.running():
        await rig.settle()
        rig.delete(Node, "a")
        await rig.settle()
        assert rig.conditions[0] == failed('binding volumes: failed to get node "a": node "a" not found')
        assert tidy(rig)


@pytest.mark.parametrize("point", ["Reserve", "PreBindPreFlight", "PreBind plugin"])
async def test_a_plugin_that_breaks_before_the_binding_fails_the_attempt_and_not_the_scheduler(point):
    class Broken(ReservePlugin, PreBindPlugin):
        name = "Broken"
        times = 0

        def __init__(self, args: Any) -> None: ...

        def reserve(self, cycle: Cycle, node_name: str) -> Status:
            return self._answer("Reserve")

        def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Status:
            return self._answer("PreBindPreFlight")

        async def pre_bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
            return self._answer("PreBind plugin")

        def _answer(self, here: str) -> Status:
            if here == point:
                Broken.times += 1
                if Broken.times == 1:
                    raise RuntimeError("boom")
            return SUCCESS

    rig = SchedulerRig(node("a"), pod("web"), plugins=[Broken])
    async with rig.running():
        await rig.settle()
        told = "a plugin failed; see the scheduler's log"
        if point != "Reserve":
            told = f'running {point} "Broken": {told}'
        assert rig.conditions == [("default/web", "SchedulerError", told)] and tidy(rig)
        await rig.settle(2.0)
    assert rig.bound == {"default/web": "a"}


@pytest.mark.parametrize("is_shown", [False, True])
async def test_a_volume_that_is_free_again_is_offered_to_those_who_went_without(is_shown):
    static = storage_class("local", provisioner="kubernetes.io/no-provisioner")
    claims = [claim(name, class_name="local") for name in ("one", "two")]
    disk = volume("disk", on="a", class_name="local")
    pods = [pod_with("first", "one"), pod_with("second", "two")]
    rig = SchedulerRig(static, node("a"), disk, *claims, *pods, is_shown=is_shown)
    rig.refuse.append(Conflict("disk was changed"))
    async with rig.running():
        await rig.settle()
        # The first was given the volume and failed to write that.
        assert rig.conditions[:2] == [
            (
                "default/second",
                "Unschedulable",
                "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. "
                "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
            ),
            failed("disk was changed", "default/first"),
        ]
        held = "Room on a is held for default/first (nominated since 2000-01-01T00:00:00Z)."
        assert [text.endswith(held) for _, _, text in rig.conditions[2:]] == [True] * is_shown
        await rig.settle(2.0)
        # It backs off. Where its choice of the node was shown, its room is kept; else the second need not wait for it.
        owner = rig.volume("disk").spec.claim_ref
        assert owner is not None and owner.key == ("default/one" if is_shown else "default/two")


# -- stopping ---------------------------------------------------------------------------------------------------------


async def test_told_to_stop_it_does_not_wait_for_volumes():
    rig = SchedulerRig(*CLASS, node("a"), room("a"), claim("data"), pod_with("web", "data"))
    async with rig.running() as task:
        await rig.settle()
        assert rig.slots.resting == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    # No time has passed. What was kept is given back, what was written stays.
    assert rig.clock.monotonic() == 0.0 and tidy(rig)
    assert rig.claim("data").selected_node == "a" and rig.conditions == []
    # It may run again, as when it leads again: the pod is tried, and waits.
    async with rig.running():
        await rig.settle(2.0)
        rig.provision("data")
        await rig.settle()
    assert rig.bound == {"default/web": "a"}


async def test_told_to_stop_it_lets_bindings_under_way_finish():
    rig = SchedulerRig(node("a"), pod("web"))
    rig.hold = asyncio.Event()
    async with rig.running() as task:
        await rig.settle()
        task.cancel()
        await rig.settle()
        assert not task.done()
        rig.hold.set()
        await asyncio.wait([task])
    assert rig.bound == {"default/web": "a"}


# -- capacity kept back -----------------------------------------------------------------------------------------------


def two_pods() -> list[Any]:
    claims = [claim("one", "60Gi"), claim("two", "20Gi")]
    return [*CLASS, node("a"), room("a"), *claims, pod_with("first", "one"), pod_with("second", "two")]


NO_ROOM = "0/1 nodes are available: 1 node(s) did not have enough free storage."


async def test_a_reserved_object_is_shown_and_its_refresh_lets_the_next_pod_in():
    rig = SchedulerRig(*two_pods())
    async with rig.running():
        await rig.settle()
        assert [(key, reason, text.startswith(NO_ROOM)) for key, reason, text in rig.conditions] == [
            ("default/second", "Unschedulable", True)
        ]
        assert rig.pages.reservations() == [
            {
                "mode": "Object",
                "capacity": "kube-system/fast-a",
                "uid": "kube-system-fast-a",
                "pod": "default/first",
                "claims": ["default/one"],
                "bytes": 60 * 2**30,
                "since": "2000-01-01T00:00:00Z",
                "why": "waits for its claims to be bound",
            }
        ]
        assert rig.metric("volume_binding_capacity_reservations_total") == 1.0
        assert rig.metric("volume_binding_capacity_held_objects", mode="Object") == 1.0
        assert rig.metric("volume_binding_capacity_held_bytes", mode="Object") == 60 * 2**30
        rig.provision("one")
        # 100 Gi - 60 Gi: the driver publishes less, and the second pod may try for all that.
        rig.change(CSIStorageCapacity, "kube-system/fast-a", {"capacity": "40Gi"})
        await rig.settle(2.0)
        assert rig.claim("two").selected_node == "a"
        assert rig.metric("volume_binding_capacity_reservation_resets_total") == 1.0


@pytest.mark.parametrize("ending", ["failure", "deletion"])
async def test_a_reservation_that_ends_without_a_refresh_lets_the_next_pod_in(ending):
    rig = SchedulerRig(*two_pods())
    async with rig.running():
        await rig.settle()
        if ending == "failure":
            removed = {"annotations": {"volume.kubernetes.io/selected-node": None}}
            rig.change(PersistentVolumeClaim, "default/one", {"metadata": removed})
        else:
            rig.delete(Pod, "default/first")
        await rig.settle(2.0)
        assert rig.claim("two").selected_node == "a"


async def test_a_bound_pod_that_is_deleted_before_the_refresh_gives_its_reservation_up():
    rig = SchedulerRig(*two_pods())
    async with rig.running():
        await rig.settle()
        rig.provision("one")
        await rig.settle()
        assert rig.bound == {"default/first": "a"} and rig.claim("two").selected_node == ""
        rig.delete(Pod, "default/first")
        await rig.settle(2.0)
        assert rig.claim("two").selected_node == "a"
        assert rig.metric("volume_binding_capacity_reservations_ended_total", cause="deletion") == 1.0


async def test_a_reservation_that_is_never_refreshed_ends_by_the_clock():
    rig = SchedulerRig(*two_pods())
    async with rig.running():
        await rig.settle()
        rig.provision("one")
        await rig.settle(58.0)
        assert rig.claim("two").selected_node == ""
        await rig.settle(5.0)  # 60 s after its claim was bound; then the backoff
        assert rig.claim("two").selected_node == "a"
        assert rig.metric("volume_binding_capacity_reservations_ended_total", cause="timeout") == 1.0


async def test_the_ledger_lets_in_what_fits_beside_what_is_promised():
    # 60 Gi + 20 Gi <= 100 Gi, and 30 Gi more is not.
    rig = SchedulerRig(*two_pods(), claim("three", "30Gi"), pod_with("third", "three"), reservation="Ledger")
    async with rig.running():
        await rig.settle()
        assert rig.claim("one").selected_node == rig.claim("two").selected_node == "a"
        assert rig.claim("three").selected_node == ""
        held = [
            (each["mode"], each["pod"], each["claims"], each["bytes"] // 2**30) for each in rig.pages.reservations()
        ]
        assert held == [
            ("Ledger", "default/first", ["default/one"], 60),
            ("Ledger", "default/second", ["default/two"], 20),
        ]
        assert rig.metric("volume_binding_capacity_held_bytes", mode="Ledger") == 80 * 2**30


async def test_without_reservation_nothing_is_kept_back():
    rig = SchedulerRig(*two_pods(), reservation="None")
    async with rig.running():
        await rig.settle()
        assert rig.claim("one").selected_node == rig.claim("two").selected_node == "a"
        assert rig.pages.reservations() == [] and rig.metric("volume_binding_capacity_reservations_total") == 0.0


@pytest.mark.parametrize("reservation", ["Object", "Ledger"])
async def test_a_volume_that_is_rebuilt_elsewhere_is_told_of_and_reserved_for(reservation):
    rig = SchedulerRig(
        storage_class(),
        driver(rebuilding=True),
        node("b"),
        room("b"),
        claim("data", "20Gi", volume="pv-1", selected_node="gone"),
        volume("pv-1", "20Gi", claim="default/data"),
        pod_with("web", "data"),
        reservation=reservation,
    )
    async with rig.running():
        await rig.settle()
        # The volume is made anew on b, and b's object does not show it yet.
        assert [(each["mode"], each["pod"], each["claims"]) for each in rig.pages.reservations()] == [
            (reservation, "default/web", ["default/data"])
        ]
        await rig.settle(61.0)
        assert len(rig.pages.reservations()) == 1  # it takes as long as it takes
        arrived = codec.to_doc(volume("pv-1", on="b"))["spec"]["nodeAffinity"]
        rig.change(PersistentVolume, "pv-1", {"spec": {"nodeAffinity": arrived}})
        rig.change(CSIStorageCapacity, "kube-system/fast-b", {"capacity": "80Gi"})
        await rig.settle()
        assert rig.pages.reservations() == []
    assert rig.bound == {"default/web": "b"} and rig.claim("data").selected_node == "b"
    assert [(kind, reason) for kind, reason, _ in rig.events] == [
        ("Normal", "CapacityAwareRescheduling"),
        ("Normal", "Scheduled"),
    ]


BASES = ("static", "dynamic")


async def test_a_reclassified_claim_is_told_of_once_though_its_pod_fits_nowhere():
    rig = SchedulerRig(
        storage_class(),
        driver(rebuilding=True),
        node("b"),
        capacity("fast", "b", "10Gi"),
        claim("data", "20Gi", volume="pv-1", selected_node="gone"),
        volume("pv-1", "20Gi", claim="default/data"),
        pod_with("web", "data"),
    )
    async with rig.running():
        for free in ("11Gi", "12Gi", "13Gi"):
            await rig.settle(15.0)
            rig.change(CSIStorageCapacity, "kube-system/fast-b", {"capacity": free})
        await rig.settle(15.0)
        assert rig.metric("volume_binding_rescheduling_events_total") == 1.0
    notes = [note for _, reason, note in rig.events if reason == "CapacityAwareRescheduling"]
    assert notes == [
        "Volume of claim default/data is to be rebuilt on another node: node gone is out of use;"
        " no node fits its pod now"
    ]


async def test_pods_are_counted_by_what_their_node_was_scored_by():
    rig = SchedulerRig(
        storage_class(),
        driver(),
        node("a"),
        capacity("fast", "a", "100Gi"),
        volume("pv-free", "10Gi", on="a"),
        claim("old", "10Gi"),
        claim("new", "20Gi"),
        pod_with("takes-one", "old"),
        pod_with("has-one-made", "new"),
    )
    async with rig.running():
        await rig.settle()
        scored = {basis: rig.metric("tonnage_volume_binding_scored_pods_total", basis=basis) for basis in BASES}
    assert scored == {"static": 1.0, "dynamic": 1.0}
