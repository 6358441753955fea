"""Which indexes of an Indexed Job are done, failed, running, and next. Mirrors indexed_job_utils.go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tonnage.controllers.workloads.jobs.pod_outcomes import (
    ignored_index_failures,
    index_failures,
    index_of,
    is_active,
    is_failed,
    is_tracked,
    match_policy,
    replaces_failed_only,
)
from tonnage.objects.batch_v1 import Job, SuccessPolicy
from tonnage.objects.core_v1 import Pod
from tonnage.objects.texts.index_intervals import IndexSet, read_intervals


def succeeded_indexes(job: Job, pods: Iterable[Pod]) -> IndexSet:
    """Those that the status names, and those of pods that have succeeded since."""
    completions = job.spec.completions or 0
    fresh = [index_of(pod) for pod in pods if pod.status.phase == "Succeeded" and is_tracked(pod)]
    known = IndexSet(read_intervals(job.status.completed_indexes, completions))
    return known.with_numbers(index for index in fresh if index is not None and index < completions)


def failed_indexes(job: Job, pods: Iterable[Pod]) -> IndexSet:
    """Those that have failed for good, by the limit of each index or by the policy; none without a limit."""
    if job.spec.backoff_limit_per_index is None:
        return IndexSet()
    completions = job.spec.completions or 0
    fresh = [index_of(pod) for pod in pods if is_tracked(pod) and is_index_failed(job, pod)]
    known = IndexSet(read_intervals(job.status.failed_indexes or "", completions))
    return known.with_numbers(index for index in fresh if index is not None and index < completions)


def is_index_failed(job: Job, pod: Pod) -> bool:
    if not is_failed(pod, job):
        return False
    match = match_policy(job.spec.pod_failure_policy, pod)
    if match.action == "FailIndex":
        return True
    return match.counts and index_failures(pod) >= (job.spec.backoff_limit_per_index or 0)


def last_failures(job: Job, pods: Iterable[Pod], done: IndexSet) -> dict[int, Pod]:
    """By index the failed pod that knows most failures; it stays until its successor is there to remember them."""
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
    """Uids of failed pods whose index has no successor yet: with them, how often it failed would be forgotten."""
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
    """The first indexes that are neither done nor running, `count` at most."""
    busy: list[int] = []
    for pod in pods:
        index = index_of(pod)
        waits_for_end = replaces_failed_only(job) and pod.metadata.is_terminating and not pod.is_terminal
        if index is not None and (is_active(pod) or waits_for_end):
            busy.append(index)
    return taken.with_numbers(busy).first_missing(job.spec.completions or 0, count)


def superfluous_pods(job: Job, active: Sequence[Pod]) -> list[Pod]:
    """Pods without a legal index, and all but one of each index."""
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
