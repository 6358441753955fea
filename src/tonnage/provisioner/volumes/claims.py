"""Which claims are ours to make volumes for. Pure; mirrors shouldProvision of the library and ShouldProvision.

The last word on a claim, written on it when it is a refusal that room does not cure.

A scheduler keeps room back for a volume until it is made. For one that cannot be made it would do so for good: so it is
told, by an annotation of the claim (`objects/core_v1/provisioning_refusals.py`), which goes when another word is said.
"""

from __future__ import annotations

from typing import Final

from tonnage import logs
from tonnage.client.http import Client
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import STORAGE_PROVISIONER, PersistentVolumeClaim
from tonnage.objects.core_v1.provisioning_refusals import PROVISIONING_REFUSED, is_for_good, refusal_text
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


_log = logs.logger("tonnage.provisioner")


class RefusedClaims:
    """Writes the annotation, once for each refusal, and removes it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def failed(self, claim: PersistentVolumeClaim, told: str) -> None:
        """An attempt failed with these words. Trouble here is logged only: the event says the same."""
        await self._write(claim, refusal_text(claim, told) if is_for_good(told) else None)

    async def made(self, claim: PersistentVolumeClaim) -> None:
        """The claim has its volume after all."""
        await self._write(claim, None)

    async def _write(self, claim: PersistentVolumeClaim, text: str | None) -> None:
        if claim.metadata.annotations.get(PROVISIONING_REFUSED) == text:
            return
        patch = {"metadata": {"uid": claim.uid, "annotations": {PROVISIONING_REFUSED: text}}}
        try:
            await self._client.patch(PersistentVolumeClaim, claim.key, patch)
        except TonnageError as exc:
            _log.info("The last word on a claim could not be written", claim=claim.key, error=exc.message)
