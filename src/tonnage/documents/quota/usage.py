"""What one object uses of a quota, and which names of a quota an object's kind can use.

    pods          pods, count/pods, cpu, memory, ephemeral-storage, each also as requests.… and limits.…, huge pages,
                  requests.<extended resource>
    claims        persistentvolumeclaims, requests.storage, both also as <class>.storageclass.storage.k8s.io/…
    services      services, services.nodeports, services.loadbalancers
    every kind    count/<plural>.<group>, and of four kinds the plural alone

A pod that has ended, or should have by now, uses nothing but its place in count/pods. Mirrors pkg/quota/v1/evaluator.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from tonnage.clock import parse_rfc3339
from tonnage.documents.pod_resources import Amounts, aggregate, amounts_of, is_pod_level_resource
from tonnage.documents.validation.resources import is_extended, is_huge_pages, is_native
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import Resource
from tonnage.quantity import Quantity

_ONE, _NONE = Quantity.from_int(1), Quantity.from_int(0)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_OF_PODS = frozenset(
    {"pods", "count/pods", *_COMPUTE} | {f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE}
)
_OF_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_OF_SERVICES = ("services", "services.nodeports", "services.loadbalancers")
_COUNTED_BY_PLURAL = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_UNCOUNTED = ("events",)
"""Kinds that no quota is about: upstream's IgnoredResources."""


def is_counted(resource: Resource) -> bool:
    return resource.namespaced and resource.plural not in _UNCOUNTED


def names_for(resource: Resource, names: Iterable[str]) -> list[str]:
    """Those names of a quota that objects of this resource use, sorted. Upstream: MatchingResources."""
    return sorted(name for name in names if _is_for(resource, name))


def _is_for(resource: Resource, name: str) -> bool:
    if name == f"count/{resource.qualified}":
        return True
    if resource.group:
        return False
    match resource.plural:
        case "pods":
            bare = name.removeprefix("requests.")
            return name in _OF_PODS or is_huge_pages(bare) or (bare != name and not is_native(name))
        case "persistentvolumeclaims":
            return name in _OF_CLAIMS or name.endswith(tuple(_CLASS_SUFFIX + each for each in _OF_CLAIMS))
        case "services":
            return name in _OF_SERVICES
        case plural:
            return name == plural and plural in _COUNTED_BY_PLURAL


def usage_of(resource: Resource, doc: Doc, now: datetime) -> Amounts:
    """What an object uses, by the names a quota may have for it."""
    used: Amounts = {f"count/{resource.qualified}": _ONE}
    if resource.group:
        return used
    match resource.plural:
        case "pods":
            if not _has_ended(doc, now):
                used |= compute_usage(_of_pod(doc["spec"], "requests"), _of_pod(doc["spec"], "limits"))
        case "persistentvolumeclaims":
            used |= _claim_usage(doc)
        case "services":
            used |= _service_usage(doc["spec"])
        case plural if plural in _COUNTED_BY_PLURAL:
            used[plural] = _ONE
    return used


def compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    """What requests and limits, of a container or of a pod, use; a pod in any case."""
    used: Amounts = {"pods": _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or is_huge_pages(name):
            used[name] = amount
            used[f"requests.{name}"] = amount
        elif is_extended(name):
            used[f"requests.{name}"] = amount
    used |= {f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE}
    return used


def _of_pod(spec: Doc, which: Literal["requests", "limits"]) -> Amounts:
    """A pod's sum with what is stated at pod level and its overhead, which makes no limit where there is none."""
    total = aggregate(spec, which)
    total |= {name: amount for name, amount in amounts_of(spec, which).items() if is_pod_level_resource(name)}
    for name, text in spec.get("overhead", {}).items():
        if which == "requests" or not total.get(name, _NONE).is_zero():
            total[name] = total.get(name, _NONE) + Quantity.of(text)
    return total


def _has_ended(pod: Doc, now: datetime) -> bool:
    if dig(pod, "status", "phase") in ("Failed", "Succeeded"):
        return True
    meta = pod["metadata"]
    grace_s = meta.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in meta or grace_s is None:
        return False
    return now > parse_rfc3339(meta["deletionTimestamp"]) + timedelta(seconds=grace_s)


def _claim_usage(claim: Doc) -> Amounts:
    used: Amounts = {"persistentvolumeclaims": _ONE}
    asked = dig(claim, "spec", "resources", "requests", "storage")
    if asked is not None:
        allocated = dig(claim, "status", "allocatedResources", "storage")  # of a growth that was taken back
        largest = max(Quantity.of(asked), Quantity.of(allocated))
        is_whole = largest.milli_value() % 1000 == 0
        used["requests.storage"] = largest if is_whole else Quantity.from_bytes(largest.value())
    name = class_name_in(claim)
    return used | ({f"{name}{_CLASS_SUFFIX}{key}": amount for key, amount in used.items()} if name else {})


def _service_usage(spec: Doc) -> Amounts:
    ports, kind = spec.get("ports", []), spec.get("type")
    has_node_ports = kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True))
    if not has_node_ports:
        ports = [port for port in ports if kind == "LoadBalancer" and port.get("nodePort")]
    return {
        "services": _ONE,
        "services.nodeports": Quantity.from_int(len(ports)),
        "services.loadbalancers": _ONE if kind == "LoadBalancer" else _NONE,
    }
