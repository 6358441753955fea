"""Deployment, ReplicaSet and ReplicationController: a number of equal pods, and how they are replaced."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.kinds.pods.pod_defaults import default_pod_template
from tonnage.documents.kinds.pods.pod_spec import validate_pod_template
from tonnage.documents.kinds.workloads import workload
from tonnage.documents.strategy import keep
from tonnage.documents.validation.type_rules import TypeRules
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import Errors, forbidden, invalid, required, unsupported
from tonnage.objects.field_rules import amount_of, at_most_all, count_or_percent

_DEPLOYMENT, _CONTROLLER = TypeRules("apps.DeploymentSpec"), TypeRules("core.ReplicationControllerSpec")
_PARTS_OF_REPLICA_SET = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


class DeploymentStrategy(workload.WorkloadStrategy):
    rolling: ClassVar[tuple[str, Doc]] = ("strategy", {"maxUnavailable": "25%", "maxSurge": "25%"})
    defaults: ClassVar[Doc] = {"spec": {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}}
    parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
    warns_of_name = True

    def validate(self, doc: Doc) -> Errors:
        spec = doc["spec"]
        errors = _DEPLOYMENT(spec, "spec", "replicas")
        errors += workload.validate_selected_template(spec)
        errors += _validate_strategy(spec.get("strategy", {}))
        errors += _DEPLOYMENT(spec, "spec", "minReadySeconds..progressDeadlineSeconds")
        deadline_s = spec.get("progressDeadlineSeconds")
        if deadline_s is not None and deadline_s <= spec.get("minReadySeconds", 0):
            errors.append(invalid("spec.progressDeadlineSeconds", deadline_s, "must be greater than minReadySeconds"))
        return errors

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """A changed annotation counts too: annotations are copied to the ReplicaSets."""
        if super().spec_changed(new, old):
            return True
        return not same(new["metadata"].get("annotations"), old["metadata"].get("annotations"))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        keep(new["metadata"], old["metadata"], "labels")


def _validate_strategy(strategy: Doc) -> Errors:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.strategy"
    if kind == "Recreate":
        told = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden(f"{path}.rollingUpdate", told)]
    if kind != "RollingUpdate":
        shown = workload.shown_strategy(kind, rolling, ("MaxUnavailable", "MaxSurge"))
        return [unsupported(path, shown, ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    out, extra = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    at = f"{path}.rollingUpdate"
    errors = count_or_percent(out, f"{at}.maxUnavailable") + count_or_percent(extra, f"{at}.maxSurge")
    if amount_of(out) == 0 and amount_of(extra) == 0:
        errors.append(invalid(f"{at}.maxUnavailable", out, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(out, f"{at}.maxUnavailable")


class ReplicaSetStrategy(workload.WorkloadStrategy):
    new_status: ClassVar[Doc] = {"replicas": 0}
    parts = _PARTS_OF_REPLICA_SET
    warns_of_name = True

    def validate(self, doc: Doc) -> Errors:
        return super().validate(doc) + workload.validate_selected_template(doc["spec"])


class ReplicationControllerStrategy(workload.WorkloadStrategy):
    """The oldest workload: its selector is a map. A DELETE without propagationPolicy orphans its pods."""

    default_propagation: ClassVar[str] = "Orphan"
    new_status: ClassVar[Doc] = {"replicas": 0}
    selectable = ("status.replicas",)
    parts = _PARTS_OF_REPLICA_SET

    def default(self, doc: Doc) -> None:
        """Its selector and its own labels default to the template's labels."""
        spec = doc.setdefault("spec", {})
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not doc["metadata"].get("labels"):
                doc["metadata"]["labels"] = dict(labels)
        spec.setdefault("replicas", 1)
        if "template" in spec:
            default_pod_template(spec["template"])

    def validate(self, doc: Doc) -> Errors:
        spec = doc["spec"]
        selector, template = spec.get("selector", {}), spec.get("template")
        errors = _CONTROLLER(spec, "spec")
        if template is None:
            return [*errors, required("spec.template")]
        labels = template.get("metadata", {}).get("labels")
        if selector and not selector.items() <= (labels or {}).items():
            errors.append(invalid("spec.template.metadata.labels", labels, workload.MISMATCH))
        errors += validate_pod_template(template, "spec.template")
        return errors + workload.validate_always_running(template, "ReplicationController")
