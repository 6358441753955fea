"""Node: what a machine offers, what keeps pods off it, and the well-known labels of its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tonnage.objects.meta import Condition, Object, Record, Time
from tonnage.objects.node_selectors import OUT_OF_SERVICE, Taint
from tonnage.quantity import Quantity


class NodeSpec(Record):
    """`unschedulable` is what `kubectl cordon` sets."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")


class NodeCondition(Condition):
    """A condition that the node repeats while it is alive."""

    last_heartbeat_time: Time | None = None


class NodeAddress(Record):
    type: str
    address: str


class ContainerImage(Record):
    """An image that is already on the node, with all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class AttachedVolume(Record):
    name: str
    device_path: str = ""


class NodeSystemInfo(Record):
    architecture: str = ""
    kubelet_version: str = ""


class NodeStatus(Record):
    """`allocatable` is the sum that pods may request, `capacity` what the machine has."""

    capacity: Mapping[str, Quantity] = {}
    allocatable: Mapping[str, Quantity] = {}
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, type: str) -> NodeCondition | None:
        return next((condition for condition in self.status.conditions if condition.type == type), None)

    @property
    def is_ready(self) -> bool:
        """As the last status says; the node lifecycle controller decides whether the node is still alive."""
        ready = self.condition("Ready")
        return ready is not None and ready.is_true

    @property
    def is_out_of_service(self) -> bool:
        """True if a person has tainted the node as down."""
        return any(taint.key == OUT_OF_SERVICE for taint in self.spec.taints)

    @property
    def is_dead(self) -> bool:
        """A person has tainted the node as down, and it does not report Ready: nothing runs there any more."""
        return self.is_out_of_service and not self.is_ready


def is_out_of_use(node: Node | None) -> bool:
    """True if volumes may be rebuilt on other nodes (KEP-5925): the node is gone (None), cordoned or out of service."""
    return node is None or node.spec.unschedulable or node.is_out_of_service


HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
"""Before Kubernetes 1.17; still on many volumes."""
