"""Finished Jobs go when their time is up: `ttlSecondsAfterFinished` after they were complete, or had failed.

The Job is read again before it is deleted, for its author may have given it more time. Mirrors ttlafterfinished, but
measures: setting the clock neither ends a Job's time nor prolongs it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tonnage import logs
from tonnage.client.reconciler import Reconciler
from tonnage.clock import StampAges
from tonnage.controllers.controller_context import ControllerContext
from tonnage.errors import NotFound
from tonnage.objects.batch_v1 import Job
from tonnage.objects.meta import Key

_log = logs.logger("tonnage.controllers.jobs")


def expires_at(job: Job) -> datetime | None:
    """When a Job is to go; None for one that stays, runs, or is going already."""
    ttl_s = job.spec.ttl_seconds_after_finished
    if ttl_s is None or job.metadata.is_terminating:
        return None
    for condition in job.status.conditions:
        is_end = condition.type in ("Complete", "Failed") and condition.status == "True"
        if is_end and condition.last_transition_time is not None:
            return condition.last_transition_time + timedelta(seconds=ttl_s)
    return None


class TTLAfterFinishedController:
    """Deletes Jobs whose time is up, until it is cancelled."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._informers = context.informers
        self._ages = StampAges(context.clock)
        self._jobs = context.informers.of(Job)
        self._reconciler = Reconciler("ttl-after-finished", self.reconcile, clock=context.clock, metrics=context.queues)
        self._reconciler.follow(self._jobs)

    async def run(self) -> None:
        await self._informers.wait_synced()
        await self._reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Delete a Job whose time is up, with its pods; when to look again at one whose time will come."""
        job = self._jobs.get(key)
        left_s = None if job is None else self._left_s(job)
        if left_s is None or left_s > 0:
            return left_s
        try:
            fresh = await self._client.get(Job, key)
            left_s = self._left_s(fresh)
            if left_s is None or left_s > 0:
                return left_s
            version = fresh.metadata.resource_version
            await self._client.delete(Job, key, uid=fresh.uid, resource_version=version, propagation="Foreground")
        except NotFound:
            return None
        _log.info("A finished Job has had its time", job=key)
        return None

    def _left_s(self, job: Job) -> float | None:
        """How long a Job is still kept; None for one that has not ended, or stays."""
        due, ttl_s = expires_at(job), job.spec.ttl_seconds_after_finished or 0
        return None if due is None else ttl_s - self._ages.age_s(job.uid, due - timedelta(seconds=ttl_s))
