"""Which claims are ours to make volumes for. Pure; mirrors shouldProvision of the library and ShouldProvision."""

from __future__ import annotations

from typing import Final

from tonnage.objects.core_v1 import STORAGE_PROVISIONER, PersistentVolumeClaim
from tonnage.objects.storage_v1 import StorageClass

BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"


def provisioner_of(claim: PersistentVolumeClaim) -> str:
    """Who shall make the volume, as the binder wrote on the claim; empty while it has not."""
    annotations = claim.metadata.annotations
    return annotations.get(STORAGE_PROVISIONER, annotations.get(BETA_STORAGE_PROVISIONER, ""))


def is_for(claim: PersistentVolumeClaim, driver: str) -> bool:
    """Whether the claim wants a volume of this driver. A claim that names a volume, bound or not, wants none.

    Being deleted is no reason to leave it: an earlier try may have made a volume that only another try can find.
    """
    return not claim.spec.volume_name and provisioner_of(claim) == driver


def is_due(claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
    """Whether its time has come: a class that waits for a consumer needs the node that was selected for it.

    The binder asks for a provisioner only then; but the choice may have been taken back since.
    """
    return bool(claim.selected_node) or not storage_class.waits_for_consumer
