"""Generic ephemeral volumes: the claim `<pod>-<volume>` is created from the pod's template, and the pod owns it.

A claim of that name with another owner is never used: the pod gets an event and waits.
"""

from __future__ import annotations

from tonnage import logs
from tonnage.behaviour.workloads.templates import claim_for
from tonnage.client.cache import Indexer
from tonnage.controllers.controller_context import (
    ControllerContext,
    DeduplicatingRecorder,
    QueueController,
)
from tonnage.errors import AlreadyExists, TonnageError
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod, Volume
from tonnage.objects.meta import Key

_log = logs.logger("tonnage.ephemeral-claims")


class EphemeralVolumeController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._deduplicated = DeduplicatingRecorder(context.recorder, context.clock)
        self._pods = context.informers.of(Pod)
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._pods_of = Indexer(self._pods, Pod.claim_keys)
        self._queue = self._add_queue("ephemeral-claims", self.reconcile)
        self._pods.add_handlers(on_add=self._pod_added)
        # A claim that is deleted under its pod is created again; when another owner's claim goes, its name is free.
        self._claims.add_handlers(on_delete=self._claim_deleted)

    async def reconcile(self, key: Key) -> None:
        """Create the missing claims of a pod. Raises TonnageError while a claim cannot be had."""
        pod = self._pods.get(key)
        if pod is None or pod.metadata.is_terminating:
            return
        for volume in pod.spec.volumes:
            if volume.ephemeral is None:
                continue
            problem = await self._ensure(pod, volume)
            if problem:
                note = f"ephemeral volume {volume.name}: {problem}"
                self._deduplicated.event(pod, "Warning", "FailedBinding", "Binding", note)
                raise TonnageError(f"pod {key}, {note}")

    async def _ensure(self, pod: Pod, volume: Volume) -> str:
        """Ensure that the claim exists and belongs to the pod. Returns the obstacle, else ""."""
        name = volume.claim_name(pod.name) or ""
        claim = self._claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            try:
                await self._client.create_doc(claim_for(pod, volume))
                _log.info("Claim made", claim=f"{pod.namespace}/{name}", pod=pod.key)
                return ""
            except AlreadyExists:
                claim = await self._client.get(PersistentVolumeClaim, f"{pod.namespace}/{name}")
            except TonnageError as exc:
                return f"create PVC {name}: {exc.message}"
        if claim.is_for_pod(pod):
            return ""
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"

    def _pod_added(self, pod: Pod) -> None:
        if any(volume.ephemeral is not None for volume in pod.spec.volumes):
            self._queue.add(pod.key)

    def _claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        for pod in self._pods_of(claim.key):
            self._pod_added(pod)
