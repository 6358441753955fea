"""Pods that share a ReadWriteOnce claim stay together while their volume's place is open, with KEP-5925's gate.

A volume that one node at a time may have is where the pods are that use it. While its node affinity is set, that holds
them together. While its driver may rebuild it elsewhere (`rebuilds.py`), nothing does, and two pods of one claim on
two nodes wait for each other for ever ("already exclusively attached"). All other volumes are left as upstream has
them: pods of network volumes, and of drivers that do not rebuild, run apart if they can.

A pod of such a volume goes where a living pod of the same claim is

    bound or assumed     it is among the residents of a node
    expected             it is nominated to a node, and comes before this pod: by priority, then by age
    attached, and its    the Node is gone, the pod and its VolumeAttachment are not. Nobody else is given the volume
    node gone            before the pod is deleted (PodGC), and the node may be back before that: this pod waits

A pod that is being deleted does not hold others: they need not wait for what is about to be given back. Nor does one on
a node from which the volume cannot be reached, or one that never had it on a node that is gone: it does not have the
volume, and never will. Claims that many nodes may have, and claims without a volume (those have a selected node to keep
to), are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.migrated_affinity import reachable
from tonnage.scheduling.volumes.rebuilds import Rebuild

_ONE_NODE = "ReadWriteOnce"
_MANY_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def rows_of_sharers(cycle: Cycle, rebuilds: Iterable[Rebuild]) -> Iterator[tuple[Key, frozenset[int]]]:
    """The claims that others have in use, each with the rows on which they do: this pod has to go to one of them.

    `rebuilds`: the pod's claims whose volumes may be rebuilt elsewhere. No row at all: a node that is gone has the
    volume, and nobody gets it for now.
    """
    for claim, _ in rebuilds:
        volume = cycle.cluster.storage.volumes.get(claim.spec.volume_name)
        if volume is None:
            continue
        rows = _rows_of(cycle, claim, volume) if is_of_one_node(claim, volume) else frozenset()
        if rows or is_held_on_a_gone_node(cycle.cluster, claim, volume, without=cycle.pod.uid):
            yield claim.key, rows


def _rows_of(cycle: Cycle, claim: PersistentVolumeClaim, volume: PersistentVolume) -> frozenset[int]:
    """The rows where the volume can be reached and a pod of the claim lives, or is expected."""
    rows = cycle.cluster.index(AttachedVolumes).living_rows(claim.key, without=cycle.pod.uid)
    for row, expected in cycle.nominated.items():
        if any(_is_before(each, cycle.pod) and claim.key in each.claim_keys for each in expected):
            rows.add(row)
    return frozenset(row for row in rows if reachable(cycle.cluster, volume, slice(row, row + 1))[0])


def is_held_on_a_gone_node(
    cluster: Cluster, claim: PersistentVolumeClaim, volume: PersistentVolume, *, without: str
) -> bool:
    """Whether a living pod of a claim, not the one of a uid, has the volume attached to a node that is gone.

    Of a claim that one pod at a time may have (ReadWriteOncePod) too: who counts its pods sees those on nodes.
    """
    if not _MANY_NODES.isdisjoint((*claim.spec.access_modes, *volume.spec.access_modes)):
        return False
    return any(
        each.uid != without and not each.is_terminating and claim.key in each.claim_keys
        for node in cluster.index(AttachedVolumes).gone_nodes_with(volume.name)
        for each in cluster.orphans.get(node, {}).values()
    )


def is_of_one_node(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether one node at a time may have the volume: nothing else was asked for, and it offers nothing else."""
    modes = {*claim.spec.access_modes, *volume.spec.access_modes}
    return _ONE_NODE in claim.spec.access_modes and modes.isdisjoint(_MANY_NODES)


def _is_before(other: PodInfo, pod: PodInfo) -> bool:
    """An order in which no two pods wait for each other: priority, age, name."""
    return not other.is_terminating and _rank(other) < _rank(pod)


def _rank(info: PodInfo) -> tuple[int, datetime, str]:
    return -info.priority, info.pod.metadata.creation_timestamp or _LONG_AGO, info.key
