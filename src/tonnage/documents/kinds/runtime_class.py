"""RuntimeClass. Mirrors ValidateRuntimeClass and ValidateRuntimeClassUpdate.

What it writes into pods is `documents/admission_plugins/runtime_class.py`.
"""

from __future__ import annotations

from tonnage.documents.kinds.pods.pod_placement import validate_tolerations
from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.metadata import validate_labels
from tonnage.documents.validation.resources import round_amounts, validate_resource_requirements
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, duplicate, invalid, required
from tonnage.objects.field_rules import sentences

_NAMING = ("key", "operator", "value", "effect")


class RuntimeClassStrategy(Strategy):
    def default(self, doc: Doc) -> None:
        round_amounts(doc.get("overhead", {}).get("podFixed"))

    def validate(self, doc: Doc) -> Errors:
        return validate_runtime_class(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_runtime_class_update(new, old)


def validate_runtime_class(doc: Doc) -> Errors:
    handler = doc.get("handler", "")
    errors = sentences("handler", handler, names.dns_label(handler)) if handler else [required("handler")]
    if "overhead" in doc:
        errors += validate_resource_requirements({"limits": doc["overhead"].get("podFixed", {})}, "overhead")
    scheduling = doc.get("scheduling", {})
    errors += validate_labels(scheduling.get("nodeSelector", {}), "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations", [])
    errors += validate_tolerations(tolerations, "scheduling.tolerations")
    seen: set[tuple[str, ...]] = set()
    for idx, toleration in enumerate(tolerations):
        naming = tuple(toleration.get(field, "") for field in _NAMING)
        if naming in seen:
            errors.append(duplicate(f"scheduling.tolerations[{idx}]", toleration))
        seen.add(naming)
    return errors


def validate_runtime_class_update(new: Doc, old: Doc) -> Errors:
    if new.get("handler", "") != old.get("handler", ""):
        return [invalid("handler", new.get("handler", ""), "field is immutable")]
    return []
