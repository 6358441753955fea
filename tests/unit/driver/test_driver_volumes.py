"""CreateVolume, DeleteVolume, ControllerExpandVolume, ValidateVolumeCapabilities, ListVolumes, GetCapacity."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.driver_builders import (
    as_blocks,
    controller,
    create,
    driver_at,
    mounted,
    publish,
    size_bytes,
    unpublish,
    within,
)
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError
from tonnage.driver.volumes.parameters import topology_of

GI, MI = 1 << 30, 1 << 20
MULTI = csi.VolumeCapability.AccessMode.MULTI_NODE_MULTI_WRITER


async def make(service: object, asked: csi.CreateVolumeRequest) -> csi.Volume:
    return (await service.CreateVolume(asked, None)).volume  # type: ignore[attr-defined,no-any-return]  # any controller


async def refusal(call: object) -> tuple[Code, str]:
    with pytest.raises(StatusError) as refused:
        await call  # type: ignore[misc]  # any call
    return refused.value.code, refused.value.message


async def test_a_volume_is_made_in_the_tightest_pool_and_says_where_it_can_be_used(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, "20Gi,10Gi,30Gi")
    volume = await make(controller(driver), create("a", "8Gi"))
    assert volume.capacity_bytes == 8 * GI
    assert list(volume.accessible_topology) == [topology_of("node-1")]
    # Left over: 12, 2, 22. The second pool.
    assert (tmp_path / "node-1" / "pool-1" / volume.volume_id).is_dir()
    assert driver.allocations.free_bytes("node-1") == (20 * GI, 2 * GI, 30 * GI)


async def test_asking_again_gives_the_same_volume_and_takes_nothing_more(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    first = await make(controller(driver), create("a", "6Gi"))
    # 6 of 10 are used: a second volume would not even fit.
    assert await make(controller(driver), create("a", "6Gi")) == first
    assert driver.allocations.free_bytes("node-1") == (4 * GI,)


async def test_many_at_once_for_one_name_make_one_volume(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    volumes = await asyncio.gather(*(make(controller(driver), create("a", "6Gi")) for _ in range(8)))
    assert len({volume.volume_id for volume in volumes}) == 1
    assert driver.allocations.free_bytes("node-1") == (4 * GI,)


async def test_many_at_once_never_overdraw_a_pool(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, "2x10Gi")
    calls = (make(controller(driver), create(f"v{number}", "4Gi")) for number in range(10))
    made = await asyncio.gather(*calls, return_exceptions=True)
    # Two of 4Gi go into each pool of 10Gi, so that four are made and six refused.
    assert sum(isinstance(one, csi.Volume) for one in made) == 4
    assert {one.code for one in made if isinstance(one, StatusError)} == {Code.RESOURCE_EXHAUSTED}
    assert driver.allocations.free_bytes("node-1") == (2 * GI, 2 * GI)


async def test_the_same_name_for_another_volume_is_refused_with_what_differs(tmp_path: Path) -> None:
    service = controller(driver_at(tmp_path, "20Gi", nodes=("node-1", "node-2")))
    await make(service, create("a", "2Gi", node="node-1", parameters={"pools": "0"}))

    async def differs(asked: csi.CreateVolumeRequest) -> str:
        code, message = await refusal(make(service, asked))
        assert code is Code.ALREADY_EXISTS
        return message.removeprefix('there is a volume with the name "a" already, and ')

    same = {"pools": "0"}
    assert await differs(create("a", "3Gi", parameters=same)) == "it has 2Gi"
    assert await differs(create("a", "1Gi", limit="1Gi", parameters=same)) == "it has 2Gi"
    assert await differs(create("a", "2Gi", capability=as_blocks(), parameters=same)) == "it is a mount volume"
    assert await differs(create("a", "2Gi")) == "it was made with other parameters"
    assert await differs(create("a", "2Gi", parameters=same, volume="vol-x")) == "it was made from another source"
    assert await differs(create("a", "2Gi", parameters=same, node="node-2")) == "it lives on node-1"


async def test_no_room_is_said_with_the_most_there_is(tmp_path: Path) -> None:
    service = controller(driver_at(tmp_path, "3x10Gi", nodes=("node-1", "node-2")))
    # 30Gi are free on node-1, and none of its pools has 11.
    assert await refusal(make(service, create("a", "11Gi", node="node-1"))) == (
        Code.RESOURCE_EXHAUSTED,
        "no pool of node-1 has room for 11Gi: the most that one has free is 10Gi",
    )
    assert await refusal(make(service, create("a", "11Gi"))) == (
        Code.RESOURCE_EXHAUSTED,
        "no pool of node-1, node-2 has room for 11Gi: the most that one has free is 10Gi",
    )
    assert await refusal(make(service, create("a", "1Gi", node="node-9"))) == (
        Code.RESOURCE_EXHAUSTED,
        "no node of this driver lies within the accessibility requirements",
    )


async def test_preferred_nodes_are_tried_before_requisite_ones(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, "node-1=10Gi", "node-2=10Gi", "node-3=2Gi", nodes=("node-1", "node-2", "node-3"))
    asked = create("a", "4Gi", requisite=("node-1", "node-2", "node-3"), preferred=("node-3", "node-2"))
    # node-3 is preferred most and has 2Gi only.
    assert driver.node_of((await make(controller(driver), asked)).volume_id) == "node-2"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (create("", "1Gi"), "name is required"),
        (csi.CreateVolumeRequest(name="a"), "volume_capabilities is required"),
        (
            create("a", capability=mounted(MULTI)),
            "volume_capability: access mode MULTI_NODE_MULTI_WRITER is not supported, "
            "a volume can be used on one node only",
        ),
        (
            csi.CreateVolumeRequest(name="a", volume_capabilities=[mounted(), as_blocks()]),
            "volume_capabilities: a volume is either mounted or used as blocks, not both",
        ),
        (
            csi.CreateVolumeRequest(name="a", volume_capabilities=[csi.VolumeCapability()]),
            "volume_capability: access_type is required",
        ),
        (
            csi.CreateVolumeRequest(name="a", volume_capabilities=[mounted()], mutable_parameters={"colour": "red"}),
            "unknown mutable parameter colour: this driver knows iops and throughput",
        ),
        (
            csi.CreateVolumeRequest(name="a", volume_capabilities=[mounted()], mutable_parameters={"iops": "many"}),
            'mutable parameter iops="many": write a number above 0',
        ),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_name(
    tmp_path: Path, asked: csi.CreateVolumeRequest, message: str
) -> None:
    assert await refusal(make(controller(driver_at(tmp_path)), asked)) == (Code.INVALID_ARGUMENT, message)


async def test_deleting_gives_the_room_back_and_is_done_twice_without_harm(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    volume = await make(controller(driver), create("a", "6Gi"))
    for _ in range(2):
        await controller(driver).DeleteVolume(csi.DeleteVolumeRequest(volume_id=volume.volume_id), None)
    assert driver.allocations.free_bytes("node-1") == (10 * GI,)
    assert list((tmp_path / "node-1" / "pool-0").iterdir()) == []


async def test_a_volume_in_use_is_not_deleted(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    service = controller(driver)
    volume = await make(service, create("a"))
    await service.ControllerPublishVolume(publish(volume.volume_id), None)
    asked = csi.DeleteVolumeRequest(volume_id=volume.volume_id)
    assert await refusal(service.DeleteVolume(asked, None)) == (
        Code.FAILED_PRECONDITION,
        f"volume {volume.volume_id} is in use on node-1",
    )
    await service.ControllerUnpublishVolume(unpublish(volume.volume_id, "node-1"), None)
    await service.DeleteVolume(asked, None)


async def test_a_volume_grows_within_its_pool(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    service = controller(driver)
    volume = await make(service, create("a", "2Gi", capability=as_blocks()))

    async def expand(required: str, limit: str = "") -> csi.ControllerExpandVolumeResponse:
        asked = csi.ControllerExpandVolumeRequest(volume_id=volume.volume_id, capacity_range=within(required, limit))
        return await service.ControllerExpandVolume(asked, None)

    grown = await expand("5Gi")
    assert (grown.capacity_bytes, grown.node_expansion_required) == (5 * GI, False)
    assert (tmp_path / "node-1" / "pool-0" / volume.volume_id).stat().st_size == 5 * GI
    assert driver.allocations.free_bytes("node-1") == (5 * GI,)
    assert (await expand("3Gi")).capacity_bytes == 5 * GI  # it never shrinks
    assert await refusal(expand("3Gi", "4Gi")) == (
        Code.OUT_OF_RANGE,
        f"volume {volume.volume_id} has 5Gi and cannot be made smaller",
    )
    # The pool has 10Gi in all: 11Gi can never be, 10Gi only without the other volume.
    await make(service, create("b", "1Gi"))
    assert await refusal(expand("11Gi")) == (
        Code.OUT_OF_RANGE,
        f"volume {volume.volume_id} cannot grow to 11Gi: its pool has 10Gi in all",
    )
    assert await refusal(expand("10Gi")) == (
        Code.RESOURCE_EXHAUSTED,
        f"volume {volume.volume_id} needs 5Gi more, and its pool has 4Gi free",
    )


async def test_sizes_of_another_driver_count_from_making_to_growing(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    service = controller(driver)
    rules = {"size-rules": "step=1Gi,overhead=2%,extent=64Mi"}
    volume = await make(service, create("a", "1536Mi", capability=as_blocks(), parameters=rules))
    assert volume.capacity_bytes == 2 * GI  # and 41Mi on top, in extents of 64Mi
    assert driver.allocations.free_bytes("node-1") == (8 * GI - 64 * MI,)

    asked = csi.ControllerExpandVolumeRequest(volume_id=volume.volume_id, capacity_range=within("2500Mi"))
    assert (await service.ControllerExpandVolume(asked, None)).capacity_bytes == 3 * GI
    assert driver.allocations.free_bytes("node-1") == (7 * GI - 64 * MI,)
    assert (tmp_path / "node-1" / "pool-0" / volume.volume_id).stat().st_size == 3 * GI

    copy = await make(service, create("b", "3Gi", capability=as_blocks(), parameters=rules, volume=volume.volume_id))
    assert copy.capacity_bytes == 3 * GI
    assert driver.allocations.free_bytes("node-1") == (4 * GI - 128 * MI,)


async def test_capacity_is_the_sum_the_largest_and_each_pool(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, "node-1=10Gi,20Gi", "node-2=5Gi", nodes=("node-1", "node-2"))
    service = controller(driver)
    await make(service, create("a", "4Gi", node="node-1"))
    of_one = await service.GetCapacity(csi.GetCapacityRequest(accessible_topology=topology_of("node-1")), None)
    # Best fit puts 4Gi into the pool of 10Gi: 6 + 20.
    assert of_one.available_capacity == 26 * GI
    assert of_one.maximum_volume_size.value == 20 * GI
    assert list(of_one.available_capacities) == [6 * GI, 20 * GI]
    of_all = await service.GetCapacity(csi.GetCapacityRequest(), None)
    assert list(of_all.available_capacities) == [6 * GI, 20 * GI, 5 * GI]
    of_none = await service.GetCapacity(csi.GetCapacityRequest(accessible_topology=topology_of("node-9")), None)
    assert (of_none.available_capacity, list(of_none.available_capacities)) == (0, [])
    only_second = await service.GetCapacity(csi.GetCapacityRequest(parameters={"pools": "1"}), None)
    assert list(only_second.available_capacities) == [20 * GI]
    shared = await service.GetCapacity(csi.GetCapacityRequest(volume_capabilities=[mounted(MULTI)]), None)
    assert (shared.available_capacity, list(shared.available_capacities)) == (0, [])


async def test_an_old_driver_tells_the_sum_and_the_largest_only(tmp_path: Path) -> None:
    service = controller(driver_at(tmp_path, "10Gi,20Gi", report_pools=False))
    told = await service.GetCapacity(csi.GetCapacityRequest(), None)
    assert (told.available_capacity, told.maximum_volume_size.value) == (30 * GI, 20 * GI)
    assert list(told.available_capacities) == []


@pytest.mark.parametrize(("one_number", "told"), [("sum", 30 * GI), ("largest", 20 * GI)])
async def test_a_driver_of_today_tells_one_number_and_nothing_beside_it(
    tmp_path: Path, one_number: str, told: int
) -> None:
    service = controller(driver_at(tmp_path, "10Gi,20Gi", one_number=one_number))
    answer = await service.GetCapacity(csi.GetCapacityRequest(), None)
    assert answer == csi.GetCapacityResponse(available_capacity=told)


async def test_a_class_may_choose_its_pools_by_a_pattern_of_their_names(tmp_path: Path) -> None:
    service = controller(driver_at(tmp_path, "10Gi,20Gi,30Gi"))
    told = await service.GetCapacity(csi.GetCapacityRequest(parameters={"vgpattern": "^vg-[13]$"}), None)
    assert list(told.available_capacities) == [10 * GI, 30 * GI]


async def test_what_is_not_a_whole_block_is_not_reported(tmp_path: Path) -> None:
    # 10001 bytes are two blocks of 4096 and a rest that no volume can have.
    told = await controller(driver_at(tmp_path, "10001")).GetCapacity(csi.GetCapacityRequest(), None)
    assert list(told.available_capacities) == [8192]


async def test_lists_go_on_where_they_ended_whatever_came_and_went(tmp_path: Path) -> None:
    service = controller(driver_at(tmp_path))
    ids = [(await make(service, create(name))).volume_id for name in "abcd"]
    first = await service.ListVolumes(csi.ListVolumesRequest(max_entries=2), None)
    assert [entry.volume.volume_id for entry in first.entries] == ids[:2]
    for volume_id in ids[1:3]:
        await service.DeleteVolume(csi.DeleteVolumeRequest(volume_id=volume_id), None)
    late = (await make(service, create("late"))).volume_id
    rest = await service.ListVolumes(csi.ListVolumesRequest(starting_token=first.next_token), None)
    assert [entry.volume.volume_id for entry in rest.entries] == [ids[3], late]
    assert rest.next_token == ""
    assert await refusal(service.ListVolumes(csi.ListVolumesRequest(starting_token="x"), None)) == (
        Code.ABORTED,
        'starting_token "x" is not valid: start the list again',
    )


async def test_a_list_tells_where_a_volume_is_published_and_how_it_is(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    service = controller(driver)
    volume_id = (await make(service, create("a"))).volume_id
    await service.ControllerPublishVolume(publish(volume_id), None)
    status = (await service.ListVolumes(csi.ListVolumesRequest(), None)).entries[0].status
    assert list(status.published_node_ids) == ["node-1"]
    assert not status.volume_condition.abnormal
    (tmp_path / "node-1" / "pool-0" / volume_id).rmdir()
    told = await service.ControllerGetVolume(csi.ControllerGetVolumeRequest(volume_id=volume_id), None)
    assert told.status.volume_condition == csi.VolumeCondition(
        abnormal=True, message="the volume's contents are missing from its pool"
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"volume_capabilities": [mounted()]}, ""),
        ({"volume_capabilities": [as_blocks()]}, "volume {id} is a mount volume, not a block volume"),
        (
            {"volume_capabilities": [mounted()], "parameters": {"pools": "1"}},
            "the volume was created with other parameters",
        ),
        (
            {"volume_capabilities": [mounted()], "volume_context": {"a": "b"}},
            "volumes of this driver have no volume_context",
        ),
    ],
)
async def test_capabilities_are_confirmed_or_a_reason_is_given(
    tmp_path: Path, asked: dict[str, object], message: str
) -> None:
    service = controller(driver_at(tmp_path))
    volume_id = (await make(service, create("a"))).volume_id
    request = csi.ValidateVolumeCapabilitiesRequest(volume_id=volume_id, **asked)  # type: ignore[arg-type]  # a table
    told = await service.ValidateVolumeCapabilities(request, None)
    assert told.message == message.format(id=volume_id)
    assert told.HasField("confirmed") is not bool(message)


async def test_a_service_of_one_node_knows_its_own_volumes_only(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, nodes=("node-1", "node-2"))
    here, there = controller(driver, "node-1"), controller(driver, "node-2")
    mine, other = await make(here, create("a")), await make(there, create("b"))
    assert (driver.node_of(mine.volume_id), driver.node_of(other.volume_id)) == ("node-1", "node-2")
    listed = await here.ListVolumes(csi.ListVolumesRequest(), None)
    assert [entry.volume.volume_id for entry in listed.entries] == [mine.volume_id]
    assert (await here.GetCapacity(csi.GetCapacityRequest(), None)).available_capacity == 9 * GI
    assert await refusal(here.DeleteVolume(csi.DeleteVolumeRequest(volume_id=other.volume_id), None)) == (
        Code.FAILED_PRECONDITION,
        f"volume {other.volume_id} lives on node-2: ask the driver there",
    )
    assert await refusal(make(here, create("c", node="node-2"))) == (
        Code.RESOURCE_EXHAUSTED,
        "no node of this driver lies within the accessibility requirements",
    )
    assert await refusal(here.ControllerPublishVolume(publish(mine.volume_id, "node-2"), None)) == (
        Code.NOT_FOUND,
        "there is no node node-2",
    )


async def test_a_claim_in_gi_costs_exactly_what_it_asks(tmp_path: Path) -> None:
    driver = driver_at(tmp_path, "10Gi")
    for number in range(4):
        await make(controller(driver), create(f"v{number}", "2560Mi"))
    # 4 times 2560Mi are 10Gi.
    assert size_bytes("2560Mi") * 4 == 10 * GI
    assert driver.allocations.free_bytes("node-1") == (0,)


async def test_attributes_are_kept_in_the_record_and_may_change(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    service = controller(driver)
    asked = create("a", "1Gi")
    asked.mutable_parameters.update({"iops": "100"})
    volume = await make(service, asked)
    wanted = csi.ControllerModifyVolumeRequest(volume_id=volume.volume_id, mutable_parameters={"iops": "200"})
    for _ in range(2):
        await service.ControllerModifyVolume(wanted, None)
    assert driver.volume(volume.volume_id).mutable_parameters == {"iops": "200"}
    driver.close()
    again = driver_at(tmp_path)
    assert again.volume(volume.volume_id).mutable_parameters == {"iops": "200"}


async def test_attributes_that_it_does_not_know_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    driver = driver_at(tmp_path)
    volume = await make(controller(driver), create("a", "1Gi"))
    odd = csi.ControllerModifyVolumeRequest(volume_id=volume.volume_id, mutable_parameters={"colour": "red"})
    told = "unknown mutable parameter colour: this driver knows iops and throughput"
    assert await refusal(controller(driver).ControllerModifyVolume(odd, None)) == (Code.INVALID_ARGUMENT, told)
    gone = csi.ControllerModifyVolumeRequest(volume_id="nobody", mutable_parameters={"iops": "1"})
    assert (await refusal(controller(driver).ControllerModifyVolume(gone, None)))[0] is Code.NOT_FOUND
