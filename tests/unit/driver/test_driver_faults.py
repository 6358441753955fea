"""Faults on request, through the door that every call comes in by."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.driver_builders import controller, create, driver_at, node_service, publish
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError
from tonnage.driver.driver import Driver
from tonnage.faults import Fault, FaultFile

GI = 1 << 30


def driver_with(folder: Path, *faults: Fault, nodes: tuple[str, ...] = ("node-1",), limit: int = 3) -> Driver:
    file = FaultFile(folder / "faults.json")
    file.write(faults)
    return driver_at(folder / "state", "2x10Gi", nodes=nodes, faults=file, max_volumes=dict.fromkeys(nodes, limit))


async def make(driver: Driver, name: str, node: str = "") -> str:
    driver.faults.refresh()
    return (await controller(driver).CreateVolume(create(name, node=node), None)).volume.volume_id


async def free(driver: Driver) -> list[int]:
    driver.faults.refresh()
    told = await controller(driver).GetCapacity(csi.GetCapacityRequest(), None)
    return [number // GI for number in told.available_capacities]


async def limit(driver: Driver) -> int:
    return (await node_service(driver).NodeGetInfo(csi.NodeGetInfoRequest(), None)).max_volumes_per_node


async def test_out_of_space_refuses_and_tells_no_other_figures(tmp_path: Path) -> None:
    driver = driver_with(tmp_path, Fault("out-of-space", "node-1"), nodes=("node-1", "node-2"))
    with pytest.raises(StatusError) as refused:
        await make(driver, "a", node="node-1")
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert refused.value.message == "no pool of node-1 has room for 1Gi: the most that one has free is 0"
    assert await free(driver) == [10, 10, 10, 10]
    assert driver.node_of(await make(driver, "b")) == "node-2"


async def test_stale_figures_are_those_of_the_beginning(tmp_path: Path) -> None:
    driver = driver_with(tmp_path)
    await make(driver, "a")
    FaultFile(tmp_path / "faults.json").write([Fault("stale-figures")])
    await make(driver, "b")  # the first call since: the figures before it are kept
    assert await free(driver) == [9, 10]
    FaultFile(tmp_path / "faults.json").write([])
    assert await free(driver) == [8, 10]


async def test_out_of_slots_leaves_those_that_have_one(tmp_path: Path) -> None:
    driver = driver_with(tmp_path)
    first, second = await make(driver, "a"), await make(driver, "b")
    await controller(driver).ControllerPublishVolume(publish(first), None)
    FaultFile(tmp_path / "faults.json").write([Fault("out-of-slots")])
    await controller(driver).ControllerPublishVolume(publish(first), None)
    with pytest.raises(StatusError) as refused:
        await controller(driver).ControllerPublishVolume(publish(second), None)
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert refused.value.message == "node-1 can take no further volume: 1 are attached, and its limit is 3"
    assert await limit(driver) == 3


async def test_slots_taken_by_others_lower_the_limit_and_are_refused(tmp_path: Path) -> None:
    driver = driver_with(tmp_path, Fault("slots-taken", value=2))
    first, second = await make(driver, "a"), await make(driver, "b")
    # A limit of 3, of which others have 2.
    assert await limit(driver) == 1
    await controller(driver).ControllerPublishVolume(publish(first), None)
    with pytest.raises(StatusError) as refused:
        await controller(driver).ControllerPublishVolume(publish(second), None)
    assert refused.value.message == "node-1 can take no further volume: 1 are attached, and its limit is 1"


async def test_a_node_with_every_slot_taken_says_one_and_refuses_it(tmp_path: Path) -> None:
    driver = driver_with(tmp_path, Fault("slots-taken", value=5))
    volume_id = await make(driver, "a")
    assert await limit(driver) == 1  # 0 would be read as "no limit"
    with pytest.raises(StatusError) as refused:
        await controller(driver).ControllerPublishVolume(publish(volume_id), None)
    assert refused.value.message == "node-1 can take no further volume: 0 are attached, and its limit is 1"


async def test_a_node_without_a_limit_has_none_to_take_from(tmp_path: Path) -> None:
    driver = driver_with(tmp_path, Fault("slots-taken", value=5), limit=0)
    assert await limit(driver) == 0
    await controller(driver).ControllerPublishVolume(publish(await make(driver, "a")), None)
