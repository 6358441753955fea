"""A node goes with a pod that has its volume there, and another pod shares the claim: it waits for one or the other.

The node is back, and it goes there too; or PodGC deletes the pod that was there, and the volume is rebuilt elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from scheduler_volume_rig import SchedulerRig

from tonnage.objects.core_v1 import Node, PersistentVolume, Pod
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, capacity, claim, driver, pod_with, storage_class, volume

TWIN = "default/twin"


def play(story: Callable[[SchedulerRig], Awaitable[None]]) -> None:
    """A pod runs on a with its volume; a is gone, its driver has freed the volume, and a twin of the pod has come."""

    async def run() -> None:
        rig = SchedulerRig(
            storage_class(), driver(rebuilding=True), node("a"), node("b"),
            capacity("fast", "a", "100Gi"), capacity("fast", "b", "100Gi"),
            claim("data", "20Gi", volume="pv-data", selected_node="a"),
            volume("pv-data", "20Gi", claim="default/data", on="a"),
            pod_with("first", "data", on="a"), attachment("va", "pv-data", "a"),
            reservation="Ledger",
        )  # fmt: skip
        async with rig.running():
            rig.delete(Node, "a")
            rig.change(PersistentVolume, "pv-data", {"spec": {"nodeAffinity": None}})
            rig.add(pod_with("twin", "data"))
            await rig.settle(30.0)
            assert TWIN not in rig.bound
            key, reason, message = rig.conditions[-1]
            assert (key, reason) == (TWIN, "Unschedulable")
            assert "1 node(s) didn't have the pod(s) that share a ReadWriteOnce PersistentVolumeClaim" in message
            await story(rig)

    asyncio.run(run())


def test_a_pod_that_waited_goes_to_the_node_when_it_is_back() -> None:
    async def story(rig: SchedulerRig) -> None:
        rig.add(node("a"))
        await rig.settle(20.0)
        assert rig.bound == {TWIN: "a"}
        assert rig.claim("data").selected_node == "a"

    play(story)


def test_a_pod_that_waited_takes_the_volume_along_when_the_other_is_deleted() -> None:
    async def story(rig: SchedulerRig) -> None:
        rig.delete(Pod, "default/first")
        rig.delete(VolumeAttachment, "va")
        await rig.settle(20.0)
        assert rig.bound == {TWIN: "b"}
        sent = rig.claim("data")
        assert (sent.selected_node, sent.metadata.annotations[REBUILD_TARGET]) == ("b", "b")

    play(story)


def test_after_a_restart_of_the_scheduler_it_waits_all_the_same() -> None:
    async def story(rig: SchedulerRig) -> None:
        again = SchedulerRig(reservation="Ledger")
        again.add(*rig.objects.values())
        async with again.running():
            await again.settle(30.0)
            assert TWIN not in again.bound

    play(story)
