"""Pod: what is to be placed, where it wants to be, and how far it has come.

Node: what a machine offers, what keeps pods off it, and the well-known labels of its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage.objects.core_v1.persistent_volume import Volume
from tonnage.objects.meta import Condition, Key, Object, ObjectMeta, Record, Time
from tonnage.objects.requirements import (
    OUT_OF_SERVICE,
    NodeSelector,
    PreferredSchedulingTerm,
    RequiredNodeAffinity,
    Taint,
    Toleration,
)
from tonnage.objects.selectors import LabelSelector
from tonnage.quantity import Quantity


class NodeSpec(Record):
    """`unschedulable` is what `kubectl cordon` sets."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")


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
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, type: str) -> Condition | None:
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


class ResourceClaim(Record):
    name: str


class ResourceRequirements(Record):
    """A resource missing from `requests` differs from a request of 0: scores assume a default for a missing one."""

    requests: Mapping[str, Quantity] = {}
    limits: Mapping[str, Quantity] = {}
    claims: tuple[ResourceClaim, ...] = ()


class ContainerPort(Record):
    """A port. A `host_port` is taken on the node, on `host_ip` or, if that is empty, on all addresses."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")


class VolumeMount(Record):
    name: str
    mount_path: str
    read_only: bool = False


class VolumeDevice(Record):
    name: str
    device_path: str


class Probe(Record):
    """When a container is probed; the probe's action is not read, because nothing runs."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    success_threshold: int = 1


class Container(Record):
    """`restart_policy` is set on init containers only: "Always" makes a sidecar."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"


class ContainerStateWaiting(Record):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Record):
    started_at: Time | None = None


class ContainerStateTerminated(Record):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerState(Record):
    """At most one of the three; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Record):
    """`allocated_resources` are granted, `resources` in force; absent `resources`: not reported by the node."""

    name: str
    image: str = ""
    container_id: str = msgspec.field(name="containerID", default="")
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    allocated_resources: Mapping[str, Quantity] = {}
    resources: ResourceRequirements | None = None


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinity(Record):
    """`required` absent requires nothing; without terms it matches no node."""

    required: NodeSelector | None = msgspec.field(name=_REQUIRED, default=None)
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(name=_PREFERRED, default=())


class PodAffinityTerm(Record):
    """`label_selector` absent matches no pod. `namespace_selector` absent adds no namespace, empty adds all; with
    neither it nor `namespaces`, the term is about the pod's own namespace.
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
    """Pods to be near to; as anti-affinity, pods to keep away from."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(name=_REQUIRED, default=())
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(name=_PREFERRED, default=())


class Affinity(Record):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class TopologySpreadConstraint(Record):
    """`label_selector` absent matches no pod."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


VOLUME_ATTACHMENT_LIMIT_EXCEEDED: Final = "VolumeAttachmentLimitExceeded"
"""`status.reason` of a pod that its node failed because it has no attach slot for the pod's volumes (KEP-4876)."""
VOLUME_NODE_AFFINITY: Final = "VolumeNodeAffinity"
"""`status.reason` of a pod that its node failed because only other nodes can reach one of its volumes (KEP-5381)."""


class PodSchedulingGate(Record):
    name: str


class PodReadinessGate(Record):
    condition_type: str


class PodResourceClaim(Record):
    """A device claim. A pod with one needs a scheduler that allocates devices."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSchedulingGroup(Record):
    pod_group_name: str = ""


class Sysctl(Record):
    name: str
    value: str = ""


class PodSecurityContext(Record):
    fs_group: int | None = None
    sysctls: tuple[Sysctl, ...] = ()


class PodOS(Record):
    name: str


class PodSpec(Record):
    """`node_name` is empty until the pod is bound; `resources` absent: the containers' sum counts."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Mapping[str, Quantity] = {}
    resources: ResourceRequirements | None = None
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    host_network: bool = False
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    hostname: str = ""
    subdomain: str = ""
    os: PodOS | None = None
    security_context: PodSecurityContext = PodSecurityContext()
    service_account_name: str = ""


class PodIP(Record):
    ip: str


class PodStatus(Record):
    """`resources` and `allocated_resources` are the pod-level amounts in force and granted, while resizing."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: Time | None = None
    qos_class: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[PodIP, ...] = msgspec.field(name="podIPs", default=())
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Mapping[str, Quantity] = {}
    resources: ResourceRequirements | None = None


class NominationInFields(Record):
    """The one field of a pod's status whose managers are read: if it is present, the manager set it."""

    nominated_node_name: Mapping[str, Any] | None = msgspec.field(name="f:nominatedNodeName", default=None)


class StatusInFields(Record):
    status: NominationInFields = msgspec.field(name="f:status", default=NominationInFields())


class PodManagedFieldsEntry(Record):
    manager: str = ""
    time: Time | None = None
    fields_v1: StatusInFields = StatusInFields()


class PodMeta(ObjectMeta):
    managed_fields: tuple[PodManagedFieldsEntry, ...] = ()

    @property
    def manager_of_nomination(self) -> PodManagedFieldsEntry | None:
        """The last manager that set `status.nominatedNodeName`; None if unknown."""
        setters = [entry for entry in self.managed_fields if entry.fields_v1.status.nominated_node_name is not None]
        dated = [(each.time, place, each) for place, each in enumerate(setters) if each.time is not None]
        if dated:
            return max(dated)[2]
        return setters[-1] if setters else None


class Pod(Object):
    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_terminal(self) -> bool:
        """It has ended and uses nothing of its node any more."""
        return self.status.phase in ("Succeeded", "Failed")

    def required_node_affinity(self) -> RequiredNodeAffinity:
        return RequiredNodeAffinity(self.spec.node_selector, self.spec.affinity.node_affinity.required)

    def condition(self, type: str) -> Condition | None:
        return next((condition for condition in self.status.conditions if condition.type == type), None)

    def claim_names(self) -> tuple[str, ...]:
        """The claims it mounts, in its namespace, in the order of its volumes; a claim mounted twice is there twice."""
        names = (volume.claim_name(self.metadata.name) for volume in self.spec.volumes)
        return tuple(name for name in names if name is not None)

    def claim_keys(self) -> tuple[Key, ...]:
        """The keys of the claims it mounts, existing or not, each once, in the order of its volumes."""
        return tuple(dict.fromkeys([f"{self.namespace}/{name}" for name in self.claim_names()]))
