"""References between objects, and the volumes of a pod.

Of in-tree disks only identity and read-only are read: they decide about conflicts on a node (VolumeRestrictions), and
under which CSI driver a migrated disk counts (NodeVolumeLimits).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tonnage.objects.meta import Key, Record


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


class TypedLocalObjectReference(Record):
    kind: str
    name: str
    api_group: str = ""


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


class AWSElasticBlockStoreVolumeSource(Record):
    volume_id: str = msgspec.field(name="volumeID")
    read_only: bool = False


class AzureDiskVolumeSource(Record):
    disk_name: str
    disk_uri: str = msgspec.field(name="diskURI")
    read_only: bool = False


class AzureFileVolumeSource(Record):
    secret_name: str
    share_name: str
    read_only: bool = False


class CinderVolumeSource(Record):
    volume_id: str = msgspec.field(name="volumeID")
    read_only: bool = False


class GCEPersistentDiskVolumeSource(Record):
    pd_name: str
    read_only: bool = False


class ISCSIVolumeSource(Record):
    iqn: str
    read_only: bool = False


class PortworxVolumeSource(Record):
    volume_id: str = msgspec.field(name="volumeID")
    read_only: bool = False


class RBDVolumeSource(Record):
    monitors: tuple[str, ...] = ()
    image: str
    pool: str = "rbd"
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Record):
    volume_path: str


class HostPathVolumeSource(Record):
    path: str


class EmptyDirVolumeSource(Record):
    medium: str = ""


class InTreeVolumeSource(Record):
    """The sources that a pod's volume and a PersistentVolume share."""

    host_path: HostPathVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class Volume(InTreeVolumeSource):
    """A volume by the name its containers use; at most one source is set, none if its kind is not modelled."""

    name: str
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None

    def claim_name(self, pod_name: str) -> str | None:
        """The volume's claim in the pod's namespace, named by the pod or created for it; None without a claim."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod_name}-{self.name}" if self.ephemeral is not None else None
