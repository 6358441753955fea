"""OpenEBS ZFS LocalPV: pools of a node, from `ZFSNode` objects (zfs.openebs.io/v1).

A ZFSNode is named by the node's id (its label openebs.io/nodeid, else its name) and owned by the Node. A class names
one pool by `poolname`, which may be a dataset below it (`tank/k8s`; a quota on it is not seen), or several by
`poolpattern`, a regular expression of Go.

Which of several is taken follows the class's `scheduler`: with `SpaceWeighted` the one with the most room. Otherwise it
is the one with the least in it, or the fewest volumes, which nobody can tell from their free room.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import StorageClass
from tonnage.objects.texts.go_regexp import GoRegexp, InvalidPattern, compile_go
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, PoolSource, Published
from tonnage.pools.reading import (
    bytes_of,
    labels_of,
    name_of,
    newest_by_node,
    parameters_of,
    records,
    text_of,
    written_at,
)

DRIVER: Final = "zfs.csi.openebs.io"
ZFS_NODES: Final = Resource("zfs.openebs.io", "v1", "ZFSNode", "zfsnodes", True, ("zfsnode",))
NODE_ID: Final = "openebs.io/nodeid"


class OpenEbsZfs(PoolSource):
    """`--source openebs-zfs`."""

    name = "openebs-zfs"
    drivers = (DRIVER,)
    kind = ZFS_NODES
    has_agent = True

    def names_of(self, node: Doc) -> tuple[str, ...]:
        return tuple(dict.fromkeys((name_of(node), labels_of(node).get(NODE_ID, name_of(node)))))

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        parameters = parameters_of(storage_class)
        poolname, poolpattern = parameters.get("poolname", ""), parameters.get("poolpattern", "")
        if poolname and poolpattern:
            return ClassPools(problems=("parameters: poolname and poolpattern exclude one another; set one of them",))
        if not poolname and not poolpattern:
            return ClassPools(problems=("parameters: neither poolname nor poolpattern is set",))
        try:
            pattern = compile_go(poolpattern or f"^{re.escape(poolname.partition('/')[0])}$")
        except InvalidPattern as exc:
            return ClassPools(problems=(f"parameters.poolpattern: {exc.message}",))
        ids = {labels_of(node).get(NODE_ID, ""): name_of(node) for node in published.nodes}
        problems: list[str] = []
        by_node = {
            node: NodePools(tuple(_pools(doc, node, pattern, problems)), written_at(doc))
            for node, doc in newest_by_node(published.objects, problems, ids).items()
        }
        has_choice = any(len(found.pools) > 1 for found in by_node.values())
        policy = "most-free" if parameters.get("scheduler") == "SpaceWeighted" else "unknown"
        return ClassPools(by_node, policy if has_choice else "", tuple(dict.fromkeys(problems)))


def _pools(doc: Doc, node: str, pattern: GoRegexp, problems: list[str]) -> Iterable[Pool]:
    seen: set[str] = set()
    for pool in records(doc, "pools"):
        name, uuid, free = text_of(pool.get("name")), text_of(pool.get("uuid")), bytes_of(pool.get("free"))
        identity = uuid or name
        if not name or identity in seen or not pattern.search(name):
            continue
        seen.add(identity)
        if free is None:
            problems.append(f"pool {name} of node {node} does not say how much is free")
            continue
        yield Pool(identity, free)
