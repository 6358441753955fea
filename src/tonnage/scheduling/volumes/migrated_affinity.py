"""Where a disk of the old in-tree plugins can be reached, once its CSI driver has taken over on a node.

Such a volume names its zones by Kubernetes' own labels, in its node affinity or on itself; the driver's nodes name them
by the driver's topology key. On a node whose CSINode says that the plugin was taken over, the volume is read in the
driver's words; on any other node as it stands. Mirrors tryTranslatePVToCSI and what it does to topologies: EBS, GCE and
Cinder disks have some to translate, the others do not.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.core_v1.node import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.node_selectors import NodeSelector, NodeSelectorTerm
from tonnage.objects.requirements import Requirement
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Mask, Rows, row_count, row_numbers
from tonnage.scheduling.cluster.node_matching import matching
from tonnage.scheduling.volumes.migrated_plugins import AWS_EBS, CINDER, GCE_PD, taken_over_by
from tonnage.scheduling.volumes.volume_reach import affinity_of

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: the in-tree plugins, with commas between them, that CSI drivers have taken over there."""

_TOPOLOGY: Final = {
    AWS_EBS: ("kubernetes.io/aws-ebs", "topology.ebs.csi.aws.com/zone"),
    GCE_PD: ("kubernetes.io/gce-pd", "topology.gke.io/zone"),
    CINDER: ("kubernetes.io/cinder", "topology.cinder.csi.openstack.org/zone"),
}


def reachable(cluster: Cluster, volume: PersistentVolume, rows: Rows) -> Mask:
    """From which of these rows can a volume be reached? One without node affinity from all of them."""
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
    """The same about one row, by the rules for one node: bindings ask this of the node that was chosen."""
    node = cluster.nodes[row]
    if node is None or _TOPOLOGY.get(taken_over_by(volume.spec)) is not None:
        return bool(reachable(cluster, volume, slice(row, row + 1))[0])
    required = affinity_of(volume)
    return required is None or required.matches(node.name, node.metadata.labels)


def _says(cluster: Cluster, row: int, plugin: str) -> bool:
    csi_node = cluster.storage.csi_nodes.get(cluster.name(row))
    return csi_node is not None and plugin in csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def _translated(volume: PersistentVolume, key: str) -> NodeSelector | None:
    """The volume's node affinity in the driver's words."""
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
    """Whether the volume speaks of zones by the labels of today or of old; its affinity goes before its labels."""
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
