"""Mounter, whatever happens: every mount has a record, and what has one can be undone, also after any kill.

A seeded run of mounts, unmounts, drivers that refuse and processes that die at any await, with a real driver behind.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from support.node_context import node_context
from support.scripted_driver import ScriptedDriver
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError
from tonnage.node.context import NodeFaults
from tonnage.node.drivers import Drivers
from tonnage.node.mounts import mount_paths
from tonnage.node.mounts.mount_paths import MountPaths, MountRecord
from tonnage.node.mounts.mount_plan import VolumeToMount
from tonnage.node.mounts.mounter import Mounter

STEPS = 60
CALLS = ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume")


def to_mount(volume: int, pod: int) -> VolumeToMount:
    record = MountRecord(
        driver="csi.example", handle=f"h{volume}", name=f"pv{volume}", pod_uid=f"u{pod}", is_block=volume == 2
    )
    return VolumeToMount(pod_volume="v", record=record, context={}, pod_info={})


class Yielding(NodeFaults):
    """Lets a kill come before each call to a driver."""

    async def delay_or_stop(self, node: str) -> None:
        await asyncio.sleep(0)


class Node:
    """A node whose process may die: what it remembers is lost, what is on disk and in the driver stays."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.paths = MountPaths(folder / "node")
        self.plugin = ScriptedDriver(f"unix://{folder}/csi.sock", node_id="n", name="csi.example")
        clock = SystemClock()
        self.context = node_context(
            "node", folder, self.plugin.address, clock=clock, rng=rng, faults=Yielding(None, clock=clock)
        )
        self.drivers = Drivers(self.context, lambda _: None)
        self.start()

    def start(self) -> None:
        self.mounts = Mounter(self.context, self.drivers)
        self.mounts.recover()

    async def leave(self, uid: str) -> None:
        for record in self.mounts.of_pod(uid):
            await self.mounts.unpublish(record)
        for volume in self.mounts.unused():
            await self.mounts.unstage(volume, is_wanted=lambda _: False)

    def check(self) -> None:
        """Whatever the driver has is on record; what is published is staged."""
        records = mount_paths.scan(self.paths)
        published = {(each.handle, str(self.paths.target(each))) for each in records if each.pod_uid}
        staged = {each.handle for each in records if not each.pod_uid}
        assert self.plugin.published <= published
        assert self.plugin.staged <= staged
        assert {handle for handle, _ in self.plugin.published} <= self.plugin.staged


async def live_through(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    node = Node(folder, rng)
    async with node.plugin.served():
        await node.drivers.poll()
        for _ in range(STEPS):
            refused = rng.choice((*CALLS, *[""] * 12))
            if refused:
                node.plugin.refuse(refused, grpc.StatusCode.INTERNAL, "on request")
            work = [
                asyncio.create_task(
                    node.mounts.mount(to_mount(rng.randrange(3), rng.randrange(3)), publish_context={})
                    if rng.random() < 0.6
                    else node.leave(f"u{rng.randrange(3)}")
                )
                for _ in range(rng.randrange(1, 4))
            ]
            is_killed = rng.random() < 0.3
            if is_killed:
                for _ in range(rng.randrange(12)):
                    await asyncio.sleep(0)
                for task in work:
                    task.cancel()
            for result in await asyncio.gather(*work, return_exceptions=True):
                assert result is None or isinstance(result, TonnageError | asyncio.CancelledError), result
            if is_killed:
                await asyncio.to_thread(int)  # a thread of the dead process does not write after its successor has read
                node.start()
            node.plugin.allow(refused)
            node.check()
        node.start()
        for pod in range(3):
            await node.leave(f"u{pod}")
        assert (node.plugin.staged, node.plugin.published) == (set(), set())
        assert mount_paths.scan(node.paths) == []
        assert [path.name for path in node.paths.root.iterdir()] == ["plugins_registry"]
    await node.drivers.close()


@pytest.mark.parametrize("seed", range(4))
def test_every_mount_has_a_record_and_all_of_them_can_be_undone_after_any_kill(seed: int):
    folder = Path(tempfile.mkdtemp(prefix="t"))
    try:
        asyncio.run(live_through(seed, folder))
    finally:
        shutil.rmtree(folder)
