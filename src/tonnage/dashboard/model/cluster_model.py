"""A cluster as rows, kept up to date: objects go in, and what they change is settled into `wire.collections`.

    model = ClusterModel(collections)
    model.put(node)                    # or model.remove(node): from informers, or from a replay
    model.remember(memory)             # what only the scheduler knows
    model.settle()                     # rows of what was touched are made anew

What an object touches is noted when it comes, and worked out once in `settle`, however often it changed. Rows depend on
objects alone and on what is remembered: a model that is filled in another order comes to the same rows, which a
property test holds it to.
"""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.dashboard.model import capacity_rows, node_rows, pod_rows, volume_rows
from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.wire.collections import Collections
from tonnage.dashboard.wire.rows import ClassRow, Row
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CAPACITY_GROUP, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.whatif.scheduler_memory import HeldCapacity, SchedulerMemory


class ClusterModel:
    """Rows of one cluster."""

    def __init__(self, collections: Collections) -> None:
        self.collections = collections
        self.objects = KnownObjects()
        self.memory = SchedulerMemory()
        self._held: dict[Key, list[HeldCapacity]] = {}
        self._touched: dict[str, set[str]] = {}

    def put(self, new: Object) -> None:
        old = self.objects.put(new)
        if old is not None:
            self._touch_by(old)
        self._touch_by(new)

    def remove(self, old: Object) -> None:
        known = self.objects.remove(old)
        if known is not None:
            self._touch_by(known)

    def remember(self, memory: SchedulerMemory) -> None:
        """What the scheduler knows now, instead of what it knew before."""
        held: dict[Key, list[HeldCapacity]] = {}
        for each in memory.held:
            held.setdefault(each.capacity, []).append(each)
        for key in self._held.keys() | held.keys():
            if self._held.get(key) != held.get(key):
                self._touch("capacities", key)
        for assumed in (*self.memory.pods, *memory.pods):
            self._touch("pods", assumed.pod)
        self._held, self.memory = held, memory

    def held(self, capacity: Key) -> Sequence[HeldCapacity]:
        """What is kept back of a capacity object."""
        return self._held.get(capacity, ())

    def settle(self) -> None:
        """Make the rows of what was touched anew."""
        touched, self._touched = self._touched, {}
        for collection, keys in touched.items():
            for key in keys:
                row = self._row(collection, key)
                if row is None:
                    self.collections.remove(collection, key)
                else:
                    self.collections.put(collection, key, row)

    # -- what an object touches ---------------------------------------------------------------------------------------

    def _touch(self, collection: str, key: str) -> None:
        self._touched.setdefault(collection, set()).add(key)

    def _touch_by(self, changed: Object) -> None:
        objects = self.objects
        match changed:
            case Node():
                self._touch("nodes", changed.name)
                for label in changed.metadata.labels.items():
                    for key in capacity_rows.selecting(objects, label):
                        self._touch("capacities", key)
            case CSINode():
                self._touch("nodes", changed.name)
            case CSIStorageCapacity():
                self._touch("capacities", changed.key)
            case StorageClass():
                self._touch("classes", changed.name)
            case PersistentVolume():
                self._touch("volumes", volume_rows.key_of_volume(changed, objects))
                self._touch("volumes", changed.name)
                for name in volume_rows.nodes_of(changed):
                    self._touch("nodes", name)
            case PersistentVolumeClaim():
                self._touch("volumes", changed.key)
                if changed.spec.volume_name:
                    self._touch("volumes", changed.spec.volume_name)
                if changed.selected_node:
                    self._touch("nodes", changed.selected_node)
            case VolumeAttachment():
                volume = objects.volumes.get(changed.spec.source.persistent_volume_name)
                if volume is not None:
                    self._touch("volumes", volume_rows.key_of_volume(volume, objects))
                self._touch("nodes", changed.spec.node_name)
            case Pod():
                self._touch("pods", changed.key)
                for claim in changed.claim_names():
                    self._touch("volumes", f"{changed.namespace}/{claim}")
                if changed.spec.node_name:
                    self._touch("nodes", changed.spec.node_name)

    def _row(self, collection: str, key: str) -> Row | None:
        objects = self.objects
        match collection:
            case "nodes":
                return node_rows.row_of(objects, key)
            case "capacities":
                return capacity_rows.row_of(objects, key, self.held(key))
            case "volumes":
                return volume_rows.row_of(objects, key)
            case "pods":
                return pod_rows.row_of(objects, key, self.memory)
            case "classes":
                return _class_row(objects.classes.get(key))
        raise AssertionError(collection)


_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _class_row(found: StorageClass | None) -> ClassRow | None:
    if found is None:
        return None
    annotations = found.metadata.annotations
    return ClassRow(
        driver=found.provisioner,
        mode=found.volume_binding_mode,
        group=annotations.get(CAPACITY_GROUP, ""),
        is_default=annotations.get(_DEFAULT_CLASS) == "true",
    )
