"""Job, the decision: whether it has ended and, if not, how many pods it lacks or has too many.

    pods, status, now ──► verdict ──► delete all that run, then say so       (it failed, or is done)
                                 └──► Manage: delete some, or make some, or wait for the pause after a failure

A Job fails by its limit of failed pods, by an index, by its deadline, or by its policy; it is done when enough pods
have succeeded. Failed pods are replaced after a pause that doubles with every failure since the last success. Mirrors
syncJob and manageJob of pkg/controller/job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from tonnage.behaviour.workloads import job_pods, pod_states, replica_set_plan
from tonnage.objects.batch_v1 import Job, JobStatus, UncountedTerminatedPods
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Condition
from tonnage.objects.texts.index_intervals import IndexSet, written_intervals

MOST_AT_ONCE: Final = 500
"""Pods created or deleted in one round."""
FIRST_PAUSE_S, MAX_PAUSE_S = 10.0, 600.0
"""Upstream's DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff."""


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """The Job has ended: `FailureTarget` or `SuccessCriteriaMet`, and why."""

    type: str
    reason: str
    message: str

    @property
    def is_failure(self) -> bool:
        return self.type == "FailureTarget"


@dataclass(frozen=True, slots=True)
class Count:
    """The counts of a Job's pods, including what its status has counted already."""

    active: list[Pod]
    succeeded: int
    failed: int
    ready: int
    terminating: int
    done: IndexSet = field(default_factory=IndexSet)
    """Indexes that have succeeded."""
    lost: IndexSet = field(default_factory=IndexSet)
    """Indexes that have failed for good."""

    @property
    def settled(self) -> IndexSet:
        """Indexes that get no more pods."""
        return self.done.united(self.lost)


@dataclass(frozen=True, slots=True)
class Manage:
    """What to do for a running Job: pods to delete, or how many to create and, if Indexed, for which indexes."""

    delete: list[Pod] = field(default_factory=list)
    create: int = 0
    indexes: list[int] = field(default_factory=list)
    wait_s: float | None = None


def counted(job: Job, pods: Sequence[Pod]) -> Count:
    """Count the pods. Those in `uncountedTerminatedPods` are not in the status's numbers yet."""
    status, uncounted = job.status, job.status.uncounted_terminated_pods or UncountedTerminatedPods()
    told = {*uncounted.succeeded, *uncounted.failed}
    fresh = [pod for pod in pods if job_pods.is_tracked(pod) and pod.uid not in told]
    active = [pod for pod in pods if pod_states.is_active(pod)]
    done = job_pods.succeeded_indexes(job, pods) if job.spec.is_indexed else IndexSet()
    succeeded = status.succeeded + len(uncounted.succeeded) + sum(pod.status.phase == "Succeeded" for pod in fresh)
    failed = status.failed + len(uncounted.failed)
    failed += sum(
        job_pods.is_failed(pod, job) and job_pods.match_policy(job.spec.pod_failure_policy, pod).counts for pod in fresh
    )
    return Count(
        active=active,
        succeeded=len(done) if job.spec.is_indexed else succeeded,
        failed=failed,
        ready=sum(pod_states.is_ready(pod) for pod in active),
        terminating=sum(pod.metadata.is_terminating and not pod.is_terminal for pod in pods),
        done=done,
        lost=job_pods.failed_indexes(job, pods) if job.spec.is_indexed else IndexSet(),
    )


def verdict_of(job: Job, pods: Sequence[Pod], count: Count, now: datetime) -> JobVerdict | None:
    """The Job's verdict, None if it has not ended. An earlier verdict stays."""
    for kind in ("SuccessCriteriaMet", "FailureTarget"):
        condition = job.condition(kind)
        if condition is not None and condition.status == "True":
            return JobVerdict(kind, condition.reason, condition.message)
    return _failed_by_policy(job, pods) or _failed_by_limits(job, pods, count, now) or _ended_by_indexes(job, count)


def _failed_by_policy(job: Job, pods: Sequence[Pod]) -> JobVerdict | None:
    for pod in pods if job.spec.pod_failure_policy is not None else ():
        if job_pods.is_failed(pod, job) and (
            message := job_pods.match_policy(job.spec.pod_failure_policy, pod).message
        ):
            return JobVerdict("FailureTarget", "PodFailurePolicy", message)
    return None


def _failed_by_limits(job: Job, pods: Sequence[Pod], count: Count, now: datetime) -> JobVerdict | None:
    if count.failed > job.spec.backoff_limit or _restarted_too_often(job, pods):
        return JobVerdict("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left_s = deadline_s(job, now)
    if left_s is not None and left_s <= 0:
        return JobVerdict("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _ended_by_indexes(job: Job, count: Count) -> JobVerdict | None:
    spec = job.spec
    if not spec.is_indexed:
        return None
    if spec.backoff_limit_per_index is not None:
        if spec.max_failed_indexes is not None and len(count.lost) > spec.max_failed_indexes:
            told = "Job has exceeded the specified maximal number of failed indexes"
            return JobVerdict("FailureTarget", "MaxFailedIndexesExceeded", told)
        if count.lost and len(count.lost) + len(count.done) >= (spec.completions or 0):
            return JobVerdict("FailureTarget", "FailedIndexes", "Job has failed indexes")
    rule = job_pods.matched_success_rule(spec.success_policy, spec.completions or 0, count.done)
    if rule is None:
        return None
    return JobVerdict("SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {rule}")


def completed(job: Job, count: Count, active: int) -> JobVerdict | None:
    """The verdict if enough pods have succeeded and none runs any more."""
    wanted = job.spec.completions
    is_enough = count.succeeded > 0 if wanted is None else count.succeeded >= wanted
    if not is_enough or active:
        return None
    return JobVerdict("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


def deadline_s(job: Job, now: datetime) -> float | None:
    """Seconds that it may still run; None without a deadline, before its start, and while suspended."""
    limit, started = job.spec.active_deadline_seconds, job.status.start_time
    if limit is None or started is None or job.spec.suspend:
        return None
    return limit - (now - started).total_seconds()


def _restarted_too_often(job: Job, pods: Sequence[Pod]) -> bool:
    """True if containers that are restarted in place restarted more often than the limit."""
    if job.spec.template.get("spec", {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    limit = job.spec.backoff_limit
    return restarts > 0 if limit == 0 else restarts >= limit


# -- a Job that goes on -----------------------------------------------------------------------------------------------


def wanted_active(job: Job, count: Count) -> int:
    completions, parallelism = job.spec.completions, job.spec.parallelism
    if completions is None:  # after the first success no other is begun
        return len(count.active) if count.succeeded else parallelism
    left = completions - count.succeeded - len(count.lost)
    return max(0, min(parallelism, left))


def manage(job: Job, pods: Sequence[Pod], count: Count, now: datetime) -> Manage:
    """Delete or create, never both in one round."""
    active = count.active
    if job.spec.suspend:
        return Manage(delete=active[:MOST_AT_ONCE])
    wanted = wanted_active(job, count)
    surplus = _surplus(job, active, max(0, len(active) - wanted), now)
    if surplus:
        return Manage(delete=surplus[:MOST_AT_ONCE])
    missing = wanted - len(active) - (count.terminating if job_pods.replaces_failed_only(job) else 0)
    if missing <= 0:
        return Manage()
    missing = min(missing, MOST_AT_ONCE)
    if job.spec.backoff_limit_per_index is None:
        wait_s = pause_s(job, pods, now)
        if wait_s > 0:
            return Manage(wait_s=wait_s)
    if not job.spec.is_indexed:
        return Manage(create=missing)
    indexes = job_pods.pending_indexes(job, pods, count.settled, missing)
    return _after_their_pauses(job, pods, count, indexes, now)


def _surplus(job: Job, active: Sequence[Pod], at_least: int, now: datetime) -> list[Pod]:
    extra = job_pods.superfluous_pods(job, active) if job.spec.is_indexed else []
    if len(extra) >= at_least:
        return extra
    gone = {pod.uid for pod in extra}
    others = [pod for pod in active if pod.uid not in gone]
    return extra + replica_set_plan.pods_to_delete(others, others, at_least - len(extra), now)


def pause_s(job: Job, pods: Sequence[Pod], now: datetime) -> float:
    """Seconds until the next pod: 10 s after one failure, doubled for every further one since the last success."""
    ended = [(job_pods.finished_at(pod) or now, pod) for pod in pods]
    successes = [at for at, pod in ended if pod.status.phase == "Succeeded"]
    last_success = max(successes, default=None)
    failures = [at for at, pod in ended if job_pods.is_failed(pod, job) and (last_success is None or at > last_success)]
    return _left_s(len(failures), max(failures, default=None), now)


def _left_s(failures: int, last: datetime | None, now: datetime) -> float:
    if not failures or last is None:
        return 0.0
    pause = min(FIRST_PAUSE_S * float(2 ** min(failures - 1, 20)), MAX_PAUSE_S)
    return max(0.0, pause - (now - last).total_seconds())


def _after_their_pauses(job: Job, pods: Sequence[Pod], count: Count, indexes: list[int], now: datetime) -> Manage:
    """Create for indexes whose own pause is over; indexes with their own limit wait independently."""
    failed = job_pods.last_failures(job, pods, count.settled)
    waits = {
        index: _left_s(job_pods.index_failures(failed[index]) + 1, job_pods.finished_at(failed[index]), now)
        for index in indexes
        if index in failed
    }
    due = [index for index in indexes if waits.get(index, 0.0) <= 0]
    later = [wait for wait in waits.values() if wait > 0]
    return Manage(create=len(due), indexes=due, wait_s=min(later, default=None))


MOST_UNCOUNTED: Final = 500
"""Uids in a status at one time: it must fit into an object."""


def account(job: Job, pods: Sequence[Pod], count: Count, *, is_ending: bool) -> tuple[JobStatus, list[Pod]]:
    """Enter ended pods: the status to write first, and the pods that may lose their finalizer then.

    `is_ending`: nothing of the Job runs any more, and pods that have not succeeded have failed.

    A pod keeps its finalizer until its uid is in the status, and the uid stays there until the finalizer is gone: every
    pod is counted once, whenever the program is killed. Mirrors trackJobStatusAndRemoveFinalizers.
    """
    uncounted = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded, failed = list(uncounted.succeeded), list(uncounted.failed)
    told = {*succeeded, *failed}
    kept = set() if is_ending else job_pods.delayed_removals(job, pods, count.settled)
    removable: list[Pod] = []
    for pod in pods:
        is_over = job.metadata.is_terminating or is_ending or pod.status.phase == "Succeeded"
        may_lose_finalizer = is_over or (job_pods.is_failed(pod, job) and pod.uid not in kept)
        if not job_pods.is_tracked(pod) or not may_lose_finalizer:
            continue
        if len(removable) >= MOST_UNCOUNTED:
            break
        removable.append(pod)
        if pod.uid in told:
            continue
        if pod.status.phase == "Succeeded":
            if not job.spec.is_indexed:
                succeeded.append(pod.uid)
        elif (job_pods.is_failed(pod, job) or is_ending) and _is_countable(job, pod):
            failed.append(pod.uid)
    status = msgspec.structs.replace(
        job.status, uncounted_terminated_pods=UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    )
    if job.spec.is_indexed:
        lost = status.failed_indexes if job.spec.backoff_limit_per_index is None else written_intervals(count.lost)
        done = written_intervals(count.done)
        status = msgspec.structs.replace(status, succeeded=len(count.done), completed_indexes=done, failed_indexes=lost)
    return status, removable


def _is_countable(job: Job, pod: Pod) -> bool:
    if job.spec.is_indexed:
        index = job_pods.index_of(pod)
        if index is None or index >= (job.spec.completions or 0):
            return False
    return not job_pods.is_failed(pod, job) or job_pods.match_policy(job.spec.pod_failure_policy, pod).counts


def settle(status: JobStatus, tracked: Iterable[str], *, is_indexed: bool) -> JobStatus:
    """Count the uids of pods without a finalizer; `tracked` are the uids of pods that still have it."""
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    held = set(tracked)
    succeeded = [uid for uid in uncounted.succeeded if uid in held]
    failed = [uid for uid in uncounted.failed if uid in held]
    done = len(uncounted.succeeded) - len(succeeded)
    return msgspec.structs.replace(
        status,
        succeeded=status.succeeded if is_indexed else status.succeeded + done,
        failed=status.failed + len(uncounted.failed) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed)),
    )


def has_uncounted(status: JobStatus) -> bool:
    uncounted = status.uncounted_terminated_pods
    return uncounted is not None and bool(uncounted.succeeded or uncounted.failed)


def with_condition(status: JobStatus, kind: str, held: str, reason: str, message: str, now: datetime) -> JobStatus:
    """The status with this condition; an equal one stays as it is."""
    known = next((condition for condition in status.conditions if condition.type == kind), None)
    if known is not None and known.status == held:
        return status
    new = Condition(
        type=kind, status=held, reason=reason, message=message, last_probe_time=now, last_transition_time=now
    )
    others = tuple(condition for condition in status.conditions if condition.type != kind)
    return msgspec.structs.replace(status, conditions=(*others, new))


def finished(status: JobStatus, verdict: JobVerdict, now: datetime) -> JobStatus:
    kind = "Failed" if verdict.is_failure else "Complete"
    status = with_condition(status, kind, "True", verdict.reason, verdict.message, now)
    if verdict.is_failure:
        return status
    # Not before its start, which servers refuse: the clock may have been set back meanwhile.
    done_at = status.completion_time or max(now, status.start_time or now)
    return msgspec.structs.replace(status, completion_time=done_at)
