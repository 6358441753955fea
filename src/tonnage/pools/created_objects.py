"""Capacity objects for drivers that publish none (`--create-objects`): which there must be, created and deleted.

    local volumes       one object per class and node that the source knows
    others (Longhorn)   one object per class, which reaches all nodes
    not created         where an object of somebody else reaches the node: the driver publishes capacity itself;
                        for classes that bind immediately, which nobody compares with capacity

Their names follow from class and node, so that copies of this program create them once. The label
`csi.storage.k8s.io/managed-by` says whose they are: external-provisioner leaves them alone. Their owner is the
workload of this program's pod, so that they go with it; without a pod, the Node, or for all nodes the class.

An object is deleted when its class or its node is gone, when the source no longer knows the node or has been silent for
too long, when an object of somebody else reaches the node, and when the program runs without the option.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tonnage.behaviour.workloads.templates import owner_ref
from tonnage.client.cache import Cache, Indexer
from tonnage.objects import codec, requirements, storage_v1
from tonnage.objects.document import Doc
from tonnage.objects.meta import Document, Key, OwnerReference
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import CHECK_CAPACITY, CSINode, CSIStorageCapacity, StorageClass
from tonnage.pools.class_pools import ClassPools, NodePools
from tonnage.pools.settings import PROGRAM, PoolsSettings, manager_of
from tonnage.pools.writing import AnnotationWriter, ToldOnce
from tonnage.quantity import Quantity

_HOSTNAME: Final = "kubernetes.io/hostname"
_MOST_BYTES: Final = (1 << 63) - 1


def is_created(capacity: CSIStorageCapacity) -> bool:
    """True if a copy of this program created the object."""
    manager = capacity.metadata.labels.get(storage_v1.CAPACITY_MANAGER, "")
    return manager == PROGRAM or manager.startswith(f"{PROGRAM}-")


@dataclass(eq=False)
class Watched:
    """What this program watches."""

    capacities: Cache[CSIStorageCapacity]
    classes: Cache[StorageClass]
    nodes: Cache[Document]
    csi_nodes: Cache[CSINode]
    objects: Sequence[Cache[Document]]
    """Of the source's kinds."""

    def __post_init__(self) -> None:
        self._labelled = Indexer(self.nodes, lambda node: map("=".join, node.metadata.labels.items()))

    def reached(self, topology: LabelSelector | None) -> list[str]:
        """The nodes that a topology selects; none for a missing or invalid one."""
        if topology is None:
            return []
        pairs = list(topology.match_labels.items())
        pairs += [
            (requirement.key, requirement.values[0])
            for requirement in topology.match_expressions
            if requirement.operator == "In" and len(requirement.values) == 1
        ]
        labelled = [self._labelled(f"{key}={value}") for key, value in pairs]
        fewest = min(labelled, key=len) if labelled else self.nodes
        try:
            return sorted(node.name for node in fewest if topology.matches(node.metadata.labels))
        except requirements.InvalidSelector:
            return []


@dataclass(eq=False)
class ObjectKeeper:
    watched: Watched
    writer: AnnotationWriter
    settings: PoolsSettings
    problems: ToldOnce
    only_node: str
    owner: OwnerReference | None = None
    """The workload of this program's pod; without one, objects belong to their node or class."""

    def is_mine(self, capacity: CSIStorageCapacity) -> bool:
        """True if this copy of the program keeps the object, which it created."""
        manager = capacity.metadata.labels.get(storage_v1.CAPACITY_MANAGER)
        return manager == manager_of(self.only_node) and self._is_of_drivers(capacity)

    def document(self, storage_class: StorageClass, node: str, topology: Mapping[str, str], pools: NodePools) -> Doc:
        """The whole object, without its annotations. `node` is empty if it reaches all nodes.

        `capacity` and `maximumVolumeSize` are for schedulers that do not read pools.
        """
        keep_free, owner = self.settings.keep_free, self.watched.nodes.get(node)
        free = [keep_free.of(each) for each in pools.free_bytes]
        largest = max(free, default=0)
        if pools.largest_bytes is not None:
            largest = min(largest, keep_free.of(pools.largest_bytes))
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {
                "name": _name(storage_class.name, node),
                "namespace": self.settings.namespace,
                "labels": {
                    storage_v1.CAPACITY_DRIVER: storage_class.provisioner,
                    storage_v1.CAPACITY_MANAGER: manager_of(self.only_node),
                },
                "ownerReferences": [codec.to_doc(self.owner or owner_ref(storage_class if owner is None else owner))],
            },
            "storageClassName": storage_class.name,
            "nodeTopology": {"matchLabels": dict(topology)} if topology else {},
            "capacity": str(Quantity.from_bytes(min(sum(free), _MOST_BYTES))),
            "maximumVolumeSize": str(Quantity.from_bytes(largest)),
        }

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
        wanted: dict[Key, Doc] = {}
        for name, pools in found.items():
            taken = self._taken(name)
            self.problems.tell(f"StorageClass {name} objects", self._unpublished(known[name], pools, taken))
            if self.settings.creates_objects and known[name].waits_for_consumer:
                wanted |= self._wanted(known[name], pools, taken, is_dropped)
        for capacity in list(self.watched.capacities):
            if not is_created(capacity) or not self._is_of_drivers(capacity):
                continue
            why = self._why_not(capacity, wanted.get(capacity.key), known)
            if why:
                await self.writer.delete(capacity, why)
        for key, doc in wanted.items():
            if self.watched.capacities.get(key) is None:
                await self.writer.create(doc)

    async def remove(self) -> int:
        """Delete every object that a copy of this program created for these drivers; returns how many there were."""
        found = [each for each in self.watched.capacities if is_created(each) and self._is_of_drivers(each)]
        for capacity in found:
            await self.writer.delete(capacity, "--remove")
        return len(found)

    def _wanted(
        self, storage_class: StorageClass, pools: ClassPools, taken: set[str], is_dropped: Callable[[str], bool]
    ) -> dict[Key, Doc]:
        """The objects that a class must have from us. `taken`: the nodes that objects of others reach."""
        if pools.anywhere is not None:
            is_wanted = not taken and not is_dropped("")
            found = {"": self.document(storage_class, "", {}, pools.anywhere)} if is_wanted else {}
        else:
            found = {
                node: self.document(storage_class, node, topology, node_pools)
                for node, node_pools in sorted(pools.by_node.items())
                if node not in taken and (topology := self._topology(storage_class.name, node)) and not is_dropped(node)
            }
        return {self._key(storage_class.name, node): doc for node, doc in found.items()}

    def _why_not(self, capacity: CSIStorageCapacity, wanted: Doc | None, classes: Mapping[str, StorageClass]) -> str:
        """Why an object that a copy of this program created must go; empty if it stays."""
        if capacity.storage_class_name not in classes:
            return "its class is gone"
        if not self.watched.reached(capacity.node_topology):
            return "its node is gone"
        if not self.is_mine(capacity):
            return ""
        if wanted is None:
            return "its pools are not known, its driver publishes capacity itself, or --create-objects is off"
        topology = capacity.node_topology
        is_there = topology is not None and topology.match_labels == wanted["nodeTopology"].get("matchLabels", {})
        return "" if is_there else "its node has other labels"

    def _topology(self, class_name: str, name: str) -> Mapping[str, str]:
        """Labels that no other node has: what an existing object says, if that is still the one node (nothing is
        created anew without need), those of the driver's topology, else its hostname; empty if there are none."""
        node = self.watched.nodes.get(name)
        if node is None or (self.only_node and name != self.only_node):
            return {}
        there = self.watched.capacities.get(self._key(class_name, name))
        known = there.node_topology if there is not None else None
        if known is not None and self.watched.reached(known) == [name]:
            return known.match_labels
        csi_node = self.watched.csi_nodes.get(name)
        entries = [] if csi_node is None else [csi_node.driver(driver) for driver in self.settings.drivers]
        for keys in (*(entry.topology_keys for entry in entries if entry is not None), (_HOSTNAME,)):
            labels = {key: node.metadata.labels[key] for key in keys if key in node.metadata.labels}
            is_one = len(labels) == len(keys) and self.watched.reached(LabelSelector(match_labels=labels)) == [name]
            if labels and is_one:
                self.problems.tell(f"Node {name}", ())
                return labels
        self.problems.tell(f"Node {name}", ["no label distinguishes it from other nodes: it gets no capacity objects"])
        return {}

    def _unpublished(self, storage_class: StorageClass, pools: ClassPools, taken: Collection[str]) -> list[str]:
        """The warning about a class whose pods are sent anywhere, because nothing says how much room there is."""
        if self.settings.creates_objects or taken or not pools.is_known or not storage_class.waits_for_consumer:
            return []
        return [
            "there is no CSIStorageCapacity of this class, so that its pools are kept nowhere, and its pods are sent "
            f"to nodes without room: start with --create-objects, which sets {CHECK_CAPACITY} on the class as well; "
            "or have its driver's provisioner publish capacity"
        ]

    def _taken(self, class_name: str) -> set[str]:
        others = [
            each for each in self.watched.capacities if each.storage_class_name == class_name and not is_created(each)
        ]
        return {node for capacity in others for node in self.watched.reached(capacity.node_topology)}

    def _is_of_drivers(self, capacity: CSIStorageCapacity) -> bool:
        return capacity.metadata.labels.get(storage_v1.CAPACITY_DRIVER, "") in self.settings.drivers

    def _key(self, class_name: str, node: str) -> Key:
        return f"{self.settings.namespace}/{_name(class_name, node)}"


def _name(class_name: str, node: str) -> str:
    """A hash, because both names together may be longer than a name."""
    return f"{PROGRAM}-{sha256(f'{class_name}/{node}'.encode()).hexdigest()[:20]}"
