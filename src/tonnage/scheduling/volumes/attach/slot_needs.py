"""What pods whose volumes are all to be made need of an event, and what events have of it: slots of a driver on a node.

    needs of a pod     {csi.slow: 3}                   of its drivers the one that the fewest nodes have slots for
    offer of a node    {csi.slow: 0, csi.fast: 21}     how many more volumes of each driver may be attached there

A pod may bring volumes of several drivers and has to find slots for all of them on one node, so that one driver's are
needed whatever the others take. A volume that somebody mounts already takes no slot where that is: pods that share a
claim with one on a node are not counted (`volume_sign`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

import numpy as np

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.attach.volume_ids import id_of_claim
from tonnage.scheduling.volumes.volume_sign import volume_sign


def needs_of_new_volumes(pod: PodInfo, cluster: Cluster) -> Mapping[Hashable, int] | None:
    """A driver, and the slots that the pod's claims take of it; None when some claim is not there or not new."""
    if volume_sign(pod, cluster) is None:
        return None
    view = cluster.index(AttachedVolumes)
    view.catch_up()
    counts: Counter[str] = Counter()
    for key in dict.fromkeys(pod.claim_keys):
        claim = cluster.storage.claims.get(key)
        if claim is None:
            return None
        if (found := id_of_claim(claim, cluster.storage)) is not None:
            if view.rows_with(found):
                return None
            counts[found.driver] += 1
    if not counts:
        return None
    rows = cluster.exists[: cluster.size]

    def nodes_with(driver: str) -> int:
        free = view.limits.limits(driver)[: cluster.size] - view.used(driver)[: cluster.size]
        return int(np.count_nonzero((free >= counts[driver]) & rows))

    scarcest = min(sorted(counts), key=nodes_with)
    return {scarcest: counts[scarcest]}


def slots_at(cluster: Cluster, row: int) -> Mapping[Hashable, int]:
    """By driver that was ever asked about, how many more volumes a node may have."""
    view = cluster.index(AttachedVolumes)
    view.catch_up()
    return {
        driver: limits.item(row) - view.used(driver).item(row) for driver, limits in view.limits.by_driver().items()
    }
