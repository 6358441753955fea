"""What a pod of a Job has come to: whether it failed, for which index, when, and what the Job's policies say about it.

Mirrors isPodFailed, matchPodFailurePolicy and getFinishedTime of pkg/controller/job.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from tonnage.objects.batch_v1 import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    JOB_TRACKING,
    Job,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
)
from tonnage.objects.core_v1 import Pod
from tonnage.objects.core_v1.container import ContainerStatus
from tonnage.objects.core_v1.pod import PodCondition
from tonnage.objects.texts.whole_numbers import whole_number


class PolicyMatch(NamedTuple):
    """What the policy says of a failed pod: the action of the first rule that matches, and whether it counts."""

    action: str = ""
    counts: bool = True
    message: str = ""
    """For FailJob: why the Job fails."""


NO_MATCH = PolicyMatch()


def is_tracked(pod: Pod) -> bool:
    """It has not been counted for good."""
    return JOB_TRACKING in pod.metadata.finalizers


def replaces_failed_only(job: Job) -> bool:
    """A pod that is being deleted is replaced when it has ended, not before."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_failed(pod: Pod, job: Job) -> bool:
    """One that is being deleted counts as failed at once, unless the Job waits for its end."""
    if pod.status.phase == "Failed":
        return True
    return not replaces_failed_only(job) and pod.metadata.is_terminating and pod.status.phase != "Succeeded"


def is_active(pod: Pod) -> bool:
    return not pod.is_terminal and not pod.metadata.is_terminating


def index_of(pod: Pod) -> int | None:
    """The index of an Indexed Job that it is for; None when it does not say one."""
    return _number(pod.metadata.annotations.get(COMPLETION_INDEX, ""))


def index_failures(pod: Pod) -> int:
    """How often its index had failed before it."""
    return _number(pod.metadata.annotations.get(INDEX_FAILURE_COUNT, "")) or 0


def ignored_index_failures(pod: Pod) -> int:
    return _number(pod.metadata.annotations.get(INDEX_IGNORED_FAILURE_COUNT, "")) or 0


def _number(text: str) -> int | None:
    return whole_number(text) if text.isascii() and text.isdecimal() else None


def finished_at(pod: Pod) -> datetime | None:
    """When its last container ended; else when it was no longer ready, or deleted."""
    ends = [each.state.terminated.finished_at for each in pod.status.container_statuses if each.state.terminated]
    known = [each for each in ends if each is not None]
    if known:
        return max(known)
    ready = pod.condition("Ready")
    if ready is not None and not ready.is_true and ready.last_transition_time is not None:
        return ready.last_transition_time
    return pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp


# -- policies ---------------------------------------------------------------------------------------------------------


def match_policy(policy: PodFailurePolicy | None, pod: Pod) -> PolicyMatch:
    """The first rule that matches decides; without one a failure counts."""
    for position, rule in enumerate(policy.rules if policy is not None else ()):
        told = ""
        if rule.on_exit_codes is not None:
            status = _matching_container(pod, rule.on_exit_codes)
            if status is None or status.state.terminated is None:
                continue
            code = status.state.terminated.exit_code
            told = f"Container {status.name} for pod {pod.key} failed with exit code {code}"
        else:
            condition = _matching_condition(pod.status.conditions, rule.on_pod_conditions)
            if condition is None:
                continue
            told = f"Pod {pod.key} has condition {condition.type}"
        message = f"{told} matching {rule.action} rule at index {position}" if rule.action == "FailJob" else ""
        return PolicyMatch(rule.action, rule.action != "Ignore", message)
    return NO_MATCH


def _matching_container(pod: Pod, rule: PodFailurePolicyOnExitCodesRequirement) -> ContainerStatus | None:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0 or rule.container_name not in (None, status.name):
            continue
        if (ended.exit_code in rule.values) == (rule.operator == "In"):
            return status
    return None


def _matching_condition(
    conditions: Iterable[PodCondition], patterns: Iterable[PodFailurePolicyOnPodConditionsPattern]
) -> PodCondition | None:
    wanted = {(each.type, each.status) for each in patterns}
    return next((each for each in conditions if (each.type, each.status) in wanted), None)
