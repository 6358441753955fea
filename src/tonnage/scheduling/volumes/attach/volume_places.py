"""Where volumes are attached, as VolumeAttachments say.

The driver unsets the affinity of a volume that may move. An attachment then knows best where its contents are; what
else tells stands in `rebuilds.py`.
"""

from __future__ import annotations

from collections.abc import Collection

from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster


class VolumePlaces:
    """By volume the nodes that have it attached: `cluster.index(VolumePlaces)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._attached: dict[str, dict[str, str]] = {}  # volume name -> attachment -> node name
        for each in cluster.storage.attachments.values():
            self._attachment_changed(None, each)
        cluster.storage.on_change(VolumeAttachment, self._attachment_changed)

    def attached_to(self, volume_name: str) -> Collection[str]:
        """The names of the nodes that a volume is attached to."""
        return self._attached.get(volume_name, {}).values()

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None and old.status.attached:
            name = old.spec.source.persistent_volume_name
            attached = self._attached.get(name, {})
            attached.pop(old.name, None)
            if not attached:
                self._attached.pop(name, None)
        if new is not None and new.status.attached and (name := new.spec.source.persistent_volume_name):
            self._attached.setdefault(name, {})[new.name] = new.spec.node_name
