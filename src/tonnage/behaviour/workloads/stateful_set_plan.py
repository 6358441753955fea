"""StatefulSet, the decision: who is who by name, and what to do next to its pods, in order.

OrderedReady works on one ordinal at a time: each pod waits until all before it are available, scaling down starts from
the top when all below are well, and an update replaces from the top. A pod in the way (pending, not ready, on its way
out) ends the plan; its next change queues the set again. Parallel makes and deletes many at once, and updates one at
a time just the same. A pod that failed or succeeded is deleted; when it is gone, its ordinal is empty and filled again.

Its cost follows the pods that exist, never `spec.replicas`: of empty ordinals it sees the first few only. Mirrors
updateStatefulSet of stateful_set_control.go, with the gate MaxUnavailableStatefulSet closed as it is by default.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from tonnage.behaviour.workloads.pod_states import is_available, is_ready
from tonnage.behaviour.workloads.templates import REVISION_HASH, controller_ref, pod_from_template, refers_to
from tonnage.objects.apps_v1 import StatefulSet, StatefulSetStatus
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
    policy, wanted = owner.spec.persistent_volume_claim_retention_policy, owners_at_creation(owner)
    if policy.when_scaled == "Delete" and ordinal_of(pod.name) not in ordinals(owner):
        wanted = (controller_ref(pod),)
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


MOST_AT_ONCE: Final = 500
"""Pods and claims made in one round; the next round makes the next."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make the claims and the pod of an empty ordinal, at this revision."""

    ordinal: int
    revision: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod: it has ended, it is scaled away, or it is of another revision than the set's update."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class CreateClaims:
    """Make what is missing of a waiting pod's claims."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class UpdatePod:
    """Give a pod its identity labels and its claims their owners."""

    pod: Pod


Step = Create | DeletePod | CreateClaims | UpdatePod


@dataclass(frozen=True, slots=True)
class ObservedState:
    """What a plan is drawn from, besides the set and its pods."""

    current_revision: str
    update_revision: str
    now: datetime
    stale_claims: Collection[int] = frozenset()
    """Ordinals whose claims still belong to a pod that is gone."""
    held_back: Collection[str] = frozenset()
    """Names of pods that their node rejected again and again: not to be made yet."""
    mismatched_claims: Collection[str] = frozenset()
    """Names of pods whose claims do not have the owners that the retention policy wants."""


def plan(owner: StatefulSet, pods: Iterable[Pod], observed: ObservedState) -> list[Step]:
    """What to do now, in this order; a step that fails ends the round. Nothing for a set that is being deleted."""
    if owner.metadata.is_terminating:
        return []
    wanted = ordinals(owner)
    by_ordinal = {ordinal_of(pod.name): pod for pod in pods}
    condemned = [by_ordinal[n] for n in sorted(by_ordinal, reverse=True) if n >= 0 and n not in wanted]
    is_ordered = owner.spec.pod_management_policy != "Parallel"
    steps: list[Step] = []
    for ordinal in sorted([*(n for n in by_ordinal if n in wanted), *empty_ordinals(owner, by_ordinal)]):
        is_done = _process_replica(owner, ordinal, by_ordinal.get(ordinal), observed, steps)
        if not is_done and is_ordered:
            return steps
    steps += [UpdatePod(pod) for pod in condemned if pod.name in observed.mismatched_claims]
    # In order, this point is reached only when every wanted pod is available: the first who is not well is condemned.
    unwell = (pod for pod in reversed(condemned) if _is_unavailable(owner, pod, observed.now))
    first_unwell = next(unwell, None)
    for pod in condemned:
        if pod.metadata.is_terminating:
            if is_ordered:
                return steps
            continue
        is_well = _is_running_and_ready(pod) and is_available(pod, owner.spec.min_ready_seconds, observed.now)
        if is_ordered and not is_well and pod is not first_unwell:
            return steps
        steps.append(DeletePod(pod))
        if is_ordered:
            return steps
    return _update(owner, by_ordinal, observed, steps)


def empty_ordinals(owner: StatefulSet, taken: Collection[int]) -> list[int]:
    """The first wanted ordinals without a pod: one in order, else as many as one round makes with their claims."""
    is_ordered = owner.spec.pod_management_policy != "Parallel"
    count = 1 if is_ordered else max(1, MOST_AT_ONCE // (1 + len(owner.spec.volume_claim_templates)))
    return list(islice((n for n in ordinals(owner) if n not in taken), count))


def _process_replica(
    owner: StatefulSet, ordinal: int, pod: Pod | None, observed: ObservedState, steps: list[Step]
) -> bool:
    """Add what one ordinal needs; whether it is well, so that the next one may be looked at."""
    if pod is None:
        if ordinal not in observed.stale_claims and pod_name(owner, ordinal) not in observed.held_back:
            steps.append(Create(ordinal, revision_for(owner, ordinal, observed)))
        return False
    if pod.is_terminal:
        if not pod.metadata.is_terminating:
            steps.append(DeletePod(pod))
        return False
    if pod.status.phase == "Pending":
        steps.append(CreateClaims(pod))
    is_ordered = owner.spec.pod_management_policy != "Parallel"
    if is_ordered and (_is_unavailable(owner, pod, observed.now) or not _is_running_and_ready(pod)):
        return False
    if not has_identity(pod) or pod.name in observed.mismatched_claims:
        steps.append(UpdatePod(pod))
    return True


def revision_for(owner: StatefulSet, ordinal: int, observed: ObservedState) -> str:
    """New pods are of the update's revision; those below the partition stay at the current one."""
    strategy = owner.spec.update_strategy
    is_kept = (
        strategy.type == "RollingUpdate" and ordinal < owner.spec.ordinals.start + strategy.rolling_update.partition
    )
    return observed.current_revision if is_kept else observed.update_revision


def _update(
    owner: StatefulSet, by_ordinal: Mapping[int, Pod], observed: ObservedState, steps: list[Step]
) -> list[Step]:
    """Replace the highest pod of another revision, when all above it are available."""
    if owner.spec.update_strategy.type == "OnDelete":
        return steps
    partition = owner.spec.update_strategy.rolling_update.partition
    for ordinal in reversed(ordinals(owner)[partition:]):
        pod = by_ordinal.get(ordinal)
        if pod is None:
            break  # just made: it is waited for
        if revision_of(pod) != observed.update_revision and not pod.metadata.is_terminating:
            if DeletePod(pod) in steps:
                break  # it has ended and goes anyway
            return [*steps, DeletePod(pod)]
        if _is_unavailable(owner, pod, observed.now):
            break
    return steps


def status_of(
    owner: StatefulSet, pods: Sequence[Pod], observed: ObservedState, collision_count: int
) -> StatefulSetStatus:
    """The status by what is there; a finished rolling update makes its revision the current one."""
    ready = [pod for pod in pods if _is_running_and_ready(pod)]
    staying = [revision_of(pod) for pod in pods if not pod.metadata.is_terminating]
    status = StatefulSetStatus(
        replicas=len(pods),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, owner.spec.min_ready_seconds, observed.now) for pod in ready),
        current_replicas=staying.count(observed.current_revision),
        updated_replicas=staying.count(observed.update_revision),
        current_revision=observed.current_revision,
        update_revision=observed.update_revision,
        observed_generation=owner.metadata.generation,
        collision_count=collision_count,
        conditions=owner.status.conditions,
    )
    wanted = owner.spec.replicas
    is_updated = status.updated_replicas == status.ready_replicas == status.replicas == wanted
    if owner.spec.update_strategy.type == "RollingUpdate" and is_updated:
        current = {"current_replicas": status.updated_replicas, "current_revision": status.update_revision}
        return msgspec.structs.replace(status, **current)
    return status


def _is_running_and_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and is_ready(pod)


def _is_unavailable(owner: StatefulSet, pod: Pod, now: datetime) -> bool:
    return pod.metadata.is_terminating or not is_available(pod, owner.spec.min_ready_seconds, now)
