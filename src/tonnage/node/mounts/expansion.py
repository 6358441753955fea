"""The node's half of expanding a volume: expand the mounted volume, then write the claim's new capacity."""

from __future__ import annotations

from typing import Final

from tonnage.errors import TonnageError
from tonnage.node.context import NodeContext, NodePart
from tonnage.node.drivers import Drivers
from tonnage.node.mounts.mount_plan import VolumeToMount
from tonnage.node.mounts.mounter import Mounter
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.persistent_volume import NODE_IN_PROGRESS, NODE_INFEASIBLE, NODE_PENDING, RESIZE_CONDITIONS
from tonnage.objects.document import Doc
from tonnage.quantity import Quantity

_ON_NODE: Final = ("", NODE_PENDING, NODE_IN_PROGRESS, NODE_INFEASIBLE)


def pending_size(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Quantity | None:
    """The size that the node must expand to; None if there is nothing to do, or not yet."""
    size, before = volume.spec.capacity.get("storage"), claim.status.capacity.get("storage")
    if size is None or before is None or not before < size:
        return None
    if claim.status.allocated_resource_statuses.get("storage", "") not in _ON_NODE:
        return None  # the controller has not finished its half
    return size


def finished_patch(claim: PersistentVolumeClaim, size: Quantity) -> Doc:
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


_SUCCESS: Final = "FileSystemResizeSuccessful"
_FAILURE: Final = "VolumeResizeFailed"


class Expander(NodePart):
    def __init__(self, context: NodeContext, drivers: Drivers, mounter: Mounter) -> None:
        super().__init__(context)
        self._drivers = drivers
        self._mounter = mounter

    async def expand(self, pod: Pod, to_mount: VolumeToMount) -> None:
        """Expand a mounted volume if its claim waits for that. Raises TonnageError if it must be retried."""
        claim = self._claims.get(to_mount.claim) if to_mount.claim else None
        if claim is None or to_mount.volume is None or to_mount.read_only:
            return
        size = pending_size(claim, to_mount.volume)
        if size is None:
            return
        await self._context.delay_or_stop()
        driver = self._drivers.get(to_mount.record.driver)
        try:
            if driver.can.expand_volume:
                await self._mounter.expand(to_mount, driver, size.value())
        except TonnageError as exc:
            note = f'MountVolume.NodeExpandVolume failed for volume "{to_mount.record.name}" : {exc.message}'
            self._recorder.event(pod, "Warning", _FAILURE, "Resizing", note)
            raise
        patch = finished_patch(claim, size)
        patched = await self._client.patch(
            PersistentVolumeClaim, claim.key, patch, patch_type="strategic", subresource="status"
        )
        self._claims.store(patched)
        note = f'MountVolume.NodeExpandVolume succeeded for volume "{to_mount.record.name}" {self._node}'
        self._recorder.event(pod, "Normal", _SUCCESS, "Resizing", note)
        self._recorder.event(claim, "Normal", _SUCCESS, "Resizing", note)
