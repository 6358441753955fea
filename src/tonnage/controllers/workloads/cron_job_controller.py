"""The cronjob controller: it creates a Job at every scheduled time, and keeps only the last few finished Jobs.

A Job is named after its CronJob and its scheduled minute, so it cannot be created twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Final

import msgspec

from tonnage import logs
from tonnage.behaviour.workloads import cron_plan
from tonnage.behaviour.workloads.job_pods import job_of
from tonnage.client.recorder import reference_to
from tonnage.controllers.controller_context import ControllerContext, QueueController
from tonnage.controllers.workloads.workload_controller import ControllerRefIndex
from tonnage.controllers.workloads.workload_writes import is_namespace_terminating, write_status
from tonnage.errors import AlreadyExists, NotFound, TonnageError
from tonnage.objects import codec
from tonnage.objects.batch_v1 import CronJob, CronJobStatus, Job
from tonnage.objects.core_v1 import ObjectReference
from tonnage.objects.meta import Key
from tonnage.objects.texts.cron_schedule import CronSchedule, InvalidSchedule, parse_schedule

_MAX_WAIT_S: Final = 600.0
"""The longest sleep: clocks are set, and time zones change."""

_log = logs.logger("tonnage.controllers.cron-jobs")


class CronJobController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cron_jobs = context.informers.of(CronJob)
        self._jobs = context.informers.of(Job)
        self._owned = ControllerRefIndex(self._jobs)
        queue = self._add_queue("cron-jobs", self.reconcile)
        queue.follow(self._cron_jobs)
        queue.follow(self._jobs, _owner_key)

    async def reconcile(self, key: Key) -> float | None:
        """Create the due Job of one CronJob. Mirrors syncCronJob."""
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            return None
        jobs = self._owned.of(cron_job.uid)
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
        await write_status(self._client, cron_job, status)
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
        doc = job_of(cron_job, at)
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


def _owner_key(job: Job) -> tuple[Key, ...]:
    controller = job.metadata.controller
    return (f"{job.namespace}/{controller.name}",) if controller is not None and controller.kind == "CronJob" else ()
