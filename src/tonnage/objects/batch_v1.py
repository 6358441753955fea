"""batch/v1: pods that run to completion, once or by a schedule. Templates stay documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage.objects.core_v1 import ObjectReference
from tonnage.objects.meta import Condition, Object, Record, Time
from tonnage.objects.selectors import LabelSelector

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
"""Labels of a Job's pods, written by the server."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of a pod of an Indexed Job."""
INDEX_FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Annotations of a pod whose Job has a limit per index: how often its index has failed before."""
JOB_TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a Job's pods: they stay until they are counted."""
CRONJOB_SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
"""Annotation of a Job that a CronJob created: its scheduled time."""
OUR_CONTROLLER = "kubernetes.io/job-controller"
"""`managedBy` of a Job that the job controller runs."""


class PodFailurePolicyOnExitCodesRequirement(Record):
    operator: str = ""
    values: tuple[int, ...] = ()
    container_name: str | None = None


class PodFailurePolicyOnPodConditionsPattern(Record):
    type: str = ""
    status: str = "True"


class PodFailurePolicyRule(Record):
    action: str = ""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


class PodFailurePolicy(Record):
    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Record):
    succeeded_count: int | None = None
    succeeded_indexes: str | None = None


class SuccessPolicy(Record):
    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(Record):
    template: Mapping[str, Any] = {}
    selector: LabelSelector | None = None
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    active_deadline_seconds: int | None = None
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    managed_by: str | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    success_policy: SuccessPolicy | None = None
    ttl_seconds_after_finished: int | None = None

    @property
    def is_indexed(self) -> bool:
        return self.completion_mode == "Indexed"


class UncountedTerminatedPods(Record):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Record):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int | None = None
    terminating: int | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    conditions: tuple[Condition, ...] = ()
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def pods_at_once(self) -> int:
        """How many pods run at once: the parallelism, but no more than the missing completions."""
        if self.spec.completions is None:
            return self.spec.parallelism
        return max(0, min(self.spec.parallelism, self.spec.completions - self.status.succeeded))

    def condition(self, kind: str) -> Condition | None:
        return next((condition for condition in self.status.conditions if condition.type == kind), None)

    def has(self, kind: str) -> bool:
        condition = self.condition(kind)
        return condition is not None and condition.is_true

    @property
    def is_finished(self) -> bool:
        return self.has("Complete") or self.has("Failed")


class JobTemplateSpec(Record):
    metadata: Mapping[str, Any] = {}
    spec: Mapping[str, Any] = {}


class CronJobSpec(Record):
    schedule: str = ""
    time_zone: str | None = None
    suspend: bool = False
    concurrency_policy: str = "Allow"
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = 3
    failed_jobs_history_limit: int | None = 1
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJobStatus(Record):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


class CronJob(Object):
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
