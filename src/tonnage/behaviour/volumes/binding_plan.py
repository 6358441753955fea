"""The next step for a claim or a volume, one at a time, as upstream's syncClaim and syncVolume decide it.

                 ┌────────────── bind-completed? ──────────────┐
               no│                                             │yes
        spec.volumeName?                              its volume, and whose is it?
      no│            │yes                         ours or nobody's │        │ gone, or another's
    match? ─► Bind   volume free or ours ─► Bind        Bind (again) ◄┘        └► MarkLost
      │no            not there, not fit, taken ─► StayPending
    class? none yet and a default exists ─► AssignClass
      │    waits for a consumer that is not placed ─► StayPending
      │    otherwise ─► Provision         none at all ─► StayPending

    claimRef            its claim                          step
    none, or no uid     -                                  Available
    with uid            gone                               Released, then by reclaim policy
                        does not name a volume yet         the claim is queued
                        names this one                     Bound
                        names another                      made for it alone: Released; otherwise unbound

Every step may be repeated: the second time changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

from tonnage import errors, quantity
from tonnage.objects import core_v1, meta, storage_v1
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.document import Doc
from tonnage.objects.volume_matching import AVAILABLE, find_matching_volume, is_bound_to_claim, mismatch


@dataclass(frozen=True, slots=True)
class Note:
    """An event to record."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind both sides to each other, and set both phases to Bound."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class AssignClass:
    """Give the claim the default class; the next step is decided again."""

    name: str


@dataclass(frozen=True, slots=True)
class ProvisionClaim:
    """Ask the class's provisioner for a volume, by annotation."""

    provisioner: str


@dataclass(frozen=True, slots=True)
class StayPending:
    """There is nothing to bind to yet."""

    note: Note | None = None


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Only record an event. `is_broken`: two objects contradict each other, and the claim is retried."""

    note: Note
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class MarkLost:
    """The claim was bound and its volume is gone. This is final."""

    note: Note


ClaimStep = Bind | AssignClass | ProvisionClaim | StayPending | RecordEvent | MarkLost


@dataclass(frozen=True, slots=True)
class ClaimInputs:
    """What the next step of a claim depends on, besides the claim."""

    volume: Callable[[str], PersistentVolume | None]
    candidates: Iterable[PersistentVolume]
    """Volumes whose `claimRef` names the claim, and unbound ones."""
    storage_class: storage_v1.StorageClass | None
    """The claim's class; None if it names none or an unknown one."""
    default_class: str | None
    """The class that a claim without one would get."""
    waiting_pods: Callable[[], Sequence[str]]
    """Names of the pods that mount it and have no node yet."""


def claim_step(claim: PersistentVolumeClaim, inputs: ClaimInputs) -> ClaimStep:
    """The next step for a claim. Raises InvalidSelector."""
    if core_v1.BIND_COMPLETED in claim.metadata.annotations:
        return _step_for_bound(claim, inputs)
    if claim.spec.volume_name:
        return _step_for_chosen(claim, inputs.volume(claim.spec.volume_name))
    is_delayed = inputs.storage_class is not None and inputs.storage_class.waits_for_consumer
    match = find_matching_volume(claim, inputs.candidates, is_delayed=is_delayed)
    if match is not None:
        return Bind(match)
    if inputs.default_class is not None:
        return AssignClass(inputs.default_class)
    if is_delayed and not claim.selected_node:
        return StayPending(_waiting_note(inputs.waiting_pods()))
    if claim.class_name:
        return _provisioning(claim.class_name, inputs.storage_class)
    text = "no persistent volumes available for this claim and no storage class is set"
    return StayPending(Note("Normal", "FailedBinding", text))


def provisioning_note(provisioner: str) -> Note:
    return Note(
        "Normal",
        "ExternalProvisioning",
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered.",
    )


def _step_for_bound(claim: PersistentVolumeClaim, inputs: ClaimInputs) -> ClaimStep:
    volume = inputs.volume(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is None:
        what = "its PersistentVolume" if claim.spec.volume_name else "reference to PersistentVolume"
        return MarkLost(Note("Warning", "ClaimLost", f"Bound claim has lost {what}. Data on the volume is lost!"))
    if volume.spec.claim_ref is None or volume.spec.claim_ref.uid == claim.uid:
        return Bind(volume)
    text = "Two claims are bound to the same volume, this one is bound incorrectly"
    return MarkLost(Note("Warning", "ClaimMisbound", text))


def _step_for_chosen(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimStep:
    """The claim names a volume, but is not bound completely: a person's choice, or an interrupted binding."""
    if volume is None:
        return StayPending()
    if volume.spec.claim_ref is None:
        why = mismatch(volume, claim)
        if why:
            text = f'Cannot bind to requested volume "{volume.name}": {why}'
            return StayPending(Note("Warning", "VolumeMismatch", text))
        return Bind(volume)
    if is_bound_to_claim(volume, claim):
        return Bind(volume)
    taken = Note("Warning", "FailedBinding", f'volume "{volume.name}" already bound to a different claim.')
    if core_v1.BOUND_BY_CONTROLLER in claim.metadata.annotations:
        return RecordEvent(taken, is_broken=True)  # somebody removed the claim's bind-completed annotation
    return StayPending(taken)


def _waiting_note(pods: Sequence[str]) -> Note:
    if not pods:
        text = "waiting for first consumer to be created before binding"
        return Note("Normal", "WaitForFirstConsumer", text)
    names = f"pod {pods[0]}" if len(pods) == 1 else f"pods {','.join(pods)}"
    return Note("Normal", "WaitForPodScheduled", f"waiting for {names} to be scheduled")


def _provisioning(name: str, storage_class: storage_v1.StorageClass | None) -> ClaimStep:
    if storage_class is None:
        return RecordEvent(Note("Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found'))
    provisioner = storage_class.provisioner
    if provisioner.startswith("kubernetes.io/"):  # names of upstream's in-tree plugins; none is left
        text = f"no volume plugin matched name: {provisioner}"
        return RecordEvent(Note("Warning", "ProvisioningFailed", text))
    return ProvisionClaim(provisioner)


RELEASED: Final = "Released"
FAILED: Final = "Failed"
BOUND: Final = "Bound"
_MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"


@dataclass(frozen=True, slots=True)
class SetPhase:
    """Write the phase. The note is recorded if the phase changes."""

    phase: str
    note: Note | None = None


class VolumeAction(Enum):
    RELEASE = "release"
    """The claim is gone: set the phase to Released, and follow the reclaim policy."""
    UNBIND = "unbind"
    """Undo a binding that lost: the claim got another volume."""
    QUEUE_CLAIM = "queue claim"
    """The claim's side of the binding is missing; the claim's own step completes it."""


@dataclass(frozen=True, slots=True)
class RecordEvents:
    """Volume and claim do not fit together."""

    of_volume: Note
    of_claim: Note


VolumeStep = SetPhase | VolumeAction | RecordEvents


def volume_step(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumeStep:
    """The next step for a volume. `claim` is the claim of its `claimRef`, by uid; None if it is gone.

    A release cannot be undone, so the caller must have asked the server.
    """
    owner = volume.spec.claim_ref
    if owner is None or not owner.uid:
        return SetPhase(AVAILABLE)
    if claim is None:
        return VolumeAction.RELEASE
    if not claim.spec.volume_name:
        if claim.spec.volume_mode == volume.spec.volume_mode:
            return VolumeAction.QUEUE_CLAIM
        mode = "due to incompatible volumeMode."
        of_volume = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.name}" {mode}'
        of_claim = f'Cannot bind PersistentVolume "{volume.name}" to requested PersistentVolumeClaim {mode}'
        return RecordEvents(*(Note("Warning", "VolumeMismatch", text) for text in (of_volume, of_claim)))
    if claim.spec.volume_name == volume.name:
        return SetPhase(BOUND)
    is_made_for_it = core_v1.PROVISIONED_BY in volume.metadata.annotations
    if is_made_for_it and volume.spec.persistent_volume_reclaim_policy == "Delete":
        return VolumeAction.RELEASE
    return VolumeAction.UNBIND


def reclaim_step(volume: PersistentVolume) -> SetPhase | None:
    """The next phase of a released volume; None to leave it to a person or to its provisioner."""
    policy = volume.spec.persistent_volume_reclaim_policy
    if volume.metadata.annotations.get(_MIGRATED_TO) or policy == "Retain":
        return None
    reason, why = "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy"
    if policy == "Delete":
        reason, why = "VolumeFailedDelete", _why_nobody_deletes(volume)
    elif policy == "Recycle":
        reason, why = "VolumeFailedRecycle", "No recycler plugin found for the volume!"
    return SetPhase(FAILED, Note("Warning", reason, why)) if why else None


def _why_nobody_deletes(volume: PersistentVolume) -> str:
    provisioner = volume.metadata.annotations.get(core_v1.PROVISIONED_BY, "")
    if provisioner:
        in_tree = provisioner.startswith("kubernetes.io/")
        return f"no volume plugin matched name: {provisioner}" if in_tree else ""
    if volume.spec.csi is not None:
        return ""
    return f'error getting deleter volume plugin for volume "{volume.name}": no deletable volume plugin matched'


BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
_PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"


# -- patches: they name the version they were made for, so that no volume is ever given to two claims; None: no change


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
    if not is_bound_to_claim(volume, claim) and core_v1.BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        patch["metadata"]["annotations"] = {core_v1.BOUND_BY_CONTROLLER: "yes"}
    return _if_more(patch)


def volume_unbound(volume: PersistentVolume) -> Doc:
    """Undo our binding, or remove only the uid from a person's choice. Mirrors unbindVolume."""
    patch = _at(volume)
    if core_v1.BOUND_BY_CONTROLLER in volume.metadata.annotations:
        patch["metadata"]["annotations"] = {core_v1.BOUND_BY_CONTROLLER: None}
        patch["spec"] = {"claimRef": None}
    else:
        patch["spec"] = {"claimRef": {"uid": None}}
    return patch


def volume_phase(volume: PersistentVolume, phase: str, message: str = "", *, finalizer: str = "") -> Doc | None:
    """A volume's phase and, in the same write, a finalizer that it will get anyway."""
    if volume.status.phase == phase:
        return None
    patch = _at(volume)
    if finalizer and finalizer not in volume.metadata.finalizers and not volume.metadata.is_terminating:
        patch["metadata"]["finalizers"] = [*volume.metadata.finalizers, finalizer]
    return {**patch, "status": {"phase": phase, "message": message or None}}


def claim_bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Doc | None:
    """The claim's side of a binding. Mirrors bindClaimToVolume.

    A bound claim needs protection, so its finalizer comes with the same write (see `protection`). The provisioner's
    finalizer goes: it kept the claim until its new volume was saved, which is now.
    """
    patch = _at(claim)
    annotations: dict[str, str] = {}
    if claim.spec.volume_name != volume.name:
        patch["spec"] = {"volumeName": volume.name}
        if core_v1.BOUND_BY_CONTROLLER not in claim.metadata.annotations:
            annotations[core_v1.BOUND_BY_CONTROLLER] = "yes"
    if core_v1.BIND_COMPLETED not in claim.metadata.annotations:
        annotations[core_v1.BIND_COMPLETED] = "yes"
    if annotations:
        patch["metadata"]["annotations"] = annotations
        before, owner = claim.metadata.finalizers, volume.spec.claim_ref
        is_ours = owner is not None and owner.uid == claim.uid
        is_made_for_it = is_ours and core_v1.PROVISIONED_BY in volume.metadata.annotations
        finalizers = [each for each in before if each != core_v1.VOLUME_PROTECTION or not is_made_for_it]
        if core_v1.PVC_PROTECTION not in finalizers and not claim.metadata.is_terminating:
            finalizers.append(core_v1.PVC_PROTECTION)
        if finalizers != list(before):
            patch["metadata"]["finalizers"] = finalizers
    return _if_more(patch)


def claim_class(claim: PersistentVolumeClaim, name: str) -> Doc:
    return {**_at(claim), "spec": {"storageClassName": name}}


def claim_provisioner(claim: PersistentVolumeClaim, provisioner: str) -> Doc | None:
    """The annotations that external provisioners wait for, including the old one."""
    if claim.metadata.annotations.get(core_v1.STORAGE_PROVISIONER) == provisioner:
        return None
    patch = _at(claim)
    patch["metadata"]["annotations"] = {BETA_STORAGE_PROVISIONER: provisioner, core_v1.STORAGE_PROVISIONER: provisioner}
    return patch


def claim_status(claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None) -> Doc | None:
    """A claim's phase, and what its volume offers. Mirrors updateClaimStatus.

    The capacity is only written when the claim becomes bound: later it may differ on purpose, while a file system still
    has to grow. Raises TonnageError for a volume without a size.
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


def _size_to_tell(volume: PersistentVolume) -> quantity.Quantity:
    size = volume.spec.capacity.get("storage")
    if size is None:
        raise errors.TonnageError(f'PersistentVolume "{volume.name}" is without a storage capacity')
    before = volume.metadata.annotations.get(_PRE_RESIZE_CAPACITY)
    if before is None:
        return size
    try:
        return quantity.Quantity.parse(before)
    except quantity.InvalidQuantity:
        return size


def _at(each: meta.Object) -> Doc:
    return {"metadata": {"resourceVersion": each.metadata.resource_version}}


def _if_more(patch: Doc) -> Doc | None:
    return patch if "spec" in patch or "annotations" in patch["metadata"] else None
