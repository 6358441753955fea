"""Which pods need a volume, and on which node: from pods through their claims to volumes, and back.

    pod ──mounts──► claim ──bound to──► volume
     └─ spec.nodeName: where it is needed

A claim that was lost or deleted meanwhile does not take the volume away from pods that have it; new ones do not get it.
"""

from __future__ import annotations

from collections.abc import Collection

from tonnage.behaviour.volumes.attach_detach_plan import needs_attaching
from tonnage.client.cache import Indexer
from tonnage.client.informers import InformerFactory
from tonnage.controllers.index_functions import claims_of_pod, node_of_pod
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIDriver


class VolumeUsers:
    """Pods by the attachable volume they need."""

    def __init__(self, informers: InformerFactory) -> None:
        pods = informers.of(Pod)
        self._claims = informers.of(PersistentVolumeClaim)
        self._drivers = informers.of(CSIDriver)
        self._pods_of = Indexer(pods, claims_of_pod)
        self._pods_on = Indexer(pods, node_of_pod)

    def of(self, volume: PersistentVolume, holders: Collection[str]) -> list[Pod]:
        """The pods that need a volume on their node, the oldest first; `holders` are the nodes that have it."""
        owner, source = volume.spec.claim_ref, volume.spec.csi
        if owner is None or source is None or not needs_attaching(volume, self._drivers.get(source.driver)):
            return []
        claim = self._claims.get(owner.key)
        is_bound = claim is not None and claim.uid == owner.uid and _is_bound_to(claim, volume)
        users = [
            pod
            for pod in self._pods_of(owner.key)
            if pod.spec.node_name
            and not is_pod_terminated(pod)
            and (is_bound or pod.spec.node_name in holders)
            and (claim is None or _is_claim_of(claim, pod))
        ]
        return sorted(users, key=lambda pod: (str(pod.metadata.creation_timestamp), pod.key))

    def needed_by(self, pod: Pod) -> list[str]:
        """The names of the volumes that a pod with a node mounts."""
        if not pod.spec.node_name:
            return []
        claims = (self._claims.get(key) for key in claims_of_pod(pod))
        return [claim.spec.volume_name for claim in claims if claim is not None and claim.spec.volume_name]

    def needed_on(self, node: str) -> set[str]:
        """The names of the volumes that the pods of a node mount."""
        return {name for pod in self._pods_on(node) for name in self.needed_by(pod)}


def is_pod_terminated(pod: Pod) -> bool:
    """The pod needs its volumes no more: it has ended, or it is being deleted and none of its containers runs.

    Mirrors upstream's IsPodTerminated: a container without a status does not run.
    """
    if pod.is_terminal:
        return True
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return pod.metadata.is_terminating and not any(
        each.state.terminated is None and each.state.waiting is None for each in statuses
    )


def _is_bound_to(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return claim.status.phase == "Bound" and claim.spec.volume_name == volume.name


def _is_claim_of(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether the pod means this claim: by name, or as the one made for it."""
    return any(
        volume.claim_name(pod.name) == claim.name and (volume.ephemeral is None or claim.is_for_pod(pod))
        for volume in pod.spec.volumes
    )
