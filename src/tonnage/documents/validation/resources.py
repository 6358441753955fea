"""Validation of resource amounts, and the sum that a pod asks for.

Three families of names: native ones (`cpu`), extended ones (`vendor.example/gpu`, whole numbers, never overcommitted)
and huge pages (`hugepages-2Mi`, whole pages). An init container runs alone, but for the sidecars started before it, so
a pod needs max(containers + all sidecars, each init container + the sidecars before it) of every resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import Literal

from tonnage.objects import field_rules, names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, duplicate, forbidden, invalid, not_found, required
from tonnage.quantity import InvalidQuantity, Quantity, add_to, raise_to

NOT_INTEGER = "must be an integer"
_HUGE_PAGES = "hugepages-"
_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset(
    {"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"}
    | {"persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
)
STANDARD = (
    _COUNTED
    | _CONTAINER_RESOURCES
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _CONTAINER_RESOURCES}
    | {"storage", "requests.storage"}
)


def is_native(name: str) -> bool:
    """True for a name in Kubernetes' own namespace, or without a prefix."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """True for a vendor's resource. `requests.<name>` must be legal too, because quotas use it."""
    return not is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


def is_huge_pages(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def is_integer(name: str) -> bool:
    return name in _COUNTED or is_extended(name)


def is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


def validate_resource_name(name: str, path: str) -> Errors:
    """Mirrors validateResourceName: a legal key, and without a prefix a known one."""
    errors = field_rules.sentences(path, name, names.qualified_name(name))
    known = name in STANDARD or name.startswith((_HUGE_PAGES, f"requests.{_HUGE_PAGES}"))
    if not errors and "/" not in name and not known:
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def validate_container_resource_name(name: str, path: str) -> Wrong:
    """Mirrors validateContainerResourceName: the resources that a container may ask for."""
    yield from validate_resource_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not is_huge_pages(name):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def validate_basic_resource(text: str, path: str) -> Errors:
    """Mirrors validateBasicResource: not negative; the error shows the plain number."""
    value = Quantity.of(text).value()
    return [invalid(path, value, "must be a valid resource quantity")] if value < 0 else []


def validate_resource_quantity(name: str, text: str, path: str) -> Errors:
    """Mirrors ValidateResourceQuantityValue: not negative, and whole for resources that are counted."""
    errors = field_rules.nonnegative_quantity(text, path)
    quantity = Quantity.of(text)
    if is_integer(name) and quantity.milli_value() % 1000 != 0:
        errors.append(invalid(path, str(quantity), NOT_INTEGER))
    return errors


def validate_resource_requirements(
    requirements: Doc,
    path: str,
    *,
    claim_names: Set[str] = frozenset(),
    name_rule: field_rules.Rule = validate_container_resource_name,
) -> Errors:
    """`resources` of a container, or of a pod with its own `name_rule`. Mirrors validateResourceRequirements."""
    limits: dict[str, str] = requirements.get("limits", {})
    requests: dict[str, str] = requirements.get("requests", {})
    errors: Errors = []
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            at = f"{path}.{side}[{name}]"
            errors += name_rule(name, at)
            errors += validate_resource_quantity(name, text, at)
            if side == "requests":
                errors += _validate_request_within_limit(name, text, limits, path)
            errors += _validate_huge_pages(name, text, at)
    asked = limits.keys() | requests.keys()
    if any(map(is_huge_pages, asked)) and not asked & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors + _validate_claims(requirements.get("claims", []), f"{path}.claims", claim_names)


def _validate_request_within_limit(name: str, text: str, limits: dict[str, str], path: str) -> Errors:
    if name not in limits:
        told = "Limit must be set for non overcommitable resources"
        return [] if is_overcommit_allowed(name) else [required(f"{path}.limits", told)]
    request, limit = Quantity.of(text), Quantity.of(limits[name])
    if request != limit and not is_overcommit_allowed(name):
        return [invalid(f"{path}.requests", str(request), f"must be equal to {name} limit of {limit}")]
    if request > limit:
        return [invalid(f"{path}.requests", str(request), f"must be less than or equal to {name} limit of {limit}")]
    return []


def _validate_huge_pages(name: str, text: str, path: str) -> Errors:
    if not is_huge_pages(name):
        return []
    quantity = Quantity.of(text)
    try:
        page = Quantity.parse(name.removeprefix(_HUGE_PAGES))
    except InvalidQuantity:
        page = Quantity.from_int(0)
    is_whole_page = page.sign() > 0 and page.milli_value() % 1000 == 0
    if is_whole_page and quantity.value() % page.value() == 0:
        return []
    return [invalid(path, str(quantity), f"{quantity} is not positive integer multiple of {name}")]


def _validate_claims(claims: list[Doc], path: str, claim_names: Set[str]) -> Errors:
    """Mirrors validateResourceClaimNames: a claim as a whole, or each of its requests, at most once."""
    errors: Errors = []
    seen: set[str] = set()
    requests_of: Counter[str] = Counter()  # how many different requests of a claim were named so far
    choices = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
    for idx, claim in enumerate(claims):
        at, name, request = f"{path}[{idx}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(at))
            continue
        if name in seen:
            errors.append(duplicate(at, name))
        else:
            key = f"{name}/{request}" if request else name
            if request:
                errors += field_rules.sentences(f"{at}.request", request, names.dns_label(request))
            if key in seen:
                errors.append(duplicate(at, key))
            elif not request:
                errors += [duplicate(at, name)] * requests_of[name]
            if request and key not in seen:
                requests_of[name] += 1
            seen.add(key)
        if name not in claim_names:
            told = f"must be one of the names in pod.spec.resourceClaims{choices}"
            errors.append(not_found(at, name, told))
    return errors


Amounts = dict[str, Quantity]
Side = Literal["requests", "limits"]
_QOS_RESOURCES = ("cpu", "memory")


def aggregate(spec: Doc, which: Side) -> Amounts:
    """The containers' requests or limits as one list, by the formula in this module's docstring."""
    total: Amounts = {}
    for container in spec.get("containers", ()):
        add_to(total, amounts_of(container, which))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers", ()):
        asked = amounts_of(container, which)
        if is_sidecar(container):
            add_to(total, asked)
            add_to(sidecars, asked)
            asked = sidecars
        else:
            add_to(asked, sidecars)
        raise_to(peak, asked)
    raise_to(total, peak)
    return total


def pod_amounts(spec: Doc, which: Side) -> Amounts:
    """The amounts that a pod asks for; pod-level amounts win over the sum."""
    own = amounts_of(spec, which)
    return aggregate(spec, which) | {name: amount for name, amount in own.items() if is_pod_level_resource(name)}


def amounts_of(container: Doc, which: Side) -> Amounts:
    """One container's requests or limits (or a pod's own: `spec` has the same shape)."""
    stated = container.get("resources", {}).get(which, {})
    return {name: Quantity.of(amount) for name, amount in stated.items()}


def is_sidecar(container: Doc) -> bool:
    return container.get("restartPolicy") == "Always"


def is_pod_level_resource(name: str) -> bool:
    return name in ("cpu", "memory") or is_huge_pages(name)


def qos_class(spec: Doc) -> str:
    """`Guaranteed` (all limit cpu and memory, and request as much), `Burstable` or `BestEffort`: ComputePodQOS."""
    requests: Amounts = {}
    limits: Amounts = {}
    is_guaranteed = True
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    for asker in [spec] if "resources" in spec else containers:
        add_to(requests, _qos_amounts(asker, "requests"))
        limited = _qos_amounts(asker, "limits")
        add_to(limits, limited)
        is_guaranteed &= all(name in limited for name in _QOS_RESOURCES)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _qos_amounts(asker: Doc, which: Side) -> Amounts:
    stated = amounts_of(asker, which)
    return {name: stated[name] for name in _QOS_RESOURCES if name in stated and stated[name].sign() > 0}
