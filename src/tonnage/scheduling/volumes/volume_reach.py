"""Which nodes can reach a volume: for one volume, and for many volumes and all nodes at once.

Volumes with equal node affinity share a *reach*, a small number. Covered rows are kept as (row, reach) pairs, updated
on demand; `EVERYWHERE` has no pairs. Only labels count: `matchFields` is ignored, like upstream (CheckNodeAffinity).

A bound in-tree volume uses its CSI driver's topology key on nodes whose CSINode lists the plugin as migrated
(tryTranslatePVToCSI). Free volumes are not translated, like upstream.
"""

from __future__ import annotations

from collections.abc import Iterator
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
        self._fresh: set[int] = set()  # held, but not in the pairs yet
        self._by_label: dict[tuple[str, str], set[int]] = {}  # reaches with a term that requires this label
        self._loose: set[int] = set()  # reaches with a term that requires no particular label
        self._rows: RowNumbers = np.zeros(0, dtype=np.intp)
        self._reaches: Ids = np.zeros(0, dtype=np.int32)
        self._seen = cluster.node_changes.tick

    def __len__(self) -> int:
        """All numbers are below this."""
        return len(self._affinities)

    def hold(self, volume: PersistentVolume) -> int:
        """The number of a volume's reach, valid until it is released as often as it was held."""
        affinity = affinity_of(volume)
        is_new = self._affinities.find(affinity) is None
        number = self._affinities.hold(affinity)
        if affinity is not None and is_new:
            self._fresh.add(number)
            for wanted in _wanted_labels(affinity):
                if wanted is None:
                    self._loose.add(number)
                else:
                    self._by_label.setdefault(wanted, set()).add(number)
        return number

    def release(self, number: int) -> None:
        affinity = self._affinities.things[number]
        self._affinities.release(number)
        if affinity is None or self._affinities.find(affinity) is not None:
            return
        self._fresh.discard(number)
        self._loose.discard(number)
        for wanted in _wanted_labels(affinity):
            if wanted is not None and number in (sharing := self._by_label.get(wanted, set())):
                sharing.remove(number)
                if not sharing:
                    del self._by_label[wanted]

    def pairs(self, rows: Rows) -> tuple[RowNumbers, Ids]:
        """The covering reaches: positions in `rows`, and for each a reach. EVERYWHERE is left out."""
        self._refresh()
        if isinstance(rows, slice):
            if row_count(rows) == self._cluster.size:
                return self._rows, self._reaches
            is_asked = (self._rows >= rows.start) & (self._rows < rows.stop)
            return self._rows[is_asked] - rows.start, self._reaches[is_asked]
        place = np.full(self._cluster.size, -1, dtype=np.intp)
        place[rows] = np.arange(len(rows))
        places = place[self._rows]
        is_asked = places >= 0
        return places[is_asked], self._reaches[is_asked]

    # -- updating the pairs -------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        changes = self._cluster.node_changes
        changed = changes.since(self._seen, self._cluster.size)
        if not self._fresh and not row_count(changed):
            return
        self._seen = changes.tick
        # Match rows against their few reaches, or reaches against all rows: whichever are fewer.
        if row_count(changed) < self._affinities.held:
            changed_rows = row_numbers(changed)
        else:
            changed_rows = np.zeros(0, dtype=np.intp)
            self._fresh.update(self._held())
        rows, reaches = self._kept(changed_rows)
        # A new reach and a changed row may both add the same pair; a duplicate does no harm.
        for number in self._fresh:
            covered = self._covered(number)
            rows.append(covered)
            reaches.append(np.full(len(covered), number, dtype=np.int32))
        for row in changed_rows.tolist():
            found = list(self._covering(row))
            rows.append(np.full(len(found), row, dtype=np.intp))
            reaches.append(np.array(found, dtype=np.int32))
        self._rows, self._reaches = np.concatenate(rows), np.concatenate(reaches)
        self._fresh.clear()

    def _kept(self, changed_rows: RowNumbers) -> tuple[list[RowNumbers], list[Ids]]:
        """The pairs that are still valid: their reach is not new and their row has not changed."""
        is_fresh = np.zeros(len(self), dtype=np.bool_)
        is_fresh[list(self._fresh)] = True
        is_changed = np.zeros(self._cluster.size, dtype=np.bool_)
        is_changed[changed_rows] = True
        still = ~(is_fresh[self._reaches] | is_changed[self._rows])
        return [self._rows[still]], [self._reaches[still]]

    def _held(self) -> Iterator[int]:
        for number, affinity in enumerate(self._affinities.things):
            if affinity is not None and self._affinities.find(affinity) == number:
                yield number

    def _covered(self, number: int) -> RowNumbers:
        affinity = self._affinities.things[number]
        assert affinity is not None  # EVERYWHERE is never fresh
        return np.flatnonzero(matching(self._cluster, affinity, self._cluster.all_rows))

    def _covering(self, row: int) -> Iterator[int]:
        """The reaches that cover one row."""
        node = self._cluster.nodes[row]
        if node is None:
            return
        labels = node.metadata.labels
        candidates = self._loose.union(*(self._by_label.get(each, ()) for each in labels.items()))
        for number in candidates:
            affinity = self._affinities.things[number]
            if affinity is not None and affinity.matches("", labels):
                yield number


def _wanted_labels(affinity: NodeSelector) -> Iterator[tuple[str, str] | None]:
    """For each term, labels of which a node must have one; None for a term without such labels."""
    for term in affinity.node_selector_terms:
        one_of = next((each for each in term.match_expressions if each.operator == "In"), None)
        if one_of is None:
            yield None
        else:
            yield from ((one_of.key, value) for value in one_of.values)


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
    """`reachable` for one row, without arrays; binding asks it about the chosen node."""
    node = cluster.nodes[row]
    if node is None or _TOPOLOGY.get(taken_over_by(volume.spec)) is not None:
        return bool(reachable(cluster, volume, slice(row, row + 1))[0])
    required = affinity_of(volume)
    return required is None or required.matches(node.name, node.metadata.labels)


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
