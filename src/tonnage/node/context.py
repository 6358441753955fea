"""What the parts of a kubelet share: `NodeFaults` and caches once per process, `NodeContext` once per node.

`NodeMetrics` count KEP-4876's updates under the KEP's names, rejections and CSI calls under the kubelet's.
`csi_node_update_duration_seconds` runs from the tick, or from the failed attach, until the CSINode has the driver's
answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tonnage import errors, logs
from tonnage.client.cache import Cache, Indexer, MutationCache
from tonnage.client.http import Client
from tonnage.client.metrics import WorkQueueMetrics
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock
from tonnage.csi.metrics import kubelet_calls
from tonnage.faults import Fault, FaultFile, InvalidFault, active_fault
from tonnage.node.settings import NodeSettings
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment
from tonnage.scheduling.cluster.pod_info import NATIVE, PODS

Trigger = Literal["periodic", "exhausted"]

_OUT_OF = "OutOf"
_UPDATE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class NodeMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:

        def counter(name: str, told: str, *labels: str) -> Counter:
            return Counter(name, told, labels, registry=registry)

        tried = "Updates of a driver's allocatable in CSINode that were tried, by what triggered them."
        failed = "Updates of a driver's allocatable in CSINode that failed."
        self._updates = counter("csi_node_updates", tried, "driver_name", "trigger")
        self._errors = counter("csi_node_update_errors", failed, "driver_name", "trigger")
        self._duration_s = Histogram(
            "csi_node_update_duration_seconds",
            "From the trigger to a CSINode that is up to date.",
            ("trigger",),
            buckets=_UPDATE_BUCKETS_S,
            registry=registry,
        )
        rejected = "Pods that were rejected after they were bound, by reason."
        self._rejections = counter("kubelet_admission_rejections", rejected, "reason")
        self._mismatched = Gauge(
            "tonnage_attach_limit_mismatch_nodes",
            "Nodes whose CSINode does not have the attach limit that the driver reported last: writing it failed.",
            ("driver_name",),
            registry=registry,
        )
        self._out_of_step: dict[str, set[str]] = {}
        self.queues = WorkQueueMetrics(registry)
        """For `Reconciler(metrics=…)`."""
        self.calls = kubelet_calls(registry)
        """Calls to drivers, under the kubelet's name."""

    def in_step(self, driver: str, node: str, is_so: bool) -> None:
        """Note whether a node's CSINode has its driver's last answer."""
        nodes = self._out_of_step.setdefault(driver, set())
        nodes.discard(node) if is_so else nodes.add(node)
        self._mismatched.labels(driver).set(len(nodes))

    def updated(self, driver: str, trigger: Trigger, seconds: float) -> None:
        self._updates.labels(driver, trigger).inc()
        self._duration_s.labels(trigger).observe(seconds)

    def failed(self, driver: str, trigger: Trigger) -> None:
        self._updates.labels(driver, trigger).inc()
        self._errors.labels(driver, trigger).inc()

    def rejected(self, reason: str) -> None:
        """Count a rejected pod. Extended resources share one label, as upstream, because their names have no limit."""
        is_of_others = reason.startswith(_OUT_OF) and reason.removeprefix(_OUT_OF) not in (*NATIVE, PODS)
        self._rejections.labels(f"{_OUT_OF}ExtendedResources" if is_of_others else reason).inc()


class PodIndex:
    """The pods of our nodes by uid, node and claim: the API's version, or ours where we have just written a newer one.

    Work is keyed by uid: a new pod of the same name may come while the old pod's mounts still exist.
    """

    def __init__(self, pods: Cache[Pod], nodes: frozenset[str], *, clock: Clock) -> None:
        def of_ours(keys: Callable[[Pod], Iterable[str]]) -> Indexer[Pod]:
            return Indexer(pods, lambda pod: keys(pod) if pod.spec.node_name in nodes else ())

        self._written = MutationCache(pods, clock=clock)
        self._of_uid = of_ours(lambda pod: (pod.uid,))
        self._of_node = of_ours(lambda pod: (pod.spec.node_name,))
        self._of_claim = of_ours(Pod.claim_keys)
        self.ips: dict[str, str] = {}
        """The uid of the pod that has an IP address."""
        pods.add_handlers(on_add=self._take_ip, on_update=lambda _, new: self._take_ip(new), on_delete=self._free_ip)

    def pod(self, uid: str) -> Pod | None:
        """The pod of this uid; None if it is gone or was never on one of our nodes."""
        for shown in self._of_uid(uid):
            newest = self._written.get(shown.key)
            return newest if newest is not None and newest.uid == uid else None
        return None

    def note(self, written: Pod) -> Pod:
        """Show the pod that a write of ours returned until the informer has caught up."""
        self._take_ip(written)
        return self._written.store(written)

    def on_node(self, node: str) -> Iterator[Pod]:
        for shown in self._of_node(node):
            newest = self.pod(shown.uid)
            if newest is not None:
                yield newest

    def with_claim(self, claim: Key) -> list[tuple[str, str]]:
        """(node, uid) of every pod that mounts a claim."""
        return [(pod.spec.node_name, pod.uid) for pod in self._of_claim(claim)]

    def _take_ip(self, pod: Pod) -> None:
        if pod.status.pod_ip and not pod.spec.host_network and self._of_uid(pod.uid):
            self.ips[pod.status.pod_ip] = pod.uid

    def _free_ip(self, pod: Pod) -> None:
        if self.ips.get(pod.status.pod_ip) == pod.uid:
            del self.ips[pod.status.pod_ip]


_log = logs.logger(__name__)


class NodeIdle(errors.TonnageError):
    """A fault stops or removes the node: it abandons its current work."""


class NodeFaults:
    def __init__(self, file: FaultFile | None, *, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._faults: tuple[Fault, ...] = ()
        self._complaint = ""
        self.changes = 0
        """How often the set of faults changed; a fault that came and went between two reads counts twice."""

    def read(self) -> tuple[Fault, ...]:
        """Read all faults. A broken file is logged and changes nothing."""
        if self._file is not None:
            try:
                found = self._file.all()
                if found != self._faults:
                    self._faults = found
                    self.changes += 1
                self._complaint = ""
            except (InvalidFault, OSError) as exc:
                if str(exc) != self._complaint:  # it is read at every step; log it once
                    self._complaint = str(exc)
                    _log.warning("The faults cannot be read", error=self._complaint)
        return self._faults

    def _active(self, kind: str, node: str) -> Fault | None:
        return active_fault(self.read(), kind, node)

    def is_removed(self, node: str) -> bool:
        return self._active("node-removed", node) is not None

    def is_idle(self, node: str) -> bool:
        return self.is_removed(node) or self._active("node-stopped", node) is not None

    async def delay_or_stop(self, node: str) -> None:
        """Called before every step of a pod: a slow node waits here. Raises NodeIdle when the node must stop."""
        slow = self._active("node-slow", node)
        if slow is not None and not self.is_idle(node):
            await self._clock.sleep(slow.value)
        if self.is_idle(node):
            raise NodeIdle(f"node {node} does nothing on request")


@dataclass(frozen=True, slots=True)
class VolumeLookup:
    """Look up claims, volumes and drivers; None for a missing one."""

    claim: Callable[[Key], PersistentVolumeClaim | None]
    volume: Callable[[str], PersistentVolume | None]
    driver: Callable[[str], CSIDriver | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """One node: its name, and how its parts reach the API, the clock, events and metrics."""

    node: str
    client: Client
    leases: Client
    """For the node's heartbeat, which must never wait behind other requests."""
    settings: NodeSettings
    pods: PodIndex
    nodes: MutationCache[Node]
    claims: MutationCache[PersistentVolumeClaim]
    volumes: Cache[PersistentVolume]
    csi_nodes: Cache[CSINode]
    csi_drivers: Cache[CSIDriver]
    attachments: Cache[VolumeAttachment]
    recorder: Recorder
    clock: Clock
    rng: random.Random
    faults: NodeFaults
    metrics: NodeMetrics

    @property
    def lookup(self) -> VolumeLookup:
        return VolumeLookup(claim=self.claims.get, volume=self.volumes.get, driver=self.csi_drivers.get)

    @property
    def is_idle(self) -> bool:
        return self.faults.is_idle(self.node)

    async def delay_or_stop(self) -> None:
        await self.faults.delay_or_stop(self.node)


class NodePart:
    """A part of one node's kubelet, with its context's fields as attributes."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._node = context.node
        self._client = context.client
        self._settings = context.settings
        self._recorder = context.recorder
        self._clock = context.clock
        self._rng = context.rng
        self._metrics = context.metrics
        self._nodes = context.nodes
        self._pods = context.pods
        self._claims = context.claims
        self._csi_nodes = context.csi_nodes
        self._csi_drivers = context.csi_drivers
