"""What a change touches: which rows may be otherwise after an object came, changed or went.

A row that is named here and is as it was costs a little; one that is not named and should be is wrong until something
else happens, which a property test looks for.
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes


class Touched:
    """Rows to be made anew, by collection; and nodes and labels of which everything that depends on them is."""

    def __init__(self, objects: KnownObjects) -> None:
        self._objects = objects
        self.volumes: set[Key] = set()
        self.capacities: set[Key] = set()
        self.nodes: set[str] = set()
        self.pods: set[Key] = set()
        self.classes: set[str] = set()
        self.places: set[str] = set()
        """Nodes that came or went: what is there is told otherwise."""
        self.residents: set[Key] = set()
        """Pods on whose nodes other volumes may be mounted."""
        self._labels: set[tuple[str, str] | None] = set()

    def changed(self, old: Object | None, new: Object | None) -> None:
        """An object came (`old` is None), changed, or went (`new` is None). Indexes know it already."""
        if isinstance(old or new, Node):
            self._node(old, new)  # type: ignore[arg-type]
        elif isinstance(old or new, StorageClass):
            self._class(old, new)  # type: ignore[arg-type]
        elif isinstance(old or new, CSIDriver):
            self._driver(old, new)  # type: ignore[arg-type]
        else:
            for each in (old, new):
                self._one(each)

    def _one(self, found: Object | None) -> None:
        """What an object touches as it was, or as it is."""
        match found:
            case Pod():
                self.pods.add(found.key)
                self.nodes.add(found.spec.node_name)
                self.volumes.update(f"{found.namespace}/{claim}" for claim in found.claim_names())
            case PersistentVolumeClaim():
                self.volumes.add(found.key)
                self.volume(found.spec.volume_name)
                self.volumes |= self._objects.volumes_of_claim[found.key]
                self.claim_users((found.key,))
            case PersistentVolume():
                self._volume(found)
            case VolumeAttachment():
                self.volume(found.spec.source.persistent_volume_name)
                self.nodes.add(found.spec.node_name)
            case CSINode():
                self.nodes.add(found.name)
                self.places.add(found.name)
            case CSIStorageCapacity():
                self.capacities.add(found.key)
            case None:
                pass
            case _:  # a ReplicaSet or a Job: whose pods they are
                self.pods |= self._objects.pods_of_owner[found.uid]

    def volume(self, name: str) -> None:
        """Whatever shows the volume of this name."""
        if not name:
            return
        self.volumes.add(name)
        self.volumes |= self._objects.claims_of_volume[name]
        volume = self._objects.volumes.get(name)
        if volume is not None and volume.spec.claim_ref is not None:
            self.volumes.add(volume.spec.claim_ref.key)

    def claim_users(self, keys: Iterable[Key]) -> None:
        """Pods that mount these claims: on their nodes the slots may be others."""
        for key in keys:
            self.residents |= self._objects.pods_of_claim[key]

    def spread(self) -> None:
        """From labels of nodes to what they reach. Many nodes of a zone are one look at what asks for the zone."""
        for label in self._labels:
            self.capacities |= self._objects.capacities_by_label[label]
            for name in self._objects.volumes_by_label[label]:
                self.volume(name)
        self._labels.clear()

    def _node(self, old: Node | None, new: Node | None) -> None:
        for node in (old, new):
            if node is not None:
                self.nodes.add(node.name)
        if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
            return  # a heartbeat, or a cordon: where things are is as it was
        self._labels.add(None)
        for node in (old, new):
            if node is not None:
                self._labels.update(node.metadata.labels.items())
                self.places.add(node.name)

    def _volume(self, volume: PersistentVolume) -> None:
        self.volume(volume.name)
        owner = volume.spec.claim_ref
        if owner is not None:
            self.volumes.add(owner.key)
            self.volumes |= self._objects.volumes_of_claim[owner.key]
        self.claim_users(self._objects.claims_of_volume[volume.name])
        for key in self._objects.attachments_of_volume[volume.name]:
            self.nodes.add(self._objects.attachments[key].spec.node_name)

    def _class(self, old: StorageClass | None, new: StorageClass | None) -> None:
        found = new or old
        if found is None:
            return
        self.classes.add(found.name)
        if old is not None and new is not None:
            is_same = old.provisioner == new.provisioner and old.volume_binding_mode == new.volume_binding_mode
            if is_same and old.capacity_group == new.capacity_group:
                return
        claims = self._objects.claims_of_class[found.name]
        self.volumes |= claims
        self.claim_users(claims)
        for each in (old, new):
            for name in self._objects.classes_of_driver[each.provisioner] if each is not None else ():
                self.capacities |= self._objects.capacities_of_class[name]
        self.capacities |= self._objects.capacities_of_class[found.name]

    def _driver(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        found = new or old
        if found is None or rebuilds_volumes(old) == rebuilds_volumes(new):
            return
        # Drivers hardly ever change: every volume is looked at.
        for volume in self._objects.volumes.values():
            if volume.spec.csi is not None and volume.spec.csi.driver == found.name:
                self.volume(volume.name)
        for name in self._objects.classes_of_driver[found.name]:
            self.volumes |= self._objects.claims_of_class[name]
