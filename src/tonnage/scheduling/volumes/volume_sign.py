"""What plugins that judge volumes see of a pod: equal for pods whose claims ask for the same and are nobody's yet.

    data-0: 20Gi of class fast, not bound     ┐ one sign: whatever refuses one of the pods
    data-1: 20Gi of class fast, not bound     ┘ on a node refuses the other there
    data-2: bound to volume pv-2                 a pod like no other

A claim that is bound or on its way, has a volume kept for it, is going away, is lost, or is mounted by a pod on a node
tells its pod from all others: where it may go depends on where that is. All of this changes by events about the claim,
its volume or a pod that mounts it, after which the pod is signed anew (queue/waking.py).
"""

from __future__ import annotations

from collections.abc import Hashable

from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo, fingerprint
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.static_volumes import StaticVolumes


def volume_sign(pod: PodInfo, cluster: Cluster, *, by_class_alone: bool = False) -> Hashable | None:
    """The sign; None for a pod like no other. With `by_class_alone`, the size and so on of claims is left out."""
    found: list[Hashable] = []
    names: dict[str, int] = {}
    for volume in pod.pod.spec.volumes:
        name = volume.claim_name(pod.pod.name)
        if name is None:
            found.append(fingerprint(volume))
            continue
        key = f"{pod.namespace}/{name}"
        claim = cluster.storage.claims.get(key)
        if claim is not None and _is_like_no_other(claim, pod, cluster, is_ephemeral=volume.ephemeral is not None):
            return None
        # Which of its claims it is: one that is mounted twice is not two.
        place = names.setdefault(name, len(names))
        asked = None if claim is None else (claim.class_name, None if by_class_alone else fingerprint(claim.spec))
        found.append((place, fingerprint(volume.ephemeral), asked))
    return tuple(found)


def _is_like_no_other(claim: PersistentVolumeClaim, pod: PodInfo, cluster: Cluster, *, is_ephemeral: bool) -> bool:
    if claim.spec.volume_name or claim.selected_node or claim.metadata.is_terminating or claim.status.phase == "Lost":
        return True
    if is_ephemeral and not claim.is_for_pod(pod.pod):
        return True
    if cluster.has_index(StaticVolumes) and cluster.index(StaticVolumes).is_kept_for(claim):
        return True
    return cluster.has_index(AttachedVolumes) and bool(cluster.index(AttachedVolumes).users_of(claim.key))
