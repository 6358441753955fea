"""VolumeRestrictions: disks and claims that only one pod may have.

A claim with the access mode ReadWriteOncePod is taken as soon as any pod on any node mounts it by name. Disks that pods
name themselves, in the words of in-tree plugins, are taken where a resident has them:

    GCE persistent disk, iSCSI target     may be shared as long as everybody only reads
    Ceph RBD image                        the same; it is one image when the pool, the name and any monitor agree
    AWS EBS volume                        is never shared
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from tonnage.objects.core_v1 import Pod, Volume
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Rows, among, row_count
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import NODE_ADD, QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.framework import (
    SKIP,
    Cycle,
    EventHint,
    FilterPlugin,
    Judgement,
    PreFilterPlugin,
    RowAccount,
    Status,
    unresolvable,
)
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.demand import new_claims_of, volume_sign
from tonnage.scheduling.volumes.explain.nearest_miss import Miss, in_use
from tonnage.scheduling.volumes.hints import after_named_claim_change

Disk = tuple[str, ...]
"""A disk by kind and name. An RBD image is one for each of its monitors, so that any in common is enough."""


class MountedDisks:
    """An observer, `cluster.index(MountedDisks)`: disk -> row -> how many mounts, and the same for those that write."""

    def __init__(self, cluster: Cluster) -> None:
        self._mounts: dict[Disk, dict[int, int]] = {}
        self._writers: dict[Disk, dict[int, int]] = {}
        cluster.observe(self)

    def rows_in_conflict(self, pod: Pod) -> set[int]:
        """The rows where a resident mounts a disk of this pod, and one of the two writes."""
        found: set[int] = set()
        for disks, reads_only in disks_of(pod):
            taken = self._writers if reads_only else self._mounts
            for disk in disks:
                found.update(taken.get(disk, ()))
        return found

    def resident_added(self, info: PodInfo, row: int) -> None:
        self._count(info, row, 1)

    def resident_removed(self, info: PodInfo, row: int) -> None:
        self._count(info, row, -1)

    def grown(self, capacity: int) -> None:
        """Nothing here is as long as the table of nodes."""

    def _count(self, info: PodInfo, row: int, more: int) -> None:
        for disks, reads_only in disks_of(info.pod) if info.has_disks else ():
            for disk in disks:
                _add(self._mounts, disk, row, more)
                if not reads_only:
                    _add(self._writers, disk, row, more)


def disks_of(pod: Pod) -> list[tuple[tuple[Disk, ...], bool]]:
    """For each such volume of a pod: the disk, by all its names, and whether it is mounted to read only."""
    return [found for volume in pod.spec.volumes if (found := _disk(volume)) is not None]


def shared_disks(one: Pod, other: Pod) -> list[str]:
    """The disks for which two pods may not be on one node, by name."""
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


def _add(index: dict[Disk, dict[int, int]], disk: Disk, row: int, more: int) -> None:
    rows = index.setdefault(disk, {})
    rows[row] = rows.get(row, 0) + more
    if not rows[row]:
        del rows[row]
        if not rows:
            del index[disk]


_ONE_POD = "ReadWriteOncePod"


class VolumeRestrictions(PreFilterPlugin, FilterPlugin):
    name = "VolumeRestrictions"
    disk_reason = "node(s) had no available disk"
    claim_reason = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
        " already in-use by another pod"
    )

    def indexes(self) -> Iterable[type]:
        return (
            MountedDisks,
            AttachedVolumes,
        )

    def events(self) -> Iterable[EventHint]:
        return (
            (ClusterEvent(EventResource.POD, ActionType.DELETE), _given_back),
            (NODE_ADD, None),
            (ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD), after_named_claim_change),
        )

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable | None:
        return volume_sign(pod, cluster)

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        """A node that comes; a claim that is given back may be of use on any."""
        return row_about(cluster, changed) if event == NODE_ADD else None

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """SKIP when the pod names no disk, and nobody has a claim that it wants for itself."""
        pod = cycle.pod
        if not pod.pod.spec.volumes:
            return SKIP
        if not pod.has_disks and new_claims_of(cycle):
            cycle.state[self.name] = []
            return SKIP
        wanted: list[Key] = []
        claims = cycle.cluster.storage.claims
        for name, key in pod.named_claims:
            claim = claims.get(key)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
            if _ONE_POD in claim.spec.access_modes:
                wanted.append(key)
        cycle.state[self.name] = wanted
        return None if disks_of(pod.pod) or self._is_taken(cycle) else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        bits = np.full(row_count(rows), 2 if self._is_taken(cycle) else 0, dtype=np.int64)
        if disks_of(cycle.pod.pod):
            taken = cycle.cluster.index(MountedDisks).rows_in_conflict(cycle.pod.pod)
            bits[among(taken, rows, cycle.cluster.size)] = 1
        return Judgement(bits, (self.disk_reason, self.claim_reason), unresolvable=False) if bits.any() else None

    def passes_with_fewer_pods(self, cycle: Cycle) -> bool:
        return True

    def nearest_miss(self, cycle: Cycle, row: int, account: RowAccount | None) -> Miss | None:
        """Who has the disk on the row, or the claim wherever that is."""
        cluster = cycle.cluster
        if self.name not in cycle.state:  # PreFilter refused the pod for a claim that is missing
            return None
        taken = [
            f"claim {key} is for one pod (ReadWriteOncePod); {user} on {cluster.name(at)} has it"
            for key in cycle.state[self.name]
            for user, at in cluster.index(AttachedVolumes).users_of(key)
        ]
        if disks_of(cycle.pod.pod):
            taken = [
                f"disk {disk} is in use by {each.key}"
                for each in cluster.residents[row].values()
                for disk in shared_disks(cycle.pod.pod, each.pod)
            ] or taken
        return in_use("; ".join(taken)) if taken else None

    def _is_taken(self, cycle: Cycle) -> bool:
        """Somebody has one of the claims that this pod must have for itself."""
        wanted: list[Key] = cycle.state[self.name]
        return bool(wanted) and any(map(cycle.cluster.index(AttachedVolumes).is_mounted, wanted))


def _given_back(pod: PodInfo, event: ClusterEvent, old: Pod, new: None) -> Hint:
    """A pod of any namespace went that had a disk, or mounted a claim, that this one has too. Upstream forgets other
    namespaces."""
    is_shared = shared_disks(pod.pod, old) or not set(pod.named_claims).isdisjoint(PodInfo(old).named_claims)
    return QUEUE if is_shared else NO_HELP
