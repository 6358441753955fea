"""Where a pod wants to be: near which nodes, near which pods, and how evenly spread."""

from __future__ import annotations

import msgspec

from tonnage.objects.meta import Record
from tonnage.objects.node_selectors import NodeSelector, PreferredSchedulingTerm
from tonnage.objects.selectors import LabelSelector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinity(Record):
    """`required` absent asks for nothing; without terms it matches no node."""

    required: NodeSelector | None = msgspec.field(name=_REQUIRED, default=None)
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(name=_PREFERRED, default=())


class PodAffinityTerm(Record):
    """Pods that match, within the nodes that share a value of `topology_key`.

    `label_selector` absent matches no pod. `namespace_selector` absent adds no namespace, empty adds all of them; with
    neither it nor `namespaces`, the pod's own namespace is meant.
    """

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Record):
    """A preference worth `weight`, 1 to 100."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Record):
    """Pods to be with; as anti-affinity, pods to keep away from."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(name=_REQUIRED, default=())
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(name=_PREFERRED, default=())


class Affinity(Record):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class TopologySpreadConstraint(Record):
    """How uneven the matching pods may lie over the values of `topology_key`.

    `label_selector` absent matches no pod.
    """

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
