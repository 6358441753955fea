"""What all controllers of one provisioner get: its options (external-provisioner's flags), API, driver, Secrets."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tonnage.client import cache, http, reconciler
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock, KeyedBackoff
from tonnage.csi import conversion, driver_capabilities
from tonnage.csi.client import CsiClient
from tonnage.errors import ApiError, TonnageError
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Secret, SecretReference
from tonnage.objects.storage_v1 import CSINode, StorageClass, VolumeAttachment
from tonnage.provisioner.capacity.controller import CapacityController
from tonnage.provisioner.metrics import ProvisionerMetrics


def lease_name(driver_name: str) -> str:
    """The name of the lease for which a driver's provisioners compete, as upstream's sidecars have it."""
    name = re.sub("[^a-zA-Z0-9-]", "-", driver_name)
    return f"{name}X" if name.endswith("-") else name


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeployment:
    """One provisioner per node, beside its driver. It serves the claims whose selected node is this one.

    For claims of immediate binding the provisioners compete (`immediate_binding`): after a random part of
    `base_delay_s`, later of up to `max_delay_s`.
    """

    node_name: str
    immediate_binding: bool = True
    base_delay_s: float = 20.0
    max_delay_s: float = 60.0


class InvalidClaim(TonnageError):
    """A claim for which no volume can be created as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionerOptions:
    volume_name_prefix: str = "pvc"
    volume_name_uuid_length: int = -1
    """How much of the claim's uid, without dashes, goes into a volume's name; -1 is all of it, with dashes."""
    strict_topology: bool = False
    immediate_topology: bool = True
    extra_create_metadata: bool = False
    default_fstype: str = ""
    controller_publish_readonly: bool = False
    prevent_volume_mode_conversion: bool = True
    worker_threads: int = 100
    cloning_protection_threads: int = 1
    retry_start_s: float = 1.0
    retry_max_s: float = 300.0
    node_may_return_s: float = 60.0
    """How long a claim's node may be gone before another is chosen, if a volume may have been created on it."""
    expands: bool = True
    """Whether it does external-resizer's work, too."""
    topology: bool = True
    """The gate Topology."""
    volume_attributes_class: bool = True
    """The gate VolumeAttributesClass."""
    node_deployment: NodeDeployment | None = None

    def volume_name(self, uid: str) -> str:
        """`pvc-<uid>`; with a length, the uid without dashes and cut. Raises InvalidClaim."""
        if not self.volume_name_prefix:
            raise InvalidClaim("volume name prefix cannot be of length 0")
        if not uid:
            raise InvalidClaim("corrupted PVC object, it is missing UID")
        length = self.volume_name_uuid_length
        return f"{self.volume_name_prefix}-{uid if length == -1 else uid.replace('-', '')[:length]}"


class NoRefresher:
    """Replaces the `CapacityController` in a provisioner that publishes no capacity."""

    def refresh(self, storage_class: str) -> None:
        """Do nothing."""

    def refresh_volume(self, volume: PersistentVolume) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionerCaches:
    claims: cache.Cache[PersistentVolumeClaim]
    volumes: cache.Cache[PersistentVolume]
    classes: cache.Cache[StorageClass]
    nodes: cache.Cache[Node]
    csi_nodes: cache.Cache[CSINode]
    attachments: cache.Cache[VolumeAttachment] | None = None
    """None for a driver without attaching."""
    has_all_nodes: bool = True
    """False: `nodes` and `csi_nodes` hold at most our own node, to spare the server; others are fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionerContext:
    """One driver's provisioner. `own_topology` is where the driver runs, in node-deployment mode."""

    client: http.Client
    driver: CsiClient
    driver_info: driver_capabilities.DriverInfo
    options: ProvisionerOptions
    caches: ProvisionerCaches
    recorder: Recorder
    metrics: ProvisionerMetrics
    refresher: CapacityController | NoRefresher
    """Asks the driver again for its capacity."""
    own_topology: Mapping[str, str] | None = None
    clock: Clock
    rng: random.Random

    @property
    def has_topology(self) -> bool:
        """The driver's volumes are bound to places, and the option `topology` is on."""
        return self.driver_info.plugin.volume_accessibility_constraints and self.options.topology

    def queue(self, name: str, reconcile: reconciler.Reconcile, workers: int = 0) -> reconciler.Reconciler:
        """A work queue with --worker-threads workers, or with `workers`."""
        workers = workers or self.options.worker_threads
        return reconciler.Reconciler(name, reconcile, clock=self.clock, metrics=self.metrics.queues, workers=workers)

    def new_backoff(self) -> KeyedBackoff:
        """A backoff for one controller, from --retry-interval-start and --retry-interval-max."""
        options = self.options
        return KeyedBackoff(clock=self.clock, rng=self.rng, first_s=options.retry_start_s, max_s=options.retry_max_s)


class ProvisionerPart:
    """Base of a provisioner's parts, with its context's fields as attributes."""

    def __init__(self, context: ProvisionerContext) -> None:
        self._client = context.client
        self._driver = context.driver
        self._driver_info = context.driver_info
        self._options = context.options
        self._recorder = context.recorder
        self._metrics = context.metrics
        self._refresher = context.refresher
        self._has_topology = context.has_topology
        self._own_topology = context.own_topology
        self._clock = context.clock
        self._rng = context.rng
        self._claims = context.caches.claims
        self._volumes = context.caches.volumes
        self._classes = context.caches.classes
        self._nodes = context.caches.nodes
        self._csi_nodes = context.caches.csi_nodes

    async def _read_secret(self, reference: SecretReference | None) -> dict[str, str]:
        """A Secret's values for the driver; empty without a reference. Raises SecretUnavailable."""
        if reference is None or not reference.name:
            return {}
        try:
            return conversion.secret_values(await self._client.get(Secret, f"{reference.namespace}/{reference.name}"))
        except (ApiError, conversion.UndecodableSecret) as exc:
            raise SecretUnavailable(reference, exc.message) from exc


class SecretUnavailable(TonnageError):
    def __init__(self, reference: SecretReference, why: str) -> None:
        super().__init__(f"error getting secret {reference.name} in namespace {reference.namespace}: {why}")
