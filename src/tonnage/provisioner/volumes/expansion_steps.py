"""Expanding a volume: to which size now, and what the claim's status says at every step. Pure.

    request > status.capacity
        │ allocatedResources = request, ControllerResizeInProgress, condition Resizing
        ▼
    ControllerExpandVolume ──► PV capacity ──┬─ the node has to do its part: NodeResizePending
        │ refused                            └─ nothing left to do: status.capacity, conditions off
        ▼
    condition ControllerResizeError; what can never work is ControllerResizeInfeasible, and is tried rarely

A size in doubt is finished before another is begun. Mirrors external-resizer's expandAndRecover and resize_status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from tonnage.clock import rfc3339
from tonnage.csi.errors import Code, is_in_doubt
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, persistent_volume
from tonnage.objects.document import Doc
from tonnage.quantity import Quantity

NODE_EXPANSION_NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"

_WAITING_FOR_NODE: Final = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."

_INFEASIBLE: Final = frozenset({Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND})


def belongs_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    owner = volume.spec.claim_ref
    return owner is not None and owner.namespace == claim.namespace and owner.uid == claim.uid


def size_to_reach(
    claim: PersistentVolumeClaim, volume: PersistentVolume, *, by_controller: bool, was_refused: bool
) -> Quantity | None:
    """The size to request from the driver now; None if it is the node's turn, or nothing is to be done.

    `by_controller`: the driver expands by controller calls. `was_refused`: its last answer was a clear refusal.
    """
    asked, known = claim.requested, claim.status.capacity.get("storage")
    is_bound = claim.status.phase == "Bound" and bool(claim.spec.volume_name)
    if not is_bound or asked is None or (known is not None and asked <= known):
        return None
    has = volume.spec.capacity.get("storage", Quantity.from_int(0))
    status = claim.status.allocated_resource_statuses.get("storage", "")
    allocated = claim.status.allocated_resources.get("storage")
    if has < asked:
        if allocated is None:
            return asked
        if status in (persistent_volume.NODE_PENDING, persistent_volume.NODE_IN_PROGRESS):
            return None if has >= allocated else allocated  # finish the expansion that was begun first
        if status == persistent_volume.NODE_INFEASIBLE or (
            status == persistent_volume.CONTROLLER_IN_PROGRESS and not was_refused
        ):
            return allocated
        return asked
    if status in (persistent_volume.NODE_PENDING, persistent_volume.NODE_IN_PROGRESS):
        return None
    if status == persistent_volume.NODE_INFEASIBLE:
        return allocated if by_controller and allocated is not None else asked
    if (
        status == ""
        and allocated is None
        and any(each.type == persistent_volume.FS_PENDING for each in claim.status.conditions)
    ):
        return None  # a server that drops the newer fields still shows the condition
    return allocated if allocated is not None else asked


def is_final(code: Code) -> bool:
    """True if the driver is not at work. Unlike upstream, "no capacity" is final: the claim may request less."""
    return not is_in_doubt(code)


def is_infeasible(code: Code) -> bool:
    return code in _INFEASIBLE


# -- what is written --------------------------------------------------------------------------------------------------


def begun(claim: PersistentVolumeClaim, size: Quantity, now: datetime) -> Doc:
    """The patch before the driver is asked for this size; empty if it is already written."""
    is_same = claim.status.allocated_resources.get("storage") == size
    status: Doc = {"conditions": _merged(claim, [condition(persistent_volume.RESIZING, now)], keeps_old=is_same)}
    if not is_same:
        status["allocatedResources"] = {"storage": str(size)}
        status["allocatedResourceStatuses"] = {"storage": persistent_volume.CONTROLLER_IN_PROGRESS}
    elif any(each.type == persistent_volume.RESIZING and each.is_true for each in claim.status.conditions):
        return {}
    return status_patch(claim, status, {NODE_EXPANSION_NOT_REQUIRED: None})


def left_to_node(claim: PersistentVolumeClaim, now: datetime) -> Doc:
    """The patch after the controller's part: the node has to do its own."""
    told = condition(persistent_volume.FS_PENDING, now, _WAITING_FOR_NODE)
    status = {
        "conditions": _merged(claim, [told], keeps_old=True),
        "allocatedResourceStatuses": {"storage": persistent_volume.NODE_PENDING},
    }
    return status_patch(claim, status, {NODE_EXPANSION_NOT_REQUIRED: None})


def finished(claim: PersistentVolumeClaim, size: Quantity) -> Doc:
    """The patch when all is done; it tells the node that it has nothing to do."""
    status = {
        "capacity": {"storage": str(size)},
        "conditions": _merged(claim, [], keeps_old=False),
        "allocatedResourceStatuses": {"storage": None},
    }
    return status_patch(claim, status, {NODE_EXPANSION_NOT_REQUIRED: "true"})


def refused(claim: PersistentVolumeClaim, why: str, now: datetime, *, infeasible: bool) -> Doc:
    told = condition(persistent_volume.CONTROLLER_ERROR, now, f"failed to expand pvc with {why}")
    status: Doc = {"conditions": _merged(claim, [told], keeps_old=True)}
    if infeasible:
        status["allocatedResourceStatuses"] = {"storage": persistent_volume.CONTROLLER_INFEASIBLE}
    return status_patch(claim, status, {})


def grown(volume: PersistentVolume, size: Quantity, before: Quantity | None, *, by_node: bool) -> Doc:
    """The patch with the volume's new size and, if the node has work left, its old size."""
    metadata: Doc = {"resourceVersion": volume.metadata.resource_version}
    if by_node and before is not None and PRE_RESIZE_CAPACITY not in volume.metadata.annotations:
        metadata["annotations"] = {PRE_RESIZE_CAPACITY: str(before)}
    return {"metadata": metadata, "spec": {"capacity": {"storage": str(size)}}}


def is_node_done(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """True if the annotation with the old size can go."""
    has, size = claim.status.capacity.get("storage"), volume.spec.capacity.get("storage")
    is_marked = PRE_RESIZE_CAPACITY in volume.metadata.annotations
    return is_marked and has is not None and size is not None and has >= size


def status_patch(claim: PersistentVolumeClaim, status: Doc, annotations: Mapping[str, str | None]) -> Doc:
    metadata: Doc = {"resourceVersion": claim.metadata.resource_version}
    if changed := {key: value for key, value in annotations.items() if claim.metadata.annotations.get(key) != value}:
        metadata["annotations"] = changed
    return {"metadata": metadata, "status": status}


def condition(type: str, now: datetime, message: str = "") -> Doc:
    found = {"type": type, "status": "True", "lastTransitionTime": rfc3339(now)}
    return {**found, "message": message} if message else found


def _merged(claim: PersistentVolumeClaim, new: Iterable[Doc], *, keeps_old: bool) -> list[Doc]:
    """The claim's conditions, with `new` replacing equal types; other resize conditions go unless `keeps_old`."""
    wanted: dict[str, Any] = {each["type"]: each for each in new}
    merged: list[Doc] = []
    for known in claim.status.conditions:
        if known.type in wanted:
            merged.append(wanted.pop(known.type))
        elif keeps_old or known.type not in persistent_volume.RESIZE_CONDITIONS:
            merged.append(to_doc(known))
    return [*merged, *wanted.values()]
