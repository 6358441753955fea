"""CronJob: a schedule, and the template of the Jobs it makes."""

from __future__ import annotations

from tonnage.documents.defaults.batch import default_cron_job
from tonnage.documents.strategies.base import Generation, Strategy
from tonnage.documents.strategies.batch.job import size_warnings
from tonnage.documents.strategies.pod import drop_disabled_pod_fields
from tonnage.documents.validation.batch.cron_job import validate_cron_job, validate_cron_job_update
from tonnage.documents.validation.pods.pod_warnings import spec_warnings, workload_name_warnings
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors

_AT = "spec.jobTemplate.spec"


class CronJobStrategy(Strategy):
    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        default_cron_job(doc)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(_job_spec(new).get("template", {}).get("spec", {}))

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {}

    def validate(self, doc: Doc) -> Errors:
        return validate_cron_job(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_cron_job_update(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        told = workload_name_warnings(new["metadata"].get("name", "")) if old is None else []
        spec = _job_spec(new)
        if old is None or self.spec_changed(new, old):
            told += size_warnings(spec, _AT)
            told += spec_warnings(spec.get("template", {}).get("spec", {}), f"{_AT}.template.spec")
        if old is not None and "TZ" in new["spec"].get("schedule", ""):
            told.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
        return told


def _job_spec(doc: Doc) -> Doc:
    found: Doc = doc["spec"].get("jobTemplate", {}).get("spec", {})
    return found
