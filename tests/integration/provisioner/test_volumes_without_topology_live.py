"""Volumes that can be reached from everywhere, as those of NFS and Ceph: made, written, bound, deleted, and published.

The same on our API server and on Kubernetes' own, where an object with an empty part in it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

from provisioner_stage import DRIVER, KEY, ProvisionerStage, server, servers

from support.eventually import eventually_async
from tonnage.csi import csi_pb2 as csi
from tonnage.objects.core_v1 import (
    CSIPersistentVolumeSource,
    EventSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
    VolumeResourceRequirements,
)
from tonnage.objects.core_v1 import Event as CoreEvent
from tonnage.objects.events_v1 import Event
from tonnage.objects.meta import MicroTime, Object, ObjectMeta, StampedMeta
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.small_groups import Lease, LeaseSpec
from tonnage.objects.storage_v1 import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
    VolumeNodeResources,
)
from tonnage.provisioner.capacity.controller import CapacitySettings
from tonnage.provisioner.context import ProvisionerOptions
from tonnage.quantity import Quantity

GI = 1 << 30
FAST = ProvisionerOptions(retry_start_s=0.05, retry_max_s=0.2)
PLACES: dict[str, tuple[list[dict[str, str]], list[list[str]] | None]] = {
    "no topology at all": ([], None),
    "a topology without segments": ([{}], None),
    "several without segments": ([{}, {}], None),
    "one with and one without": ([{}, {KEY: "node-1"}], [["node-1"]]),
    "several": ([{KEY: "node-1"}, {KEY: "node-2"}], [["node-1"], ["node-2"]]),
}
"""What a driver that has topology tells of a volume, and the values of the terms that are written."""


@servers
async def test_a_driver_without_topology_makes_every_kind_of_volume_and_deletes_it(name: str, tmp_path: Path) -> None:
    async with server(name, tmp_path, has_topology=False) as on:
        await on.storage_class("now", delayed=False)
        async with on.provisioner(FAST):
            first = await on.provisioned(await on.claim("first", "2Gi", "node-1"))
            await on.bind(await on.get_claim("first"), first)
            claims = [
                await on.claim("waits", "1Gi", "node-1"),
                await on.claim("now", "1Gi", storageClassName="now"),
                await on.claim("blocks", "1Gi", "node-2", volumeMode="Block"),
                await on.claim("shared", "1Gi", "node-2", accessModes=["ReadWriteMany", "ReadOnlyMany"]),
                await on.claim("copy", "2Gi", "node-1", dataSource={"kind": "PersistentVolumeClaim", "name": "first"}),
            ]
            volumes = [first, *[await on.provisioned(claim) for claim in claims]]
            assert [each.spec.node_affinity.required for each in volumes] == [None] * 6
            asked = on.driver.asked("CreateVolume")
            assert not any(each.HasField("accessibility_requirements") for each in asked)
            # 100 - 2 - 1 - 1 - 1 - 1 - 2 = 92.
            assert on.driver.free_bytes[""] == 92 * GI
            for volume in volumes:
                assert volume.spec.claim_ref is not None
                await on.client.delete(PersistentVolumeClaim, volume.spec.claim_ref.key)
                await on.phase(volume, "Released")
            await until_no_volume(on)
        assert not on.driver.volumes and on.driver.free_bytes[""] == 100 * GI


@servers
async def test_a_volume_is_written_whatever_places_its_driver_tells(name: str, tmp_path: Path) -> None:
    async with server(name, tmp_path, has_topology=True) as on:
        for strict in (False, True):
            options = ProvisionerOptions(retry_start_s=0.05, retry_max_s=0.2, strict_topology=strict)
            async with on.provisioner(options):
                for number, (places, terms) in enumerate(PLACES.values()):
                    on.driver.alter = told_as(places)
                    volume = await on.provisioned(await on.claim(f"data-{strict}-{number}".lower(), "1Gi", "node-1"))
                    required = volume.spec.node_affinity.required
                    written = required and [
                        list(each.match_expressions[0].values) for each in required.node_selector_terms
                    ]
                    assert written == terms


@servers
async def test_the_room_of_a_driver_without_topology_is_one_object_for_all_nodes(name: str, tmp_path: Path) -> None:
    capacity = CapacitySettings(namespace="kube-system", qps=0.0)
    async with server(name, tmp_path, has_topology=False) as on, on.provisioner(FAST, capacity=capacity):

        async def published() -> list[tuple[str, Any]]:
            found = (await on.client.list(CSIStorageCapacity)).items
            return [(str(each.capacity), each.node_topology) for each in found]

        async def is_published(free: str) -> bool:
            return await published() == [(free, LabelSelector())]

        await eventually_async(lambda: is_published("100Gi"))
        await on.provisioned(await on.claim("data", "20Gi", "node-1"))
        await eventually_async(lambda: is_published("80Gi"))


@servers
async def test_servers_take_what_our_programs_write_with_every_optional_part_empty(name: str, tmp_path: Path) -> None:
    source = CSIPersistentVolumeSource(driver=DRIVER, volume_handle="v", volume_attributes={})
    volume = PersistentVolumeSpec(
        capacity={"storage": Quantity.parse("1Gi")},
        access_modes=("ReadWriteOnce",),
        claim_ref=None,
        node_affinity=VolumeNodeAffinity(),
        csi=source,
    )
    resources = VolumeResourceRequirements(requests={"storage": Quantity.parse("1Gi")})
    claim = PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), resources=resources, volume_name="pv")
    entry = CSINodeDriver(name=DRIVER, node_id="n", topology_keys=(), allocatable=VolumeNodeResources())
    attached = VolumeAttachmentSource(persistent_volume_name="pv")
    attachment = VolumeAttachmentSpec(attacher=DRIVER, node_name="node-1", source=attached)
    about = ObjectReference(kind="PersistentVolumeClaim", namespace="default", name="c")
    at = MicroTime(2026, 11, 15, tzinfo=UTC)
    named = StampedMeta(name="empty-parts", namespace="default", labels={}, annotations={}, owner_references=())
    plain = ObjectMeta(name="empty-parts", labels={}, annotations={}, owner_references=(), finalizers=())
    objects: list[Object] = [
        PersistentVolume(metadata=plain, spec=volume, status=PersistentVolumeStatus()),
        PersistentVolumeClaim(metadata=named, spec=claim, status=PersistentVolumeClaimStatus()),
        CSINode(metadata=plain, spec=CSINodeSpec(drivers=(entry,))),
        CSIStorageCapacity(metadata=named, storage_class_name="pools", node_topology=LabelSelector()),
        VolumeAttachment(metadata=plain, spec=attachment, status=VolumeAttachmentStatus()),
        Lease(metadata=ObjectMeta(name="empty-parts", namespace="default"), spec=LeaseSpec()),
        CoreEvent(metadata=named, involved_object=about, reason="R", type="Normal", source=EventSource()),
        Event(
            metadata=ObjectMeta(name="empty-parts-2", namespace="default"),
            regarding=about,
            event_time=at,
            reason="R",
            action="A",
            type="Normal",
            reporting_controller="tonnage.dev/test",
            reporting_instance="i",
            deprecated_source=EventSource(),
        ),
    ]
    async with server(name, tmp_path, has_topology=False) as on:
        for wanted in objects:
            assert (await on.client.create(wanted)).name == wanted.name
        assert (await on.client.get(PersistentVolume, "empty-parts")).spec.node_affinity.required is None


def told_as(places: list[dict[str, str]]) -> Callable[[csi.Volume], None]:
    def alter(volume: csi.Volume) -> None:
        del volume.accessible_topology[:]
        volume.accessible_topology.extend(csi.Topology(segments=segments) for segments in places)

    return alter


async def until_no_volume(on: ProvisionerStage) -> None:
    async def are_gone() -> bool:
        return not (await on.client.list(PersistentVolume)).items

    await eventually_async(are_gone)
