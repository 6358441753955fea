"""Which nodes can reach a volume: for one volume, and for many volumes and all nodes at once.

Volumes with equal node affinity share a *reach*, a small number. Covered rows are kept as (row, reach) pairs until the
labels of a node change; `EVERYWHERE` has no pairs. Only labels count: `matchFields` is ignored, like upstream
(CheckNodeAffinity).

A bound in-tree volume uses its CSI driver's topology key on nodes whose CSINode lists the plugin as migrated
(tryTranslatePVToCSI). Free volumes are not translated, like upstream.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.core_v1.node import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.node_selectors import NodeSelector, NodeSelectorTerm
from tonnage.objects.requirements import Requirement
from tonnage.scheduling.cluster.cluster import Cluster, matching
from tonnage.scheduling.cluster.columns import Ids, Interner, Mask, Rows, row_count, row_numbers
from tonnage.scheduling.volumes.attach.volume_ids import AWS_EBS, CINDER, GCE_PD, taken_over_by

RowNumbers = npt.NDArray[np.intp]
EVERYWHERE: Final = 0
"""The reach of a volume without node affinity."""


def affinity_of(volume: PersistentVolume) -> NodeSelector | None:
    """The label requirements of a volume on its nodes; None: none. `matchFields` is ignored, see above."""
    affinity = volume.spec.node_affinity.required
    if affinity is None or not any(term.match_fields for term in affinity.node_selector_terms):
        return affinity
    terms = affinity.node_selector_terms
    if any(term.match_fields and not term.match_expressions for term in terms):
        return None  # a term without requirements matches every node, and one matching term is enough
    return NodeSelector(
        node_selector_terms=tuple(NodeSelectorTerm(match_expressions=term.match_expressions) for term in terms)
    )


class Reaches:
    """The reaches of volumes, by number. A number is valid while it is held."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._affinities: Interner[NodeSelector | None] = Interner()
        self._affinities.id_of(None)  # EVERYWHERE, for good
        self._held: set[int] = set()  # without EVERYWHERE
        self._fresh: set[int] = set()  # held, but not in the pairs yet
        self._rows: RowNumbers = np.zeros(0, dtype=np.intp)
        self._reaches: Ids = np.zeros(0, dtype=np.int32)
        self._as_of = (0, 0)

    def __len__(self) -> int:
        """All numbers are below this."""
        return len(self._affinities)

    def hold(self, volume: PersistentVolume) -> int:
        """The number of a volume's reach, valid until it is released as often as it was held."""
        number = self._affinities.hold(affinity_of(volume))
        if number != EVERYWHERE and number not in self._held:
            self._held.add(number)
            self._fresh.add(number)
        return number

    def release(self, number: int) -> None:
        affinity = self._affinities.things[number]
        self._affinities.release(number)
        if self._affinities.find(affinity) is None:
            self._held.discard(number)
            self._fresh.discard(number)

    def pairs(self, rows: Rows) -> tuple[RowNumbers, Ids]:
        """The covering reaches: positions in `rows`, and for each a reach. EVERYWHERE is left out."""
        self._refresh()
        if isinstance(rows, slice) and row_count(rows) == self._cluster.size:
            return self._rows, self._reaches
        place = np.full(self._cluster.size, -1, dtype=np.intp)
        place[rows] = np.arange(row_count(rows))
        places = place[self._rows]
        is_asked = places >= 0
        return places[is_asked], self._reaches[is_asked]

    def _refresh(self) -> None:
        """Add the pairs of new reaches; of all reaches after the labels of any node changed."""
        cluster = self._cluster
        as_of = cluster.labels.tick, cluster.size
        if as_of != self._as_of:
            self._as_of = as_of
            self._fresh = set(self._held)
        if not self._fresh:
            return
        is_fresh = np.zeros(len(self), dtype=np.bool_)
        is_fresh[list(self._fresh)] = True
        is_kept = ~is_fresh[self._reaches]
        rows, reaches = [self._rows[is_kept]], [self._reaches[is_kept]]
        for number in self._fresh:
            affinity = self._affinities.things[number]
            assert affinity is not None  # EVERYWHERE is never fresh
            covered = np.flatnonzero(matching(cluster, affinity, cluster.all_rows))
            rows.append(covered)
            reaches.append(np.full(len(covered), number, dtype=np.int32))
        self._rows, self._reaches = np.concatenate(rows), np.concatenate(reaches)
        self._fresh.clear()


MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: in-tree plugins that CSI drivers replace there, separated by commas."""
_TOPOLOGY: Final = {
    AWS_EBS: ("kubernetes.io/aws-ebs", "topology.ebs.csi.aws.com/zone"),
    GCE_PD: ("kubernetes.io/gce-pd", "topology.gke.io/zone"),
    CINDER: ("kubernetes.io/cinder", "topology.cinder.csi.openstack.org/zone"),
}


def reachable(cluster: Cluster, volume: PersistentVolume, rows: Rows) -> Mask:
    """A mask over `rows`: True where the node can reach the volume. Without node affinity all can."""
    required = affinity_of(volume)
    found = matching(cluster, required, rows) if required is not None else np.ones(row_count(rows), dtype=np.bool_)
    old = _TOPOLOGY.get(taken_over_by(volume.spec))
    if old is None:
        return found
    plugin, key = old
    translated = _translated(volume, key)
    if translated != required and translated is not None:
        is_taken_over = [_says(cluster, row, plugin) for row in row_numbers(rows).tolist()]
        found = np.where(is_taken_over, matching(cluster, translated, rows), found)
    return found


def reaches(cluster: Cluster, volume: PersistentVolume, row: int) -> bool:
    return bool(reachable(cluster, volume, slice(row, row + 1))[0])


def _says(cluster: Cluster, row: int, plugin: str) -> bool:
    csi_node = cluster.storage.csi_nodes.get(cluster.name(row))
    return csi_node is not None and plugin in csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def _translated(volume: PersistentVolume, key: str) -> NodeSelector | None:
    """The volume's node affinity with the driver's topology key."""
    required = affinity_of(volume)
    terms = required.node_selector_terms if required is not None else ()
    zone, region = _labels_used(terms, volume)
    if any(each.key == zone and each.values for term in terms for each in term.match_expressions):
        terms = _renamed(terms, zone, key)
    elif zone in volume.metadata.labels:
        zones = {each.strip() for each in volume.metadata.labels[zone].split("__")} - {""}
        wanted = Requirement(key=key, operator="In", values=tuple(sorted(zones)))
        terms = tuple(
            msgspec.structs.replace(term, match_expressions=(*term.match_expressions, wanted))
            for term in terms or (NodeSelectorTerm(),)
        )
    if region == BETA_REGION:
        terms = _renamed(terms, BETA_REGION, REGION)
    return NodeSelector(node_selector_terms=terms) if terms else None


def _labels_used(terms: tuple[NodeSelectorTerm, ...], volume: PersistentVolume) -> tuple[str, str]:
    """The zone and region labels that the volume uses, current or old; its affinity decides before its labels."""
    keys = {each.key for term in terms for each in term.match_expressions}
    for spoken in (keys, volume.metadata.labels.keys()):
        if ZONE in spoken:
            return ZONE, REGION
        if BETA_ZONE in spoken:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _renamed(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        msgspec.structs.replace(
            term,
            match_expressions=tuple(
                msgspec.structs.replace(each, key=new) if each.key == old else each for each in term.match_expressions
            ),
        )
        for term in terms
    )
