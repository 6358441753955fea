"""Bindings as they are kept: volumes and claims at their newest, and the writes that bind them.

A binding is four writes, and the order is what makes it safe to die between any two of them:

    volume.spec ──┬► volume.status (Bound)
    (whose it is) └► claim.spec (completed) ──► claim.status (Bound, and its size)

The first decides. It holds the volume's resourceVersion, so that of two claims one gets the volume and the other a
Conflict; the rest can be made up for by whoever comes next. Mirrors PersistentVolumeController.bind, where the volume's
phase comes before the claim; nobody waits for it.

A bound volume is attached next. Where its attacher is in this program, the attacher's finalizer comes with the phase,
which saves a write for each volume; like any other, it goes when the volume is deleted and attached nowhere.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tonnage import logs
from tonnage.behaviour.volumes import binding_patches as patches
from tonnage.behaviour.volumes.binding_plan import Note
from tonnage.client.cache import Indexer
from tonnage.client.written_objects import MutationCache
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.event_deduplication import DeduplicatingRecorder
from tonnage.controllers.index_functions import claim_of_volume
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.objects.volume_matching import AVAILABLE

_log = logs.logger("tonnage.claims")


WORKERS: Final = 32
"""Claims, and volumes, at a time: most of the time of each goes into waiting for answers. Upstream has no limit."""
_UNBOUND: Final = "unbound"
"""The index key of volumes without a `claimRef`."""


class BindingWriter:
    """What the two sides of the binder share. Writes raise ApiError or Disconnected, and leave the rest to be done."""

    def __init__(self, context: ControllerContext) -> None:
        self.client = context.client
        self.recorder = DeduplicatingRecorder(context.recorder, context.clock)
        self._attachers = context.attachers
        self.volume_informer = context.informers.of(PersistentVolume)
        self.claim_informer = context.informers.of(PersistentVolumeClaim)
        self.volumes = MutationCache(self.volume_informer, clock=context.clock)
        self.claims = MutationCache(self.claim_informer, clock=context.clock)
        self._by_claim = Indexer(self.volume_informer, claim_of_volume)
        self._unbound = Indexer(self.volume_informer, lambda volume: () if volume.spec.claim_ref else (_UNBOUND,))
        self.being_bound: set[str] = set()
        """Volumes that somebody is binding at this moment: others look further."""

    def volumes_for(self, claim_key: Key) -> list[PersistentVolume]:
        """Volumes whose `claimRef` names the claim, by name."""
        return self._newest(self._by_claim(claim_key))

    def unbound(self) -> list[PersistentVolume]:
        """Volumes that the informer shows without a `claimRef`; look at it again, the newest may have one."""
        return [volume for volume in self._newest(self._unbound(_UNBOUND)) if volume.name not in self.being_bound]

    def event(self, about: PersistentVolume | PersistentVolumeClaim, note: Note) -> None:
        self.recorder.event(about, note.type, note.reason, "Binding", note.message)

    async def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Make them one, or what is missing of it."""
        self.being_bound.add(volume.name)
        try:
            volume = await self.patch_volume(volume, patches.volume_bound(volume, claim))
            # The volume is the claim's from here on. What follows may be cut short anywhere and is completed later, so
            # that its phase and the claim's side need not wait for each other.
            said, bound = await asyncio.gather(
                self.set_phase(volume, "Bound"),
                self.patch_claim(claim, patches.claim_bound(claim, volume)),
                return_exceptions=True,
            )
            if isinstance(bound, BaseException):
                raise bound
            await self.set_claim_phase(bound, "Bound", volume)
            if isinstance(said, BaseException):
                raise said
        finally:
            self.being_bound.discard(volume.name)

    async def unbind(self, volume: PersistentVolume) -> None:
        volume = await self.patch_volume(volume, patches.volume_unbound(volume))
        _log.info("Binding taken back", volume=volume.name)
        await self.set_phase(volume, AVAILABLE)

    async def set_phase(self, volume: PersistentVolume, phase: str, note: Note | None = None) -> PersistentVolume:
        """Write the volume's phase if it is another, and record the note then."""
        finalizer = self._attachers_finalizer(volume) if phase == "Bound" else ""
        patch = patches.volume_phase(volume, phase, note.message if note else "", finalizer=finalizer)
        if patch is None:
            return volume
        volume = await self.patch_volume(volume, patch, "status")
        _log.info("Volume entered phase", volume=volume.name, phase=phase)
        if note is not None:
            self.event(volume, note)
        return volume

    async def set_claim_phase(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> PersistentVolumeClaim:
        patch = patches.claim_status(claim, phase, volume)
        if patch is not None:
            claim = await self.patch_claim(claim, patch, "status")
            _log.info("Claim entered phase", claim=claim.key, phase=phase)
        return claim

    async def patch_volume(self, volume: PersistentVolume, patch: Doc | None, sub: str = "") -> PersistentVolume:
        if patch is None:
            return volume
        return self.volumes.store(await self.client.patch(PersistentVolume, volume.key, patch, subresource=sub))

    async def patch_claim(
        self, claim: PersistentVolumeClaim, patch: Doc | None, sub: str = ""
    ) -> PersistentVolumeClaim:
        if patch is None:
            return claim
        return self.claims.store(await self.client.patch(PersistentVolumeClaim, claim.key, patch, subresource=sub))

    def _attachers_finalizer(self, volume: PersistentVolume) -> str:
        attacher = self._attachers.get(volume.spec.csi.driver) if volume.spec.csi is not None else None
        return attacher.volume_finalizer if attacher is not None else ""

    def _newest(self, shown: tuple[PersistentVolume, ...]) -> list[PersistentVolume]:
        found = (self.volumes.get(volume.name) for volume in shown)
        return [volume for volume in found if volume is not None]
