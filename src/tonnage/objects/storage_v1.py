"""storage.k8s.io/v1: classes of volumes, abilities of drivers, storage capacity, and attachments.

The fields of the enhancements (KEP-5925, KEP-4876, KEP-5030) stand beside upstream's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from tonnage.clock import InvalidTime, parse_rfc3339
from tonnage.objects.meta import Object, Record, StampedMeta, Time
from tonnage.objects.requirements import TopologySelectorTerm
from tonnage.objects.selectors import LabelSelector
from tonnage.quantity import Quantity

AVAILABLE_CAPACITIES = "tonnage.dev/available-capacities"
"""Annotation of a CSIStorageCapacity, "100Gi,100Gi": its pools, if the server drops `availableCapacities`."""
POOLS_SOURCE = "tonnage.dev/pools-source"
"""Annotation of a capacity object: `tonnage pools` keeps its pools, from this source; `capacity` has another writer."""
POOLS_PROGRAM = "tonnage-pools"
POOLS_OBSERVED_AT = "tonnage.dev/pools-observed-at"
"""Annotation with kept pools: when their source reported them, by the server's clock."""
POOLS_STALE_SINCE = "tonnage.dev/pools-stale-since"
"""Annotation with kept pools: the source has been silent since then, and the pools are going to be removed."""
POOLS_CHECKED_AT = "tonnage.dev/pools-checked-at"
"""Annotation with kept pools: when `tonnage pools` last checked. Volumes created later may be missing in them."""
INCLUDED_CLAIMS = "tonnage.dev/included-claims"
"""Annotation of a capacity object: uids of claims whose recently created volumes its figures include."""
INCLUDED_UNTIL = "tonnage.dev/included-until"
"""Annotation for too many such claims: the figures include every volume created before this time."""
CAPACITY_GROUP = "tonnage.dev/capacity-group"
"""Annotation of a StorageClass: classes of one driver with the same value share their pools."""
CHECK_CAPACITY = "tonnage.dev/check-capacity"
"""Annotation of a StorageClass, "true": its capacity objects count although its CSIDriver says storageCapacity: false,
or does not exist. `tonnage pools --create-objects` sets it."""
VOLUME_COPIES = "tonnage.dev/volume-copies"
"""Annotation of a StorageClass, "3": one of its volumes takes its size on so many nodes. `tonnage pools` sets it."""
POOL_POLICY = "tonnage.dev/pool-policy"
"""Annotation of a CSIDriver, or of a StorageClass, which wins: which pool the driver chooses for a volume."""
POOL_POLICIES = ("most-free", "best-fit", "first-fit", "random", "unknown")
"""Values of `POOL_POLICY`. A scheduler treats the last two alike: any pool with room."""
SIZE_RULES = "tonnage.dev/size-rules"
"""Annotation of a StorageClass, "step=1Mi,step=1Gi,above=1Gi": the sizes that its driver makes (`size_rules.py`)."""
FREE_VOLUMES = "tonnage.dev/free-volumes"
"""Annotation of a capacity object, "12": how many volumes can still be made from it, whatever their sizes."""
POOL_IDS = "tonnage.dev/pool-ids"
"""Annotation of a capacity object, "vg1,vg2": an id for each of its pools, in their order. Pools of one id, driver and
topology are one pool."""
KEPT_POOLS = (POOL_IDS, FREE_VOLUMES, POOLS_SOURCE, POOLS_OBSERVED_AT, POOLS_CHECKED_AT, POOLS_STALE_SINCE)
"""Annotations of `tonnage pools` beside `AVAILABLE_CAPACITIES`, on an object whose pools it keeps."""
CAPACITY_DRIVER, CAPACITY_MANAGER = "csi.storage.k8s.io/drivername", "csi.storage.k8s.io/managed-by"
"""Labels of a capacity object: its driver, and the program that keeps it."""


class StorageClass(Object):
    """A recipe for volumes. Without `allowed_topologies` they may be created anywhere."""

    provisioner: str
    parameters: Mapping[str, str] = {}
    reclaim_policy: str = "Delete"
    mount_options: tuple[str, ...] = ()
    allow_volume_expansion: bool = False
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()

    @property
    def waits_for_consumer(self) -> bool:
        """True if volumes are chosen when a pod is placed, not before."""
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def capacity_group(self) -> str:
        """The name of the group of classes that share its pools; empty for none."""
        return self.metadata.annotations.get(CAPACITY_GROUP, "").strip()

    @property
    def pool_policy(self) -> str:
        """The annotation's text, whatever it is; empty without one."""
        return self.metadata.annotations.get(POOL_POLICY, "").strip()

    @property
    def volume_copies(self) -> int:
        """On how many nodes one of its volumes takes its size; 1 if nobody says otherwise."""
        text = self.metadata.annotations.get(VOLUME_COPIES, "").strip()
        return max(int(text), 1) if text.isdecimal() and len(text) < 4 else 1

    @property
    def opts_into_capacity(self) -> bool:
        """True if its capacity objects count whatever its CSIDriver says."""
        return self.metadata.annotations.get(CHECK_CAPACITY, "").strip() == "true"

    def checks_capacity(self, driver: CSIDriver | None) -> bool:
        """True if a new volume needs a capacity object with room: its CSIDriver says so, or the class opts in."""
        return self.opts_into_capacity or (driver is not None and driver.spec.storage_capacity)


class VolumeAttributesClass(Object):
    """Attributes of volumes that may change while they exist, such as their speed; the driver defines them."""

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
        """The annotation's text, whatever it is; empty without one. A class's policy wins over it."""
        return self.metadata.annotations.get(POOL_POLICY, "").strip()


class VolumeNodeResources(Record):
    """`count` absent is no limit; 0 is a limit."""

    count: int | None = None


class CSINodeDriver(Record):
    """One driver on one node: the driver's name for the node, its topology, and its attach limit."""

    name: str
    node_id: str = msgspec.field(name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources = VolumeNodeResources()


class CSINodeSpec(Record):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object):
    """The drivers of one node, as they registered; it has the node's name."""

    spec: CSINodeSpec = CSINodeSpec()

    def driver(self, name: str) -> CSINodeDriver | None:
        return next((driver for driver in self.spec.drivers if driver.name == name), None)


class CSIStorageCapacity(Object):
    """Capacity for one class on the nodes that `node_topology` selects (absent: none, empty: all).

    Absent `capacity` and `maximum_volume_size` are unknown, not zero; empty `available_capacities`: no reported pools.
    """

    metadata: StampedMeta = StampedMeta()
    storage_class_name: str
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
    available_capacities: tuple[Quantity, ...] = ()

    @property
    def has_kept_pools(self) -> bool:
        """True if `tonnage pools` keeps its pools: changes of other fields say nothing about them."""
        annotations = self.metadata.annotations
        return POOLS_SOURCE in annotations and AVAILABLE_CAPACITIES in annotations and not self.available_capacities

    @property
    def figures_version(self) -> str:
        """Changes with every new publication of its figures: the resourceVersion, or kept pools and their time."""
        version = self.metadata.resource_version
        if not version or not self.has_kept_pools:
            return version
        annotations = self.metadata.annotations
        return f"{annotations[AVAILABLE_CAPACITIES]} at {annotations.get(POOLS_OBSERVED_AT, '')}"

    @property
    def figures_at(self) -> datetime | None:
        """The time of its figures: the last write, or, if earlier, the report of kept pools by their source."""
        if not self.has_kept_pools:
            return self.metadata.updated_at
        written_at = self.metadata.written_at(POOLS_PROGRAM) or self.metadata.updated_at
        times = (self._annotated_time(POOLS_OBSERVED_AT), written_at)
        return min((each for each in times if each is not None), default=None)

    def is_unchecked_since(self, made_at: datetime | None) -> bool:
        """True if `tonnage pools` has not checked its pools since a volume was created, or if that is unknown."""
        checked_at = self.checked_at
        return checked_at is not None and (made_at is None or checked_at <= made_at)

    @property
    def checked_at(self) -> datetime | None:
        """When `tonnage pools` last checked the source, by the server's clock; None if unknown.

        It writes after a check, so the time of the write counts; for a silent source the last check was earlier.
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
        """Its figures include every volume whose PersistentVolume was created before this time; None if unknown."""
        return self._annotated_time(INCLUDED_UNTIL)

    def _annotated_time(self, key: str) -> datetime | None:
        try:
            return parse_rfc3339(self.metadata.annotations.get(key, ""))
        except InvalidTime:
            return None


class VolumeAttachmentSource(Record):
    """The volume, by name; empty for a rare inline volume."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Record):
    attacher: str
    node_name: str
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeError(Record):
    """Why the last attempt failed; `error_code` is the gRPC code, absent if the attacher did not report it."""

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
"""The prefix of CSI volumes in `volumesInUse` and `volumesAttached`."""


def unique_volume_name(driver: str, handle: str) -> str:
    """A volume's name in a node's `volumesInUse` and `volumesAttached`."""
    return f"{CSI_VOLUME_PREFIX}{driver}^{handle}"


def attachment_name(handle: str, driver: str, node: str) -> str:
    """The name of the VolumeAttachment of a volume on a node, the same for every program that computes it."""
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"
