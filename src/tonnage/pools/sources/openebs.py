"""The local drivers of OpenEBS: LVM LocalPV (`LVMNode` objects) and ZFS LocalPV (`ZFSNode` objects).

LVM: the driver's node agent writes one LVMNode per node, owned by the Node, on every change. A class names its groups
by `volgroup` or `vgpattern`, both Go regular expressions (the first between ^ and $); with neither, all groups.

    thick    the node agent chooses the group with the *least* free space that is enough: best-fit. (GetCapacity and the
             driver's own scheduler look at the largest.)
    thin     `thinProvision: "yes"`. What counts is the free space of the thin pool NAME_thinpool, or of the group if
             there is none yet. Among several groups the driver takes the one with the least free space *of the group*,
             whether or not its thin pool has any: the result cannot be predicted.

Left out, because lvcreate fails there: groups with a missing disk, read-only groups, groups with as many volumes as
they may have, and two different groups of one name.

ZFS: a ZFSNode is named after the node's id (its label openebs.io/nodeid, else its name) and owned by the Node. A class
names one pool by `poolname`, which may be a dataset below it (`tank/k8s`; a quota on it is not seen), or several by the
Go regular expression `poolpattern`. The class's `scheduler` chooses among several: `SpaceWeighted` the one with the
most free space; others the one with the least data or the fewest volumes, which free space does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import StorageClass
from tonnage.objects.texts.go_regexp import GoRegexp, InvalidPattern, compile_go
from tonnage.pools import reading
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, PoolSource, Published

DRIVER: Final = "local.csi.openebs.io"
LVM_NODES: Final = Resource("local.openebs.io", "v1alpha1", "LVMNode", "lvmnodes", True, ("lvmnode",))
_READ_ONLY: Final = 1
"""`permissions` of a group: -1 not known, 0 writeable, 1 read-only."""


class OpenEbsLvm(PoolSource):
    name = "openebs-lvm"
    drivers = (DRIVER,)
    kinds = (LVM_NODES,)
    has_agent = True

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        parameters = reading.parameters_of(storage_class)
        volgroup, vgpattern = parameters.get("volgroup"), parameters.get("vgpattern", "")
        try:
            pattern = compile_go(vgpattern if volgroup is None else f"^{volgroup}$")
        except InvalidPattern as exc:
            field = "vgpattern" if volgroup is None else "volgroup"
            return ClassPools(problems=(f"parameters.{field}: {exc.message}",))
        is_thin = parameters.get("thinprovision", "").strip() == "yes"
        problems: list[str] = []
        by_node = {
            node: NodePools(tuple(_pools(doc, pattern, is_thin=is_thin, problems=problems)), reading.written_at(doc))
            for node, doc in reading.newest_by_node(published.objects, problems).items()
        }
        return ClassPools.of(by_node, "unknown" if is_thin else "best-fit", problems)


def _pools(doc: Doc, pattern: GoRegexp, *, is_thin: bool, problems: list[str]) -> Iterable[Pool]:
    node, by_name = reading.node_of(doc), dict[str, dict[str, Mapping[str, Any]]]()
    for group in reading.records(doc, "volumeGroups"):
        name = reading.text_of(group.get("name"))
        if name and pattern.search(name):
            by_name.setdefault(name, {})[reading.text_of(group.get("uuid"))] = group
    for name, groups in by_name.items():
        if len(groups) > 1:
            problems.append(f"node {node} has {len(groups)} volume groups named {name}: LVM makes no volume in either")
            continue
        uuid, group = next(iter(groups.items()))
        reason = _why_not(group)
        if reason:
            problems.append(f"volume group {name} of node {node} {reason}: no volume can be made in it")
            continue
        pools = {reading.text_of(pool.get("name")): pool for pool in reading.records(dict(group), "thinPools")}
        thin_pool = pools.get(f"{name}_thinpool") if is_thin else None  # once it is made, its free space counts
        free = reading.bytes_of((group if thin_pool is None else thin_pool).get("free"))
        if free is None:
            problems.append(f"volume group {name} of node {node} does not say how much is free")
            continue
        # A thin pool has its bytes already, and shares none with volumes beside it; its group does until it is made.
        yield Pool(uuid or name if thin_pool is None else f"{uuid or name}/{thin_pool['name']}", free)


def _why_not(group: Mapping[str, Any]) -> str:
    """Why LVM creates no volume in a group; empty if it does."""
    if reading.number_of(group.get("missingPvCount")) > 0:
        return "misses a physical volume"
    if reading.number_of(group.get("permissions")) == _READ_ONLY:
        return "is read-only"
    most = reading.number_of(group.get("maxLv"))
    return f"has as many volumes as it may have ({most})" if 0 < most <= reading.number_of(group.get("lvCount")) else ""


ZFS_DRIVER: Final = "zfs.csi.openebs.io"
ZFS_NODES: Final = Resource("zfs.openebs.io", "v1", "ZFSNode", "zfsnodes", True, ("zfsnode",))
NODE_ID: Final = "openebs.io/nodeid"


class OpenEbsZfs(PoolSource):
    name = "openebs-zfs"
    drivers = (ZFS_DRIVER,)
    kinds = (ZFS_NODES,)
    has_agent = True

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        parameters = reading.parameters_of(storage_class)
        poolname, poolpattern = parameters.get("poolname", ""), parameters.get("poolpattern", "")
        if poolname and poolpattern:
            return ClassPools(problems=("parameters: poolname and poolpattern exclude one another; set one of them",))
        if not poolname and not poolpattern:
            return ClassPools(problems=("parameters: neither poolname nor poolpattern is set",))
        try:
            pattern = compile_go(poolpattern or f"^{re.escape(poolname.partition('/')[0])}$")
        except InvalidPattern as exc:
            return ClassPools(problems=(f"parameters.poolpattern: {exc.message}",))
        ids = {reading.labels_of(node).get(NODE_ID, ""): reading.name_of(node) for node in published.nodes}
        problems: list[str] = []
        by_node = {
            node: NodePools(tuple(_zfs_pools(doc, node, pattern, problems)), reading.written_at(doc))
            for node, doc in reading.newest_by_node(published.objects, problems, ids).items()
        }
        policy = "most-free" if parameters.get("scheduler") == "SpaceWeighted" else "unknown"
        return ClassPools.of(by_node, policy, problems)


def _zfs_pools(doc: Doc, node: str, pattern: GoRegexp, problems: list[str]) -> Iterable[Pool]:
    seen: set[str] = set()
    for pool in reading.records(doc, "pools"):
        name, uuid, free = (
            reading.text_of(pool.get("name")),
            reading.text_of(pool.get("uuid")),
            reading.bytes_of(pool.get("free")),
        )
        identity = uuid or name
        if not name or identity in seen or not pattern.search(name):
            continue
        seen.add(identity)
        if free is None:
            problems.append(f"pool {name} of node {node} does not say how much is free")
            continue
        yield Pool(identity, free)
