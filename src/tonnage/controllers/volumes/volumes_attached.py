"""`node.status.volumesAttached`: what a node may mount, kept as the attachments say.

Node and controller shake hands over a volume that is to go: first it is taken off this list, then the node is asked
whether it has it in use, then it is detached. A node looks at the list before it mounts and says that it uses a volume
before it does, so that one of the two always sees the other. The answer to the write is the asking: it shows the node
as it is after the volume went from the list.
"""

from __future__ import annotations

from tonnage.client.http import Client
from tonnage.client.indexer import Indexer
from tonnage.client.informers import Informers
from tonnage.client.reconciler import Reconciler
from tonnage.client.written_objects import MutationCache
from tonnage.clock import Clock
from tonnage.controllers.index_functions import node_of_attachment
from tonnage.controllers.volumes.attach_detach_plan import CSI_PREFIX, unique_name
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import VolumeAttachment


class VolumesAttachedUpdater:
    """Keeps the list of every node; nobody else writes it."""

    def __init__(self, client: Client, informers: Informers, *, clock: Clock) -> None:
        self._client = client
        self._volumes = informers.of(PersistentVolume)
        self._nodes = informers.of(Node)
        self._written = MutationCache(self._nodes, clock=clock)
        attachments = informers.of(VolumeAttachment)
        self.on_node = Indexer(attachments, node_of_attachment)
        self._leaving: set[str] = set()
        """Uids of attachments that are about to be taken away."""
        self._queue = Reconciler("attached-reports", self.reconcile, clock=clock)
        self._queue.follow(attachments, node_of_attachment)
        attachments.add_handlers(on_delete=lambda old: self._leaving.discard(old.uid))
        self._nodes.add_handlers(on_add=lambda node: self._queue.add(node.name), on_update=self._node_changed)

    async def run(self) -> None:
        await self._queue.run()

    async def reconcile(self, key: Key) -> float | None:
        """Bring one node's list to what is attached to it."""
        node = self._written.get(key)
        if node is not None:
            await self._write(node)
        return None

    async def leave(self, attachment: VolumeAttachment) -> Node | None:
        """Take a volume off its node's list for good; the node as it is after that, None when there is none."""
        self._leaving.add(attachment.uid)
        name = attachment.spec.node_name
        try:
            node = self._written.get(name) or await self._client.get(Node, name)
            return await self._write(node) or await self._client.get(Node, name)
        except NotFound:
            return None

    def stay(self, attachment: VolumeAttachment) -> None:
        """It is not taken away after all."""
        self._leaving.discard(attachment.uid)
        self._queue.add(attachment.spec.node_name)

    async def _write(self, node: Node) -> Node | None:
        """Write the list if it is another; the node as the server has it then. Raises NotFound."""
        before = [each.name for each in node.status.volumes_attached]
        # What is not CSI's was put there by somebody else's attacher.
        others = [name for name in before if not name.startswith(CSI_PREFIX)]
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
            is_going = attachment.metadata.is_terminating or attachment.uid in self._leaving
            if source is not None and attachment.status.attached and not is_going:
                names.add(unique_name(source.driver, source.volume_handle))
        return names

    def _node_changed(self, old: Node, new: Node) -> None:
        if old.status.volumes_attached != new.status.volumes_attached:
            self._queue.add(new.name)
