"""StorageClass: nothing that decides about existing volumes may change, only who may grow, mount and where.

VolumeAttributesClass: nothing may change but its metadata; other attributes are another class.
"""

from __future__ import annotations

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.metadata import byte_size, immutable
from tonnage.documents.validation.selectors import (
    topology_term_warnings,
    validate_topology_selector_term,
)
from tonnage.objects import names
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, duplicate, forbidden, invalid, not_supported, required, too_long

_PARAMETERS_MAX_COUNT = 512
_PARAMETERS_MAX_BYTES = 256 * 1024
DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
_BETA_DEFAULT_CLASS_ANNOTATION = "storageclass.beta.kubernetes.io/is-default-class"


class StorageClassStrategy(Strategy):
    def default(self, doc: Doc) -> None:
        doc.setdefault("reclaimPolicy", "Delete")
        doc.setdefault("volumeBindingMode", "Immediate")

    def validate(self, doc: Doc) -> Errors:
        errors = _validate_driver(doc, "provisioner")
        errors += _validate_parameters(doc.get("parameters", {}))
        policy = doc.get("reclaimPolicy", "")
        if policy and policy not in ("Delete", "Retain"):
            errors.append(not_supported("reclaimPolicy", policy, ("Delete", "Retain")))
        mode = doc.get("volumeBindingMode", "")
        if mode not in ("Immediate", "WaitForFirstConsumer"):
            errors.append(not_supported("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer")))
        return errors + _validate_allowed_topologies(doc.get("allowedTopologies", []))

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new)
        parameters = new.get("parameters")
        errors += immutable(
            "parameters", dict(sorted(parameters.items())) if parameters else None, old.get("parameters")
        )
        for field in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
            errors += immutable(field, new.get(field), old.get(field))
        return errors

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        terms = new.get("allowedTopologies", [])
        return [
            told for idx, term in enumerate(terms) for told in topology_term_warnings(term, f"allowedTopologies[{idx}]")
        ]


class VolumeAttributesClassStrategy(Strategy):
    def validate(self, doc: Doc) -> Errors:
        parameters = doc.get("parameters", {})
        errors = _validate_driver(doc, "driverName") + _validate_parameters(parameters)
        if not parameters:
            errors.append(required("parameters", "must contain at least one key/value pair"))
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors: Errors = []
        if new.get("driverName", "") != old.get("driverName", ""):
            errors.append(forbidden("driverName", "updates to driverName are forbidden."))
        if new.get("parameters") != old.get("parameters"):
            errors.append(forbidden("parameters", "updates to parameters are forbidden."))
        return errors + self.validate(new)


def _validate_driver(doc: Doc, field: str) -> Errors:
    name = doc.get(field, "").lower()
    return [invalid(field, name, told) for told in names.qualified_name(name)] if name else [required(field)]


def _validate_parameters(parameters: dict[str, str]) -> Errors:
    if len(parameters) > _PARAMETERS_MAX_COUNT:
        return [too_long("parameters", _PARAMETERS_MAX_COUNT)]
    errors: Errors = []
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    if byte_size(parameters) > _PARAMETERS_MAX_BYTES:
        errors.append(too_long("parameters", _PARAMETERS_MAX_BYTES))
    return errors


def _validate_allowed_topologies(terms: list[Doc]) -> Errors:
    """Each term legal, and no two that ask for the same, whatever the order of keys and values."""
    errors: Errors = []
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for idx, term in enumerate(terms):
        path = f"allowedTopologies[{idx}]"
        errors += validate_topology_selector_term(term, path)
        by_key = {each.get("key", ""): each.get("values", []) for each in term.get("matchLabelExpressions", [])}
        asked = frozenset((key, frozenset(values)) for key, values in by_key.items())
        # Upstream compares with a list that starts out with empty terms, so an empty one is always a duplicate.
        if not asked or asked in seen:
            errors.append(duplicate(f"{path}.matchLabelExpressions", ""))
        seen.add(asked)
    return errors


def default_class_for(claim: Doc, classes: list[Doc]) -> str | None:
    """The class a new claim gets: None when it names one itself, an empty one included, or when there is no default.

    Of several defaults the newest wins, and of those made in the same second the first by name. Mirrors the
    DefaultStorageClass admission.
    """
    if class_name_in(claim) is not None:
        return None
    defaults = sorted((each["metadata"] for each in classes if is_default_class(each)), key=lambda meta: meta["name"])
    if not defaults:
        return None
    # Times are written in one form, whole seconds of UTC: text order is time order. max keeps the first of equals.
    chosen: str = max(defaults, key=lambda meta: meta.get("creationTimestamp", ""))["name"]
    return chosen


def is_default_class(storage_class: Doc) -> bool:
    annotations = dig(storage_class, "metadata", "annotations") or {}
    return "true" in (annotations.get(DEFAULT_CLASS_ANNOTATION), annotations.get(_BETA_DEFAULT_CLASS_ANNOTATION))
