"""Which nodes can reach a volume: for one volume, and for all of them at once; and where else it may be rebuilt.

Volumes with equal node affinity share a *reach*, a small number. Covered rows are kept as (row, reach) pairs until the
labels of a node change; `EVERYWHERE` has no pairs. Only labels count: `matchFields` is ignored, like upstream
(CheckNodeAffinity).

A bound in-tree volume uses its CSI driver's topology key on nodes whose CSINode lists the plugin as migrated
(tryTranslatePVToCSI). Free volumes are not translated, like upstream.

KEP-5925 reclassifies a bound claim if its driver rebuilds volumes and its selected-node is out of use. For volumes of
drivers that rebuild (docs/decisions/011):

    affinity               the claim
    ────────               ─────────
    admits one node        is bound; its volume is on that node, whatever selected-node says
    admits no node         is bound, and no node reaches its volume
    admits several nodes   is bound, and goes wherever the affinity admits, while selected-node is in use or missing;
                           is rebuilt on every other node if selected-node is cordoned, out of service or gone
    unset                  needs no room on one node at most, and is rebuilt on every other:
                             attached somewhere                   there
                             tonnage.dev/rebuild-target           there, if it equals selected-node: it is on its way
                             tonnage.dev/volume-home              there
                             else                                 on selected-node; without one, on no node

A selected-node where the volume did not arrive (`VolumePlaces`) does not count. Pods that share a ReadWriteOnce claim
of such a volume stay together: a pod goes where a living pod of the claim is bound, assumed, or nominated before it.
While such a pod has the volume attached to a deleted node, no other pod gets the volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, is_out_of_use
from tonnage.objects.core_v1.pod import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.meta import Key
from tonnage.objects.requirements import NodeSelector, NodeSelectorTerm, Requirement
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster, matching
from tonnage.scheduling.cluster.columns import Ids, Interner, Mask, Rows, row_count, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import AWS_EBS, CINDER, GCE_PD, either, taken_over_by
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes

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
    if any(requirement.key == zone and requirement.values for term in terms for requirement in term.match_expressions):
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
    keys = {requirement.key for term in terms for requirement in term.match_expressions}
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


class VolumePlaces:
    """By volume, the nodes where it did not arrive: `cluster.index(VolumePlaces)`.

    A volume on its way to a node needs no room there, unless it did not arrive: its attachment failed, or its node
    affinity was set elsewhere. A failed arrival is remembered after its VolumeAttachment is deleted, until the volume
    is attached there or has an affinity again.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._storage = cluster.storage
        self._missed: dict[str, set[str]] = {}
        for volume in self._storage.volumes:
            self._volume_changed(None, volume)
        for attachment in self._storage.attachments.values():
            self._attachment_changed(None, attachment)
        self._storage.on_change(VolumeAttachment, self._attachment_changed)
        self._storage.on_change(PersistentVolume, self._volume_changed)

    def is_missed(self, volume_name: str, node_name: str) -> bool:
        """True if the last news about this volume on this node is that it did not arrive."""
        return node_name in self._missed.get(volume_name, ())

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if new is None:
            return
        name, node_name = new.spec.source.persistent_volume_name, new.spec.node_name
        if new.status.attached and name:
            self._missed.get(name, set()).discard(node_name)
        elif new.status.attach_error is not None and name:
            volume = self._storage.volumes.get(name)
            if volume is None or volume.spec.node_affinity.required is None:
                self._missed.setdefault(name, set()).add(node_name)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and new.spec.node_affinity.required is None:
            return
        self._missed.pop(either(old, new).name, None)
        if new is not None and (target := self._missed_by(new)):
            self._missed[new.name] = {target}

    def _missed_by(self, volume: PersistentVolume) -> str:
        """The node that the volume's claim was marked for, if the affinity does not admit it; otherwise empty."""
        owner, required = volume.spec.claim_ref, volume.spec.node_affinity.required
        claim = self._storage.claims.get(owner.key) if owner is not None else None
        if claim is None or required is None or claim.rebuild_target != claim.selected_node:
            return ""
        row = self._cluster.row_of.get(claim.selected_node)
        node = self._cluster.nodes[row] if row is not None else None
        is_there = node is not None and required.matches(node.name, node.metadata.labels)
        return "" if is_there else claim.selected_node


class Rebuild(NamedTuple):
    """A bound claim whose volume may be rebuilt. `row`: the row where it needs no room; -1: no row."""

    claim: PersistentVolumeClaim
    row: int


class RebuildProgress(Enum):
    """How far the rebuild of a volume on a node has come, according to its node affinity."""

    UNDER_WAY = "unset: it has not arrived"
    ARRIVED = "set, and admits the node"
    ELSEWHERE = "set, and does not admit the node"


def rebuilds_of(
    cluster: Cluster, bound: Iterable[tuple[PersistentVolumeClaim, PersistentVolume | None]]
) -> Iterator[Rebuild]:
    """The pod's bound claims that need room on all rows but one."""
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
    """True if the node is gone, cordoned or out of service."""
    row = cluster.row_of.get(node_name)
    return is_out_of_use(cluster.nodes[row] if row is not None else None)


def why_rebuilt(cluster: Cluster, claim: PersistentVolumeClaim) -> str:
    """Why a claim is rebuilt; `claim` is its state before it was sent elsewhere."""
    before, volume = claim.selected_node, cluster.storage.volumes.get(claim.spec.volume_name)
    if not before:
        return "it may move, and no node is selected for it"
    if is_node_out_of_use(cluster, before):
        return f"node {before} is out of use"
    if volume is not None and is_on_its_way(claim, volume):
        return f"it did not arrive on {before}"
    return f"its pod was placed there, and not on {before}"


def is_on_its_way(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """True if a rebuild on the selected node was decided, and the volume has not arrived anywhere yet."""
    is_marked = claim.is_bound and bool(claim.selected_node) and claim.rebuild_target == claim.selected_node
    return is_marked and volume.spec.node_affinity.required is None


def progress_of(cluster: Cluster, volume: PersistentVolume, node_name: str) -> RebuildProgress:
    """How far a rebuild on a node has come. If the node is gone, any affinity counts as arrival."""
    required = volume.spec.node_affinity.required
    if required is None:
        return RebuildProgress.UNDER_WAY
    row = cluster.row_of.get(node_name)
    node = cluster.nodes[row] if row is not None else None
    is_there = node is None or required.matches(node.name, node.metadata.labels)
    return RebuildProgress.ARRIVED if is_there else RebuildProgress.ELSEWHERE


def _home_row(cluster: Cluster, claim: PersistentVolumeClaim, volume: PersistentVolume) -> int:
    """The row where a volume without affinity needs no room; -1 if its node is gone or unknown."""
    selected = claim.selected_node
    attachments = cluster.index(AttachedVolumes).of_volume[volume.name]
    if attached := [attachment.spec.node_name for attachment in attachments if attachment.status.attached]:
        return cluster.row_of.get(selected if selected in attached else min(attached), -1)
    is_missed = not selected or cluster.index(VolumePlaces).is_missed(volume.name, selected)
    if volume.home and (is_missed or not is_on_its_way(claim, volume)):
        return cluster.row_of.get(volume.home, -1)
    return -1 if is_missed else cluster.row_of.get(selected, -1)


def _confined_row(cluster: Cluster, volume: PersistentVolume, selected_node: str) -> int | None:
    """The row of the only node that an affinity admits; -1 if none, None if several. A deleted selected node counts as
    admitted if the affinity names it."""
    rows = np.flatnonzero(reachable(cluster, volume, cluster.all_rows))
    required = volume.spec.node_affinity.required
    if len(rows) == 0 or required is None:
        return -1
    terms = required.node_selector_terms
    named = {value for term in terms for requirement in term.match_expressions for value in requirement.values}
    is_gone = selected_node not in cluster.row_of and selected_node in named
    return int(rows[0]) if len(rows) == 1 and not is_gone else None


_ONE_NODE = "ReadWriteOnce"
_MANY_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def rows_of_sharers(cycle: Cycle, rebuilds: Iterable[Rebuild]) -> Iterator[tuple[Key, frozenset[int]]]:
    """The claims that other pods use, with the rows of those pods: this pod must go to one of them. No rows: a deleted
    node has the volume, and no pod can use it for now."""
    for claim, _ in rebuilds:
        volume = cycle.cluster.storage.volumes.get(claim.spec.volume_name)
        if volume is None:
            continue
        modes = {*claim.spec.access_modes, *volume.spec.access_modes}
        is_of_one_node = _ONE_NODE in claim.spec.access_modes and modes.isdisjoint(_MANY_NODES)
        rows = _rows_of(cycle, claim, volume) if is_of_one_node else frozenset()
        if rows or is_held_on_a_gone_node(cycle.cluster, claim, volume, without=cycle.pod.uid):
            yield claim.key, rows


def _rows_of(cycle: Cycle, claim: PersistentVolumeClaim, volume: PersistentVolume) -> frozenset[int]:
    """The rows that reach the volume and have a living or nominated pod of the claim."""
    rows = cycle.cluster.index(AttachedVolumes).living_rows(claim.key, without=cycle.pod.uid)
    for row, expected in cycle.nominated.items():
        earlier = (pod for pod in expected if not pod.is_terminating and _rank(pod) < _rank(cycle.pod))
        if any(claim.key in pod.claim_keys for pod in earlier):
            rows.add(row)
    return frozenset(row for row in rows if reachable(cycle.cluster, volume, slice(row, row + 1))[0])


def is_held_on_a_gone_node(
    cluster: Cluster, claim: PersistentVolumeClaim, volume: PersistentVolume, *, without: str
) -> bool:
    """True if a living pod of the claim (except uid `without`) has the volume attached to a deleted node."""
    if not _MANY_NODES.isdisjoint((*claim.spec.access_modes, *volume.spec.access_modes)):
        return False
    return any(
        pod.uid != without and not pod.is_terminating and claim.key in pod.claim_keys
        for node in cluster.index(AttachedVolumes).gone_nodes_with(volume.name)
        for pod in cluster.orphans.at(node).values()
    )


def _rank(info: PodInfo) -> tuple[int, datetime, str]:
    """An order in which no two pods wait for each other: priority, age, name."""
    return -info.priority, info.pod.metadata.creation_timestamp or _LONG_AGO, info.key
