"""Node, as far as scheduling and storage depend on it.

A node may be created with its status. Mirrors ValidateNode and ValidateNodeUpdate with their paths: taints are reported
below `metadata`, where they once stood as an annotation.
"""

from __future__ import annotations

import re

from tonnage.documents.kinds.network_policy import range_warnings
from tonnage.documents.strategy import Strategy, TypeRules
from tonnage.documents.validation.internal_form import internal
from tonnage.documents.validation.resources import validate_resource_quantity
from tonnage.objects import names
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, Wrong, duplicate, forbidden, go_value, invalid
from tonnage.objects.field_rules import NOT_POSITIVE, each, is_dual_stack, unique, validate_cidr, validate_label_name

_TAINT = TypeRules("core.Taint")
_FEATURE_MAX_BYTES = 253
_FEATURE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")


class NodeStrategy(Strategy):
    selectable = ("spec.unschedulable",)

    def default(self, doc: Doc) -> None:
        """Mirrors SetDefaults_NodeStatus, and the conversion that keeps podCIDR and podCIDRs equal."""
        spec, status = doc.setdefault("spec", {}), doc.setdefault("status", {})
        # `podCIDR` is the first of `podCIDRs`; if they differ `podCIDR` wins, because old clients write only that.
        single, ranges = spec.pop("podCIDR", ""), spec.get("podCIDRs", [])
        if single and ranges[:1] != [single]:
            ranges = spec["podCIDRs"] = [single]
        if ranges:
            spec["podCIDR"] = ranges[0]
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        super().default(doc)

    def prepare_create(self, doc: Doc) -> None:
        # Fields of dynamic kubelet configuration, which no longer exists, are dropped.
        doc.get("spec", {}).pop("configSource", None)
        doc.get("status", {}).pop("config", None)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        if "configSource" not in old.get("spec", {}):
            new.get("spec", {}).pop("configSource", None)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new)
        told = {(error.reason, error.field, error.detail) for error in errors}
        again = self.validate_status(new, old)
        return errors + [error for error in again if (error.reason, error.field, error.detail) not in told]

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        if "config" not in old.get("status", {}):
            new.get("status", {}).pop("config", None)

    def validate(self, doc: Doc) -> Errors:
        """Validate a new node; it may have a status."""
        errors = [*_validate_taints(dig(doc, "spec", "taints") or []), *_validate_amounts(doc)]
        swap = dig(doc, "status", "nodeInfo", "swap", "capacity")
        if swap is not None and swap <= 0:
            errors.append(invalid("metadata.nodeSwapStatus.capacity", swap, NOT_POSITIVE))
        errors += _validate_declared_features(dig(doc, "status", "declaredFeatures") or [])
        return errors + _validate_pod_ranges(dig(doc, "spec", "podCIDRs") or [])

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """The rules for a change through either endpoint; the main endpoint also has those of a new node."""
        errors = [*_validate_amounts(new)]
        errors += _validate_declared_features(dig(new, "status", "declaredFeatures") or [])
        is_repeated = unique()
        for idx, address in enumerate(dig(new, "status", "addresses") or []):
            shown = internal("NodeAddress", address)
            if is_repeated(go_value(shown), ""):
                errors.append(duplicate(f"status.addresses[{idx}]", shown))
        spec, before = new.get("spec", {}), old.get("spec", {})
        for field, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(field) and spec.get(field) != before[field]:
                told = f'node updates may not change {shown} except from "" to valid'
                errors.append(forbidden(f"spec.{field}", told))
        errors += _validate_taints(spec.get("taints", []))
        if spec.get("externalID", "") != before.get("externalID", ""):
            errors.append(forbidden("spec.externalID", "may not be updated"))
        return errors

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        told: list[str] = []
        spec = new.get("spec", {})
        if "configSource" in spec:
            told.append("spec.configSource: the feature is removed")
        if spec.get("externalID"):
            told.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        ranges = enumerate(spec.get("podCIDRs", []))
        return told + range_warnings((f"spec.podCIDRs[{idx}]", value) for idx, value in ranges)


def _validate_taints(taints: list[Doc]) -> Wrong:
    is_repeated = unique()
    for idx, taint in enumerate(taints):
        path = f"metadata.taints[{idx}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        yield from validate_label_name(key, f"{path}.key")
        if told := names.label_value(value):
            yield invalid(f"{path}.value", value, ";".join(told))
        yield from _TAINT(taint, path)
        if is_repeated((key, effect), ""):
            yield duplicate(path, internal("Taint", taint), "taints must be unique by key and effect pair")


def _validate_amounts(doc: Doc) -> Wrong:
    for side in ("capacity", "allocatable"):
        for name, text in (dig(doc, "status", side) or {}).items():
            yield from validate_resource_quantity(name, text, f"status.{side}.{name}")


def _validate_declared_features(features: list[str]) -> Wrong:
    """Features have the right spelling, are sorted and unique. The second of two unsorted features gets the error."""
    path = "status.declaredFeatures"
    for idx, feature in enumerate(features):
        if len(feature.encode()) > _FEATURE_MAX_BYTES:
            told = f'invalid feature name "{feature}": must be no more than {_FEATURE_MAX_BYTES} characters'
            yield invalid(f"{path}[{idx}]", feature, told)
        elif not _FEATURE.fullmatch(feature):
            told = (
                f'invalid feature name "{feature}": must start with an UpperCamelCase segment, with subsequent '
                "segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric "
                "characters and slashes"
            )
            yield invalid(f"{path}[{idx}]", feature, told)
        following = features[idx + 1] if idx + 1 < len(features) else None
        if following == feature:
            yield duplicate(f"{path}[{idx + 1}]", following)
        elif following is not None and following < feature:
            yield invalid(f"{path}[{idx + 1}]", following, "list must be sorted alphabetically")


def _validate_pod_ranges(ranges: list[str]) -> Errors:
    path = "spec.podCIDRs"
    errors = each(validate_cidr)(ranges, path)
    if len(ranges) > 1 and not errors:
        bases = [value.partition("/")[0] for value in ranges]
        if len(ranges) > 2 or not is_dual_stack(bases):
            errors.append(invalid(path, ranges, "may specify no more than one CIDR for each IP family"))
    return errors
