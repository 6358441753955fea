"""Letting go of claims that were cloned: the finalizer that protected them goes once nobody copies them any more.

Mirrors external-provisioner's CloningProtectionController. It looks at claims that are being deleted only: the others
may be cloned again.
"""

from __future__ import annotations

from tonnage.client.cache import Cache
from tonnage.client.finalizers import remove_finalizer
from tonnage.client.http import Client
from tonnage.client.reconciler import Reconciler
from tonnage.clock import Clock
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.provisioner.volumes.data_sources import CLAIM, CLONE_FINALIZER


def is_being_cloned(source: PersistentVolumeClaim, others: Cache[PersistentVolumeClaim]) -> bool:
    """Whether a claim of its namespace is still waiting for a copy of it."""
    return any(
        each.spec.data_source is not None
        and each.spec.data_source.kind == CLAIM
        and each.spec.data_source.name == source.name
        and each.status.phase == "Pending"
        for each in others
        if each.namespace == source.namespace
    )


class CloningProtection:
    """Takes the finalizer off claims that go."""

    def __init__(self, client: Client, *, claims: Cache[PersistentVolumeClaim], threads: int, clock: Clock) -> None:
        self._client = client
        self._claims = claims
        self.work = Reconciler("cloning", self.bring, clock=clock, workers=threads)
        self.work.follow(claims, self._concerned)

    def _concerned(self, claim: PersistentVolumeClaim) -> tuple[Key, ...]:
        """The claim itself, and what it is a copy of."""
        source = claim.spec.data_source
        if source is not None and source.kind == CLAIM:
            return (claim.key, f"{claim.namespace}/{source.name}")
        return (claim.key,)

    async def bring(self, key: Key) -> float | None:
        claim = self._claims.get(key)
        if claim is None or not claim.metadata.is_terminating:
            return None
        patch = remove_finalizer(claim, CLONE_FINALIZER)
        if patch is None or is_being_cloned(claim, self._claims):
            return None  # the copy's next change names this claim again
        await self._client.patch(PersistentVolumeClaim, key, patch)
        return None
