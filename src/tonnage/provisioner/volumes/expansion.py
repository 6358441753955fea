"""Expanding volumes, external-resizer's work: claims that ask for more get it, step by step (`expansion_steps`)."""

from __future__ import annotations

from tonnage import logs
from tonnage.client.reconciler import Reconciler
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, CsiError, error_text
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.provisioner.context import ProvisionerContext, SecretUnavailable, read_secret
from tonnage.provisioner.volumes import expansion_steps as steps
from tonnage.provisioner.volumes.bound_claims import BoundClaims
from tonnage.provisioner.volumes.requests import InvalidClaim, capability
from tonnage.quantity import Quantity

_log = logs.logger("tonnage.provisioner")


class ExpansionController:
    """Expands the volumes of one driver; in node-deployment mode those of its node."""

    def __init__(self, context: ProvisionerContext) -> None:
        caches = context.caches
        self._client = context.client
        self._driver = context.driver
        self._driver_info = context.driver_info
        self._recorder = context.recorder
        self._refresher = context.refresher
        self._classes = caches.classes
        self._clock = context.clock
        self._bound = BoundClaims(context)
        self.work = Reconciler(
            "expansion",
            self.reconcile,
            clock=context.clock,
            metrics=context.queues,
            workers=context.options.worker_threads,
        )
        self.work.follow(caches.claims)
        self.work.follow(caches.volumes, lambda volume: (volume.spec.claim_ref.key,) if volume.spec.claim_ref else ())

    async def reconcile(self, key: Key) -> float | None:
        """Expand one claim's volume to the size it asks for."""
        found = self._bound.find(key)
        if found is None:
            return None
        claim, volume = found
        if steps.is_node_done(claim, volume):
            metadata = {
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {steps.PRE_RESIZE_CAPACITY: None},
            }
            await self._client.patch(PersistentVolume, volume.name, {"metadata": metadata})
        size = steps.size_to_reach(
            claim,
            volume,
            by_controller=self._driver_info.controller.expand_volume,
            was_refused=self._bound.was_refused(key),
        )
        if size is None or not self._is_allowed(claim):
            self._bound.forget(key)
            return None
        return self._bound.pause_s(key, (volume.uid, size)) or await self._expand(claim, volume, size)

    def _is_allowed(self, claim: PersistentVolumeClaim) -> bool:
        """Its class allows it. The server sees to that where it has the admission for it; what it let begin goes on."""
        storage_class = self._classes.get(claim.class_name)
        if claim.status.allocated_resource_statuses:
            return True
        return storage_class is not None and storage_class.allow_volume_expansion

    async def _expand(self, claim: PersistentVolumeClaim, volume: PersistentVolume, size: Quantity) -> float | None:
        """One attempt; the pause before the next, if there has to be one."""
        claim = await self._bound.write(claim, steps.begun(claim, size, self._clock.now()))
        told = f"External resizer is resizing volume {volume.name}"
        self._recorder.event(claim, "Normal", "Resizing", "Resizing", told)
        try:
            size, by_node = await self._ask(volume, size)
        except (CsiError, SecretUnavailable, InvalidClaim) as exc:
            return await self._failed(claim, volume, size, exc)
        self._bound.succeeded(claim.key)
        before = claim.status.capacity.get("storage")
        volume = await self._client.patch(
            PersistentVolume, volume.name, steps.grown(volume, size, before, by_node=by_node)
        )
        self._refresher.refresh_volume(volume)
        if by_node:
            await self._bound.write(claim, steps.left_to_node(claim, self._clock.now()))
            told = "Require file system resize of volume on node"
            self._recorder.event(claim, "Normal", "FileSystemResizeRequired", "Resizing", told)
        else:
            await self._bound.write(claim, steps.finished(claim, size))
            self._recorder.event(claim, "Normal", "VolumeResizeSuccessful", "Resizing", "Resize volume succeeded")
        _log.info("Expanded", claim=claim.key, volume=volume.name, size=size, by_node=by_node)
        return None

    async def _ask(self, volume: PersistentVolume, size: Quantity) -> tuple[Quantity, bool]:
        """The size it has then, and whether the node has work left.

        Raises CsiError, SecretUnavailable or InvalidClaim.
        """
        source, spec = volume.spec.csi, volume.spec
        if source is None or self._driver_info.expands_on_nodes_only:
            return size, True
        answer = await self._driver.controller_expand(
            csi.ControllerExpandVolumeRequest(
                volume_id=source.volume_handle,
                capacity_range=csi.CapacityRange(required_bytes=size.value()),
                secrets=await read_secret(self._client, source.controller_expand_secret_ref),
                volume_capability=capability(
                    spec.access_modes, spec.volume_mode, source.fs_type, spec.mount_options, self._driver_info
                ),
            )
        )
        has_bytes = answer.capacity_bytes or size.value()
        if has_bytes < size.value():
            told = f"expanded volume capacity {has_bytes} less than requested capacity {size.value()}"
            raise CsiError("/csi.v1.Controller/ControllerExpandVolume", Code.DATA_LOSS, told)
        return Quantity.from_bytes(has_bytes), answer.node_expansion_required

    async def _failed(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, size: Quantity, failure: TonnageError
    ) -> float:
        told = error_text(failure)
        whole = f'resize volume "{volume.name}" by resizer "{self._driver_info.name}" failed: {told}'
        _log.warning("Not expanded", claim=claim.key, volume=volume.name, error=told)
        self._refresher.refresh_volume(volume)
        self._recorder.event(claim, "Warning", "VolumeResizeFailed", "Resizing", whole)
        is_final = isinstance(failure, CsiError) and steps.is_final(failure.code)
        is_infeasible = isinstance(failure, CsiError) and steps.is_infeasible(failure.code)
        # The pause first: our own write wakes us at once.
        pause_s = self._bound.failed(claim.key, (volume.uid, size), failure)
        if is_final:
            await self._bound.write(claim, steps.refused(claim, told, self._clock.now(), infeasible=is_infeasible))
        return pause_s
