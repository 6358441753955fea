"""When a volume that was made larger must also be told to the node, and what the claim says afterwards.

The controller side has grown the volume (its PersistentVolume says so) and left the rest to the node: the claim's
status still has the old capacity, and usually the condition FileSystemResizePending. The node expands what is mounted
and then writes the new capacity; only then is the claim as large as its volume.
"""

from __future__ import annotations

from typing import Final

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import NODE_IN_PROGRESS, NODE_INFEASIBLE, NODE_PENDING, RESIZE_CONDITIONS
from tonnage.objects.document import Doc
from tonnage.quantity import Quantity

_ON_NODE: Final = ("", NODE_PENDING, NODE_IN_PROGRESS, NODE_INFEASIBLE)


def pending_size(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Quantity | None:
    """The size that the node shall expand to; None when there is nothing to do, or not yet."""
    size, before = volume.spec.capacity.get("storage"), claim.status.capacity.get("storage")
    if size is None or before is None or not before < size:
        return None
    if claim.status.allocated_resource_statuses.get("storage", "") not in _ON_NODE:
        return None  # the controller side is still at it
    return size


def finished_patch(claim: PersistentVolumeClaim, size: Quantity) -> Doc:
    """The claim's status once its volume has this size everywhere: a strategic patch. Mirrors MarkFSResizeFinished."""
    present = {condition.type for condition in claim.status.conditions}
    return {
        "metadata": {"uid": claim.uid},
        "status": {
            "capacity": {"storage": str(size)},
            "allocatedResourceStatuses": None,
            "conditions": [{"$patch": "delete", "type": each} for each in RESIZE_CONDITIONS if each in present],
        },
    }
