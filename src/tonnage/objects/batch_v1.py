"""batch/v1: jobs. Our API server does not serve them; they are read from files and other servers, for their pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage.objects.meta import Object, Record
from tonnage.objects.selectors import LabelSelector


class JobSpec(Record):
    template: Mapping[str, Any] = {}
    selector: LabelSelector | None = None
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False


class JobStatus(Record):
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Job(Object):
    """Pods that run until enough of them have finished."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def pods_at_once(self) -> int:
        """How many pods it has while it runs: its parallelism, and no more than are still to finish."""
        if self.spec.completions is None:
            return self.spec.parallelism
        return max(0, min(self.spec.parallelism, self.spec.completions - self.status.succeeded))


class JobTemplateSpec(Record):
    metadata: Mapping[str, Any] = {}
    spec: Mapping[str, Any] = {}


class CronJobSpec(Record):
    schedule: str = ""
    suspend: bool = False
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(Object):
    """Makes a Job at the times of a schedule."""

    spec: CronJobSpec = CronJobSpec()
