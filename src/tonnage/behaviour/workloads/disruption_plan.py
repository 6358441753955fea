"""PodDisruptionBudget, the arithmetic: how many pods there should be, how many are healthy, how many may go.

    disruptionsAllowed = max(0, currentHealthy - desiredHealthy), and 0 while no pod is expected

A pod is healthy if it is ready, not terminating, and has no eviction in `disruptedPods`. An entry there is removed when
the pod terminates, or after two minutes. Mirrors trySync of pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from tonnage.behaviour.workloads.pod_states import is_ready, scaled_value
from tonnage.errors import TonnageError
from tonnage.objects.apps_v1 import Deployment, ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Pod, ReplicationController
from tonnage.objects.meta import Key, Object, OwnerReference
from tonnage.objects.selectors import InvalidSelector, selects
from tonnage.objects.small_groups import (
    PodDisruptionBudget,
    PodDisruptionBudgetCondition,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""How long an eviction may take from its entry to the pod's deletion."""
STALE_CONDITION: Final = timedelta(minutes=2)
"""How long a pod that is not terminating may keep the condition DisruptionTarget."""
_CONDITION: Final = "DisruptionAllowed"
_MOST_PODS: Final = 2**31 - 1
"""The largest number of a status."""

Scale = Callable[[OwnerReference, str], tuple[str, int] | None]
"""(uid, replicas) of the workload of a pod's controller in a namespace, None if it is unknown."""


class NoController(TonnageError):
    """A budget needs a workload's size, and the pod's controller is unknown."""


@dataclass(frozen=True, slots=True)
class ExpectedCounts:
    """How many pods should exist and how many must be healthy; `unmanaged` pods have no controller."""

    pods: int
    healthy: int
    unmanaged: tuple[str, ...] = ()


def expected_pods(spec: PodDisruptionBudgetSpec, pods: Sequence[Pod], scale_of: Scale) -> ExpectedCounts:
    """Count by the budget's limit: a percentage needs the size of the pods' workloads, a number does not.

    Raises NoController, and ValueError for a limit that is neither number nor percentage.
    """
    if spec.max_unavailable is None and spec.min_available is None:
        return ExpectedCounts(0, 0)
    if spec.max_unavailable is None and isinstance(spec.min_available, int):
        return ExpectedCounts(len(pods), spec.min_available)
    count, unmanaged = _expected_scale(pods, scale_of)
    if spec.max_unavailable is not None:
        healthy = max(0, count - scaled_value(spec.max_unavailable, count, round_up=True))
    else:
        healthy = scaled_value(spec.min_available or 0, count, round_up=True)
    return ExpectedCounts(count, healthy, unmanaged)


Sized = Deployment | ReplicaSet | StatefulSet | ReplicationController
Find = Callable[[type[Object], Key], Object | None]
"""An object by its class and key, None if there is none."""


def workload_size(controller: OwnerReference, namespace: str, find: Find) -> tuple[str, int] | None:
    """(uid, replicas) of a pod's workload; the Deployment's for a ReplicaSet that a Deployment made. None: unknown."""
    group, key = controller.api_version.rpartition("/")[0], f"{namespace}/{controller.name}"
    if (group, controller.kind) == ("", "ReplicationController"):
        return _sized(find(ReplicationController, key), controller.uid)
    if group != "apps":
        return None
    if controller.kind == "StatefulSet":
        return _sized(find(StatefulSet, key), controller.uid)
    if controller.kind != "ReplicaSet":
        return None
    found = find(ReplicaSet, key)
    above = found.metadata.controller if found is not None and found.uid == controller.uid else None
    if above is not None and above.kind == "Deployment":
        return _sized(find(Deployment, f"{namespace}/{above.name}"), above.uid)
    return _sized(found, controller.uid)


def _sized(found: Object | None, uid: str) -> tuple[str, int] | None:
    return (found.uid, found.spec.replicas) if isinstance(found, Sized) and found.uid == uid else None


def _expected_scale(pods: Iterable[Pod], scale_of: Scale) -> tuple[int, tuple[str, ...]]:
    """The sum of sizes of all workloads of these pods, every workload once; and the pods without a controller."""
    asked: set[str] = set()
    sizes: dict[str, int] = {}
    unmanaged: list[str] = []
    for pod in pods:
        controller = pod.metadata.controller
        if controller is None:
            unmanaged.append(pod.name)
        elif controller.uid not in asked:
            asked.add(controller.uid)
            found = scale_of(controller, pod.namespace)
            if found is None:
                raise NoController(f'found no controllers for pod "{pod.name}"')
            sizes[found[0]] = found[1]
    return min(sum(sizes.values()), _MOST_PODS), tuple(unmanaged)


@dataclass(frozen=True, slots=True)
class DisruptedPods:
    """Evictions still to happen, pods not deleted in time, and seconds until the next look."""

    waiting: Mapping[str, datetime]
    not_deleted: tuple[Pod, ...]
    recheck_s: float | None


def disrupted_pods(noted: Mapping[str, datetime], pods: Iterable[Pod], now: datetime) -> DisruptedPods:
    """Sort the entries of evictions; those of gone or terminating pods are done."""
    waiting: dict[str, datetime] = {}
    not_deleted: list[Pod] = []
    for pod in pods:
        noted_at = noted.get(pod.name)
        if noted_at is None or pod.metadata.is_terminating:
            continue
        if noted_at + DELETION_TIMEOUT < now:
            not_deleted.append(pod)
        else:
            waiting[pod.name] = noted_at
    left_s = [(noted_at + DELETION_TIMEOUT - now).total_seconds() for noted_at in waiting.values()]
    return DisruptedPods(waiting, tuple(not_deleted), min(left_s, default=None))


def status_of(
    budget: PodDisruptionBudget,
    pods: Iterable[Pod],
    wanted: ExpectedCounts,
    waiting: Mapping[str, datetime],
    now: datetime,
) -> PodDisruptionBudgetStatus:
    healthy = sum(is_ready(pod) and not pod.metadata.is_terminating and pod.name not in waiting for pod in pods)
    allowed = max(0, healthy - wanted.healthy) if wanted.pods > 0 else 0
    generation, reason = budget.metadata.generation, "SufficientPods" if allowed else "InsufficientPods"
    return PodDisruptionBudgetStatus(
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=wanted.healthy,
        expected_pods=wanted.pods,
        observed_generation=generation,
        disrupted_pods=waiting,
        conditions=_conditions(budget, reason, now, generation, is_allowed=bool(allowed)),
    )


def failed_status(budget: PodDisruptionBudget, message: str, now: datetime) -> PodDisruptionBudgetStatus:
    conditions = _conditions(budget, "SyncFailed", now, budget.status.observed_generation, message=message)
    return msgspec.structs.replace(budget.status, disruptions_allowed=0, conditions=conditions)


def stale_after_s(pod: Pod, now: datetime) -> float | None:
    """Seconds until a pod's DisruptionTarget is stale; None if it has none, or its kubelet set it."""
    condition = pod.condition("DisruptionTarget")
    if condition is None or not condition.is_true or condition.reason == "TerminationByKubelet":
        return None
    if pod.metadata.is_terminating or pod.is_terminal or condition.last_transition_time is None:
        return None
    return max(0.0, (condition.last_transition_time + STALE_CONDITION - now).total_seconds())


def _conditions(
    budget: PodDisruptionBudget,
    reason: str,
    now: datetime,
    generation: int,
    *,
    is_allowed: bool = False,
    message: str = "",
) -> tuple[PodDisruptionBudgetCondition, ...]:
    """The budget's conditions with this one replaced; its transition time is that of the last change of status."""
    known = {condition.type: condition for condition in budget.status.conditions}
    was, status = known.get(_CONDITION), "True" if is_allowed else "False"
    known[_CONDITION] = PodDisruptionBudgetCondition(
        type=_CONDITION,
        status=status,
        last_transition_time=was.last_transition_time if was is not None and was.status == status else now,
        reason=reason,
        message=message,
        observed_generation=generation,
    )
    return tuple(known.values())


def with_true_status(
    budget: PodDisruptionBudget, pods: Sequence[Pod], find: Find, now: datetime
) -> PodDisruptionBudget:
    """The budget as its controller would leave it, given these pods."""
    mine = [pod for pod in pods if pod.namespace == budget.namespace and guards(budget, pod)]
    try:
        wanted = expected_pods(budget.spec, mine, lambda owner, namespace: workload_size(owner, namespace, find))
        status = status_of(budget, mine, wanted, {}, now)
    except (NoController, ValueError) as exc:
        status = failed_status(budget, str(exc), now)
    return msgspec.structs.replace(budget, status=status)


def guards(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """True if a budget selects a pod of its namespace; an invalid selector selects none."""
    try:
        return selects(budget.spec.selector, pod.metadata.labels)
    except InvalidSelector:
        return False
