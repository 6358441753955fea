"""The attacher of one CSI driver, a csi-attacher sidecar: it has the driver attach and detach VolumeAttachments.

      created ──► finalizers on, node id noted ──► ControllerPublish ────► attached: true
      deleted ───────────────────────────────────► ControllerUnpublish ──► finalizer off: the object goes

Errors go to status.attachError or detachError and are retried after one second to five minutes; at once when an
attachment goes, the limit changes, or a volume of the driver is deleted. The finalizers keep the attachment and the
volume until the detach. A driver that cannot attach is not called: its attachments are marked attached at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tonnage import logs
from tonnage.backoff import Backoff
from tonnage.client.cache import Indexer, MutationCache, add_finalizer, remove_finalizer
from tonnage.controllers.controller_context import (
    AttacherHere,
    ControllerContext,
    QueueController,
    node_of_attachment,
    volume_of_attachment,
)
from tonnage.controllers.volumes import attacher_requests
from tonnage.controllers.volumes.attacher_requests import CannotAttach
from tonnage.csi.client import CsiClient
from tonnage.csi.conversion import UndecodableSecret, secret_values
from tonnage.csi.driver_capabilities import DriverInfo, get_controller_capabilities, get_driver_name
from tonnage.csi.errors import CsiError
from tonnage.errors import ApiError, Conflict, Invalid, NotFound, RequestEntityTooLarge, TonnageError
from tonnage.objects.core_v1 import CSIPersistentVolumeSource, PersistentVolume, Secret
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment

_ANNOUNCED_S: Final = 60.0
"""How long to wait for an announced attachment to appear; a request may take half of it."""
_WORKERS: Final = 10
_MAX_RETRY_S: Final = 300.0
_TRIES: Final = 4
"""How often to try to put a finalizer on an object while others write it too."""

_log = logs.logger("tonnage.attacher")


class Attacher(QueueController):
    """Attaches and detaches the volumes of one driver until cancelled.

    Every `reconcile_sync_s` the driver is asked where its volumes are, and attachments that differ are redone.
    """

    def __init__(
        self,
        context: ControllerContext,
        *,
        driver: CsiClient,
        retry_first_s: float = 1.0,
        reconcile_sync_s: float = 60.0,
    ) -> None:
        super().__init__(context)
        self._driver = driver
        self._reconcile_sync_s = reconcile_sync_s
        self._driver_info = DriverInfo("")
        self.volume_finalizer = ""
        self._volumes = context.informers.of(PersistentVolume)
        self._csi_nodes = context.informers.of(CSINode)
        self._attachments = context.informers.of(VolumeAttachment)
        self._written = MutationCache(self._attachments, clock=context.clock)
        self._written_volumes = MutationCache(self._volumes, clock=context.clock)
        self._attachers_here = context.attachers
        self._of_volume = Indexer(self._attachments, volume_of_attachment)
        self._announced_at_s: dict[tuple[Key, str], float] = {}
        """Attachments about to be created, by volume and node, with the time of the announcement."""
        self._force_sync: set[Key] = set()
        """Attachments to redo whatever their status says, because the driver reports another state."""
        self._queue = self._add_queue(
            "attacher", self.reconcile, workers=_WORKERS, first_retry_s=retry_first_s, max_retry_s=_MAX_RETRY_S
        )
        self._volume_queue = self._add_queue("attacher-volumes", self.reconcile_volume)
        self._attachments.add_handlers(on_add=self._attachment_added, on_delete=self._attachment_deleted)
        # Our own writes must not end the backoff.
        self._queue.follow(self._attachments, changed_by=_spec_and_state)
        self._volume_queue.follow(self._volumes)
        self._volumes.add_handlers(on_delete=self._volume_deleted)
        self._on_node = Indexer(self._attachments, node_of_attachment)
        self._csi_nodes.add_handlers(on_update=self._csi_node_updated)

    async def run(self) -> None:
        await self._informers.wait_synced()
        self._driver_info = await self._wait_for_driver()
        self.volume_finalizer = attacher_requests.finalizer_name(self._driver_info.name)
        _log.info(
            "Driver found",
            driver=self._driver_info.name,
            attaches=self._driver_info.controller.publish_unpublish_volume,
        )
        if self._driver_info.controller.publish_unpublish_volume:
            self._attachers_here[self._driver_info.name] = AttacherHere(self.volume_finalizer, self.finalizers)
        if self._driver_info.controller.list_volumes_published_nodes and self._reconcile_sync_s > 0:
            self._loops.append(self._resync)
        try:
            await super().run()
        finally:
            self._attachers_here.pop(self._driver_info.name, None)

    async def reconcile(self, key: Key) -> None:
        """Attach or detach as one attachment asks. Raises CsiError, CannotAttach after writing them to its status."""
        attachment = self._written.get(key)
        if attachment is None or attachment.spec.attacher != self._driver_info.name:
            return
        is_forced = key in self._force_sync
        self._force_sync.discard(key)
        if attachment.metadata.is_terminating:
            if self._driver_info.controller.publish_unpublish_volume and (
                is_forced or self.volume_finalizer in attachment.metadata.finalizers
            ):
                await self._detach(attachment)
        elif is_forced or not attachment.status.attached:
            await self._attach(attachment)

    # -- attach -------------------------------------------------------------------------------------------------------

    async def _attach(self, attachment: VolumeAttachment) -> None:
        context: Mapping[str, str] = {}
        if self._driver_info.controller.publish_unpublish_volume:
            try:
                attachment, context = await self._publish(attachment)
            except (CsiError, CannotAttach) as exc:
                await self._save_error(attachment, "attachError", exc)
                raise
        before = attachment.status.attachment_metadata
        metadata = {**dict.fromkeys(before.keys() - context.keys()), **context}
        status = {"attached": True, "attachmentMetadata": metadata or None, "attachError": None}
        try:
            await self._patch(attachment, {"status": status}, "status")
        except (Invalid, RequestEntityTooLarge) as exc:  # the driver's answer cannot be stored
            await self._save_error(attachment, "attachError", exc)
            raise
        _log.info("Attached", attachment=attachment.key, node=attachment.spec.node_name)

    async def _publish(self, attachment: VolumeAttachment) -> tuple[VolumeAttachment, Mapping[str, str]]:
        """Attach by the driver, after both finalizers are on. Returns the attachment and the publish context."""
        volume = self._volume_of(attachment)
        if volume.metadata.is_terminating:
            raise CannotAttach(f'PersistentVolume "{volume.name}" is marked for deletion')
        volume = await self._add_volume_finalizer(volume)
        secrets = await self._secrets(attacher_requests.source_of(volume))
        node_name = attachment.spec.node_name
        node = attacher_requests.node_id(self._driver_info.name, node_name, self._csi_nodes.get(node_name))
        asked = attacher_requests.publish_request(volume, node, secrets, self._driver_info.controller)
        # All checks have passed: from here on only the driver can release the volume.
        patch = add_finalizer(
            attachment, self.volume_finalizer, annotations={attacher_requests.NODE_ID_ANNOTATION: node}
        )
        if patch is not None:
            attachment = await self._patch(attachment, patch)
        answer = await self._driver.controller_publish(asked)
        return attachment, dict(answer.publish_context)

    async def finalizers(self, volume: PersistentVolume, node: str) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Finalizers and annotations for an attachment about to be created; empty when we would refuse it.

        The volume gets its finalizer first, and keeps it until the attachment is seen: an attachment with our finalizer
        and no volume could never be detached.
        """
        self._announced_at_s[volume.name, node] = self._clock.monotonic()
        try:
            if volume.metadata.is_terminating:
                raise CannotAttach(f'PersistentVolume "{volume.name}" is marked for deletion')
            annotations = {
                attacher_requests.NODE_ID_ANNOTATION: attacher_requests.node_id(
                    self._driver_info.name, node, self._csi_nodes.get(node)
                )
            }
            await self._add_volume_finalizer(self._written_volumes.get(volume.name) or volume)
        except (CannotAttach, ApiError) as exc:
            self._announced_at_s.pop((volume.name, node), None)
            _log.debug("Left to be refused", volume=volume.name, node=node, error=exc.message)
            return (), {}
        return (self.volume_finalizer,), annotations

    async def _add_volume_finalizer(self, volume: PersistentVolume) -> PersistentVolume:
        """Put the finalizer on a volume, retrying while binder and driver write it too."""
        for _ in range(_TRIES):
            patch = add_finalizer(volume, self.volume_finalizer)
            if patch is None:
                return volume
            try:
                return self._written_volumes.store(await self._client.patch(PersistentVolume, volume.key, patch))
            except Conflict:
                volume = await self._client.get(PersistentVolume, volume.key)
        raise CannotAttach(f'could not add PersistentVolume finalizer: "{volume.name}" is being changed by others')

    # -- detach -------------------------------------------------------------------------------------------------------

    async def _detach(self, attachment: VolumeAttachment) -> None:
        try:
            volume = self._volume_of(attachment)
            secrets = await self._secrets(attacher_requests.source_of(volume))
            node_name = attachment.spec.node_name
            node = attacher_requests.node_id(
                self._driver_info.name, node_name, self._csi_nodes.get(node_name), attachment
            )
            await self._driver.controller_unpublish(attacher_requests.unpublish_request(volume, node, secrets))
        except (CsiError, CannotAttach) as exc:
            await self._save_error(attachment, "detachError", exc)
            raise
        # The finalizer goes first: without it a deleted attachment counts as detached, whatever its status says. In the
        # other order, a crash between the two writes would call the driver again.
        patch = remove_finalizer(attachment, self.volume_finalizer)
        try:
            if patch is not None:
                attachment = await self._patch(attachment, patch)
            status = {"attached": False, "detachError": None, "attachmentMetadata": None}
            await self._patch(attachment, {"status": status}, "status")
        except NotFound:
            pass  # it went with its last finalizer
        _log.info("Detached", attachment=attachment.key, node=attachment.spec.node_name)

    # -- volumes ------------------------------------------------------------------------------------------------------

    async def reconcile_volume(self, key: Key) -> float | None:
        """Remove our finalizer from a volume that is being deleted, once it has no attachments."""
        volume = self._volumes.get(key)
        if volume is not None and volume.metadata.is_terminating and not self._of_volume(key):
            if (left_s := self._announced_for_s(key)) > 0:
                return left_s
            patch = remove_finalizer(volume, self.volume_finalizer)
            if patch is not None:
                await self._client.patch(PersistentVolume, key, patch)
        return None

    def _announced_for_s(self, volume: Key) -> float:
        """Seconds to wait for an announced attachment of the volume; 0.0 when none is announced."""
        now_s = self._clock.monotonic()
        for announced, since_s in tuple(self._announced_at_s.items()):
            if now_s - since_s >= _ANNOUNCED_S:
                del self._announced_at_s[announced]
        since = [since_s for (name, _), since_s in self._announced_at_s.items() if name == volume]
        return max(since) + _ANNOUNCED_S - now_s if since else 0.0

    # -- driver, secrets, status --------------------------------------------------------------------------------------

    async def _wait_for_driver(self) -> DriverInfo:
        backoff = Backoff(clock=self._clock, rng=self._rng, first_s=0.2, max_s=5.0)
        while True:
            try:
                name = await get_driver_name(self._driver)
                return DriverInfo(name, controller=await get_controller_capabilities(self._driver))
            except CsiError as exc:
                _log.info("Waiting for the driver", address=self._driver.address, error=exc.message)
                await self._clock.sleep(backoff.next_s())

    def _volume_of(self, attachment: VolumeAttachment) -> PersistentVolume:
        name = attachment.spec.source.persistent_volume_name
        if not name:
            raise CannotAttach("neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source")
        volume = self._written_volumes.get(name)
        if volume is None:
            raise CannotAttach(f'persistentvolume "{name}" not found')
        return volume

    async def _secrets(self, source: CSIPersistentVolumeSource) -> Mapping[str, str]:
        reference = source.controller_publish_secret_ref
        if reference is None:
            return {}
        key = f"{reference.namespace}/{reference.name}"
        try:
            return secret_values(await self._client.get(Secret, key))
        except (NotFound, UndecodableSecret) as exc:
            raise CannotAttach(f'failed to load secret "{key}": {exc.message}') from exc

    async def _save_error(self, attachment: VolumeAttachment, where: str, failure: TonnageError) -> None:
        has_codes = self._configuration.gates.enabled("MutableCSINodeAllocatableCount")
        said = attacher_requests.volume_error(failure, self._clock.now(), has_codes=has_codes)
        try:
            await self._patch(attachment, {"status": {where: said}}, "status")
        except TonnageError as exc:
            _log.warning("An error could not be saved", attachment=attachment.key, error=exc.message)

    async def _patch(self, attachment: VolumeAttachment, patch: Doc, subresource: str = "") -> VolumeAttachment:
        # An attachment recreated under the same name is another one.
        patch = {**patch, "metadata": {"uid": attachment.uid, **patch.get("metadata", {})}}
        done = await self._client.patch(VolumeAttachment, attachment.key, patch, subresource=subresource)
        return self._written.store(done)

    async def _resync(self) -> None:
        """Periodically redo attachments whose status differs from what the driver reports."""
        while True:
            await self._clock.sleep(self._reconcile_sync_s)
            try:
                found = await attacher_requests.published_nodes(self._driver)
            except CsiError as exc:
                _log.warning("Volumes could not be listed", error=exc.message)
                continue
            for attachment in attacher_requests.mismatched_attachments(
                self._driver_info.name, self._attachments, self._volumes, self._csi_nodes, found
            ):
                _log.warning("The driver sees it otherwise", attachment=attachment.key, node=attachment.spec.node_name)
                self._force_sync.add(attachment.key)
                self._queue.add(attachment.key)

    def _attachment_added(self, attachment: VolumeAttachment) -> None:
        for volume in volume_of_attachment(attachment):
            self._announced_at_s.pop((volume, attachment.spec.node_name), None)

    def _csi_node_updated(self, old: CSINode, new: CSINode) -> None:
        """Retry a node's attachments when the driver registers (again) or its limit changes."""
        before, after = old.driver(self._driver_info.name), new.driver(self._driver_info.name)
        if before is None and after is not None:
            for attachment in self._on_node(new.name):
                self._queue.add(attachment.key)
        elif before is not None and after is not None and before.allocatable != after.allocatable:
            self._retry_refused(self._on_node(new.name))  # slots may have been given back

    def _attachment_deleted(self, attachment: VolumeAttachment) -> None:
        for volume in volume_of_attachment(attachment):
            self._volume_queue.add(volume)
        self._retry_refused(self._on_node(attachment.spec.node_name))  # a slot may be free

    def _volume_deleted(self, volume: PersistentVolume) -> None:
        if volume.spec.csi is not None and volume.spec.csi.driver == self._driver_info.name:
            self._retry_refused(self._attachments)  # there may be room for a rebuild

    def _retry_refused(self, attachments: Iterable[VolumeAttachment]) -> None:
        """Retry refused attachments at once; if refused again, their backoff continues where it was."""
        for attachment in attachments:
            if attachment.status.attach_error is not None and not attachment.status.attached:
                self._queue.add(attachment.key)


def _spec_and_state(attachment: VolumeAttachment) -> tuple[object, ...]:
    return attachment.spec, attachment.metadata.is_terminating, attachment.status.attached
