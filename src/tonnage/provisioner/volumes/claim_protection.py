"""A finalizer keeps a claim while a volume may be in the making for it, so that no volume is left that nobody finds.

    protected ──► CreateVolume ──► PersistentVolume written ──► finalizer off, with the binding
                       └──► refused, and the claim is being deleted ──► finalizer off

A volume's name comes from its claim. Were the claim gone when a provisioner comes back from a kill, nobody would know
that there is something to ask for: upstream's provisioner leaves a volume behind then. Ours puts a finalizer on the
claim before the first CreateVolume. A claim that is being deleted without it was never asked for, and is not from then.

Our binder takes it off in the write that binds the claim to the volume that was made for it. Under another binder, or
when the binding takes longer than `BINDER_S`, the provisioner does.

Both patches name one element of the list, so that nobody else's finalizers and changes are in the way.
"""

from __future__ import annotations

from contextlib import suppress

from tonnage import logs
from tonnage.client.http import Client
from tonnage.errors import Conflict, Forbidden, NotFound
from tonnage.objects.core_v1 import VOLUME_PROTECTION, PersistentVolumeClaim
from tonnage.objects.document import Doc

FINALIZER = VOLUME_PROTECTION
BINDER_S = 30.0
"""How long a claim that has its volume is left to the binder, which takes the finalizer off with the binding."""

_log = logs.logger("tonnage.provisioner")


class ClaimProtection:
    """Puts the finalizer on claims and takes it off."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def protect(self, claim: PersistentVolumeClaim) -> None:
        """See to it that the claim stays. Raises NotFound, Conflict or Invalid when it goes or is another's by now.

        Without the right to do so it is left as it is, which is as safe as upstream's.
        """
        if not is_protected(claim):
            try:
                await self._patch(claim, {"finalizers": [FINALIZER]})
            except Forbidden as exc:
                _log.warning("A claim cannot be held while its volume is made", claim=claim.key, error=exc.message)

    async def unprotect(self, claim: PersistentVolumeClaim) -> None:
        """See to it that the claim may go, as far as we are concerned."""
        with suppress(NotFound, Conflict):  # gone, or another of its name
            await self._patch(claim, {"$deleteFromPrimitiveList/finalizers": [FINALIZER]})

    async def _patch(self, claim: PersistentVolumeClaim, metadata: Doc) -> None:
        patch = {"metadata": {"uid": claim.uid, **metadata}}
        await self._client.patch(PersistentVolumeClaim, claim.key, patch, patch_type="strategic")


def is_protected(claim: PersistentVolumeClaim) -> bool:
    """Whether there may be a volume for it that has not been written down."""
    return FINALIZER in claim.metadata.finalizers
