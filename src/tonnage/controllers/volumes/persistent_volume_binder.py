"""The PV binder: it binds claims to volumes and sets the phases of both. Upstream's persistentvolume-controller.

      claims ──► claim_step ──┬─► BindingWriter ─► API
      volumes ─► volume_step ─┘

Every step starts from the objects' state, so it may be killed, come late, or run twice. A binding is four writes:

    volume.spec ──┬► volume.status (Bound)
    (whose it is) └► claim.spec (completed) ──► claim.status (Bound, and its size)

The first write decides: it carries the volume's resourceVersion, so of two claims one gets a Conflict. Lost claims and
Released volumes cannot be taken back: before either, the server is asked, not only the informer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from tonnage import clock, errors, logs
from tonnage.behaviour.volumes import binding_plan
from tonnage.client.cache import Indexer, MutationCache
from tonnage.controllers.controller_context import ControllerContext, QueueController
from tonnage.controllers.volumes.attach_detach import is_pod_terminated
from tonnage.documents.kinds.storage.storage_class import default_class_for
from tonnage.objects import codec, storage_v1, volume_matching
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object

T = TypeVar("T", bound=Object)

_BUSY_S: Final = 0.5
"""How soon to look again at a volume that is being bound to a claim."""
WORKERS: Final = 32
"""Claims, and volumes, reconciled at once: a worker mostly waits for answers. Upstream has no limit."""
_UNBOUND: Final = "unbound"
"""The index key of volumes without a `claimRef`."""


def default_class(claim: PersistentVolumeClaim, classes: Iterable[storage_v1.StorageClass]) -> str | None:
    """The default class for a claim that names none, however old it is; None when the claim needs none."""
    if claim.spec.storage_class_name is not None:
        return None
    return default_class_for(codec.to_doc(claim), [codec.to_doc(storage_class) for storage_class in classes])


_log = logs.logger("tonnage.claims")


class PersistentVolumeBinder(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._attachers = context.attachers
        self._volumes = context.informers.of(PersistentVolume)
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._newest_volumes = MutationCache(self._volumes, clock=context.clock)
        self._newest_claims = MutationCache(self._claims, clock=context.clock)
        self._of_claim = Indexer(
            self._volumes, lambda each: (each.spec.claim_ref.key if each.spec.claim_ref else _UNBOUND,)
        )
        self._being_bound: set[str] = set()
        """Names of volumes that are being bound right now; other claims do not choose them."""
        self._classes = context.informers.of(storage_v1.StorageClass)
        pods = context.informers.of(Pod)
        self._pods = Indexer(pods, Pod.claim_keys)
        self._queue = self._add_queue("claims", self.reconcile, workers=WORKERS)
        volumes = self._add_queue("volumes", self.reconcile_volume, workers=WORKERS)
        volumes.follow(self._volumes)
        volumes.follow(self._claims, self._volumes_for_claim)
        self._queue.follow(self._claims)
        self._queue.follow(self._volumes, self._claims_for_volume)
        self._queue.follow(self._classes, lambda _: self._pending_keys())
        self._queue.follow(pods, self._claims_for_pod)

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step for one claim. Returns when to look again while it is pending."""
        claim = self._newest_claims.get(key)
        if claim is None:
            return None
        inputs = self._inputs(claim)
        match binding_plan.claim_step(claim, inputs):
            case binding_plan.Bind(volume):
                await self._bind(volume, claim)
                return None
            case binding_plan.AssignClass(name):
                await self._patch(self._newest_claims, claim, binding_plan.claim_class(claim, name))
                _log.info("Default class assigned", claim=key, storage_class=name)
            case binding_plan.ProvisionClaim(provisioner):
                claim = await self._patch(
                    self._newest_claims, claim, binding_plan.claim_provisioner(claim, provisioner)
                )
                self._event(claim, binding_plan.provisioning_note(provisioner))
            case binding_plan.StayPending(note):
                if note is not None:
                    self._event(claim, note)
                await self._set_claim_phase(claim, "Pending")
            case binding_plan.RecordEvent(note, is_broken):
                self._event(claim, note)
                if is_broken:
                    raise errors.TonnageError(f"claim {key}: {note.message}")
            case binding_plan.MarkLost(note):
                if claim.status.phase != "Lost":
                    await self._mark_lost(claim, inputs, note)
                return None
        return clock.jittered(self._configuration.pvclaimbinder_sync_period_s, 0.2, self._rng)

    # -- inputs of a step --------------------------------------------------------------------------------------------

    def _inputs(self, claim: PersistentVolumeClaim) -> binding_plan.ClaimInputs:
        storage_class = self._classes.get(claim.class_name)
        is_delayed = storage_class is not None and storage_class.waits_for_consumer
        candidates = self._volumes_for(claim.key)
        if not claim.is_bound and not is_delayed:
            # The informer shows them without a `claimRef`; the plan checks again, the newest version may have one.
            unbound = self._newest(self._of_claim(_UNBOUND))
            candidates += [volume for volume in unbound if volume.name not in self._being_bound]
        return binding_plan.ClaimInputs(
            volume=self._newest_volumes.get,
            candidates=candidates,
            storage_class=storage_class,
            default_class=default_class(claim, self._classes),
            waiting_pods=lambda: [
                pod.name for pod in self._pods(claim.key) if not pod.spec.node_name and not is_pod_terminated(pod)
            ],
        )

    async def _mark_lost(
        self, claim: PersistentVolumeClaim, inputs: binding_plan.ClaimInputs, note: binding_plan.Note
    ) -> None:
        """Mark the claim Lost. Raises TonnageError when the server still has its volume; the informer will show it."""
        name = claim.spec.volume_name
        if name:
            named = f"metadata.name={name}"
            found = (await self._client.list(PersistentVolume, field_selector=named)).items
            volume = found[0] if found else None
            if not isinstance(
                binding_plan.claim_step(claim, replace(inputs, volume=lambda _: volume)), binding_plan.MarkLost
            ):
                raise errors.TonnageError(f"claim {claim.key}: its volume {name} is not known here yet")
        claim = await self._set_claim_phase(claim, "Lost")
        self._event(claim, note)

    # -- volumes ------------------------------------------------------------------------------------------------------

    async def reconcile_volume(self, key: Key) -> float | None:
        volume = self._newest_volumes.get(key)
        if volume is None:
            return None
        if key in self._being_bound:
            return _BUSY_S
        claim = await self._claim_of(volume)
        match binding_plan.volume_step(volume, claim):
            case binding_plan.SetPhase(phase, note):
                await self._set_phase(volume, phase, note)
            case binding_plan.VolumeAction.QUEUE_CLAIM:
                if claim is not None:
                    self._queue.add(claim.key)
            case binding_plan.RecordEvents(of_volume, of_claim):
                self._event(volume, of_volume)
                if claim is not None:
                    self._event(claim, of_claim)
            case binding_plan.VolumeAction.UNBIND:
                volume = await self._patch(self._newest_volumes, volume, binding_plan.volume_unbound(volume))
                _log.info("Binding taken back", volume=volume.name)
                await self._set_phase(volume, volume_matching.AVAILABLE)
            case binding_plan.VolumeAction.RELEASE:
                await self._release(volume)
        return None

    async def _claim_of(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """The claim of the volume's `claimRef`, by name and uid; None once the server has confirmed that it is gone."""
        owner = volume.spec.claim_ref
        if owner is None or not owner.uid:
            return None
        claim = self._newest_claims.get(owner.key)
        if claim is not None and claim.uid == owner.uid:
            return claim
        if claim is None and volume.status.phase in (binding_plan.RELEASED, binding_plan.FAILED):
            return None  # the server has been asked
        claim = await self._client.find(PersistentVolumeClaim, owner.key)
        return claim if claim is not None and claim.uid == owner.uid else None

    async def _release(self, volume: PersistentVolume) -> None:
        if volume.status.phase not in (binding_plan.RELEASED, binding_plan.FAILED):
            policy = volume.spec.persistent_volume_reclaim_policy
            _log.info("Volume is released", volume=volume.name, reclaim_policy=policy)
            volume = await self._set_phase(volume, binding_plan.RELEASED)
        outcome = binding_plan.reclaim_step(volume)
        if outcome is not None:
            await self._set_phase(volume, outcome.phase, outcome.note)

    def _volumes_for_claim(self, claim: PersistentVolumeClaim) -> list[Key]:
        keys = [volume.name for volume in self._volumes_for(claim.key)]
        return [claim.spec.volume_name, *keys] if claim.spec.volume_name else keys

    # -- event handlers -----------------------------------------------------------------------------------------------

    def _claims_for_volume(self, volume: PersistentVolume) -> list[Key]:
        if volume.spec.claim_ref is not None:
            return [volume.spec.claim_ref.key]
        return self._pending_keys() if volume.status.phase == volume_matching.AVAILABLE else []

    def _claims_for_pod(self, pod: Pod) -> list[Key]:
        claims = ((key, self._claims.get(key)) for key in pod.claim_keys())
        return [key for key, claim in claims if claim is not None and not claim.is_bound]

    def _pending_keys(self) -> list[Key]:
        return [claim.key for claim in self._claims if not claim.is_bound]

    # -- writes: they raise ApiError or Disconnected, and a later run completes them ----------------------------------

    def _volumes_for(self, claim_key: Key) -> list[PersistentVolume]:
        """The volumes whose `claimRef` names the claim, sorted by name."""
        return self._newest(self._of_claim(claim_key))

    def _event(self, about: PersistentVolume | PersistentVolumeClaim, note: binding_plan.Note) -> None:
        self._deduplicated.event(about, note.type, note.reason, "Binding", note.message)

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind the volume and the claim, or complete their binding."""
        self._being_bound.add(volume.name)
        try:
            volume = await self._patch(self._newest_volumes, volume, binding_plan.volume_bound(volume, claim))
            # The claim has the volume from here on. The remaining writes may be cut short and are completed later, so
            # the volume's phase and the claim's side need not wait for each other.
            said, bound = await asyncio.gather(
                self._set_phase(volume, "Bound"),
                self._patch(self._newest_claims, claim, binding_plan.claim_bound(claim, volume)),
                return_exceptions=True,
            )
            if isinstance(bound, BaseException):
                raise bound
            await self._set_claim_phase(bound, "Bound", volume)
            if isinstance(said, BaseException):
                raise said
        finally:
            self._being_bound.discard(volume.name)

    async def _set_phase(
        self, volume: PersistentVolume, phase: str, note: binding_plan.Note | None = None
    ) -> PersistentVolume:
        """Write the volume's phase if it differs, and then record the note."""
        attacher = self._attachers.get(volume.spec.csi.driver) if volume.spec.csi is not None else None
        finalizer = attacher.volume_finalizer if attacher is not None and phase == "Bound" else ""
        patch = binding_plan.volume_phase(volume, phase, note.message if note else "", finalizer=finalizer)
        if patch is None:
            return volume
        volume = await self._patch(self._newest_volumes, volume, patch, "status")
        _log.info("Volume entered phase", volume=volume.name, phase=phase)
        if note is not None:
            self._event(volume, note)
        return volume

    async def _set_claim_phase(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> PersistentVolumeClaim:
        patch = binding_plan.claim_status(claim, phase, volume)
        if patch is not None:
            claim = await self._patch(self._newest_claims, claim, patch, "status")
            _log.info("Claim entered phase", claim=claim.key, phase=phase)
        return claim

    async def _patch(self, newest: MutationCache[T], found: T, patch: Doc | None, sub: str = "") -> T:
        if patch is None:
            return found
        return newest.store(await self._client.patch(type(found), found.key, patch, subresource=sub))

    def _newest(self, shown: tuple[PersistentVolume, ...]) -> list[PersistentVolume]:
        found = (self._newest_volumes.get(volume.name) for volume in shown)
        return [volume for volume in found if volume is not None]
