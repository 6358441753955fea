"""The attach/detach controller: it keeps a VolumeAttachment for every volume that a pod needs on its node.

      pods, claims, volumes, nodes, drivers ──► desired state ─┐
      VolumeAttachments ──────────────────────► actual state ──┴─► plan (attach_detach_plan) ─► create, delete

The queue's keys are volumes. The names of attachments are computed, so a second run finds the first run's work; the
driver's attacher does the attaching. Unlike upstream, nodes need no annotation, and a node whose driver has not
registered gets no VolumeAttachment: the pod gets the event of upstream's attacher.

`node.status.volumesAttached` lists the volumes that a node may mount. A detach is a handshake: the volume is removed
from this list, the node's `volumesInUse` is read from the answer, then the volume is detached. A node reads the list,
and lists the volume as in use, before it mounts: so one of the two always sees the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from tonnage import clock, errors, logs
from tonnage.behaviour.volumes import attach_detach_plan
from tonnage.client import cache, recorder
from tonnage.controllers import controller_context
from tonnage.controllers.controller_context import ControllerContext, QueueController, volume_of_attachment
from tonnage.keyed import Shelf
from tonnage.objects import storage_v1
from tonnage.objects.core_v1 import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, ObjectMeta
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment, attachment_name, unique_volume_name

_TOGETHER_S: Final = 0.5
"""A node's attachments within this time are written together. Upstream's reconciler writes ten times a second."""


def is_pod_terminated(pod: Pod) -> bool:
    """True if the pod no longer needs its volumes: it has ended, or is being deleted and no container runs."""
    if pod.is_terminal:
        return True
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return pod.metadata.is_terminating and not any(
        statuse.state.terminated is None and statuse.state.waiting is None for statuse in statuses
    )


_ACTION: Final = "AttachVolume"
_FAILED: Final = "FailedAttachVolume"


def attached_note(volume: str) -> str:
    # Upstream's text ends with this blank too: the rest of its sentence would follow.
    return f'AttachVolume.Attach succeeded for volume "{volume}" '


def failed_note(volume: str, why: str) -> str:
    return f'AttachVolume.Attach failed for volume "{volume}" : {why}'


def multi_attach_note(volume: str, pod: Pod, holders: Sequence[Pod]) -> str:
    """Why a pod waits for a volume that is attached to another node. Pods of other namespaces are not named."""
    prefix = f'Waiting for detach for volume "{volume}" '
    if not holders:
        return (
            f"{prefix}Volume is already exclusively attached to one node, "
            "waiting on detach before it can be attached to another node"
        )
    near = sorted(holder.name for holder in holders if holder.namespace == pod.namespace)
    far = len(holders) - len(near)
    if not near:
        return f"{prefix}Volume is already used by {far} pod(s) in different namespaces"
    note = f"{prefix}Volume is already used by pod(s) {', '.join(near)}"
    return f"{note} and {far} pod(s) in different namespaces" if far else note


_WORKERS: Final = 32
"""Volumes reconciled at once: a worker mostly waits for answers."""
_UNSEEN_S: Final = 5.0
"""How soon to look again at a volume whose new attachment the informer may not show yet."""

_log = logs.logger("tonnage.attachments")


class AttachDetachController(QueueController):
    """Attaches and detaches until cancelled. Without a sync period volumes are not queued periodically."""

    def __init__(
        self, context: ControllerContext, *, max_wait_for_unmount_s: float = attach_detach_plan.MAX_WAIT_FOR_UNMOUNT_S
    ) -> None:
        super().__init__(context)
        informers = context.informers
        self._sync_period_s = context.configuration.attach_detach_reconcile_sync_period_s
        self._max_wait_s = max_wait_for_unmount_s
        self._unattached: set[str] = set()
        """Names of attachments that are about to be created, or were seen before they were attached."""
        self._failures: dict[str, tuple[storage_v1.VolumeError, ObjectReference]] = {}
        """The last recorded failure by attachment name, and the attachment's reference when that message was new."""
        self._attachers = context.attachers
        self._volumes = informers.of(PersistentVolume)
        self._nodes = informers.of(Node)
        self._csi_nodes = informers.of(CSINode)
        self._attachments = informers.of(VolumeAttachment)
        self._of_volume = cache.Indexer(self._attachments, volume_of_attachment)
        self._on_node = cache.Indexer(self._attachments, controller_context.node_of_attachment)
        self._written_nodes = cache.MutationCache(self._nodes, clock=context.clock)
        self._removed: set[str] = set()
        """Uids of attachments about to be deleted."""
        self._reports = self._add_queue("attached-reports", self.reconcile_node)
        # With a delay: a node that gets many volumes gets them in one write.
        self._attachments.on_change(lambda each: self._reports.queue.add_after(each.spec.node_name, _TOGETHER_S))
        self._reports.follow(self._nodes, changed_by=lambda node: node.status.volumes_attached)
        self._unwanted_since_s: dict[tuple[str, str], float] = {}
        self._written = cache.MutationCache(self._attachments, clock=context.clock)
        self._created: Shelf[Key, str, None] = Shelf()
        """By volume: names of attachments that we created and the informer may not show yet."""
        self._queue = self._add_queue("attachments", self.reconcile, workers=_WORKERS)
        self._loops += [self._sync] if self._sync_period_s > 0 else []
        self._queue.follow(self._volumes)
        self._attachments.add_handlers(on_delete=self._attachment_deleted)
        self._queue.follow(self._attachments, volume_of_attachment)
        pods, self._claims = informers.of(Pod), informers.of(PersistentVolumeClaim)
        self._drivers = informers.of(CSIDriver)
        self._pods_of = cache.Indexer(pods, Pod.claim_keys)
        self._pods_on = cache.Indexer(pods, controller_context.node_of_pod)
        self._queue.follow(self._claims, lambda claim: (claim.spec.volume_name,) if claim.spec.volume_name else ())
        self._queue.follow(pods, self._needed_by)
        self._queue.follow(self._drivers, self._volumes_of_driver)
        self._queue.follow(
            self._nodes,
            self._volumes_of_node,
            changed_by=lambda node: (node.status.volumes_in_use, node.spec.taints, node.is_ready),  # not heartbeats
        )
        self._queue.follow(
            self._csi_nodes, self._volumes_of_node, changed_by=lambda found: {each.name for each in found.spec.drivers}
        )

    async def reconcile(self, key: Key) -> float | None:
        """Attach one volume to the nodes of its pods, detach it from others. Returns when to run again."""
        volume = self._volumes.get(key)
        if volume is None:
            await self._detach_deleted_volume(key)
            return None
        attachments = self._attachments_of(key)
        users = self._users_of(volume, {each.spec.node_name for each in attachments})
        wanted = list(dict.fromkeys(pod.spec.node_name for pod in users))
        for node in {each.spec.node_name for each in attachments}:
            if node in wanted:
                self._unwanted_since_s.pop((key, node), None)
            else:
                self._unwanted_since_s.setdefault((key, node), self._clock.monotonic())
        driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
        drawn = attach_detach_plan.plan(
            volume,
            wanted,
            attachments,
            self._nodes.get,
            self._csi_nodes.get,
            lambda node: self._clock.monotonic() - self._unwanted_since_s[key, node],
            max_wait_s=self._max_wait_s,
            force_on_timeout=self._configuration.force_detach_on_timeout,
        )
        for attachment in attachments:
            there = [pod for pod in users if pod.spec.node_name == attachment.spec.node_name]
            self._record_status(volume.name, attachment, there)
        for attachment, is_forced in drawn.detach:
            await self._detach(volume, attachment, is_forced=is_forced)
        for node in drawn.attach:
            await self._attach(volume, node)
        for pod in users:
            node = pod.spec.node_name
            if node in drawn.without_driver:
                note = failed_note(volume.name, f"CSINode {node} does not contain driver {driver}")
                self._deduplicated.event(pod, "Warning", _FAILED, _ACTION, note, volume)
            elif node in drawn.attached_elsewhere:
                holders = [user for user in users if user.spec.node_name in drawn.attached_elsewhere[node]]
                note = multi_attach_note(volume.name, pod, holders)
                self._deduplicated.event(pod, "Warning", _FAILED, _ACTION, note, volume)
        return _UNSEEN_S if drawn.attach and drawn.again_s is None else drawn.again_s

    def _record_status(self, volume: str, attachment: VolumeAttachment, users: Iterable[Pod]) -> None:
        """Record an attachment's success or failure on the pods of its node, in upstream's words.

        Success is recorded only if the attachment was seen unattached. The related reference keeps the resourceVersion
        at which a message was new, so that equal failures are counted as one event.
        """
        name, failure = attachment.name, attachment.status.attach_error
        if attachment.status.attached:
            self._failures.pop(name, None)
            if name in self._unattached:
                self._unattached.discard(name)
                for pod in users:
                    note = attached_note(volume)
                    self._recorder.event(pod, "Normal", "SuccessfulAttachVolume", _ACTION, note, attachment)
            return
        self._unattached.add(name)
        recorded, related = self._failures.get(name, (None, None))
        if failure is None or failure == recorded:
            return
        if recorded is None or related is None or recorded.message != failure.message:
            related = recorder.reference_to(attachment)
        self._failures[name] = (failure, related)
        for pod in users:
            self._recorder.event(pod, "Warning", _FAILED, _ACTION, failed_note(volume, failure.message), related)

    # -- what is there ------------------------------------------------------------------------------------------------

    def _attachments_of(self, volume: str) -> list[VolumeAttachment]:
        """All attachments of a volume, including new ones that the informer does not show yet."""
        found = list(self._of_volume(volume))
        for name in tuple(self._created.at(volume)):
            made = self._written.get(name)
            if made is None or name in self._attachments:
                self._created.take(volume, name)
            else:
                found.append(made)
        return found

    def _users_of(self, volume: PersistentVolume, holders: Collection[str]) -> list[Pod]:
        """The pods that need a volume on their node, oldest first. `holders`: the nodes that have the volume."""
        owner, source = volume.spec.claim_ref, volume.spec.csi
        if (
            owner is None
            or source is None
            or not attach_detach_plan.needs_attaching(volume, self._drivers.get(source.driver))
        ):
            return []
        claim = self._claims.get(owner.key)
        is_bound = (
            claim is not None
            and claim.uid == owner.uid
            and claim.status.phase == "Bound"
            and claim.spec.volume_name == volume.name
        )
        users = [
            pod
            for pod in self._pods_of(owner.key)
            if pod.spec.node_name
            and not is_pod_terminated(pod)
            and (is_bound or pod.spec.node_name in holders)
            # By name, or as the pod's own ephemeral claim.
            and (
                claim is None
                or any(
                    each.claim_name(pod.name) == claim.name and (each.ephemeral is None or claim.is_for_pod(pod))
                    for each in pod.spec.volumes
                )
            )
        ]
        return sorted(users, key=lambda pod: (str(pod.metadata.creation_timestamp), pod.key))

    def _needed_by(self, pod: Pod) -> list[str]:
        if not pod.spec.node_name:
            return []
        claims = (self._claims.get(key) for key in pod.claim_keys())
        return [claim.spec.volume_name for claim in claims if claim is not None and claim.spec.volume_name]

    # -- writes --------------------------------------------------------------------------------------------------------

    async def _attach(self, volume: PersistentVolume, node: str) -> None:
        source = volume.spec.csi
        if source is None:
            return
        name = attachment_name(source.volume_handle, source.driver, node)
        metadata = ObjectMeta(name=name)
        if (attacher := self._attachers.get(source.driver)) is not None:
            finalizers, annotations = await attacher.finalizers(volume, node)
            metadata = ObjectMeta(name=name, finalizers=finalizers, annotations=annotations)
        attachment = VolumeAttachment(
            metadata=metadata,
            spec=storage_v1.VolumeAttachmentSpec(
                attacher=source.driver,
                node_name=node,
                source=storage_v1.VolumeAttachmentSource(persistent_volume_name=volume.name),
            ),
        )
        self._unattached.add(name)
        try:
            made = await self._client.create(attachment)
            _log.info("Attaching", volume=volume.name, node=node)
        except errors.AlreadyExists:
            # It is ours and the informer lags; or it is being deleted, and its deletion queues the volume again.
            made = await self._client.get(VolumeAttachment, name)
        self._written.store(made)
        self._created.put(volume.name, name, None)

    async def _detach(self, volume: PersistentVolume, attachment: VolumeAttachment, *, is_forced: bool) -> None:
        """Delete an attachment, unless the node reports the volume in use or a pod now needs it."""
        node_name, source = attachment.spec.node_name, volume.spec.csi
        node = await self._unlist(attachment)
        name = unique_volume_name(source.driver, source.volume_handle) if source is not None else ""
        in_use = node is not None and name in node.status.volumes_in_use
        is_wanted = any(pod.spec.node_name == node_name for pod in self._users_of(volume, {node_name}))
        if is_wanted or (in_use and not is_forced):
            self._list_again(attachment)
            return
        try:
            await self._client.delete(VolumeAttachment, attachment.key, uid=attachment.uid)
        except errors.NotFound:
            return
        except BaseException:
            self._list_again(attachment)
            raise
        _log.info("Detaching", volume=volume.name, node=node_name, forced=is_forced)

    async def _detach_deleted_volume(self, volume: str) -> None:
        """Delete the attachments of a deleted volume, unless a node reports the volume in use."""
        for attachment in self._of_volume(volume):
            if attachment.metadata.is_terminating or not attachment.name.startswith("csi-"):
                continue
            driver, node_name = attachment.spec.attacher, attachment.spec.node_name
            node = self._nodes.get(node_name)
            prefix = unique_volume_name(driver, "")
            handles = (each.removeprefix(prefix) for each in (node.status.volumes_in_use if node is not None else ()))
            if not any(attachment_name(handle, driver, node_name) == attachment.name for handle in handles):
                await self._client.delete(VolumeAttachment, attachment.key, uid=attachment.uid)

    # -- `volumesAttached`, whose only writer we are ------------------------------------------------------------------

    async def reconcile_node(self, key: Key) -> None:
        node = self._written_nodes.get(key)
        if node is not None:
            await self._write_list(node)

    async def _unlist(self, attachment: VolumeAttachment) -> Node | None:
        """Remove the attachment's volume from its node's list. Returns the node after that, or None."""
        self._removed.add(attachment.uid)
        name = attachment.spec.node_name
        try:
            node = self._written_nodes.get(name) or await self._client.get(Node, name)
            return await self._write_list(node) or await self._client.get(Node, name)
        except errors.NotFound:
            return None

    def _list_again(self, attachment: VolumeAttachment) -> None:
        """The volume is not detached after all."""
        self._removed.discard(attachment.uid)
        self._reports.add(attachment.spec.node_name)

    async def _write_list(self, node: Node) -> Node | None:
        """Write the list if it changed. Returns the node as the server has it then. Raises NotFound."""
        before = [attached_volume.name for attached_volume in node.status.volumes_attached]
        # Volumes without the CSI prefix were listed by another attacher.
        others = [name for name in before if not name.startswith(storage_v1.CSI_VOLUME_PREFIX)]
        now = others + sorted(self._attached_to(node.name))
        if set(now) == set(before):
            return None
        patch = {"status": {"volumesAttached": [{"name": name, "devicePath": ""} for name in now]}}
        return self._written_nodes.store(await self._client.patch(Node, node.name, patch, subresource="status"))

    def _attached_to(self, node: str) -> set[str]:
        names = set()
        for attachment in self._on_node(node):
            volume = self._volumes.get(attachment.spec.source.persistent_volume_name)
            source = volume.spec.csi if volume is not None else None
            is_going = attachment.metadata.is_terminating or attachment.uid in self._removed
            if source is not None and attachment.status.attached and not is_going:
                names.add(unique_volume_name(source.driver, source.volume_handle))
        return names

    # -- event handlers -----------------------------------------------------------------------------------------------

    def _volumes_of_driver(self, driver: CSIDriver) -> list[Key]:
        return [volume.name for volume in self._volumes if volume.spec.csi and volume.spec.csi.driver == driver.name]

    def _volumes_of_node(self, node: Node | CSINode) -> Iterator[Key]:
        """The volumes that are attached to a node, and those that its pods need."""
        for attachment in self._on_node(node.name):
            yield from volume_of_attachment(attachment)
        for pod in self._pods_on(node.name):
            yield from self._needed_by(pod)

    def _attachment_deleted(self, attachment: VolumeAttachment) -> None:
        for volume in volume_of_attachment(attachment):
            self._unwanted_since_s.pop((volume, attachment.spec.node_name), None)
        self._unattached.discard(attachment.name)
        self._failures.pop(attachment.name, None)
        self._removed.discard(attachment.uid)

    async def _sync(self) -> None:
        while True:
            await self._clock.sleep(clock.jittered(self._sync_period_s, 0.1, self._rng))
            for volume in self._volumes:
                if volume.spec.claim_ref is not None:
                    self._queue.add(volume.name)
