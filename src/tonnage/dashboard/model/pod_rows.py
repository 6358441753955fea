"""Rows of pods: those that wait, and those with claims."""

from __future__ import annotations

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.wire.rows import PodRow
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key


def row_of(objects: KnownObjects, key: Key, decided: str) -> PodRow | None:
    """A pod's row. `decided` is where the scheduler has sent it, though the API does not show it; else empty."""
    pod = objects.pods.get(key)
    if pod is None:
        return None
    claims = tuple(f"{pod.namespace}/{each}" for each in dict.fromkeys(pod.claim_names()))
    if not claims and (pod.spec.node_name or pod.is_terminal):
        return None
    return PodRow(
        uid=pod.uid,
        phase=pod.status.phase,
        state=state_of(pod, decided),
        node=pod.spec.node_name or decided,
        nominated=pod.status.nominated_node_name,
        claims=claims,
        workload=workload_of(objects, pod),
        scheduler=pod.spec.scheduler_name,
        created=pod.metadata.creation_timestamp,
        message=_message(pod),
        terminating=pod.metadata.is_terminating,
    )


def state_of(pod: Pod, decided: str = "") -> str:
    """How far a pod has come, in one word (`PodRow.state`)."""
    if pod.is_terminal:
        return pod.status.phase.lower()
    if pod.metadata.is_terminating:
        return "terminating"
    if pod.status.phase == "Running":
        return "running"
    if pod.spec.node_name:
        return "bound"
    if decided:
        return "decided"
    return "gated" if pod.spec.scheduling_gates else "waiting"


def workload_of(objects: KnownObjects, pod: Pod) -> str:
    """KIND/NAMESPACE/NAME of who made a pod: through a ReplicaSet or a Job to its Deployment or CronJob."""
    owner = pod.metadata.controller
    if owner is None:
        return ""
    made_by = objects.owners.get(owner.uid)
    owner = (made_by.metadata.controller if made_by is not None else None) or owner
    return f"{owner.kind}/{pod.namespace}/{owner.name}"


def _message(pod: Pod) -> str:
    if pod.status.message or pod.is_terminal:
        return pod.status.message or pod.status.reason
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and not scheduled.is_true:
        return scheduled.message
    waiting = [each.state.waiting for each in pod.status.container_statuses if each.state.waiting is not None]
    return next((each.message for each in waiting if each.message), "")
