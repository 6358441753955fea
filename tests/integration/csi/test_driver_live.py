"""The driver over real sockets: who answers where, how a refusal arrives, and what a caller who hangs up leaves."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.driver_builders import create, driver_at, node_publish, publish, stage, unpublish
from support.virtual_clock import VirtualClock
from tonnage.clock import SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.errors import Code, CsiError
from tonnage.driver.driver import Driver
from tonnage.driver.serving import serve
from tonnage.errors import TonnageError
from tonnage.faults import Fault, FaultFile

GI = 1 << 30
NODES = ("node-1", "node-2")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Near the root: a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)


def client(folder: Path, node: str = "", *, timeout_s: float = 15.0) -> CsiClient:
    path = folder / node / "csi.sock" if node else folder / "csi.sock"
    return CsiClient(f"unix://{path}", clock=SystemClock(), rng=random.Random(1), timeout_s=timeout_s)


@asynccontextmanager
async def serving(folder: Path, driver: Driver) -> AsyncIterator[None]:
    template = f"unix://{folder}/{{node}}/csi.sock"
    async with serve(driver, endpoint=f"unix://{folder}/csi.sock", node_endpoint_template=template):
        yield


async def refusal(call: Awaitable[object]) -> tuple[Code, str]:
    with pytest.raises(CsiError) as refused:
        await call
    return refused.value.code, refused.value.told


async def test_a_volume_goes_from_its_pool_to_a_pod_and_back(folder: Path) -> None:
    driver = driver_at(folder / "state", "2x10Gi", nodes=NODES, max_volumes={"node-1": 8})
    async with serving(folder, driver), client(folder) as center, client(folder, "node-1") as node:
        assert (await center.plugin_info()).name == "pools.tonnage.dev"
        assert (await node.node_info()).max_volumes_per_node == 8
        volume_id = (await center.create_volume(create("a", "4Gi", node="node-1"))).volume.volume_id
        assert list((await node.get_capacity(csi.GetCapacityRequest())).available_capacities) == [6 * GI, 10 * GI]
        await center.controller_publish(publish(volume_id))
        await node.stage(stage(volume_id, folder / "s"))
        await node.publish(node_publish(volume_id, folder / "s", folder / "m"))
        (folder / "m" / "file").write_text("data")
        assert await refusal(center.delete_volume(csi.DeleteVolumeRequest(volume_id=volume_id))) == (
            Code.FAILED_PRECONDITION,
            f"volume {volume_id} is in use on node-1",
        )
        await node.unpublish(csi.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=str(folder / "m")))
        await node.unstage(csi.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=str(folder / "s")))
        await center.controller_unpublish(unpublish(volume_id, "node-1"))
        await center.delete_volume(csi.DeleteVolumeRequest(volume_id=volume_id))
        assert (await center.get_capacity(csi.GetCapacityRequest())).available_capacity == 40 * GI


async def test_the_socket_of_all_nodes_has_no_node_service(folder: Path) -> None:
    async with serving(folder, driver_at(folder / "state", nodes=NODES)), client(folder) as center:
        assert (await refusal(center.node_info()))[0] is Code.UNIMPLEMENTED


async def test_a_single_node_is_served_from_one_socket(folder: Path) -> None:
    driver = driver_at(folder / "state")
    async with serve(driver, endpoint=f"unix://{folder}/csi.sock") as addresses, client(folder) as both:
        assert addresses == (f"unix://{folder}/csi.sock",)
        assert (await both.node_info()).node_id == "node-1"
        assert (await both.create_volume(create("a"))).volume.capacity_bytes == GI


async def test_one_address_for_all_nodes_is_refused(folder: Path) -> None:
    driver = driver_at(folder / "state", nodes=NODES)
    with pytest.raises(TonnageError, match=r"is one address for all nodes$"):
        async with serve(driver, endpoint=f"unix://{folder}/a", node_endpoint_template=f"unix://{folder}/b"):
            pass


async def test_what_a_caller_has_left_is_finished_and_found_by_the_next_try(folder: Path) -> None:
    driver = driver_at(folder / "state")
    async with serve(driver, endpoint=f"unix://{folder}/csi.sock"), client(folder) as center:
        first = (await center.create_volume(create("first"))).volume.volume_id
        # The lock of a volume is held, so that the call has begun and cannot end before the caller has gone.
        asked = csi.ControllerExpandVolumeRequest(
            volume_id=first, capacity_range=csi.CapacityRange(required_bytes=2 * GI)
        )
        async with driver.locks.hold(first):
            async with client(folder, timeout_s=0.2) as hasty:
                assert (await refusal(hasty.controller_expand(asked)))[0] is Code.DEADLINE_EXCEEDED
            assert driver.volume(first).capacity_bytes == GI
    # The sockets are closed once the work is done.
    assert driver.volume(first).capacity_bytes == 2 * GI


async def test_a_dead_driver_is_unavailable_on_the_nodes_it_is_dead_on(folder: Path) -> None:
    faults = FaultFile(folder / "faults.json")
    driver = driver_at(folder / "state", nodes=NODES, faults=faults)
    async with (
        serving(folder, driver),
        client(folder, timeout_s=0.2) as center,
        client(folder, "node-1", timeout_s=0.2) as one,
        client(folder, "node-2", timeout_s=0.2) as two,
    ):
        faults.write([Fault("dead", "node-1")])
        dead = (Code.UNAVAILABLE, 'the driver plays dead: the fault "dead" is set')
        assert await refusal(one.node_info()) == dead
        assert await refusal(center.create_volume(create("a", node="node-1"))) == dead
        assert (await two.node_info()).node_id == "node-2"
        assert (await center.create_volume(create("a", node="node-2"))).volume.capacity_bytes == GI
        faults.write([])
        assert (await one.node_info()).node_id == "node-1"


async def test_a_slow_driver_is_waited_for_and_drops_what_nobody_waits_for(folder: Path) -> None:
    faults = FaultFile(folder / "faults.json")
    clock = VirtualClock()
    driver = driver_at(folder / "state", faults=faults, clock=clock)
    slow = [Fault("slow", value=30)]
    async with serve(driver, endpoint=f"unix://{folder}/csi.sock"), client(folder) as patient:
        faults.write(slow)
        async with client(folder, timeout_s=0.1) as hasty:
            assert (await refusal(hasty.create_volume(create("a"))))[0] is Code.DEADLINE_EXCEEDED
        faults.write([])
        await patient.probe()  # by now the driver knows that the hasty one has gone
        faults.write(slow)
        waiting = asyncio.ensure_future(patient.create_volume(create("b")))
        while not waiting.done():
            clock.advance(1)
            await asyncio.sleep(0.001)
        assert clock.monotonic() >= 30
    # Had the hasty caller's call been kept, its 30 seconds would be over as well.
    assert [record.name for record in driver.allocations.volumes.values()] == ["b"]


async def test_a_broken_file_of_faults_is_told_to_the_caller(folder: Path) -> None:
    (folder / "faults.json").write_text("{")
    driver = driver_at(folder / "state", faults=FaultFile(folder / "faults.json"))
    async with serve(driver, endpoint=f"unix://{folder}/csi.sock"), client(folder) as center:
        code, told = await refusal(center.create_volume(create("a")))
        assert code is Code.INTERNAL
        assert told.startswith(f"{folder}/faults.json holds no list of faults: ")
