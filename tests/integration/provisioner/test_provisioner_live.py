"""The provisioner against a real API server and a driver on a real socket; the test plays scheduler and binder."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from provisioner_stage import DRIVER, KEY, Code, ProvisionerStage, stage

from support.eventually import eventually_async
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.provisioner.context import NodeDeployment, ProvisionerOptions
from tonnage.provisioner.volumes.create_volume import FINALIZER, IDENTITY
from tonnage.provisioner.volumes.preparation import CLONE_FINALIZER

GI = 1 << 30


async def test_a_claim_gets_its_volume_on_the_selected_node() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-2")
        async with on.provisioner():
            volume = await on.provisioned(claim)
            assert await on.told("data", "ProvisioningSucceeded") == f"Successfully provisioned volume pvc-{claim.uid}"
        assert await on.told("data", "Provisioning") == (
            'External provisioner is provisioning volume for claim "default/data"'
        )
        asked = on.driver.asked("CreateVolume")[0]
        assert asked.capacity_range.required_bytes == 20 * GI
        places = asked.accessibility_requirements
        assert [dict(each.segments) for each in places.requisite] == [{KEY: "node-1"}, {KEY: "node-2"}]
        assert [dict(each.segments) for each in places.preferred] == [{KEY: "node-2"}, {KEY: "node-1"}]
        spec, owner = volume.spec, volume.spec.claim_ref
        assert owner is not None and (owner.key, owner.uid) == ("default/data", claim.uid)
        assert str(spec.capacity["storage"]) == "20Gi"
        assert (spec.persistent_volume_reclaim_policy, spec.storage_class_name) == ("Delete", "pools")
        assert volume.metadata.annotations["pv.kubernetes.io/provisioned-by"] == DRIVER
        assert FINALIZER in volume.metadata.finalizers
        required = spec.node_affinity.required
        assert required is not None
        assert [required.matches("", {KEY: node}) for node in ("node-1", "node-2")] == [False, True]
        assert spec.csi is not None and spec.csi.volume_handle == f"id-pvc-{claim.uid}"
        assert spec.csi.volume_attributes["pool"] == "0" and IDENTITY in spec.csi.volume_attributes


async def test_killed_between_the_volume_and_its_object_the_next_run_finds_the_volume() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        on.driver.gate = asyncio.Event()
        async with on.provisioner():
            await eventually_async(_is(lambda: on.driver.volumes))  # made, and the answer is on its way
        assert await on.volume_of(claim) is None
        on.driver.gate.set()
        async with on.provisioner():
            volume = await on.provisioned(claim)
        # 100 Gi less one volume of 20 Gi: the second CreateVolume found the first one's work.
        assert on.driver.free_bytes["node-1"] == 80 * GI
        assert volume.spec.csi is not None
        assert [each.volume_id for each in on.driver.volumes.values()] == [volume.spec.csi.volume_handle]


async def test_a_claim_deleted_while_the_driver_did_not_answer_leaves_nothing_behind() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        on.driver.gate = asyncio.Event()
        async with on.provisioner(timeout_s=0.2):
            await eventually_async(_is(lambda: len(on.driver.asked("CreateVolume")) >= 2))
            await on.client.delete(PersistentVolumeClaim, claim.key)
            on.driver.gate.set()
            volume = await on.provisioned(claim)
            await on.phase(volume, "Released")  # the binder finds no claim
            await eventually_async(_is(lambda: not on.driver.volumes))
            await eventually_async(_claim_deleted(on, volume.name))
        names = {each.name for each in on.driver.asked("CreateVolume")}
        assert names == {f"pvc-{claim.uid}"}


async def test_no_room_takes_the_node_back_and_the_next_one_is_used() -> None:
    async with stage() as on:
        on.driver.free_bytes["node-1"] = 5 * GI
        claim = await on.claim("data", "20Gi", "node-1")

        async def is_taken_back() -> bool:
            return not (await on.get_claim("data")).selected_node

        async with on.provisioner():
            await eventually_async(is_taken_back)
            assert await on.told("data", "ProvisioningFailed") == (
                "rpc error: code = ResourceExhausted desc = no pool of node-1 has 21474836480 bytes left"
            )
            assert len(on.driver.asked("CreateVolume")) == 1
            await on.select("data", "node-2")
            volume = await on.provisioned(claim)
        required = volume.spec.node_affinity.required
        assert required is not None and required.matches("", {KEY: "node-2"})


async def test_a_node_that_is_gone_is_taken_back() -> None:
    async with stage() as on:
        await on.claim("data", "20Gi", "node-9")

        async def is_taken_back() -> bool:
            return not (await on.get_claim("data")).selected_node

        async with on.provisioner():
            await eventually_async(is_taken_back)
            assert await on.told("data", "ProvisioningFailed") == (
                'failed to get selected CSINode node-9: csinode.storage.k8s.io "node-9" not found'
            )
        assert not on.driver.asked("CreateVolume")


async def test_a_pod_whose_other_volume_holds_it_to_the_full_node_is_told() -> None:
    async with stage() as on:
        on.driver.free_bytes["node-1"] = 30 * GI
        data = await on.claim("data", "20Gi", "node-1")
        await on.pod("db", "data", "logs")
        async with on.provisioner():
            volume = await on.provisioned(data)
            await on.bind(data, volume)
            await on.claim("logs", "20Gi", "node-1")  # 30 - 20 = 10 Gi are left
            assert await on.told("db", "VolumeProvisioningStuck", "Pod") == (
                "the volume of claim logs (20Gi) found no room on node node-1 (rpc error: code = ResourceExhausted "
                "desc = no pool of node-1 has 21474836480 bytes left), and the pod can go nowhere else: claim data "
                f"(volume {volume.name}) is reachable from there only. Free storage of class pools on node node-1; or "
                "delete logs, which is still empty, and ask for less; or delete claim data, whose data is lost then, "
                "and the pod, so that all its volumes are made together on another node"
            )


async def test_a_pod_is_told_also_when_the_volume_that_holds_it_is_made_after_the_refusal() -> None:
    async with stage() as on:
        await on.pod("db", "data", "logs")
        on.driver.free_bytes["node-1"] = 30 * GI
        async with on.provisioner():
            await on.claim("logs", "40Gi", "node-1")
            await on.told("logs", "ProvisioningFailed")
            assert not [each for each in await on.events("db", "Pod") if each[1] == "VolumeProvisioningStuck"]
            await on.claim("data", "20Gi", "node-1")
            note = await on.told("db", "VolumeProvisioningStuck", "Pod")
        assert note.startswith("the volume of claim logs (40Gi) found no room on node node-1 (rpc error: ")


async def test_a_released_volume_is_deleted_once_nobody_has_it_attached() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        async with on.provisioner():
            volume = await on.provisioned(claim)
            await on.bind(claim, volume)
            source = {"persistentVolumeName": volume.name}
            await on.client.create_doc(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "VolumeAttachment",
                    "metadata": {"name": "a"},
                    "spec": {"attacher": DRIVER, "nodeName": "node-1", "source": source},
                }
            )
            await on.client.delete(PersistentVolumeClaim, claim.key)
            await on.phase(volume, "Released")
            assert await on.told(volume.name, "VolumeFailedDelete", "PersistentVolume") == (
                f"persistentvolume {volume.name} is still attached to node node-1"
            )
            assert not on.driver.asked("DeleteVolume")
            on.driver.script["DeleteVolume"] = deque([Code.INTERNAL])
            await on.client.delete(VolumeAttachment, "a")
            await eventually_async(_claim_deleted(on, volume.name))
        assert [each.volume_id for each in on.driver.asked("DeleteVolume")] == [f"id-{volume.name}"] * 2
        assert on.driver.free_bytes["node-1"] == 100 * GI


async def test_a_volume_that_is_to_be_kept_loses_our_finalizer_and_stays() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        async with on.provisioner():
            volume = await on.provisioned(claim)
            keep = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
            await on.client.patch(PersistentVolume, volume.name, keep)
            await on.phase(volume, "Released")

            async def is_let_go() -> bool:
                found = await on.client.get(PersistentVolume, volume.name)
                return FINALIZER not in found.metadata.finalizers

            await eventually_async(is_let_go)
        assert not on.driver.asked("DeleteVolume")


async def test_a_claim_that_asks_for_more_gets_it_from_the_controller() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        async with on.provisioner():
            volume = await on.provisioned(claim)
            await on.bind(claim, volume)
            on.driver.script["ControllerExpandVolume"] = deque([Code.RESOURCE_EXHAUSTED])
            await _ask(on, claim, "30Gi")
            assert await on.told("data", "VolumeResizeFailed") == (
                f'resize volume "{volume.name}" by resizer "{DRIVER}" failed: rpc error: code = ResourceExhausted '
                "desc = ControllerExpandVolume as the script says"
            )
            assert await on.told("data", "VolumeResizeSuccessful") == "Resize volume succeeded"
        grown, found = await on.get_claim("data"), await on.client.get(PersistentVolume, volume.name)
        assert str(grown.status.capacity["storage"]) == str(found.spec.capacity["storage"]) == "30Gi"
        assert (grown.status.conditions, dict(grown.status.allocated_resource_statuses)) == ((), {})
        assert len(on.driver.asked("ControllerExpandVolume")) == 2


async def test_what_a_node_has_to_finish_is_left_to_it() -> None:
    async with stage() as on:
        on.driver.expands_on_node = True
        claim = await on.claim("data", "20Gi", "node-1")
        async with on.provisioner():
            volume = await on.provisioned(claim)
            await on.bind(claim, volume)
            await _ask(on, claim, "30Gi")
            assert await on.told("data", "FileSystemResizeRequired") == "Require file system resize of volume on node"
            waiting = await on.get_claim("data")
            assert [each.type for each in waiting.status.conditions] == ["Resizing", "FileSystemResizePending"]
            assert waiting.status.allocated_resource_statuses["storage"] == "NodeResizePending"
            assert str(waiting.status.capacity["storage"]) == "20Gi"
            found = await on.client.get(PersistentVolume, volume.name)
            assert found.metadata.annotations["volume.alpha.kubernetes.io/pre-resize-capacity"] == "20Gi"
            done: dict[str, Any] = {
                "capacity": {"storage": "30Gi"},
                "conditions": [],
                "allocatedResourceStatuses": None,
            }
            await on.client.patch(PersistentVolumeClaim, claim.key, {"status": done}, subresource="status")

            async def is_note_gone() -> bool:
                seen = await on.client.get(PersistentVolume, volume.name)
                return "volume.alpha.kubernetes.io/pre-resize-capacity" not in seen.metadata.annotations

            await eventually_async(is_note_gone)
        assert len(on.driver.asked("ControllerExpandVolume")) == 1


async def test_a_clone_is_made_from_its_source_which_is_protected_until_then() -> None:
    async with stage() as on:
        source = await on.claim("data", "20Gi", "node-1")
        async with on.provisioner():
            volume = await on.provisioned(source)
            await on.bind(source, volume)
            from_claim = {"kind": "PersistentVolumeClaim", "name": "data"}
            copy = await on.claim("copy", "20Gi", "node-1", dataSource=from_claim)
            made = await on.provisioned(copy)
            asked = on.driver.asked("CreateVolume")[-1]
            assert asked.volume_content_source.volume.volume_id == f"id-{volume.name}"
            held = await on.get_claim("data")
            assert CLONE_FINALIZER in held.metadata.finalizers
            await on.client.delete(PersistentVolumeClaim, source.key)
            await on.bind(copy, made)

            async def is_let_go() -> bool:
                left = [each for each in (await on.client.list(PersistentVolumeClaim)).items if each.name == "data"]
                return not any(CLONE_FINALIZER in each.metadata.finalizers for each in left)

            await eventually_async(is_let_go)


async def test_a_provisioner_of_one_node_takes_its_own_claims_and_competes_for_the_rest() -> None:
    async with stage() as on:
        on.driver.run_on("node-2")
        deployment = NodeDeployment(node_name="node-2", base_delay_s=0.05, max_delay_s=0.2)
        await on.storage_class("now", delayed=False)
        async with on.provisioner(ProvisionerOptions(retry_start_s=0.05, retry_max_s=0.2, node_deployment=deployment)):
            other = await on.claim("other", "20Gi", "node-1")
            ours = await on.claim("ours", "20Gi", "node-2")
            free = await on.claim("free", "20Gi", storageClassName="now")
            await on.provisioned(ours)
            volume = await on.provisioned(free)
            assert (await on.get_claim("free")).selected_node == "node-2"
            assert await on.volume_of(other) is None
        required = volume.spec.node_affinity.required
        assert required is not None and required.matches("", {KEY: "node-2"})


# -- small words ------------------------------------------------------------------------------------------------------


def _is(holds: Callable[[], object]) -> Callable[[], Awaitable[object]]:
    async def look() -> object:
        return holds()

    return look


def _claim_deleted(on: ProvisionerStage, name: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return all(each.name != name for each in (await on.client.list(PersistentVolume)).items)

    return look


async def _ask(on: ProvisionerStage, claim: PersistentVolumeClaim, size: str) -> None:
    """Somebody edits the claim."""
    wanted = {"spec": {"resources": {"requests": {"storage": size}}}}
    await on.client.patch(PersistentVolumeClaim, claim.key, wanted)
