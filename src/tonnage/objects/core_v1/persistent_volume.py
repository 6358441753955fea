"""PersistentVolume and PersistentVolumeClaim: storage that exists and storage that is requested; the volumes of a pod.

A claim is bound if both name each other and the binder has annotated it; until then its `volume_name` is only a
request. Scheduler and provisioner communicate by the selected-node annotation. The end of the file reads the progress
of an expansion, and whether a provisioner's refusal (`ProvisioningFailed` events, or our annotation) is permanent or
temporary; unknown texts count as temporary.

Of in-tree disks only identity and read-only are read: they decide about conflicts on a node (VolumeRestrictions), and
under which CSI driver a migrated disk counts (NodeVolumeLimits).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage.objects.meta import Condition, Key, Object, Record, StampedMeta, Time
from tonnage.objects.requirements import NodeSelector
from tonnage.objects.selectors import LabelSelector
from tonnage.quantity import Quantity


class ObjectReference(Record):
    """Any object, as events and volumes name it; a `uid` tells it from later objects of the same name."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""

    @property
    def key(self) -> Key:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class SecretReference(Record):
    name: str = ""
    namespace: str = ""


class TypedObjectReference(Record):
    """The source of a claim's contents; an empty `namespace` is the claim's own."""

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""


class PersistentVolumeClaimVolumeSource(Record):
    claim_name: str
    read_only: bool = False


class EphemeralVolumeSource(Record):
    """A claim that lives as long as the pod; its template is a document, because it is copied rather than read."""

    volume_claim_template: Mapping[str, Any] = {}


class CSIVolumeSource(Record):
    """An inline volume: it has no claim, and its driver creates it on the node."""

    driver: str
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: Mapping[str, str] = {}


class InTreeDisk(Record):
    """A disk of a plug-in inside Kubernetes: what identifies it, by the field of its kind, and whether it is read."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    disk_uri: str = msgspec.field(name="diskURI", default="")
    pd_name: str = ""
    iqn: str = ""
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class HostPathVolumeSource(Record):
    path: str


class LocalVolumeSource(HostPathVolumeSource):
    fs_type: str = ""


class InTreeVolumeSource(Record):
    """The sources that a pod's volume and a PersistentVolume share."""

    host_path: HostPathVolumeSource | None = None
    aws_elastic_block_store: InTreeDisk | None = None
    azure_disk: InTreeDisk | None = None
    azure_file: InTreeDisk | None = None
    cinder: InTreeDisk | None = None
    gce_persistent_disk: InTreeDisk | None = None
    portworx_volume: InTreeDisk | None = None
    vsphere_volume: InTreeDisk | None = None


class Volume(InTreeVolumeSource):
    """A volume by the name its containers use; at most one source is set, none if its kind is not modelled."""

    name: str
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    empty_dir: Mapping[str, Any] | None = None
    iscsi: InTreeDisk | None = None
    rbd: InTreeDisk | None = None

    def claim_name(self, pod_name: str) -> str | None:
        """The volume's claim in the pod's namespace, named by the pod or created for it; None without a claim."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod_name}-{self.name}" if self.ephemeral is not None else None


BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim: the binding is finished on both sides."""
PVC_PROTECTION = "kubernetes.io/pvc-protection"
"""The finalizer of a bound claim, removed when no pod uses the claim."""
PV_PROTECTION = "kubernetes.io/pv-protection"
"""The finalizer of a bound volume."""
VOLUME_PROTECTION = "provisioner.tonnage.dev/volume-protection"
"""The finalizer of a claim while its volume is being created, removed when the PersistentVolume exists."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a claim or a volume: no person asked for the binding, and it may be undone."""
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
"""Annotation of a volume: the driver that created it and must delete it."""
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
"""Annotation of a claim: the driver that must create its volume."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node that its volume is created for."""
REBUILD_TARGET = "tonnage.dev/rebuild-target"
"""Annotation of a claim: its volume is to be rebuilt on this node (KEP-5925). It is valid only while it equals the
selected node and the volume's node affinity is unset, and is never removed.
"""
VOLUME_HOME = "tonnage.dev/volume-home"
"""Annotation of a volume: the node that has its contents. Its driver writes it in the patch that unsets the node
affinity, and it is valid only while the affinity is unset.
"""
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotation of a claim or a volume: its class, from before there was a field. The annotation wins over the field."""
_NO_SIZE = Quantity.of(0)


class CSIPersistentVolumeSource(Record):
    """A volume of a CSI driver, named there by `volume_handle`; the references are credentials for the calls."""

    driver: str
    volume_handle: str
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: Mapping[str, str] = {}
    controller_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class VolumeNodeAffinity(Record):
    """`required` absent: every node can reach the volume."""

    required: NodeSelector | None = None

    def admits(self, node_name: str, labels: Mapping[str, str]) -> bool:
        return self.required is None or self.required.matches(node_name, labels)


class PersistentVolumeSpec(InTreeVolumeSource):
    """`claim_ref` names the claim it is bound to or kept for; an absent attributes class equals an empty one."""

    capacity: Mapping[str, Quantity] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_attributes_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity = VolumeNodeAffinity()
    persistent_volume_reclaim_policy: str = "Retain"
    mount_options: tuple[str, ...] = ()
    csi: CSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None


class PersistentVolumeStatus(Record):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    last_phase_transition_time: Time | None = None


class PersistentVolume(Object):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def home(self) -> str:
        """The node with its contents, which its driver names while it has no node affinity; empty if unknown."""
        return self.metadata.annotations.get(VOLUME_HOME, "")

    @property
    def class_name(self) -> str:
        """Its StorageClass, by the annotation or by the field; empty for none."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> Quantity:
        return self.spec.capacity.get("storage", _NO_SIZE)


class VolumeResourceRequirements(Record):
    requests: Mapping[str, Quantity] = {}
    limits: Mapping[str, Quantity] = {}


class PersistentVolumeClaimSpec(Record):
    """`storage_class_name` absent asks for the default class, empty for volumes without a class. With a `selector` no
    volume is provisioned. `volume_name` before the binding is complete asks for that volume.
    """

    access_modes: tuple[str, ...] = ()
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    storage_class_name: str | None = None
    volume_attributes_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_name: str = ""
    selector: LabelSelector | None = None
    data_source: TypedObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None

    @property
    def is_block(self) -> bool:
        return self.volume_mode == "Block"


class ModifyVolumeStatus(Record):
    status: str
    target_volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(Record):
    phase: str = "Pending"
    access_modes: tuple[str, ...] = ()
    capacity: Mapping[str, Quantity] = {}
    conditions: tuple[Condition, ...] = ()
    allocated_resources: Mapping[str, Quantity] = {}
    allocated_resource_statuses: Mapping[str, str] = {}
    current_volume_attributes_class_name: str = ""
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(Object):
    metadata: StampedMeta = StampedMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def is_bound(self) -> bool:
        """The binding is finished, by volume name and annotation; the phase is for people, and may lag behind."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def class_name(self) -> str:
        """The requested StorageClass, by the annotation or by the field; empty for none."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name or "")

    def is_for_pod(self, pod: Object) -> bool:
        """True if an ephemeral volume's claim belongs to this very pod, by uid. Mirrors VolumeIsForPod."""
        owner = self.metadata.controller
        return self.namespace == pod.namespace and owner is not None and owner.uid == pod.uid

    @property
    def selected_node(self) -> str:
        """The node that the volume is created for; empty while none is chosen."""
        return self.metadata.annotations.get(SELECTED_NODE, "")

    @property
    def rebuild_target(self) -> str:
        """The last node that the volume was to be rebuilt on; empty if there was none."""
        return self.metadata.annotations.get(REBUILD_TARGET, "")

    @property
    def requested(self) -> Quantity | None:
        return self.spec.resources.requests.get("storage")

    @property
    def requested_size(self) -> Quantity:
        """The requested size for comparisons: a claim without a size accepts any volume."""
        return self.requested or _NO_SIZE


def class_name_in(doc: Mapping[str, Any]) -> str | None:
    """`class_name` of a claim, a claim template or a volume as a document; None if it names no class at all."""
    annotated: str | None = doc.get("metadata", {}).get("annotations", {}).get(BETA_STORAGE_CLASS)
    named: str | None = doc.get("spec", {}).get("storageClassName")
    return named if annotated is None else annotated


CONTROLLER_IN_PROGRESS: Final = "ControllerResizeInProgress"
CONTROLLER_INFEASIBLE: Final = "ControllerResizeInfeasible"
NODE_PENDING: Final = "NodeResizePending"
NODE_IN_PROGRESS: Final = "NodeResizeInProgress"
NODE_INFEASIBLE: Final = "NodeResizeInfeasible"
RESIZE_STATUSES: Final = (
    CONTROLLER_IN_PROGRESS,
    CONTROLLER_INFEASIBLE,
    NODE_PENDING,
    NODE_IN_PROGRESS,
    NODE_INFEASIBLE,
)
FS_PENDING: Final = "FileSystemResizePending"
RESIZING: Final = "Resizing"
CONTROLLER_ERROR: Final = "ControllerResizeError"
NODE_ERROR: Final = "NodeResizeError"
RESIZE_CONDITIONS: Final = (FS_PENDING, RESIZING, CONTROLLER_ERROR, NODE_ERROR)
PROVISIONING_FAILED: Final = "ProvisioningFailed"
PROVISIONING_REFUSED: Final = "tonnage.dev/provisioning-refused"
"""Annotation of a claim: our provisioner's last answer, if it was a permanent refusal."""
_FOR_GOOD: Final = frozenset(
    {
        "InvalidArgument",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "Unauthenticated",
        "FailedPrecondition",
        "OutOfRange",
        "Unimplemented",
    }
)
"""Left out: Canceled, Unknown, DeadlineExceeded, Aborted, Internal, Unavailable, DataLoss, which may be temporary; and
ResourceExhausted, which is about capacity.
"""
_CODE: Final = re.compile(r"rpc error: code = (\w+)")
_NODE_IS_AWAY: Final = re.compile(
    r'error generating accessibility requirements|\b(csi)?nodes?(\.\S+)? "[^"]*" not found'
)
_MISTAKE: Final = re.compile(
    r'"[^"]*" not found'  # a source, a class, a secret
    r"|could not find the requested resource|404 page not found"  # its kind: no snapshots in this cluster
    r"|the PVC source not found|does not belong to the right APIGroup|is currently being deleted|is being deleted"
    r"|must be greater than or equal in size|is less than the size"
    r"|must have the same volume mode|storageclass cannot be empty"
    r"|CSI driver does not support|is not supported|does not match driver name"
    r"|fstype specified in parameters with both|failed to strip CSI Parameters|failed to translate storage class"
)
"""Texts of external-provisioner, and of ours, about mistakes before the driver is called."""


class _Refused(msgspec.Struct, frozen=True, rename="camel"):
    message: str
    node: str = ""
    volume_attributes_class_name: str = ""


def is_for_good(message: str) -> bool:
    """True if a provisioner's message about a claim is a refusal that more capacity does not cure."""
    found = _CODE.search(message)
    if found is not None:
        return found[1] in _FOR_GOOD
    return _MISTAKE.search(message) is not None and _NODE_IS_AWAY.search(message) is None


def refusal_text(claim: PersistentVolumeClaim, message: str) -> str:
    """The text of the annotation for a refusal of the claim in its current state."""
    refused = _Refused(message, claim.selected_node, claim.spec.volume_attributes_class_name)
    return msgspec.json.encode(refused).decode()


def annotated_refusal(claim: PersistentVolumeClaim) -> str:
    """The annotated refusal; empty without one, or if it is about another node or attributes class than the claim's."""
    text = claim.metadata.annotations.get(PROVISIONING_REFUSED)
    if text is None:
        return ""
    try:
        refused = msgspec.json.decode(text, type=_Refused)
    except msgspec.MsgspecError:
        return ""
    asked = claim.selected_node, claim.spec.volume_attributes_class_name
    return refused.message if (refused.node, refused.volume_attributes_class_name) == asked else ""
