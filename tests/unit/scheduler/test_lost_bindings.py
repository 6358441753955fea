"""Bindings that were accepted and are not seen to happen: the API is asked, and who is not bound is tried again."""

from __future__ import annotations

import asyncio

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.engine.attempt import CONFIRMED_WITHIN_S
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class


def asked(rig: SchedulerRig, key: str = "default/p") -> int:
    return rig.calls.count(("get", key))


async def test_a_binding_that_was_answered_and_did_not_happen_is_made_again_soon() -> None:
    rig = SchedulerRig(node("a", cpu="1"), pod("p", cpu="700m"))
    rig.lies = 1
    async with rig.running():
        await rig.settle(CONFIRMED_WITHIN_S - 0.5)
        assert len(rig.assumed) == 1 and not asked(rig)
        # Overdue at 5 s, asked at the next tick, tried again after the backoff of an error.
        await rig.settle(4.0)
        assert rig.bound == {"default/p": "a"} and asked(rig) == 1 and len(rig.assumed) == 0
    told = "binding to a was accepted by the API server and did not happen"
    assert ("Warning", "FailedScheduling", told) in rig.events


async def test_its_room_is_free_for_others_once_the_api_has_said_so_and_not_before() -> None:
    rig = SchedulerRig(node("a", cpu="1"), pod("p", cpu="700m"))
    rig.lies = 1
    async with rig.running():
        await rig.settle(1.0)
        rig.add(pod("other", cpu="700m"))
        await rig.settle(CONFIRMED_WITHIN_S - 1.5)
        assert "default/other" not in rig.bound
        await rig.settle(3.0)
        assert len(rig.bound) == 1  # one of the two: 700m + 700m > 1000m


async def test_a_watch_that_is_behind_gives_no_room_away() -> None:
    rig = SchedulerRig(node("a", cpu="1"), pod("p", cpu="700m"))
    rig.is_blind = True
    async with rig.running():
        await rig.settle(1.0)
        rig.add(pod("other", cpu="700m"))
        await rig.settle(600.0)
        # It is bound, and says so when asked; however late the word of it is, its room is its own.
        assert rig.bound == {"default/p": "a"} and asked(rig) == 1 and len(rig.assumed) == 1
        rig.is_blind = False
        known, new = rig.pod("default/p"), rig.unseen.pop("default/p")
        assert known is not None
        rig.objects[Pod, new.key] = new
        rig.engine.update(known, new)
        await rig.settle(10.0)
        assert len(rig.assumed) == 0 and rig.cluster.node_of(new.uid) == "a"
        assert rig.bound == {"default/p": "a"}


async def test_a_server_that_does_not_answer_is_asked_again() -> None:
    rig = SchedulerRig(node("a", cpu="1"), pod("p", cpu="700m"))
    rig.lies = 1
    rig.refuse_read = [TonnageError("no answer"), TonnageError("not now")]
    async with rig.running():
        await rig.settle(2 * CONFIRMED_WITHIN_S + 1.0)
        assert len(rig.assumed) == 1 and asked(rig) == 2
        await rig.settle(CONFIRMED_WITHIN_S + 4.0)
        assert rig.bound == {"default/p": "a"}


async def test_a_binding_that_happens_after_all_while_the_pod_is_tried_again_places_it_once() -> None:
    """The server said that the pod has no node, it was sent elsewhere, and then the first binding shows."""
    rig = SchedulerRig(node("a", cpu="1"), pod("p", cpu="700m"))
    rig.lies = 1
    async with rig.running():
        await rig.settle(0.5)
        first = rig.pod("default/p")
        assert first is not None
        rig.add(node("b", cpu="1"))
        rig.hold = asyncio.Event()
        await rig.settle(CONFIRMED_WITHIN_S + 4.0)
        # "a" failed the pod, so that it is on its way to "b": assumed there, its binding hangs.
        assert rig.cluster.node_of(first.uid) == "b"
        late = pod("p", cpu="700m", on="a")
        rig.unseen[late.key] = late
        rig.engine.update(first, late)
        rig.objects[Pod, late.key] = late
        assert rig.cluster.node_of(first.uid) == "a" and len(rig.assumed) == 0
        rig.hold.set()
        rig.bound.clear()
        await rig.settle(30.0)
        # The second binding was refused, and the pod stays where it is, counted once.
        assert rig.cluster.node_of(first.uid) == "a" and not any(rig.queue.pending_pods().values())
        assert sum(map(len, rig.cluster.residents)) == 1


async def test_a_pod_that_was_deleted_unseen_gives_its_room_back_and_is_not_tried_again() -> None:
    rig = SchedulerRig(node("a", cpu="1"), pod("p", cpu="700m"))
    rig.lies = 1
    async with rig.running():
        await rig.settle(1.0)
        del rig.objects[Pod, "default/p"]
        rig.add(pod("other", cpu="700m"))
        await rig.settle(CONFIRMED_WITHIN_S + 3.0)
        assert rig.bound == {"default/other": "a"} and len(rig.assumed) == 0


@pytest.mark.parametrize("reservation", ["Ledger", "Object"])
async def test_what_its_volumes_take_stays_kept_until_the_capacity_shows_it(reservation: str) -> None:
    rig = SchedulerRig(
        *(storage_class(), driver(), node("a"), capacity("fast", "a", "100Gi"), claim("data", "60Gi")),
        pod_with("web", "data"),
        reservation=reservation,
    )
    rig.lies = 1
    async with rig.running():
        await rig.settle()
        rig.provision("data")
        await rig.settle(CONFIRMED_WITHIN_S + 1.0)  # the binding was answered, and is known to be lost
        assert len(rig.assumed) == 0 and rig.pages.reservations()
        rig.add(claim("more", "60Gi"), pod_with("greedy", "more"))
        await rig.settle(5.0)
        # 60Gi are used and the object still shows 100Gi: what was promised of it is kept, though the pod was not bound.
        assert rig.bound == {"default/web": "a"} and rig.claim("more").selected_node == ""
        rig.change(CSIStorageCapacity, "kube-system/fast-a", {"capacity": "40Gi"})
        await rig.settle(120.0)
        assert not rig.pages.reservations() and rig.claim("more").selected_node == ""
