"""A pod as decisions read it: everything derived from its spec once, above all its requests.

    request = max( containers + sidecars,  each init container + the sidecars started before it ) + overhead

Amounts are integers, by upstream's rules: CPU in thousandths of a core, the rest in units. Pod-level resources replace
the containers' sum. During an in-place resize, the largest of requested, allocated and actual resources counts. Sums
are rounded up once, at the end. Scores assume 100m and 200Mi for containers without requests, so that a node full of
such pods does not look empty.

`PodInfo` is immutable by convention. `node_constraints` is what a pod asks of a node as such: name, labels, tolerated
taints. `signature` adds the resources it takes. Pods with equal signatures get equal masks and scores from row-local
plugins (framework.py); pods with equal node constraints share answers that do not depend on how full a node is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from tonnage.objects.core_v1 import Container, ContainerStatus, Pod
from tonnage.objects.requirements import NodeSelector
from tonnage.quantity import Quantity, add_to, raise_to
from tonnage.scheduling.cluster.columns import HostPort, canonical, host_ports_of

Amounts = dict[str, int]
Quantities = Mapping[str, Quantity]

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)

ASSUMED: Quantities = {CPU: Quantity.parse("100m"), MEMORY: Quantity.parse("200Mi")}
"""Assumed requests of containers without any, for scores only (upstream's DefaultMilliCPURequest etc.)."""

_NOTHING: Quantities = {}
_ZERO = Quantity.from_int(0)
_HUGE_PAGES = "hugepages-"
_NATIVE_DOMAIN = "kubernetes.io/"


@lru_cache(maxsize=4096)
def amount(resource: str, quantity: Quantity) -> int:
    """A quantity as the integer we count in. Cached: pods request the same few amounts."""
    return quantity.milli_value() if resource == CPU else quantity.value()


def amounts(quantities: Quantities) -> Amounts:
    return {name: amount(name, quantity) for name, quantity in quantities.items()}


def is_extended(name: str) -> bool:
    """True for a resource that is not Kubernetes' own. Mirrors IsExtendedResourceName."""
    return "/" in name and _NATIVE_DOMAIN not in name and not name.startswith("requests.")


def is_counted(name: str) -> bool:
    """True if nodes can run out of it; other names, such as `storage`, are ignored (IsScalarResourceName and cpu …)."""
    return (
        name in NATIVE
        or is_extended(name)
        or _NATIVE_DOMAIN in name
        or name.startswith((_HUGE_PAGES, "attachable-volumes-"))
    )


def requests_of(pod: Pod) -> Amounts:
    """The pod's real requests, which filters compare with a node's room."""
    return _counted(_total(pod, _NOTHING, pod_level=True))


def scored_usage_of(pod: Pod) -> tuple[int, int]:
    """CPU and memory of a resident as scores count them, pod-level resources included. With these, only resources that
    neither the pod nor any container names are assumed (getNonMissingContainerRequests)."""
    assumed = ASSUMED
    if _pod_level_requests(pod):
        named = _total(pod, _NOTHING, pod_level=True)
        assumed = {name: quantity for name, quantity in ASSUMED.items() if name not in named}
    total = _total(pod, assumed, pod_level=True)
    return total.get(CPU, _ZERO).milli_value(), total.get(MEMORY, _ZERO).value()


def _counted(quantities: Quantities) -> Amounts:
    return {name: amount(name, each) for name, each in quantities.items() if name in NATIVE or is_counted(name)}


def _total(pod: Pod, assumed: Quantities, *, pod_level: bool) -> Quantities:
    spec, statuses = pod.spec, _statuses(pod)
    pod_level_requests = _pod_level_requests(pod) if pod_level else _NOTHING
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or pod_level_requests or statuses):
        return _of(spec.containers[0], assumed)  # most pods: nothing to add up
    running: dict[str, Quantity] = {}
    for container in spec.containers:
        add_to(running, _of(container, assumed, _in_force(container, statuses, pod)))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}  # never below `sidecars`: only requests of a container can raise it
    for container in spec.init_containers:
        if container.is_sidecar:
            wanted = _of(container, assumed, _in_force(container, statuses, pod))
            add_to(running, wanted)
            add_to(sidecars, wanted)
            raise_to(peak, {name: sidecars[name] for name in wanted})
        else:
            wanted = _of(container, assumed)
            raise_to(peak, {name: each + sidecars[name] if name in sidecars else each for name, each in wanted.items()})
    raise_to(running, peak)
    running.update(pod_level_requests)
    add_to(running, spec.overhead)
    return running


def _of(container: Container, assumed: Quantities, in_force: Quantities | None = None) -> Quantities:
    asked = container.resources.requests if in_force is None else in_force
    return {**assumed, **asked} if assumed else asked


def _pod_level_requests(pod: Pod) -> Quantities:
    """The pod-level requests: only CPU, memory and huge pages are allowed."""
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
    """The statuses of containers with resources, by name."""
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
    """The largest of each resource; an infeasible resize does not count."""
    pending = pod.condition("PodResizePending")
    most = {} if pending is not None and pending.reason == "Infeasible" else dict(asked)
    raise_to(most, in_force)
    raise_to(most, granted)
    return most


if TYPE_CHECKING:
    from functools import cached_property as derived
else:

    class derived:
        """functools.cached_property without its lock, which makes every read three times slower."""

        def __init__(self, derive: Any) -> None:
            self._derive = derive

        def __get__(self, owner: Any, kind: type) -> Any:
            found = owner.__dict__[self._derive.__name__] = self._derive(owner)
            return found


_ENCODER = msgspec.msgpack.Encoder(enc_hook=str)


def fingerprint(record: msgspec.Struct | None) -> bytes:
    """The record as bytes, to hash records that hold maps. Equal records have equal bytes."""
    return _ENCODER.encode(record)


_IN_TREE = attrgetter(
    "aws_elastic_block_store",
    "azure_disk",
    "azure_file",
    "cinder",
    "gce_persistent_disk",
    "iscsi",
    "portworx_volume",
    "rbd",
    "vsphere_volume",
)


class PodInfo:
    """A pod with everything that filters and scores read often."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.uid: str = pod.metadata.uid or pod.key
        self.key: str = pod.key
        self.namespace: str = pod.metadata.namespace
        self.labels: Mapping[str, str] = pod.metadata.labels
        self.priority: int = pod.spec.priority

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    @derived
    def requests(self) -> Amounts:
        return requests_of(self.pod)

    @derived
    def ordered_requests(self) -> tuple[tuple[str, int], ...]:
        """`requests`, sorted by name."""
        return tuple(sorted(self.requests.items()))

    @derived
    def scored_amounts(self) -> Amounts:
        """Its requests as NodeResourcesFit scores a new pod: with assumptions, without pod-level resources."""
        return _counted(_total(self.pod, ASSUMED, pod_level=False))

    @derived
    def scored_usage(self) -> tuple[int, int]:
        """(CPU, memory) of this pod as a resident, for other pods' scores."""
        if self.pod.spec.resources is None:
            return self.scored_amounts[CPU], self.scored_amounts[MEMORY]
        return scored_usage_of(self.pod)

    @derived
    def host_ports(self) -> tuple[HostPort, ...]:
        """The ports it takes on its node."""
        return host_ports_of(self.pod)

    @derived
    def has_claims(self) -> bool:
        """True if it mounts a claim by name or a generic ephemeral one."""
        volumes = self.pod.spec.volumes
        return any(volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in volumes)

    @derived
    def has_disks(self) -> bool:
        """True if it names an in-tree disk itself, not through a claim."""
        return any(source is not None for volume in self.pod.spec.volumes for source in _IN_TREE(volume))

    @derived
    def named_claims(self) -> tuple[tuple[str, str], ...]:
        """(name, namespace/name) of the claims it mounts by name, in the order of its volumes; not ephemeral ones."""
        named = [volume.persistent_volume_claim for volume in self.pod.spec.volumes]
        return tuple([(each.claim_name, f"{self.namespace}/{each.claim_name}") for each in named if each is not None])

    @derived
    def claim_keys(self) -> tuple[str, ...]:
        """The claims it mounts, as namespace/name, without duplicates."""
        return self.pod.claim_keys() if self.has_claims else ()

    @derived
    def images(self) -> tuple[str, ...]:
        """The images of its containers by canonical name; with duplicates."""
        spec = self.pod.spec
        return tuple([canonical(container.image) for container in (*spec.init_containers, *spec.containers)])

    @derived
    def required_nodes(self) -> NodeSelector | None:
        """Its required node affinity terms; None if it has none."""
        return self.pod.spec.affinity.node_affinity.required

    @derived
    def is_terminating(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @derived
    def node_constraints(self) -> Hashable:
        """Equal for pods that ask the same of a node as such, whatever resources they take."""
        spec = self.pod.spec
        return (
            spec.node_name,
            tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
            spec.affinity.node_affinity,
            spec.tolerations,
        )

    @derived
    def signature(self) -> Hashable:
        """Equal for pods that row-local plugins cannot tell apart."""
        return (
            self.node_constraints,
            self.ordered_requests,
            tuple(sorted(self.scored_amounts.items())),
            self.host_ports,
        )

    def counts_like(self, other: PodInfo) -> bool:
        """True if `other`, another version of this pod, counts on its node exactly like this one."""
        mine, theirs = self.pod, other.pod
        if self.labels != other.labels or self.is_terminating != other.is_terminating:
            return False
        if self.requests != other.requests or self.scored_usage != other.scored_usage:
            return False
        # An assumed pod differs from the bound pod in this one field.
        spec = mine.spec
        if spec.node_name != theirs.spec.node_name:
            spec = msgspec.structs.replace(spec, node_name=theirs.spec.node_name)
        return spec == theirs.spec and mine.metadata.owner_references == theirs.metadata.owner_references
