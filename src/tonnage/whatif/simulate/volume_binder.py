"""The PV binder: binds existing claims and volumes to one another, by `behaviour/volumes/binding_plan.py`.

A claim of a WaitForFirstConsumer class gets the volume that the scheduler chose, recognised by its `claimRef`. Any
other claim takes the smallest matching volume as soon as there is one, before its node is known; without a match, the
driver creates one if the class has a provisioner (`storage_model`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from tonnage.behaviour.volumes.binding_plan import BOUND, Bind, ClaimInputs, claim_step
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.requirements import InvalidSelector
from tonnage.objects.storage_v1 import StorageClass
from tonnage.objects.volume_matching import AVAILABLE
from tonnage.whatif.replay import renewed
from tonnage.whatif.simulate.disks import bound_claim, reference_to
from tonnage.whatif.simulate.scheduler_loop import SchedulerLoop
from tonnage.whatif.simulate.world_state import WorldState

_PENDING: Final = ("", "Pending")


@dataclass(slots=True)
class VolumeBinder:
    """Binds existing volumes. It acts a moment after a change, when every part has seen it."""

    _world: WorldState
    _scheduler: SchedulerLoop
    _unbound: dict[Key, None] = field(default_factory=dict)
    """Claims that wait for a volume, whoever creates it."""

    def open(self) -> None:
        """Set unclaimed volumes to Available."""
        for volume in self._world.all(PersistentVolume):
            if volume.spec.claim_ref is None and volume.status.phase in _PENDING:
                self._world.put(_available(volume))

    def claim_changed(self, claim: PersistentVolumeClaim) -> None:
        if claim.is_bound and claim.spec.volume_name:
            self._unbound.pop(claim.key, None)
        elif claim.spec.volume_name or self._is_ours(claim):
            self._unbound[claim.key] = None
            self._world.agenda.after(0.0, lambda: self._serve(claim.key))

    def volume_changed(self, volume: PersistentVolume) -> None:
        owner = volume.spec.claim_ref
        if owner is not None:
            claim = self._world.get(PersistentVolumeClaim, owner.key)
            if claim is not None and not claim.spec.volume_name and volume.status.phase != BOUND:
                self._world.agenda.after(0.0, lambda: self._serve(owner.key, volume))
            self._scheduler.look(owner.key)
        elif volume.status.phase in _PENDING:
            self._world.put(_available(volume))
        elif volume.status.phase == AVAILABLE:
            for key in tuple(self._unbound):
                self._world.agenda.after(0.0, lambda key=key: self._serve(key))  # type: ignore[misc]

    def _is_ours(self, claim: PersistentVolumeClaim) -> bool:
        """True if an existing volume may be bound without the scheduler."""
        found = self._world.get(StorageClass, claim.class_name or "")
        return found is None or not found.waits_for_consumer

    def _serve(self, key: Key, made: PersistentVolume | None = None) -> None:
        """Take a claim's next step, as the PV binder does. With `made`, only this volume is considered."""
        claim = self._world.get(PersistentVolumeClaim, key)
        if claim is None or claim.is_bound:
            self._unbound.pop(key, None)
            return
        inputs = ClaimInputs(
            volume=lambda name: self._world.get(PersistentVolume, name),
            candidates=self._candidates(claim, made),
            storage_class=self._world.get(StorageClass, claim.class_name or ""),
            default_class=None,
            waiting_pods=lambda: (),
        )
        try:
            step = claim_step(claim, inputs)
        except InvalidSelector:
            return
        if isinstance(step, Bind):
            replace, volume = msgspec.structs.replace, step.volume
            spec, status = replace(volume.spec, claim_ref=reference_to(claim)), replace(volume.status, phase=BOUND)
            self._world.put(renewed(volume, spec=spec, status=status))
            self._world.put(bound_claim(claim, volume.name))
            self._unbound.pop(key, None)

    def _candidates(self, claim: PersistentVolumeClaim, made: PersistentVolume | None) -> list[PersistentVolume]:
        if claim.spec.volume_name:
            return []
        if made is None:
            return self._world.all(PersistentVolume)
        now = self._world.get(PersistentVolume, made.name)
        return [now] if now is not None else []


def _available(volume: PersistentVolume) -> PersistentVolume:
    return renewed(volume, status=msgspec.structs.replace(volume.status, phase=AVAILABLE))
