"""LimitRange, and its effect on pods and claims of its namespace. Mirrors ValidateLimitRange and LimitRanger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from tonnage.documents import api_errors
from tonnage.documents.strategy import Strategy
from tonnage.documents.validation import resources
from tonnage.objects import field_rules, names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import MAX_ERRORS_TOLD, Errors, Wrong, forbidden, invalid, required
from tonnage.objects.resources import BY_PLURAL
from tonnage.quantity import Quantity

_LISTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_ONE = Quantity.from_int(1)
MAX_DEFAULTED_AMOUNTS = 2_000
"""Amounts that one LimitRange may write into one pod: without a bound, two objects of 1 MB could make gigabytes."""
_PODS = BY_PLURAL["", "pods"]
ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRangeStrategy(Strategy):
    create_on_update = True

    def default(self, doc: Doc) -> None:
        """For a container the limit defaults to the maximum, the request to the limit or else to the minimum."""
        super().default(doc)
        for item in doc.get("spec", {}).get("limits", ()):
            if item.get("type") != "Container":
                continue
            limits = {**item.get("max", {}), **item.get("default", {})}
            requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
            if limits:
                item["default"] = limits
            if requests:
                item["defaultRequest"] = requests

    def validate(self, doc: Doc) -> Errors:
        errors, is_unique = [], field_rules.unique()
        for idx, item in enumerate(doc.get("spec", {}).get("limits", ())):
            at, kind = f"spec.limits[{idx}]", item.get("type", "")
            wrong = field_rules.sentences(f"{at}.type", kind, names.qualified_name(kind))
            if not wrong and "/" not in kind and kind not in _TYPES:
                wrong.append(invalid(f"{at}.type", kind, "must be a standard limit type or fully qualified"))
            errors += [*wrong, *is_unique(kind, f"{at}.type")]
            errors += _validate_names(item, kind, at)
            errors += _validate_amounts(item, at)
        return errors


def _validate_names(item: Doc, kind: str, at: str) -> Wrong:
    is_of_pods = kind in ("Pod", "Container")
    rule = resources.validate_container_resource_name if is_of_pods else resources.validate_resource_name
    for field in _LISTS:
        if kind == "Pod" and field in ("default", "defaultRequest"):
            if item.get(field):
                yield forbidden(f"{at}.{field}", "may not be specified when `type` is 'Pod'")
            continue
        for name in sorted(item.get(field, {})):
            yield from rule(name, f"{at}.{field}[{name}]")
    if kind == "PersistentVolumeClaim" and not any("storage" in item.get(field, {}) for field in ("min", "max")):
        told = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{at}.limits", told)


def _validate_amounts(item: Doc, at: str) -> Errors:
    """Compare the amounts of every resource with one another. The type Pod has no defaults."""
    fields = [field for field in _LISTS if not (item.get("type") == "Pod" and field.startswith("default"))]
    stated = {field: {name: Quantity.of(text) for name, text in item.get(field, {}).items()} for field in fields}
    every = sorted({name for amounts in stated.values() for name in amounts})
    return [error for name in every for error in _amounts_of(name, stated, at)]


def _amounts_of(name: str, stated: dict[str, dict[str, Quantity]], at: str) -> Wrong:
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
    if not resources.is_overcommit_allowed(name) and limit is not None and request is not None and limit != request:
        told = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield invalid(f"{at}.defaultRequest[{name}]", str(request), told)


def give_defaults(pod: Doc, limit_range: Doc) -> None:
    """Write the defaults of a LimitRange into containers, in place, and note it in an annotation. Raises Forbidden."""
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for item in limit_range.get("spec", {}).get("limits", ()):
        if item["type"] == "Container":
            limits |= item.get("default", {})
            requests |= item.get("defaultRequest", {})
    containers = sum(len(pod["spec"].get(field, ())) for field in ("containers", "initContainers"))
    amounts = containers * (len(limits) + len(requests))
    if amounts > MAX_DEFAULTED_AMOUNTS:
        told = (
            f"the defaults of LimitRange {limit_range['metadata'].get('name', '')} for its {containers} containers are "
            f"{amounts} amounts, of at most {MAX_DEFAULTED_AMOUNTS}: give the LimitRange fewer defaults"
        )
        raise api_errors.forbidden(_PODS, pod["metadata"].get("name", ""), told)
    notes: list[str] = []
    for field, kind in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(field, ()):
            for side, defaults, word in (("requests", requests, "request"), ("limits", limits, "limit")):
                stated = container.get("resources", {}).get(side, {})
                added = {name: text for name, text in defaults.items() if name not in stated}
                if added:
                    container.setdefault("resources", {})[side] = {**stated, **added}
                    notes.append(f"{', '.join(sorted(added))} {word} for {kind} {container.get('name', '')}")
    if notes:
        annotations = pod["metadata"].get("annotations", {})
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: "LimitRanger plugin set: " + "; ".join(notes)}


def broken_limits(kind: str, doc: Doc, limit_range: Doc) -> str:
    """Why a Pod or a PersistentVolumeClaim breaks a LimitRange, in upstream's words; empty if it does not."""
    # Every container may break every limit, so the search ends after as many as a message shows.
    problems = list(dict.fromkeys(islice(_problems(kind, doc, limit_range), MAX_ERRORS_TOLD)))
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""


def _problems(kind: str, doc: Doc, limit_range: Doc) -> Iterator[str]:
    for item in limit_range.get("spec", {}).get("limits", ()):
        match kind, item["type"]:
            case "Pod", "Container":
                for container in [*doc["spec"].get("containers", ()), *doc["spec"].get("initContainers", ())]:
                    yield from _of_one(item, container, resources.amounts_of)
            case "Pod", "Pod":
                yield from _of_one(item, doc["spec"], resources.pod_amounts)
            case "PersistentVolumeClaim", "PersistentVolumeClaim":
                requests = resources.amounts_of(doc["spec"], "requests")
                yield from _past(item, "min", ("request", requests))
                yield from _past(item, "max", ("request", requests))


def _of_one(item: Doc, asker: Doc, amounts: Callable[[Doc, resources.Side], resources.Amounts]) -> Iterator[str]:
    requests, limits = amounts(asker, "requests"), amounts(asker, "limits")
    yield from _past(item, "min", ("request", requests), ("limit", limits))
    yield from _past(item, "max", ("limit", limits), ("request", requests))
    for name, highest in _amounts(item, "maxLimitRequestRatio"):
        told = f"{name} max limit to request ratio per {item['type']} is {highest}"
        if name not in requests or requests[name].is_zero():
            yield f"{told}, but no request is specified or request is 0"
        elif name not in limits or limits[name].is_zero():
            yield f"{told}, but no limit is specified or limit is 0"
        else:
            ratio = limits[name].milli_value() / requests[name].milli_value()
            if ratio * 1000 > highest.milli_value():
                yield f"{told}, but provided ratio is {ratio:f}"


def _amounts(item: Doc, field: str) -> Iterable[tuple[str, Quantity]]:
    return [(name, Quantity.of(text)) for name, text in sorted(item.get(field, {}).items())]


def _past(item: Doc, bound: str, *sides: tuple[str, resources.Amounts]) -> Iterator[str]:
    """What is below `min` or above `max`. The first side must state every amount."""
    for name, most in _amounts(item, bound):
        told = f"{bound}imum {name} usage per {item['type']} is {most}"
        if name not in sides[0][1]:
            yield f"{told}.  No {sides[0][0]} is specified"
            continue
        stated = [(side, amounts[name]) for side, amounts in sides if name in amounts]
        past = [each for each in stated if (each[1] < most if bound == "min" else each[1] > most)]
        yield from (f"{told}, but {side} is {amount}" for side, amount in past[:1])
