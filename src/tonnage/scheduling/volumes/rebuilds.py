"""Which bound volumes may be made anew on another node, where each needs no room, and how far a rebuild has come.

KEP-5925 reclassifies a bound claim when its driver rebuilds volumes and the node that was selected for it is cordoned
or gone. From then until the driver confines the volume to its new node, three things are known about it:

    selected-node    the node that was decided for last
    the mark         tonnage.dev/rebuild-target, written with selected-node: that decision was a rebuild
    node affinity    unset while the volume may move; set again by the driver where it has arrived (KEP-5381)

and they are read like this:

    affinity            selected-node        mark               the claim
    ────────            ─────────────        ────               ─────────
    admits one node     any                  any                is bound; its volume is on that node: home needs no room
    admits no node      any                  any                is bound, and nowhere within reach
    unset               any                  = selected-node    is on its way there: no room needed there, unless it did
                                                                not arrive (`attach/missed_targets.py`: refused, or
                                                                elsewhere meanwhile); needed on every other node
    otherwise           takes pods           not so             is bound, and goes wherever the affinity admits
    otherwise           cordoned or gone     not so             is rebuilt on every node but that one

The mark is never taken off: it says something only while it equals selected-node and the affinity is unset. What is
decided for an unmarked volume is the KEP's letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

import numpy as np

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.attach.missed_targets import MissedTargets
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes
from tonnage.scheduling.volumes.migrated_affinity import reachable


class Rebuild(NamedTuple):
    """A bound claim whose volume may be made anew; `row` is where it needs no room to be, -1 for nowhere."""

    claim: PersistentVolumeClaim
    row: int


class Progress(Enum):
    """How far the rebuild of a volume on a node has come, by its node affinity."""

    UNDER_WAY = "unset: it has not arrived"
    ARRIVED = "set, and admits the node"
    ELSEWHERE = "set, and does not admit the node"


def rebuilds_of(
    cluster: Cluster, bound: Iterable[tuple[PersistentVolumeClaim, PersistentVolume | None]]
) -> Iterator[Rebuild]:
    """Those of a pod's bound claims that are judged by capacity, on all rows but one."""
    storage = cluster.storage
    for claim, volume in bound:
        of_class = storage.classes.get(claim.class_name)
        if of_class is None or volume is None or not claim.selected_node:
            continue
        if not rebuilds_volumes(storage.drivers.get(of_class.provisioner)):
            continue
        row = cluster.row_of.get(claim.selected_node, -1)
        if is_on_its_way(claim, volume):
            is_missed = cluster.index(MissedTargets).has(volume.name, claim.selected_node)
            yield Rebuild(claim, -1 if is_missed else row)
        elif (row < 0 or cluster.unschedulable.item(row)) and _may_move(cluster, volume, claim.selected_node):
            yield Rebuild(claim, row)


def is_on_its_way(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether a rebuild on the claim's selected node was decided, and the volume has not arrived anywhere yet."""
    is_marked = claim.is_bound and bool(claim.selected_node) and claim.rebuild_target == claim.selected_node
    return is_marked and volume.spec.node_affinity.required is None


def progress_of(cluster: Cluster, volume: PersistentVolume, node_name: str) -> Progress:
    """How far a rebuild on a node has come. Where the node is gone, an affinity that is set counts as arrival."""
    required = volume.spec.node_affinity.required
    if required is None:
        return Progress.UNDER_WAY
    row = cluster.row_of.get(node_name)
    node = cluster.nodes[row] if row is not None else None
    is_there = node is None or required.matches(node.name, node.metadata.labels)
    return Progress.ARRIVED if is_there else Progress.ELSEWHERE


def _may_move(cluster: Cluster, volume: PersistentVolume, selected_node: str) -> bool:
    """Whether the affinity admits another node than the one that the volume is on.

    Where it admits one node alone, the volume is there; but a node that is gone counts as admitted if it is named.
    """
    required = volume.spec.node_affinity.required
    if required is None:
        return True
    admitted = int(np.count_nonzero(reachable(cluster, volume, cluster.all_rows)))
    if admitted != 1:
        return admitted > 1
    named = {value for term in required.node_selector_terms for each in term.match_expressions for value in each.values}
    return selected_node not in cluster.row_of and selected_node in named
