"""The pods of a Job (and the Job of a CronJob): how they are made, how they ended, and their indexes.

A pod ends as failed or succeeded, at a time, for an index; the Job's policies decide what follows. Mirrors isPodFailed,
matchPodFailurePolicy, getFinishedTime and indexed_job_utils.go of pkg/controller/job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tonnage.behaviour.workloads import cron_plan, pod_states, templates
from tonnage.objects import batch_v1, codec
from tonnage.objects.batch_v1 import CronJob, Job, PodFailurePolicy, SuccessPolicy
from tonnage.objects.core_v1 import Pod
from tonnage.objects.core_v1.pod import ContainerStatus
from tonnage.objects.document import Doc, copy
from tonnage.objects.texts.index_intervals import IndexSet, read_intervals
from tonnage.quantity import whole_number

_MAX_HOST_NAME: Final = 63
_MAX_GENERATED_BASE: Final = 63 - 5
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def job_pod(owner: Job, index: int) -> Doc:
    """One pod of a Job; with completionMode Indexed it has an index, which is also in its host name."""
    doc = templates.pod_from_template(owner.spec.template, owner)
    metadata, spec = doc["metadata"], doc["spec"]
    labels = metadata.setdefault("labels", {})
    labels |= {
        "batch.kubernetes.io/controller-uid": owner.uid,
        "batch.kubernetes.io/job-name": owner.name,
        "controller-uid": owner.uid,
        "job-name": owner.name,
    }
    if owner.spec.completion_mode == "Indexed":
        labels[batch_v1.COMPLETION_INDEX] = str(index)
        metadata.setdefault("annotations", {})[batch_v1.COMPLETION_INDEX] = str(index)
        ending = f"-{index}-"
        metadata["generateName"] = f"{owner.name[: _MAX_GENERATED_BASE - len(ending)]}{ending}"
        spec["hostname"] = f"{owner.name}-{index}"[:_MAX_HOST_NAME]
        for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
            # The author of the template may have set the variable.
            if all(each.get("name") != _INDEX_VARIABLE for each in container.get("env", ())):
                source = {"fieldRef": {"fieldPath": f"metadata.labels['{batch_v1.COMPLETION_INDEX}']"}}
                container["env"] = [*container.get("env", ()), {"name": _INDEX_VARIABLE, "valueFrom": source}]
    return doc


def job_of(owner: CronJob, at: datetime) -> Doc:
    """The Job for a time of the schedule. Its annotation has the time in the schedule's zone."""
    template = owner.spec.job_template
    metadata: Doc = {
        "name": f"{owner.name}-{int(at.timestamp()) // 60}",
        "namespace": owner.namespace,
        "ownerReferences": [codec.to_doc(templates.controller_ref(owner))],
    }
    said = template.metadata
    metadata |= {field: copy(said[field]) for field in ("labels", "annotations") if said.get(field)}
    shown = at.astimezone(cron_plan.zone_of(owner) or UTC).isoformat(timespec="seconds")
    metadata.setdefault("annotations", {})[batch_v1.CRONJOB_SCHEDULED_AT] = shown.replace("+00:00", "Z")
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": copy(dict(template.spec))}


class PolicyMatch(NamedTuple):
    """The policy's decision on a failed pod: the action of the first matching rule, and whether the failure counts."""

    action: str = ""
    counts: bool = True
    message: str = ""
    """For FailJob: why the Job fails."""


def is_tracked(pod: Pod) -> bool:
    """True if the pod is not finally counted."""
    return batch_v1.JOB_TRACKING in pod.metadata.finalizers


def replaces_failed_only(job: Job) -> bool:
    """True if a terminating pod is replaced when it has ended, not before."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_failed(pod: Pod, job: Job) -> bool:
    """True if it failed. A terminating pod counts as failed at once, unless the Job waits for its end."""
    if pod.status.phase == "Failed":
        return True
    return not replaces_failed_only(job) and pod.metadata.is_terminating and pod.status.phase != "Succeeded"


def index_of(pod: Pod) -> int | None:
    """The pod's index in an Indexed Job; None if it has none."""
    return _number(pod.metadata.annotations.get(batch_v1.COMPLETION_INDEX, ""))


def index_failures(pod: Pod) -> int:
    return _number(pod.metadata.annotations.get(batch_v1.INDEX_FAILURE_COUNT, "")) or 0


def ignored_index_failures(pod: Pod) -> int:
    return _number(pod.metadata.annotations.get(batch_v1.INDEX_IGNORED_FAILURE_COUNT, "")) or 0


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
    """The first matching rule decides; without one a failure counts."""
    for position, rule in enumerate(policy.rules if policy is not None else ()):
        if rule.on_exit_codes is not None:
            status = _matching_container(pod, rule.on_exit_codes)
            if status is None or status.state.terminated is None:
                continue
            code = status.state.terminated.exit_code
            told = f"Container {status.name} for pod {pod.key} failed with exit code {code}"
        else:
            wanted = {(pod_condition.type, pod_condition.status) for pod_condition in rule.on_pod_conditions}
            condition = next((each for each in pod.status.conditions if (each.type, each.status) in wanted), None)
            if condition is None:
                continue
            told = f"Pod {pod.key} has condition {condition.type}"
        message = f"{told} matching {rule.action} rule at index {position}" if rule.action == "FailJob" else ""
        return PolicyMatch(rule.action, rule.action != "Ignore", message)
    return PolicyMatch()


def _matching_container(pod: Pod, rule: batch_v1.PodFailurePolicyOnExitCodesRequirement) -> ContainerStatus | None:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0 or rule.container_name not in (None, status.name):
            continue
        if (ended.exit_code in rule.values) == (rule.operator == "In"):
            return status
    return None


def succeeded_indexes(job: Job, pods: Iterable[Pod]) -> IndexSet:
    """Indexes in the status, and those of pods that have succeeded since."""
    fresh = (pod for pod in pods if pod.status.phase == "Succeeded" and is_tracked(pod))
    return _with_indexes(job, job.status.completed_indexes, fresh)


def failed_indexes(job: Job, pods: Iterable[Pod]) -> IndexSet:
    """Indexes that have failed for good, by their limit or by the policy; none without a limit."""
    if job.spec.backoff_limit_per_index is None:
        return IndexSet()
    fresh = (pod for pod in pods if is_tracked(pod) and is_index_failed(job, pod))
    return _with_indexes(job, job.status.failed_indexes or "", fresh)


def _with_indexes(job: Job, known: str, pods: Iterable[Pod]) -> IndexSet:
    completions, indexes = job.spec.completions or 0, map(index_of, pods)
    legal = (index for index in indexes if index is not None and index < completions)
    return IndexSet(read_intervals(known, completions)).with_numbers(legal)


def is_index_failed(job: Job, pod: Pod) -> bool:
    if not is_failed(pod, job):
        return False
    match = match_policy(job.spec.pod_failure_policy, pod)
    if match.action == "FailIndex":
        return True
    return match.counts and index_failures(pod) >= (job.spec.backoff_limit_per_index or 0)


def last_failures(job: Job, pods: Iterable[Pod], done: IndexSet) -> dict[int, Pod]:
    """By index, the failed pod with the highest count of failures; it stays until its successor has the count."""
    if job.spec.backoff_limit_per_index is None:
        return {}
    found: dict[int, Pod] = {}
    for pod in pods:
        index = index_of(pod)
        if index is None or index in done or index >= (job.spec.completions or 0):
            continue
        if is_tracked(pod) and is_failed(pod, job) and (index not in found or _memory(pod) > _memory(found[index])):
            found[index] = pod
    return found


def delayed_removals(job: Job, pods: Sequence[Pod], done: IndexSet) -> set[str]:
    """Uids of failed pods whose index has no successor yet: without them the count of failures would be lost."""
    successors: dict[int, int] = {}
    for pod in pods:
        index = index_of(pod)
        if index is not None and not is_failed(pod, job):
            successors[index] = max(successors.get(index, -1), _memory(pod))
    kept = last_failures(job, pods, done).items()
    return {pod.uid for index, pod in kept if successors.get(index, -1) <= _memory(pod)}


def _memory(pod: Pod) -> int:
    return index_failures(pod) + ignored_index_failures(pod)


def pending_indexes(job: Job, pods: Iterable[Pod], taken: IndexSet, count: int) -> list[int]:
    """The first `count` indexes that are neither done nor running."""
    busy: list[int] = []
    for pod in pods:
        index = index_of(pod)
        waits_for_end = replaces_failed_only(job) and pod.metadata.is_terminating and not pod.is_terminal
        if index is not None and (pod_states.is_active(pod) or waits_for_end):
            busy.append(index)
    return taken.with_numbers(busy).first_missing(job.spec.completions or 0, count)


def superfluous_pods(job: Job, active: Sequence[Pod]) -> list[Pod]:
    """Pods without a legal index, and all but one of every index."""
    seen: set[int] = set()
    superfluous: list[Pod] = []
    for pod in sorted(active, key=lambda each: (not each.spec.node_name, each.metadata.creation_timestamp is None)):
        index = index_of(pod)
        if index is None or index >= (job.spec.completions or 0) or index in seen:
            superfluous.append(pod)
        else:
            seen.add(index)
    return superfluous


def matched_success_rule(policy: SuccessPolicy | None, completions: int, done: IndexSet) -> int | None:
    """The position of the first rule by which the Job counts as done."""
    for position, rule in enumerate(policy.rules if policy is not None else ()):
        if rule.succeeded_indexes is None:
            if rule.succeeded_count is not None and len(done) >= rule.succeeded_count:
                return position
            continue
        wanted = IndexSet(read_intervals(rule.succeeded_indexes, completions))
        needed = len(wanted) if rule.succeeded_count is None else rule.succeeded_count
        if wanted.count_shared(done) >= needed:
            return position
    return None
