"""PodDisruptionBudget: how many pods of a set may be gone at once. `documents/eviction.py` counts it down."""

from __future__ import annotations

import re

from tonnage.documents.strategy import Generation, Strategy
from tonnage.documents.validation.selectors import validate_label_selector
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, duplicate, invalid, required, too_long
from tonnage.objects.field_rules import (
    at_most_all,
    count_or_percent,
    nonnegative,
    optional_choice,
    validate_label_name,
)

_REASON_MAX_BYTES, _MESSAGE_MAX_BYTES = 1024, 32 * 1024
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_TOLD = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' "
    f"(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
    f"regex used for validation is '{_REASON}')"
)


class PodDisruptionBudgetStrategy(Strategy):
    generation = Generation.COUNTED
    unconditional_update = False

    def prepare_create(self, doc: Doc) -> None:
        doc.setdefault("spec", {})
        doc["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def validate(self, doc: Doc) -> Errors:
        spec = doc.get("spec", {})
        errors: Errors = []
        if "minAvailable" in spec and "maxUnavailable" in spec:
            shown = {
                "MinAvailable": spec["minAvailable"],
                "Selector": spec.get("selector"),
                "MaxUnavailable": spec["maxUnavailable"],
                "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
            }
            errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
        for field in ("minAvailable", "maxUnavailable"):
            if field in spec:
                errors += count_or_percent(spec[field], f"spec.{field}")
                errors += at_most_all(spec[field], f"spec.{field}")
        errors += validate_label_selector(spec.get("selector"), "spec.selector")
        return errors + optional_choice(
            spec.get("unhealthyPodEvictionPolicy"),
            ("AlwaysAllow", "IfHealthyBudget"),
            "spec.unhealthyPodEvictionPolicy",
        )

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        status = new.get("status", {})
        errors = validate_conditions(status.get("conditions", []), "status.conditions")
        for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
            errors += nonnegative(status.get(field, 0), f"status.{field}")
        return errors


def validate_conditions(conditions: list[Doc], path: str) -> Errors:
    """Conditions of the newer, uniform shape. Mirrors ValidateConditions of meta/v1."""
    errors: Errors = []
    seen: set[str] = set()
    for idx, condition in enumerate(conditions):
        at = f"{path}[{idx}]"
        kind, state, reason = (condition.get(field, "") for field in ("type", "status", "reason"))
        if kind in seen:
            errors.append(duplicate(f"{at}.type", kind))
        seen.add(kind)
        errors += validate_label_name(kind, f"{at}.type")
        errors += optional_choice(state, ("False", "True", "Unknown"), f"{at}.status")
        generation = condition.get("observedGeneration", 0)
        if generation < 0:
            told = "must be greater than or equal to zero"
            errors.append(invalid(f"{at}.observedGeneration", generation, told))
        if not condition.get("lastTransitionTime"):
            errors.append(required(f"{at}.lastTransitionTime"))
        if not reason:
            errors.append(required(f"{at}.reason"))
        elif not re.fullmatch(_REASON, reason):
            errors.append(invalid(f"{at}.reason", reason, _REASON_TOLD))
        for field, limit in (("reason", _REASON_MAX_BYTES), ("message", _MESSAGE_MAX_BYTES)):
            if len(condition.get(field, "").encode()) > limit:
                errors.append(too_long(f"{at}.{field}", limit))
    return errors
