"""Where volumes are attached, and where they did not arrive, as VolumeAttachments and node affinities say.

A volume on its way to a node needs no room there, unless it did not arrive: its attachment failed, or its node affinity
was set elsewhere. A refusal is remembered after its VolumeAttachment is gone, until the volume is attached there or has
an affinity again. `rebuilds.py` says how the places are read.
"""

from __future__ import annotations

from collections.abc import Collection

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.shelf import Shelf


class VolumePlaces:
    """By volume the nodes that have it attached, and those where it did not arrive: `cluster.index(VolumePlaces)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._storage = cluster.storage
        self._attached: Shelf[str, str, str] = Shelf()  # volume name -> attachment -> node name
        self._missed: dict[str, set[str]] = {}
        for volume in self._storage.volumes:
            self._volume_changed(None, volume)
        for each in self._storage.attachments.values():
            self._attachment_changed(None, each)
        self._storage.on_change(VolumeAttachment, self._attachment_changed)
        self._storage.on_change(PersistentVolume, self._volume_changed)

    def attached_to(self, volume_name: str) -> Collection[str]:
        """The names of the nodes that a volume is attached to."""
        return self._attached.at(volume_name).values()

    def is_missed(self, volume_name: str, node_name: str) -> bool:
        """Whether the last that is known of this volume on this node is that it did not arrive."""
        return node_name in self._missed.get(volume_name, ())

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None and old.status.attached:
            self._attached.take(old.spec.source.persistent_volume_name, old.name)
        if new is None:
            return
        name, node_name = new.spec.source.persistent_volume_name, new.spec.node_name
        if new.status.attached and name:
            self._attached.put(name, new.name, node_name)
            self._missed.get(name, set()).discard(node_name)
        elif new.status.attach_error is not None and name:
            volume = self._storage.volumes.get(name)
            if volume is None or volume.spec.node_affinity.required is None:
                self._missed.setdefault(name, set()).add(node_name)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        known = new or old
        if known is None or (new is not None and new.spec.node_affinity.required is None):
            return
        self._missed.pop(known.name, None)
        if new is not None and (target := self._missed_by(new)):
            self._missed[new.name] = {target}

    def _missed_by(self, volume: PersistentVolume) -> str:
        """The node that a volume's claim was marked for, if its affinity does not admit that; else empty."""
        owner, required = volume.spec.claim_ref, volume.spec.node_affinity.required
        claim = self._storage.claims.get(owner.key) if owner is not None else None
        if claim is None or required is None or claim.rebuild_target != claim.selected_node:
            return ""
        row = self._cluster.row_of.get(claim.selected_node)
        node = self._cluster.nodes[row] if row is not None else None
        is_there = node is not None and required.matches(node.name, node.metadata.labels)
        return "" if is_there else claim.selected_node
