"""Volumes follow their pods from node to node: attach/detach controller and attacher, with a driver over a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from storage_harness import DRIVER, StorageHarness, storage_harness

from support.eventually import eventually_async
from tonnage.client.informers import Informers
from tonnage.controllers.controller_context import ControllerManagerConfiguration
from tonnage.controllers.volumes import attach_detach
from tonnage.controllers.volumes.attach_detach import AttachDetachController
from tonnage.controllers.volumes.persistent_volume_binder import PersistentVolumeBinder
from tonnage.csi import csi_pb2 as csi
from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment, VolumeError, attachment_name

FINALIZER = "external-attacher/pools-tonnage-dev"
_Rpc = csi.ControllerServiceCapability.RPC


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[StorageHarness]:
    async with storage_harness(tmp_path) as ready:
        await ready.node("node-1")
        await ready.node("node-2")
        yield ready


async def test_a_pods_volume_is_attached_to_its_node(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        await eventually_async(lambda: _lists(harness, "node-1", "h-pv"))
        await eventually_async(lambda: harness.told("db-0"))
    attachment = (await harness.attachments())["pv on node-1"]
    # sha256 of handle + driver + node, as kubelets compute it.
    assert attachment.name == attachment_name("h-pv", DRIVER, "node-1")
    assert (attachment.spec.attacher, attachment.metadata.finalizers) == (DRIVER, (FINALIZER,))
    assert attachment.metadata.annotations == {"csi.alpha.kubernetes.io/node-id": "id-node-1"}
    assert attachment.status.attachment_metadata == {"device": "/dev/h-pv"}
    assert FINALIZER in (await harness.get_volume("pv")).metadata.finalizers
    assert driver.attach_calls == ["publish h-pv id-node-1"]
    mode = driver.asked("ControllerPublishVolume")[0].volume_capability.access_mode.mode
    assert mode == csi.VolumeCapability.AccessMode.SINGLE_NODE_MULTI_WRITER
    assert await harness.told("db-0") == [
        ("Normal", "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "pv" ')
    ]


async def test_an_attachment_is_created_with_what_the_attacher_of_this_program_would_add(
    harness: StorageHarness,
) -> None:
    await harness.bound("pv", "data")
    seen: list[VolumeAttachment] = []
    informers = Informers(harness.client)
    informers.of(VolumeAttachment).on_change(seen.append)
    async with harness.driver(), harness.attaching(AttachDetachController):
        await _attacher_is_at_work(harness)
        async with informers:
            await informers.wait_synced()
            seen.clear()
            await harness.pod("db-0", "data", on="node-1")
            await eventually_async(lambda: _holds(bool(seen) and seen[-1].status.attached))
    # Two states: created with the finalizer and the node's id, and attached.
    assert [(each.metadata.finalizers, each.status.attached) for each in seen] == [
        ((FINALIZER,), False),
        ((FINALIZER,), True),
    ]


async def test_a_volume_gets_the_finalizer_with_its_phase_and_loses_it_though_it_was_never_attached(
    harness: StorageHarness,
) -> None:
    seen: list[PersistentVolume] = []
    informers = Informers(harness.client)
    informers.of(PersistentVolume).on_change(lambda volume: seen.append(volume) if volume.name == "pv" else None)
    async with harness.driver(), harness.attaching(AttachDetachController, PersistentVolumeBinder):
        await _attacher_is_at_work(harness)
        async with informers:
            await harness.volume("pv")
            await harness.claim("data")
            await eventually_async(lambda: _holds(bool(seen) and seen[-1].status.phase == "Bound"))
            assert [each.status.phase for each in seen if FINALIZER in each.metadata.finalizers] == ["Bound"]
            await harness.client.delete(PersistentVolume, "pv")
            await eventually_async(lambda: harness.is_gone(PersistentVolume, "pv"))


async def test_a_volume_moves_only_after_the_old_node_has_let_go(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        await harness.in_use("node-1", "h-pv")
        await harness.pod("db-1", "data", on="node-2")
        await eventually_async(lambda: harness.told("db-1"))
        await harness.remove_pod("db-0")
        # The pod is gone, and the node still has the volume mounted: it stays where it is.
        await harness.pod("later", "data", on="node-2")
        await eventually_async(lambda: harness.told("later"))
        assert list(await harness.attachments()) == ["pv on node-1"]
        await harness.in_use("node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-2"))
        await eventually_async(lambda: _lists(harness, "node-2", "h-pv"))
        assert await _lists(harness, "node-1")
    assert driver.attach_calls == ["publish h-pv id-node-1", "unpublish h-pv id-node-1", "publish h-pv id-node-2"]
    assert list(await harness.attachments()) == ["pv on node-2"]
    assert (
        "Warning",
        "FailedAttachVolume",
        'Waiting for detach for volume "pv" Volume is already used by pod(s) db-0',
    ) in (await harness.told("db-1"))
    waiting = (
        'Waiting for detach for volume "pv" Volume is already exclusively attached to one node, '
        "waiting on detach before it can be attached to another node"
    )
    assert ("Warning", "FailedAttachVolume", waiting) in await harness.told("later")


async def test_a_volume_of_a_node_that_is_gone_is_rebuilt_elsewhere_by_its_kept_node_id(
    harness: StorageHarness,
) -> None:
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        await harness.in_use("node-1", "h-pv")
        await harness.client.delete(CSINode, "node-1")
        await harness.client.delete(Node, "node-1")
        await harness.remove_pod("db-0")
        await harness.pod("db-0", "data", on="node-2")
        await eventually_async(lambda: _is_attached(harness, "pv on node-2"))
    assert driver.attach_calls == ["publish h-pv id-node-1", "unpublish h-pv id-node-1", "publish h-pv id-node-2"]


async def test_a_node_that_is_out_of_service_is_not_asked(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        await harness.in_use("node-1", "h-pv")
        await harness.remove_pod("db-0")
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await harness.client.patch(Node, "node-1", {"spec": {"taints": [taint]}})
        await eventually_async(lambda: _nothing_attached(harness))
    assert driver.attached == set()


async def test_a_node_that_is_lost_is_waited_for_and_then_not_asked(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with (
        harness.driver() as driver,
        harness.attaching(partial(AttachDetachController, max_wait_for_unmount_s=0.3)),
    ):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        await harness.in_use("node-1", "h-pv")
        lost = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
        await harness.client.patch(Node, "node-1", {"status": lost}, subresource="status")
        await harness.remove_pod("db-0")
        await eventually_async(lambda: _nothing_attached(harness))
    assert driver.attached == set()


async def test_a_full_node_is_told_with_its_code_and_tried_again(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        driver.refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "all 2 slots are taken")
        await harness.pod("db-0", "data", on="node-1")

        async def is_told() -> VolumeAttachment | None:
            found = (await harness.attachments()).get("pv on node-1")
            return found if found is not None and found.status.attach_error is not None else None

        failed = await eventually_async(is_told)
        await eventually_async(lambda: _has_told(harness, "db-0", "FailedAttachVolume"))
        driver.refusal = None
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        await eventually_async(lambda: _has_told(harness, "db-0", "SuccessfulAttachVolume"))
    told = "rpc error: code = ResourceExhausted desc = all 2 slots are taken"
    assert (failed.status.attach_error.message, failed.status.attach_error.error_code) == (told, 8)
    assert (await harness.attachments())["pv on node-1"].status.attach_error is None
    note = f'AttachVolume.Attach failed for volume "pv" : {told}'
    assert ("Warning", "FailedAttachVolume", note) in await harness.told("db-0")


async def test_a_refusal_that_is_told_at_length_keeps_its_code(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        driver.refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "all slots are taken, by ü" * 100)
        await harness.pod("db-0", "data", on="node-1")
        failed = await eventually_async(lambda: _attach_error(harness, "pv on node-1"))
    assert failed.error_code == 8 and failed.message.endswith(" ...") and len(failed.message.encode()) <= 1024


async def test_what_a_driver_tells_and_no_server_stores_is_said_in_the_status_and_it_is_detached(
    harness: StorageHarness,
) -> None:
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        driver.publish_context = {"x": "y" * 300_000}
        await harness.pod("db-0", "data", on="node-1")
        told = await eventually_async(lambda: _attach_error(harness, "pv on node-1"))
        assert "status.attachmentMetadata: Too long" in told.message
        await harness.remove_pod("db-0")
        await eventually_async(lambda: _nothing_attached(harness))
        assert not driver.attached


@pytest.mark.parametrize("what", ["a volume", "an attachment", "a limit"])
async def test_a_refused_attachment_is_tried_at_once_when_room_or_a_slot_may_have_come(
    harness: StorageHarness, what: str
) -> None:
    await harness.bound("old", "before")
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController, retry_first_s=600.0):
        await harness.pod("db-0", "before", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "old on node-1"))
        driver.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "volume h-pv cannot be rebuilt on node-1")
        await harness.pod("db-1", "data", on="node-1")
        failed = await eventually_async(lambda: _attach_error(harness, "pv on node-1"))
        assert failed.error_code == 9
        driver.refusal = None
        # The next try of its own would come after ten minutes.
        if what == "a volume":
            await harness.volume("unused")
            await harness.client.delete(PersistentVolume, "unused")
        elif what == "a limit":
            csi_node = await harness.client.get_doc(CSINode, "node-1")
            csi_node["spec"]["drivers"][0]["allocatable"] = {"count": 8}
            await harness.client.update_doc(csi_node)
        else:
            await harness.remove_pod("db-0")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))


async def _attach_error(harness: StorageHarness, name: str) -> VolumeError | None:
    found = (await harness.attachments()).get(name)
    return found.status.attach_error if found is not None else None


async def test_without_the_gate_an_error_has_no_code(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    gates = Gates.parse("MutableCSINodeAllocatableCount=false")
    harness.configuration = ControllerManagerConfiguration(gates=gates)
    async with harness.driver() as driver, harness.attaching(AttachDetachController, retry_first_s=30.0):
        driver.refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
        await harness.pod("db-0", "data", on="node-1")

        async def error() -> VolumeAttachment | None:
            found = (await harness.attachments()).get("pv on node-1")
            return found if found is not None and found.status.attach_error is not None else None

        failed = await eventually_async(error)
        await eventually_async(lambda: harness.told("db-0"))
    assert failed.status.attach_error.error_code is None
    # What was written about the failure does not shorten the pause before the next try.
    assert driver.attach_calls == ["publish h-pv id-node-1"]


async def test_a_detach_that_fails_keeps_the_object_and_says_why(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        driver.refusal = (grpc.StatusCode.INTERNAL, "stuck")
        await harness.remove_pod("db-0")

        async def error() -> str:
            found = (await harness.attachments()).get("pv on node-1")
            failure = found.status.detach_error if found is not None else None
            return failure.message if failure is not None else ""

        assert await eventually_async(error) == "rpc error: code = Internal desc = stuck"
        failed = (await harness.attachments())["pv on node-1"].status.detach_error
        assert failed is not None and failed.error_code == 13
        driver.refusal = None
        await eventually_async(lambda: _nothing_attached(harness))
    assert set(driver.attach_calls[1:]) == {"unpublish h-pv id-node-1"}
    assert driver.attached == set()


async def test_work_is_taken_up_again_where_the_last_controllers_left_it(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.running(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(harness.attachments)
    async with harness.driver() as driver:
        async with harness.attaching():
            await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        await harness.remove_pod("db-0")
        await harness.pod("db-1", "data", on="node-2")
        async with harness.attaching(AttachDetachController):
            await eventually_async(lambda: _is_attached(harness, "pv on node-2"))
            assert await harness.told("db-0") == []
    assert driver.attached == {("h-pv", "id-node-2")}


async def test_a_driver_that_does_not_attach_has_nothing_to_be_asked(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.driver(_Rpc.CREATE_DELETE_VOLUME) as driver, harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        assert (await harness.attachments())["pv on node-1"].metadata.finalizers == ()
        await harness.remove_pod("db-0")
        await eventually_async(lambda: _nothing_attached(harness))
    assert driver.attach_calls == []


async def test_no_attachment_is_made_where_none_is_required(harness: StorageHarness) -> None:
    await harness.make("CSIDriver", "local.example", version="storage.k8s.io/v1", spec={"attachRequired": False})
    await harness.bound("near", "near", csi={"driver": "local.example", "volumeHandle": "n"})
    await harness.bound("far", "far")
    drivers = [{"name": name, "nodeID": "id-node-3"} for name in (DRIVER, "local.example")]
    await harness.make("Node", "node-3")
    await harness.make("CSINode", "node-3", version="storage.k8s.io/v1", spec={"drivers": drivers})
    async with harness.running(AttachDetachController):
        await harness.pod("a", "near", on="node-3")
        await harness.pod("b", "far", on="node-3")
        # What concerns the first pod has been looked at before what concerns the second.
        await eventually_async(harness.attachments)
    assert list(await harness.attachments()) == ["far on node-3"]


async def test_a_node_without_the_driver_waits_until_it_is_installed(harness: StorageHarness) -> None:
    await harness.node("node-3", has_driver=False)
    await harness.bound("pv", "data")
    async with harness.driver(), harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-3")
        await eventually_async(lambda: harness.told("db-0"))
        assert await harness.attachments() == {}
        drivers = {"spec": {"drivers": [{"name": DRIVER, "nodeID": "id-node-3"}]}}
        await harness.client.patch(CSINode, "node-3", drivers)
        await eventually_async(lambda: _is_attached(harness, "pv on node-3"))
    note = f'AttachVolume.Attach failed for volume "pv" : CSINode node-3 does not contain driver {DRIVER}'
    assert ("Warning", "FailedAttachVolume", note) in await harness.told("db-0")


async def test_secrets_are_read_for_the_driver_and_a_missing_one_is_told(harness: StorageHarness) -> None:
    source = {
        "driver": DRIVER,
        "volumeHandle": "h-pv",
        "controllerPublishSecretRef": {"namespace": "default", "name": "key"},
    }
    await harness.bound("pv", "data", csi=source)
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")

        async def error() -> str:
            found = (await harness.attachments()).get("pv on node-1")
            failure = found.status.attach_error if found is not None else None
            return failure.message if failure is not None else ""

        assert await eventually_async(error) == 'failed to load secret "default/key": secrets "key" not found'
        await harness.make("Secret", "key", namespace="default", stringData={"user": "ann"})
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
    assert dict(driver.asked("ControllerPublishVolume")[-1].secrets) == {"user": "ann"}


async def test_a_volume_that_is_deleted_stays_until_it_is_detached(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.driver(), harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        await harness.client.delete(PersistentVolume, "pv")
        assert (await harness.get_volume("pv")).metadata.is_terminating
        await harness.remove_pod("db-0")
        await eventually_async(lambda: harness.is_gone(PersistentVolume, "pv"))
    assert await harness.attachments() == {}


async def test_what_was_detached_behind_everyones_back_is_attached_again(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    rpcs = (_Rpc.PUBLISH_UNPUBLISH_VOLUME, _Rpc.LIST_VOLUMES, _Rpc.LIST_VOLUMES_PUBLISHED_NODES)
    async with harness.driver(*rpcs) as driver, harness.attaching(AttachDetachController, reconcile_sync_s=0.1):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        driver.attached.clear()

        async def is_back() -> bool:
            return driver.attached == {("h-pv", "id-node-1")}

        await eventually_async(is_back)


async def _holds(what: bool) -> bool:
    return what


async def _is_attached(harness: StorageHarness, where: str) -> bool:
    found = (await harness.attachments()).get(where)
    return found is not None and found.status.attached


async def _nothing_attached(harness: StorageHarness) -> bool:
    return await harness.attachments() == {}


async def _lists(harness: StorageHarness, node: str, *handles: str) -> bool:
    """Whether the node's volumesAttached is exactly this."""
    found = (await harness.client.get(Node, node)).status.volumes_attached
    return [each.name for each in found] == [f"kubernetes.io/csi/{DRIVER}^{handle}" for handle in handles]


async def _has_told(harness: StorageHarness, name: str, reason: str) -> bool:
    return any(said == reason for _, said, _ in await harness.told(name))


async def test_a_volume_that_is_deleted_while_its_attachment_is_created_stays_until_it_is_detached(
    harness: StorageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attachment comes with a finalizer, and without its volume nobody would know what to detach."""
    await harness.bound("pv", "data")
    await harness.volume("other")
    held = {"metadata": {"finalizers": [FINALIZER]}}
    await harness.client.patch(PersistentVolume, "other", held)
    reached, gate, create = asyncio.Event(), asyncio.Event(), harness.client.create

    async def slow(made: Any, **options: Any) -> Any:
        if isinstance(made, VolumeAttachment):
            reached.set()
            await gate.wait()
        return await create(made, **options)

    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        await _attacher_is_at_work(harness)
        monkeypatch.setattr(harness.client, "create", slow)
        await harness.pod("db-0", "data", on="node-1")
        await asyncio.wait_for(reached.wait(), 60)
        await harness.client.delete(PersistentVolume, "pv")
        await harness.client.delete(PersistentVolume, "other")
        await eventually_async(lambda: harness.is_gone(PersistentVolume, "other"))
        assert FINALIZER in (await harness.get_volume("pv")).metadata.finalizers
        gate.set()
        await eventually_async(lambda: _attach_error(harness, "pv on node-1"))
        await harness.remove_pod("db-0")
        await eventually_async(lambda: harness.is_gone(PersistentVolume, "pv"))
        assert list(await harness.attachments()) == ["first on node-2"]
    assert not any(call.startswith("publish h-pv") for call in driver.attach_calls)


async def test_a_volume_that_was_not_listed_yet_is_detached_all_the_same(
    harness: StorageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attachments are listed together, after a while; what a node uses is asked before a detach in any case."""
    monkeypatch.setattr(attach_detach, "_TOGETHER_S", 3600.0)
    await harness.bound("pv", "data")
    async with harness.driver() as driver, harness.attaching(AttachDetachController):
        await harness.pod("db-0", "data", on="node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
        await harness.in_use("node-1", "h-pv")
        await harness.remove_pod("db-0")
        await harness.pod("db-1", "data", on="node-2")
        await eventually_async(lambda: harness.told("db-1"))
        # Nobody wants it there, and the node has it mounted.
        assert list(await harness.attachments()) == ["pv on node-1"]
        await harness.in_use("node-1")
        await eventually_async(lambda: _is_attached(harness, "pv on node-2"))
        assert await _lists(harness, "node-1")
    assert driver.attach_calls == ["publish h-pv id-node-1", "unpublish h-pv id-node-1", "publish h-pv id-node-2"]


async def test_what_comes_back_to_a_node_is_listed_again(harness: StorageHarness) -> None:
    await harness.bound("pv", "data")
    async with harness.driver(), harness.attaching(AttachDetachController):
        for number in range(3):
            await harness.pod(f"db-{number}", "data", on="node-1")
            await eventually_async(lambda: _is_attached(harness, "pv on node-1"))
            await harness.remove_pod(f"db-{number}")
            await eventually_async(lambda: _nothing_attached(harness))
        await harness.pod("db-3", "data", on="node-1")
        await eventually_async(lambda: _lists(harness, "node-1", "h-pv"))


async def _attacher_is_at_work(harness: StorageHarness) -> None:
    """It has found its driver: before that, attachments are created without what it would add."""
    await harness.bound("first", "before")
    await harness.pod("warm", "before", on="node-2")
    await eventually_async(lambda: _is_attached(harness, "first on node-2"))
