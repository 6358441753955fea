"""StatefulSet, what becomes of claims: the owner references that make the garbage collector do it.

`persistentVolumeClaimRetentionPolicy` is kept by who owns a claim:

    whenScaled  whenDeleted   the pod is wanted       the pod is scaled away
    Retain      Retain        nobody                  nobody
    Retain      Delete        the set                 the set
    Delete      Retain        nobody                  the pod
    Delete      Delete        the set                 the pod

A claim that another controller manages, or that names an earlier life of the set or the pod, is left alone. Mirrors
isClaimOwnerUpToDate and updateClaimOwnerRefForSetAndPod of stateful_set_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.objects.apps_v1 import StatefulSet
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object, OwnerReference
from tonnage.objects.templates.owner_references import controller_ref, refers_to
from tonnage.objects.templates.stateful_identity import ordinal_of, ordinals


def owners_at_creation(owner: StatefulSet) -> tuple[OwnerReference, ...]:
    """Who owns the claim of a pod that is wanted and not there yet."""
    policy = owner.spec.persistent_volume_claim_retention_policy
    return (controller_ref(owner),) if policy.when_deleted == "Delete" else ()


def owners_to_set(claim: PersistentVolumeClaim, owner: StatefulSet, pod: Pod) -> tuple[OwnerReference, ...] | None:
    """The owner references that the claim should have; None when they are right, or not ours to change."""
    references = claim.metadata.owner_references
    if has_stale_owner_ref(references, owner) or has_stale_owner_ref(references, pod):
        return None
    others = tuple(each for each in references if not refers_to(each, owner) and not refers_to(each, pod))
    if has_unexpected_controller(claim, owner, pod):
        return others if len(others) != len(references) else None
    wanted = tuple(controller_ref(each) for each in _wanted(owner, pod))
    ours = tuple(each for each in references if each not in others)
    is_right = {each.uid for each in ours} == {each.uid for each in wanted} and all(each.controller for each in ours)
    return None if is_right else (*others, *wanted)


def has_unexpected_controller(claim: PersistentVolumeClaim, owner: StatefulSet, pod: Pod) -> bool:
    """Somebody else manages the claim, and our policy would have us do so."""
    policy = owner.spec.persistent_volume_claim_retention_policy
    if policy.when_deleted == "Retain" and policy.when_scaled == "Retain":
        return False
    references = claim.metadata.owner_references
    if has_stale_owner_ref(references, owner) or has_stale_owner_ref(references, pod):
        return True
    return any(each.controller and not refers_to(each, owner) and not refers_to(each, pod) for each in references)


def is_stale(claim: PersistentVolumeClaim, owner: StatefulSet, pod_name: str) -> bool:
    """The claim goes with a pod of this name that is gone: a new pod waits until the claim is gone too."""
    if owner.spec.persistent_volume_claim_retention_policy.when_scaled == "Retain":
        return False
    return any(each.kind == "Pod" and each.name == pod_name for each in claim.metadata.owner_references)


def has_stale_owner_ref(references: Iterable[OwnerReference], owner: Object) -> bool:
    """A reference to something of that kind and name, with another uid."""
    found = next((each for each in references if refers_to(each, owner)), None)
    return found is not None and found.uid != owner.uid


def _wanted(owner: StatefulSet, pod: Pod) -> tuple[Object, ...]:
    policy = owner.spec.persistent_volume_claim_retention_policy
    is_scaled_away = ordinal_of(pod.name) not in ordinals(owner)
    if policy.when_scaled == "Delete" and is_scaled_away:
        return (pod,)
    return (owner,) if policy.when_deleted == "Delete" else ()
