"""Who needs a volume, and where: from pods through their claims to volumes, and back.

    pod ──mounts──► claim ──bound to──► volume
     └─ spec.nodeName: where it is needed

A claim that was lost or deleted meanwhile does not take the volume away from pods that have it; new ones do not get it.
"""

from __future__ import annotations

from collections.abc import Collection

from tonnage.client.informers import Informers
from tonnage.controllers.lookup import Lookup, claim_keys, is_over
from tonnage.controllers.volumes.attach_detach_plan import needs_attaching
from tonnage.controllers.volumes.claim_matching import is_made_for
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIDriver


class VolumeUsers:
    """Pods by the attachable volume they need."""

    def __init__(self, informers: Informers) -> None:
        pods = informers.of(Pod)
        self._claims = informers.of(PersistentVolumeClaim)
        self._drivers = informers.of(CSIDriver)
        self._pods_of = Lookup(pods, claim_keys)
        self._pods_on = Lookup(pods, lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())

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
            and not is_over(pod)
            and (is_bound or pod.spec.node_name in holders)
            and (claim is None or _is_claim_of(claim, pod))
        ]
        return sorted(users, key=lambda pod: (str(pod.metadata.creation_timestamp), pod.key))

    def needed_by(self, pod: Pod) -> list[str]:
        """The names of the volumes that a pod with a node mounts."""
        if not pod.spec.node_name:
            return []
        claims = (self._claims.get(key) for key in claim_keys(pod))
        return [claim.spec.volume_name for claim in claims if claim is not None and claim.spec.volume_name]

    def needed_on(self, node: str) -> set[str]:
        """The names of the volumes that the pods of a node mount."""
        return {name for pod in self._pods_on(node) for name in self.needed_by(pod)}


def _is_bound_to(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return claim.status.phase == "Bound" and claim.spec.volume_name == volume.name


def _is_claim_of(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether the pod means this claim: by name, or as the one made for it."""
    return any(
        volume.claim_name(pod.name) == claim.name and (volume.ephemeral is None or is_made_for(claim, pod))
        for volume in pod.spec.volumes
    )
