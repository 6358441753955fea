"""ReplicaSet, the decision: how many pods are missing or too many, which go first, and the status.

Only *active* pods count: one that failed, succeeded or is terminating is replaced. Of too many, the least useful go
first. ReplicationControllers are handled alike. Mirrors manageReplicas, ActivePodsWithRanks.Less and calculateStatus of
pkg/controller/replicaset.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cmp_to_key
from typing import Final, NamedTuple

from tonnage.behaviour.workloads.pod_states import is_active, is_available, is_ready, ready_since
from tonnage.objects import apps_v1, meta
from tonnage.objects.core_v1 import Pod, ReplicationController
from tonnage.quantity import whole_number

BURST_REPLICAS: Final = 500
"""Pods of one set created or deleted in one round."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def missing_replicas(active: Sequence[Pod], replicas: int) -> int:
    """How many pods to create or, if negative, to delete in this round."""
    return max(-BURST_REPLICAS, min(BURST_REPLICAS, replicas - len(active)))


def pods_to_delete(active: Sequence[Pod], related: Iterable[Pod], count: int, now: datetime) -> list[Pod]:
    """The pods to delete. `related` are pods of all sets of the same owner: one of two on a node is spare."""
    if count >= len(active):
        return list(active)
    on_node = Counter(pod.spec.node_name for pod in related if is_active(pod))

    def compare(left: _Rank, right: _Rank) -> int:
        return _compare(left, right, now)

    ranked = (_Rank.of(pod, on_node[pod.spec.node_name]) for pod in active)
    return [rank.pod for rank in heapq.nsmallest(count, ranked, key=cmp_to_key(compare))]


def status_of(
    replica_set: apps_v1.ReplicaSet | ReplicationController,
    active: Sequence[Pod],
    terminating: int,
    failure: str | None,
    now: datetime,
) -> apps_v1.ReplicaSetStatus:
    """The status after a round; `failure` is why pods could not be created or deleted."""
    wanted = replica_set.spec.template.get("metadata", {}).get("labels", {}).items()
    ready = [pod for pod in active if is_ready(pod)]
    available = [pod for pod in ready if is_available(pod, replica_set.spec.min_ready_seconds, now)]
    return apps_v1.ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(wanted <= pod.metadata.labels.items() for pod in active),
        ready_replicas=len(ready),
        available_replicas=len(available),
        terminating_replicas=terminating,
        observed_generation=replica_set.metadata.generation,
        conditions=_conditions(replica_set, len(active), failure, now),
    )


def _conditions(
    replica_set: apps_v1.ReplicaSet | ReplicationController, active: int, failure: str | None, now: datetime
) -> tuple[meta.Condition, ...]:
    known = replica_set.status.conditions
    has_failed = any(condition.type == "ReplicaFailure" for condition in known)
    if failure is None:
        return tuple(condition for condition in known if condition.type != "ReplicaFailure")
    if has_failed:
        return known
    reason = "FailedCreate" if active < replica_set.spec.replicas else "FailedDelete"
    new = meta.Condition(type="ReplicaFailure", status="True", last_transition_time=now, reason=reason, message=failure)
    return (*known, new)


class _Rank(NamedTuple):
    """What two pods are compared by, read once per pod, because a set may have many."""

    pod: Pod
    steps: tuple[bool, int, bool, int, int]
    since: datetime | None
    restarts: tuple[int, int]

    @classmethod
    def of(cls, pod: Pod, on_node: int) -> _Rank:
        """The steps in upstream's order: no node, phase, not ready, cost, several on one node."""
        phase = _PHASES.get(pod.status.phase, 0)
        steps = (bool(pod.spec.node_name), phase, is_ready(pod), deletion_cost(pod), -on_node)
        return cls(pod, steps, ready_since(pod), _restarts(pod))


def _compare(left: _Rank, right: _Rank, now: datetime) -> int:
    """Negative if `left` goes before `right`."""
    if left.steps != right.steps:
        return -1 if left.steps < right.steps else 1
    created, other = left.pod.metadata.creation_timestamp, right.pod.metadata.creation_timestamp
    return (
        _younger(left.pod, right.pod, left.since, right.since, now)  # both None while they are not ready
        or _order(right.restarts, left.restarts)  # those that restarted more first
        or _younger(left.pod, right.pod, created, other, now)
    )


def deletion_cost(pod: Pod) -> int:
    """The pod's deletion cost by annotation; 0 if it is absent or not a 32-bit number."""
    text = pod.metadata.annotations.get(DELETION_COST, "")
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and (digits == "0" or not digits.startswith("0"))
    cost = whole_number(text) if is_number and text != "-0" else 0
    return cost if -(2**31) <= cost < 2**31 else 0


def _restarts(pod: Pod) -> tuple[int, int]:
    """Most restarts of a container, then of a sidecar."""
    sidecars = {container.name for container in pod.spec.init_containers if container.is_sidecar}
    return (
        max((status.restart_count for status in pod.status.container_statuses), default=0),
        max((s.restart_count for s in pod.status.init_container_statuses if s.name in sidecars), default=0),
    )


def _younger(left: Pod, right: Pod, since: datetime | None, other: datetime | None, now: datetime) -> int:
    """The younger first, but ages count only in powers of two: of equals any may go (LogarithmicScaleDown)."""
    if since == other:
        return 0
    if since is None or other is None:
        return -1 if since is None else 1
    return _order(_log_age(since, now), _log_age(other, now)) or _order(left.uid, right.uid)


def _log_age(since: datetime, now: datetime) -> int:
    age_ns = (now - since) // timedelta(microseconds=1) * 1000
    return int(math.log2(age_ns)) if age_ns > 0 else -1


def _order(left: int | str | tuple[int, int], right: int | str | tuple[int, int]) -> int:
    return (left > right) - (left < right)  # type: ignore[operator]  # both are always of one kind
