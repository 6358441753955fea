"""Whom a quota is about: its scopes and its scope selector, all of which must hold.

Pods have scopes of their own (podMatchesScopeFunc), claims have one (pvcMatchesScopeFunc); a quota with any is about no
other kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tonnage.documents.pod_resources import qos_class
from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import Resource

TERMINATING, NOT_TERMINATING = "Terminating", "NotTerminating"
BEST_EFFORT, NOT_BEST_EFFORT = "BestEffort", "NotBestEffort"
PRIORITY_CLASS, CROSS_NAMESPACE = "PriorityClass", "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS = "VolumeAttributesClass"
SCOPES = (
    TERMINATING,
    NOT_TERMINATING,
    BEST_EFFORT,
    NOT_BEST_EFFORT,
    PRIORITY_CLASS,
    VOLUME_ATTRIBUTES_CLASS,
    CROSS_NAMESPACE,
)
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_WISHES = "preferredDuringSchedulingIgnoredDuringExecution"


def is_about(quota: Doc, resource: Resource, doc: Doc) -> bool:
    """Do all scopes of a quota hold for an object? One without scopes is about every object."""
    holds = _HOLDS.get((resource.group, resource.plural))
    return all(holds is not None and holds(requirement, doc) for requirement in _requirements(quota))


def is_terminating(pod: Doc) -> bool:
    """Whether a pod has a deadline after which it ends: upstream's word for it."""
    return bool(pod["spec"].get("activeDeadlineSeconds", -1) >= 0)


def _requirements(quota: Doc) -> Iterator[Doc]:
    spec = quota.get("spec", {})
    yield from ({"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes", ()))
    yield from spec.get("scopeSelector", {}).get("matchExpressions", ())


def _holds_for_pod(requirement: Doc, pod: Doc) -> bool:
    match requirement.get("scopeName"):
        case "Terminating":
            return is_terminating(pod)
        case "NotTerminating":
            return not is_terminating(pod)
        case "BestEffort":
            return _qos(pod) == "BestEffort"
        case "NotBestEffort":
            return _qos(pod) != "BestEffort"
        case "PriorityClass":
            return _selects(requirement, pod["spec"].get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            return any("namespaces" in term or "namespaceSelector" in term for term in _affinity_terms(pod))
        case _:
            return False


def _holds_for_claim(requirement: Doc, claim: Doc) -> bool:
    """Does one of the classes fit that a claim wants, has, or is on its way to?"""
    if requirement.get("scopeName") != VOLUME_ATTRIBUTES_CLASS:
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


def _qos(pod: Doc) -> str:
    return str(dig(pod, "status", "qosClass") or qos_class(pod["spec"]))


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


def _affinity_terms(pod: Doc) -> Iterator[Doc]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = pod["spec"].get("affinity", {}).get(kind, {})
        yield from affinity.get(_TERMS, ())
        yield from (wish.get("podAffinityTerm", {}) for wish in affinity.get(_WISHES, ()))
