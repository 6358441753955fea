"""VolumeRestrictions and VolumeZone: disks and claims for one pod only, and volumes of one zone or region.

A ReadWriteOncePod claim is taken if any pod on any node mounts it by name. In-tree disks that pods name themselves are
taken where a resident has them:

    GCE persistent disk, iSCSI target     may be shared as long as all pods only read
    Ceph RBD image                        the same; images are equal if pool, name and any monitor agree
    AWS EBS volume                        is never shared

A volume with zone or region labels is usable only there. A node passes if it has, for each such label of the pod's
volumes, one of the label's values; `a__b` is a list, and a malformed one is ignored. A node's new label may answer an
old one (`failure-domain.beta.kubernetes.io/…`) of a volume. A node without such labels passes. Only bound claims that
pods mount by name count. Texts of refusals are upstream's (VolumeZone.getPVbyPod).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

import numpy as np

from tonnage.objects.core_v1 import PersistentVolume, Pod, Volume
from tonnage.objects.core_v1.pod import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.meta import Key
from tonnage.objects.requirements import Requirement
from tonnage.scheduling import framework
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Mask, Rows, row_count, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.events import NODE_ADD, QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.plugins.pod_and_node import reach_of_row
from tonnage.scheduling.volumes import demand, hints
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.explain.account_entries import Miss, elsewhere, in_use

Disk = tuple[str, ...]
"""A disk by kind and name. An RBD image has one for each monitor, so that a common one is enough."""


def disks_of(pod: Pod) -> list[tuple[tuple[Disk, ...], bool]]:
    """For each in-tree disk of a pod: all its names, and whether it is mounted read-only."""
    return [found for volume in pod.spec.volumes if (found := _disk(volume)) is not None]


def shared_disks(one: Pod, other: Pod) -> list[str]:
    """The names of the disks that keep two pods from sharing a node."""
    theirs = disks_of(other)
    mounted = {disk for disks, _ in theirs for disk in disks}
    written = {disk for disks, only_read in theirs if not only_read for disk in disks}
    return [
        disks[0][-1]
        for disks, reads_only in disks_of(one)
        if not (written if reads_only else mounted).isdisjoint(disks)
    ]


def _disk(volume: Volume) -> tuple[tuple[Disk, ...], bool] | None:
    if volume.gce_persistent_disk is not None:
        return (("gce", volume.gce_persistent_disk.pd_name),), volume.gce_persistent_disk.read_only
    if volume.aws_elastic_block_store is not None:
        return (("aws", volume.aws_elastic_block_store.volume_id),), False
    if volume.iscsi is not None:
        return (("iscsi", volume.iscsi.iqn),), volume.iscsi.read_only
    if volume.rbd is not None:
        image = volume.rbd
        names: Iterable[str] = dict.fromkeys(image.monitors)
        return tuple([("rbd", monitor, image.pool, image.image) for monitor in names]), image.read_only
    return None


_ONE_POD = "ReadWriteOncePod"


class VolumeRestrictions(framework.PreFilterPlugin, framework.FilterPlugin):
    name = "VolumeRestrictions"
    disk_reason = "node(s) had no available disk"
    claim_reason = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
        " already in-use by another pod"
    )

    def indexes(self) -> Iterable[type]:
        return (AttachedVolumes,)

    def events(self) -> Iterable[framework.EventHint]:
        return (
            (ClusterEvent(EventResource.POD, ActionType.DELETE), _given_back),
            (NODE_ADD, None),
            (ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD), hints.after_named_claim_change),
        )

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable | None:
        return demand.volume_sign(pod, cluster)

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        """The row of a new node; a claim that becomes free may help on any node."""
        return row_about(cluster, changed) if event == NODE_ADD else None

    def pre_filter(self, cycle: framework.Cycle) -> framework.Status | None:
        """SKIP if the pod names no disk, and no other pod uses a claim that it needs exclusively."""
        pod = cycle.pod
        if not pod.pod.spec.volumes:
            return framework.SKIP
        wanted: list[Key] = []
        claims = cycle.cluster.storage.claims
        for name, key in pod.named_claims:
            claim = claims.get(key)
            if claim is None:
                return framework.unresolvable(f'persistentvolumeclaim "{name}" not found')
            if _ONE_POD in claim.spec.access_modes:
                wanted.append(key)
        cycle.state[self.name] = wanted
        return None if disks_of(pod.pod) or self._is_taken(cycle) else framework.SKIP

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        bits = np.full(row_count(rows), 2 if self._is_taken(cycle) else 0, dtype=np.int64)
        if disks_of(cycle.pod.pod):  # rare by now: no index of them is kept
            for place, row in enumerate(row_numbers(rows).tolist()):
                if any(self._shared_with(cycle, resident) for resident in cycle.cluster.residents[row].values()):
                    bits[place] = 1
        return (
            framework.Judgement(bits, (self.disk_reason, self.claim_reason), unresolvable=False) if bits.any() else None
        )

    def passes_with_fewer_pods(self, cycle: framework.Cycle) -> bool:
        return True

    def nearest_miss(self, cycle: framework.Cycle, row: int, account: framework.RowAccount | None) -> Miss | None:
        """The pods that use the disk on the row, or the claim anywhere."""
        cluster = cycle.cluster
        if self.name not in cycle.state:  # PreFilter refused the pod for a missing claim
            return None
        taken = [
            f"claim {key} is for one pod (ReadWriteOncePod); {user} on {cluster.name(at)} has it"
            for key in cycle.state[self.name]
            for user, at in cluster.index(AttachedVolumes).users_of(key)
        ]
        if disks_of(cycle.pod.pod):
            taken = [
                f"disk {disk} is in use by {pod.key}"
                for pod in cluster.residents[row].values()
                for disk in self._shared_with(cycle, pod)
            ] or taken
        return in_use("; ".join(taken)) if taken else None

    def _shared_with(self, cycle: framework.Cycle, resident: PodInfo) -> list[str]:
        return shared_disks(cycle.pod.pod, resident.pod) if resident.has_disks else []

    def _is_taken(self, cycle: framework.Cycle) -> bool:
        """True if another pod uses a claim that this pod needs exclusively."""
        wanted: list[Key] = cycle.state[self.name]
        return bool(wanted) and any(map(cycle.cluster.index(AttachedVolumes).users_of, wanted))


def _given_back(pod: PodInfo, event: ClusterEvent, old: Pod, new: None) -> Hint:
    """A pod that shared a disk or claim with this pod went, in any namespace. Upstream forgets other namespaces."""
    is_shared = shared_disks(pod.pod, old) or not set(pod.named_claims).isdisjoint(PodInfo(old).named_claims)
    return QUEUE if is_shared else NO_HELP


_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_NEW_NAMES: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_DELIMITER: Final = "__"
Place = tuple[str, frozenset[str]]
"""(label key, the values a node may have)"""


class VolumeZone(framework.PreFilterPlugin, framework.FilterPlugin):
    name = "VolumeZone"
    reach = reach_of_row
    reason = "node(s) had no available volume zone"

    def events(self) -> Iterable[framework.EventHint]:
        add_or_update = ActionType.ADD | ActionType.UPDATE
        return (
            # Only a WaitForFirstConsumer class lets a pod go on without a volume.
            (
                ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD),
                lambda pod, event, old, new: QUEUE if new.waits_for_consumer else NO_HELP,
            ),
            (ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), None),
            (ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, add_or_update), hints.after_named_claim_change),
            (
                ClusterEvent(EventResource.PERSISTENT_VOLUME, add_or_update),
                lambda pod, event, old, new: NO_HELP if old and _places_of(old) == _places_of(new) else QUEUE,
            ),
        )

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable | None:
        return demand.volume_sign(pod, cluster)

    def pre_filter(self, cycle: framework.Cycle) -> framework.Status | None:
        """Collect the zones and regions of the pod's volumes. SKIP if none has such labels."""
        if not cycle.pod.has_claims:
            return framework.SKIP
        places: dict[Place, None] = {}
        for name, key in cycle.pod.named_claims:
            found = _volume_of(key, name, cycle.cluster.storage)
            if isinstance(found, framework.Status):
                return found
            if found is not None:
                places.update(dict.fromkeys(_places_of(found)))
        if not places:
            return framework.SKIP
        cycle.state[self.name] = tuple(places)
        return None

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        places: tuple[Place, ...] = cycle.state[self.name]
        is_elsewhere = np.zeros(row_count(rows), dtype=np.bool_)
        for key, values in places:
            is_elsewhere |= ~_has_any(cycle.cluster, key, values, rows)
        if not is_elsewhere.any():
            return None
        meets = cycle.cluster.labels.meets
        is_elsewhere &= np.any([meets(Requirement(key=key, operator="Exists"), rows) for key in _LABELS], axis=0)
        return framework.refuse(is_elsewhere, self.reason, unresolvable=True)

    def passes_with_fewer_pods(self, cycle: framework.Cycle) -> bool:
        return True

    def nearest_miss(self, cycle: framework.Cycle, row: int, account: framework.RowAccount | None) -> Miss | None:
        """The volumes in another zone or region than the row, with both places."""
        if self.name not in cycle.state:  # PreFilter refused the pod for a missing claim
            return None
        here, told = slice(row, row + 1), []
        for name, key in cycle.pod.named_claims:
            volume = _volume_of(key, name, cycle.cluster.storage)
            if not isinstance(volume, PersistentVolume):
                continue
            for label, values in _places_of(volume):
                if not _has_any(cycle.cluster, label, values, here)[0]:
                    kind = "zone" if label in (ZONE, BETA_ZONE) else "region"
                    where = f"{kind} {' or '.join(sorted(values))}"
                    told.append(
                        f"volume {volume.name} is in {where}, this node in {_label_at(cycle, label, kind, row)}"
                    )
        return elsewhere("; ".join(dict.fromkeys(told))) if told else None


def _volume_of(key: str, name: str, storage: Storage) -> PersistentVolume | framework.Status | None:
    """The volume that a claim is or should be bound to; None while it waits for this decision."""
    if not name:
        return framework.unresolvable("PersistentVolumeClaim had no name")
    claim = storage.claims.get(key)
    if claim is None:
        return framework.unresolvable(f'persistentvolumeclaim "{name}" not found')
    volume_name = claim.spec.volume_name
    if volume_name:
        return storage.volumes.get(volume_name) or framework.unresolvable(f'persistentvolume "{volume_name}" not found')
    class_name = claim.class_name
    if not class_name:
        return framework.unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = storage.classes.get(class_name)
    if storage_class is None:
        return framework.unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
    return None if storage_class.waits_for_consumer else framework.unresolvable("PersistentVolume had no name")


def _places_of(volume: PersistentVolume) -> list[Place]:
    """The zones and regions in a volume's labels."""
    places = []
    for key in _LABELS:
        text = volume.metadata.labels.get(key)
        if text is not None:
            values = frozenset(value.strip() for value in text.split(_DELIMITER))
            if "" not in values:
                places.append((key, values))
    return places


def _has_any(cluster: Cluster, key: str, values: frozenset[str], rows: Rows) -> Mask:
    """A mask over `rows`: True if the label has one of the values; if an old label is missing, the new one counts."""
    is_right = cluster.labels.meets(Requirement(key=key, operator="In", values=tuple(values)), rows)
    if key in _NEW_NAMES:
        is_missing = cluster.labels.meets(Requirement(key=key, operator="DoesNotExist"), rows)
        is_right = is_right | (is_missing & _has_any(cluster, _NEW_NAMES[key], values, rows))
    return is_right


def _label_at(cycle: framework.Cycle, label: str, kind: str, row: int) -> str:
    """The zone or region of a row, as text."""
    node = cycle.cluster.nodes[row]
    labels = node.metadata.labels if node is not None else {}
    value = labels.get(label, labels.get(_NEW_NAMES.get(label, label)))
    return f"no {kind}" if value is None else f"{kind} {value}"
