"""CronJob: a schedule in a time zone, and a template of Jobs. Mirrors pkg/apis/batch/validation."""

from __future__ import annotations

import re
from typing import ClassVar

from tonnage.documents.kinds.pods.pod import drop_disabled_pod_fields
from tonnage.documents.kinds.pods.pod_defaults import default_pod_spec, spec_warnings, workload_name_warnings
from tonnage.documents.kinds.workloads.job import size_warnings, validate_job_spec
from tonnage.documents.strategy import Generation, Strategy, TypeRules
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, invalid, required, unsupported
from tonnage.objects.texts.cron_schedule import InvalidSchedule, is_zone, parse_schedule

_CRON_SPEC = TypeRules("batch.CronJobSpec")
_AT = "spec.jobTemplate.spec"
_NAME_MAX = 52
"""The name of a Job has eleven more characters, and at most 63."""
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


class CronJobStrategy(Strategy):
    generation = Generation.COUNTED
    new_status: ClassVar[Doc] = {}

    def default(self, doc: Doc) -> None:
        """The pods' defaults are filled in here; the Job's own defaults are, when the Job is created."""
        super().default(doc)
        default_pod_spec(doc["spec"]["jobTemplate"]["spec"]["template"]["spec"])

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(dig(new, "spec", "jobTemplate", "spec", "template", "spec") or {})

    def validate(self, doc: Doc) -> Errors:
        errors = _validate_spec(doc["spec"], None)
        name = doc["metadata"].get("name", "")
        if len(name.encode()) > _NAME_MAX:
            errors.append(invalid("metadata.name", name, f"must be no more than {_NAME_MAX} characters"))
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return _validate_spec(new["spec"], old["spec"])

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        told = workload_name_warnings(new["metadata"].get("name", "")) if old is None else []
        spec = dig(new, "spec", "jobTemplate", "spec") or {}
        if old is None or self.spec_changed(new, old):
            told += size_warnings(spec, _AT)
            told += spec_warnings(spec.get("template", {}).get("spec", {}), f"{_AT}.template.spec")
        if old is not None and "TZ" in new["spec"].get("schedule", ""):
            told.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
        return told


def _validate_spec(spec: Doc, was: Doc | None) -> Errors:
    errors = _validate_schedule(spec, had_zone=was is not None and "TZ" in was.get("schedule", ""))
    errors += _CRON_SPEC(spec, "spec", "startingDeadlineSeconds")
    if was is None or spec.get("timeZone") != was.get("timeZone"):
        errors += _validate_zone(spec.get("timeZone"))
    errors += _CRON_SPEC(spec, "spec", "concurrencyPolicy")
    job = spec.get("jobTemplate", {}).get("spec", {})
    errors += validate_job_spec(job, _AT)
    if "selector" in job:
        errors.append(invalid(f"{_AT}.selector", job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        errors.append(unsupported(f"{_AT}.manualSelector", True, ("nil", "false")))
    return errors + _CRON_SPEC(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _validate_schedule(spec: Doc, *, had_zone: bool) -> Errors:
    schedule = spec.get("schedule", "")
    if not schedule:
        return [required("spec.schedule")]
    errors: Errors = []
    try:
        parse_schedule(schedule)
    except InvalidSchedule as exc:
        errors.append(invalid("spec.schedule", schedule, exc.message))
    if "TZ" in schedule:
        if had_zone and "timeZone" in spec:
            told = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(invalid("spec.schedule", schedule, told))
        elif not had_zone:
            told = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid("spec.schedule", schedule, told))
    return errors


def _validate_zone(zone: str | None) -> Errors:
    if zone is None:
        return []
    if not zone:
        return [invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return [invalid("spec.timeZone", zone, f"unknown time zone {zone}")]
    errors: Errors = []
    if zone.lower() == "local":
        told = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid("spec.timeZone", zone, told))
    if not is_zone(zone):
        errors.append(invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
    return errors
