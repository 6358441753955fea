"""StorageClass and VolumeAttributesClass. No field that decided about existing volumes may change."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.metadata import byte_size, topology_term_warnings, validate_topology_selector_term
from tonnage.objects import core_v1
from tonnage.objects import field_rules as rules
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, Wrong, duplicate, invalid, too_long

_PARAMETERS_MAX_COUNT = 512
_PARAMETERS_MAX_BYTES = 256 * 1024
DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
_BETA_DEFAULT_CLASS_ANNOTATION = "storageclass.beta.kubernetes.io/is-default-class"


def _validate_parameters(parameters: dict[str, str], path: str) -> Errors:
    if len(parameters) > _PARAMETERS_MAX_COUNT:
        return [too_long(path, _PARAMETERS_MAX_COUNT)]
    errors = [invalid(path, "", "field can not be empty.")] if "" in parameters else []
    if byte_size(parameters) > _PARAMETERS_MAX_BYTES:
        errors.append(too_long(path, _PARAMETERS_MAX_BYTES))
    return errors


def _validate_allowed_topologies(terms: list[Doc], path: str) -> Wrong:
    """Every term is legal, and no two terms are equal, whatever the order of keys and values."""
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for idx, term in enumerate(terms):
        yield from validate_topology_selector_term(term, f"{path}[{idx}]")
        by_key = {each.get("key", ""): each.get("values", []) for each in term.get("matchLabelExpressions", [])}
        asked = frozenset((key, frozenset(values)) for key, values in by_key.items())
        # Upstream compares with a list that begins with empty terms, so an empty term is always a duplicate.
        if not asked or asked in seen:
            yield duplicate(f"{path}[{idx}].matchLabelExpressions", "")
        seen.add(asked)


class StorageClassStrategy(Strategy):
    by_hand: ClassVar[rules.Rules] = {
        "parameters": _validate_parameters,
        "allowedTopologies": _validate_allowed_topologies,
    }

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        parameters = dict(sorted(new.get("parameters", {}).items())) or None
        errors = self.validate(new) + rules.immutable("parameters", parameters, old.get("parameters"))
        return errors + self.validate_immutable(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        terms = enumerate(new.get("allowedTopologies", []))
        return [told for idx, term in terms for told in topology_term_warnings(term, f"allowedTopologies[{idx}]")]


class VolumeAttributesClassStrategy(Strategy):
    by_hand: ClassVar[rules.Rules] = {"parameters": _validate_parameters}

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return self.validate_immutable(new, old) + self.validate(new)


def default_class_for(claim: Doc, classes: list[Doc]) -> str | None:
    """The class for a claim that names none: the newest default, or None. Mirrors DefaultStorageClass."""
    if core_v1.class_name_in(claim) is not None:
        return None
    defaults = sorted((each["metadata"] for each in classes if is_default_class(each)), key=lambda meta: meta["name"])
    if not defaults:
        return None
    # Times have one form, whole seconds of UTC, so text order is time order. max keeps the first of equals.
    chosen: str = max(defaults, key=lambda meta: meta.get("creationTimestamp", ""))["name"]
    return chosen


def is_default_class(storage_class: Doc) -> bool:
    annotations = dig(storage_class, "metadata", "annotations") or {}
    return "true" in (annotations.get(DEFAULT_CLASS_ANNOTATION), annotations.get(_BETA_DEFAULT_CLASS_ANNOTATION))
