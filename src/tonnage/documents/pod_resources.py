"""What a pod asks for as a whole: its containers' amounts folded into one list, and the service class that follows.

An init container runs alone, but for the sidecars started before it, so a pod needs

    max(containers + all sidecars,  each init container + the sidecars before it)

of every resource (upstream: AggregateContainerRequests). Overhead and pod-level amounts are not in here; whoever wants
them adds them. Amounts are exact quantities, keyed by resource name.
"""

from __future__ import annotations

from typing import Literal

from tonnage.documents.validation.resources import is_huge_pages
from tonnage.objects.document import Doc
from tonnage.quantity import Quantity

Amounts = dict[str, Quantity]
_QOS_RESOURCES = ("cpu", "memory")


def aggregate(spec: Doc, which: Literal["requests", "limits"]) -> Amounts:
    """The containers' requests or limits as one list: the formula above, resource by resource."""
    total: Amounts = {}
    for container in spec.get("containers", ()):
        _add(total, amounts_of(container, which))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers", ()):
        asked = amounts_of(container, which)
        if is_sidecar(container):
            _add(total, asked)
            _add(sidecars, asked)
            asked = sidecars
        else:
            _add(asked, sidecars)
        _raise_to(peak, asked)
    _raise_to(total, peak)
    return total


def amounts_of(container: Doc, which: Literal["requests", "limits"]) -> Amounts:
    """One container's requests or limits (or a pod's own, `spec` having the same shape)."""
    stated = container.get("resources", {}).get(which, {})
    return {name: Quantity.of(amount) for name, amount in stated.items()}


def is_sidecar(container: Doc) -> bool:
    return container.get("restartPolicy") == "Always"


def is_pod_level_resource(name: str) -> bool:
    return name in ("cpu", "memory") or is_huge_pages(name)


def qos_class(spec: Doc) -> str:
    """`Guaranteed` (all limit cpu and memory, and request just that), `Burstable` or `BestEffort`. Mirrors
    ComputePodQOS.
    """
    requests: Amounts = {}
    limits: Amounts = {}
    is_guaranteed = True
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    for asker in [spec] if "resources" in spec else containers:
        _add(requests, _qos_amounts(asker, "requests"))
        limited = _qos_amounts(asker, "limits")
        _add(limits, limited)
        is_guaranteed &= all(name in limited for name in _QOS_RESOURCES)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _qos_amounts(asker: Doc, which: Literal["requests", "limits"]) -> Amounts:
    stated = amounts_of(asker, which)
    return {name: stated[name] for name in _QOS_RESOURCES if name in stated and stated[name].sign() > 0}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        if name not in total or amount > total[name]:
            total[name] = amount
