"""What the provisioner does when its caches are behind the server: here they show only what the test lets them see."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from provisioner_stage import DRIVER, KEY, Code, ProvisionerStage, stage

from tonnage.client.cache import Cache
from tonnage.client.recorder import Recorder
from tonnage.clock import SystemClock
from tonnage.csi.client import CsiClient
from tonnage.csi.driver_capabilities import DriverInfo
from tonnage.metrics import new_registry
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.storage_v1 import CSINode, StorageClass
from tonnage.provisioner.context import (
    NodeDeployment,
    NoRefresher,
    ProvisionerCaches,
    ProvisionerContext,
    ProvisionerOptions,
)
from tonnage.provisioner.metrics import ProvisionerMetrics
from tonnage.provisioner.program import wait_for_driver
from tonnage.provisioner.volumes.claims import CloningProtectionController
from tonnage.provisioner.volumes.deletion import DeletionController
from tonnage.provisioner.volumes.preparation import CLONE_FINALIZER, Preparation
from tonnage.provisioner.volumes.provisioning import Ownership, ProvisionController
from tonnage.provisioner.volumes.resizer import ExpansionController

GI = 1 << 30


class OldNewsRig:
    """The loops of a provisioner, moved by hand. `look` brings the caches up to date."""

    def __init__(
        self,
        on: ProvisionerStage,
        driver: CsiClient,
        driver_info: DriverInfo,
        recorder: Recorder,
        options: ProvisionerOptions,
    ) -> None:
        self.on = on
        self._parts = on, driver, driver_info, recorder, options
        self.claims, self.volumes = Cache(PersistentVolumeClaim), Cache(PersistentVolume)
        self.classes, self.nodes, self.csi_nodes = Cache(StorageClass), Cache(Node), Cache(CSINode)
        context = ProvisionerContext(
            client=on.client,
            driver=driver,
            driver_info=driver_info,
            options=options,
            caches=ProvisionerCaches(
                claims=self.claims,
                volumes=self.volumes,
                classes=self.classes,
                nodes=self.nodes,
                csi_nodes=self.csi_nodes,
            ),
            recorder=recorder,
            metrics=ProvisionerMetrics(new_registry()),
            refresher=NoRefresher(),
            clock=SystemClock(),
            rng=random.Random(1),
        )
        self.preparation = Preparation(context)
        self.provisioning = ProvisionController(context)
        self.deletion = DeletionController(context)
        self.expansion = ExpansionController(context)
        self.cloning = CloningProtectionController(context)
        deployment = NodeDeployment(node_name="node-1", base_delay_s=0.0, max_delay_s=0.0)
        self.ownership = Ownership(context, deployment, self.preparation)

    def restarted(self) -> OldNewsRig:
        """Another run of the program, which remembers nothing."""
        return OldNewsRig(*self._parts)

    async def look(self) -> None:
        caches: tuple[Cache[Any], ...] = (self.classes, self.nodes, self.csi_nodes, self.volumes, self.claims)
        for cache in caches:
            found = await self.on.client.list(cache.cls)
            cache.replace(found.items)

    async def expand(self, size: str) -> None:
        asked = {"spec": {"resources": {"requests": {"storage": size}}}}
        await self.on.client.patch(PersistentVolumeClaim, "default/data", asked)
        await self.look()
        await self.expansion.reconcile("default/data")


@asynccontextmanager
async def rig(options: ProvisionerOptions | None = None) -> AsyncIterator[OldNewsRig]:
    clock, rng = SystemClock(), random.Random(1)
    async with stage() as on, CsiClient(on.address, clock=clock, rng=rng) as driver:
        driver_info = await wait_for_driver(driver, with_node=False, clock=clock, rng=rng)
        async with Recorder(on.client, DRIVER, "test") as recorder:
            yield OldNewsRig(on, driver, driver_info, recorder, options or ProvisionerOptions())


async def test_a_claim_whose_node_was_taken_back_is_not_tried_from_an_old_picture() -> None:
    async with rig() as by_hand:
        on = by_hand.on
        on.driver.free_bytes["node-1"] = 0
        claim = await on.claim("data", "20Gi", "node-1")
        await by_hand.look()
        await by_hand.provisioning.reconcile(claim.uid)
        assert (await on.get_claim("data")).selected_node == ""
        for _ in range(2):
            # While nobody finds another node its pods are told again, five minutes after the first time.
            remind_s = await by_hand.provisioning.reconcile(claim.uid)
            assert remind_s is not None and 200.0 < remind_s <= 300.0
            await by_hand.look()
        assert len(on.driver.asked("CreateVolume")) == 1


async def test_a_choice_that_was_changed_meanwhile_is_left_alone() -> None:
    async with rig() as by_hand:
        on = by_hand.on
        on.driver.free_bytes["node-1"] = 0
        claim = await on.claim("data", "20Gi", "node-1")
        await by_hand.look()
        await on.select("data", "node-2")
        await by_hand.provisioning.reconcile(claim.uid)
        assert (await on.get_claim("data")).selected_node == "node-2"
        await by_hand.look()
        await by_hand.provisioning.reconcile(claim.uid)
        assert on.driver.free_bytes["node-2"] == 80 * GI


async def test_what_was_in_doubt_and_is_refused_is_tried_where_it_was_sent_meanwhile() -> None:
    async with rig(ProvisionerOptions(retry_start_s=0.0)) as by_hand:
        on = by_hand.on
        on.driver.script["CreateVolume"] = deque([Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED])
        claim = await on.claim("data", "20Gi", "node-1")
        await by_hand.look()
        await by_hand.provisioning.reconcile(claim.uid)
        await on.select("data", "node-2")
        await by_hand.look()
        # Asked again for node-1 and refused; nothing is to be taken back, no event will come, so it goes on at once.
        assert await by_hand.provisioning.reconcile(claim.uid) == 0.0
        await by_hand.provisioning.reconcile(claim.uid)
        asked = [each.accessibility_requirements.preferred[0] for each in on.driver.asked("CreateVolume")]
        assert [place.segments[KEY] for place in asked] == ["node-1", "node-1", "node-2"]
        assert on.driver.free_bytes == {"node-1": 100 * GI, "node-2": 80 * GI}


async def test_a_pod_is_told_of_a_volume_that_no_cache_shows_yet() -> None:
    async with rig() as by_hand:
        on = by_hand.on
        on.driver.free_bytes["node-1"] = 30 * GI
        await on.pod("db", "data", "logs")
        data, logs = await on.claim("data", "20Gi", "node-1"), await on.claim("logs", "20Gi", "node-1")
        await by_hand.look()
        await by_hand.provisioning.reconcile(data.uid)
        await by_hand.provisioning.reconcile(logs.uid)
        assert len(by_hand.volumes) == 0
        note = await on.told("db", "VolumeProvisioningStuck", "Pod")
        assert f"claim data (volume pvc-{data.uid}) is reachable from there only" in note
        for _ in range(2):  # the scheduler finds no other node, and tries this one again
            await on.select("logs", "node-1")
            await by_hand.look()
            await by_hand.provisioning.reconcile(logs.uid)
        assert len(on.driver.asked("CreateVolume")) == 4
        assert [reason for _, reason, _ in await on.events("db", "Pod")] == ["VolumeProvisioningStuck"]


async def test_a_claim_that_has_its_volume_is_not_asked_for_again() -> None:
    async with rig() as by_hand:
        claim = await by_hand.on.claim("data", "20Gi", "node-1")
        await by_hand.look()
        for _ in range(2):
            await by_hand.provisioning.reconcile(claim.uid)  # the second time no cache shows the volume yet
        again = by_hand.restarted()
        await again.look()
        assert await again.provisioning.reconcile(claim.uid) is None
        assert len(by_hand.on.driver.asked("CreateVolume")) == 1


async def test_a_node_that_is_new_to_us_is_not_taken_for_gone() -> None:
    async with rig() as by_hand:
        on = by_hand.on
        claim = await on.claim("data", "20Gi", "node-3")
        await by_hand.look()
        await on.node("node-3", "100Gi")
        pause_s = await by_hand.provisioning.reconcile(claim.uid)
        assert pause_s is not None and 1.0 <= pause_s <= 1.2
        assert (await on.get_claim("data")).selected_node == "node-3"
        await by_hand.look()
        await by_hand.provisioning.reconcile(claim.uid)  # the node is known: another attempt, made at once
        assert on.driver.free_bytes["node-3"] == 80 * GI


async def test_a_volume_that_is_too_small_is_undone_and_asked_for_again() -> None:
    async with rig() as by_hand:
        on = by_hand.on
        on.driver.gives_less_by = GI
        claim = await on.claim("data", "20Gi", "node-1")
        await by_hand.look()
        await by_hand.provisioning.reconcile(claim.uid)
        assert await on.told("data", "ProvisioningFailed") == (
            "created volume capacity 20401094656 less than requested capacity 21474836480"
        )
        assert on.driver.volumes == {} and await on.volume_of(claim) is None


async def test_a_volume_that_somebody_kept_meanwhile_is_not_deleted() -> None:
    async with rig() as by_hand:
        on = by_hand.on
        claim = await on.claim("data", "20Gi", "node-1")
        await by_hand.look()
        await by_hand.provisioning.reconcile(claim.uid)
        volume = await on.provisioned(claim)
        await on.phase(volume, "Released")
        await by_hand.look()
        keep = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
        await on.client.patch(PersistentVolume, volume.name, keep)
        await by_hand.deletion.reconcile(volume.name)
        assert on.driver.asked("DeleteVolume") == []


async def test_a_volume_is_not_expanded_twice_from_an_old_picture() -> None:
    async with rig() as by_hand:
        await bound(by_hand)
        await by_hand.expand("30Gi")
        assert await by_hand.expansion.reconcile("default/data") is None
        assert len(by_hand.on.driver.asked("ControllerExpandVolume")) == 1


async def test_after_a_refusal_a_claim_may_ask_for_less() -> None:
    async with rig() as by_hand:
        on = by_hand.on
        await bound(by_hand)
        on.driver.script["ControllerExpandVolume"] = deque([Code.RESOURCE_EXHAUSTED])
        await by_hand.expand("40Gi")
        refused = await on.get_claim("data")
        assert [(each.type, each.message) for each in refused.status.conditions] == [
            ("Resizing", ""),
            (
                "ControllerResizeError",
                "failed to expand pvc with rpc error: code = ResourceExhausted desc = ControllerExpandVolume as the "
                "script says",
            ),
        ]
        await by_hand.expand("40Gi")  # the same attempt waits for its time
        await by_hand.expand("25Gi")
        asked = [each.capacity_range.required_bytes // GI for each in on.driver.asked("ControllerExpandVolume")]
        assert asked == [40, 25]
        assert str((await on.get_claim("data")).status.capacity["storage"]) == "25Gi"


async def test_a_cloned_claim_is_held_while_a_copy_of_it_waits() -> None:
    async with rig() as by_hand:
        on = by_hand.on
        source = await on.claim("data", "20Gi")
        held = {"metadata": {"finalizers": [CLONE_FINALIZER]}}
        await on.client.patch(PersistentVolumeClaim, source.key, held)
        copy = await on.claim("copy", "20Gi", dataSource={"kind": "PersistentVolumeClaim", "name": "data"})
        await on.client.delete(PersistentVolumeClaim, source.key)
        await by_hand.look()
        await by_hand.cloning.reconcile(source.key)
        assert (await on.get_claim("data")).metadata.finalizers == (CLONE_FINALIZER,)
        await on.client.delete(PersistentVolumeClaim, copy.key)
        await by_hand.look()
        await by_hand.cloning.reconcile(source.key)
        assert [each.name for each in (await on.client.list(PersistentVolumeClaim)).items] == []


async def test_a_provisioner_of_a_full_node_does_not_take_a_claim() -> None:
    async with rig() as by_hand:
        on = by_hand.on
        immediate = await on.storage_class("now", delayed=False)
        claim = await on.claim("data", "20Gi", storageClassName="now")
        await by_hand.look()
        on.driver.free_bytes["node-1"] = 10 * GI
        on.driver.free_bytes["node-2"] = 10 * GI
        for _ in range(2):  # first the delay is drawn, then it has passed
            is_ours, again_s = await by_hand.ownership.decide(claim, immediate)
            assert not is_ours and again_s is not None
        assert (await on.get_claim("data")).selected_node == ""
        on.driver.free_bytes["node-1"] = 20 * GI
        await by_hand.ownership.decide(claim, immediate)
        taken = await on.get_claim("data")
        assert taken.selected_node == "node-1"
        assert await by_hand.ownership.decide(taken, immediate) == (True, None)
        assert on.driver.asked("GetCapacity")[0].accessible_topology.segments[KEY] == "node-1"


async def bound(by_hand: OldNewsRig) -> None:
    """A claim of 20 Gi that has its volume."""
    claim = await by_hand.on.claim("data", "20Gi", "node-1")
    await by_hand.look()
    await by_hand.provisioning.reconcile(claim.uid)
    await by_hand.on.bind(claim, await by_hand.on.provisioned(claim))
    await by_hand.look()
