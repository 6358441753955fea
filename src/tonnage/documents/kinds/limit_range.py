"""LimitRange. What it does to pods and claims is `documents/admission_plugins/limit_ranger.py`.

What containers get is completed from what they may ask for. Mirrors ValidateLimitRange.
"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.resources import (
    is_overcommit_allowed,
    round_amounts,
    validate_container_resource_name,
    validate_resource_name,
)
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, FieldError, duplicate, forbidden, invalid, required
from tonnage.quantity import Quantity

_LISTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_ONE = Quantity.from_int(1)


class LimitRangeStrategy(Strategy):
    create_on_update = True

    def default(self, doc: Doc) -> None:
        default_limit_range(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_limit_range(doc)


def default_limit_range(doc: Doc) -> None:
    """Fill in a LimitRange, in place. Mirrors SetDefaults_LimitRangeItem.

    Of a container the limit defaults to the maximum, the request to the limit, else to the minimum.
    """
    for item in doc.get("spec", {}).get("limits", ()):
        for field in _LISTS:
            round_amounts(item.get(field))
        if item.get("type") != "Container":
            continue
        limits = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def validate_limit_range(doc: Doc) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for idx, item in enumerate(doc.get("spec", {}).get("limits", ())):
        at, kind = f"spec.limits[{idx}]", item.get("type", "")
        errors += _validate_type(kind, f"{at}.type")
        if kind in seen:
            errors.append(duplicate(f"{at}.type", kind))
        seen.add(kind)
        errors += _validate_names(item, kind, at)
        errors += _validate_amounts(item, at)
    return errors


def _validate_type(kind: str, at: str) -> Errors:
    errors = [invalid(at, kind, sentence) for sentence in names.qualified_name(kind)]
    if not errors and "/" not in kind and kind not in _TYPES:
        errors.append(invalid(at, kind, "must be a standard limit type or fully qualified"))
    return errors


def _validate_names(item: Doc, kind: str, at: str) -> Errors:
    rule = validate_container_resource_name if kind in ("Pod", "Container") else validate_resource_name
    errors: Errors = []
    for field in _LISTS:
        if kind == "Pod" and field in ("default", "defaultRequest"):
            if item.get(field):
                errors.append(forbidden(f"{at}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in sorted(item.get(field, {})):
            errors += rule(name, f"{at}.{field}[{name}]")
    if kind == "PersistentVolumeClaim" and not any("storage" in item.get(field, {}) for field in ("min", "max")):
        told = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{at}.limits", told))
    return errors


def _validate_amounts(item: Doc, at: str) -> Errors:
    """How the amounts of one resource stand to one another. Those of a Pod have no defaults."""
    fields = [field for field in _LISTS if not (item.get("type") == "Pod" and field.startswith("default"))]
    stated = {field: {name: Quantity.of(text) for name, text in item.get(field, {}).items()} for field in fields}
    every = sorted({name for amounts in stated.values() for name in amounts})
    return [error for name in every for error in _amounts_of(name, stated, at)]


def _amounts_of(name: str, stated: dict[str, dict[str, Quantity]], at: str) -> Iterator[FieldError]:
    least, most, limit, request, ratio = (
        stated.get(field, {}).get(name) for field in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
    )
    # (smaller, its name, larger, its name, the field that is wrong, the value shown)
    pairs = (
        (least, "min", most, "max", "min", least),
        (least, "min", request, "default request", "defaultRequest", request),
        (request, "default request", most, "max", "defaultRequest", request),
        (request, "default request", limit, "default limit", "defaultRequest", request),
        (least, "min", limit, "default", "default", least),
        (limit, "default", most, "max", "default", most),
    )
    for small, small_name, large, large_name, field, shown in pairs:
        if small is not None and large is not None and small > large:
            told = f"{small_name} value {small} is greater than {large_name} value {large}"
            yield invalid(f"{at}.{field}[{name}]", str(shown), told)
    if ratio is not None and ratio < _ONE:
        yield invalid(f"{at}.maxLimitRequestRatio[{name}]", str(ratio), f"ratio {ratio} is less than 1")
    if ratio is not None and least is not None and most is not None and not least.is_zero():
        highest = most.milli_value() / least.milli_value()
        if ratio.milli_value() / 1000 > highest:
            told = f"ratio {ratio} is greater than max/min = {highest:f}"
            yield invalid(f"{at}.maxLimitRequestRatio[{name}]", str(ratio), told)
    if not is_overcommit_allowed(name) and limit is not None and request is not None and limit != request:
        told = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield invalid(f"{at}.defaultRequest[{name}]", str(request), told)
