"""Creates and deletes the capacity objects of `--create-objects`, as `new_objects.py` decides.

An object is deleted when its class or its node is gone, when the source no longer knows the node or has been silent for
too long, when an object of somebody else reaches the node, and when the program runs without the option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tonnage.behaviour.workloads.templates import owner_ref
from tonnage.client.cache import Cache, Indexer
from tonnage.objects.document import Doc
from tonnage.objects.meta import Document, Key, OwnerReference
from tonnage.objects.storage_v1 import CHECK_CAPACITY, CSINode, CSIStorageCapacity, StorageClass
from tonnage.pools.class_pools import ClassPools
from tonnage.pools.new_objects import (
    DRIVER_LABEL,
    MANAGED_BY,
    NewObject,
    document_of,
    is_created,
    manager_of,
    object_name,
    topology_of,
    wanted_objects,
)
from tonnage.pools.settings import PoolsSettings
from tonnage.pools.wanted import selected_nodes
from tonnage.pools.writing import AnnotationWriter, ToldOnce


class ObjectKeeper:
    def __init__(
        self,
        writer: AnnotationWriter,
        settings: PoolsSettings,
        problems: ToldOnce,
        *,
        only_node: str,
        capacities: Cache[CSIStorageCapacity],
        nodes: Cache[Document],
        csi_nodes: Cache[CSINode],
        labelled: Indexer[Document],
    ) -> None:
        self.owner: OwnerReference | None = None
        """The workload of this program's pod; without one, objects belong to their node or class."""
        self._writer = writer
        self._settings = settings
        self._problems = problems
        self._only_node = only_node
        self._capacities = capacities
        self._nodes = nodes
        self._csi_nodes = csi_nodes
        self._labelled = labelled

    def is_mine(self, capacity: CSIStorageCapacity) -> bool:
        """True if this copy of the program keeps the object, which it created."""
        return capacity.metadata.labels.get(MANAGED_BY) == manager_of(self._only_node) and self._is_of_drivers(capacity)

    def document(self, wanted: NewObject) -> Doc:
        node = self._nodes.get(wanted.node) if wanted.node else None
        return document_of(
            wanted,
            namespace=self._settings.namespace,
            only_node=self._only_node,
            owner=self.owner or owner_ref(wanted.storage_class if node is None else node),
            keep_free=self._settings.keep_free,
        )

    async def keep(
        self,
        classes: Iterable[StorageClass],
        found: Mapping[str, ClassPools],
        is_dropped: Callable[[str], bool],
    ) -> None:
        """Create what is missing, and delete what must not be. Raises TonnageError if a write fails.

        `is_dropped`: the source has been silent about a node for too long; "" stands for all nodes.
        """
        known = {storage_class.name: storage_class for storage_class in classes}
        wanted: dict[Key, NewObject] = {}
        for name, pools in found.items():
            taken = self._taken(name)
            self._problems.tell(f"StorageClass {name} objects", self._unpublished(known[name], pools, taken))
            if self._settings.creates_objects:
                objects = wanted_objects(known[name], pools, taken=taken, topology_of=self._topology_of(name))
                wanted |= {self._key(name, each.node): each for each in objects if not is_dropped(each.node)}
        for capacity in list(self._capacities):
            if not is_created(capacity) or not self._is_of_drivers(capacity):
                continue
            why = self._why_not(capacity, wanted.get(capacity.key), known)
            if why:
                await self._writer.delete(capacity, why)
        for key, each in wanted.items():
            if self._capacities.get(key) is None:
                await self._writer.create(self.document(each))

    async def remove(self) -> int:
        """Delete every object that a copy of this program created for these drivers; returns how many there were."""
        found = [each for each in self._capacities if is_created(each) and self._is_of_drivers(each)]
        for capacity in found:
            await self._writer.delete(capacity, "--remove")
        return len(found)

    def _why_not(
        self, capacity: CSIStorageCapacity, wanted: NewObject | None, classes: Mapping[str, StorageClass]
    ) -> str:
        """Why an object that a copy of this program created must go; empty if it stays."""
        if capacity.storage_class_name not in classes:
            return "its class is gone"
        if not self._reached(capacity):
            return "its node is gone"
        if not self.is_mine(capacity):
            return ""
        if wanted is None:
            return "its pools are not known, its driver publishes capacity itself, or --create-objects is off"
        topology = capacity.node_topology
        is_elsewhere = topology is None or dict(topology.match_labels) != dict(wanted.topology)
        return "its node has other labels" if is_elsewhere else ""

    def _topology_of(self, class_name: str) -> Callable[[str], Mapping[str, str]]:
        def found(name: str) -> Mapping[str, str]:
            """What an existing object says, if that is still the one node: nothing is created anew without need."""
            node = self._nodes.get(name)
            if node is None or (self._only_node and name != self._only_node):
                return {}
            there = self._capacities.get(self._key(class_name, name))
            if there is not None and there.node_topology is not None and self._reached(there) == [name]:
                return there.node_topology.match_labels
            labels = topology_of(node, self._csi_nodes.get(name), self._settings.drivers, self._labelled)
            told = [] if labels else ["no label distinguishes it from other nodes: it gets no capacity objects"]
            self._problems.tell(f"Node {name}", told)
            return labels

        return found

    def _unpublished(self, storage_class: StorageClass, pools: ClassPools, taken: set[str]) -> list[str]:
        """The warning about a class whose pods are sent anywhere, because nothing says how much room there is."""
        if self._settings.creates_objects or taken or not pools.is_known or not storage_class.waits_for_consumer:
            return []
        return [
            "there is no CSIStorageCapacity of this class, so that its pools are kept nowhere, and its pods are sent "
            f"to nodes without room: start with --create-objects, which sets {CHECK_CAPACITY} on the class as well; "
            "or have its driver's provisioner publish capacity"
        ]

    def _taken(self, class_name: str) -> set[str]:
        others = [each for each in self._capacities if each.storage_class_name == class_name and not is_created(each)]
        return {node for capacity in others for node in self._reached(capacity)}

    def _reached(self, capacity: CSIStorageCapacity) -> list[str]:
        return selected_nodes(capacity.node_topology, self._nodes, self._labelled)

    def _is_of_drivers(self, capacity: CSIStorageCapacity) -> bool:
        return capacity.metadata.labels.get(DRIVER_LABEL, "") in self._settings.drivers

    def _key(self, class_name: str, node: str) -> Key:
        return f"{self._settings.namespace}/{object_name(class_name, node)}"
