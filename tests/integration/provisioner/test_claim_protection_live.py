"""A claim stays until it is known what was made for it: whoever is killed when, no volume is left that nobody knows."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest
from provisioner_stage import KEY, Code, ProvisionerStage, stage

from support.eventually import eventually_async
from tonnage.client.http import Client
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim
from tonnage.objects.storage_v1 import CSINode, StorageClass
from tonnage.provisioner.context import ProvisionerOptions
from tonnage.provisioner.volumes import claims
from tonnage.provisioner.volumes.claims import FINALIZER, protect


async def test_a_volume_made_by_a_killed_provisioner_is_found_though_its_claim_was_deleted_meanwhile() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        on.driver.gate = asyncio.Event()
        async with on.provisioner():
            await eventually_async(lambda: asked_for(on, 1))
        # Killed: the volume is made, nobody has written it down, and nobody is there to see the claim go.
        await on.client.delete(PersistentVolumeClaim, claim.key)
        on.driver.gate.set()
        async with on.provisioner():
            volume = await on.provisioned(claim)
            await eventually_async(lambda: is_gone(on.client, claim))
            await on.phase(volume, "Released")  # the binder finds no claim
            await eventually_async(lambda: has_no_volumes(on))
        # All of the 200 Gi of both nodes are free again.
        assert sum(on.driver.free_bytes.values()) == 200 << 30


async def test_a_claim_is_let_go_once_its_volume_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "BINDER_S", 0.2)
    async with stage() as on:
        on.driver.gate = asyncio.Event()
        claim = await on.claim("data", "20Gi", "node-1")
        async with on.provisioner():
            await eventually_async(lambda: asked_for(on, 1))
            assert FINALIZER in (await on.get_claim("data")).metadata.finalizers
            on.driver.gate.set()
            await on.provisioned(claim)
            await eventually_async(lambda: is_let_go(on, "data"))


async def test_the_binder_has_time_to_let_a_claim_go_and_one_that_does_not_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claims, "BINDER_S", 3600.0)
    async with stage() as on:
        bound, deleted = await on.claim("data", "20Gi", "node-1"), await on.claim("other", "20Gi", "node-1")
        async with on.provisioner():
            volume = await on.provisioned(bound)
            await on.told("data", "ProvisioningSucceeded")
            assert FINALIZER in (await on.get_claim("data")).metadata.finalizers
            await on.bind(bound, volume)  # a binder that knows nothing of the finalizer
            await eventually_async(lambda: is_let_go(on, "data"))
            await on.provisioned(deleted)
            await on.client.delete(PersistentVolumeClaim, deleted.key)
            await eventually_async(lambda: is_gone(on.client, deleted))


async def test_a_claim_whose_volume_was_written_by_a_killed_provisioner_is_let_go_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claims, "BINDER_S", 0.2)
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        async with on.provisioner():
            volume = await on.provisioned(claim)
            await eventually_async(lambda: is_let_go(on, "data"))
        await on.bind(claim, volume)
        await protect(on.client, await on.get_claim("data"))
        async with on.provisioner():
            await eventually_async(lambda: is_let_go(on, "data"))


async def test_a_deleted_claim_that_the_driver_refused_does_not_wait_for_the_next_attempt() -> None:
    async with stage() as on:
        on.driver.script["CreateVolume"] = deque([Code.INTERNAL])
        claim = await on.claim("data", "20Gi", "node-1")
        # A minute before it is tried again; the test would not wait for that.
        async with on.provisioner(ProvisionerOptions(retry_start_s=60.0, retry_max_s=60.0)):
            await on.told("data", "ProvisioningFailed")
            assert FINALIZER in (await on.get_claim("data")).metadata.finalizers
            await on.client.delete(PersistentVolumeClaim, claim.key)
            await eventually_async(lambda: is_gone(on.client, claim))
        assert on.driver.volumes == {}


async def test_a_claim_that_is_being_deleted_before_anybody_asked_gets_no_volume() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi")
        held = {"metadata": {"finalizers": ["example.com/kept"]}}
        await on.client.patch(PersistentVolumeClaim, claim.key, held)
        await on.client.delete(PersistentVolumeClaim, claim.key)
        await on.select("data", "node-1")
        later = await on.claim("later", "20Gi", "node-1")
        async with on.provisioner():
            await on.provisioned(later)
        assert [each.name for each in on.driver.asked("CreateVolume")] == [f"pvc-{later.uid}"]


async def test_a_deleted_claim_whose_class_is_gone_is_let_go() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        await protect(on.client, claim)
        await on.client.delete(PersistentVolumeClaim, claim.key)
        await on.client.delete(StorageClass, "pools")
        async with on.provisioner():
            await eventually_async(lambda: is_gone(on.client, claim))


async def test_a_deleted_claim_that_was_sent_nowhere_is_let_go() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi")
        await protect(on.client, claim)
        await on.client.delete(PersistentVolumeClaim, claim.key)
        async with on.provisioner():
            await eventually_async(lambda: is_gone(on.client, claim))
        assert on.driver.asked("CreateVolume") == []


async def test_a_volume_made_by_a_killed_provisioner_is_found_when_its_node_is_back() -> None:
    """Asked for on another node it would not be, and both the claim and the volume would be left."""
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        on.driver.gate = asyncio.Event()
        async with on.provisioner():
            await eventually_async(lambda: asked_for(on, 1))
        on.driver.gate.set()
        await on.client.delete(Node, "node-1")
        await on.client.delete(CSINode, "node-1")
        async with on.provisioner():
            await on.told("data", "ProvisioningFailed")
            assert (await on.get_claim("data")).selected_node == "node-1"
            await on.node("node-1", "80Gi")
            volume = await on.provisioned(claim)
        required = volume.spec.node_affinity.required
        assert required is not None and required.matches("", {KEY: "node-1"})
        assert len(on.driver.volumes) == 1


async def test_a_node_that_stays_away_is_taken_back_though_a_volume_may_have_been_made_there() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-9")
        await protect(on.client, claim)
        async with on.provisioner(ProvisionerOptions(retry_start_s=0.05, retry_max_s=0.2, node_may_return_s=0.3)):
            await eventually_async(lambda: is_sent_nowhere(on, "data"))


async def is_sent_nowhere(on: ProvisionerStage, name: str) -> bool:
    return not (await on.get_claim(name)).selected_node


async def asked_for(on: ProvisionerStage, count: int) -> bool:
    return len(on.driver.asked("CreateVolume")) >= count


async def has_no_volumes(on: ProvisionerStage) -> bool:
    return not on.driver.volumes


async def is_let_go(on: ProvisionerStage, name: str) -> bool:
    return FINALIZER not in (await on.get_claim(name)).metadata.finalizers


async def is_gone(client: Client, claim: PersistentVolumeClaim) -> bool:
    try:
        await client.get(PersistentVolumeClaim, claim.key)
    except NotFound:
        return True
    return False
