"""What the workloads share: their strategy, a selector that matches their own template, and counts in their status.

Numbers that upstream always writes are in the status from the start. Mirrors upstream's apps validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from tonnage.documents.kinds.pods.pod import drop_disabled_pod_fields
from tonnage.documents.kinds.pods.pod_defaults import default_pod_template
from tonnage.documents.kinds.pods.pod_spec import validate_pod_template
from tonnage.documents.kinds.pods.pod_warnings import spec_warnings, workload_name_warnings
from tonnage.documents.strategy import Generation, Strategy, fill
from tonnage.documents.validation.selectors import validate_label_selector
from tonnage.documents.validation.type_rules import TypeRules
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, forbidden, invalid, required, unsupported
from tonnage.objects.selectors import InvalidSelector, LabelSelector

MISMATCH = "`selector` does not match template `labels`"


class WorkloadStrategy(Strategy):
    generation = Generation.COUNTED
    new_status: ClassVar[Doc] = {}
    rolling: ClassVar[tuple[str, Doc]] = ("", {})
    """The field of spec with the strategy, and the defaults of a rolling update."""
    parts: ClassVar[tuple[str, ...]] = ()
    """Numbers of the status that must not exceed `replicas`."""
    ready_told: ClassVar[str] = "cannot be greater than readyReplicas"
    warns_of_name: ClassVar[bool] = False
    """Pods are named after it, so its name should be a valid label too."""

    def default(self, doc: Doc) -> None:
        spec: Doc = doc.setdefault("spec", {})
        if self.parts:
            spec.setdefault("replicas", 1)
        default_pod_template(spec.setdefault("template", {}))
        field, defaults = self.rolling
        if field:
            strategy = spec.setdefault(field, {})
            if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
                fill(strategy.setdefault("rollingUpdate", {}), defaults)
        fill(doc, self.defaults)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(new["spec"].get("template", {}).get("spec", {}))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        new["status"] = {**self.new_status, **new["status"]}

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        status, was = new.get("status", {}), old.get("status", {})
        errors = self._status_rules(status, "status")
        for field in self.parts:
            if status.get(field, 0) > status.get("replicas", 0):
                errors.append(invalid(f"status.{field}", status[field], "cannot be greater than status.replicas"))
        if self.parts and status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
            errors.append(invalid("status.availableReplicas", status["availableReplicas"], self.ready_told))
        now, before = status.get("collisionCount"), was.get("collisionCount")
        if before is not None and (now is None or now < before):
            errors.append(invalid("status.collisionCount", now or 0, "cannot be decremented"))
        return errors

    @cached_property
    def _status_rules(self) -> TypeRules:
        return TypeRules(f"{self.resource.group or 'core'}.{self.resource.kind}Status")

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        told = workload_name_warnings(new["metadata"].get("name", "")) if self.warns_of_name and old is None else []
        if old is not None and not self.spec_changed(new, old):
            return told
        return told + spec_warnings(new["spec"].get("template", {}).get("spec", {}), "spec.template.spec")


def shown_strategy(kind: str, rolling: Doc | None, fields: Sequence[str]) -> Doc:
    """A strategy as upstream's message prints it, with the field names of its Go type."""
    inner: dict[str, Any] | None = None
    if rolling is not None:
        inner = {field: rolling.get(field[0].lower() + field[1:], 0) for field in fields}
    return {"Type": kind, "RollingUpdate": inner}


def validate_selected_template(spec: Doc) -> Errors:
    # As upstream, the error about a ReplicaSet's selector says "for deployment", and the other way round.
    errors = validate_selector(spec, "deployment", "invalid label selector")
    template = spec.get("template", {})
    if spec.get("selector") is None or parsed_selector(spec["selector"]) is not None:
        errors += validate_match(spec, template)
        errors += validate_pod_template(template, "spec.template")
        errors += validate_always_running(template, "ReplicaSet")
    return errors


def validate_selector(spec: Doc, kind: str, told: str) -> Errors:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = validate_label_selector(selector, "spec.selector")
    parsed = parsed_selector(selector)
    if parsed is None:
        errors.append(invalid("spec.selector", selector, told))
    elif parsed.is_empty:
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return errors


def validate_match(spec: Doc, template: Doc) -> Errors:
    selector = spec.get("selector")
    parsed = parsed_selector(selector)
    labels = template.get("metadata", {}).get("labels")
    # As upstream: a missing selector selects nothing, which is not empty, so the mismatch is reported as well.
    is_mismatch = selector is None or (parsed is not None and not parsed.matches(labels or {}))
    return [invalid("spec.template.metadata.labels", labels, MISMATCH)] if is_mismatch else []


def parsed_selector(selector: Doc | None) -> LabelSelector | None:
    """The parsed selector; None if it is invalid."""
    if selector is None:
        return None
    try:
        parsed = msgspec.convert(selector, LabelSelector)
        parsed.matches({})
    except (InvalidSelector, msgspec.ValidationError):  # the latter for an expression without key or operator
        return None
    return parsed if not validate_label_selector(selector, "") else None


def validate_always_running(template: Doc, kind: str) -> Errors:
    spec = template.get("spec", {})
    errors: Errors = []
    if spec.get("restartPolicy") != "Always":
        errors.append(unsupported("spec.template.spec.restartPolicy", spec.get("restartPolicy", ""), ("Always",)))
    if "activeDeadlineSeconds" in spec:
        told = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", told))
    return errors


class ControllerRevisionStrategy(Strategy):
    """A former template of a StatefulSet or a DaemonSet: written once, only its revision number changes."""

    def validate(self, doc: Doc) -> Errors:
        errors, data = super().validate(doc), doc.get("data")
        if isinstance(data, dict):
            return errors
        return [*errors, required("data", "data is mandatory" if data is None else "data must be a valid JSON object")]

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return super().validate(new) + self.validate_immutable(new, old)
