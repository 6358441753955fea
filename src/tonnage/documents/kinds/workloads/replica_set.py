"""ReplicaSet."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.kinds.pods.pod_warnings import workload_name_warnings
from tonnage.documents.kinds.workloads.workload import (
    WorkloadStrategy,
    default_common,
    validate_selected_template,
    validate_selector_kept,
    validate_status_counts,
)
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors
from tonnage.objects.field_rules import nonnegative


class ReplicaSetStrategy(WorkloadStrategy):
    new_status: ClassVar[Doc] = {"replicas": 0}

    def default(self, doc: Doc) -> None:
        default_common(doc)

    def validate(self, doc: Doc) -> Errors:
        spec = doc["spec"]
        errors = nonnegative(spec.get("replicas", 0), "spec.replicas")
        errors += nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
        return errors + validate_selected_template(spec, "ReplicaSet")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return self.validate(new) + validate_selector_kept(new, old)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        counts = ("replicas", *parts, "observedGeneration", "terminatingReplicas")
        return validate_status_counts(new.get("status", {}), counts, parts=parts)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        named = workload_name_warnings(new["metadata"].get("name", "")) if old is None else []
        return named + super().warnings(new, old)
