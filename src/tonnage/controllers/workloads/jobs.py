"""The controllers of Jobs and CronJobs. A Job's pods run until enough have succeeded or too many have failed.

    sync ──► adopt and release ──► verdict ──► delete or create pods ──► enter those that ended (status)
                                                                              │
             finished, when nothing is left to count ◄── count them (status) ◄┴─ take their finalizers off

A Job of another controller (`managedBy`) is left alone. Pods whose Job is gone lose their finalizer. A finished Job
is deleted `ttlSecondsAfterFinished` after its end; setting the clock does not change that.

A CronJob gets a Job at every scheduled time, and keeps only the last few finished ones. A Job is named after its
CronJob and its scheduled minute, so it cannot be created twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Final

import msgspec

from tonnage import logs
from tonnage.behaviour.workloads import cron_plan, job_plan, job_pods, pod_states
from tonnage.client.cache import remove_finalizer
from tonnage.client.recorder import reference_to
from tonnage.controllers.controller_context import ControllerContext, QueueController, is_namespace_terminating
from tonnage.controllers.workloads import workload_controller
from tonnage.errors import AlreadyExists, Conflict, NotFound, RequestEntityTooLarge, TonnageError
from tonnage.objects import batch_v1, codec
from tonnage.objects.batch_v1 import JOB_TRACKING, CronJob, CronJobStatus, Job, JobStatus
from tonnage.objects.core_v1 import ObjectReference, Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.objects.texts.cron_schedule import CronSchedule, InvalidSchedule, parse_schedule

_log = logs.logger("tonnage.controllers.jobs")


_DEADLINE_SLACK_S: Final = 0.05


class JobController(workload_controller.PodOwnerController[Job]):
    """Runs every Job that no other controller manages."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "jobs", context.informers.of(Job))
        self._left_behind = self._add_queue("jobs-left-behind", self._release_left_behind)
        self._left_behind.follow(self._pods, lambda pod: (pod.key,) if self._is_left_behind(pod) else ())
        self._workloads.add_handlers(on_delete=self._job_gone)

    # -- one Job ------------------------------------------------------------------------------------------------------

    async def sync(self, job: Job, /, *, is_current: bool) -> float | None:
        """Take the next step for a Job. Mirrors syncJob."""
        if job.spec.managed_by not in (None, batch_v1.OUR_CONTROLLER) or job.is_finished:
            return None
        if not is_current:
            return workload_controller.RESYNC_S
        pods = await self._claimed(job, finalizer=JOB_TRACKING)
        now = self._clock.now()
        stored = job
        if job.status.start_time is None and not job.spec.suspend:
            job = msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, start_time=now))
        count = job_plan.counted(job, pods)
        measured_now = self._ages.now(job.uid, job.status.start_time)
        verdict = job_plan.verdict_of(job, pods, count, measured_now)
        plan = job_plan.Manage()
        if verdict is not None:
            failure = await self._delete_pods(job, count.active)
        elif job.metadata.is_terminating:
            failure = None
        else:
            # The time that the pause after the last failure is measured by; setting the clock does not change it.
            ends = (job_pods.finished_at(pod) for pod in pods if job_pods.is_failed(pod, job))
            last_end = max((at for at in ends if at is not None), default=None)
            plan = job_plan.manage(job, pods, count, self._ages.now((job.uid, "failure"), last_end))
            failure = await self._manage(job, pods, count, plan)
        status = self._tended(job, verdict, plan, count)
        if verdict is None and failure is None and not plan.delete and not plan.create:
            verdict = job_plan.completed(job, count, len(count.active))
        job = msgspec.structs.replace(job, status=status)
        await self._account(stored, job, pods, count, verdict, failed=failure is not None)
        if failure is not None:
            raise failure
        left_s = job_plan.deadline_s(job, measured_now)
        return pod_states.earliest(plan.wait_s, None if left_s is None else max(0.0, left_s) + _DEADLINE_SLACK_S)

    async def _manage(
        self, job: Job, pods: Sequence[Pod], count: job_plan.Count, plan: job_plan.Manage
    ) -> TonnageError | None:
        if plan.delete:
            _log.info("Too many pods", job=job.key, deleting=len(plan.delete))
            return await self._delete_pods(job, plan.delete)
        if not plan.create:
            return None
        _log.info("Too few pods", job=job.key, creating=plan.create)
        before = job_pods.last_failures(job, pods, count.settled)

        async def create(position: int) -> TonnageError | None:
            index = plan.indexes[position] if plan.indexes else 0
            doc = job_pods.job_pod(job, index)
            doc["metadata"].setdefault("finalizers", []).append(JOB_TRACKING)
            if job.spec.backoff_limit_per_index is not None:
                _remember_failures(doc, job, before.get(index))
            return await self._create_pod(job, doc)

        return await workload_controller.slow_start(plan.create, create)

    def _tended(
        self, job: Job, verdict: job_plan.JobVerdict | None, plan: job_plan.Manage, count: job_plan.Count
    ) -> JobStatus:
        """The status after this sync: how many pods run, and whether the Job is suspended."""
        now, active = self._clock.now(), len(count.active)
        deleted = active if verdict is not None else len(plan.delete)
        status = msgspec.structs.replace(
            job.status,
            active=active - deleted + plan.create,
            ready=min(count.ready, active - deleted),
            terminating=count.terminating + deleted,
        )
        if verdict is not None or job.metadata.is_terminating:
            return status
        if job.spec.suspend:
            suspended = job_plan.with_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now)
            if suspended is not status:
                self._recorder.event(job, "Normal", "Suspended", "Suspend", "Job suspended")
            return suspended
        was = job.condition("Suspended")
        if was is None or was.status != "True":
            return status
        self._recorder.event(job, "Normal", "Resumed", "Resume", "Job resumed")
        resumed = job_plan.with_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now)
        return msgspec.structs.replace(resumed, start_time=now)

    # -- counting -----------------------------------------------------------------------------------------------------

    async def _account(
        self,
        stored: Job,
        job: Job,
        pods: Sequence[Pod],
        count: job_plan.Count,
        verdict: job_plan.JobVerdict | None,
        *,
        failed: bool,
    ) -> None:
        """Write the status of `job` over `stored`, in two writes with the removal of finalizers between them."""
        now = self._clock.now()
        is_ending = verdict is not None and not failed
        if is_ending and verdict is not None:  # before any pod may go, and the failure's reason with it
            said = job_plan.with_condition(job.status, verdict.type, "True", verdict.reason, verdict.message, now)
            job = msgspec.structs.replace(job, status=said)
        entered, removable = job_plan.account(job, pods, count, is_ending=is_ending)
        try:
            stored = await self._write(stored, entered)
        except RequestEntityTooLarge:
            # A terminating Job's pods go uncounted: a namespace may wait for them, and the Job may never have the room.
            going = [pod for pod in removable if job.metadata.is_terminating or pod.metadata.is_terminating]
            await self._take_finalizers(job, going)
            raise
        removed = await self._take_finalizers(job, removable)
        tracked = {pod.uid for pod in pods if job_pods.is_tracked(pod)} - removed
        settled = job_plan.settle(entered, tracked, is_indexed=job.spec.is_indexed)
        has_ended = is_ending and not job_plan.has_uncounted(settled) and not settled.terminating
        if has_ended and verdict is not None:
            settled = job_plan.finished(settled, verdict, now)
        await self._write(stored, settled)
        if has_ended and settled.conditions[-1].type == "Complete":
            self._recorder.event(job, "Normal", "Completed", "Complete", "Job completed")
        elif has_ended:
            end = settled.conditions[-1]
            self._recorder.event(job, "Warning", end.reason, "Fail", end.message)

    async def _write(self, job: Job, status: JobStatus) -> Job:
        fresh = await workload_controller.write_status(self._client, job, status)
        if fresh is None:
            return job
        self._expectations.expect_written(job.key, self._workloads, fresh)
        return fresh

    async def _take_finalizers(self, job: Job, pods: Sequence[Pod]) -> set[str]:
        """Uids of the pods that have lost the finalizer now, or are gone."""

        async def take(pod: Pod) -> str:
            try:
                patch = remove_finalizer(pod, JOB_TRACKING)
                if patch is not None:
                    await self._expectations.patch(job.key, self._pods, pod.key, patch)
            except NotFound:
                return pod.uid
            except Conflict:
                return ""  # it has changed: its event queues the Job again
            return pod.uid

        return set(await asyncio.gather(*map(take, pods))) - {""}

    # -- pods whose Job is gone ---------------------------------------------------------------------------------------

    def _is_left_behind(self, pod: Pod) -> bool:
        return job_pods.is_tracked(pod) and self._job_of(pod) is None

    def _job_gone(self, job: Job) -> None:
        for pod in self._owned(job.uid):
            self._left_behind.add(pod.key)

    def _job_of(self, pod: Pod) -> Job | None:
        controller = pod.metadata.controller
        if controller is None or controller.kind != "Job":
            return None
        job = self._workloads.get(f"{pod.namespace}/{controller.name}")
        return job if job is not None and job.uid == controller.uid else None

    async def _release_left_behind(self, key: Key) -> float | None:
        """Remove the finalizer of a pod whose Job is gone: no controller will count it."""
        pod = self._pods.get(key)
        if pod is None or not self._is_left_behind(pod):
            return None
        controller = pod.metadata.controller
        if controller is not None and controller.kind == "Job":
            job = await self._client.find(Job, f"{pod.namespace}/{controller.name}")
            if job is not None and job.uid == controller.uid:
                return None  # the cache is behind; the Job's own event follows
        await self._patch_object(pod, remove_finalizer(pod, JOB_TRACKING))
        return None


def _remember_failures(doc: Doc, job: Job, before: Pod | None) -> None:
    """Write on a new pod how often its index has failed: the failed pods are not kept."""
    counts, ignored = 0, 0
    if before is not None:
        is_counted = job_pods.match_policy(job.spec.pod_failure_policy, before).counts
        counts = job_pods.index_failures(before) + is_counted
        ignored = job_pods.ignored_index_failures(before) + (not is_counted)
    annotations = doc["metadata"].setdefault("annotations", {})
    annotations[batch_v1.INDEX_FAILURE_COUNT] = str(counts)
    if ignored:
        annotations[batch_v1.INDEX_IGNORED_FAILURE_COUNT] = str(ignored)


def expires_at(job: Job) -> datetime | None:
    """When a Job is to be deleted; None if it has no TTL, still runs, or is being deleted."""
    ttl_s = job.spec.ttl_seconds_after_finished
    if ttl_s is None or job.metadata.is_terminating:
        return None
    for condition in job.status.conditions:
        is_end = condition.type in ("Complete", "Failed") and condition.status == "True"
        if is_end and condition.last_transition_time is not None:
            return condition.last_transition_time + timedelta(seconds=ttl_s)
    return None


class TTLAfterFinishedController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs = context.informers.of(Job)
        self._add_queue("ttl-after-finished", self.reconcile).follow(self._jobs)

    async def reconcile(self, key: Key) -> float | None:
        """Delete a Job whose TTL is over, with its pods. Returns the seconds until then."""
        job = self._jobs.get(key)
        left_s = None if job is None else self._left_s(job)
        if left_s is None or left_s > 0:
            return left_s
        fresh = await self._client.get(Job, key)
        left_s = self._left_s(fresh)
        if left_s is None or left_s > 0:
            return left_s
        version = fresh.metadata.resource_version
        await self._client.delete(Job, key, uid=fresh.uid, resource_version=version, propagation="Foreground")
        _log.info("A finished Job has had its time", job=key)
        return None

    def _left_s(self, job: Job) -> float | None:
        """Seconds until the TTL is over; None without a TTL or while the Job runs."""
        due, ttl_s = expires_at(job), job.spec.ttl_seconds_after_finished or 0
        return None if due is None else ttl_s - self._ages.age_s(job.uid, due - timedelta(seconds=ttl_s))


_MAX_WAIT_S: Final = 600.0
"""The longest sleep: clocks are set, and time zones change."""


class CronJobController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cron_jobs = context.informers.of(CronJob)
        self._jobs = context.informers.of(Job)
        self._owned = workload_controller.by_controller(self._jobs)
        queue = self._add_queue("cron-jobs", self.reconcile)
        queue.follow(self._cron_jobs)
        queue.follow(self._jobs, _owner_keys)

    async def reconcile(self, key: Key) -> float | None:
        """Create the due Job of one CronJob. Mirrors syncCronJob."""
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            return None
        jobs = self._owned(cron_job.uid)
        status = await self._tended(cron_job, jobs)
        for job in cron_plan.surplus_jobs(cron_job, jobs):
            await self._delete(cron_job, job)
        is_at_rest = cron_job.metadata.is_terminating or cron_job.spec.suspend
        times = None if is_at_rest else self._times(cron_job)
        if times is not None:
            now = self._clock.now()
            due = cron_plan.due_time(cron_job, *times, now)
            if due.missed > cron_plan.MANY_MISSED:
                told = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
                self._warn(cron_job, "TooManyMissedTimes", told)
            if due.at is not None:
                status = await self._start(cron_job, status, due.at, now)
        await workload_controller.write_status(self._client, cron_job, status)
        again_s = cron_plan.next_check_s(*times, self._clock.now()) if times is not None else None
        return None if again_s is None else min(again_s, _MAX_WAIT_S)

    def _times(self, cron_job: CronJob) -> tuple[CronSchedule, tzinfo] | None:
        """The schedule and its time zone; None, and an event, when one of them is invalid."""
        zone, name = cron_plan.zone_of(cron_job), cron_job.spec.time_zone
        if zone is None:
            self._warn(cron_job, "UnknownTimeZone", f'invalid timeZone: "{name}": unknown time zone {name}')
            return None
        try:
            return parse_schedule(cron_job.spec.schedule), zone
        except InvalidSchedule as exc:
            told = f'unparseable schedule: "{cron_job.spec.schedule}" : {exc.message}'
            self._warn(cron_job, "UnparseableSchedule", told)
            return None

    async def _tended(self, cron_job: CronJob, jobs: Sequence[Job]) -> CronJobStatus:
        """The status with its running Jobs. Records events for Jobs that finished, are missing or are unexpected."""
        by_uid = {job.uid: job for job in jobs}
        active: list[ObjectReference] = []
        for reference in cron_job.status.active:
            job = by_uid.get(reference.uid)
            if job is None:  # ask the server: the cache may lack a Job that was just created
                found = await self._client.find(Job, f"{reference.namespace}/{reference.name}")
                if found is not None and found.uid == reference.uid:
                    active.append(reference)
                else:
                    self._tell(cron_job, "MissingJob", f"Active job went missing: {reference.name}")
            elif job.is_finished:
                end = "Complete" if job.has("Complete") else "Failed"
                self._tell(cron_job, "SawCompletedJob", f"Saw completed job: {job.name}, condition: {end}")
            else:
                active.append(reference)
        known = {object_reference.uid for object_reference in cron_job.status.active}
        for job in jobs:
            if job.uid not in known and not job.is_finished and not job.metadata.is_terminating:
                told = f"Saw a job that the controller did not create or forgot: {job.name}"
                self._warn(cron_job, "UnexpectedJob", told)
        return msgspec.structs.replace(
            cron_job.status,
            active=tuple(active),
            last_successful_time=cron_plan.last_success(cron_job, jobs),
        )

    async def _delete(self, cron_job: CronJob, job: Job) -> None:
        try:
            await self._client.delete(Job, job.key, uid=job.uid, propagation="Background")
        except NotFound:
            return
        except TonnageError as exc:
            self._warn(cron_job, "FailedDelete", f"Deleted job: {exc.message}")
            raise
        self._tell(cron_job, "SuccessfulDelete", f"Deleted job {job.name}")

    async def _start(self, cron_job: CronJob, status: CronJobStatus, at: datetime, now: datetime) -> CronJobStatus:
        if cron_plan.is_too_late(cron_job, at, now):
            shown = at.strftime("%a, %d %b %Y %H:%M:%S %z")
            self._warn(cron_job, "MissSchedule", f"Missed scheduled time to start a job: {shown}")
            return status
        doc = job_pods.job_of(cron_job, at)
        name = doc["metadata"]["name"]
        if any(each.name == name for each in status.active) or cron_job.status.last_schedule_time == at:
            return status
        policy = cron_job.spec.concurrency_policy
        if policy == "Forbid" and status.active:
            told = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._tell(cron_job, "JobAlreadyActive", told)
            return status
        if policy == "Replace":
            for reference in status.active:
                job = self._jobs.get(f"{cron_job.namespace}/{reference.name}")
                if job is not None and job.uid == reference.uid:
                    await self._delete(cron_job, job)
            status = msgspec.structs.replace(status, active=())
        try:
            made = codec.convert(Job, await self._client.create_doc(doc))
        except AlreadyExists:
            made = await self._client.get(Job, f"{cron_job.namespace}/{name}")
            controller = made.metadata.controller
            if controller is None or controller.uid != cron_job.uid or made.is_finished:
                return msgspec.structs.replace(status, last_schedule_time=at)
        except TonnageError as exc:
            if is_namespace_terminating(exc):
                return status
            self._warn(cron_job, "FailedCreate", f"Error creating job: {exc.message}")
            raise
        else:
            self._tell(cron_job, "SuccessfulCreate", f"Created job {name}")
        return msgspec.structs.replace(status, active=(*status.active, reference_to(made)), last_schedule_time=at)

    def _tell(self, cron_job: CronJob, reason: str, note: str) -> None:
        self._recorder.event(cron_job, "Normal", reason, "Schedule", note)

    def _warn(self, cron_job: CronJob, reason: str, note: str) -> None:
        self._recorder.event(cron_job, "Warning", reason, "Schedule", note)


def _owner_keys(job: Job) -> tuple[Key, ...]:
    controller = job.metadata.controller
    return (f"{job.namespace}/{controller.name}",) if controller is not None and controller.kind == "CronJob" else ()
