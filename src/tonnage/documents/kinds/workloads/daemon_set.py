"""DaemonSet: one pod per node."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.kinds.pods.pod_spec import validate_pod_template
from tonnage.documents.kinds.workloads import workload
from tonnage.documents.validation.selectors import validate_label_selector
from tonnage.documents.validation.type_rules import TypeRules
from tonnage.objects import field_rules as rules
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import Errors, invalid, required, unsupported
from tonnage.objects.texts.decode_budget import whole_number

_SPEC = TypeRules("apps.DaemonSetSpec")
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(workload.WorkloadStrategy):
    """The template's generation is kept in an annotation, for clients of a removed API."""

    new_status: ClassVar[Doc] = dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    )
    rolling: ClassVar[tuple[str, Doc]] = ("updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})
    defaults: ClassVar[Doc] = {"spec": {"revisionHistoryLimit": 10}}

    def prepare_create(self, doc: Doc) -> None:
        super().prepare_create(doc)
        _set_template_generation(doc, max(_template_generation(doc), 1))

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        is_changed = not same(new["spec"].get("template"), old["spec"].get("template"))
        _set_template_generation(new, _template_generation(old) + is_changed)

    def validate(self, doc: Doc) -> Errors:
        spec = doc["spec"]
        selector, template = spec.get("selector"), spec.get("template", {})
        errors = validate_label_selector(selector, "spec.selector")
        errors += workload.validate_match(spec, template)
        parsed = workload.parsed_selector(selector)
        if selector is not None and parsed is not None and parsed.is_empty:
            errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
        errors += validate_pod_template(template, "spec.template")
        errors += workload.validate_always_running(template, "DaemonSet")
        errors += _SPEC(spec, "spec", "minReadySeconds")
        errors += _validate_strategy(spec.get("updateStrategy", {}))
        return errors + _SPEC(spec, "spec", "revisionHistoryLimit")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return self.validate_immutable(new, old) + self.validate(new)


def _template_generation(doc: Doc) -> int:
    text = doc["metadata"].get("annotations", {}).get(_TEMPLATE_GENERATION, "")
    return whole_number(text) if text.isdecimal() else 0


def _set_template_generation(doc: Doc, generation: int) -> None:
    annotations = doc["metadata"].get("annotations", {})
    doc["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(generation)}


def _validate_strategy(strategy: Doc) -> Errors:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = workload.shown_strategy(kind, rolling, ("MaxUnavailable", "MaxSurge"))
        return [unsupported(path, shown, ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    out, extra = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    at = f"{path}.rollingUpdate"
    errors = rules.count_or_percent(out, f"{at}.maxUnavailable") + rules.count_or_percent(extra, f"{at}.maxSurge")
    errors += rules.at_most_all(out, f"{at}.maxUnavailable") + rules.at_most_all(extra, f"{at}.maxSurge")
    if rules.amount_of(out) != 0 and rules.amount_of(extra) != 0:
        errors.append(invalid(f"{at}.maxSurge", extra, "may not be set when maxUnavailable is non-zero"))
    elif rules.amount_of(out) == 0 and rules.amount_of(extra) == 0:
        errors.append(required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors
