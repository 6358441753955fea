"""The kinds of apps/v1, and ReplicationController: pods that run always, and how they are replaced.

All share a strategy, a selector that matches their own template, and counts in their status: those that upstream always
writes are there from the start. Mirrors upstream's apps validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from tonnage.documents.kinds.pods.pod import drop_disabled_pod_fields
from tonnage.documents.kinds.pods.pod_defaults import default_pod_spec, spec_warnings, workload_name_warnings
from tonnage.documents.kinds.pods.pod_spec import validate_pod_template
from tonnage.documents.kinds.storage.persistent_volume_claim import validate_claim_spec
from tonnage.documents.strategy import Generation, Strategy, TypeRules, keep
from tonnage.documents.validation.metadata import validate_label_selector
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, same
from tonnage.objects.field_errors import Errors, forbidden, invalid, required, unsupported
from tonnage.objects.field_rules import OfWhole, Rules, amount_of, at_most_all, count_or_percent
from tonnage.objects.selectors import InvalidSelector, LabelSelector
from tonnage.quantity import whole_number

MISMATCH = "`selector` does not match template `labels`"


class WorkloadStrategy(Strategy):
    generation = Generation.COUNTED
    new_status: ClassVar[Doc] = {}
    warns_of_name: ClassVar[bool] = False
    """Pods are named after it, so its name should be a valid label too."""

    def default(self, doc: Doc) -> None:
        super().default(doc)
        default_pod_spec(doc["spec"]["template"]["spec"])

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(new["spec"].get("template", {}).get("spec", {}))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        new["status"] = {**self.new_status, **new["status"]}

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        status, was = new.get("status", {}), old.get("status", {})
        errors = self._status_rules(status, "status")
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


def validate_selected_template(spec: Doc, path: str = "spec") -> Errors:
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


def _validate_deployment_strategy(strategy: Doc, path: str) -> Errors:
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


class DeploymentStrategy(WorkloadStrategy):
    by_hand: ClassVar[Rules] = {
        "spec.selector": OfWhole(validate_selected_template),
        "spec.strategy": _validate_deployment_strategy,
    }
    warns_of_name = True

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """A changed annotation counts too: annotations are copied to the ReplicaSets."""
        if super().spec_changed(new, old):
            return True
        return not same(new["metadata"].get("annotations"), old["metadata"].get("annotations"))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        keep(new["metadata"], old["metadata"], "labels")


class ReplicaSetStrategy(WorkloadStrategy):
    new_status: ClassVar[Doc] = {"replicas": 0}
    warns_of_name = True
    by_hand: ClassVar[Rules] = {"spec.template": OfWhole(validate_selected_template)}


def _validate_controller_template(spec: Doc, path: str) -> Errors:
    selector, template = spec.get("selector", {}), spec.get("template")
    if template is None:
        return [required("spec.template")]
    labels = template.get("metadata", {}).get("labels")
    is_mismatch = selector and not selector.items() <= (labels or {}).items()
    errors = [invalid("spec.template.metadata.labels", labels, MISMATCH)] if is_mismatch else []
    errors += validate_pod_template(template, "spec.template")
    return errors + validate_always_running(template, "ReplicationController")


class ReplicationControllerStrategy(WorkloadStrategy):
    """The oldest workload: its selector is a map. A DELETE without propagationPolicy orphans its pods."""

    default_propagation = "Orphan"
    new_status: ClassVar[Doc] = {"replicas": 0}
    selectable = ("status.replicas",)
    by_hand: ClassVar[Rules] = {"spec.template": OfWhole(_validate_controller_template)}

    def default(self, doc: Doc) -> None:
        """Its selector and its own labels default to the template's labels."""
        spec = doc.setdefault("spec", {})
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not doc["metadata"].get("labels"):
                doc["metadata"]["labels"] = dict(labels)
        Strategy.default(self, doc)
        if "template" in spec:
            default_pod_spec(spec["template"]["spec"])


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _validate_daemon_template(spec: Doc, path: str) -> Errors:
    selector, template = spec.get("selector"), spec.get("template", {})
    errors = validate_label_selector(selector, "spec.selector") + validate_match(spec, template)
    parsed = parsed_selector(selector)
    if parsed is not None and parsed.is_empty:
        errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    return errors + validate_pod_template(template, "spec.template") + validate_always_running(template, "DaemonSet")


def _validate_daemon_strategy(strategy: Doc, path: str) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = shown_strategy(kind, rolling, ("MaxUnavailable", "MaxSurge"))
        return [unsupported(path, shown, ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    out, extra = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    at = f"{path}.rollingUpdate"
    errors = count_or_percent(out, f"{at}.maxUnavailable") + count_or_percent(extra, f"{at}.maxSurge")
    errors += at_most_all(out, f"{at}.maxUnavailable") + at_most_all(extra, f"{at}.maxSurge")
    if amount_of(out) != 0 and amount_of(extra) != 0:
        errors.append(invalid(f"{at}.maxSurge", extra, "may not be set when maxUnavailable is non-zero"))
    elif amount_of(out) == 0 and amount_of(extra) == 0:
        errors.append(required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


class DaemonSetStrategy(WorkloadStrategy):
    """The template's generation is kept in an annotation, for clients of a removed API."""

    new_status: ClassVar[Doc] = dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    )
    by_hand: ClassVar[Rules] = {
        "spec.selector": OfWhole(_validate_daemon_template),
        "spec.updateStrategy": _validate_daemon_strategy,
    }

    def prepare_create(self, doc: Doc) -> None:
        super().prepare_create(doc)
        _set_template_generation(doc, max(_template_generation(doc), 1))

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        is_changed = not same(new["spec"].get("template"), old["spec"].get("template"))
        _set_template_generation(new, _template_generation(old) + is_changed)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return self.validate_immutable(new, old) + self.validate(new)


def _template_generation(doc: Doc) -> int:
    text = doc["metadata"].get("annotations", {}).get(_TEMPLATE_GENERATION, "")
    return whole_number(text) if text.isdecimal() else 0


def _set_template_generation(doc: Doc, generation: int) -> None:
    annotations = doc["metadata"].get("annotations", {})
    doc["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(generation)}


_STATEFUL_SET, _ROLLING = TypeRules("apps.StatefulSetSpec"), TypeRules("apps.RollingUpdateStatefulSetStrategy")
_MUTABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)


class StatefulSetStrategy(WorkloadStrategy):
    # A pod's name is the set's name and a number, and must be a host name.
    name_rule: ClassVar[names.NameRule] = staticmethod(names.dns_label)
    new_status: ClassVar[Doc] = {"replicas": 0, "availableReplicas": 0}

    def default(self, doc: Doc) -> None:
        for claim in doc.get("spec", {}).get("volumeClaimTemplates", ()):
            claim |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": claim.get("metadata", {})}
        super().default(doc)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        super().drop_disabled_fields(new, old)
        # MaxUnavailableStatefulSet is closed on a stock server.
        new["spec"].get("updateStrategy", {}).get("rollingUpdate", {}).pop("maxUnavailable", None)

    def validate(self, doc: Doc, *, is_update: bool = False) -> Errors:
        """On an update immutable fields are not validated again."""
        spec = doc["spec"]
        errors = _STATEFUL_SET(spec, "spec", "podManagementPolicy")
        errors += _validate_stateful_strategy(spec.get("updateStrategy", {}))
        errors += _STATEFUL_SET(spec, "spec", "persistentVolumeClaimRetentionPolicy")
        if not is_update:
            for idx, claim in enumerate(spec.get("volumeClaimTemplates", ())):
                errors += validate_claim_spec(claim.get("spec", {}), f"spec.volumeClaimTemplates[{idx}].spec")
        errors += _STATEFUL_SET(spec, "spec", "replicas", "minReadySeconds", "ordinals")
        if not is_update:
            errors += _STATEFUL_SET(spec, "spec", "serviceName")
        errors += validate_selector(spec, "statefulset", "")
        template = _with_claim_volumes(spec)
        errors += validate_match(spec, template)
        errors += validate_pod_template(template, "spec.template")
        return errors + validate_always_running(spec.get("template", {}), "StatefulSet")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new, is_update=True)
        fixed, was = (
            {field: value for field, value in each["spec"].items() if field not in _MUTABLE} for each in (new, old)
        )
        if not same(fixed, was):
            mutable = f"{', '.join(map(repr, _MUTABLE[:-1]))} and {_MUTABLE[-1]!r}"
            told = f"updates to statefulset spec for fields other than {mutable} are forbidden"
            errors.append(forbidden("spec", told))
        return errors

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        told = super().warnings(new, old)
        if new["spec"].get("revisionHistoryLimit", 0) < 0:
            told.append(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
                "a value >= 0 is recommended"
            )
        return told


def _validate_stateful_strategy(strategy: Doc) -> Errors:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "OnDelete":
        if rolling is None:
            return []
        shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
        return [invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")]
    if kind != "RollingUpdate":
        shown = shown_strategy(kind, rolling, ("Partition", "MaxUnavailable"))
        return [invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")]
    return _ROLLING(rolling or {}, f"{path}.rollingUpdate")


def _with_claim_volumes(spec: Doc) -> Doc:
    """The template as its pods have it: a volume for every claim, no host names (the controller sets them)."""
    template: Doc = copy(spec.get("template", {}))
    pod = template.get("spec", {})
    for field in ("hostname", "subdomain"):
        pod.pop(field, None)
    made = {claim.get("metadata", {}).get("name", ""): claim for claim in spec.get("volumeClaimTemplates", ())}
    if made:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in made]
        pod["volumes"] = volumes + [item for item in pod.get("volumes", []) if item.get("name", "") not in made]
    return template
