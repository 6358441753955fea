"""Volumes that a node was refused: by VolumeAttachments that failed, also after they are gone.

A volume that is on its way to a node needs no room there, for that was found when it was decided. Its driver may refuse
it all the same: then it did not arrive, and the node is judged anew. The attachment tells of it
(`status.attachError`), but goes with the pod that wanted it; the next pod would be sent into the same refusal, so that
it is remembered here until the volume is attached somewhere, has a node affinity again, or is gone. A scheduler that
starts knows of the attachments that are still there.
"""

from __future__ import annotations

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster


class RefusedAttachments:
    """By volume the nodes that it could not be attached to: `cluster.index(RefusedAttachments)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage
        self._nodes_of: dict[str, set[str]] = {}
        for each in self._storage.attachments.values():
            self._attachment_changed(None, each)
        self._storage.on_change(VolumeAttachment, self._attachment_changed)
        self._storage.on_change(PersistentVolume, self._volume_changed)

    def has(self, volume_name: str, node_name: str) -> bool:
        """Whether the last that is known of this volume on this node is a refusal."""
        return node_name in self._nodes_of.get(volume_name, ())

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if new is None:
            return
        name = new.spec.source.persistent_volume_name
        if new.status.attached:
            self._nodes_of.pop(name, None)
        elif new.status.attach_error is not None and name:
            volume = self._storage.volumes.get(name)
            if volume is None or _may_move(volume):
                self._nodes_of.setdefault(name, set()).add(new.spec.node_name)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        known = new or old
        if known is not None and (new is None or not _may_move(new)):
            self._nodes_of.pop(known.name, None)


def _may_move(volume: PersistentVolume) -> bool:
    return volume.spec.node_affinity.required is None
