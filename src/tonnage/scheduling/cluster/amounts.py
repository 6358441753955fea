"""How much a pod asks for, by upstream's rules, as plain integers: CPU in thousandths of a core, the rest in units.

    request = max( containers + sidecars,  each init container + the sidecars started before it ) + overhead

Pod-level resources, where set, stand for the containers' sum. While a pod is resized in place, the largest of what is
asked for, granted and in force counts. Sums are rounded up once, at the end. Scores assume something for containers
that say nothing (100m, 200Mi), so that a node full of silent pods does not look empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tonnage.objects.core_v1 import Container, ContainerStatus, Pod
from tonnage.quantity import Quantity

Amounts = dict[str, int]
Quantities = Mapping[str, Quantity]

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)

ASSUMED: Quantities = {CPU: Quantity.parse("100m"), MEMORY: Quantity.parse("200Mi")}
"""What a container that does not say is taken to need, for scores only (upstream's DefaultMilliCPURequest and kin)."""

_NOTHING: Quantities = {}
_ZERO = Quantity.from_int(0)
_HUGE_PAGES = "hugepages-"
_NATIVE_DOMAIN = "kubernetes.io/"


@lru_cache(maxsize=4096)
def amount(resource: str, quantity: Quantity) -> int:
    """A quantity as the integer we count in. Remembered, because pods ask for the same few amounts."""
    return quantity.milli_value() if resource == CPU else quantity.value()


def amounts(quantities: Quantities) -> Amounts:
    return {name: amount(name, quantity) for name, quantity in quantities.items()}


def is_extended(name: str) -> bool:
    """A resource that somebody other than Kubernetes offers. Mirrors IsExtendedResourceName."""
    return "/" in name and _NATIVE_DOMAIN not in name and not name.startswith("requests.")


def is_counted(name: str) -> bool:
    """Whether nodes run out of it; other names, such as `storage`, are passed over (IsScalarResourceName and cpu …)."""
    return (
        name in NATIVE
        or is_extended(name)
        or _NATIVE_DOMAIN in name
        or name.startswith((_HUGE_PAGES, "attachable-volumes-"))
    )


def requests_of(pod: Pod) -> Amounts:
    """What the pod asks for in fact: what filters compare with a node's room."""
    return _counted(_total(pod, _NOTHING, pod_level=True))


def scored_amounts_of(pod: Pod) -> Amounts:
    """What a newcomer asks for as NodeResourcesFit scores it: assumptions made, pod-level resources left out."""
    return _counted(_total(pod, ASSUMED, pod_level=False))


def scored_usage_of(pod: Pod) -> tuple[int, int]:
    """CPU and memory of a resident as scores see them, pod-level resources included. With those, something is assumed
    only of what neither the pod nor any container names (getNonMissingContainerRequests).
    """
    assumed = ASSUMED
    if _pod_level_requests(pod):
        named = _total(pod, _NOTHING, pod_level=True)
        assumed = {name: quantity for name, quantity in ASSUMED.items() if name not in named}
    total = _total(pod, assumed, pod_level=True)
    return total.get(CPU, _ZERO).milli_value(), total.get(MEMORY, _ZERO).value()


def _counted(quantities: Quantities) -> Amounts:
    return {name: amount(name, quantity) for name, quantity in quantities.items() if is_counted(name)}


def _total(pod: Pod, assumed: Quantities, *, pod_level: bool) -> Quantities:
    spec, statuses = pod.spec, _statuses(pod)
    pod_level_requests = _pod_level_requests(pod) if pod_level else _NOTHING
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or pod_level_requests or statuses):
        return _of(spec.containers[0], assumed)  # most pods: nothing to add up
    running: dict[str, Quantity] = {}
    for container in spec.containers:
        _add(running, _of(container, assumed, _in_force(container, statuses, pod)))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}  # never below `sidecars`: only what a container names can raise it
    for container in spec.init_containers:
        if container.is_sidecar:
            wanted = _of(container, assumed, _in_force(container, statuses, pod))
            _add(running, wanted)
            _add(sidecars, wanted)
            _raise(peak, {name: sidecars[name] for name in wanted})
        else:
            wanted = _of(container, assumed)
            _raise(peak, {name: each + sidecars[name] if name in sidecars else each for name, each in wanted.items()})
    _raise(running, peak)
    running.update(pod_level_requests)
    _add(running, spec.overhead)
    return running


def _of(container: Container, assumed: Quantities, in_force: Quantities | None = None) -> Quantities:
    asked = container.resources.requests if in_force is None else in_force
    return {**assumed, **asked} if assumed else asked


def _pod_level_requests(pod: Pod) -> Quantities:
    """What the pod asks for as a whole: CPU, memory and huge pages are all that may be asked for so."""
    resources, status = pod.spec.resources, pod.status
    if resources is None:
        return _NOTHING
    asked = {name: each for name, each in resources.requests.items() if name in ASSUMED or name.startswith(_HUGE_PAGES)}
    if status.resources is None:
        return asked
    held = _held(pod, resources.requests, status.resources.requests, status.allocated_resources)
    return {name: held.get(name, _ZERO) for name in asked}


# -- resizing ---------------------------------------------------------------------------------------------------------


def _statuses(pod: Pod) -> Mapping[str, ContainerStatus]:
    """The containers of which the node says what it holds for them, by name."""
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return {}
    both = (*status.container_statuses, *status.init_container_statuses)
    return {each.name: each for each in both if each.resources is not None}


def _in_force(container: Container, statuses: Mapping[str, ContainerStatus], pod: Pod) -> Quantities | None:
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return None
    return _held(pod, container.resources.requests, status.resources.requests, status.allocated_resources)


def _held(pod: Pod, asked: Quantities, in_force: Quantities, granted: Quantities) -> Quantities:
    """The most of each resource; what is asked for in vain does not count."""
    most = {} if _is_resized_in_vain(pod) else dict(asked)
    _raise(most, in_force)
    _raise(most, granted)
    return most


def _is_resized_in_vain(pod: Pod) -> bool:
    pending = pod.condition("PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


# -- sums and maxima --------------------------------------------------------------------------------------------------


def _add(total: dict[str, Quantity], more: Quantities) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _raise(most: dict[str, Quantity], other: Quantities) -> None:
    for name, quantity in other.items():
        if name not in most or quantity > most[name]:
            most[name] = quantity
