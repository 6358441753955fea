"""PodDisruptionBudget, the arithmetic: how many pods there should be, how many are well, how many may go.

    disruptionsAllowed = max(0, currentHealthy - desiredHealthy), and 0 while no pod is expected

A pod is healthy when it is ready, nobody deleted it, and no eviction of it is noted in `disruptedPods`. A note is
struck when the pod is on its way out, or after two minutes. Mirrors trySync of pkg/controller/disruption.
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
"""How long an eviction may take from its note to the pod's deletion."""
STALE_CONDITION: Final = timedelta(minutes=2)
"""How long a pod that is not being deleted may say that it is about to be disrupted."""
_CONDITION: Final = "DisruptionAllowed"
_MOST_PODS: Final = 2**31 - 1
"""What a status can say."""

Scale = Callable[[OwnerReference, str], tuple[str, int] | None]
"""(uid, replicas) of the workload that a pod's controller in a namespace stands for, None when nobody knows it."""


class NoController(TonnageError):
    """A budget counts in shares of what is wanted, and nobody says how many of this pod's kind are."""


@dataclass(frozen=True, slots=True)
class ExpectedCounts:
    """How many pods are meant to be there and how many must be well; `unmanaged` pods have no controller to ask."""

    pods: int
    healthy: int
    unmanaged: tuple[str, ...] = ()


def expected_pods(spec: PodDisruptionBudgetSpec, pods: Sequence[Pod], scale_of: Scale) -> ExpectedCounts:
    """Count by the budget's limit: a number asks for nothing, a share for the size of the workloads behind the pods.

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
"""An object by its class and key, None when there is none."""


def workload_size(controller: OwnerReference, namespace: str, find: Find) -> tuple[str, int] | None:
    """(uid, replicas) of a pod's workload: for a ReplicaSet that a Deployment made, the Deployment's. None: unknown."""
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
    """The sizes of all workloads behind these pods, each once."""
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
    """Evictions that are still to happen, those that did not happen in time, and when to look again."""

    waiting: Mapping[str, datetime]
    not_deleted: tuple[Pod, ...]
    recheck_s: float | None


def disrupted_pods(noted: Mapping[str, datetime], pods: Iterable[Pod], now: datetime) -> DisruptedPods:
    """Go through the notes of evictions; those of pods that are gone or going are done with."""
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
    """Seconds until a pod's DisruptionTarget is no longer believed; None when it has none, or its kubelet said it."""
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
    """The budget's conditions with this one in its place; its time is that of the last change of status."""
    known = {each.type: each for each in budget.status.conditions}
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
    mine = [each for each in pods if each.namespace == budget.namespace and guards(budget, each)]
    try:
        wanted = expected_pods(budget.spec, mine, lambda owner, namespace: workload_size(owner, namespace, find))
        status = status_of(budget, mine, wanted, {}, now)
    except (NoController, ValueError) as exc:
        status = failed_status(budget, str(exc), now)
    return msgspec.structs.replace(budget, status=status)


def guards(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether a budget means a pod of its namespace; a selector that makes no sense means nobody."""
    try:
        return selects(budget.spec.selector, pod.metadata.labels)
    except InvalidSelector:
        return False
