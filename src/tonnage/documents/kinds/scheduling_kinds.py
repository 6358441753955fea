"""PriorityClass: a name for a number. The number never changes, and the highest ones belong to the system.

That there is only one global default is `pod_admission.refuse_second_default`.

PodDisruptionBudget: how many pods of a set may be gone at once. `documents/pod_subresources.py` counts it down.

The resource.k8s.io kinds, lightly: enough for a scheduler that lists and watches them, and for claims to be stored.

Defaults and what may never change are upstream's; selectors, configuration and the contents of slices are not judged.
"""

from __future__ import annotations

import re

from tonnage.documents.strategy import Generation, Strategy, keep
from tonnage.documents.validation.metadata import immutable
from tonnage.documents.validation.selectors import validate_label_selector
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, duplicate, forbidden, invalid, required, too_long
from tonnage.objects.field_rules import (
    at_most_all,
    choice,
    count_or_percent,
    nonnegative,
    optional_choice,
    validate_label_name,
)

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_SYSTEM_PREFIX = "system-"


class PriorityClassStrategy(Strategy):
    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        doc.setdefault("value", 0)
        doc.setdefault("preemptionPolicy", "PreemptLowerPriority")
        if not doc.get("globalDefault", True):
            del doc["globalDefault"]

    def validate(self, doc: Doc) -> Errors:
        name, value = doc["metadata"].get("name", ""), doc.get("value", 0)
        errors: Errors = []
        if name.startswith(_SYSTEM_PREFIX):
            if wrong := _not_a_system_class(doc):
                told = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only."
                errors.append(forbidden("metadata.name", f"{told} error: {wrong}"))
        elif value > HIGHEST_USER_PRIORITY:
            told = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            errors.append(forbidden("value", told))
        if "preemptionPolicy" in doc:
            errors += choice(doc["preemptionPolicy"], ("PreemptLowerPriority", "Never"), "preemptionPolicy")
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """Only description and globalDefault may change; the name's rules are not asked again."""
        errors: Errors = []
        if new.get("value", 0) != old.get("value", 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        return errors + immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """Its generation is 1 for ever: what it means cannot change."""
        return False


def _not_a_system_class(doc: Doc) -> str:
    name = doc["metadata"]["name"]
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if doc.get("value", 0) != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    if doc.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


class LeaseStrategy(Strategy):
    unconditional_update = False
    create_on_update = True

    def default(self, doc: Doc) -> None:
        doc.setdefault("spec", {})

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        """Those of coordinated leader election, which are closed on a stock server."""
        new["spec"].pop("strategy", None)
        new["spec"].pop("preferredHolder", None)

    def validate(self, doc: Doc) -> Errors:
        spec = doc.get("spec", {})
        duration_s, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        errors: Errors = []
        if duration_s is not None and duration_s <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration_s, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return errors


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


class DeviceClassStrategy(Strategy):
    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        doc.setdefault("spec", {})


class ResourceClaimStrategy(Strategy):
    """What a claim asks for is settled at creation; allocation and users are its status."""

    def default(self, doc: Doc) -> None:
        _default_requests(doc.setdefault("spec", {}))

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {}

    def validate(self, doc: Doc) -> Errors:
        return _validate_requests(doc["spec"], "spec")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return immutable("spec", new["spec"], old["spec"])

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Not even metadata is written here."""
        super().prepare_status(new, old)
        keep(new, old, "metadata")


class ResourceClaimTemplateStrategy(Strategy):
    def default(self, doc: Doc) -> None:
        spec = doc.setdefault("spec", {})
        spec.setdefault("metadata", {})
        _default_requests(spec.setdefault("spec", {}))

    def validate(self, doc: Doc) -> Errors:
        return _validate_requests(doc["spec"]["spec"], "spec.spec")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return immutable("spec", new["spec"], old["spec"])


class ResourceSliceStrategy(Strategy):
    generation = Generation.COUNTED

    def validate(self, doc: Doc) -> Errors:
        spec = doc.get("spec", {})
        errors = [] if spec.get("driver") else [required("spec.driver")]
        return errors if spec.get("pool", {}).get("name") else [*errors, required("spec.pool.name")]

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """Driver, pool and node say whose devices these are; the devices themselves come and go."""
        errors = self.validate(new)
        for field in ("driver", "nodeName"):
            errors += immutable(f"spec.{field}", dig(new, "spec", field), dig(old, "spec", field))
        names = (dig(each, "spec", "pool", "name") for each in (new, old))
        return errors + immutable("spec.pool.name", *names)


def _default_requests(spec: Doc) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        asked = [request["exactly"]] if "exactly" in request else request.get("firstAvailable", [])
        for device in asked:
            if not device.get("allocationMode"):
                device["allocationMode"] = "ExactCount"
            if device["allocationMode"] == "ExactCount" and not device.get("count"):
                device["count"] = 1


def _validate_requests(spec: Doc, path: str) -> Errors:
    errors: Errors = []
    for idx, request in enumerate(spec.get("devices", {}).get("requests", ())):
        at = f"{path}.devices.requests[{idx}]"
        if not request.get("name"):
            errors.append(required(f"{at}.name"))
        if "exactly" in request and not request["exactly"].get("deviceClassName"):
            errors.append(required(f"{at}.exactly.deviceClassName"))
    return errors
