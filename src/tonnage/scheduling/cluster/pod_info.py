"""A pod as decisions see it: everything derived from its spec, derived once.

`PodInfo` is immutable by convention. Two of its parts say what row-local plugins read of a pod (framework/ says what
that means). `node_constraints` is what it asks of a node as such: a name, labels, taints it tolerates. `signature` is
that and how much of the node it takes. Pods with equal signatures get equal masks and scores on equal rows; pods with
equal node constraints share what does not depend on how full a node is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from tonnage.objects.core_v1 import Pod, Volume
from tonnage.objects.node_selectors import NodeSelector
from tonnage.scheduling.cluster.amounts import CPU, MEMORY, Amounts, requests_of, scored_amounts_of, scored_usage_of
from tonnage.scheduling.cluster.images_and_ports import HostPort, canonical, host_ports_of

if TYPE_CHECKING:
    from functools import cached_property as derived
else:

    class derived:
        """functools.cached_property without its lock, which makes each read three times as dear."""

        def __init__(self, derive: Any) -> None:
            self._derive = derive

        def __get__(self, owner: Any, kind: type) -> Any:
            found = owner.__dict__[self._derive.__name__] = self._derive(owner)
            return found


_ENCODER = msgspec.msgpack.Encoder(enc_hook=str)


def fingerprint(record: msgspec.Struct | None) -> bytes:
    """Equal for records that are written alike; what cannot be hashed, because it holds a map, can be told by this."""
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


def is_disk(volume: Volume) -> bool:
    """True for a disk of an in-tree plugin, which the pod names itself and not through a claim."""
    return any(source is not None for source in _IN_TREE(volume))


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

    @derived
    def requests(self) -> Amounts:
        return requests_of(self.pod)

    @derived
    def ordered_requests(self) -> tuple[tuple[str, int], ...]:
        """The same, by name."""
        return tuple(sorted(self.requests.items()))

    @derived
    def scored_amounts(self) -> Amounts:
        """What it asks for as NodeResourcesFit scores a newcomer."""
        return scored_amounts_of(self.pod)

    @derived
    def scored_usage(self) -> tuple[int, int]:
        """(CPU, memory) of this pod as a resident, for other pods' scores."""
        if self.pod.spec.resources is None:
            return self.scored_amounts[CPU], self.scored_amounts[MEMORY]
        return scored_usage_of(self.pod)

    @derived
    def host_ports(self) -> tuple[HostPort, ...]:
        """Ports it takes on its node."""
        return host_ports_of(self.pod)

    @derived
    def has_claims(self) -> bool:
        """It mounts a claim, its own or a generic ephemeral one."""
        volumes = self.pod.spec.volumes
        return any(each.persistent_volume_claim is not None or each.ephemeral is not None for each in volumes)

    @derived
    def has_disks(self) -> bool:
        """It names a disk itself, of one of the in-tree plugins, and not through a claim."""
        return any(map(is_disk, self.pod.spec.volumes))

    @derived
    def named_claims(self) -> tuple[tuple[str, str], ...]:
        """(name, namespace/name) of the claims it mounts by name, in the order of its volumes; not ephemeral ones."""
        named = [each.persistent_volume_claim for each in self.pod.spec.volumes]
        return tuple([(each.claim_name, f"{self.namespace}/{each.claim_name}") for each in named if each is not None])

    @derived
    def claim_keys(self) -> tuple[str, ...]:
        """The claims it mounts, as namespace/name, each once."""
        if not self.has_claims:
            return ()
        return tuple(dict.fromkeys([f"{self.namespace}/{name}" for name in self.pod.claim_names()]))

    @derived
    def images(self) -> tuple[str, ...]:
        """The images its containers run, by their canonical names; one run twice is there twice."""
        spec = self.pod.spec
        return tuple([canonical(each.image) for each in (*spec.init_containers, *spec.containers)])

    @derived
    def required_nodes(self) -> NodeSelector | None:
        """The required node affinity terms it names itself; None when it names none."""
        return self.pod.spec.affinity.node_affinity.required

    @derived
    def is_terminating(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @derived
    def node_constraints(self) -> Hashable:
        """Equal for pods that ask the same of a node as such, whatever they take of it."""
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
        """Whether, on the same node, nobody who counts residents could tell this pod from another of its own uid."""
        mine, theirs = self.pod, other.pod
        if self.labels != other.labels or self.is_terminating != other.is_terminating:
            return False
        if self.requests != other.requests or self.scored_usage != other.scored_usage:
            return False
        # An assumed pod differs from the same pod bound in this one field.
        spec = mine.spec
        if spec.node_name != theirs.spec.node_name:
            spec = msgspec.structs.replace(spec, node_name=theirs.spec.node_name)
        return spec == theirs.spec and mine.metadata.owner_references == theirs.metadata.owner_references
