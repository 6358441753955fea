"""A pod as decisions see it: everything derived from its spec, derived once.

`PodInfo` is immutable by convention. Two of its parts say what row-local plugins read of a pod (framework/ says what
that means). `node_constraints` is what it asks of a node as such: a name, labels, taints it tolerates. `signature` is
that and how much of the node it takes. Pods with equal signatures get equal masks and scores on equal rows; pods with
equal node constraints share what does not depend on how full a node is.

Pods of one workload come one after another and ask for the same; what was derived for the first serves the others:

    web-0 ── derived ──► requests, ports, images, signature …
    web-1 ── asks for the same as web-0 ──► has them

Pods are alike when all that the shared attributes are derived from is equal; names, labels, volumes and how containers
mount them may differ, as they do in a StatefulSet. Comparing costs a third of deriving. One pod is kept to compare
with, the last that was unlike the one before it. Pods that are bound come in between those that wait, and are alike but
for their node: they have what does not tell of it, and do not take the place of one that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar, Generic, TypeVar, overload

import msgspec

from tonnage.objects.core_v1 import Container, Pod, Volume
from tonnage.objects.node_selectors import NodeSelector
from tonnage.scheduling.cluster.amounts import (
    CPU,
    MEMORY,
    Amounts,
    is_outspoken,
    requests_of,
    scored_amounts_of,
    scored_requests_of,
)
from tonnage.scheduling.cluster.images_and_ports import HostPort, canonical, host_ports_of


def are_alike(one: Pod, other: Pod) -> bool:
    """Whether two pods ask for the same, and nothing is known yet of what a node holds for either.

    The nodes they are on may differ.
    """
    mine, theirs = one.spec, other.spec
    return (
        _all_alike(mine.containers, theirs.containers)
        and mine.node_selector == theirs.node_selector
        and mine.affinity == theirs.affinity
        and mine.tolerations == theirs.tolerations
        and mine.overhead == theirs.overhead
        and mine.resources == theirs.resources
        and _all_alike(mine.init_containers, theirs.init_containers)
        and not _is_held(one)
        and not _is_held(other)
    )


def _all_alike(mine: tuple[Container, ...], theirs: tuple[Container, ...]) -> bool:
    if len(mine) != len(theirs):
        return False
    for one, other in zip(mine, theirs, strict=True) if mine else ():
        if one.resources != other.resources or one.image != other.image or one.ports != other.ports:
            return False
        if one.restart_policy != other.restart_policy:
            return False
    return True


def _is_held(pod: Pod) -> bool:
    """A node has said what it holds for the pod, which may be more than the pod asks for (`amounts.py`)."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources is not None)


T = TypeVar("T")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=str)


def fingerprint(record: msgspec.Struct | None) -> bytes:
    """Equal for records that are written alike; what cannot be hashed, because it holds a map, can be told by this."""
    return _ENCODER.encode(record)


class derived(Generic[T]):  # lower case, because it is used as a decorator, like property
    """An attribute that is worked out when it is first read: functools.cached_property without its lock.

    A new pod has half a dozen of these read within one decision; the lock made each three times as dear.
    """

    def __init__(self, derive: Callable[[Any], T]) -> None:
        self._derive = derive
        self._name = derive.__name__
        self.__doc__ = derive.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> derived[T]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: object | None, kind: type) -> derived[T] | T:
        if owner is None:
            return self
        found = owner.__dict__[self._name] = self._derive(owner)
        return found


class shared(derived[T]):
    """One that pods which ask for the same have in common (`are_alike`): derived for the first of them."""

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self
        if owner.is_compared:
            return super().__get__(owner, kind)
        owner.compare()
        return owner.__dict__[self._name] if self._name in owner.__dict__ else super().__get__(owner, kind)


def is_disk(volume: Volume) -> bool:
    """Whether a volume is a disk of an in-tree plugin, which its pod names itself. At most one source is set."""
    if volume.persistent_volume_claim is not None:
        return False
    return (
        volume.aws_elastic_block_store is not None
        or volume.azure_disk is not None
        or volume.azure_file is not None
        or volume.cinder is not None
        or volume.gce_persistent_disk is not None
        or volume.iscsi is not None
        or volume.portworx_volume is not None
        or volume.rbd is not None
        or volume.vsphere_volume is not None
    )


class PodInfo:
    """One pod, with what filters and scores ask of it over and over."""

    _latest: ClassVar[PodInfo | None] = None
    """The pod that others are compared with."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.uid: str = pod.metadata.uid or pod.key
        self.key: str = pod.key
        self.namespace: str = pod.metadata.namespace
        self.labels: Mapping[str, str] = pod.metadata.labels
        self.priority: int = pod.spec.priority
        self.is_compared = False

    def compare(self) -> None:
        """Take over what was derived for the pod before, if this one asks for the same."""
        self.is_compared = True
        known, node_name = PodInfo._latest, self.pod.spec.node_name
        if known is not None and are_alike(self.pod, known.pod):
            self.__dict__.update(known.shared_facts)
            if node_name != known.pod.spec.node_name:
                for name in TELLING_NODES:
                    del self.__dict__[name]
        elif known is None or not node_name or known.pod.spec.node_name:
            PodInfo._latest = self

    @derived
    def shared_facts(self) -> Mapping[str, Any]:
        """All that pods which ask for the same have in common, for them to take over."""
        return {name: getattr(self, name) for name in SHARED}

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    @shared
    def requests(self) -> Amounts:
        return requests_of(self.pod)

    @shared
    def ordered_requests(self) -> tuple[tuple[str, int], ...]:
        """The same, by name."""
        return tuple(sorted(self.requests.items()))

    @shared
    def scored_amounts(self) -> Amounts:
        """What it asks for as NodeResourcesFit scores a newcomer."""
        return self.requests if self.is_outspoken else scored_amounts_of(self.pod)

    @shared
    def is_outspoken(self) -> bool:
        """Scores and filters see the same amounts of it."""
        return is_outspoken(self.pod)

    @derived
    def scored_requests(self) -> tuple[int, int]:
        """(CPU, memory) of this pod as a scored newcomer."""
        return scored_requests_of(self.pod, pod_level=False)

    @shared
    def scored_usage(self) -> tuple[int, int]:
        """(CPU, memory) of this pod as a resident, for other pods' scores."""
        if self.is_outspoken:
            return self.requests[CPU], self.requests[MEMORY]
        return scored_requests_of(self.pod, pod_level=True)

    @shared
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
    def all_containers(self) -> tuple[Container, ...]:
        return (*self.pod.spec.init_containers, *self.pod.spec.containers)

    @shared
    def images(self) -> tuple[str, ...]:
        """The images its containers run, by their canonical names; one run twice is there twice."""
        return tuple(canonical(container.image) for container in self.all_containers)

    @shared
    def required_nodes(self) -> NodeSelector | None:
        """The required node affinity terms it names itself; None when it names none."""
        return self.pod.spec.affinity.node_affinity.required

    @derived
    def is_terminating(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @shared
    def node_constraints(self) -> Hashable:
        """Equal for pods that ask the same of a node as such, whatever they take of it."""
        spec = self.pod.spec
        return (
            spec.node_name,
            tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
            spec.affinity.node_affinity,
            spec.tolerations,
        )

    @shared
    def signature(self) -> Hashable:
        """Equal for pods that row-local plugins cannot tell apart."""
        return (
            self.node_constraints,
            self.ordered_requests,
            self.ordered_requests if self.is_outspoken else tuple(sorted(self.scored_amounts.items())),
            self.host_ports,
        )

    def counts_like(self, other: PodInfo) -> bool:
        """Whether, on the same node, nobody who counts residents could tell this pod from another of its own uid.

        What a pod says about itself in its status is of no account, but for what it holds while it is resized.
        """
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


SHARED = tuple(name for name, each in vars(PodInfo).items() if isinstance(each, shared))
"""The names of what pods that ask for the same have in common."""
TELLING_NODES = ("node_constraints", "signature")
"""Those among them that tell the node a pod is on."""
