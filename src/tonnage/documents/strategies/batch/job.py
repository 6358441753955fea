"""Job: its selector and its pods' labels are the server's, unless its author insists."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.defaults.batch import default_job
from tonnage.documents.strategies.workloads import WorkloadStrategy
from tonnage.documents.validation.batch.job import (
    CONTROLLER_UID,
    JOB_NAME,
    OLD_CONTROLLER_UID,
    OLD_JOB_NAME,
    is_indexed,
    validate_job,
    validate_job_update,
)
from tonnage.documents.validation.batch.job_status import validate_job_status
from tonnage.documents.validation.pods.pod_warnings import workload_name_warnings
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors

_MANY_COMPLETIONS, _MANY_PARALLEL = 100_000, 10_000


class JobStrategy(WorkloadStrategy):
    """Older than garbage collection: deleted without a word about its pods, it leaves them. (kubectl says a word.)"""

    default_propagation: ClassVar[str] = "Orphan"
    selectable: ClassVar[dict[str, tuple[str, ...]]] = {"status.successful": ("status", "succeeded")}

    def default(self, doc: Doc) -> None:
        default_job(doc)

    def prepare_create(self, doc: Doc) -> None:
        super().prepare_create(doc)
        if not doc["spec"].get("manualSelector"):
            _generate_selector(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_job(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_job_update(new, old)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return validate_job_status(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        named = workload_name_warnings(new["metadata"].get("name", "")) if old is None else []
        if old is not None and not self.spec_changed(new, old):
            return []
        return named + size_warnings(new["spec"], "spec") + super().warnings(new, old)


def size_warnings(spec: Doc, path: str) -> list[str]:
    """Of an Indexed Job so large that not all that fails could be told."""
    is_large = spec.get("completions", 0) > _MANY_COMPLETIONS and spec.get("parallelism", 0) > _MANY_PARALLEL
    if not (is_indexed(spec) and is_large):
        return []
    return [
        f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
        "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
    ]


def _generate_selector(doc: Doc) -> None:
    """Select by the Job's uid, which nobody else has; what its author wrote there is left, and judged."""
    spec, name, uid = doc["spec"], doc["metadata"].get("name", ""), doc["metadata"].get("uid", "")
    meta = spec["template"].setdefault("metadata", {})
    wanted = {OLD_JOB_NAME: name, JOB_NAME: name, OLD_CONTROLLER_UID: uid, CONTROLLER_UID: uid}
    labels = meta.setdefault("labels", {})
    for key, value in wanted.items():  # in place: they may be the labels of the Job, too
        labels.setdefault(key, value)
    selector = dict(spec.get("selector") or {})
    selector["matchLabels"] = {CONTROLLER_UID: uid, **selector.get("matchLabels", {})}
    spec["selector"] = selector
