"""StatefulSet, the decision: names and ordinals, and the next steps for its pods, in order.

OrderedReady works on one ordinal at a time: a pod waits until all before it are available, scaling down starts from the
top when all below are available, and an update replaces from the top. A pod in the way (pending, not ready,
terminating) ends the plan; its next change queues the set again. Parallel creates and deletes many at once, but updates
one at a time. An ended pod is deleted; when it is gone, its empty ordinal is filled again.

The cost follows the existing pods, never `spec.replicas`: only the first empty ordinals are looked at. Mirrors
updateStatefulSet of stateful_set_control.go, with the gate MaxUnavailableStatefulSet off, as by default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Literal

import msgspec

from tonnage.behaviour.workloads.pod_states import NUMBERED_NAME, is_available, is_ready, ordinal_of
from tonnage.behaviour.workloads.templates import REVISION_HASH, controller_ref, pod_from_template, refers_to
from tonnage.objects.apps_v1 import StatefulSet, StatefulSetStatus
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc, copy
from tonnage.objects.meta import Object, OwnerReference

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


def is_member(owner: StatefulSet, pod: Pod) -> bool:
    """True if the pod's name could be one of this set."""
    parts = NUMBERED_NAME.fullmatch(pod.name)
    return parts is not None and parts[1] == owner.name


def ordinals(owner: StatefulSet) -> range:
    """The ordinals that the set should have, up to the largest that a pod's name can have (`ordinal_of`)."""
    start = owner.spec.ordinals.start
    return range(start, min(start + owner.spec.replicas, 2**31))


def is_ordered(owner: StatefulSet) -> bool:
    """True if its pods are created and deleted one by one."""
    return owner.spec.pod_management_policy != "Parallel"


def pod_name(owner: StatefulSet, ordinal: int) -> str:
    return f"{owner.name}-{ordinal}"


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION_HASH, "")


def claim_names(owner: StatefulSet, ordinal: int) -> dict[str, str]:
    """Claim name by template name, which is also the volume's."""
    names = (template.get("metadata", {}).get("name", "") for template in owner.spec.volume_claim_templates)
    return {name: f"{name}-{owner.name}-{ordinal}" for name in names}


def claims_for(owner: StatefulSet, ordinal: int) -> list[Doc]:
    """The claims of an ordinal, to be created if missing; labelled so that the set's selector matches them."""
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
    """The pod of an ordinal from this template, the set's own or an earlier one, named by `revision`."""
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
    """The owners of the claim of a wanted pod that does not exist yet."""
    policy = owner.spec.persistent_volume_claim_retention_policy
    return (controller_ref(owner),) if policy.when_deleted == "Delete" else ()


def owners_to_set(claim: PersistentVolumeClaim, owner: StatefulSet, pod: Pod) -> tuple[OwnerReference, ...] | None:
    """The owner references that the claim should have; None if they are right, or not ours to change."""
    references = claim.metadata.owner_references
    if has_stale_owner_ref(references, owner) or has_stale_owner_ref(references, pod):
        return None
    others = tuple(each for each in references if not refers_to(each, owner) and not refers_to(each, pod))
    if has_unexpected_controller(claim, owner, pod):
        return others if len(others) != len(references) else None
    policy, wanted = owner.spec.persistent_volume_claim_retention_policy, owners_at_creation(owner)
    if policy.when_scaled == "Delete" and ordinal_of(pod.name) not in ordinals(owner):
        wanted = (controller_ref(pod),)
    ours = tuple(reference for reference in references if reference not in others)
    is_right = {each.uid for each in ours} == {each.uid for each in wanted} and all(each.controller for each in ours)
    return None if is_right else (*others, *wanted)


def has_unexpected_controller(claim: PersistentVolumeClaim, owner: StatefulSet, pod: Pod) -> bool:
    """True if somebody else controls a claim that our retention policy would control."""
    policy = owner.spec.persistent_volume_claim_retention_policy
    if policy.when_deleted == "Retain" and policy.when_scaled == "Retain":
        return False
    references = claim.metadata.owner_references
    if has_stale_owner_ref(references, owner) or has_stale_owner_ref(references, pod):
        return True
    return any(each.controller and not refers_to(each, owner) and not refers_to(each, pod) for each in references)


def is_stale(claim: PersistentVolumeClaim, owner: StatefulSet, pod_name: str) -> bool:
    """True if the claim belongs to a deleted pod of this name: a new pod waits until the claim is gone, too."""
    if owner.spec.persistent_volume_claim_retention_policy.when_scaled == "Retain":
        return False
    return any(each.kind == "Pod" and each.name == pod_name for each in claim.metadata.owner_references)


def has_stale_owner_ref(references: Iterable[OwnerReference], owner: Object) -> bool:
    """True for a reference to an object of that kind and name with another uid."""
    found = next((reference for reference in references if refers_to(reference, owner)), None)
    return found is not None and found.uid != owner.uid


MOST_AT_ONCE: Final = 500
"""Pods and claims created in one round; the next round creates the next."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create the claims and the pod of an empty ordinal, at this revision."""

    ordinal: int
    revision: str


@dataclass(frozen=True, slots=True)
class PodStep:
    """A step for a pod that is there."""

    verb: Literal["delete", "create claims", "update"]
    """Delete it: it has ended, is scaled away, or has an old revision. Create its missing claims. Update its identity
    labels, and its claims' owners."""
    pod: Pod


Step = Create | PodStep


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The input of a plan, besides the set and its pods."""

    current_revision: str
    update_revision: str
    now: datetime
    held_back: Collection[str] = frozenset()
    """Names of pods that their node rejected again and again: not to be created yet."""
    claims: Callable[[int], Iterable[PersistentVolumeClaim]] = lambda _: ()
    """The known claims of an ordinal."""

    def has_mismatched_claims(self, owner: StatefulSet, pod: Pod) -> bool:
        """True if some of the pod's claims do not have the owners that the retention policy wants."""
        return any(owners_to_set(claim, owner, pod) is not None for claim in self.claims(ordinal_of(pod.name)))


def plan(owner: StatefulSet, pods: Iterable[Pod], observed: ObservedState) -> list[Step]:
    """The steps to take now, in order; a failed step ends the round. None for a terminating set."""
    if owner.metadata.is_terminating:
        return []
    by_ordinal = {ordinal_of(pod.name): pod for pod in pods}
    steps, is_settled = scale(owner, by_ordinal, observed, ordinals(owner))
    return _update(owner, by_ordinal, observed, steps) if is_settled else steps


def scale(
    owner: StatefulSet, by_ordinal: Mapping[int, Pod], observed: ObservedState, wanted: Sequence[int]
) -> tuple[list[Step], bool]:
    """The steps to a pod for every wanted ordinal, and none beyond; False if pods in the way end the plan.

    Ordinals whose pods are available may be left out: they need nothing, and nothing waits for them.
    """
    condemned = [by_ordinal[n] for n in sorted(by_ordinal, reverse=True) if n >= 0 and n not in wanted]
    steps: list[Step] = []
    # One new pod if ordered, else as many as one round creates with their claims.
    count = 1 if is_ordered(owner) else max(1, MOST_AT_ONCE // (1 + len(owner.spec.volume_claim_templates)))
    empty = islice((n for n in wanted if n not in by_ordinal), count)
    for ordinal in sorted([*(n for n in by_ordinal if n in wanted), *empty]):
        is_done = _process_replica(owner, ordinal, by_ordinal.get(ordinal), observed, steps)
        if not is_done and is_ordered(owner):
            return steps, False
    steps += [PodStep("update", pod) for pod in condemned if observed.has_mismatched_claims(owner, pod)]
    # With OrderedReady every wanted pod is available here, so the first unavailable one is condemned.
    unwell = (pod for pod in reversed(condemned) if _is_unavailable(owner, pod, observed.now))
    first_unwell = next(unwell, None)
    for pod in condemned:
        if pod.metadata.is_terminating:
            if is_ordered(owner):
                return steps, False
            continue
        if holds_up(owner, pod, observed.now) and pod is not first_unwell:
            return steps, False
        steps.append(PodStep("delete", pod))
        if is_ordered(owner):
            return steps, False
    return steps, True


def _process_replica(
    owner: StatefulSet, ordinal: int, pod: Pod | None, observed: ObservedState, steps: list[Step]
) -> bool:
    """Add the steps for one ordinal; True if it is available, so that the next one may be looked at."""
    if pod is None:
        name = pod_name(owner, ordinal)
        # A claim may still belong to a deleted pod of this name.
        if name not in observed.held_back and not any(is_stale(each, owner, name) for each in observed.claims(ordinal)):
            steps.append(Create(ordinal, revision_for(owner, ordinal, observed)))
        return False
    if pod.is_terminal:
        if not pod.metadata.is_terminating:
            steps.append(PodStep("delete", pod))
        return False
    if pod.status.phase == "Pending":
        steps.append(PodStep("create claims", pod))
    if holds_up(owner, pod, observed.now):
        return False
    if not has_identity(pod) or observed.has_mismatched_claims(owner, pod):
        steps.append(PodStep("update", pod))
    return True


def holds_up(owner: StatefulSet, pod: Pod, now: datetime) -> bool:
    """True if the pods of higher ordinals wait for this one."""
    return is_ordered(owner) and (_is_unavailable(owner, pod, now) or not _is_running_and_ready(pod))


def revision_for(owner: StatefulSet, ordinal: int, observed: ObservedState) -> str:
    """New pods get the update's revision; those below the partition the current one."""
    strategy = owner.spec.update_strategy
    is_kept = (
        strategy.type == "RollingUpdate" and ordinal < owner.spec.ordinals.start + strategy.rolling_update.partition
    )
    return observed.current_revision if is_kept else observed.update_revision


def _update(
    owner: StatefulSet, by_ordinal: Mapping[int, Pod], observed: ObservedState, steps: list[Step]
) -> list[Step]:
    """Replace the highest pod of another revision, if all above it are available."""
    if owner.spec.update_strategy.type == "OnDelete":
        return steps
    partition = owner.spec.update_strategy.rolling_update.partition
    for ordinal in reversed(ordinals(owner)[partition:]):
        pod = by_ordinal.get(ordinal)
        if pod is None:
            break  # just created: wait for it
        if revision_of(pod) != observed.update_revision and not pod.metadata.is_terminating:
            if PodStep("delete", pod) in steps:
                break  # it has ended and goes anyway
            return [*steps, PodStep("delete", pod)]
        if _is_unavailable(owner, pod, observed.now):
            break
    return steps


def status_of(
    owner: StatefulSet, pods: Sequence[Pod], observed: ObservedState, collision_count: int
) -> StatefulSetStatus:
    """The status from the pods that exist; a finished rolling update makes its revision the current one."""
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
