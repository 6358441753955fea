"""ResourceQuota: its rules, how objects are charged, how much an object uses, and which objects a quota applies to.

The API server charges a quota before it stores an object (`charge`, which mirrors CheckRequest); the controller counts
all objects anew (`recounted`). A pod that has ended, or should have ended by now, only counts for count/pods. A quota
applies to an object if all its scopes and its scope selector hold; with a scope it applies to pods or claims alone.
Mirrors ValidateResourceQuota and relatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from tonnage.clock import parse_rfc3339
from tonnage.documents import api_errors
from tonnage.documents.strategy import Strategy
from tonnage.documents.validation import metadata, resources
from tonnage.errors import Forbidden
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import MAX_ERRORS_TOLD, Errors, Wrong, invalid, required
from tonnage.objects.resources import Resource
from tonnage.quantity import Quantity

_ZERO = Quantity.from_int(0)
_CPU_AND_MEMORY = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""If a quota has one of these, every container must state its amount."""
_JUDGED_AT_UPDATE = ("persistentvolumeclaims", "services")
_ONE = Quantity.from_int(1)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_OF_PODS = frozenset(
    {"pods", "count/pods", *_COMPUTE} | {f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE}
)
_OF_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_OF_SERVICES = ("services", "services.nodeports", "services.loadbalancers")
_COUNTED_BY_PLURAL = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_UNCOUNTED = ("events",)
"""Kinds that no quota counts: upstream's IgnoredResources."""
SCOPES = (
    *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "VolumeAttributesClass"),
    "CrossNamespacePodAffinity",
)


def may_use_more(resource: Resource, new: Doc, old: Doc) -> bool:
    """True if this update can use more of a quota; for pods, if it changes their scope."""
    if resource.group:
        return False
    if resource.plural == "pods":
        return is_terminating(new) != is_terminating(old)
    return resource.plural in _JUDGED_AT_UPDATE


def charge(quota: Doc, resource: Resource, new: Doc, old: Doc | None, now: datetime) -> resources.Amounts:
    """The amounts that an object adds to a quota when it is created (`old` is None) or changed.

    Raises Forbidden if they exceed the rest, if nothing has been counted yet, or if a container states no amount.
    """
    status = quota.get("status", {})
    hard, used = _amounts(status.get("hard", {})), _amounts(status.get("used", {}))
    name, names = quota["metadata"]["name"], names_for(resource, hard)
    if not names or not is_about(quota, resource, new):
        return {}
    if missing := _unstated(resource, new, names):
        raise _refused(resource, new, f"failed quota: {name}: must specify {missing}")
    if any(each not in used for each in names):
        raise _refused(resource, new, f"status unknown for quota: {name}, resources: {','.join(names)}")
    delta = usage_of(resource, new, now)
    if old is not None and is_about(quota, resource, old):
        before = usage_of(resource, old, now)
        delta = {each: max(amount - before.get(each, _ZERO), _ZERO) for each, amount in delta.items()}
    delta = {each: delta[each] for each in names if each in delta and not delta[each].is_zero()}
    exceeded = [each for each in delta if used[each] + delta[each] > hard[each]]
    if exceeded:
        raise _refused(
            resource,
            new,
            f"exceeded quota: {name}, requested: {_text(delta, exceeded)}, used: {_text(used, exceeded)}, "
            f"limited: {_text(hard, exceeded)}",
        )
    return delta


def with_used(quota: Doc, delta: resources.Amounts, *, is_release: bool = False) -> Doc:
    """The quota with `delta` more, or less, in use. Resources that it does not count are ignored."""
    status = quota.get("status", {})
    used = _amounts(status.get("used", {}))
    for name, amount in delta.items():
        if name in used:
            used[name] = max(used[name] - amount, _ZERO) if is_release else used[name] + amount
    return {**quota, "status": {**status, "used": {name: str(amount) for name, amount in used.items()}}}


def recounted(quota: Doc, content: Mapping[Resource, Iterable[Doc]], now: datetime) -> Doc:
    """The quota with the status that follows from its namespace: `content` has the objects of every kind it counts."""
    hard = quota.get("spec", {}).get("hard", {})
    used: resources.Amounts = {}
    for resource, docs in content.items():
        names = names_for(resource, hard)
        used |= {name: used.get(name, _ZERO) for name in names}
        for doc in docs:
            if names and is_about(quota, resource, doc):
                usage = usage_of(resource, doc, now)
                used |= {name: used[name] + usage[name] for name in names if name in usage}
    kept = _amounts(quota.get("status", {}).get("used", {}))
    counts = {name: used.get(name, kept.get(name)) for name in hard}
    status = {"hard": dict(hard), "used": {name: str(count) for name, count in counts.items() if count is not None}}
    return {field: amounts for field, amounts in status.items() if amounts}


def is_same_status(one: Doc, other: Doc) -> bool:
    return all(_amounts(one.get(field, {})) == _amounts(other.get(field, {})) for field in ("hard", "used"))


def _unstated(resource: Resource, doc: Doc, names: list[str]) -> str:
    """`cpu for: a,b; memory for: a`: amounts that the quota counts and containers do not state."""
    if (resource.group, resource.plural) != ("", "pods") or doc["spec"].get("resources"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in [*doc["spec"].get("containers", ()), *doc["spec"].get("initContainers", ())]:
        stated = compute_usage(resources.amounts_of(container, "requests"), resources.amounts_of(container, "limits"))
        for name in _CPU_AND_MEMORY.intersection(names).difference(stated):
            missing.setdefault(name, set()).add(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def _amounts(texts: Mapping[str, str]) -> resources.Amounts:
    return {name: Quantity.of(text) for name, text in texts.items()}


def _text(amounts: resources.Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names))


def _refused(resource: Resource, doc: Doc, why: str) -> Forbidden:
    return api_errors.forbidden(resource, doc["metadata"].get("name", ""), why)


def is_counted(resource: Resource) -> bool:
    return resource.namespaced and resource.plural not in _UNCOUNTED


def names_for(resource: Resource, names: Iterable[str]) -> list[str]:
    """The names of a quota that objects of this resource use, sorted. Upstream: MatchingResources."""
    return sorted(name for name in names if _is_for(resource, name))


def _is_for(resource: Resource, name: str) -> bool:
    if name == f"count/{resource.qualified}":
        return True
    if resource.group:
        return False
    match resource.plural:
        case "pods":
            bare = name.removeprefix("requests.")
            return name in _OF_PODS or resources.is_huge_pages(bare) or (bare != name and not resources.is_native(name))
        case "persistentvolumeclaims":
            return name in _OF_CLAIMS or name.endswith(tuple(_CLASS_SUFFIX + each for each in _OF_CLAIMS))
        case "services":
            return name in _OF_SERVICES
        case plural:
            return name == plural and plural in _COUNTED_BY_PLURAL


def usage_of(resource: Resource, doc: Doc, now: datetime) -> resources.Amounts:
    used: resources.Amounts = {f"count/{resource.qualified}": _ONE}
    if resource.group:
        return used
    match resource.plural:
        case "pods":
            if not _has_ended(doc, now):
                used |= compute_usage(_of_pod(doc["spec"], "requests"), _of_pod(doc["spec"], "limits"))
        case "persistentvolumeclaims":
            used |= _claim_usage(doc)
        case "services":
            ports, kind = doc["spec"].get("ports", []), doc["spec"].get("type")
            allocates = kind == "LoadBalancer" and doc["spec"].get("allocateLoadBalancerNodePorts", True)
            if kind != "NodePort" and not allocates:
                ports = [port for port in ports if kind == "LoadBalancer" and port.get("nodePort")]
            used |= {"services": _ONE, "services.nodeports": Quantity.from_int(len(ports))}
            used["services.loadbalancers"] = _ONE if kind == "LoadBalancer" else _ZERO
        case plural if plural in _COUNTED_BY_PLURAL:
            used[plural] = _ONE
    return used


def compute_usage(requests: resources.Amounts, limits: resources.Amounts) -> resources.Amounts:
    """The usage of requests and limits, of a container or of a pod; it always counts one pod."""
    used: resources.Amounts = {"pods": _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or resources.is_huge_pages(name):
            used[name] = amount
            used[f"requests.{name}"] = amount
        elif resources.is_extended(name):
            used[f"requests.{name}"] = amount
    used |= {f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE}
    return used


def _of_pod(spec: Doc, which: resources.Side) -> resources.Amounts:
    """A pod's sum with pod-level amounts and overhead. Overhead adds to an existing limit, but makes no new one."""
    total = resources.pod_amounts(spec, which)
    for name, text in spec.get("overhead", {}).items():
        if which == "requests" or not total.get(name, _ZERO).is_zero():
            total[name] = total.get(name, _ZERO) + Quantity.of(text)
    return total


def _has_ended(pod: Doc, now: datetime) -> bool:
    if dig(pod, "status", "phase") in ("Failed", "Succeeded"):
        return True
    meta = pod["metadata"]
    grace_s = meta.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in meta or grace_s is None:
        return False
    return now > parse_rfc3339(meta["deletionTimestamp"]) + timedelta(seconds=grace_s)


def _claim_usage(claim: Doc) -> resources.Amounts:
    used: resources.Amounts = {"persistentvolumeclaims": _ONE}
    asked = dig(claim, "spec", "resources", "requests", "storage")
    if asked is not None:
        allocated = dig(claim, "status", "allocatedResources", "storage")  # larger after a reverted growth
        largest = max(Quantity.of(asked), Quantity.of(allocated))
        is_whole = largest.milli_value() % 1000 == 0
        used["requests.storage"] = largest if is_whole else Quantity.from_bytes(largest.value())
    name = class_name_in(claim)
    return used | ({f"{name}{_CLASS_SUFFIX}{key}": amount for key, amount in used.items()} if name else {})


def is_about(quota: Doc, resource: Resource, doc: Doc) -> bool:
    """True if all scopes of a quota hold for an object; without scopes, for every object."""
    holds, spec = _HOLDS.get((resource.group, resource.plural)), quota.get("spec", {})
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes", ())]
    requirements = scopes + spec.get("scopeSelector", {}).get("matchExpressions", [])
    return all(holds is not None and holds(requirement, doc) for requirement in requirements)


def is_terminating(pod: Doc) -> bool:
    """True if a pod has an activeDeadlineSeconds, which upstream calls terminating."""
    return bool(pod["spec"].get("activeDeadlineSeconds", -1) >= 0)


def _holds_for_pod(requirement: Doc, pod: Doc) -> bool:
    match requirement.get("scopeName"):
        case "Terminating" | "NotTerminating" as scope:
            return is_terminating(pod) is (scope == "Terminating")
        case "BestEffort" | "NotBestEffort" as scope:
            qos = dig(pod, "status", "qosClass") or resources.qos_class(pod["spec"])
            return (qos == "BestEffort") is (scope == "BestEffort")
        case "PriorityClass":
            return _selects(requirement, pod["spec"].get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            terms = metadata.affinity_terms(pod["spec"])
            return any("namespaces" in term or "namespaceSelector" in term for term in terms)
        case _:
            return False


def _holds_for_claim(requirement: Doc, claim: Doc) -> bool:
    """True if the class fits that a claim wants, has, or is changing to."""
    if requirement.get("scopeName") != "VolumeAttributesClass":
        return False
    status = claim.get("status", {})
    found = {
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        status.get("modifyVolumeStatus", {}).get("targetVolumeAttributesClassName"),
    }
    names = sorted(name for name in found if name) or [""]
    return any(_selects(requirement, name) for name in names)


_HOLDS: dict[tuple[str, str], Callable[[Doc, Doc], bool]] = {
    ("", "persistentvolumeclaims"): _holds_for_claim,
    ("", "pods"): _holds_for_pod,
}


def _selects(requirement: Doc, name: str) -> bool:
    values = requirement.get("values", ())
    match requirement.get("operator"):
        case "In":
            return name != "" and name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return name == ""
        case _:
            return name != ""


_NAMES = ("cpu", "memory", "storage", "ephemeral-storage")
_CONFLICTING = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITH_VALUES = ("PriorityClass", "VolumeAttributesClass")
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


class ResourceQuotaStrategy(Strategy):
    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {}

    def validate(self, doc: Doc) -> Errors:
        spec = doc.get("spec", {})
        errors = [*_validate_amounts(spec.get("hard", {}), "spec.hard")]
        scopes, unfit = spec.get("scopes", []), _UnfitResources(spec.get("hard", {}))
        for scope in scopes:
            if scope not in SCOPES:
                errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
            errors += [invalid("spec.scopes", scopes, "unsupported scope applied to resource")] * unfit.count(scope)
        if any(pair <= set(scopes) for pair in _CONFLICTING):
            errors.append(invalid("spec.scopes", scopes, "conflicting scopes"))
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
        hard, used = status.get("hard", {}), status.get("used", {})
        return [*_validate_amounts(hard, "status.hard"), *_validate_amounts(used, "status.used")]

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
    return (name in resources.STANDARD and name != "storage") or resources.is_huge_pages(name.removeprefix("requests."))


def _applies(scope: str, name: str) -> bool:
    """True if a scope applies to a resource. Mirrors IsResourceQuotaScopeValidForResource."""
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in ("persistentvolumeclaims", "requests.storage")
    return scope not in SCOPES or name == "pods" or name in _CPU_AND_MEMORY
