"""ReplicationController, the oldest workload: its selector is a map, and follows its template's labels."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.kinds.pods.pod_defaults import default_pod_template
from tonnage.documents.kinds.pods.pod_spec import validate_pod_template
from tonnage.documents.kinds.workloads.workload import (
    MISMATCH,
    WorkloadStrategy,
    drop_zero,
    validate_always_running,
    validate_status_counts,
)
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid, required
from tonnage.objects.field_rules import nonnegative


class ReplicationControllerStrategy(WorkloadStrategy):
    """Older than garbage collection: deleted without a word about its pods, it leaves them, as it always did."""

    default_propagation: ClassVar[str] = "Orphan"
    new_status: ClassVar[Doc] = {"replicas": 0}
    selectable: ClassVar[dict[str, tuple[str, ...]]] = {"status.replicas": ("status", "replicas")}

    def default(self, doc: Doc) -> None:
        """The oldest of them: its selector and its own labels follow the template's labels."""
        spec = doc.setdefault("spec", {})
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not doc["metadata"].get("labels"):
                doc["metadata"]["labels"] = dict(labels)
        spec.setdefault("replicas", 1)
        drop_zero(spec, "minReadySeconds")
        if "template" in spec:
            default_pod_template(spec["template"])

    def validate(self, doc: Doc) -> Errors:
        spec = doc["spec"]
        errors = nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
        selector, template = spec.get("selector", {}), spec.get("template")
        if not selector:
            errors.append(required("spec.selector"))
        errors += nonnegative(spec.get("replicas", 0), "spec.replicas")
        if template is None:
            return [*errors, required("spec.template")]
        labels = template.get("metadata", {}).get("labels")
        if selector and not selector.items() <= (labels or {}).items():
            errors.append(invalid("spec.template.metadata.labels", labels, MISMATCH))
        errors += validate_pod_template(template, "spec.template")
        return errors + validate_always_running(template, "ReplicationController")

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return validate_status_counts(new.get("status", {}), ("replicas", *parts, "observedGeneration"), parts=parts)
