"""Drivers of a node whose calls hang or fail for ever: the pods of others start and go as if nothing were."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from node_stage import DRIVER, NodeStage, node_stage

from support.eventually import eventually_async
from support.scripted_driver import ScriptedDriver
from tonnage.csi.errors import Code
from tonnage.objects.core_v1 import Pod
from tonnage.objects.storage_v1 import CSINode

STUCK = 9
"""More pods than a node works on at a time."""


async def two_drivers(on: NodeStage) -> tuple[ScriptedDriver, ScriptedDriver]:
    """Started, with volumes of both: `stuck-0` … of the first, `good` and `better` of the other."""
    driver, other = await on.driver(), await on.driver(name="other.example", socket="other")
    for number in range(STUCK):
        await on.volume(f"stuck-{number}")
    for name in ("good", "better"):
        await on.volume(name, csi={"driver": "other.example", "volumeHandle": f"handle-{name}"})
    for name in ("csi.example", "other.example"):
        spec = {"attachRequired": False}
        doc = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec}
        await on.client.create_doc(doc)
    await on.start()
    return driver, other


def hanging(driver: ScriptedDriver, method: str, released: asyncio.Event) -> None:
    async def wait(called: str) -> None:
        if called == method:
            await released.wait()

    driver.before_call = wait


async def called(driver: ScriptedDriver, method: str, times: int) -> None:
    await eventually_async(lambda: len({each.volume_id for each in driver.asked(method)}) >= times)


async def test_pods_whose_driver_hangs_hold_up_nobody() -> None:
    released = asyncio.Event()
    async with node_stage() as on, AsyncExitStack() as at_end:
        at_end.callback(released.set)
        driver, other = await two_drivers(on)
        hanging(driver, "NodeStageVolume", released)
        for number in range(STUCK):
            await on.pod(f"stuck-{number}", f"stuck-{number}")
        await called(driver, "NodeStageVolume", STUCK)  # not eight of them, and the others after half a minute
        await on.pod("plain")
        await on.pod("good", "good")
        for name in ("plain", "good"):
            await on.becomes(name, "Running")
        assert {await on.phase(f"stuck-{number}") for number in range(STUCK)} == {"Pending"}
        released.set()
        for number in range(STUCK):
            await on.becomes(f"stuck-{number}", "Running")
        # What hangs on the way down holds up nobody either, and each volume is unstaged once.
        released.clear()
        hanging(driver, "NodeUnstageVolume", released)
        for number in range(STUCK):
            await delete(on, f"stuck-{number}")
        await called(driver, "NodeUnstageVolume", STUCK)
        await on.pod("late", "better")
        await on.becomes("late", "Running")
        for name in ("good", "late"):
            await delete(on, name)
            await on.becomes(name, "gone")
        released.set()
        for number in range(STUCK):
            await on.becomes(f"stuck-{number}", "gone")
        await eventually_async(lambda: not driver.staged and not other.staged)


async def test_volumes_that_cannot_be_unstaged_hold_up_nobody() -> None:
    async with node_stage() as on:
        driver, other = await two_drivers(on)
        await on.pod("stuck-0", "stuck-0")
        await on.pod("good", "good")
        for name in ("stuck-0", "good"):
            await on.becomes(name, "Running")
        driver.refuse("NodeUnstageVolume", Code.INTERNAL, "busy")
        await delete(on, "stuck-0")
        await called(driver, "NodeUnstageVolume", 1)
        await delete(on, "good")
        await on.becomes("good", "gone")
        await eventually_async(lambda: not other.staged)
        driver.allow("NodeUnstageVolume")
        await on.becomes("stuck-0", "gone")
        await eventually_async(lambda: not driver.staged)


async def test_a_driver_that_tells_of_its_node_what_cannot_be_stored_keeps_no_other_from_being_registered() -> None:
    async with node_stage() as on:
        await on.driver(name="odd.example", socket="other", topology={"no label!": "x"})
        await on.driver(topology={"topology.example/node": "node-1"})
        await on.start()
        csi_node = await on.client.get(CSINode, "node-1")
        assert [each.name for each in csi_node.spec.drivers] == [DRIVER]


async def delete(on: NodeStage, pod: str) -> None:
    await on.client.delete(Pod, f"default/{pod}")
