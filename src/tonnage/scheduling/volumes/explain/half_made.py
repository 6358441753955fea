"""A pod that is stuck half-made: a volume was made for it on a node that has no room for the others. One sentence.

    0/3 nodes are available: … Claim shop/data has a new volume on node-1 that no pod uses, and no room for shop/log is
    left there: if nothing was written to it, delete shop/data (kubectl delete pvc -n shop data), and the pod may go
    elsewhere.

A volume counts as new if it was made after its pod was created; no pod on a node has its claim, and it is attached
nowhere. A pod that a controller made anew finds volumes that are older than itself, and those may have contents:
nothing is said of them. Objects tell their age in whole seconds, and a pod that shared the claim may have ended: so the
sentence leaves it to people whether something was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.demand import Demand
from tonnage.scheduling.volumes.migrated_affinity import reachable

_SENTENCE = re.compile(r"Claims? \S+ .*?that no pod uses.*?and the pod may go elsewhere\.")


def half_made(cluster: Cluster, pod: PodInfo, demand: Demand, full_rows: npt.NDArray[np.intp]) -> str:
    """The sentence about a pod that fits nowhere; empty when it is not half-made. `full_rows` lack room."""
    waiting = [claim.key for claim in (*demand.pinned, *demand.loose)]
    if not waiting or len(full_rows) != 1:
        return ""
    row = int(full_rows[0])
    unused = list(_unused(cluster, pod, demand, row))
    if not unused:
        return ""
    names, node = " and ".join(unused), cluster.name(row)
    deletions = "; ".join(f"kubectl delete pvc -n {key.split('/')[0]} {key.split('/')[1]}" for key in unused)
    has, it = ("Claim {} has a new volume", "it") if len(unused) == 1 else ("Claims {} have new volumes", "them")
    return (
        f"{has.format(names)} on {node} that no pod uses, and no room for {', '.join(waiting)} is left there: "
        f"if nothing was written to {it}, delete {names} ({deletions}), and the pod may go elsewhere."
    )


def half_made_in(message: str) -> str:
    """The sentence out of a pod's whole message; empty when it has none."""
    found = _SENTENCE.search(message)
    return found.group() if found is not None else ""


def _unused(cluster: Cluster, pod: PodInfo, demand: Demand, row: int) -> Iterator[Key]:
    """The pod's bound claims that keep it on a row though no pod uses their new volumes."""
    for claim, volume in demand.bound:
        if volume is not None and _is_only_on(cluster, volume, row) and _is_unused(cluster, pod, claim, volume):
            yield claim.key


def _is_only_on(cluster: Cluster, volume: PersistentVolume, row: int) -> bool:
    reached = np.flatnonzero(reachable(cluster, volume, cluster.all_rows) & cluster.exists[: cluster.size])
    return reached.tolist() == [row]


def _is_unused(cluster: Cluster, pod: PodInfo, claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    made_at, pod_at = volume.metadata.creation_timestamp, pod.pod.metadata.creation_timestamp
    if made_at is None or pod_at is None or made_at < pod_at or claim.metadata.is_terminating:
        return False
    if cluster.index(AttachedVolumes).users_of(claim.key):
        return False
    return all(each.spec.source.persistent_volume_name != volume.name for each in cluster.storage.attachments.values())
