"""What there is in a cluster of `tonnage up`, from three sides: its API, its driver's folder, its nodes' folders.

    sight = await look(client, folder, pools)
    assert problems_of(sight) == []          # see `cluster_laws`

The sides are read one after the other, not in one instant: whoever judges a cluster at work looks again before he
believes in a difference. Files are read as they lie there, without asking the programs that wrote them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.client.http import Client
from tonnage.driver.node_pools import PoolId
from tonnage.driver.state.records import VolumeRecord
from tonnage.node.mounts import mount_paths
from tonnage.node.mounts.mount_paths import MountPaths, MountRecord
from tonnage.objects.apps_v1 import Deployment, ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity, VolumeAttachment

_KINDS: Final[dict[str, type[Object]]] = {
    "pods": Pod,
    "claims": PersistentVolumeClaim,
    "volumes": PersistentVolume,
    "attachments": VolumeAttachment,
    "nodes": Node,
    "csi_nodes": CSINode,
    "capacities": CSIStorageCapacity,
    "stateful_sets": StatefulSet,
    "deployments": Deployment,
    "replica_sets": ReplicaSet,
}


@dataclass(frozen=True, kw_only=True)
class NodeFolder:
    """What one node has on its disk: its records of mounts, the pods that have a folder, and where links point."""

    mounts: tuple[MountRecord, ...] = ()
    pod_uids: frozenset[str] = frozenset()
    targets: Mapping[tuple[str, str], Path] = field(default_factory=dict)
    """(uid of a pod, name of a volume) -> the contents that the pod sees there."""
    left_over: tuple[str, ...] = ()
    """Files, links and empty folders in the folders of staged volumes that no record accounts for."""


@dataclass(frozen=True, kw_only=True)
class Sight:
    """Everything. Pools are in bytes, by node; records are the driver's, contents what lies in its pools."""

    pools: Mapping[str, tuple[int, ...]]
    pods: tuple[Pod, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    nodes: tuple[Node, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    capacities: tuple[CSIStorageCapacity, ...] = ()
    stateful_sets: tuple[StatefulSet, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    records: tuple[VolumeRecord, ...] = ()
    contents: Mapping[Path, tuple[PoolId, str]] = field(default_factory=dict)
    folders: Mapping[str, NodeFolder] = field(default_factory=dict)

    def used_bytes(self) -> dict[PoolId, int]:
        """The sum of the volumes in each pool, by the driver's records; pools with nothing in them are there too."""
        used = {PoolId(node, pool): 0 for node, sizes in self.pools.items() for pool in range(len(sizes))}
        for record in self.records:
            used[record.pool_id] = used.get(record.pool_id, 0) + record.capacity_bytes
        return used

    def claims_of(self, pod: Pod) -> list[PersistentVolumeClaim]:
        """The claims that a pod mounts, as far as they are there."""
        by_key = {claim.key: claim for claim in self.claims}
        keys = (f"{pod.namespace}/{name}" for name in pod.claim_names())
        return [by_key[key] for key in keys if key in by_key]


async def look(client: Client, folder: Path, pools: Mapping[str, tuple[int, ...]]) -> Sight:
    """See the cluster in this data folder, whose pools are known. Raises as the client does."""
    # The disks come first: what is made meanwhile is then seen in the API and missed on disk, and looked at again.
    while True:
        try:
            records, contents, folders = await asyncio.to_thread(_look_at_disks, folder, tuple(pools))
            break
        except FileNotFoundError:
            continue  # a folder went while it was looked into
    listed = await asyncio.gather(*(client.list(kind) for kind in _KINDS.values()))
    found: dict[str, Any] = {name: each.items for name, each in zip(_KINDS, listed, strict=True)}
    return Sight(pools=pools, records=records, contents=contents, folders=folders, **found)


def _look_at_disks(
    folder: Path, nodes: tuple[str, ...]
) -> tuple[tuple[VolumeRecord, ...], dict[Path, tuple[PoolId, str]], dict[str, NodeFolder]]:
    state = folder / "driver"
    paths = sorted((state / ".volumes").glob("*.json"))
    records = [msgspec.json.decode(path.read_bytes(), type=VolumeRecord) for path in paths]
    contents = {
        path.absolute(): (PoolId(path.parent.parent.name, int(path.parent.name.removeprefix("pool-"))), path.name)
        for path in state.glob("[!.]*/pool-*/*")
    }
    return tuple(records), contents, {node: _look_at_node(folder / "nodes" / node) for node in nodes}


def _look_at_node(root: Path) -> NodeFolder:
    paths = MountPaths(root)
    mounts = mount_paths.scan(paths)
    targets, accounted = {}, set[Path]()
    for mount in mounts:
        if mount.pod_uid:
            target = paths.target(mount)
            accounted |= {target, paths.record(mount).parent}
            if target.is_symlink():
                targets[mount.pod_uid, mount.name] = target.readlink()
        else:
            accounted |= {paths.staging(mount), paths.record(mount).parent}
    stagings = root / "plugins" / "kubernetes.io" / "csi"
    # What is staged is below a folder for the driver and one for the volume; an empty one is a remain as well.
    left_over = [
        path for path in stagings.glob("*/*/**/*") if _is_leaf(path) and accounted.isdisjoint((path, *path.parents))
    ]
    return NodeFolder(
        mounts=tuple(mounts),
        pod_uids=frozenset(path.name for path in (root / "pods").glob("*")),
        targets=targets,
        left_over=tuple(str(path.relative_to(root)) for path in left_over),
    )


def _is_leaf(path: Path) -> bool:
    return path.is_symlink() or not path.is_dir() or not any(path.iterdir())
