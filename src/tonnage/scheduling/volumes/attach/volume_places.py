"""Where volumes without a node affinity are, as far as attachments and their last affinity tell.

The driver unsets the affinity of a volume that may move, and then only selected-node says where its contents are.
That annotation may be missing (Immediate classes, volumes bound anew after a restore) or stale (an old manifest that
was applied again). Two things know better:

    attached    a VolumeAttachment says so: the volume is on that node
    last        where it was attached last, or where its affinity confined it before it was unset

A scheduler that starts knows the attachments and affinities that there are; what was before, it does not.
"""

from __future__ import annotations

from collections.abc import Collection

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster


class VolumePlaces:
    """By volume the nodes that have it: `cluster.index(VolumePlaces)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage
        self._attached: dict[str, dict[str, str]] = {}  # volume name -> attachment -> node name
        self._last: dict[str, PersistentVolume | str] = {}
        for each in self._storage.attachments.values():
            self._attachment_changed(None, each)
        self._storage.on_change(VolumeAttachment, self._attachment_changed)
        self._storage.on_change(PersistentVolume, self._volume_changed)

    def attached_to(self, volume_name: str) -> Collection[str]:
        """The names of the nodes that a volume is attached to."""
        return self._attached.get(volume_name, {}).values()

    def last_known(self, volume_name: str) -> PersistentVolume | str | None:
        """Of a volume without affinity: itself as it was last confined, or the name of the node that it was last
        attached to, whichever is newer. None when neither is known."""
        return self._last.get(volume_name)

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None and old.status.attached:
            name = old.spec.source.persistent_volume_name
            attached = self._attached.get(name, {})
            attached.pop(old.name, None)
            if not attached:
                self._attached.pop(name, None)
            volume = self._storage.volumes.get(name)
            if volume is not None and volume.spec.node_affinity.required is None:
                self._last[name] = old.spec.node_name
        if new is not None and new.status.attached and (name := new.spec.source.persistent_volume_name):
            self._attached.setdefault(name, {})[new.name] = new.spec.node_name

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        known = new or old
        if known is None:
            return
        if new is None or new.spec.node_affinity.required is not None:
            self._last.pop(known.name, None)
        elif old is not None and old.spec.node_affinity.required is not None:
            self._last[new.name] = old
