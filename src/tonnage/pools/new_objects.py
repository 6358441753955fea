"""Capacity objects for drivers that publish none (`--create-objects`). Pure: which there must be, and their content.

    local volumes       one object per class and node that the source knows
    others (Longhorn)   one object per class, which reaches all nodes
    not created         where an object of somebody else reaches the node: the driver publishes capacity itself;
                        for classes that bind immediately, which nobody compares with capacity

Their names follow from class and node, so that copies of this program create them once. The label
`csi.storage.k8s.io/managed-by` says whose they are: external-provisioner leaves them alone. Their owner is the
workload of this program's pod, so that they go with it; without a pod, the Node, or for all nodes the class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tonnage.objects.codec import to_doc
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object, OwnerReference
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from tonnage.pools.class_pools import ClassPools, NodePools
from tonnage.pools.settings import PROGRAM, KeepFree
from tonnage.quantity import Quantity

DRIVER_LABEL: Final = "csi.storage.k8s.io/drivername"
MANAGED_BY: Final = "csi.storage.k8s.io/managed-by"
HOSTNAME: Final = "kubernetes.io/hostname"
_MOST_BYTES: Final = (1 << 63) - 1


@dataclass(frozen=True)
class NewObject:
    """A capacity object that must exist; `node` is empty if it reaches all nodes."""

    storage_class: StorageClass
    node: str
    topology: Mapping[str, str]
    pools: NodePools

    @property
    def name(self) -> str:
        return object_name(self.storage_class.name, self.node)


def object_name(class_name: str, node: str) -> str:
    """A hash, because both names together may be longer than a name."""
    return f"{PROGRAM}-{sha256(f'{class_name}/{node}'.encode()).hexdigest()[:20]}"


def manager_of(node: str) -> str:
    """This program's field manager and `managed-by`; for copies that keep one node each, one per node.

    A hash, because node names may be longer than either may be.
    """
    return f"{PROGRAM}-{sha256(node.encode()).hexdigest()[:16]}" if node else PROGRAM


def is_created(capacity: CSIStorageCapacity) -> bool:
    """True if a copy of this program created the object."""
    manager = capacity.metadata.labels.get(MANAGED_BY, "")
    return manager == PROGRAM or manager.startswith(f"{PROGRAM}-")


def wanted_objects(
    storage_class: StorageClass,
    found: ClassPools,
    *,
    taken: Collection[str],
    topology_of: Callable[[str], Mapping[str, str]],
) -> list[NewObject]:
    """The objects that a class must have from us. `taken`: the nodes that objects of others reach."""
    if not storage_class.waits_for_consumer:
        return []
    if found.anywhere is not None:
        return [] if taken else [NewObject(storage_class, "", {}, found.anywhere)]
    return [
        NewObject(storage_class, node, topology, pools)
        for node, pools in sorted(found.by_node.items())
        if node not in taken and (topology := topology_of(node))
    ]


def topology_of(
    node: Object, csi_node: CSINode | None, drivers: Iterable[str], labelled: Callable[[str], Collection[Object]]
) -> dict[str, str]:
    """Labels that no other node has: those of the driver's topology, else its hostname; empty if there are none."""
    entries = [] if csi_node is None else [csi_node.driver(driver) for driver in drivers]
    for keys in (*(entry.topology_keys for entry in entries if entry is not None), (HOSTNAME,)):
        labels = {key: node.metadata.labels[key] for key in keys if key in node.metadata.labels}
        alike = [{each.name for each in labelled(f"{key}={value}")} for key, value in labels.items()]
        if labels and len(labels) == len(keys) and set.intersection(*alike) == {node.name}:
            return labels
    return {}


def figures_of(pools: NodePools, keep_free: KeepFree) -> Doc:
    """`capacity` and `maximumVolumeSize`, for schedulers that do not read pools."""
    free = [keep_free.of(each) for each in pools.free_bytes]
    largest = max(free, default=0)
    if pools.largest_bytes is not None:
        largest = min(largest, keep_free.of(pools.largest_bytes))
    total = min(sum(free), _MOST_BYTES)
    return {"capacity": str(Quantity.from_bytes(total)), "maximumVolumeSize": str(Quantity.from_bytes(largest))}


def document_of(
    wanted: NewObject, *, namespace: str, only_node: str, owner: OwnerReference, keep_free: KeepFree
) -> Doc:
    """The whole object, without its annotations."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {
            "name": wanted.name,
            "namespace": namespace,
            "labels": {DRIVER_LABEL: wanted.storage_class.provisioner, MANAGED_BY: manager_of(only_node)},
            "ownerReferences": [to_doc(owner)],
        },
        "storageClassName": wanted.storage_class.name,
        "nodeTopology": {"matchLabels": dict(wanted.topology)} if wanted.topology else {},
        **figures_of(wanted.pools, keep_free),
    }
