"""A driver in every mood and a provisioner that is killed again and again: no volume is lost, none is made twice."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from provisioner_stage import Code, ProvisionerStage, stage

from support.eventually import eventually_async
from tonnage.csi import csi_pb2 as csi
from tonnage.errors import Conflict, NotFound
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.provisioner.context import ProvisionerOptions

CLAIMS, SIZE_GI, KILLS = 12, 10, 4
MOODS = (Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.INTERNAL, Code.UNKNOWN, Code.RESOURCE_EXHAUSTED)
LOST_ANSWERS = (Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.INTERNAL)
QUICK = ProvisionerOptions(retry_start_s=0.01, retry_max_s=0.05)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
async def test_every_claim_gets_one_volume_and_every_deleted_one_leaves_nothing(seed: int) -> None:
    rng = random.Random(seed)

    def mood(moment: str) -> Code | None:
        if rng.random() < 0.4:
            return rng.choice(LOST_ANSWERS if moment.endswith("answer") else MOODS)
        return None

    def spoil(volume: csi.Volume) -> None:
        """Some volumes cannot be written, or are told of at such length that they are not."""
        if rng.random() < 0.2:
            volume.accessible_topology[0].segments["no label!"] = "x"
        elif rng.random() < 0.1:
            volume.volume_context["x"] = "y" * 1_100_000

    async with stage() as on:
        on.driver.mood, on.driver.alter = mood, spoil
        claims = [await on.claim(f"c{number}", f"{SIZE_GI}Gi") for number in range(CLAIMS)]
        others = asyncio.create_task(play_scheduler_and_binder(on, rng))
        try:
            for kill in range(KILLS):
                async with on.provisioner(QUICK, timeout_s=0.3):
                    await volumes(on, (kill + 1) * CLAIMS // (KILLS + 1))
            async with on.provisioner(QUICK, timeout_s=0.3):
                await volumes(on, CLAIMS)
                doomed = claims[: CLAIMS // 2]
                for claim in doomed:
                    await on.client.delete(PersistentVolumeClaim, claim.key)
                    await on.phase(await on.provisioned(claim), "Released")
            async with on.provisioner(QUICK, timeout_s=0.3):
                await eventually_async(lambda: is_count(on, CLAIMS - len(doomed)))
        finally:
            others.cancel()
            await asyncio.wait((others,))
        kept = {f"pvc-{claim.uid}" for claim in claims[len(doomed) :]}
        found = {each.name: each for each in (await on.client.list(PersistentVolume)).items}
        assert found.keys() == on.driver.volumes.keys() == kept
        # 200 Gi in all, less six volumes of 10 Gi.
        assert sum(on.driver.free_bytes.values()) == (200 - len(kept) * SIZE_GI) << 30
        for volume in found.values():
            assert volume.spec.csi is not None
            assert volume.spec.csi.volume_handle == on.driver.volumes[volume.name].volume_id


async def play_scheduler_and_binder(on: ProvisionerStage, rng: random.Random) -> None:
    """Send every claim somewhere, again when that was taken back; bind what was made."""
    while True:
        for claim in (await on.client.list(PersistentVolumeClaim)).items:
            with suppress(NotFound, Conflict):
                volume = await on.volume_of(claim)
                if volume is not None and not claim.spec.volume_name:
                    await on.bind(claim, volume)
                elif volume is None and not claim.selected_node:
                    await on.select(claim.name, rng.choice(["node-1", "node-2"]))
        await asyncio.sleep(0.02)


async def volumes(on: ProvisionerStage, count: int) -> None:
    """Return when there are so many."""

    async def are_there() -> bool:
        return len((await on.client.list(PersistentVolume)).items) >= count

    await eventually_async(are_there, within_s=60.0)


async def is_count(on: ProvisionerStage, count: int) -> bool:
    return len((await on.client.list(PersistentVolume)).items) == count
