"""Rows of pods: those that wait, and those with claims."""

from __future__ import annotations

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.wire.rows import PodRow
from tonnage.objects.meta import Key
from tonnage.whatif.scheduler_memory import SchedulerMemory


def row_of(objects: KnownObjects, key: Key, memory: SchedulerMemory) -> PodRow | None:
    pod = objects.pods.get(key)
    if pod is None:
        return None
    claims = tuple(f"{pod.namespace}/{each}" for each in dict.fromkeys(pod.claim_names()))
    if pod.spec.node_name and not claims:
        return None
    scheduled, owner = pod.condition("PodScheduled"), pod.metadata.controller
    message = pod.status.message
    if not message and scheduled is not None and not scheduled.is_true:
        message = scheduled.message
    return PodRow(
        uid=pod.uid,
        phase=pod.status.phase,
        node=pod.spec.node_name or memory.node_of(pod),
        nominated=pod.status.nominated_node_name,
        claims=claims,
        workload=f"{owner.kind}/{pod.namespace}/{owner.name}" if owner is not None else "",
        scheduler=pod.spec.scheduler_name,
        created=pod.metadata.creation_timestamp,
        message=message,
        terminating=pod.metadata.is_terminating,
    )
