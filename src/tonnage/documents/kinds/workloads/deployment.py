"""Deployment: its two strategies, and how far a rollout may go beside what is wanted."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.kinds.pods.pod_defaults import default_pod_template
from tonnage.documents.kinds.pods.pod_spec import validate_pod_template
from tonnage.documents.kinds.pods.pod_warnings import workload_name_warnings
from tonnage.documents.kinds.workloads.workload import (
    HISTORY_LIMIT,
    MISMATCH,
    WorkloadStrategy,
    default_common,
    drop_zero,
    shown_strategy,
    validate_always_running,
    validate_collisions,
    validate_selected_template,
    validate_selector_kept,
    validate_status_counts,
)
from tonnage.documents.strategy import keep
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import Errors, forbidden, invalid, required
from tonnage.objects.field_rules import amount_of, at_most_all, count_or_percent, nonnegative, unsupported

_PROGRESS_DEADLINE_S = 600


class DeploymentStrategy(WorkloadStrategy):
    def default(self, doc: Doc) -> None:
        spec = default_common(doc)
        strategy = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", HISTORY_LIMIT)
        spec.setdefault("progressDeadlineSeconds", _PROGRESS_DEADLINE_S)

    def validate(self, doc: Doc) -> Errors:
        spec = doc["spec"]
        errors = nonnegative(spec.get("replicas", 0), "spec.replicas")
        errors += validate_selected_template(spec, "ReplicaSet")
        errors += validate_deployment_strategy(spec.get("strategy", {}), "spec.strategy")
        patience_s, deadline_s = spec.get("minReadySeconds", 0), spec.get("progressDeadlineSeconds")
        errors += nonnegative(patience_s, "spec.minReadySeconds")
        errors += nonnegative(spec.get("revisionHistoryLimit", 0), "spec.revisionHistoryLimit")
        if deadline_s is not None:
            errors += nonnegative(deadline_s, "spec.progressDeadlineSeconds")
            if deadline_s <= patience_s:
                errors.append(
                    invalid("spec.progressDeadlineSeconds", deadline_s, "must be greater than minReadySeconds")
                )
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return self.validate(new) + validate_selector_kept(new, old)

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """Annotations count too: they are copied to the ReplicaSets."""
        if super().spec_changed(new, old):
            return True
        return not same(new["metadata"].get("annotations"), old["metadata"].get("annotations"))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        keep(new["metadata"], old["metadata"], "labels")

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        counts = ("observedGeneration", "replicas", *parts, "unavailableReplicas", "terminatingReplicas")
        status, was = new.get("status", {}), old.get("status", {})
        errors = validate_status_counts(status, (*counts, "collisionCount"), parts=parts)
        return errors + validate_collisions(status, was)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        named = workload_name_warnings(new["metadata"].get("name", "")) if old is None else []
        return named + super().warnings(new, old)


def validate_deployment_strategy(strategy: Doc, path: str) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        told = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden(f"{path}.rollingUpdate", told)]
    if kind != "RollingUpdate":
        shown = shown_strategy(kind, rolling, ("MaxUnavailable", "MaxSurge"))
        return [unsupported(path, shown, ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    out, extra = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    at = f"{path}.rollingUpdate"
    errors = count_or_percent(out, f"{at}.maxUnavailable") + count_or_percent(extra, f"{at}.maxSurge")
    if amount_of(out) == 0 and amount_of(extra) == 0:
        errors.append(invalid(f"{at}.maxUnavailable", out, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(out, f"{at}.maxUnavailable")


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
