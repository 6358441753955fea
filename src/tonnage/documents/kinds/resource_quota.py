"""ResourceQuota. Mirrors ValidateResourceQuota and relatives. `documents/quota.py` enforces it."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.documents.quota import SCOPES
from tonnage.documents.strategy import Strategy
from tonnage.documents.validation import resources
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import MAX_ERRORS_TOLD, Errors, Wrong, invalid, required
from tonnage.quantity import Quantity

_NAMES = ("cpu", "memory", "storage", "ephemeral-storage")
_COMPUTE = {f"{side}{name}" for side in ("", "requests.", "limits.") for name in ("cpu", "memory")}
_STANDARD = (
    _COMPUTE
    | {f"{side}ephemeral-storage" for side in ("", "requests.", "limits.")}
    | {"requests.storage", "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"}
    | {"persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
)
_CONFLICTING = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITH_VALUES = ("PriorityClass", "VolumeAttributesClass")
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


class ResourceQuotaStrategy(Strategy):
    def default(self, doc: Doc) -> None:
        resources.round_amounts(doc.get("spec", {}), "hard")
        resources.round_amounts(doc.get("status", {}), "hard", "used")

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {}

    def validate(self, doc: Doc) -> Errors:
        spec = doc.get("spec", {})
        errors = [*_validate_amounts(spec.get("hard", {}), "spec.hard")]
        errors += _validate_scopes(spec.get("scopes", []), spec.get("hard", {}))
        if "scopeSelector" in spec:
            errors += _validate_selector(spec["scopeSelector"], spec.get("hard", {}))
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new)
        scopes = new.get("spec", {}).get("scopes", [])
        if set(scopes) != set(old.get("spec", {}).get("scopes", [])):
            errors.append(invalid("spec.scopes", scopes, "field is immutable"))
        return errors

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        status = new.get("status", {})
        return [
            error for field in ("hard", "used") for error in _validate_amounts(status.get(field, {}), f"status.{field}")
        ]

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """A warning if a new quota allows higher requests than limits."""
        hard = new.get("spec", {}).get("hard", {}) if old is None else {}
        told = []
        for name in _NAMES:
            request = f"requests.{name}" if f"requests.{name}" in hard or name not in ("cpu", "memory") else name
            limit = f"limits.{name}"
            if request in hard and limit in hard and Quantity.of(hard[request]) > Quantity.of(hard[limit]):
                told.append(f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})")
        return told


def _validate_amounts(amounts: dict[str, str], path: str) -> Wrong:
    for name, text in amounts.items():
        at = f"{path}[{name}]"
        yield from resources.validate_resource_name(name, at)
        if "/" not in name and not _is_standard(name):
            yield invalid(at, name, "must be a standard resource for quota")
        yield from resources.validate_resource_quantity(name, text, at)


def _validate_scopes(scopes: list[str], hard: Iterable[str]) -> Errors:
    errors: Errors = []
    unfit = _UnfitResources(hard)
    for scope in scopes:
        if scope not in SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        errors += [invalid("spec.scopes", scopes, "unsupported scope applied to resource")] * unfit.count(scope)
    if any(pair <= set(scopes) for pair in _CONFLICTING):
        errors.append(invalid("spec.scopes", scopes, "conflicting scopes"))
    return errors


def _validate_selector(selector: Doc, hard: Iterable[str]) -> Errors:
    errors: Errors = []
    at, seen = "spec.scopeSelector.matchExpressions", set()
    unfit = _UnfitResources(hard)
    for requirement in selector.get("matchExpressions", ()):
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values", [])
        if scope not in SCOPES:
            errors.append(invalid(f"{at}.scopeName", scope, "unsupported scope"))
        errors += [invalid(at, selector, "unsupported scope applied to resource")] * unfit.count(scope)
        if scope in SCOPES and scope not in _WITH_VALUES and operator != "Exists":
            errors.append(invalid(f"{at}.operator", operator, _MUST_EXIST))
        if operator in ("In", "NotIn"):
            if not values:
                told = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(f"{at}.values", told))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                told = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(invalid(f"{at}.values", values, told))
        else:
            errors.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
        seen.add(scope)
    if any(pair <= seen for pair in _CONFLICTING):
        errors.append(invalid("spec.scopeSelector", selector, "conflicting scopes"))
    return errors


class _UnfitResources:
    """Counts a quota's resources that a scope does not apply to, once per scope and only as many as errors show."""

    def __init__(self, hard: Iterable[str]) -> None:
        self._names = [name for name in hard if _is_standard(name)]
        self._counts: dict[str, int] = {}
        self._left = MAX_ERRORS_TOLD + 1

    def count(self, scope: str) -> int:
        if scope not in SCOPES:
            return 0
        if scope not in self._counts:
            self._counts[scope] = sum(not _applies(scope, name) for name in self._names)
        told = min(self._counts[scope], self._left)
        self._left -= told
        return told


def _is_standard(name: str) -> bool:
    return name in _STANDARD or resources.is_huge_pages(name.removeprefix("requests."))


def _applies(scope: str, name: str) -> bool:
    """True if a scope applies to a resource. Mirrors IsResourceQuotaScopeValidForResource."""
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in ("persistentvolumeclaims", "requests.storage")
    return scope not in SCOPES or name == "pods" or name in _COMPUTE
