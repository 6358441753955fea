"""Disks of the in-tree plugins that two pods of one node must not share, by who mounts them where.

    GCE persistent disk, iSCSI target     may be shared as long as everybody only reads
    Ceph RBD image                        the same; it is one image when the pool, the name and any monitor agree
    AWS EBS volume                        is never shared

Few pods name a disk themselves, so this is a sparse index like that of host ports.
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.objects.core_v1 import Pod, Volume
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo

Disk = tuple[str, ...]
"""A disk by kind and name. An RBD image is one for each of its monitors, so that any in common is enough."""


class MountedDisks:
    """An observer of a cluster: disk -> row -> how many mounts, and the same for those that write.

    `Cluster.index(MountedDisks)` is the one of a cluster.
    """

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


def do_conflict(one: Pod, other: Pod) -> bool:
    """Whether two pods may not be on one node for a disk they share."""
    return bool(shared_disks(one, other))


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
