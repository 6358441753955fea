"""HwameiStor's LVM driver: one LocalStorageNode per node, with a pool per disk class, written by the node's agent.

A class names its pool by `poolClass` (HDD, SSD, NVMe) and its copies by `replicaNumber`. Two checks must pass: the
controller's `predicate` (member/controller/scheduler/resources.go) and the agent's (member/node/storage/validator.go):

    thick    the size, in extents of 4Mi, is at most freeCapacityBytes
    thin     `thin: "true"`: at most int(thinPool.size * overProvisionRatio) - thinPool.totalProvisionedSize
    both     at most volumeCapacityBytesLimit, and as many volumes as freeVolumeCount; only Ready nodes

With several copies the pod's node has one, and all volumes of a pod have theirs on the same other nodes
(LocalVolumeGroup): the room of a node is at most that of the roomiest others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage.objects.document import dig
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, PoolSource, Published
from tonnage.pools.reading import bytes_of, copies_of, newest_by_node, number_of, text_of, written_at

STORAGE_NODES: Final = Resource("hwameistor.io", "v1alpha1", "LocalStorageNode", "localstoragenodes", False, ("lsn",))
_DISK_CLASSES: Final = ("HDD", "SSD", "NVMe")


class HwameiStor(PoolSource):
    name = "hwameistor"
    drivers = ("lvm.hwameistor.io",)
    kinds = (STORAGE_NODES,)
    has_agent = True

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        parameters = storage_class.parameters
        disk_class, copies = parameters.get("poolClass", ""), copies_of(parameters.get("replicaNumber"))
        if disk_class not in _DISK_CLASSES:
            return ClassPools(
                problems=(f'parameters.poolClass "{disk_class}" is not one of {", ".join(_DISK_CLASSES)}',)
            )
        if copies is None:
            told = parameters.get("replicaNumber", "")
            return ClassPools(problems=(f'parameters.replicaNumber "{told}" is not a number of replicas',))
        is_thin = parameters.get("thin", "").lower() == "true"
        name, problems = f"LocalStorage_Pool{disk_class}", list[str]()
        by_node = {}
        for node, doc in newest_by_node(published.objects, problems).items():
            pool = dig(doc, "status", "pools", name) if dig(doc, "status", "state") == "Ready" else None
            found = _pool(name, pool, is_thin=is_thin) if isinstance(pool, dict) else ()
            if found is None:
                problems.append(f"pool {name} of node {node} does not say how much is free")
                continue
            limit = bytes_of(dig(doc, "status", "pools", name, "volumeCapacityBytesLimit"))
            count = max(number_of(dig(doc, "status", "pools", name, "freeVolumeCount")), 0)
            by_node[node] = NodePools(found, written_at(doc), limit, count if found else None)
        if copies > 1:
            by_node = {node: _with_copies(node, by_node, copies) for node in by_node}
        return ClassPools.of(by_node, "", problems, copies=copies)


def _pool(name: str, pool: Mapping[str, Any], *, is_thin: bool) -> tuple[Pool, ...] | None:
    """The one pool of a disk class; empty if it takes no volume, None if it does not say how much is free."""
    if number_of(pool.get("freeVolumeCount")) <= 0:
        return ()
    if not is_thin:
        free = bytes_of(pool.get("freeCapacityBytes"))
        return None if free is None else (Pool(name, free),)
    thin = pool.get("thinPool")
    if not isinstance(thin, dict):
        return ()
    try:
        ratio = float(text_of(thin.get("overProvisionRatio")))
        most = int(float(number_of(thin.get("size"))) * ratio)
    except (ValueError, OverflowError):
        return None
    return (Pool(f"{name}/thin", max(most - number_of(thin.get("totalProvisionedSize")), 0)),)


def _with_copies(node: str, by_node: Mapping[str, NodePools], copies: int) -> NodePools:
    """A node's room for volumes with copies: at most what the roomiest `copies - 1` other nodes all have."""
    others = sorted((sum(each.free_bytes) for name, each in by_node.items() if name != node), reverse=True)
    most = others[copies - 2] if len(others) >= copies - 1 else 0
    return by_node[node].cut_to(most)
