"""The next step for a volume, as upstream's syncVolume decides it; no I/O.

    claimRef            its claim                          step
    none, or no uid     -                                  Available
    with uid            gone                               Released, then by reclaim policy
                        does not name a volume yet         the claim is to be looked at
                        names this one                     Bound
                        names another                      made for it alone: Released; otherwise unbound

Released volumes of policy Retain stay as they are, for a person. Those of policy Delete are the provisioner's to
delete; a volume that no provisioner answers for becomes Failed, with an event that says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.controllers.volumes.sync_claim import Note
from tonnage.objects.core_v1 import PROVISIONED_BY, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.volume_matching import AVAILABLE

RELEASED: Final = "Released"
FAILED: Final = "Failed"
BOUND: Final = "Bound"
_MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"


@dataclass(frozen=True, slots=True)
class SetPhase:
    """Write the phase. The note is recorded when the phase changes by it."""

    phase: str
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Its claim is gone: make it Released, unless it is, and follow the reclaim policy."""


@dataclass(frozen=True, slots=True)
class Unbind:
    """Undo a binding that lost: the claim got another volume."""


@dataclass(frozen=True, slots=True)
class QueueClaim:
    """The claim's side of the binding is missing, which the claim's step completes."""


@dataclass(frozen=True, slots=True)
class RecordEvents:
    """Volume and claim cannot go together."""

    of_volume: Note
    of_claim: Note


VolumeStep = SetPhase | Release | Unbind | QueueClaim | RecordEvents


def volume_step(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumeStep:
    """The next step for a volume; `claim` is the very claim (by uid) that its `claimRef` means, None when it is gone.

    A release cannot be undone, so the caller has asked the server.
    """
    owner = volume.spec.claim_ref
    if owner is None or not owner.uid:
        return SetPhase(AVAILABLE)
    if claim is None:
        return Release()
    if not claim.spec.volume_name:
        if claim.spec.volume_mode == volume.spec.volume_mode:
            return QueueClaim()
        of_volume = (
            f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.name}" '
            "due to incompatible volumeMode."
        )
        of_claim = (
            f'Cannot bind PersistentVolume "{volume.name}" to requested PersistentVolumeClaim '
            "due to incompatible volumeMode."
        )
        reason = "VolumeMismatch"
        return RecordEvents(Note("Warning", reason, of_volume), Note("Warning", reason, of_claim))
    if claim.spec.volume_name == volume.name:
        return SetPhase(BOUND)
    is_made_for_it = PROVISIONED_BY in volume.metadata.annotations
    if is_made_for_it and volume.spec.persistent_volume_reclaim_policy == "Delete":
        return Release()
    return Unbind()


def reclaim_step(volume: PersistentVolume) -> SetPhase | None:
    """What a released volume becomes; None when it is left alone, for a person or for its provisioner."""
    if volume.metadata.annotations.get(_MIGRATED_TO):
        return None
    match volume.spec.persistent_volume_reclaim_policy:
        case "Retain":
            return None
        case "Delete":
            why = _why_nobody_deletes(volume)
            return SetPhase(FAILED, Note("Warning", "VolumeFailedDelete", why)) if why else None
        case "Recycle":
            text = "No recycler plugin found for the volume!"
            return SetPhase(FAILED, Note("Warning", "VolumeFailedRecycle", text))
        case _:
            text = "Volume has unrecognized PersistentVolumeReclaimPolicy"
            return SetPhase(FAILED, Note("Warning", "VolumeUnknownReclaimPolicy", text))


def _why_nobody_deletes(volume: PersistentVolume) -> str:
    provisioner = volume.metadata.annotations.get(PROVISIONED_BY, "")
    if provisioner:
        in_tree = provisioner.startswith("kubernetes.io/")
        return f"no volume plugin matched name: {provisioner}" if in_tree else ""
    if volume.spec.csi is not None:
        return ""
    return f'error getting deleter volume plugin for volume "{volume.name}": no deletable volume plugin matched'
