"""Deployment, its status: counts, and the conditions that `kubectl rollout status` waits for.

`Available` says whether enough pods are available, `Progressing` how the rollout goes:

    NewReplicaSetCreated, FoundNewReplicaSet ──► ReplicaSetUpdated ──► NewReplicaSetAvailable (True: done)
                                                        │ no progress for progressDeadlineSeconds
                                                        ▼
    DeploymentPaused, DeploymentResumed (Unknown)     ProgressDeadlineExceeded (False)

The deadline counts from its `lastUpdateTime`, the time of the last progress. Mirrors progress.go and calculateStatus of
pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from tonnage.behaviour.workloads.rollout import MOST_REPLICAS, UNLIMITED, max_unavailable
from tonnage.objects.apps_v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet

_PROGRESSING, _AVAILABLE, _FAILURE = "Progressing", "Available", "ReplicaFailure"
Conditions = tuple[DeploymentCondition, ...]


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds != UNLIMITED


def condition_of(conditions: Iterable[DeploymentCondition], type: str) -> DeploymentCondition | None:
    return next((condition for condition in conditions if condition.type == type), None)


def calculate_status(
    deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None, now: datetime
) -> DeploymentStatus:
    """The counts and `Available`; `Progressing` stays as it was. `sets` are all, old and new."""
    available = sum(replica_set.status.available_replicas for replica_set in sets)
    said = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    if available >= deployment.spec.replicas - max_unavailable(deployment):
        said = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    return DeploymentStatus(
        replicas=sum(replica_set.status.replicas for replica_set in sets),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(replica_set.status.ready_replicas for replica_set in sets),
        available_replicas=available,
        unavailable_replicas=min(max(0, sum(each.spec.replicas for each in sets) - available), MOST_REPLICAS),
        terminating_replicas=_terminating(sets),
        observed_generation=deployment.metadata.generation,
        collision_count=deployment.status.collision_count,
        conditions=with_condition(deployment.status.conditions, _condition(_AVAILABLE, *said, now)),
    )


def rollout_status(
    deployment: Deployment,
    sets: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime,
    measured_now: datetime | None = None,
) -> DeploymentStatus:
    """The status during a rollout; the deadline is judged by `measured_now`. Mirrors syncRolloutStatus."""
    status = calculate_status(deployment, sets, new, now)
    conditions = status.conditions
    was = condition_of(deployment.status.conditions, _PROGRESSING)
    who = f'ReplicaSet "{new.name}"' if new is not None else f'Deployment "{deployment.name}"'
    is_over = status.replicas == status.updated_replicas and was is not None and was.reason == "NewReplicaSetAvailable"
    if not has_deadline(deployment):
        conditions = without(conditions, _PROGRESSING)
    elif is_over:
        pass
    elif is_complete(deployment, status):
        condition = _progress("True", "NewReplicaSetAvailable", f"{who} has successfully progressed.", now)
        conditions = with_condition(conditions, condition)
    elif _has_progressed(deployment.status, status):
        condition = _progress("True", "ReplicaSetUpdated", f"{who} is progressing.", now)
        if was is not None and was.is_true:
            condition = msgspec.structs.replace(condition, last_transition_time=was.last_transition_time)
        # Replaced even if only the time is new: the deadline counts from it.
        conditions = (*without(conditions, _PROGRESSING), condition)
    elif is_timed_out(deployment, was, measured_now or now):
        condition = _progress("False", "ProgressDeadlineExceeded", f"{who} has timed out progressing.", now)
        conditions = with_condition(conditions, condition)
    failure = _failure(sets, new)
    conditions = with_condition(conditions, failure) if failure is not None else without(conditions, _FAILURE)
    return msgspec.structs.replace(status, conditions=conditions)


def paused_conditions(deployment: Deployment, now: datetime) -> Conditions | None:
    """The conditions after a pause or resume, None if they are up to date. Mirrors checkPausedConditions."""
    was = condition_of(deployment.status.conditions, _PROGRESSING)
    if not has_deadline(deployment) or (was is not None and was.reason == "ProgressDeadlineExceeded"):
        return None
    is_told = was is not None and was.reason == "DeploymentPaused"
    if deployment.spec.paused == is_told:
        return None
    word = "Paused" if deployment.spec.paused else "Resumed"
    condition = _progress("Unknown", f"Deployment{word}", f"Deployment is {word.lower()}", now)
    return with_condition(deployment.status.conditions, condition)


def with_progressing(deployment: Deployment, status: str, reason: str, message: str, now: datetime) -> Conditions:
    """The conditions with this `Progressing` condition; unchanged without a deadline."""
    if not has_deadline(deployment):
        return deployment.status.conditions
    return with_condition(deployment.status.conditions, _progress(status, reason, message, now))


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """True if all pods have the new template and are available, and no others are left."""
    wanted = deployment.spec.replicas
    return (
        status.updated_replicas == status.replicas == status.available_replicas == wanted
        and status.observed_generation >= deployment.metadata.generation
    )


def progressed_at(status: DeploymentStatus) -> datetime | None:
    was = condition_of(status.conditions, _PROGRESSING)
    return was.last_update_time if was is not None else None


def is_timed_out(deployment: Deployment, was: DeploymentCondition | None, now: datetime) -> bool:
    if was is None or was.reason == "NewReplicaSetAvailable":
        return False
    if was.reason == "ProgressDeadlineExceeded":
        return True
    deadline = timedelta(seconds=deployment.spec.progress_deadline_seconds)
    return was.last_update_time is not None and was.last_update_time + deadline < now


def check_after_s(deployment: Deployment, status: DeploymentStatus, now: datetime) -> float | None:
    """Seconds until the deadline has passed, None if there is none to wait for. Mirrors requeueStuckDeployment."""
    was = condition_of(status.conditions, _PROGRESSING)
    if not has_deadline(deployment) or was is None or was.last_update_time is None:
        return None
    if is_complete(deployment, status) or was.reason in ("ProgressDeadlineExceeded", "NewReplicaSetAvailable"):
        return None
    deadline = was.last_update_time + timedelta(seconds=deployment.spec.progress_deadline_seconds)
    # A second more: times are written in whole seconds.
    return max(0.0, (deadline - now).total_seconds()) + 1.0


def with_condition(conditions: Conditions, new: DeploymentCondition) -> Conditions:
    """Add `new`, unless it is there; the transition time follows the status, not the reason."""
    was = condition_of(conditions, new.type)
    if was is not None and was.status == new.status:
        if was.reason == new.reason:
            return conditions
        new = msgspec.structs.replace(new, last_transition_time=was.last_transition_time)
    return (*without(conditions, new.type), new)


def without(conditions: Conditions, type: str) -> Conditions:
    return tuple(condition for condition in conditions if condition.type != type)


def _has_progressed(was: DeploymentStatus, new: DeploymentStatus) -> bool:
    return (
        new.updated_replicas > was.updated_replicas
        or new.replicas - new.updated_replicas < was.replicas - was.updated_replicas
        or new.ready_replicas > was.ready_replicas
        or new.available_replicas > was.available_replicas
    )


def _failure(sets: Sequence[ReplicaSet], new: ReplicaSet | None) -> DeploymentCondition | None:
    """The new set's failure, else another set's."""
    ordered = [*([new] if new is not None else []), *sets]
    for condition in (each for found in ordered for each in found.status.conditions if each.type == _FAILURE):
        return DeploymentCondition(
            type=condition.type,
            status=condition.status,
            last_update_time=condition.last_transition_time,
            last_transition_time=condition.last_transition_time,
            reason=condition.reason,
            message=condition.message,
        )
    return None


def _terminating(sets: Sequence[ReplicaSet]) -> int | None:
    counts = [
        replica_set.status.terminating_replicas
        for replica_set in sets
        if replica_set.status.observed_generation or replica_set.status.terminating_replicas is not None
    ]
    return None if None in counts else sum(count for count in counts if count is not None)


def _progress(status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    return _condition(_PROGRESSING, status, reason, message, now)


def _condition(type: str, status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    return DeploymentCondition(
        type=type, status=status, last_update_time=now, last_transition_time=now, reason=reason, message=message
    )
