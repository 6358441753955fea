"""StatefulSet, the decision: what to do next to its pods, in order.

OrderedReady works on one ordinal at a time: each pod waits until all before it are available, scaling down starts from
the top when all below are well, and an update replaces from the top. A pod in the way (pending, not ready, on its way
out) ends the plan; its next change queues the set again. Parallel makes and deletes many at once, and updates one at
a time just the same. A pod that failed or succeeded is deleted; when it is gone, its ordinal is empty and filled again.

The plan looks at a moment and promises nothing about the next: it is drawn anew after each change. Its cost follows the
pods that exist, never `spec.replicas`: of empty ordinals it sees the first few only (`empty_ordinals`). Mirrors
updateStatefulSet of stateful_set_control.go, with the gate MaxUnavailableStatefulSet closed as it is by default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from tonnage.behaviour.workloads.availability import is_available, is_ready
from tonnage.behaviour.workloads.stateful_identity import has_identity, ordinal_of, ordinals, pod_name, revision_of
from tonnage.objects.apps_v1 import StatefulSet, StatefulSetStatus
from tonnage.objects.core_v1 import Pod

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
    """What to do now, in this order; a step that fails ends the round.

    A set that is being deleted is left to the garbage collector.
    """
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
