"""Deletes released volumes whose reclaim policy is Delete: the driver's volume, then the PersistentVolume.

    Released, policy Delete ──► not attached ──► DeleteVolume ──► the object is deleted ──► finalizer off

Decisions mirror the library's isProvisionerForVolume, handleProtectionFinalizer and shouldDelete.
"""

from __future__ import annotations

from tonnage import errors, logs
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import CsiError, error_text
from tonnage.objects.core_v1 import PROVISIONED_BY, PersistentVolume, PersistentVolumeClaim, SecretReference
from tonnage.objects.meta import Key, StampedMeta
from tonnage.provisioner.context import ProvisionerContext, ProvisionerPart, SecretUnavailable
from tonnage.provisioner.volumes import claims, create_volume, topology
from tonnage.provisioner.volumes.create_volume import FINALIZER

_log = logs.logger("tonnage.provisioner")


class NotDeleted(errors.TonnageError):
    """A volume that cannot be deleted yet."""


def is_responsible(volume: PersistentVolume, driver: str) -> bool:
    """True if this driver's provisioner created the volume or, without that annotation, the driver is its source."""
    annotations = volume.metadata.annotations
    if PROVISIONED_BY in annotations:
        return driver in (annotations[PROVISIONED_BY], annotations.get(claims.MIGRATED_TO))
    return volume.spec.csi is not None and volume.spec.csi.driver == driver


def finalizers_for(volume: PersistentVolume) -> tuple[str, ...]:
    """The finalizers it should have: with ours while bound with policy Delete, without under Retain and Recycle."""
    present, policy = volume.metadata.finalizers, volume.spec.persistent_volume_reclaim_policy
    if policy in ("Retain", "Recycle"):
        return tuple(each for each in present if each != FINALIZER)
    is_wanted = policy == "Delete" and not volume.metadata.is_terminating and volume.status.phase == "Bound"
    return (*present, FINALIZER) if is_wanted and FINALIZER not in present else present


def is_to_be_deleted(volume: PersistentVolume) -> bool:
    """True if the driver's volume must be deleted now; a terminating volume without our finalizer is done already."""
    if volume.metadata.is_terminating and FINALIZER not in volume.metadata.finalizers:
        return False
    return volume.status.phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete"


class DeletionController(ProvisionerPart):
    """Deletes the volumes of one driver; in node-deployment mode those of its node."""

    def __init__(self, context: ProvisionerContext) -> None:
        super().__init__(context)
        self._attachments = context.caches.attachments
        self._backoff = context.new_backoff()
        self._emptied: dict[Key, str] = {}  # uid by name of volumes of which only the object is left
        self.work = context.queue("deletion", self.reconcile)
        self.work.follow(self._volumes)
        if self._attachments is not None:
            self.work.follow(self._attachments, lambda each: (each.spec.source.persistent_volume_name,))

    async def reconcile(self, key: Key) -> float | None:
        volume = self._volumes.get(key)
        if volume is None or not is_responsible(volume, self._driver_info.name):
            self._backoff.forget(key)
            self._emptied.pop(key, None)
            return None
        wanted = finalizers_for(volume)
        if wanted != volume.metadata.finalizers:
            await self._set_finalizers(volume, wanted)
            return None  # our own write arrives as an event
        if not is_to_be_deleted(volume):
            self._backoff.forget(key)
            return None
        if not topology.is_accessible(volume.spec.node_affinity, self._own_topology):
            return None  # another node's provisioner made it, and deletes it
        attempt_key = (volume.uid, self._attached_to(volume))
        if (left_s := self._backoff.left_s(key, attempt_key)) > 0:
            return left_s
        try:
            await self._delete(volume)
        except (CsiError, NotDeleted) as exc:
            told = error_text(exc)
            _log.warning("Not deleted", volume=volume.name, error=told)
            self._recorder.event(volume, "Warning", "VolumeFailedDelete", "Deleting", told)
            self._metrics.delete.failed(volume.spec.storage_class_name)
            return self._backoff.failed(key, attempt_key)
        self._backoff.forget(key)
        return None

    async def _delete(self, seen: PersistentVolume) -> None:
        """Raises CsiError or NotDeleted; the queue retries the server's errors."""
        if lack := create_volume.missing_capability(self._driver_info):
            raise NotDeleted(lack)
        if seen.spec.csi is None:
            raise NotDeleted("invalid CSI PV")
        # Deletion cannot be undone, and a cache may be old: the policy may have been changed to Retain.
        volume = await self._client.find(PersistentVolume, seen.name)
        if volume is None or volume.uid != seen.uid or not is_to_be_deleted(volume):
            return
        if self._emptied.get(volume.name) != volume.uid:
            await self._empty(volume, seen.spec.csi.volume_handle)
        await self._remove(volume)

    async def _empty(self, volume: PersistentVolume, handle: str) -> None:
        """Have the driver delete its volume. Raises CsiError or NotDeleted."""
        started_at_s = self._clock.monotonic()
        secrets = await self._secrets(volume)
        if node := self._attached_to(volume):
            raise NotDeleted(f"persistentvolume {volume.name} is still attached to node {node}")
        await self._driver.delete_volume(csi.DeleteVolumeRequest(volume_id=handle, secrets=secrets))
        self._emptied[volume.name] = volume.uid
        self._refresher.refresh_volume(volume)
        self._metrics.delete.done(self._clock.monotonic() - started_at_s, volume.spec.storage_class_name)
        _log.info("Deleted", volume=volume.name)

    async def _remove(self, volume: PersistentVolume) -> None:
        """Delete the object, and remove our finalizer last. Raises Conflict if others keep changing it."""
        await self._client.delete(PersistentVolume, volume.name, uid=volume.uid)
        left = await self._client.find(PersistentVolume, volume.name)
        if left is not None and left.uid == volume.uid and FINALIZER in left.metadata.finalizers:
            await self._set_finalizers(left, tuple(each for each in left.metadata.finalizers if each != FINALIZER))

    def _attached_to(self, volume: PersistentVolume) -> str:
        """A node that has or will have it attached; empty without one, or for a driver without attaching."""
        attached = (
            attachment.spec.node_name
            for attachment in self._attachments or ()
            if attachment.spec.source.persistent_volume_name == volume.name
        )
        return next(attached, "")

    async def _secrets(self, volume: PersistentVolume) -> dict[str, str]:
        """Credentials named by the volume's annotations, else by its class. Missing ones do not stop the deletion."""
        annotations = volume.metadata.annotations
        name = annotations.get(create_volume.DELETION_SECRET_NAME)
        namespace = annotations.get(create_volume.DELETION_SECRET_NAMESPACE)
        reference: SecretReference | None = None
        if name is not None and namespace is not None:
            reference = SecretReference(name=name, namespace=namespace) if name and namespace else None
        else:
            storage_class, owner = self._classes.get(volume.spec.storage_class_name), volume.spec.claim_ref
            if storage_class is not None and owner is not None:
                claim = PersistentVolumeClaim(metadata=StampedMeta(name=owner.name, namespace=owner.namespace))
                try:
                    reference = create_volume.secret_reference(
                        create_volume.SecretKind.PROVISIONER, storage_class.parameters, volume.name, claim
                    )
                except create_volume.InvalidParameters as exc:
                    told = f"failed to get secretreference for volume {volume.name}: {exc.message}"
                    raise NotDeleted(told) from exc
        try:
            return await self._read_secret(reference)
        except SecretUnavailable as exc:
            _log.error("Deleting without credentials", volume=volume.name, error=exc.message)
            return {}

    async def _set_finalizers(self, volume: PersistentVolume, finalizers: tuple[str, ...]) -> None:
        metadata = {"resourceVersion": volume.metadata.resource_version, "finalizers": list(finalizers)}
        await self._client.patch(PersistentVolume, volume.name, {"metadata": metadata})
