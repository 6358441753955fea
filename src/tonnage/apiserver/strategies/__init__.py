"""The strategy of every resource, in one table. A resource without a row here has the base's rules."""

from __future__ import annotations

from tonnage.apiserver.strategies.base import Strategy
from tonnage.apiserver.strategies.csi_driver import CSIDriverStrategy
from tonnage.apiserver.strategies.csi_node import CSINodeStrategy
from tonnage.apiserver.strategies.csi_storage_capacity import CSIStorageCapacityStrategy
from tonnage.apiserver.strategies.node import NodeStrategy
from tonnage.apiserver.strategies.persistent_volume import PersistentVolumeStrategy
from tonnage.apiserver.strategies.persistent_volume_claim import PersistentVolumeClaimStrategy
from tonnage.apiserver.strategies.pod import PodStrategy
from tonnage.apiserver.strategies.storage_class import StorageClassStrategy
from tonnage.apiserver.strategies.volume_attachment import VolumeAttachmentStrategy
from tonnage.gates import Gates
from tonnage.objects.resources import RESOURCES

_TABLE: dict[tuple[str, str], type[Strategy]] = {
    ("", "nodes"): NodeStrategy,
    ("", "persistentvolumeclaims"): PersistentVolumeClaimStrategy,
    ("", "persistentvolumes"): PersistentVolumeStrategy,
    ("", "pods"): PodStrategy,
    ("storage.k8s.io", "csidrivers"): CSIDriverStrategy,
    ("storage.k8s.io", "csinodes"): CSINodeStrategy,
    ("storage.k8s.io", "csistoragecapacities"): CSIStorageCapacityStrategy,
    ("storage.k8s.io", "storageclasses"): StorageClassStrategy,
    ("storage.k8s.io", "volumeattachments"): VolumeAttachmentStrategy,
}


def strategies(gates: Gates) -> dict[tuple[str, str], Strategy]:
    """(group, plural) -> the rules of that resource under these gates."""
    return {
        (row.group, row.plural): _TABLE.get((row.group, row.plural), Strategy)(row, gates) for row in RESOURCES
    }
