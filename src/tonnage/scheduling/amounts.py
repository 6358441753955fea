"""How much a pod asks for, by upstream's rules, as plain integers: CPU in thousandths of a core, the rest in units.

    request = max( containers + sidecars,  each init container + the sidecars started before it ) + overhead

Pod-level resources, where set, stand for the containers' sum of that resource. Scores use a second figure that assumes
something for containers that say nothing (100m, 200Mi), so that a node full of silent pods does not look empty.
"""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.core_v1 import Container, Pod
from tonnage.quantity import Quantity

Amounts = dict[str, int]

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

ASSUMED: Amounts = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""What a container that does not say is taken to need, for scores only (upstream's DefaultMilliCPURequest and kin)."""

_POD_LEVEL = (CPU, MEMORY)
_NOTHING: Amounts = {}


def amount(resource: str, quantity: Quantity) -> int:
    """A quantity as the integer we count in."""
    return quantity.milli_value() if resource == CPU else quantity.value()


def amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: amount(name, quantity) for name, quantity in quantities.items()}


def requests_of(pod: Pod) -> Amounts:
    """What the pod asks for in fact: what filters compare with a node's room."""
    return _total(pod, _NOTHING, pod_level=True)


def scored_requests_of(pod: Pod, *, pod_level: bool) -> tuple[int, int]:
    """CPU and memory as scores see them. Of an incoming pod upstream leaves pod-level resources out, of others not."""
    total = _total(pod, ASSUMED, pod_level=pod_level)
    return total.get(CPU, 0), total.get(MEMORY, 0)


def _total(pod: Pod, assumed: Amounts, *, pod_level: bool) -> Amounts:
    spec = pod.spec
    running: Amounts = {}
    for container in spec.containers:
        _add(running, _of(container, assumed))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        wanted = _of(container, assumed)
        if container.is_sidecar:
            _add(running, wanted)
            _add(sidecars, wanted)
            wanted = sidecars
        else:
            wanted = dict(wanted)
            _add(wanted, sidecars)
        for name, value in wanted.items():
            if value > peak.get(name, 0):
                peak[name] = value
    for name, value in peak.items():
        if value > running.get(name, -1):
            running[name] = value
    if pod_level and spec.resources is not None:
        for name, quantity in spec.resources.requests.items():
            if name in _POD_LEVEL or name.startswith("hugepages-"):
                running[name] = amount(name, quantity)
    if spec.overhead:
        _add(running, amounts(spec.overhead))
    return running


def _of(container: Container, assumed: Amounts) -> Amounts:
    found = amounts(container.resources.requests)
    for name, value in assumed.items():
        found.setdefault(name, value)
    return found


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value
