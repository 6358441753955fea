"""Claims and volumes find each other on a real API server; protection and ephemeral claims beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from storage_harness import DRIVER, StorageHarness, storage_harness

from support.eventually import eventually_async
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.volumes.persistent_volume_binder import PersistentVolumeBinder
from tonnage.controllers.volumes.protection import EphemeralVolumeController, ProtectionController
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    STORAGE_PROVISIONER,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[StorageHarness]:
    async with storage_harness(tmp_path) as ready:
        yield ready


async def test_an_immediate_claim_gets_the_smallest_volume_that_is_large_enough(harness: StorageHarness) -> None:
    async with harness.running(PersistentVolumeBinder):
        for name, size in (("small", "1Gi"), ("right", "5Gi"), ("large", "50Gi")):
            await harness.volume(name, size)
        await eventually_async(lambda: _phase_is(harness, "large", "Available"))
        await harness.claim("data", "3Gi")
        claim = await eventually_async(lambda: _bound(harness, "data"))
    # 1Gi < 3Gi <= 5Gi < 50Gi.
    assert (claim.spec.volume_name, str(claim.status.capacity["storage"])) == ("right", "5Gi")
    assert claim.status.access_modes == ("ReadWriteOnce",)
    volume = await harness.get_volume("right")
    assert volume.spec.claim_ref is not None
    assert (volume.status.phase, volume.spec.claim_ref.key, volume.spec.claim_ref.uid) == (
        "Bound",
        "default/data",
        claim.uid,
    )
    assert claim.metadata.annotations == {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    assert volume.metadata.annotations == {BOUND_BY_CONTROLLER: "yes"}
    assert (await harness.get_volume("small")).status.phase == "Available"


async def test_many_claims_and_as_many_volumes_are_matched_one_to_one(harness: StorageHarness) -> None:
    async with harness.running(PersistentVolumeBinder):
        for number in range(12):
            await harness.claim(f"c{number}")
        for number in range(12):
            await harness.volume(f"v{number}")

        async def all_bound() -> list[PersistentVolumeClaim] | None:
            found = (await harness.client.list(PersistentVolumeClaim)).items
            return list(found) if all(each.status.phase == "Bound" for each in found) else None

        claims = await eventually_async(all_bound)
    owners = {
        volume.name: volume.spec.claim_ref.uid if volume.spec.claim_ref else ""
        for volume in (await harness.client.list(PersistentVolume)).items
    }
    assert {claim.spec.volume_name: claim.uid for claim in claims} == owners


async def test_a_delayed_claim_waits_then_asks_for_provisioning_then_takes_what_was_made_for_it(
    harness: StorageHarness,
) -> None:
    await harness.storage_class("pools", delayed=True)
    async with harness.running(PersistentVolumeBinder):
        await harness.volume("free", class_name="pools")  # the scheduler's to choose, not the binder's
        uid = await harness.claim("data", class_name="pools")
        await eventually_async(lambda: harness.told("data"))
        await harness.pod("db-0", "data")
        await eventually_async(lambda: _has_told(harness, "data", "WaitForPodScheduled"))
        chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-1"}}}
        await harness.client.patch(PersistentVolumeClaim, "default/data", chosen)

        async def is_asked() -> bool:
            annotations = (await harness.get_claim("data")).metadata.annotations
            return annotations.get(STORAGE_PROVISIONER) == DRIVER

        await eventually_async(is_asked)
        await eventually_async(lambda: _has_told(harness, "data", "ExternalProvisioning"))
        owner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
        await harness.volume(f"pvc-{uid}", class_name="pools", claimRef={**owner, "uid": uid})
        claim = await eventually_async(lambda: _bound(harness, "data"))
    assert claim.spec.volume_name == f"pvc-{uid}"
    assert claim.metadata.annotations["volume.beta.kubernetes.io/storage-provisioner"] == DRIVER
    assert BOUND_BY_CONTROLLER not in (await harness.get_volume(f"pvc-{uid}")).metadata.annotations
    # Each of the three is told of this claim; how often depends on how often it was looked at.
    assert set(await harness.told("data")) == {
        ("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        ("Normal", "WaitForPodScheduled", "waiting for pod db-0 to be scheduled"),
        (
            "Normal",
            "ExternalProvisioning",
            "Waiting for a volume to be created either by the external provisioner 'pools.tonnage.dev' or manually by "
            "the system administrator. If volume creation is delayed, please verify that the provisioner is running "
            "and correctly registered.",
        ),
    }


async def test_a_binding_that_the_scheduler_began_is_completed(harness: StorageHarness) -> None:
    await harness.storage_class("pools", delayed=True)
    uid = await harness.claim("data", class_name="pools")
    await harness.volume(
        "chosen",
        class_name="pools",
        claimRef={"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": uid},
    )
    async with harness.running(PersistentVolumeBinder):
        claim = await eventually_async(lambda: _bound(harness, "data"))
    assert claim.spec.volume_name == "chosen"


async def test_a_binder_that_was_killed_between_its_writes_is_finished_by_the_next(harness: StorageHarness) -> None:
    uid = await harness.claim("data")
    owner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": uid}
    await harness.make(
        "PersistentVolume",
        "half",
        metadata={"annotations": {BOUND_BY_CONTROLLER: "yes"}},
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": DRIVER, "volumeHandle": "h"},
            "claimRef": owner,
        },
    )
    await harness.volume("other")
    async with harness.running(PersistentVolumeBinder):
        claim = await eventually_async(lambda: _bound(harness, "data"))
        await eventually_async(lambda: _phase_is(harness, "other", "Available"))
        await eventually_async(lambda: _phase_is(harness, "half", "Bound"))
    assert claim.spec.volume_name == "half"


async def test_a_volume_whose_claim_is_gone_is_released_and_stays(harness: StorageHarness) -> None:
    await harness.volume("v")
    await harness.claim("data")
    async with harness.running(PersistentVolumeBinder, ProtectionController):
        await eventually_async(lambda: _bound(harness, "data"))
        await harness.client.delete(PersistentVolumeClaim, "default/data")
        await eventually_async(lambda: _phase_is(harness, "v", "Released"))
        # A claim of the same name is another claim: it does not get what was the first one's.
        await harness.claim("data")
        await eventually_async(lambda: _has_told(harness, "data", "FailedBinding"))
        assert (await harness.get_volume("v")).status.phase == "Released"
        assert (await harness.get_claim("data")).status.phase == "Pending"


async def test_a_bound_claim_whose_volume_vanishes_is_lost(harness: StorageHarness) -> None:
    await harness.volume("v")
    await harness.claim("data")
    async with harness.running(PersistentVolumeBinder):
        await eventually_async(lambda: _bound(harness, "data"))
        await harness.client.delete(PersistentVolume, "v")

        async def is_lost() -> bool:
            return (await harness.get_claim("data")).status.phase == "Lost"

        await eventually_async(is_lost)
        await eventually_async(lambda: _has_told(harness, "data", "ClaimLost"))
    note = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert ("Warning", "ClaimLost", note) in await harness.told("data")


async def test_a_default_class_reaches_claims_that_were_made_before_it(harness: StorageHarness) -> None:
    async with harness.running(PersistentVolumeBinder):
        await harness.claim("data", class_name=None)
        await eventually_async(lambda: _has_told(harness, "data", "FailedBinding"))
        await harness.storage_class("pools", delayed=True, default=True)

        async def has_class() -> bool:
            return (await harness.get_claim("data")).spec.storage_class_name == "pools"

        await eventually_async(has_class)


async def test_a_claim_in_use_outlives_its_deletion_until_the_pod_is_gone(harness: StorageHarness) -> None:
    await harness.bound("v1", "data")
    await harness.bound("v2", "idle")
    await harness.pod("db-0", "data", on="node-1")
    async with harness.running(ProtectionController):

        async def are_protected() -> bool:
            found = [await harness.get_claim("data"), await harness.get_claim("idle")]
            return all("kubernetes.io/pvc-protection" in each.metadata.finalizers for each in found)

        await eventually_async(are_protected)
        await harness.client.delete(PersistentVolumeClaim, "default/data")
        await harness.client.delete(PersistentVolumeClaim, "default/idle")
        await eventually_async(lambda: harness.is_gone(PersistentVolumeClaim, "default/idle"))
        assert (await harness.get_claim("data")).metadata.is_terminating
        await harness.remove_pod("db-0")
        await eventually_async(lambda: harness.is_gone(PersistentVolumeClaim, "default/data"))


async def test_a_pod_that_gets_its_node_between_two_claims_keeps_the_second(harness: StorageHarness) -> None:
    """The pods are listed anew for each claim: a list that served the claim before it may lack this pod."""
    protected = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}
    for volume, claim in (("v1", "first"), ("v2", "second"), ("v3", "third")):
        await harness.bound(volume, claim)
        await harness.client.patch(PersistentVolumeClaim, f"default/{claim}", protected)
    await harness.client.delete(PersistentVolumeClaim, "default/first")
    server, has_run = harness.client, asyncio.Event()
    contexts: list[ControllerContext] = []
    pod_lists: list[Any] = []

    class Meddling(Client):
        """The harness's client; when the first claim's finalizer is gone, a pod with the second gets its node."""

        def __init__(self) -> None:
            self.__dict__ = server.__dict__

        async def list(self, cls: Any, **selection: Any) -> Any:
            listed = await super().list(cls, **selection)
            if cls is Pod and "namespace" in selection:
                pod_lists.append(listed)
            return listed

        async def patch(self, cls: Any, key: str, patch: Any, **options: Any) -> Any:
            removed = await super().patch(cls, key, patch, **options)
            if key == "default/first":
                pods = contexts[0].informers.of(Pod)
                assert isinstance(pods, Informer)
                await pods.stop()  # its news come late
                await harness.pod("db-0", "second", on="node-1")
                has_run.set()
            return removed

    def protection(context: ControllerContext) -> ProtectionController:
        contexts.append(context)
        return ProtectionController(context)

    async def are_all_judged() -> bool:
        return len(pod_lists) == 3

    harness.client = Meddling()
    async with harness.running(protection):
        await asyncio.wait_for(has_run.wait(), 20)
        await eventually_async(lambda: harness.is_gone(PersistentVolumeClaim, "default/first"))
        await harness.client.delete(PersistentVolumeClaim, "default/second")
        await harness.client.delete(PersistentVolumeClaim, "default/third")
        await eventually_async(lambda: harness.is_gone(PersistentVolumeClaim, "default/third"))
        await eventually_async(are_all_judged)
        assert (await harness.get_claim("second")).metadata.finalizers == ("kubernetes.io/pvc-protection",)


async def test_a_claim_is_protected_from_the_moment_it_is_bound(harness: StorageHarness) -> None:
    await harness.volume("v")
    await harness.claim("data")
    async with harness.running(PersistentVolumeBinder):  # no protection runs: the binder puts it on
        claim = await eventually_async(lambda: _bound(harness, "data"))
    assert claim.metadata.finalizers == ("kubernetes.io/pvc-protection",)


async def test_a_bound_volume_outlives_its_deletion_until_its_claim_is_gone(harness: StorageHarness) -> None:
    await harness.volume("v")
    await harness.claim("data")
    async with harness.running(PersistentVolumeBinder, ProtectionController):
        await eventually_async(lambda: _bound(harness, "data"))
        await eventually_async(lambda: _is_protected(harness, "v"))
        await harness.client.delete(PersistentVolume, "v")
        assert (await harness.get_volume("v")).metadata.is_terminating
        await harness.client.delete(PersistentVolumeClaim, "default/data")
        await eventually_async(lambda: harness.is_gone(PersistentVolume, "v"))


async def test_an_ephemeral_volume_gets_a_claim_of_its_own_and_another_ones_is_left_alone(
    harness: StorageHarness,
) -> None:
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    await harness.claim("b-scratch")
    async with harness.running(EphemeralVolumeController):
        for name in ("a", "b"):
            container = {"name": "c", "image": "app:1"}
            spec = {"containers": [container], "volumes": [scratch]}
            await harness.make("Pod", name, namespace="default", spec=spec)

        async def is_made() -> bool:
            return not await harness.is_gone(PersistentVolumeClaim, "default/a-scratch")

        await eventually_async(is_made)
        await eventually_async(lambda: harness.told("b"))
    pod, claim = await harness.client.get(Pod, "default/a"), await harness.get_claim("a-scratch")
    owner = claim.metadata.controller
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid, owner.block_owner_deletion) == ("Pod", "a", pod.uid, True)
    assert (claim.metadata.labels, str(claim.requested)) == ({"app": "db"}, "1Gi")
    note = "ephemeral volume scratch: PVC default/b-scratch was not created for pod default/b (pod is not owner)"
    assert await harness.told("b") == [("Warning", "FailedBinding", note)]


async def _bound(harness: StorageHarness, name: str) -> Any:
    claim = await harness.get_claim(name)
    return claim if claim.status.phase == "Bound" else None


async def _phase_is(harness: StorageHarness, volume: str, phase: str) -> bool:
    return (await harness.get_volume(volume)).status.phase == phase


async def _is_protected(harness: StorageHarness, volume: str) -> bool:
    return "kubernetes.io/pv-protection" in (await harness.get_volume(volume)).metadata.finalizers


async def _has_told(harness: StorageHarness, name: str, reason: str) -> bool:
    return any(said == reason for _, said, _ in await harness.told(name))


@pytest.mark.parametrize("side", ["the volume's phase", "the claim"])
async def test_a_binding_of_which_one_side_fails_is_completed(
    harness: StorageHarness, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """Both are written side by side, once the volume is the claim's; neither hinders or undoes the other."""
    patch, failed, bound_when_failed = harness.client.patch, asyncio.Event(), list[str]()

    async def refuse(cls: type[Any], key: str, change: dict[str, Any], **options: Any) -> Any:
        is_phase = cls is PersistentVolume and change.get("status", {}).get("phase") == "Bound"
        is_claim = cls is PersistentVolumeClaim and "spec" in change
        if not failed.is_set() and (is_phase if side == "the volume's phase" else is_claim):
            owner = (await harness.get_volume("v")).spec.claim_ref
            bound_when_failed.append(owner.key if owner is not None else "")
            failed.set()
            raise TonnageError("nobody is there")
        return await patch(cls, key, change, **options)

    monkeypatch.setattr(harness.client, "patch", refuse)
    async with harness.running(PersistentVolumeBinder):
        await harness.volume("v")
        await eventually_async(lambda: _phase_is(harness, "v", "Available"))
        await harness.claim("data")
        claim = await eventually_async(lambda: _bound(harness, "data"))
        await eventually_async(lambda: _phase_is(harness, "v", "Bound"))
    assert bound_when_failed == ["default/data"]  # the volume's side came first
    assert claim.spec.volume_name == "v"
