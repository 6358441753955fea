"""The patches by which a volume and a claim are bound and unbound and get their phases; pure.

Every patch names the resourceVersion it was thought for. Somebody who was faster makes it a Conflict, so that no volume
is ever given to two claims and no later change is written over. None says that there is nothing to change.
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    PVC_PROTECTION,
    STORAGE_PROVISIONER,
    VOLUME_PROTECTION,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object
from tonnage.objects.volume_matching import is_bound_to_claim
from tonnage.quantity import InvalidQuantity, Quantity

BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
_PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"


def volume_bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Doc | None:
    """The volume's side of a binding. Mirrors GetBindVolumeToClaim."""
    owner = volume.spec.claim_ref
    patch = _at(volume)
    if owner is None or owner.key != claim.key or owner.uid != claim.uid:
        patch["spec"] = {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
                "resourceVersion": claim.metadata.resource_version,
            }
        }
    if not is_bound_to_claim(volume, claim) and BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        patch["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return _if_more(patch)


def volume_unbound(volume: PersistentVolume) -> Doc:
    """Undo our binding altogether, or leave a person's choice without the uid. Mirrors unbindVolume."""
    patch = _at(volume)
    if BOUND_BY_CONTROLLER in volume.metadata.annotations:
        patch["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: None}
        patch["spec"] = {"claimRef": None}
    else:
        patch["spec"] = {"claimRef": {"uid": None}}
    return patch


def volume_phase(volume: PersistentVolume, phase: str, message: str = "", *, finalizer: str = "") -> Doc | None:
    """A volume's phase, and with it a finalizer that it is about to get in any case."""
    if volume.status.phase == phase:
        return None
    patch = _at(volume)
    if finalizer and finalizer not in volume.metadata.finalizers and not volume.metadata.is_terminating:
        patch["metadata"]["finalizers"] = [*volume.metadata.finalizers, finalizer]
    return {**patch, "status": {"phase": phase, "message": message or None}}


def claim_bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Doc | None:
    """The claim's side of a binding. Mirrors bindClaimToVolume.

    From here on there is something to protect, and the finalizer comes with the same write (see `protection`). That of
    a provisioner goes with it: it held the claim until the volume that was made for it is written down, as this one is.
    """
    patch = _at(claim)
    annotations: dict[str, str] = {}
    if claim.spec.volume_name != volume.name:
        patch["spec"] = {"volumeName": volume.name}
        if BOUND_BY_CONTROLLER not in claim.metadata.annotations:
            annotations[BOUND_BY_CONTROLLER] = "yes"
    if BIND_COMPLETED not in claim.metadata.annotations:
        annotations[BIND_COMPLETED] = "yes"
    if annotations:
        patch["metadata"]["annotations"] = annotations
        before = claim.metadata.finalizers
        finalizers = [each for each in before if each != VOLUME_PROTECTION or not _is_made_for(volume, claim)]
        if PVC_PROTECTION not in finalizers and not claim.metadata.is_terminating:
            finalizers.append(PVC_PROTECTION)
        if finalizers != list(before):
            patch["metadata"]["finalizers"] = finalizers
    return _if_more(patch)


def _is_made_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a provisioner made the volume for this very claim."""
    owner = volume.spec.claim_ref
    return owner is not None and owner.uid == claim.uid and PROVISIONED_BY in volume.metadata.annotations


def claim_class(claim: PersistentVolumeClaim, name: str) -> Doc:
    return {**_at(claim), "spec": {"storageClassName": name}}


def claim_provisioner(claim: PersistentVolumeClaim, provisioner: str) -> Doc | None:
    """The annotations that external provisioners wait for, the old one too."""
    if claim.metadata.annotations.get(STORAGE_PROVISIONER) == provisioner:
        return None
    patch = _at(claim)
    patch["metadata"]["annotations"] = {BETA_STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER: provisioner}
    return patch


def claim_status(claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None) -> Doc | None:
    """A claim's phase, and what its volume offers. Mirrors updateClaimStatus.

    The capacity is written when the claim becomes bound and not again: later it may differ on purpose, while a file
    system still has to grow. Raises TonnageError for a volume without a size.
    """
    now: dict[str, Any] = {}
    before = claim.status
    if before.phase != phase:
        now["phase"] = phase
    if volume is None:
        if before.access_modes:
            now["accessModes"] = None
        if before.capacity:
            now["capacity"] = None
        if before.current_volume_attributes_class_name:
            now["currentVolumeAttributesClassName"] = None
    else:
        if before.access_modes != volume.spec.access_modes:
            now["accessModes"] = list(volume.spec.access_modes)
        if before.phase != phase:
            size = _size_to_tell(volume)
            if before.capacity.get("storage") != size:
                now["capacity"] = {"storage": str(size)}
            name = volume.spec.volume_attributes_class_name
            if before.phase == "Pending" and before.current_volume_attributes_class_name != name:
                now["currentVolumeAttributesClassName"] = name or None
    return {**_at(claim), "status": now} if now else None


def _size_to_tell(volume: PersistentVolume) -> Quantity:
    size = volume.spec.capacity.get("storage")
    if size is None:
        raise TonnageError(f'PersistentVolume "{volume.name}" is without a storage capacity')
    before = volume.metadata.annotations.get(_PRE_RESIZE_CAPACITY)
    if before is None:
        return size
    try:
        return Quantity.parse(before)
    except InvalidQuantity:
        return size


def _at(each: Object) -> Doc:
    return {"metadata": {"resourceVersion": each.metadata.resource_version}}


def _if_more(patch: Doc) -> Doc | None:
    return patch if "spec" in patch or "annotations" in patch["metadata"] else None
