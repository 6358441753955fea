"""Which volume matches a claim: the rules of the PV binder, without any I/O.

A volume whose `claimRef` names the claim matches if it is large enough and of the right kind; otherwise the smallest
suitable unbound volume does, unless the claim's class waits for its first consumer: then the scheduler chooses. Mirrors
FindMatchingVolume, its index by access modes, and checkVolumeSatisfyClaim. Node affinity plays no part: an immediate
claim is bound before its node is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim

AVAILABLE: Final = "Available"


def is_bound_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """True if the volume's `claimRef` names this claim, and its uid if set. Mirrors IsVolumeBoundToClaim."""
    owner = volume.spec.claim_ref
    return owner is not None and owner.key == claim.key and owner.uid in ("", claim.uid)


def find_matching_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, is_delayed: bool
) -> PersistentVolume | None:
    """The volume to bind a claim to; None if there is none. Raises InvalidSelector.

    A volume bound to the claim comes first. (Upstream may miss it; then the claim has two volumes for a while.) Free
    volumes are ordered by fewest access modes, smallest size, name.
    """
    best: PersistentVolume | None = None
    best_rank: tuple[int, int, str] | None = None
    for volume in volumes:
        if not _could_hold(volume, claim):
            continue
        if volume.spec.claim_ref is not None:
            if is_bound_to_claim(volume, claim):
                return volume
            continue
        if is_delayed or not _is_free_choice(volume, claim):
            continue
        rank = (len(set(volume.spec.access_modes)), volume.size.value(), volume.name)
        if best_rank is None or rank < best_rank:
            best, best_rank = volume, rank
    return best


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a volume that a person chose for a claim cannot be bound to it, in upstream's words; empty if it can."""
    if volume.metadata.is_terminating:
        return f'the volume is marked for deletion "{volume.name}"'
    if volume.size.value() < claim.requested_size.value():
        return "requested PV is too small"
    if volume.class_name != claim.class_name:
        return "storageClassName does not match"
    if volume.spec.volume_attributes_class_name != claim.spec.volume_attributes_class_name:
        return "volumeAttributesClassName does not match"
    if volume.spec.volume_mode != claim.spec.volume_mode:
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "incompatible accessMode"
    return ""


def _could_hold(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """The demands on every volume, also on one that is bound to the claim."""
    return (
        set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and not volume.size < claim.requested_size
        and volume.spec.volume_mode == claim.spec.volume_mode
        and volume.spec.volume_attributes_class_name == claim.spec.volume_attributes_class_name
        and not volume.metadata.is_terminating
    )


def _is_free_choice(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Further demands on a volume that nobody chose. A volume that is not Available yet soon will be."""
    if volume.status.phase != AVAILABLE or volume.class_name != claim.class_name:
        return False
    return claim.spec.selector is None or claim.spec.selector.matches(volume.metadata.labels)
