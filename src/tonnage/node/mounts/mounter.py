"""The mounts of one node: staged once per volume, published once per pod, with a record on disk.

                stage                publish
    (nothing) ────────► staged ─────────────────► published, once per pod
        ▲                 │ ▲                         │
        └── unstage ──────┘ └──── unpublish ──────────┘

A mount recorded on disk at the start counts as mounted but unchecked: it is mounted again, or unmounted if its pod is
gone. A lock per volume keeps its steps apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tonnage import keyed, quantity
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.conversion import secret_values, single_access_mode, volume_capability
from tonnage.csi.driver_capabilities import NodeCapabilities
from tonnage.csi.errors import error_text
from tonnage.errors import TonnageError
from tonnage.node.context import NodeContext, NodePart
from tonnage.node.drivers import Drivers, InstalledDriver
from tonnage.node.mounts import mount_paths
from tonnage.node.mounts.mount_plan import VolumeToMount
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Secret
from tonnage.objects.core_v1.persistent_volume import (
    NODE_IN_PROGRESS,
    NODE_INFEASIBLE,
    NODE_PENDING,
    RESIZE_CONDITIONS,
    SecretReference,
)
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import attachment_name


def capability(to_mount: VolumeToMount, can: NodeCapabilities) -> csi.VolumeCapability:
    mode = single_access_mode(to_mount.access_mode, single_node_multi_writer=can.single_node_multi_writer)
    is_group_told = can.volume_mount_group and to_mount.fs_group is not None
    return volume_capability(
        mode,
        is_block=to_mount.record.is_block,
        fs_type=to_mount.fs_type,
        mount_flags=to_mount.mount_options,
        volume_mount_group=str(to_mount.fs_group) if is_group_told else "",
    )


_ON_NODE: Final = ("", NODE_PENDING, NODE_IN_PROGRESS, NODE_INFEASIBLE)


def pending_size(claim: PersistentVolumeClaim, volume: PersistentVolume) -> quantity.Quantity | None:
    """The size that the node must expand to; None if there is nothing to do, or not yet."""
    size, before = volume.spec.capacity.get("storage"), claim.status.capacity.get("storage")
    if size is None or before is None or not before < size:
        return None
    if claim.status.allocated_resource_statuses.get("storage", "") not in _ON_NODE:
        return None  # the controller has not finished its half
    return size


def finished_patch(claim: PersistentVolumeClaim, size: quantity.Quantity) -> Doc:
    """The claim's status after the expansion, as a strategic patch. Mirrors MarkFSResizeFinished."""
    present = {condition.type for condition in claim.status.conditions}
    return {
        "metadata": {"uid": claim.uid},
        "status": {
            "capacity": {"storage": str(size)},
            "allocatedResourceStatuses": None,
            "conditions": [{"$patch": "delete", "type": each} for each in RESIZE_CONDITIONS if each in present],
        },
    }


_STEPS: Final = {
    (False, False): "MountVolume.MountDevice",
    (False, True): "MapVolume.SetUpDevice",
    (True, False): "MountVolume.SetUp",
    (True, True): "MapVolume.MapPodDevice",
}
"""Upstream's names, by whether a volume is published (else staged) and whether it is a block volume."""


class MountStepFailed(TonnageError):
    """The message for people when staging or publishing failed. `cause` is the driver's answer."""

    def __init__(self, step: str, to_mount: VolumeToMount, cause: TonnageError) -> None:
        self.cause = cause
        super().__init__(f'{step} failed for volume "{to_mount.record.name}" : {error_text(cause)}', hint=cause.hint)


class Mounter(NodePart):
    """Stages, publishes, expands, unpublishes and unstages volumes through the installed drivers."""

    def __init__(self, context: NodeContext, drivers: Drivers) -> None:
        super().__init__(context)
        self.paths = mount_paths.MountPaths(self._settings.folder(self._node))
        self._drivers = drivers
        self._mounts: dict[tuple[str, str], mount_paths.MountRecord] = {}
        """Staged and published volumes by `MountRecord.key`."""
        self._checked: set[tuple[str, str]] = set()  # those that this process mounted itself
        self._locks = keyed.KeyedLocks()

    def recover(self) -> None:
        """Take over the mounts that the records on disk name."""
        mount_paths.sweep(self.paths)
        self._mounts = {record.key: record for record in mount_paths.scan(self.paths)}

    # -- what there is ------------------------------------------------------------------------------------------------

    def pods(self) -> set[str]:
        """The uids of pods that have a published volume."""
        return {record.pod_uid for record in self._mounts.values() if record.pod_uid}

    def of_pod(self, uid: str) -> list[mount_paths.MountRecord]:
        return [record for record in self._mounts.values() if record.pod_uid == uid]

    def recorded(self, uid: str) -> set[str]:
        """Names of the volumes that a pod has or may have: this process or the last one began to publish them."""
        return {record.name for record in self.of_pod(uid)}

    def unused(self) -> list[str]:
        """Ids of staged volumes that are published for no pod."""
        used = {record.volume_id for record in self._mounts.values() if record.pod_uid}
        return [volume for uid, volume in self._mounts if not uid and volume not in used]

    def in_use(self) -> set[str]:
        """Names, as in Node.status, of every attachable volume that is or may be mounted."""
        return {record.unique_name for record in self._mounts.values() if record.is_attachable}

    def is_mounted(self, to_mount: VolumeToMount) -> bool:
        """True if this process has mounted the volume for the pod."""
        return to_mount.record.key in self._checked

    # -- up -----------------------------------------------------------------------------------------------------------

    async def mount(self, to_mount: VolumeToMount, *, publish_context: Mapping[str, str]) -> None:
        """Stage if the driver stages, and publish. Raises TonnageError: MountStepFailed, NodeIdle, a missing driver."""
        async with self._locks.hold(to_mount.record.volume_id):
            driver = self._drivers.get(to_mount.record.driver)
            if driver.can.stage_unstage_volume and not to_mount.record.is_inline:
                staged = replace(to_mount.record, pod_uid="")
                await self._mount(staged, to_mount, to_mount.stage_secret, publish_context)
            await self._mount(to_mount.record, to_mount, to_mount.publish_secret, publish_context)

    async def _mount(
        self,
        record: mount_paths.MountRecord,
        to_mount: VolumeToMount,
        secret: SecretReference | None,
        publish_context: Mapping[str, str],
    ) -> None:
        """Stage the volume, or publish it if the record is a pod's. Does nothing if this process has done it."""
        if record.key in self._checked:
            return
        await self._context.delay_or_stop()
        driver, path = self._drivers.get(record.driver), self.paths.mount(record)
        try:
            secrets = await self._secret(secret)
            await self._save(self.paths.record(record), record)
            self._mounts[record.key] = record
            _make_folder(path.parent if record.pod_uid else path)
            common: dict[str, Any] = {
                "volume_id": record.handle,
                "publish_context": publish_context,
                "volume_capability": capability(to_mount, driver.can),
                "secrets": secrets,
            }
            if not record.pod_uid:
                stage = csi.NodeStageVolumeRequest(
                    staging_target_path=str(path), volume_context=to_mount.context, **common
                )
                await driver.client.stage(stage)
            else:
                publish = csi.NodePublishVolumeRequest(
                    staging_target_path=self._staging_path(record, driver.can),
                    target_path=str(path),
                    readonly=to_mount.read_only,
                    volume_context={**to_mount.context, **to_mount.pod_info},
                    **common,
                )
                await driver.client.publish(publish)
                if record.is_block:
                    _link(self.paths.device_link(record), path)
        except TonnageError as exc:
            raise MountStepFailed(_STEPS[bool(record.pod_uid), record.is_block], to_mount, exc) from exc
        self._checked.add(record.key)

    async def expand(self, pod: Pod, to_mount: VolumeToMount) -> None:
        """The node's half of an expansion: expand a mounted volume if its claim waits for that, and write the claim.

        Raises TonnageError if it must be retried.
        """
        claim, record = self._claims.get(to_mount.claim) if to_mount.claim else None, to_mount.record
        if claim is None or to_mount.volume is None or to_mount.read_only:
            return
        size = pending_size(claim, to_mount.volume)
        if size is None:
            return
        await self._context.delay_or_stop()
        driver = self._drivers.get(record.driver)
        try:
            if driver.can.expand_volume:
                await self.ask_to_expand(to_mount, driver, size.value())
        except TonnageError as exc:
            note = f'MountVolume.NodeExpandVolume failed for volume "{record.name}" : {exc.message}'
            self._recorder.event(pod, "Warning", "VolumeResizeFailed", "Resizing", note)
            raise
        patch = finished_patch(claim, size)
        patched = await self._client.patch(
            PersistentVolumeClaim, claim.key, patch, patch_type="strategic", subresource="status"
        )
        self._claims.store(patched)
        note = f'MountVolume.NodeExpandVolume succeeded for volume "{record.name}" {self._node}'
        for about in (pod, claim):
            self._recorder.event(about, "Normal", "FileSystemResizeSuccessful", "Resizing", note)

    async def ask_to_expand(self, to_mount: VolumeToMount, driver: InstalledDriver, size_bytes: int) -> None:
        record = to_mount.record
        await driver.client.node_expand(
            csi.NodeExpandVolumeRequest(
                volume_id=record.handle,
                volume_path=str(self.paths.target(record)),
                capacity_range=csi.CapacityRange(required_bytes=size_bytes),
                staging_target_path=self._staging_path(record, driver.can),
                volume_capability=capability(to_mount, driver.can),
                secrets=await self._secret(to_mount.expand_secret),
            )
        )

    def _staging_path(self, record: mount_paths.MountRecord, can: NodeCapabilities) -> str:
        """The volume's staging path; empty for a volume that is never staged."""
        return str(self.paths.staging(record)) if can.stage_unstage_volume and not record.is_inline else ""

    # -- down ---------------------------------------------------------------------------------------------------------

    async def unpublish(self, record: mount_paths.MountRecord) -> None:
        """Unpublish a volume for one pod. Raises TonnageError; then the record stays."""
        async with self._locks.hold(record.volume_id):
            if record.key in self._mounts:
                await self._unmount(record)

    async def unstage(self, volume: str, *, is_wanted: Callable[[str], bool]) -> None:
        """Unstage a volume that no pod has and that, by `is_wanted`, no pod is about to have."""
        async with self._locks.hold(volume):
            if volume in self.unused() and not is_wanted(volume):
                await self._unmount(self._mounts["", volume])

    async def _unmount(self, record: mount_paths.MountRecord) -> None:
        await self._context.delay_or_stop()
        client, path = self._drivers.get(record.driver).client, self.paths.mount(record)
        if record.pod_uid:
            await client.unpublish(csi.NodeUnpublishVolumeRequest(volume_id=record.handle, target_path=str(path)))
        else:
            await client.unstage(csi.NodeUnstageVolumeRequest(volume_id=record.handle, staging_target_path=str(path)))
        self._checked.discard(record.key)
        if record.is_block and record.pod_uid:
            _unlink(self.paths.device_link(record), path)
            mount_paths.remove_empty(self.paths.device_link(record).parent, upto=self.paths.root)
        mount_paths.remove_empty(path, upto=self.paths.root)
        mount_paths.remove(self.paths.record(record), upto=self.paths.root)
        del self._mounts[record.key]

    def forget_pod(self, uid: str) -> None:
        """Remove the empty folder of a pod that has no mounts left."""
        mount_paths.remove_empty(self.paths.pod(uid), upto=self.paths.root)

    # -- behind them --------------------------------------------------------------------------------------------------

    async def _secret(self, reference: SecretReference | None) -> Mapping[str, str]:
        """Read a driver's credentials from the API, on every use: they are never kept. Raises TonnageError."""
        if reference is None:
            return {}
        try:
            secret = await self._client.get(Secret, f"{reference.namespace}/{reference.name}")
            return secret_values(secret)
        except TonnageError as exc:
            raise TonnageError(f"fetching secret {reference.namespace}/{reference.name} failed: {exc}") from exc

    async def _save(self, path: Path, record: mount_paths.MountRecord) -> None:
        """Write a record in a thread: a slow disk must not block other pods and nodes."""
        attachment = attachment_name(record.handle, record.driver, self._node) if record.is_attachable else ""
        try:
            await asyncio.to_thread(mount_paths.save, path, record, node=self._node, attachment=attachment)
        except OSError as exc:
            raise TonnageError(f"failed to save volume info data: {exc}") from exc


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, mode=0o750, exist_ok=True)
    except OSError as exc:
        raise TonnageError(f'failed to create dir "{folder}": {exc.strerror or exc}') from exc


def _link(link: Path, target: Path) -> None:
    try:
        link.parent.mkdir(parents=True, mode=0o750, exist_ok=True)
        _unlink(link, target)
        link.symlink_to(target)
    except FileExistsError as exc:
        raise TonnageError(f'failed to link "{link}": something else is there, and stays; move it away') from exc
    except OSError as exc:
        raise TonnageError(f'failed to link "{link}": {exc.strerror or exc}') from exc


def _unlink(link: Path, target: Path) -> None:
    """Remove our link, also when the root has moved since. Anything else at that path stays."""
    if link.is_symlink() and link.readlink().parts[-3:] == target.parts[-3:]:  # publish/<volume>/<uid>
        link.unlink()
