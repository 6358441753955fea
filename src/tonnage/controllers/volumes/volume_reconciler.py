"""The volumes' half of the PV binder: phases, released volumes, and unbinding of volumes whose claim got another one.

That a claim is gone is the one thing here that cannot be undone: its volume is Released, and a provisioner may delete
the data. So the server is asked, not only the informer. `persistent_volume_binder` is the other half, `sync_volume` has
the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage import logs
from tonnage.behaviour.volumes.binding_plan import (
    FAILED,
    RELEASED,
    QueueClaim,
    RecordEvents,
    Release,
    SetPhase,
    Unbind,
    reclaim_step,
    volume_step,
)
from tonnage.client.metrics import WorkQueueMetrics
from tonnage.client.reconciler import Reconciler
from tonnage.clock import Clock
from tonnage.controllers.volumes.binding_writes import WORKERS, BindingWriter
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key

_BUSY_S: Final = 0.5
"""While a claim is being bound to the volume, its state is about to change."""

_log = logs.logger("tonnage.claims")


class VolumeReconciler:
    """Writes every volume's phase; `queue_claim` adds a claim to the binder's queue."""

    def __init__(
        self,
        bindings: BindingWriter,
        queue_claim: Callable[[Key], None],
        *,
        clock: Clock,
        metrics: WorkQueueMetrics | None = None,
    ) -> None:
        self._bindings = bindings
        self._ask_claim = queue_claim
        self._queue = Reconciler("volumes", self.reconcile, clock=clock, metrics=metrics, workers=WORKERS)
        self._queue.follow(bindings.volume_informer)
        self._queue.follow(bindings.claim_informer, self._volumes_for_claim)

    async def run(self) -> None:
        await self._queue.run()

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step for one volume."""
        volume = self._bindings.volumes.get(key)
        if volume is None:
            return None
        if key in self._bindings.being_bound:
            return _BUSY_S
        claim = await self._claim_of(volume)
        match volume_step(volume, claim):
            case SetPhase(phase, note):
                await self._bindings.set_phase(volume, phase, note)
            case QueueClaim():
                if claim is not None:
                    self._ask_claim(claim.key)
            case RecordEvents(of_volume, of_claim):
                self._bindings.event(volume, of_volume)
                if claim is not None:
                    self._bindings.event(claim, of_claim)
            case Unbind():
                await self._bindings.unbind(volume)
            case Release():
                await self._release(volume)
        return None

    async def _claim_of(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """The claim that the volume's `claimRef` means, by name and uid; None once it is certain that it is gone."""
        owner = volume.spec.claim_ref
        if owner is None or not owner.uid:
            return None
        claim = self._bindings.claims.get(owner.key)
        if claim is not None and claim.uid == owner.uid:
            return claim
        if claim is None and volume.status.phase in (RELEASED, FAILED):
            return None  # the server was asked before
        try:
            claim = await self._bindings.client.get(PersistentVolumeClaim, owner.key)
        except NotFound:
            return None
        return claim if claim.uid == owner.uid else None

    async def _release(self, volume: PersistentVolume) -> None:
        if volume.status.phase not in (RELEASED, FAILED):
            policy = volume.spec.persistent_volume_reclaim_policy
            _log.info("Volume is released", volume=volume.name, reclaim_policy=policy)
            volume = await self._bindings.set_phase(volume, RELEASED)
        outcome = reclaim_step(volume)
        if outcome is not None:
            await self._bindings.set_phase(volume, outcome.phase, outcome.note)

    def _volumes_for_claim(self, claim: PersistentVolumeClaim) -> list[Key]:
        keys = [volume.name for volume in self._bindings.volumes_for(claim.key)]
        return [claim.spec.volume_name, *keys] if claim.spec.volume_name else keys
