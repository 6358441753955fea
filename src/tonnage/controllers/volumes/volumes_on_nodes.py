"""`node.status.volumesAttached`: the volumes that a node may mount.

A detach is a handshake: the volume is removed from this list, the node's `volumesInUse` is read from the answer, then
the volume is detached. A node reads the list, and lists the volume as in use, before it mounts: so one of the two
always sees the other. Upstream's NodeStatusUpdater.
"""

from __future__ import annotations

from typing import Final

from tonnage.client.cache import Indexer
from tonnage.client.written_objects import MutationCache
from tonnage.controllers.controller_context import (
    ControllerContext,
    QueueController,
    node_of_attachment,
)
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import Node, PersistentVolume, Pod
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSI_VOLUME_PREFIX, VolumeAttachment, unique_volume_name

_TOGETHER_S: Final = 0.5
"""A node's attachments within this time are written together. Upstream's reconciler writes ten times a second."""


class VolumesAttachedUpdater(QueueController):
    """The only writer of `volumesAttached`."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._volumes = context.informers.of(PersistentVolume)
        nodes, attachments = context.informers.of(Node), context.informers.of(VolumeAttachment)
        self._written = MutationCache(nodes, clock=context.clock)
        self.on_node = Indexer(attachments, node_of_attachment)
        self._removed: set[str] = set()
        """Uids of attachments about to be deleted."""
        self._queue = self._add_queue("attached-reports", self.reconcile)
        attachments.on_change(self._attachment_changed)
        attachments.add_handlers(on_delete=lambda old: self._removed.discard(old.uid))
        nodes.add_handlers(on_add=lambda node: self._queue.add(node.name), on_update=self._node_changed)

    async def reconcile(self, key: Key) -> None:
        node = self._written.get(key)
        if node is not None:
            await self._write(node)

    async def remove(self, attachment: VolumeAttachment) -> Node | None:
        """Remove the attachment's volume from its node's list. Returns the node after that, or None."""
        self._removed.add(attachment.uid)
        name = attachment.spec.node_name
        try:
            node = self._written.get(name) or await self._client.get(Node, name)
            return await self._write(node) or await self._client.get(Node, name)
        except NotFound:
            return None

    def restore(self, attachment: VolumeAttachment) -> None:
        """List the volume again: it is not detached after all."""
        self._removed.discard(attachment.uid)
        self._queue.add(attachment.spec.node_name)

    async def _write(self, node: Node) -> Node | None:
        """Write the list if it changed. Returns the node as the server has it then. Raises NotFound."""
        before = [attached_volume.name for attached_volume in node.status.volumes_attached]
        # Volumes without the CSI prefix were listed by another attacher.
        others = [name for name in before if not name.startswith(CSI_VOLUME_PREFIX)]
        now = others + sorted(self._attached_to(node.name))
        if set(now) == set(before):
            return None
        status = {"volumesAttached": [{"name": name, "devicePath": ""} for name in now]}
        return self._written.store(await self._client.patch(Node, node.name, {"status": status}, subresource="status"))

    def _attached_to(self, node: str) -> set[str]:
        names = set()
        for attachment in self.on_node(node):
            volume = self._volumes.get(attachment.spec.source.persistent_volume_name)
            source = volume.spec.csi if volume is not None else None
            is_going = attachment.metadata.is_terminating or attachment.uid in self._removed
            if source is not None and attachment.status.attached and not is_going:
                names.add(unique_volume_name(source.driver, source.volume_handle))
        return names

    def _attachment_changed(self, attachment: VolumeAttachment) -> None:
        """Queue the node with a delay: a node that gets many volumes gets them in one write."""
        self._queue.queue.add_after(attachment.spec.node_name, _TOGETHER_S)

    def _node_changed(self, old: Node, new: Node) -> None:
        if old.status.volumes_attached != new.status.volumes_attached:
            self._queue.add(new.name)


def is_pod_terminated(pod: Pod) -> bool:
    """True if the pod no longer needs its volumes: it has ended, or is being deleted and no container runs."""
    if pod.is_terminal:
        return True
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return pod.metadata.is_terminating and not any(
        statuse.state.terminated is None and statuse.state.waiting is None for statuse in statuses
    )
