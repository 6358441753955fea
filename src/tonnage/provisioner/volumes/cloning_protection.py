"""The finalizer of claims that were cloned, taken off once nobody copies them any more.

Mirrors external-provisioner's CloningProtectionController. It looks at claims that are being deleted only: the others
may be cloned again.
"""

from __future__ import annotations

from tonnage.client.cache import Cache
from tonnage.client.finalizers import remove_finalizer
from tonnage.client.reconciler import Reconciler
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.provisioner.context import ProvisionerContext
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


class CloningProtectionController:
    """Takes the finalizer off claims that go."""

    def __init__(self, context: ProvisionerContext) -> None:
        self._client = context.client
        self._claims = context.caches.claims
        threads = context.options.cloning_protection_threads
        self.work = Reconciler("cloning", self.reconcile, clock=context.clock, metrics=context.queues, workers=threads)
        self.work.follow(self._claims, self._keys_of)

    def _keys_of(self, claim: PersistentVolumeClaim) -> tuple[Key, ...]:
        """The claim itself, and what it is a copy of."""
        source = claim.spec.data_source
        if source is not None and source.kind == CLAIM:
            return (claim.key, f"{claim.namespace}/{source.name}")
        return (claim.key,)

    async def reconcile(self, key: Key) -> float | None:
        claim = self._claims.get(key)
        if claim is None or not claim.metadata.is_terminating:
            return None
        patch = remove_finalizer(claim, CLONE_FINALIZER)
        if patch is None or is_being_cloned(claim, self._claims):
            return None  # the copy's next change names this claim again
        await self._client.patch(PersistentVolumeClaim, key, patch)
        return None
