"""Claims and what they keep alive: generic ephemeral volumes, and finalizers on storage in use.

A generic ephemeral volume's claim `<pod>-<volume>` is created from the pod's template, and the pod owns it. A claim of
that name with another owner is never used: the pod gets an event and waits.

    kubernetes.io/pvc-protection   a claim that is being deleted stays while a pod that has a node mounts it
    kubernetes.io/pv-protection    a volume that is being deleted stays while it is Bound
    kubernetes.io/vac-protection   a VolumeAttributesClass that is being deleted stays while a claim or volume uses it

Removal cannot be undone, so the pods of a claim's namespace are listed after the claim's deletion was seen. A pod that
gets its node later asks the server for the claim before it mounts, and is refused (`node.mounts.pod_volumes`).
"""

from __future__ import annotations

from tonnage import errors, logs
from tonnage.behaviour.workloads.templates import claim_for
from tonnage.client import reconciler
from tonnage.client.cache import Indexer, add_finalizer, remove_finalizer
from tonnage.controllers.controller_context import ControllerContext, QueueController
from tonnage.objects.core_v1 import PV_PROTECTION, PVC_PROTECTION, PersistentVolume, PersistentVolumeClaim, Pod, Volume
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import VolumeAttributesClass

_log = logs.logger("tonnage.ephemeral-claims")
_protection_log = logs.logger("tonnage.protection")


class EphemeralVolumeController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
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
                raise errors.TonnageError(f"pod {key}, {note}")

    async def _ensure(self, pod: Pod, volume: Volume) -> str:
        """Ensure that the claim exists and belongs to the pod. Returns the obstacle, else ""."""
        name = volume.claim_name(pod.name) or ""
        claim = self._claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            try:
                await self._client.create_doc(claim_for(pod, volume))
                _log.info("Claim made", claim=f"{pod.namespace}/{name}", pod=pod.key)
                return ""
            except errors.AlreadyExists:
                claim = await self._client.get(PersistentVolumeClaim, f"{pod.namespace}/{name}")
            except errors.TonnageError as exc:
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


class ProtectionController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._volumes = context.informers.of(PersistentVolume)
        pods = context.informers.of(Pod)
        self._pods = Indexer(pods, Pod.claim_keys)
        claim_queue = self._add_queue("claim-protection", self.reconcile_claim)
        claim_queue.follow(self._claims)
        claim_queue.follow(pods, self._terminating_claims)
        self._add_queue("volume-protection", self.reconcile_volume).follow(self._volumes)

    # -- claims -------------------------------------------------------------------------------------------------------

    async def reconcile_claim(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        if not claim.metadata.is_terminating:
            if claim.is_bound:
                await self._patch_object(claim, add_finalizer(claim, PVC_PROTECTION))
        elif PVC_PROTECTION in claim.metadata.finalizers and not any(pod_uses_claim(p, claim) for p in self._pods(key)):
            listed = await self._client.list(Pod, namespace=claim.namespace)
            # Else the informer will show that pod, and its deletion.
            if not any(pod_uses_claim(pod, claim) for pod in listed.items):
                await self._patch_object(claim, remove_finalizer(claim, PVC_PROTECTION))
                _protection_log.debug("Claim is not in use", claim=claim.key)

    def _terminating_claims(self, pod: Pod) -> list[Key]:
        """The terminating claims of a pod that ended or is gone: they may be unused now."""
        claims = (self._claims.get(key) for key in pod.claim_keys())
        return [claim.key for claim in claims if claim is not None and claim.metadata.is_terminating]

    # -- volumes ------------------------------------------------------------------------------------------------------

    async def reconcile_volume(self, key: Key) -> None:
        volume = self._volumes.get(key)
        if volume is None:
            return
        is_bound = volume.status.phase == "Bound"
        if volume.metadata.is_terminating and not is_bound:
            await self._patch_object(volume, remove_finalizer(volume, PV_PROTECTION))
        elif is_bound and not volume.metadata.is_terminating:
            await self._patch_object(volume, add_finalizer(volume, PV_PROTECTION))


def pod_uses_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """True if the pod keeps the claim from being deleted. Mirrors podUsesPVCForDeletion.

    An ephemeral claim counts only for its own pod, until the node has shut that pod down: else the two would wait for
    each other.
    """
    if not pod.spec.node_name or pod.namespace != claim.namespace:
        return False
    for volume in pod.spec.volumes:
        if volume.claim_name(pod.name) != claim.name:
            continue
        # Shut down by its node, or deleted by force: only the object is left.
        is_shut_down = pod.metadata.is_terminating and pod.metadata.deletion_grace_period_seconds == 0
        if volume.ephemeral is None or (not is_shut_down and claim.is_for_pod(pod)):
            return True
    return False


VAC_PROTECTION = "kubernetes.io/vac-protection"


class AttributesClassProtection(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._classes = context.informers.of(VolumeAttributesClass)
        claims, volumes = context.informers.of(PersistentVolumeClaim), context.informers.of(PersistentVolume)
        self._claims, self._volumes = Indexer(claims, classes_of_claim), Indexer(volumes, classes_of_volume)
        work = reconciler.Reconciler("attributes-class-protection", self.reconcile, clock=context.clock)  # not counted
        self._loops.append(work.run)
        work.follow(self._classes)
        work.follow(claims, classes_of_claim, changed_by=classes_of_claim)
        work.follow(volumes, classes_of_volume, changed_by=classes_of_volume)

    async def reconcile(self, key: Key) -> None:
        """Add the finalizer, or remove it from a terminating class that nothing uses."""
        attributes_class = self._classes.get(key)
        if attributes_class is None:
            return
        if not attributes_class.metadata.is_terminating:
            await self._patch_object(attributes_class, add_finalizer(attributes_class, VAC_PROTECTION))
        elif not self._claims(attributes_class.name) and not self._volumes(attributes_class.name):
            await self._patch_object(attributes_class, remove_finalizer(attributes_class, VAC_PROTECTION))


def classes_of_claim(claim: PersistentVolumeClaim) -> set[str]:
    target = claim.status.modify_volume_status
    named = {
        claim.spec.volume_attributes_class_name or "",
        claim.status.current_volume_attributes_class_name,
        "" if target is None else target.target_volume_attributes_class_name,
    }
    return named - {""}


def classes_of_volume(volume: PersistentVolume) -> set[str]:
    return {volume.spec.volume_attributes_class_name} - {""}
