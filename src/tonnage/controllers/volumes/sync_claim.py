"""The next step for a claim, as upstream's syncClaim decides it; one at a time, and no I/O.

                 ┌────────────── bind-completed? ──────────────┐
               no│                                             │yes
        spec.volumeName?                              its volume, and whose is it?
      no│            │yes                         ours or nobody's │        │ gone, or another's
    match? ─► Bind   volume free or ours ─► Bind        Bind (again) ◄┘        └► MarkLost
      │no            not there, not fit, taken ─► StayPending
    class? none yet and a default exists ─► AssignClass
      │    waits for a consumer that is not placed ─► StayPending
      │    otherwise ─► Provision         none at all ─► StayPending

`persistent_volume_binder` carries the steps out. Each may be taken twice: the second time changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tonnage.client.recorder import EventType
from tonnage.objects.core_v1 import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.objects.storage_v1 import StorageClass
from tonnage.objects.volume_matching import find_matching_volume, is_bound_to_claim, mismatch


@dataclass(frozen=True, slots=True)
class Note:
    """An event to record."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Make both sides name each other, and say that both are Bound."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class AssignClass:
    """Give the claim the default class; what follows is decided anew."""

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
    """Only record an event. `is_broken`: two objects contradict each other, and the claim is tried again."""

    note: Note
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class MarkLost:
    """The claim was bound and its volume is not there any more. This is final."""

    note: Note


ClaimStep = Bind | AssignClass | ProvisionClaim | StayPending | RecordEvent | MarkLost


@dataclass(frozen=True, slots=True)
class ClaimInputs:
    """What the next step of a claim depends on, besides the claim."""

    volume: Callable[[str], PersistentVolume | None]
    """A volume by name."""
    candidates: Iterable[PersistentVolume]
    """Volumes whose `claimRef` names the claim, and unbound ones."""
    storage_class: StorageClass | None
    """The class the claim names, None when it names none or an unknown one."""
    default_class: str | None
    """The class it would get if it has none."""
    waiting_pods: Callable[[], Sequence[str]]
    """Names of the pods that mount it and have no node yet."""


def claim_step(claim: PersistentVolumeClaim, inputs: ClaimInputs) -> ClaimStep:
    """The next step for a claim. Raises InvalidSelector."""
    if BIND_COMPLETED in claim.metadata.annotations:
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
    """What a claim says while somebody else makes its volume."""
    return Note(
        "Normal",
        "ExternalProvisioning",
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered.",
    )


def _step_for_bound(claim: PersistentVolumeClaim, inputs: ClaimInputs) -> ClaimStep:
    if not claim.spec.volume_name:
        text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return MarkLost(Note("Warning", "ClaimLost", text))
    volume = inputs.volume(claim.spec.volume_name)
    if volume is None:
        text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return MarkLost(Note("Warning", "ClaimLost", text))
    if volume.spec.claim_ref is None or volume.spec.claim_ref.uid == claim.uid:
        return Bind(volume)
    text = "Two claims are bound to the same volume, this one is bound incorrectly"
    return MarkLost(Note("Warning", "ClaimMisbound", text))


def _step_for_chosen(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimStep:
    """The claim names a volume, and the binding has not been completed: a person's choice, or a bind cut short."""
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
    if BOUND_BY_CONTROLLER in claim.metadata.annotations:
        return RecordEvent(taken, is_broken=True)  # somebody took the claim's bind-completed annotation away
    return StayPending(taken)


def _waiting_note(pods: Sequence[str]) -> Note:
    if not pods:
        text = "waiting for first consumer to be created before binding"
        return Note("Normal", "WaitForFirstConsumer", text)
    names = f"pod {pods[0]}" if len(pods) == 1 else f"pods {','.join(pods)}"
    return Note("Normal", "WaitForPodScheduled", f"waiting for {names} to be scheduled")


def _provisioning(name: str, storage_class: StorageClass | None) -> ClaimStep:
    if storage_class is None:
        return RecordEvent(Note("Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found'))
    provisioner = storage_class.provisioner
    if provisioner.startswith("kubernetes.io/"):  # the names of upstream's own plugins; none of them is left
        text = f"no volume plugin matched name: {provisioner}"
        return RecordEvent(Note("Warning", "ProvisioningFailed", text))
    return ProvisionClaim(provisioner)
