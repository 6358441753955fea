"""Which bound volumes may be made anew on another node, where each needs no room, and how far a rebuild has come.

KEP-5925 reclassifies a bound claim when its driver rebuilds volumes and the node that was selected for it is out of
use. The letter leaves holes; what is known of a volume closes them:

    selected-node    the node that was decided for last: the volume's home, if nothing below says otherwise
    the mark         tonnage.dev/rebuild-target, written with selected-node: that decision was a rebuild
    node affinity    unset while the volume may move; set again by the driver where it has arrived (KEP-5381)
    its place        where it is attached (`attach/volume_places.py`); else what its driver said of it when it unset the
                     affinity (tonnage.dev/volume-home)

They are read like this, for volumes of drivers that rebuild:

    affinity               the claim
    ────────               ─────────
    admits one node        is bound; its volume is on that node, whatever selected-node says: home needs no room
    admits no node         is bound, and nowhere within reach
    admits several nodes   is bound, and goes wherever the affinity admits, while selected-node is in use or missing;
                           is rebuilt on every node but that one when it is cordoned, out of service or gone
    unset                  needs no room on one node at most, and is rebuilt on every other:
                             attached somewhere          there
                             mark = selected-node        there: it is on its way, and the room was promised to it
                             its driver told its home    there
                             else                        on selected-node; without one, on no node

    A selected-node where it did not arrive (`attach/missed_targets.py`: refused, or elsewhere since) does not count.

Whether the one node takes pods is for other filters to say: if its home is cordoned, and the pod tolerates that, the
pod may go there, and its volume stays where it is. The mark is never taken off: it says something only while it equals
selected-node and the affinity is unset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

import numpy as np

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, is_out_of_use
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.attach.missed_targets import MissedTargets
from tonnage.scheduling.volumes.attach.volume_places import VolumePlaces
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes
from tonnage.scheduling.volumes.migrated_affinity import reachable


class Rebuild(NamedTuple):
    """A bound claim whose volume may be made anew; `row` is where it needs no room to be, -1 for nowhere."""

    claim: PersistentVolumeClaim
    row: int


class RebuildProgress(Enum):
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
        if of_class is None or volume is None or not rebuilds_volumes(storage.drivers.get(of_class.provisioner)):
            continue
        selected = claim.selected_node
        if volume.spec.node_affinity.required is None:
            yield Rebuild(claim, _home_row(cluster, claim, volume))
        elif selected and is_node_out_of_use(cluster, selected) and _confined_row(cluster, volume, selected) is None:
            yield Rebuild(claim, cluster.row_of.get(selected, -1))


def is_node_out_of_use(cluster: Cluster, node_name: str) -> bool:
    """Whether the node of this name is gone, cordoned or out of service."""
    row = cluster.row_of.get(node_name)
    return is_out_of_use(cluster.nodes[row] if row is not None else None)


def why_rebuilt(cluster: Cluster, claim: PersistentVolumeClaim) -> str:
    """Why a claim, as it was before it was sent elsewhere, is rebuilt."""
    before, volume = claim.selected_node, cluster.storage.volumes.get(claim.spec.volume_name)
    if not before:
        return "it may move, and no node is selected for it"
    if is_node_out_of_use(cluster, before):
        return f"node {before} is out of use"
    if volume is not None and is_on_its_way(claim, volume):
        return f"it did not arrive on {before}"
    return f"its pod was placed there, and not on {before}"


def is_on_its_way(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether a rebuild on the claim's selected node was decided, and the volume has not arrived anywhere yet."""
    is_marked = claim.is_bound and bool(claim.selected_node) and claim.rebuild_target == claim.selected_node
    return is_marked and volume.spec.node_affinity.required is None


def progress_of(cluster: Cluster, volume: PersistentVolume, node_name: str) -> RebuildProgress:
    """How far a rebuild on a node has come. Where the node is gone, an affinity that is set counts as arrival."""
    required = volume.spec.node_affinity.required
    if required is None:
        return RebuildProgress.UNDER_WAY
    row = cluster.row_of.get(node_name)
    node = cluster.nodes[row] if row is not None else None
    is_there = node is None or required.matches(node.name, node.metadata.labels)
    return RebuildProgress.ARRIVED if is_there else RebuildProgress.ELSEWHERE


def _home_row(cluster: Cluster, claim: PersistentVolumeClaim, volume: PersistentVolume) -> int:
    """The row where a volume without affinity needs no room; -1 if its node is gone or not known."""
    selected = claim.selected_node
    if attached := cluster.index(VolumePlaces).attached_to(volume.name):
        return cluster.row_of.get(selected if selected in attached else min(attached), -1)
    is_missed = not selected or cluster.index(MissedTargets).has(volume.name, selected)
    if volume.home and (is_missed or not is_on_its_way(claim, volume)):
        return cluster.row_of.get(volume.home, -1)
    return -1 if is_missed else cluster.row_of.get(selected, -1)


def _confined_row(cluster: Cluster, volume: PersistentVolume, selected_node: str) -> int | None:
    """The row of the one node that a set affinity admits, -1 if it admits none; None if it admits several.

    A selected node that is gone counts as admitted if the affinity names it.
    """
    rows = np.flatnonzero(reachable(cluster, volume, cluster.all_rows))
    required = volume.spec.node_affinity.required
    if len(rows) == 0 or required is None:
        return -1
    terms = required.node_selector_terms
    named = {value for term in terms for each in term.match_expressions for value in each.values}
    is_gone = selected_node not in cluster.row_of and selected_node in named
    return int(rows[0]) if len(rows) == 1 and not is_gone else None
