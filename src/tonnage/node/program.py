"""`NodeProgram` runs the kubelets of many nodes in one process on one set of informers. `tonnage node` starts it.

    informers ──► event handlers (PodIndex: by uid, node, claim) ──► the node's Kubelet and its queue

After a kill it finds its mounts on disk and everything else in the API.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, Self

from tonnage.client.program import Program, Runtime
from tonnage.client.written_objects import MutationCache
from tonnage.faults import FaultFile
from tonnage.node.context import NodeCaches, NodeContext, NodeFaults, PodIndex
from tonnage.node.kubelet import Kubelet
from tonnage.node.metrics import NodeMetrics
from tonnage.node.settings import PROGRAM, NodeSettings
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment
from tonnage.private_files import own_folder, require_own_folder

_BOUND_PODS: Final = "spec.nodeName!="
_POLL_FAULTS_S: Final = 0.25


class NodeProgram(Program):
    flush_s = 2.0

    def __init__(
        self,
        runtime: Runtime,
        settings: NodeSettings,
        *,
        metrics: NodeMetrics | None = None,
        faults: FaultFile | None = None,
    ) -> None:
        super().__init__(runtime)
        clock = runtime.clock
        self.settings = settings
        self.metrics = metrics = metrics or NodeMetrics(runtime.registry)
        self._faults = NodeFaults(faults, clock=clock)
        of = self.informers.of
        self._index = PodIndex(of(Pod, field_selector=_BOUND_PODS), frozenset(settings.names), clock=clock)
        self._volumes = of(PersistentVolume)
        caches = NodeCaches(
            pods=self._index,
            nodes=MutationCache(of(Node), clock=clock),
            claims=MutationCache(of(PersistentVolumeClaim), clock=clock),
            volumes=self._volumes,
            csi_nodes=of(CSINode),
            csi_drivers=of(CSIDriver),
            attachments=of(VolumeAttachment),
        )
        self.kubelets = {
            name: Kubelet(
                NodeContext(
                    node=name,
                    client=runtime.client,
                    leases=runtime.leases or runtime.client,
                    settings=settings,
                    caches=caches,
                    recorder=self._new_recorder(PROGRAM, name),
                    clock=clock,
                    rng=random.Random(runtime.rng.getrandbits(64)),
                    faults=self._faults,
                    metrics=metrics,
                )
            )
            for name in settings.names
        }

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
            kubelet.limits.sync(driver.name)
            kubelet.enqueue_all()

    async def _watch_faults(self) -> None:
        """Faults come by a file: when it changes, every node is reconciled."""
        seen = self._faults.changes
        while True:
            await self._clock.sleep(_POLL_FAULTS_S)
            self._faults.read()
            if self._faults.changes != seen:
                seen = self._faults.changes
                for kubelet in self.kubelets.values():
                    kubelet.faults_changed()
