"""The last word on a claim, written on it when it is a refusal that room does not cure.

A scheduler keeps room back for a volume until it is made. For one that cannot be made it would do so for good: so it is
told, by an annotation of the claim (`objects/core_v1/provisioning_refusals.py`), which goes when another word is said.
"""

from __future__ import annotations

from tonnage import logs
from tonnage.client.http import Client
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.core_v1.provisioning_refusals import PROVISIONING_REFUSED, is_for_good, refusal_text

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
