"""A pod as decisions see it: everything derived from its spec, derived once.

`PodInfo` is immutable by convention. Its `signature` is everything that row-local plugins read of a pod (framework.py
says what that means); pods with equal signatures get equal masks and scores on equal rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property

from tonnage.objects.core_v1 import Container, Pod
from tonnage.objects.node_selectors import NodeSelector
from tonnage.scheduling.amounts import Amounts, requests_of, scored_requests_of

HostPort = tuple[str, str, int]
"""(protocol, address, port); the address is "0.0.0.0" when all are meant."""

ANY_ADDRESS = "0.0.0.0"


class PodInfo:
    """One pod, with what filters and scores ask of it over and over."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.uid: str = pod.metadata.uid or pod.key
        self.key: str = pod.key
        self.namespace: str = pod.metadata.namespace
        self.labels: Mapping[str, str] = pod.metadata.labels
        self.priority: int = pod.spec.priority

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    @cached_property
    def requests(self) -> Amounts:
        return requests_of(self.pod)

    @cached_property
    def scored_requests(self) -> tuple[int, int]:
        """(CPU, memory) of this pod as a scored newcomer."""
        return scored_requests_of(self.pod, pod_level=False)

    @cached_property
    def scored_usage(self) -> tuple[int, int]:
        """(CPU, memory) of this pod as a resident, for other pods' scores."""
        return scored_requests_of(self.pod, pod_level=True)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Ports it takes on its node. Those of sidecars count, those of init containers that end do not."""
        spec = self.pod.spec
        containers = [*spec.containers, *(each for each in spec.init_containers if each.is_sidecar)]
        return tuple(
            (port.protocol or "TCP", port.host_ip or ANY_ADDRESS, port.host_port)
            for container in containers
            for port in container.ports
            if port.host_port > 0
        )

    @cached_property
    def all_containers(self) -> tuple[Container, ...]:
        return (*self.pod.spec.init_containers, *self.pod.spec.containers)

    @cached_property
    def required_nodes(self) -> NodeSelector | None:
        """The node selector and required node affinity terms it names itself; None when it names none."""
        return self.pod.spec.affinity.node_affinity.required

    @cached_property
    def is_terminating(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @cached_property
    def signature(self) -> Hashable:
        """Equal for pods that row-local plugins cannot tell apart. A frozen record's repr is its value."""
        spec = self.pod.spec
        return (
            spec.node_name,
            tuple(sorted(self.requests.items())),
            self.scored_requests,
            self.host_ports,
            tuple(sorted(spec.node_selector.items())),
            repr(spec.affinity.node_affinity) if spec.affinity.node_affinity != _NO_NODE_AFFINITY else "",
            spec.tolerations,
            tuple(each.image for each in self.all_containers),
        )


_NO_NODE_AFFINITY = Pod().spec.affinity.node_affinity
