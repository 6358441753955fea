"""The settings of all controllers, what a controller is built from, and QueueController, their common base."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tonnage.behaviour.nodes.node_lifecycle_plan import EvictionRates
from tonnage.client import http, metrics, reconciler
from tonnage.client.informers import Informers, InformerScope
from tonnage.client.recorder import EventType, Recorder
from tonnage.clock import Clock, StampAges
from tonnage.csi.client import CsiClient
from tonnage.errors import ApiError, TonnageError
from tonnage.gates import Gates
from tonnage.objects import core_v1, storage_v1
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object


@dataclass(frozen=True, slots=True)
class ControllerManagerConfiguration:
    """The settings of all controllers, by the names of kube-controller-manager's flags and with its defaults."""

    node_monitor_period_s: float = 5.0
    node_monitor_grace_period_s: float = 50.0
    node_startup_grace_period_s: float = 60.0
    rates: EvictionRates = field(default_factory=EvictionRates)
    terminated_pod_gc_threshold: int = 12500
    pod_gc_quarantine_s: float = 40.0
    """How long a node must be missing before its pods are deleted; upstream has no flag for it."""
    pvclaimbinder_sync_period_s: float = 15.0
    attach_detach_reconcile_sync_period_s: float = 60.0
    """0: attachments are not compared with what the drivers report."""
    force_detach_on_timeout: bool = True
    drivers: tuple[CsiClient, ...] = ()
    """Connections to the CSI drivers whose volumes are attached from here."""
    root_ca_pem: bytes = b""
    """The CA that verifies the API server's certificate; empty when the system's CAs do, or nothing is verified."""
    gates: Gates = field(default_factory=Gates)


class AttacherHere(NamedTuple):
    """The attacher of a CSI driver, when it runs in this program."""

    volume_finalizer: str
    """The finalizer that the attacher keeps on a volume while the volume is attached anywhere."""
    finalizers: Callable[[core_v1.PersistentVolume, str], Awaitable[tuple[tuple[str, ...], Mapping[str, str]]]]
    """Puts the finalizer on the volume. Returns finalizers and annotations for its attachment to the node."""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """All controllers share the client; `recorder` writes events under the controller's own name."""

    client: http.Client
    informers: Informers | InformerScope
    recorder: Recorder
    clock: Clock
    rng: random.Random
    queues: metrics.WorkQueueMetrics | None = None
    """For `Reconciler(metrics=…)`."""
    attachers: dict[str, AttacherHere] = field(default_factory=dict)
    """By driver name: whoever binds a volume or creates an attachment also makes the attacher's first write."""
    configuration: ControllerManagerConfiguration = field(default_factory=ControllerManagerConfiguration)


class QueueController:
    """The base of a controller: its context, its work queues and other loops, and `run`."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._informers = context.informers
        self._recorder = context.recorder
        self._clock = context.clock
        self._rng = context.rng
        self._metrics = context.queues
        self._configuration = context.configuration
        self._ages = StampAges(context.clock, most=1 << 14)
        self._deduplicated = DeduplicatingRecorder(context.recorder, context.clock)
        self._loops: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def _add_queue(
        self,
        name: str,
        reconcile: reconciler.Reconcile,
        *,
        workers: int = 4,
        first_retry_s: float = 0.05,
        max_retry_s: float = 60.0,
    ) -> reconciler.Reconciler:
        queue = reconciler.Reconciler(
            name,
            reconcile,
            clock=self._clock,
            workers=workers,
            first_retry_s=first_retry_s,
            max_retry_s=max_retry_s,
            metrics=self._metrics,
        )
        self._loops.append(queue.run)
        return queue

    async def _patch_object(self, found: Object, patch: Doc | None) -> None:
        """Write a patch, unless it is None. Raises Conflict, NotFound: the queue tries again what the cache shows."""
        if patch is not None:
            await self._client.patch(type(found), found.key, patch)

    async def run(self) -> None:
        """Work until cancelled. Waits for all informers first: in a partial state objects would seem to be missing."""
        await self._informers.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            for loop in self._loops:
                tasks.create_task(loop())
            await asyncio.Event().wait()  # without loops, too, it has not ended


REPEAT_AFTER_S: Final = 60.0
_MAX_KNOWN: Final = 20_000


class DeduplicatingRecorder:
    """Records equal events about an object at most once a minute: a level-based loop meets the same state often."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self.recorded_at_s: dict[tuple[str, str, str], float] = {}  # oldest first

    def event(
        self, about: Object, type: EventType, reason: str, action: str, note: str, related: Object | None = None
    ) -> None:
        """Record an event, unless an equal one was recorded within the last minute. `related` is not compared."""
        key, now_s = (about.uid, reason, note), self._clock.monotonic()
        while self.recorded_at_s:
            oldest, at_s = next(iter(self.recorded_at_s.items()))
            if now_s - at_s < REPEAT_AFTER_S and len(self.recorded_at_s) < _MAX_KNOWN:
                break
            del self.recorded_at_s[oldest]
        if key in self.recorded_at_s:
            return
        self.recorded_at_s[key] = now_s
        self._recorder.event(about, type, reason, action, note, related)


def namespace_of(found: Object) -> tuple[str]:
    return (found.namespace,)


def node_of_pod(pod: core_v1.Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def volume_of_attachment(attachment: storage_v1.VolumeAttachment) -> tuple[str, ...]:
    """The name of the attached volume; empty for an inline volume."""
    name = attachment.spec.source.persistent_volume_name
    return (name,) if name else ()


def node_of_attachment(attachment: storage_v1.VolumeAttachment) -> tuple[str, ...]:
    return (attachment.spec.node_name,)


def is_namespace_terminating(failure: TonnageError) -> bool:
    """True if the namespace is terminating: nothing can be, or has to be, created in it."""
    return isinstance(failure, ApiError) and any(cause.reason == "NamespaceTerminating" for cause in failure.causes)
