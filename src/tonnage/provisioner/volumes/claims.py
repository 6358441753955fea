"""Which claims this driver provisions, and the finalizers that keep claims while volumes are created or cloned.

    protected ──► CreateVolume ──► PersistentVolume written ──► finalizer off, with the binding
                       └──► refused, and the claim is being deleted ──► finalizer off

Without the finalizer a claim deleted while the provisioner is down would leave a volume that nobody finds, as upstream.
Our binder removes it with the binding; with another binder the provisioner does, after `BINDER_S`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tonnage import logs
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.written_objects import remove_finalizer
from tonnage.errors import Conflict, Forbidden, NotFound, TonnageError
from tonnage.objects.core_v1 import STORAGE_PROVISIONER, VOLUME_PROTECTION, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import PROVISIONING_REFUSED, is_for_good, refusal_text
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import StorageClass
from tonnage.provisioner.context import ProvisionerContext
from tonnage.provisioner.volumes.preparation import CLAIM, CLONE_FINALIZER

FINALIZER = VOLUME_PROTECTION
BINDER_S = 30.0
"""How long a provisioned claim is left to the binder, which removes the finalizer with the binding."""

_log = logs.logger("tonnage.provisioner")


async def protect(client: Client, claim: PersistentVolumeClaim) -> None:
    """Add the finalizer, if that is allowed. Raises NotFound, Conflict or Invalid if the claim is being deleted."""
    if not is_protected(claim):
        try:
            await _patch(client, claim, {"finalizers": [FINALIZER]})
        except Forbidden as exc:
            _log.warning("A claim cannot be held while its volume is made", claim=claim.key, error=exc.message)


async def unprotect(client: Client, claim: PersistentVolumeClaim) -> None:
    with suppress(NotFound, Conflict):  # gone, or another claim of its name
        await _patch(client, claim, {"$deleteFromPrimitiveList/finalizers": [FINALIZER]})


async def _patch(client: Client, claim: PersistentVolumeClaim, metadata: Doc) -> None:
    patch = {"metadata": {"uid": claim.uid, **metadata}}
    await client.patch(PersistentVolumeClaim, claim.key, patch, patch_type="strategic")


def is_protected(claim: PersistentVolumeClaim) -> bool:
    """True if the claim may have a volume that is not saved as a PersistentVolume."""
    return FINALIZER in claim.metadata.finalizers


def is_being_cloned(source: PersistentVolumeClaim, others: Cache[PersistentVolumeClaim]) -> bool:
    """True if a Pending claim of the same namespace is a clone of this one."""
    return any(
        claim.spec.data_source is not None
        and claim.spec.data_source.kind == CLAIM
        and claim.spec.data_source.name == source.name
        and claim.status.phase == "Pending"
        for claim in others
        if claim.namespace == source.namespace
    )


class CloningProtectionController:
    """Removes the cloning finalizer from claims that are being deleted."""

    def __init__(self, context: ProvisionerContext) -> None:
        self._client = context.client
        self._claims = context.caches.claims
        self.work = context.queue("cloning", self.reconcile, context.options.cloning_protection_threads)
        self.work.follow(self._claims, self._keys_of)

    def _keys_of(self, claim: PersistentVolumeClaim) -> Iterator[Key]:
        """The claim itself, and the claim it is cloned from."""
        yield claim.key
        if claim.spec.data_source is not None and claim.spec.data_source.kind == CLAIM:
            yield f"{claim.namespace}/{claim.spec.data_source.name}"

    async def reconcile(self, key: Key) -> float | None:
        claim = self._claims.get(key)
        if claim is None or not claim.metadata.is_terminating:
            return None
        patch = remove_finalizer(claim, CLONE_FINALIZER)
        if patch is None or is_being_cloned(claim, self._claims):
            return None  # the clone's next change queues this claim again
        await self._client.patch(PersistentVolumeClaim, key, patch)
        return None


BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"


def provisioner_of(claim: PersistentVolumeClaim) -> str:
    """The provisioner that the binder wrote on the claim; empty while it has not."""
    annotations = claim.metadata.annotations
    return annotations.get(STORAGE_PROVISIONER, annotations.get(BETA_STORAGE_PROVISIONER, ""))


def is_for(claim: PersistentVolumeClaim, driver: str) -> bool:
    """True if the claim has no volume and this driver provisions it, also while the claim is being deleted."""
    return not claim.spec.volume_name and provisioner_of(claim) == driver


def is_due(claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
    """True if the claim can be provisioned now: WaitForFirstConsumer needs the selected node."""
    return bool(claim.selected_node) or not storage_class.waits_for_consumer


async def write_refusal(client: Client, claim: PersistentVolumeClaim, told: str) -> None:
    """Write a refusal that capacity does not cure on the claim, so that no scheduler reserves for it.

    Any other text, or none, removes an earlier refusal. A failed write is only logged: the event has the same text.
    """
    text = refusal_text(claim, told) if is_for_good(told) else None
    if claim.metadata.annotations.get(PROVISIONING_REFUSED) == text:
        return
    patch = {"metadata": {"uid": claim.uid, "annotations": {PROVISIONING_REFUSED: text}}}
    try:
        await client.patch(PersistentVolumeClaim, claim.key, patch)
    except TonnageError as exc:
        _log.info("The last word on a claim could not be written", claim=claim.key, error=exc.message)
