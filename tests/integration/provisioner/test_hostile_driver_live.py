"""A provisioner beside a driver that answers nonsense: no volume is left behind or written wrongly, and claims can go.

What a driver may send over its socket that is no answer at all is tried in
`tests/attacks/test_answers_of_a_hostile_driver.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from provisioner_stage import DRIVER, KEY, Code, ProvisionerStage, server, servers, stage

from support.eventually import eventually_async
from tonnage.csi import csi_pb2 as csi
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.provisioner.context import ProvisionerOptions

GI = 1 << 30
RARELY = ProvisionerOptions(retry_start_s=0.05, retry_max_s=600.0)
"""A second attempt after a clear refusal of a volume is one too many for a test to see."""


def placed(**segments: str) -> Callable[[csi.Volume], None]:
    def alter(volume: csi.Volume) -> None:
        del volume.accessible_topology[:]
        volume.accessible_topology.append(csi.Topology(segments=segments))

    return alter


def told_size(size: int) -> Callable[[csi.Volume], None]:
    def alter(volume: csi.Volume) -> None:
        volume.capacity_bytes = size

    return alter


def told_context(size: int) -> Callable[[csi.Volume], None]:
    def alter(volume: csi.Volume) -> None:
        volume.volume_context["x"] = "y" * size

    return alter


def named(volume_id: str) -> Callable[[csi.Volume], None]:
    def alter(volume: csi.Volume) -> None:
        volume.volume_id = volume_id

    return alter


USELESS: dict[str, tuple[Callable[[csi.Volume], None], str]] = {
    "a place that no label can name": (placed(**{"no label!": "x"}), "error saving volume "),
    "a place too long for a label": (placed(**{KEY: "x" * 64}), "error saving volume "),
    "less than nothing": (told_size(-GI), "created volume capacity -1073741824 less than requested "),
    "a byte too little": (told_size(GI - 1), "created volume capacity 1073741823 less than requested "),
    "2 MB of context": (told_context(2_000_000), "the driver describes the volume in 20001"),
}


@servers
async def test_a_volume_that_is_no_use_is_deleted_and_its_claim_can_go(name: str, tmp_path: Path) -> None:
    async with server(name, tmp_path) as on, on.provisioner(RARELY):
        for number, (alter, told) in enumerate(USELESS.values()):
            claim_name = f"data-{number}"
            on.driver.alter = alter
            on.driver.calls.clear()
            claim = await on.claim(claim_name, "1Gi", "node-1")
            assert (await on.told(claim_name, "ProvisioningFailed")).startswith(told)
            await eventually_async(lambda: is_deleted(on))
            await on.client.delete(PersistentVolumeClaim, claim.key)
            await eventually_async(partial(is_gone, on, claim_name))
            assert not on.driver.volumes and await on.volume_of(claim) is None
            # After a refusal of the server the next attempt waits for the longest pause.
            if told.startswith("error saving"):
                assert len(on.driver.asked("CreateVolume")) == 1


USEFUL: dict[str, Callable[[csi.Volume], None]] = {
    "no size": told_size(0),
    "8 EiB": told_size((1 << 63) - 1),
    "1 MB of context": told_context(1_000_000),
    "an id with odd bytes": named("../../\x00\x1b[31m\n'\";ü\u202e/v"),
    "an id of 100,000 characters": named("v" * 100_000),
}


@servers
async def test_what_is_odd_and_can_be_stored_is_stored_word_for_word(name: str, tmp_path: Path) -> None:
    async with server(name, tmp_path) as on, on.provisioner():
        for number, alter in enumerate(USEFUL.values()):
            on.driver.alter = alter
            volume = await on.provisioned(await on.claim(f"data-{number}", "1Gi", "node-1"))
            made = on.driver.volumes[volume.name]
            assert volume.spec.csi is not None and volume.spec.csi.volume_handle == made.volume_id
            assert volume.spec.csi.volume_attributes.items() >= dict(made.volume_context).items()
            assert volume.spec.capacity["storage"].value() == (made.capacity_bytes or GI)


async def test_a_volume_without_an_id_is_asked_for_until_it_is_told() -> None:
    async with stage() as on, on.provisioner():
        on.driver.alter = named("")
        claim = await on.claim("data", "1Gi", "node-1")
        assert await on.told("data", "ProvisioningFailed") == "the driver made a volume and did not report its id"
        on.driver.volumes[f"pvc-{claim.uid}"].volume_id = "v"
        volume = await on.provisioned(claim)
        assert volume.spec.csi is not None and volume.spec.csi.volume_handle == "v"


async def test_a_useless_volume_that_is_anothers_too_is_not_deleted() -> None:
    async with stage() as on, on.provisioner(RARELY):
        first = await on.provisioned(await on.claim("first", "1Gi", "node-1"))
        assert first.spec.csi is not None
        handle = first.spec.csi.volume_handle

        def alter(volume: csi.Volume) -> None:
            volume.volume_id, volume.capacity_bytes = handle, 1

        on.driver.alter = alter
        await on.claim("second", "1Gi", "node-1")
        await on.told("second", "ProvisioningFailed")
        assert on.driver.asked("DeleteVolume") == [] and first.name in on.driver.volumes


async def test_a_useless_volume_that_cannot_be_deleted_is_found_again_and_deleted_then() -> None:
    async with stage() as on, on.provisioner():
        on.driver.alter = placed(**{"no label!": "x"})
        on.driver.refuse("DeleteVolume", Code.INTERNAL, "not now")
        claim = await on.claim("data", "1Gi", "node-1")
        assert await on.told("data", "ProvisioningCleanupFailed") == (
            f"Cleanup of volume pvc-{claim.uid} failed, volume is orphaned: rpc error: code = Internal desc = not now"
        )
        on.driver.allow("DeleteVolume")
        await eventually_async(lambda: is_deleted(on))
        on.driver.alter = lambda _: None  # the driver is mended
        await on.provisioned(claim)


async def test_a_volume_that_is_refused_by_a_server_is_deleted_by_the_provisioner_that_comes_after_a_kill() -> None:
    async with stage() as on:
        on.driver.alter = placed(**{"no label!": "x"})
        on.driver.refuse("DeleteVolume", Code.UNAVAILABLE, "away")
        claim = await on.claim("data", "1Gi", "node-1")
        async with on.provisioner(timeout_s=0.2):
            await on.told("data", "ProvisioningFailed")
        assert on.driver.volumes
        await on.client.delete(PersistentVolumeClaim, claim.key)
        on.driver.allow("DeleteVolume")
        async with on.provisioner(RARELY):
            await eventually_async(lambda: is_gone(on, "data"))
        assert not on.driver.volumes


async def test_a_driver_that_answers_another_id_each_time_gets_one_volume_written() -> None:
    async with stage() as on:
        ids = iter(range(1_000))

        async def another(method: str) -> None:
            for volume in on.driver.volumes.values() if method == "CreateVolume" else ():
                volume.volume_id = f"v-{next(ids)}"

        on.driver.before_call, on.driver.gate = another, asyncio.Event()
        claim = await on.claim("data", "1Gi", "node-1")
        async with on.provisioner(timeout_s=0.1):
            await eventually_async(lambda: asked_times(on, 3))
            on.driver.gate.set()
            volume = await on.provisioned(claim)
            await on.told("data", "ProvisioningSucceeded")
        written = (await on.client.list(PersistentVolume)).items
        assert [each.name for each in written] == [volume.name]
        assert volume.spec.csi is not None
        assert volume.spec.csi.volume_handle == on.driver.volumes[volume.name].volume_id


async def test_words_too_long_to_be_read_do_not_send_a_claim_to_another_node() -> None:
    async with stage() as on, on.provisioner():
        on.driver.refuse("CreateVolume", Code.INTERNAL, "x" * 400_000)
        claim = await on.claim("data", "1Gi", "node-1")
        assert (await on.told("data", "ProvisioningFailed")).startswith("rpc error: code = DataLoss desc = ")
        assert (await on.get_claim("data")).selected_node == "node-1"
        on.driver.allow("CreateVolume")
        await on.provisioned(claim)


async def test_a_driver_that_fails_for_ever_is_asked_less_and_less() -> None:
    async with stage() as on, on.provisioner(ProvisionerOptions(retry_start_s=0.02, retry_max_s=600.0), timeout_s=0.05):
        for code in (Code.UNAVAILABLE, Code.UNKNOWN, Code.UNIMPLEMENTED):
            name = f"data-{code.name.lower()}"
            on.driver.calls.clear()
            on.driver.refuse("CreateVolume", code, "for ever")
            claim = await on.claim(name, "1Gi", "node-1")
            await eventually_async(lambda: asked_times(on, 4))
            for number in range(20):  # nor does a claim that is changed have it asked more often
                labels = {"metadata": {"labels": {"n": str(number)}}}
                await on.client.patch(PersistentVolumeClaim, claim.key, labels)
            # Pauses of 20, 40, 80, 160 … ms: in t seconds a claim is asked for about log2(t / 0.02) times.
            assert len(on.driver.asked("CreateVolume")) < 30
            on.driver.allow("CreateVolume")
            await on.provisioned(claim)


async def test_another_driver_behind_the_socket_makes_no_volume() -> None:
    async with stage() as on, on.provisioner():
        await on.provisioned(await on.claim("first", "1Gi", "node-1"))
        on.driver.name = "other.example"
        await asyncio.to_thread(os.utime, on.address.removeprefix("unix://"))  # as if it were made anew
        second = await on.claim("second", "1Gi", "node-1")
        assert await on.told("second", "ProvisioningFailed") == (
            f'rpc error: code = Unavailable desc = this was driver "{DRIVER}", and is "other.example" now'
        )
        assert len(on.driver.volumes) == 1
        on.driver.name = DRIVER
        await on.provisioned(second)


async def test_a_volume_that_is_said_to_have_grown_to_less_than_asked_keeps_its_size_until_it_has() -> None:
    async with stage() as on, on.provisioner():
        volume = await on.provisioned(await on.claim("data", "2Gi", "node-1"))
        await on.bind(await on.get_claim("data"), volume)
        on.driver.gives_less_by = 4 * GI  # of 3 Gi: -1 Gi
        more = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
        await on.client.patch(PersistentVolumeClaim, "default/data", more)
        assert (await on.told("data", "VolumeResizeFailed")).endswith(
            "code = DataLoss desc = expanded volume capacity -1073741824 less than requested capacity 3221225472"
        )
        kept = await on.client.get(PersistentVolume, volume.name)
        assert str(kept.spec.capacity["storage"]) == "2Gi"
        on.driver.gives_less_by = 0
        await on.told("data", "VolumeResizeSuccessful")


async def asked_times(on: ProvisionerStage, times: int) -> bool:
    return len(on.driver.asked("CreateVolume")) >= times


async def is_deleted(on: ProvisionerStage) -> bool:
    return bool(on.driver.asked("DeleteVolume")) and not on.driver.volumes


async def is_gone(on: ProvisionerStage, claim: str) -> bool:
    try:
        await on.get_claim(claim)
    except NotFound:
        return True
    return False
