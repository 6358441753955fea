"""The attacher of one CSI driver, a csi-attacher sidecar: it has the driver attach and detach VolumeAttachments.

      created ──► finalizers on, node id noted ──► ControllerPublish ────► attached: true
      deleted ───────────────────────────────────► ControllerUnpublish ──► finalizer off: the object goes

Errors go to status.attachError or detachError and are retried after one second to five minutes; at once when an
attachment goes, the limit changes, or a volume of the driver is deleted. The finalizers keep the attachment and the
volume until the detach. A driver that cannot attach is not called: its attachments are marked attached at once.
Words and names are external-attacher's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from tonnage import clock, logs
from tonnage.client.cache import Indexer, MutationCache, add_finalizer, remove_finalizer
from tonnage.client.recorder import truncated
from tonnage.controllers import controller_context
from tonnage.csi import client, conversion, driver_capabilities
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, CsiError, error_text
from tonnage.errors import ApiError, Conflict, Invalid, NotFound, RequestEntityTooLarge, TonnageError
from tonnage.objects.core_v1 import CSIPersistentVolumeSource, PersistentVolume, Secret
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment

NODE_ID_ANNOTATION: Final = "csi.alpha.kubernetes.io/node-id"
"""On a VolumeAttachment: the driver's id of the node, for when the node and its CSINode are gone."""
MESSAGE_BYTES: Final = 1024
"""The longest message of an attachError or detachError that the API accepts."""
_MOST_PAGES: Final = 10_000
_ANNOUNCED_S: Final = 60.0
"""How long to wait for an announced attachment to appear; a request may take half of it."""
_WORKERS: Final = 10
_MAX_RETRY_S: Final = 300.0
_TRIES: Final = 4
"""How often to try to put a finalizer on an object while others write it too."""

_log = logs.logger("tonnage.attacher")


class CannotAttach(TonnageError):
    """The request to the driver cannot be built; the reason goes to the attachment's status."""


def finalizer_name(driver: str) -> str:
    """The attacher's finalizer on attachments and volumes. Characters that finalizers cannot have become dashes."""
    name = re.sub("[^a-zA-Z0-9-]", "-", driver)
    return f"external-attacher/{name}X" if name.endswith("-") else f"external-attacher/{name}"


def publish_request(
    volume: PersistentVolume,
    node_id: str,
    secrets: Mapping[str, str],
    capabilities: driver_capabilities.ControllerCapabilities,
) -> csi.ControllerPublishVolumeRequest:
    """Raises CannotAttach for a volume that is no CSI volume, or for whose access modes CSI has no mode."""
    source, spec = source_of(volume), volume.spec
    is_multi_writer = capabilities.single_node_multi_writer
    try:
        mode = conversion.access_mode(spec.access_modes, single_node_multi_writer=is_multi_writer)
    except conversion.UnsupportedAccessModes as exc:
        raise CannotAttach(exc.message) from exc
    return csi.ControllerPublishVolumeRequest(
        volume_id=source.volume_handle,
        node_id=node_id,
        volume_capability=conversion.volume_capability(
            mode, is_block=spec.volume_mode == "Block", fs_type=source.fs_type, mount_flags=spec.mount_options
        ),
        # A driver that cannot publish read-only must not be asked to.
        readonly=source.read_only and capabilities.publish_readonly,
        volume_context=dict(source.volume_attributes),
        secrets=dict(secrets),
    )


def unpublish_request(
    volume: PersistentVolume, node_id: str, secrets: Mapping[str, str]
) -> csi.ControllerUnpublishVolumeRequest:
    return csi.ControllerUnpublishVolumeRequest(
        volume_id=source_of(volume).volume_handle, node_id=node_id, secrets=dict(secrets)
    )


def source_of(volume: PersistentVolume) -> CSIPersistentVolumeSource:
    if volume.spec.csi is None:
        raise CannotAttach("pv spec contained non-csi source that was not migrated")
    return volume.spec.csi


def node_id(driver: str, node: str, csi_node: CSINode | None, attachment: VolumeAttachment | None = None) -> str:
    """The driver's id of the node, from its CSINode or else from the attachment's annotation. Raises CannotAttach."""
    entry = csi_node.driver(driver) if csi_node is not None else None
    if entry is not None:
        return entry.node_id
    kept = attachment.metadata.annotations.get(NODE_ID_ANNOTATION) if attachment is not None else None
    if kept is not None:
        return kept
    if csi_node is None:
        raise CannotAttach(f'csinode.storage.k8s.io "{node}" not found')
    raise CannotAttach(f"CSINode {node} does not contain driver {driver}")


def volume_error(failure: TonnageError, now: datetime, *, has_codes: bool) -> Doc:
    """A failed attach or detach for the status, its message cut to what the API takes.

    `has_codes` adds the gRPC code, which attach limits read (KEP-4876): 8 is a full node.
    """
    code = failure.number if has_codes and isinstance(failure, CsiError) else None
    return {"time": clock.rfc3339(now), "message": truncated(error_text(failure), MESSAGE_BYTES), "errorCode": code}


async def published_nodes(driver: client.CsiClient) -> dict[str, set[str]]:
    """Where the driver's volumes are: handle -> node ids. Raises CsiError, also for a list that never ends."""
    found: dict[str, set[str]] = {}
    token, tokens = "", {""}
    while len(tokens) <= _MOST_PAGES:
        page = await driver.list_volumes(csi.ListVolumesRequest(starting_token=token))
        for entry in page.entries:
            found[entry.volume.volume_id] = set(entry.status.published_node_ids)
        token = page.next_token
        if not token:
            return found
        if token in tokens:
            break
        tokens.add(token)
    told = f"the list does not end: page {len(tokens)} leads to another, or to one that was read already"
    raise CsiError("/csi.v1.Controller/ListVolumes", Code.DATA_LOSS, told, address=driver.address)


class Attacher(controller_context.QueueController):
    """Attaches and detaches the volumes of one driver until cancelled.

    Every `reconcile_sync_s` the driver is asked where its volumes are, and attachments that differ are redone.
    """

    def __init__(
        self,
        context: controller_context.ControllerContext,
        *,
        driver: client.CsiClient,
        retry_first_s: float = 1.0,
        reconcile_sync_s: float = 60.0,
    ) -> None:
        super().__init__(context)
        self._driver = driver
        self._reconcile_sync_s = reconcile_sync_s
        self._driver_info = driver_capabilities.DriverInfo("")
        self.volume_finalizer = ""
        self._volumes = context.informers.of(PersistentVolume)
        self._csi_nodes = context.informers.of(CSINode)
        self._attachments = context.informers.of(VolumeAttachment)
        self._written = MutationCache(self._attachments, clock=context.clock)
        self._written_volumes = MutationCache(self._volumes, clock=context.clock)
        self._attachers_here = context.attachers
        self._of_volume = Indexer(self._attachments, controller_context.volume_of_attachment)
        self._announced_at_s: dict[tuple[Key, str], float] = {}
        """Attachments about to be created, by volume and node, with the time of the announcement."""
        self._force_sync: set[Key] = set()
        """Attachments to redo whatever their status says, because the driver reports another state."""
        self._queue = self._add_queue(
            "attacher", self.reconcile, workers=_WORKERS, first_retry_s=retry_first_s, max_retry_s=_MAX_RETRY_S
        )
        volume_queue = self._add_queue("attacher-volumes", self.reconcile_volume)
        self._attachments.add_handlers(
            on_add=self._attachment_added,
            on_delete=lambda old: self._retry_refused(self._on_node(old.spec.node_name)),  # a slot may be free
        )
        # Our own writes must not end the backoff.
        self._queue.follow(
            self._attachments, changed_by=lambda each: (each.spec, each.metadata.is_terminating, each.status.attached)
        )
        volume_queue.follow(self._volumes)
        volume_queue.follow(self._attachments, controller_context.volume_of_attachment)
        self._volumes.add_handlers(on_delete=self._volume_deleted)
        self._on_node = Indexer(self._attachments, controller_context.node_of_attachment)
        self._csi_nodes.add_handlers(on_update=self._csi_node_updated)

    async def run(self) -> None:
        await self._informers.wait_synced()
        self._driver_info = await self._wait_for_driver()
        self.volume_finalizer = finalizer_name(self._driver_info.name)
        name, can = self._driver_info.name, self._driver_info.controller
        _log.info("Driver found", driver=name, attaches=can.publish_unpublish_volume)
        if can.publish_unpublish_volume:
            self._attachers_here[name] = controller_context.AttacherHere(self.volume_finalizer, self.finalizers)
        if can.list_volumes_published_nodes and self._reconcile_sync_s > 0:
            self._loops.append(self._resync)
        try:
            await super().run()
        finally:
            self._attachers_here.pop(name, None)

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
        secrets = await self._secrets(source_of(volume))
        node = self._node_id(attachment.spec.node_name)
        asked = publish_request(volume, node, secrets, self._driver_info.controller)
        # All checks have passed: from here on only the driver can release the volume.
        patch = add_finalizer(attachment, self.volume_finalizer, annotations={NODE_ID_ANNOTATION: node})
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
            annotations = {NODE_ID_ANNOTATION: self._node_id(node)}
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
            secrets = await self._secrets(source_of(volume))
            node = self._node_id(attachment.spec.node_name, attachment)
            await self._driver.controller_unpublish(unpublish_request(volume, node, secrets))
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
            await self._patch_object(volume, remove_finalizer(volume, self.volume_finalizer))
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

    async def _wait_for_driver(self) -> driver_capabilities.DriverInfo:
        backoff = clock.Backoff(clock=self._clock, rng=self._rng, first_s=0.2, max_s=5.0)
        while True:
            try:
                name = await driver_capabilities.get_driver_name(self._driver)
                return driver_capabilities.DriverInfo(
                    name, controller=await driver_capabilities.get_controller_capabilities(self._driver)
                )
            except CsiError as exc:
                _log.info("Waiting for the driver", address=self._driver.address, error=exc.message)
                await self._clock.sleep(backoff.next_s())

    def _node_id(self, node: str, attachment: VolumeAttachment | None = None) -> str:
        return node_id(self._driver_info.name, node, self._csi_nodes.get(node), attachment)

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
            return conversion.secret_values(await self._client.get(Secret, key))
        except (NotFound, conversion.UndecodableSecret) as exc:
            raise CannotAttach(f'failed to load secret "{key}": {exc.message}') from exc

    async def _save_error(self, attachment: VolumeAttachment, where: str, failure: TonnageError) -> None:
        has_codes = self._configuration.gates.enabled("MutableCSINodeAllocatableCount")
        said = volume_error(failure, self._clock.now(), has_codes=has_codes)
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
                found = await published_nodes(self._driver)
            except CsiError as exc:
                _log.warning("Volumes could not be listed", error=exc.message)
                continue
            for attachment in self._attachments:
                if self._is_mismatched(attachment, found):
                    node = attachment.spec.node_name
                    _log.warning("The driver sees it otherwise", attachment=attachment.key, node=node)
                    self._force_sync.add(attachment.key)
                    self._queue.add(attachment.key)

    def _is_mismatched(self, attachment: VolumeAttachment, found: Mapping[str, Collection[str]]) -> bool:
        """True if its status differs from what the driver reports."""
        volume = self._volumes.get(attachment.spec.source.persistent_volume_name)
        if attachment.spec.attacher != self._driver_info.name or volume is None or volume.spec.csi is None:
            return False
        try:
            node = self._node_id(attachment.spec.node_name, attachment)
        except CannotAttach:
            return False
        return (node in found.get(volume.spec.csi.volume_handle, ())) != attachment.status.attached

    def _attachment_added(self, attachment: VolumeAttachment) -> None:
        self._announced_at_s.pop((attachment.spec.source.persistent_volume_name, attachment.spec.node_name), None)

    def _csi_node_updated(self, old: CSINode, new: CSINode) -> None:
        """Retry a node's attachments when the driver registers (again) or its limit changes."""
        before, after = old.driver(self._driver_info.name), new.driver(self._driver_info.name)
        if before is None and after is not None:
            for attachment in self._on_node(new.name):
                self._queue.add(attachment.key)
        elif before is not None and after is not None and before.allocatable != after.allocatable:
            self._retry_refused(self._on_node(new.name))  # slots may have been given back

    def _volume_deleted(self, volume: PersistentVolume) -> None:
        if volume.spec.csi is not None and volume.spec.csi.driver == self._driver_info.name:
            self._retry_refused(self._attachments)  # there may be room for a rebuild

    def _retry_refused(self, attachments: Iterable[VolumeAttachment]) -> None:
        """Retry refused attachments at once; if refused again, their backoff continues where it was."""
        for attachment in attachments:
            if attachment.status.attach_error is not None and not attachment.status.attached:
                self._queue.add(attachment.key)
