"""storage.k8s.io/v1: how volumes are made, what drivers can do, how much room there is, and what is attached where.

The fields of the enhancements (KEP-5925, KEP-4876, KEP-5030) stand beside upstream's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from tonnage.clock import InvalidTime, parse_rfc3339
from tonnage.objects.meta import Object, Record, StampedMeta, Time
from tonnage.objects.node_selectors import TopologySelectorTerm
from tonnage.objects.selectors import LabelSelector
from tonnage.quantity import Quantity

AVAILABLE_CAPACITIES = "tonnage.dev/available-capacities"
"""Annotation of a CSIStorageCapacity, "100Gi,100Gi": its pools, where the server drops `availableCapacities`."""
POOLS_SOURCE = "tonnage.dev/pools-source"
"""Annotation of a capacity object: its pools are kept by `tonnage pools`, from this source; `capacity` has another
writer.
"""
POOLS_PROGRAM = "tonnage-pools"
POOLS_OBSERVED_AT = "tonnage.dev/pools-observed-at"
"""Annotation beside it: when the pools were told by their source, by the server's clock."""
POOLS_STALE_SINCE = "tonnage.dev/pools-stale-since"
"""Annotation beside it: the source has been silent since then, and the pools are going to be taken away."""
POOLS_CHECKED_AT = "tonnage.dev/pools-checked-at"
"""Annotation beside it: when `tonnage pools` last looked. While it is older than a volume, nobody knows whether the
pools show it.
"""
INCLUDED_CLAIMS = "tonnage.dev/included-claims"
"""Annotation of a capacity object: uids of the claims whose volumes, made lately, its figures are known to include."""
INCLUDED_UNTIL = "tonnage.dev/included-until"
"""Annotation beside it, where those claims are too many: the figures include every volume created before this time."""
CAPACITY_GROUP = "tonnage.dev/capacity-group"
"""Annotation of a StorageClass: classes of one driver with the same value draw from the same pools."""
POOL_POLICY = "tonnage.dev/pool-policy"
"""Annotation of a CSIDriver, or of a StorageClass, which goes before it: which pool the driver takes for a volume."""
POOL_POLICIES = ("most-free", "best-fit", "first-fit", "random", "unknown")
"""What it may say. The last two are the same to a scheduler: any pool with room."""


class StorageClass(Object):
    """A recipe for volumes. Without `allowed_topologies` they may be made anywhere."""

    provisioner: str
    parameters: Mapping[str, str] = {}
    reclaim_policy: str = "Delete"
    mount_options: tuple[str, ...] = ()
    allow_volume_expansion: bool = False
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()

    @property
    def waits_for_consumer(self) -> bool:
        """Volumes are chosen once a pod is placed, not before."""
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def capacity_group(self) -> str:
        """The name of the group of classes that it shares its pools with; empty for none."""
        return self.metadata.annotations.get(CAPACITY_GROUP, "").strip()

    @property
    def pool_policy(self) -> str:
        """As it is annotated, whatever that says; empty when it is not."""
        return self.metadata.annotations.get(POOL_POLICY, "").strip()


class VolumeAttributesClass(Object):
    """Attributes of volumes that may change while they exist, such as their speed; the driver knows what they are."""

    driver_name: str = ""
    parameters: Mapping[str, str] = {}


class CSIDriverSpec(Record):
    """An absent update period: attach limits are not refreshed; `storage_capacity` false: no capacity is checked."""

    attach_required: bool = True
    pod_info_on_mount: bool = False
    volume_lifecycle_modes: tuple[str, ...] = ("Persistent",)
    storage_capacity: bool = False
    node_allocatable_update_period_seconds: int | None = None
    prevent_pod_scheduling_if_missing: bool = False
    volume_rebuilding: bool = False


class CSIDriver(Object):
    spec: CSIDriverSpec = CSIDriverSpec()

    @property
    def pool_policy(self) -> str:
        """As it is annotated, whatever that says; empty when it is not. A class may say otherwise."""
        return self.metadata.annotations.get(POOL_POLICY, "").strip()


class VolumeNodeResources(Record):
    """`count` absent is no limit; 0 is a limit."""

    count: int | None = None


class CSINodeDriver(Record):
    """One driver on one node: the node's name there, its topology, and how many volumes may be attached."""

    name: str
    node_id: str = msgspec.field(name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources = VolumeNodeResources()


class CSINodeSpec(Record):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object):
    """What the drivers on one node told us; it has the node's name."""

    spec: CSINodeSpec = CSINodeSpec()

    def driver(self, name: str) -> CSINodeDriver | None:
        return next((driver for driver in self.spec.drivers if driver.name == name), None)


class CSIStorageCapacity(Object):
    """Room for one class on the nodes that `node_topology` selects (absent: none, empty: all). `capacity` and
    `maximum_volume_size` absent are unknown, not zero; `available_capacities` empty: the driver does not say.
    """

    metadata: StampedMeta = StampedMeta()
    storage_class_name: str
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
    available_capacities: tuple[Quantity, ...] = ()

    @property
    def has_kept_pools(self) -> bool:
        """True if its pools are kept by `tonnage pools`: a change of the rest says nothing about them."""
        annotations = self.metadata.annotations
        return POOLS_SOURCE in annotations and AVAILABLE_CAPACITIES in annotations and not self.available_capacities

    @property
    def figures_version(self) -> str:
        """Differs once its figures are published anew: the resourceVersion, or what kept pools are and as of when."""
        version = self.metadata.resource_version
        if not version or not self.has_kept_pools:
            return version
        annotations = self.metadata.annotations
        return f"{annotations[AVAILABLE_CAPACITIES]} at {annotations.get(POOLS_OBSERVED_AT, '')}"

    @property
    def figures_at(self) -> datetime | None:
        """When its figures were told: the last write, or, if earlier, when the source of kept pools told them."""
        if not self.has_kept_pools:
            return self.metadata.updated_at
        written_at = self.metadata.written_at(POOLS_PROGRAM) or self.metadata.updated_at
        times = (self._annotated_time(POOLS_OBSERVED_AT), written_at)
        return min((each for each in times if each is not None), default=None)

    def is_unchecked_since(self, made_at: datetime | None) -> bool:
        """True if the program that keeps its pools has not looked since a volume was made, or if that is unknown."""
        checked_at = self.checked_at
        return checked_at is not None and (made_at is None or checked_at <= made_at)

    @property
    def checked_at(self) -> datetime | None:
        """When the program that keeps its pools last looked at their source, by the server's clock; None when nobody
        says. It writes when it has looked, so the time of the write counts; of a silent source the last look was
        earlier.
        """
        told_at = self._annotated_time(POOLS_CHECKED_AT) if self.has_kept_pools else None
        written_at = self.metadata.written_at(POOLS_PROGRAM)
        if told_at is None or written_at is None:
            updated_at = self.metadata.updated_at
            return told_at if told_at is None or updated_at is None else min(told_at, updated_at)
        silent_at = self._annotated_time(POOLS_STALE_SINCE)
        return written_at - max(silent_at - told_at, timedelta()) if silent_at is not None else written_at

    @property
    def included_until(self) -> datetime | None:
        """Its figures include every volume whose PersistentVolume was created before this; None when nobody says."""
        return self._annotated_time(INCLUDED_UNTIL)

    def _annotated_time(self, key: str) -> datetime | None:
        try:
            return parse_rfc3339(self.metadata.annotations.get(key, ""))
        except InvalidTime:
            return None


class VolumeAttachmentSource(Record):
    """The volume, by name; empty for the rare inline one."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Record):
    attacher: str
    node_name: str
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeError(Record):
    """Why the last attempt failed; `error_code` is the gRPC code, absent when the attacher did not say."""

    time: Time | None = None
    message: str = ""
    error_code: int | None = None


class VolumeAttachmentStatus(Record):
    attached: bool = False
    attachment_metadata: Mapping[str, str] = {}
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(Object):
    spec: VolumeAttachmentSpec
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


CSI_VOLUME_PREFIX = "kubernetes.io/csi/"
"""Names in `volumesInUse` and `volumesAttached` that begin so are CSI volumes."""


def unique_volume_name(driver: str, handle: str) -> str:
    """A volume as nodes list it, in `volumesInUse` and `volumesAttached`."""
    return f"{CSI_VOLUME_PREFIX}{driver}^{handle}"


def attachment_name(handle: str, driver: str, node: str) -> str:
    """The name of the VolumeAttachment of a volume on a node: the same, whoever computes it."""
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"
