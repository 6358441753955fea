"""What the parts of a kubelet are given: `NodeCaches`, one a process, and `NodeContext`, one a node."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.recorder import Recorder
from tonnage.client.written_objects import MutationCache
from tonnage.clock import Clock
from tonnage.node.injected_faults import NodeFaults
from tonnage.node.metrics import NodeMetrics
from tonnage.node.pod_index import PodIndex
from tonnage.node.settings import NodeSettings
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment


@dataclass(frozen=True, slots=True)
class VolumeLookup:
    """Where claims, volumes and drivers are looked up; each answers None for what is not there."""

    claim: Callable[[Key], PersistentVolumeClaim | None]
    volume: Callable[[str], PersistentVolume | None]
    driver: Callable[[str], CSIDriver | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCaches:
    """The API as the nodes of one process know it."""

    pods: PodIndex
    nodes: MutationCache[Node]
    claims: MutationCache[PersistentVolumeClaim]
    volumes: Cache[PersistentVolume]
    csi_nodes: Cache[CSINode]
    csi_drivers: Cache[CSIDriver]
    attachments: Cache[VolumeAttachment]

    @property
    def lookup(self) -> VolumeLookup:
        return VolumeLookup(claim=self.claims.get, volume=self.volumes.get, driver=self.csi_drivers.get)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """One node: its name, and how its parts reach the API, the time, people (events) and metrics."""

    node: str
    client: Client
    leases: Client
    """For the node's heartbeat, which must not wait behind anything."""
    settings: NodeSettings
    caches: NodeCaches
    recorder: Recorder
    clock: Clock
    rng: random.Random
    faults: NodeFaults
    metrics: NodeMetrics

    @property
    def is_idle(self) -> bool:
        """It is to do nothing: stopped or removed on request."""
        return self.faults.is_idle(self.node)

    async def delay_or_stop(self) -> None:
        """Called before each step of a pod: a slow node waits here. Raises NodeIdle when it is to do nothing more."""
        await self.faults.delay_or_stop(self.node)
