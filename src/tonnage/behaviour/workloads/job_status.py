"""Job, the bookkeeping: every pod is counted once, whenever the program is killed.

    pod ends ──► its uid into status.uncountedTerminatedPods ──► its finalizer off ──► counted, uid out again

A pod keeps its finalizer until its uid stands in the status, and the uid stays there until the finalizer is gone: at
each moment one of the two says that the pod still has to be counted. Indexes need no uids, for an index is counted by
its number. Mirrors trackJobStatusAndRemoveFinalizers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from tonnage.behaviour.workloads.job_plan import Count, JobVerdict
from tonnage.behaviour.workloads.job_pods import delayed_removals, index_of, is_failed, is_tracked, match_policy
from tonnage.objects.batch_v1 import Job, JobCondition, JobStatus, UncountedTerminatedPods
from tonnage.objects.core_v1 import Pod
from tonnage.objects.texts.index_intervals import written_intervals

MOST_UNCOUNTED: Final = 500
"""Uids in a status at one time: it has to fit into an object."""


@dataclass(frozen=True, slots=True)
class Accounting:
    """The status to write first, and the pods that may lose their finalizer then."""

    status: JobStatus
    removable: list[Pod]


def account(job: Job, pods: Sequence[Pod], count: Count, *, is_ending: bool) -> Accounting:
    """Enter pods that have ended. `is_ending`: nothing of it runs any more; whoever has not succeeded failed."""
    uncounted = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded, failed = list(uncounted.succeeded), list(uncounted.failed)
    told = {*succeeded, *failed}
    kept = set() if is_ending else delayed_removals(job, pods, count.settled)
    removable: list[Pod] = []
    for pod in pods:
        if not is_tracked(pod) or not _may_lose_finalizer(job, pod, kept, is_ending=is_ending):
            continue
        if len(removable) >= MOST_UNCOUNTED:
            break
        removable.append(pod)
        if pod.uid in told:
            continue
        if pod.status.phase == "Succeeded":
            if not job.spec.is_indexed:
                succeeded.append(pod.uid)
        elif (is_failed(pod, job) or is_ending) and _is_countable(job, pod):
            failed.append(pod.uid)
    status = msgspec.structs.replace(
        job.status, uncounted_terminated_pods=UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    )
    if job.spec.is_indexed:
        status = msgspec.structs.replace(
            status, succeeded=len(count.done), completed_indexes=written_intervals(count.done)
        )
        if job.spec.backoff_limit_per_index is not None:
            status = msgspec.structs.replace(status, failed_indexes=written_intervals(count.lost))
    return Accounting(status, removable)


def _may_lose_finalizer(job: Job, pod: Pod, kept: set[str], *, is_ending: bool) -> bool:
    if job.metadata.is_terminating or is_ending or pod.status.phase == "Succeeded":
        return True
    return is_failed(pod, job) and pod.uid not in kept


def _is_countable(job: Job, pod: Pod) -> bool:
    if job.spec.is_indexed:
        index = index_of(pod)
        if index is None or index >= (job.spec.completions or 0):
            return False
    return not is_failed(pod, job) or match_policy(job.spec.pod_failure_policy, pod).counts


def settle(status: JobStatus, tracked: Iterable[str], *, is_indexed: bool) -> JobStatus:
    """Count the uids whose pods have lost their finalizer; `tracked` are the uids of those that have it still."""
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
    """The status with this condition; one that says the same already stays as it is."""
    known = next((each for each in status.conditions if each.type == kind), None)
    if known is not None and known.status == held:
        return status
    new = JobCondition(
        type=kind, status=held, reason=reason, message=message, last_probe_time=now, last_transition_time=now
    )
    others = tuple(each for each in status.conditions if each.type != kind)
    return msgspec.structs.replace(status, conditions=(*others, new))


def finished(status: JobStatus, verdict: JobVerdict, now: datetime) -> JobStatus:
    """The status of a Job that has ended, with nothing left to count."""
    kind = "Failed" if verdict.is_failure else "Complete"
    status = with_condition(status, kind, "True", verdict.reason, verdict.message, now)
    if verdict.is_failure:
        return status
    # Not before it began, which servers refuse: the clock may have been set back while it ran.
    done_at = status.completion_time or max(now, status.start_time or now)
    return msgspec.structs.replace(status, completion_time=done_at)
