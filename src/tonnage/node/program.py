"""`NodeProgram` runs the kubelets of many nodes in one process on one set of informers. `tonnage node` starts it.

    informers ──► event handlers (PodIndex: by uid, node, claim) ──► the node's Kubelet and its queue
    sockets ──► drivers ──► registration (Node, CSINode)          ticks, attach errors ──► limits ──► CSINode
    pods ─────► worker: mounts, status, expansion                   every 10 s ────────────► Lease

Every pod has a worker, so that a driver that hangs delays no other pods.
After a kill it finds its mounts on disk and everything else in the API.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from typing import Final, Self

from tonnage.client import cache, program, reconciler
from tonnage.clock import within
from tonnage.faults import FaultFile
from tonnage.node import drivers, registration
from tonnage.node.context import NodeContext, NodeFaults, NodeMetrics, NodePart, PodIndex
from tonnage.node.mounts.mounter import Mounter
from tonnage.node.pods.worker import STAGED, PodWorker
from tonnage.node.settings import PROGRAM, NodeSettings
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment
from tonnage.private_files import own_folder, require_own_folder

_WORKERS: Final = 1000
"""More than a node has pods: a driver that hangs delays only its own. A kubelet, too, has a worker for every pod."""
_COMPLETE_S: Final = 5.0
_FIRST_RETRY_S, _MAX_RETRY_S = 0.5, 122.0
"""Upstream's pauses between retries of one volume."""


class Kubelet(NodePart):
    """The agent of one node. Shared parts are passed in; its state is its own."""

    def __init__(self, context: NodeContext) -> None:
        super().__init__(context)
        self.name = name = context.node
        self.drivers = drivers.Drivers(context, self.driver_changed)
        self.registration = registration.Registration(context, self.drivers)
        self.limits = drivers.AttachLimitUpdater(context, self.drivers, self.registration.put)
        self.mounter = Mounter(context, self.drivers)
        self.worker = PodWorker(context, self.mounter, self.limits, enqueue=lambda uid: self.pod_queue.add(uid))
        self.pod_queue = reconciler.Reconciler(
            f"pods of {name}",
            self._reconcile,
            clock=self._clock,
            metrics=self._metrics.queues,
            queue_name="pods",
            workers=_WORKERS,
            first_retry_s=_FIRST_RETRY_S,
            max_retry_s=_MAX_RETRY_S,
        )
        self.registration_queue = reconciler.Reconciler(
            f"node {name}",
            self._register,
            clock=self._clock,
            metrics=self._metrics.queues,
            queue_name="registration",
            workers=1,
            max_retry_s=10.0,
        )
        self.has_polled = asyncio.Event()
        """The drivers' sockets have been polled once."""

    def enqueue_all(self) -> None:
        """Queue the node and everything on it: at the start, and when a driver or a fault came or went."""
        self.registration_queue.add(self.name)
        for pod in self._pods.on_node(self.name):
            self.pod_queue.add(pod.uid)
        for uid in self.mounter.pods():
            self.pod_queue.add(uid)
        for volume in self.mounter.unused():
            self.pod_queue.add(f"{STAGED}{volume}")

    async def run(self) -> None:
        """Run until cancelled. The shared informers must be synced."""
        self.drivers.recover()
        self.mounter.recover()
        self.enqueue_all()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.registration_queue.run(), name=f"node {self.name}")
                tasks.create_task(self._work(), name=f"pods of {self.name}")
                tasks.create_task(self.registration.renew_lease_forever(), name=f"lease of {self.name}")
                tasks.create_task(self._watch_sockets(), name=f"sockets of {self.name}")
        finally:
            await self.limits.stop()
            await self.drivers.close()

    async def wait_complete(self) -> None:
        """Return when the node and, within a few seconds, its drivers are registered. An idle node is complete."""
        await self.has_polled.wait()
        if self._context.is_idle:
            return
        await self.registration.is_registered.wait()
        with suppress(TimeoutError):
            await within(self._clock, _COMPLETE_S, self.registration.is_complete.wait())

    async def _work(self) -> None:
        # Mounts from before a restart need their driver, so the sockets are polled first. Pods are admitted by the
        # Node's capacity, so the Node is registered first.
        await self.has_polled.wait()
        await self.registration.is_registered.wait()
        self.worker.restore()
        await self.pod_queue.run()

    async def _register(self, name: str) -> float | None:
        again_s = await self.registration.reconcile(has_polled=self.has_polled.is_set())
        if again_s is not None:
            await self.worker.report_in_use()  # the Node may have been recreated
        return again_s

    async def _watch_sockets(self) -> None:
        while True:
            if not self._context.is_idle:
                await self.drivers.poll()
            if not self.has_polled.is_set():
                self.has_polled.set()
                self.registration_queue.add(self.name)
            await self._clock.sleep(self._settings.poll_sockets_s)

    def driver_changed(self, name: str) -> None:
        self.limits.sync(name)
        self.enqueue_all()

    async def _reconcile(self, key: str) -> float | None:
        """Do one piece of work. Raises TonnageError."""
        if not key.startswith(STAGED):
            return await self.worker.sync_pod(key)
        if not self._context.is_idle:
            await self.worker.unstage(key.removeprefix(STAGED))
        return None


_BOUND_PODS: Final = "spec.nodeName!="
_POLL_FAULTS_S: Final = 0.25


class NodeProgram(program.Program):
    flush_s = 2.0

    def __init__(
        self,
        runtime: program.Runtime,
        settings: NodeSettings,
        *,
        metrics: NodeMetrics | None = None,
        faults: FaultFile | None = None,
    ) -> None:
        super().__init__(runtime)
        clock = runtime.clock
        self.settings = settings
        self.metrics = metrics or NodeMetrics(runtime.registry)
        self._faults = NodeFaults(faults, clock=clock)
        of = self.informers.of
        self._index = PodIndex(of(Pod, field_selector=_BOUND_PODS), frozenset(settings.names), clock=clock)
        self._volumes = of(PersistentVolume)
        shared = partial(
            NodeContext,
            client=runtime.client,
            leases=runtime.leases or runtime.client,
            settings=settings,
            pods=self._index,
            nodes=cache.MutationCache(of(Node), clock=clock),
            claims=cache.MutationCache(of(PersistentVolumeClaim), clock=clock),
            volumes=self._volumes,
            csi_nodes=of(CSINode),
            csi_drivers=of(CSIDriver),
            attachments=of(VolumeAttachment),
            clock=clock,
            faults=self._faults,
            metrics=self.metrics,
        )
        self.kubelets: dict[str, Kubelet] = {}
        for name in settings.names:
            rng, recorder = random.Random(runtime.rng.getrandbits(64)), self._new_recorder(PROGRAM, name)
            self.kubelets[name] = Kubelet(shared(node=name, recorder=recorder, rng=rng))

    async def __aenter__(self) -> Self:
        """Start the informers. Raises NotOurs if the nodes' folders, and so pods' volumes, belong to somebody else."""
        own_folder(self.settings.root_dir)
        for folder in map(self.settings.folder, self.settings.names):
            folder.mkdir(mode=0o700, exist_ok=True)
            require_own_folder(folder, is_inner=True)
        return await super().__aenter__()

    async def run(self) -> None:
        await self.informers.wait_synced()
        of = self.informers.of
        of(Pod, field_selector=_BOUND_PODS).on_change(self._pod_changed)
        of(Node).on_change(lambda node: self._node_changed(node.name))
        of(CSINode).on_change(lambda csi_node: self._node_changed(csi_node.name))
        of(PersistentVolumeClaim).on_change(lambda claim: self._claim_changed(claim.key))
        self._volumes.on_change(self._volume_changed)
        of(VolumeAttachment).on_change(self._attachment_changed)
        of(CSIDriver).on_change(self._csi_driver_changed)
        async with asyncio.TaskGroup() as tasks:
            for kubelet in self.kubelets.values():
                tasks.create_task(kubelet.run(), name=f"kubelet {kubelet.name}")
            tasks.create_task(self._watch_faults(), name="faults")

    async def wait_ready(self) -> None:
        """Return when every node and its drivers are registered; idle nodes are not waited for."""
        await self.informers.wait_synced()
        for kubelet in self.kubelets.values():
            await kubelet.wait_complete()

    @property
    def is_ready(self) -> bool:
        return self.informers.are_synced and all(
            kubelet.registration.is_registered.is_set() or self._faults.is_idle(kubelet.name)
            for kubelet in self.kubelets.values()
        )

    # -- event handlers ----------------------------------------------------------------------------------------------

    def _pod_changed(self, pod: Pod) -> None:
        kubelet = self.kubelets.get(pod.spec.node_name)
        if kubelet is not None:
            kubelet.pod_queue.add(pod.uid)

    def _node_changed(self, name: str) -> None:
        kubelet = self.kubelets.get(name)
        if kubelet is not None:
            kubelet.registration_queue.add(name)

    def _claim_changed(self, key: Key) -> None:
        for node, uid in self._index.with_claim(key):
            self.kubelets[node].pod_queue.add(uid)

    def _volume_changed(self, volume: PersistentVolume) -> None:
        if volume.spec.claim_ref is not None:
            self._claim_changed(volume.spec.claim_ref.key)

    def _attachment_changed(self, attachment: VolumeAttachment) -> None:
        volume = self._volumes.get(attachment.spec.source.persistent_volume_name)
        if attachment.spec.node_name in self.kubelets and volume is not None:
            self._volume_changed(volume)

    def _csi_driver_changed(self, driver: CSIDriver) -> None:
        for kubelet in self.kubelets.values():
            kubelet.driver_changed(driver.name)

    async def _watch_faults(self) -> None:
        """Faults come by a file: when it changes, every node is reconciled."""
        seen = self._faults.changes
        while True:
            await self._clock.sleep(_POLL_FAULTS_S)
            self._faults.read()
            if self._faults.changes != seen:
                seen = self._faults.changes
                for kubelet in self.kubelets.values():
                    kubelet.registration.wake.set()
                    kubelet.enqueue_all()
