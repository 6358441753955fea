"""A cluster twice: as columns with every index, and as plain objects by key.

    twice = MirroredCluster()
    twice.put(node("a"), storage_class(), claim("data"))
    twice.cluster           what plugins judge
    twice.nodes["a"]        what a slow twin scans

Pods are kept by uid, because a bound pod may be replaced by another of its name; everything else is kept by key.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.engine.profiles import add_indexes


class MirroredCluster:
    def __init__(self) -> None:
        self.cluster = add_indexes(Cluster())
        self._objects: defaultdict[type[Object], dict[str, Any]] = defaultdict(dict)

    def put(self, *objects: Object) -> None:
        """Add objects, or replace those of their keys."""
        for new in objects:
            self._objects[type(new)][new.uid if isinstance(new, Pod) else new.key] = new
            if isinstance(new, Node):
                self.cluster.put_node(new)
            elif isinstance(new, Pod):
                place(self.cluster, new)
            else:
                self.cluster.storage.put(new)

    def remove(self, kind: type[Object], key: str) -> None:
        """Remove an object by its key, a pod by its uid. Nothing happens if there is none."""
        gone = self._objects[kind].pop(key, None)
        if kind is Node:
            self.cluster.remove_node(key)
        elif kind is Pod:
            self.cluster.remove_pod(key)
        elif gone is not None:
            self.cluster.storage.remove(gone)

    @property
    def nodes(self) -> dict[str, Node]:
        return self._objects[Node]

    @property
    def pods(self) -> dict[str, Pod]:
        return self._objects[Pod]

    @property
    def claims(self) -> dict[str, PersistentVolumeClaim]:
        return self._objects[PersistentVolumeClaim]

    @property
    def volumes(self) -> dict[str, PersistentVolume]:
        return self._objects[PersistentVolume]

    @property
    def classes(self) -> dict[str, StorageClass]:
        return self._objects[StorageClass]

    @property
    def drivers(self) -> dict[str, CSIDriver]:
        return self._objects[CSIDriver]

    @property
    def csi_nodes(self) -> dict[str, CSINode]:
        return self._objects[CSINode]

    @property
    def capacities(self) -> dict[str, CSIStorageCapacity]:
        return self._objects[CSIStorageCapacity]

    @property
    def attachments(self) -> dict[str, VolumeAttachment]:
        return self._objects[VolumeAttachment]
