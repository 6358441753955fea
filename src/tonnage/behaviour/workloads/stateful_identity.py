"""StatefulSet, who is who: the names, labels, pods and claims that belong to an ordinal, and who owns the claims.

The pod of ordinal n is `<set>-<n>` and its claims are `<template>-<set>-<n>`, today and after every replacement. All is
made from documents, so that no field of a template is lost. Mirrors stateful_set_utils.go.

`persistentVolumeClaimRetentionPolicy` is kept by who owns a claim, since the garbage collector deletes what is owned:

    whenScaled  whenDeleted   the pod is wanted       the pod is scaled away
    Retain      Retain        nobody                  nobody
    Retain      Delete        the set                 the set
    Delete      Retain        nobody                  the pod
    Delete      Delete        the set                 the pod

A claim that another controller manages, or that names an earlier life of the set or the pod, is left alone. Mirrors
isClaimOwnerUpToDate and updateClaimOwnerRefForSetAndPod of stateful_set_utils.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tonnage.behaviour.workloads.templates import REVISION_HASH, controller_ref, pod_from_template, refers_to
from tonnage.objects.apps_v1 import StatefulSet
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc, copy
from tonnage.objects.meta import Object, OwnerReference
from tonnage.objects.texts.decode_budget import whole_number

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-([0-9]+)")


def ordinal_of(name: str) -> int:
    """The number at the end of a pod's name; -1 when there is none, or one beyond 32 bits."""
    parts = _NAME.fullmatch(name)
    number = whole_number(parts[2]) if parts else -1
    return number if number < 2**31 else -1


def is_member(owner: StatefulSet, pod: Pod) -> bool:
    """By its name, it could be a pod of this set."""
    parts = _NAME.fullmatch(pod.name)
    return parts is not None and parts[1] == owner.name


def ordinals(owner: StatefulSet) -> range:
    """The ordinals that the set is meant to have, of those that a pod's name can tell (`ordinal_of`)."""
    start = owner.spec.ordinals.start
    return range(start, min(start + owner.spec.replicas, 2**31))


def pod_name(owner: StatefulSet, ordinal: int) -> str:
    return f"{owner.name}-{ordinal}"


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION_HASH, "")


def claim_names(owner: StatefulSet, ordinal: int) -> dict[str, str]:
    """The name of each claim by that of its template, which is also the volume's."""
    names = (template.get("metadata", {}).get("name", "") for template in owner.spec.volume_claim_templates)
    return {name: f"{name}-{owner.name}-{ordinal}" for name in names}


def claims_for(owner: StatefulSet, ordinal: int) -> list[Doc]:
    """The claims of an ordinal, to be made where they are missing; labelled so that the set's selector finds them."""
    labels = dict(owner.spec.selector.match_labels) if owner.spec.selector is not None else {}
    names = claim_names(owner, ordinal)
    claims: list[Doc] = []
    for template in owner.spec.volume_claim_templates:
        wanted = template.get("metadata", {})
        metadata: Doc = {
            "name": names[wanted.get("name", "")],
            "namespace": owner.namespace,
            "labels": {**wanted.get("labels", {}), **labels},
        }
        metadata |= {field: copy(wanted[field]) for field in ("annotations", "finalizers") if wanted.get(field)}
        spec = copy(template.get("spec", {}))
        claims.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    return claims


def pod_for(owner: StatefulSet, template: Mapping[str, Any], ordinal: int, revision: str) -> Doc:
    """The pod of an ordinal from this template, which is the set's own or one of its past, named by `revision`."""
    doc = pod_from_template(template, owner)
    name = doc["metadata"]["name"] = pod_name(owner, ordinal)
    labels = doc["metadata"].setdefault("labels", {})
    labels |= {**identity_labels(name), REVISION_HASH: revision}
    spec = doc["spec"]
    spec["hostname"] = name
    if owner.spec.service_name:
        spec["subdomain"] = owner.spec.service_name
    else:
        spec.pop("subdomain", None)
    claims = claim_names(owner, ordinal)
    own = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims.items()]
    others = [volume for volume in spec.get("volumes", ()) if volume.get("name") not in claims]
    if own or others:
        spec["volumes"] = [*own, *others]
    return doc


def identity_labels(name: str) -> dict[str, str]:
    return {POD_NAME: name, POD_INDEX: str(ordinal_of(name))}


def has_identity(pod: Pod) -> bool:
    return pod.metadata.labels.get(POD_NAME) == pod.name


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
