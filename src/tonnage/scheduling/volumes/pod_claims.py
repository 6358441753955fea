"""A pod's claims, looked up and sorted by how far they are: bound, to be bound when the pod has a node, or too late.

Every plugin that judges volumes starts from here; `claims_of` looks them up once per attempt. What a claim is asked for
twice (mounted under two names) stands here twice, in the pod's order.

    bound      names its volume, and the binder has finished
    delayed    its class waits for the first consumer: this pod, and so this decision
    immediate  somebody else has to bind it first; until then the pod waits

The words of the refusals are upstream's (VolumeBinding.podHasPVCs).
"""

from __future__ import annotations

from typing import NamedTuple

from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.framework import Cycle, Status, unresolvable

_STATE = "claims"
_ONE_POD = "ReadWriteOncePod"


class PodClaims(NamedTuple):
    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    immediate: tuple[PersistentVolumeClaim, ...] = ()
    are_new: bool = False
    """All of them are delayed, were named by the pod, may be shared, and no node was selected for any: nothing but
    their classes and sizes is to be known of them."""


NO_CLAIMS = PodClaims()


def new_claims_of(cycle: Cycle) -> tuple[PersistentVolumeClaim, ...]:
    """The claims of this attempt's pod if all are new (`PodClaims.are_new`); none if it has none, or others too.

    Most pods that wait for volumes are like this, and most plugins have little to say about them.
    """
    if not cycle.pod.has_claims:
        return ()
    found = claims_of(cycle)
    return found.delayed if isinstance(found, PodClaims) and found.are_new else ()


def claims_of(cycle: Cycle) -> PodClaims | Status:
    """The claims of this attempt's pod, looked up once; or why it has to wait for one of them, for good or for now."""
    found: PodClaims | Status | None = cycle.state.get(_STATE)
    if found is None:
        found = cycle.state[_STATE] = sorted_claims(cycle.pod, cycle.cluster.storage)
    return found


def sorted_claims(pod: PodInfo, storage: Storage) -> PodClaims | Status:
    """Look a pod's claims up. A refusal for one that is missing, lost, going away, or made for another pod."""
    if not pod.has_claims:
        return NO_CLAIMS
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    immediate: list[PersistentVolumeClaim] = []
    are_new = True
    for volume in pod.pod.spec.volumes:
        name = volume.claim_name(pod.pod.name)
        if name is None:
            continue
        is_ephemeral = volume.ephemeral is not None
        claim = storage.claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            return unresolvable(_missing(name, is_ephemeral))
        if problem := _problem(claim, pod.pod, is_ephemeral):
            return unresolvable(problem)
        if claim.is_bound:
            bound.append(claim)
        elif not claim.spec.volume_name and is_delayed(claim, storage):
            delayed.append(claim)
            if is_ephemeral or _ONE_POD in claim.spec.access_modes or claim.selected_node:
                are_new = False
        else:
            immediate.append(claim)
    are_new = are_new and not (bound or immediate)
    return PodClaims(tuple(bound), tuple(delayed), tuple(immediate), are_new)


def _missing(name: str, is_ephemeral: bool) -> str:
    if is_ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    return f'persistentvolumeclaim "{name}" not found'


def _problem(claim: PersistentVolumeClaim, pod: Pod, is_ephemeral: bool) -> str:
    if claim.status.phase == "Lost":
        lost = claim.spec.volume_name
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{lost}"'
    if claim.metadata.is_terminating:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if is_ephemeral and not claim.is_for_pod(pod):
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return ""


def is_delayed(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """Whether the claim's volume is chosen when its pod is placed. Not without a class, or with an unknown one."""
    found = storage.classes.get(claim.class_name)
    return found is not None and found.waits_for_consumer
