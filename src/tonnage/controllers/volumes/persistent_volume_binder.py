"""The PV binder: claims get volumes, volumes and claims get their phases. Upstream's persistentvolume-controller.

      claims ──► PersistentVolumeBinder ── claim_step (sync_claim) ──► BindingWriter (binding_writes) ─► API
      volumes ─► VolumeReconciler ─────── volume_step (sync_volume) ──┘

Every kind of binding is completed here: of volumes that exist (immediately, or chosen by a person on either side), of
those that the scheduler chose for a pod, and of those that a provisioner made. It only completes what the objects say,
so that it may be killed anywhere, come late, or run twice.

A claim is queued when it changes, and when a volume that is unbound or names it, its class, or a pod that mounts it
does. And every fifteen seconds while it is pending, as upstream does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tonnage import logs
from tonnage.backoff import jittered
from tonnage.behaviour.volumes import binding_patches as patches
from tonnage.behaviour.volumes.binding_plan import (
    AssignClass,
    Bind,
    ClaimInputs,
    MarkLost,
    Note,
    ProvisionClaim,
    RecordEvent,
    StayPending,
    claim_step,
    provisioning_note,
)
from tonnage.client.cache import Indexer
from tonnage.client.reconciler import Reconciler
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.index_functions import claims_of_pod
from tonnage.controllers.volumes.binding_writes import WORKERS, BindingWriter
from tonnage.controllers.volumes.volume_reconciler import VolumeReconciler
from tonnage.controllers.volumes.volume_users import is_pod_terminated
from tonnage.documents.kinds.storage.storage_class import default_class_for
from tonnage.errors import TonnageError
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import StorageClass
from tonnage.objects.volume_matching import AVAILABLE


def default_class(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> str | None:
    """The class that a claim without one gets, also long after it was made; None when it has or is to have none."""
    if claim.spec.storage_class_name is not None:
        return None
    return default_class_for(to_doc(claim), [to_doc(each) for each in classes])


SYNC_PERIOD_S: Final = 15.0
"""kube-controller-manager's --pvclaimbinder-sync-period."""

_log = logs.logger("tonnage.claims")


class PersistentVolumeBinder:
    """Binds claims and volumes until it is cancelled."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        sync_period_s: float = SYNC_PERIOD_S,
    ) -> None:
        self._informers = context.informers
        self._rng = context.rng
        self._sync_period_s = sync_period_s
        self._bindings = BindingWriter(context)
        self._classes = context.informers.of(StorageClass)
        pods = context.informers.of(Pod)
        self._pods = Indexer(pods, claims_of_pod)
        self._queue = Reconciler("claims", self.reconcile, clock=context.clock, metrics=context.queues, workers=WORKERS)
        self._volumes = VolumeReconciler(self._bindings, self._queue.add, clock=context.clock, metrics=context.queues)
        self._queue.follow(self._bindings.claim_informer)
        self._queue.follow(self._bindings.volume_informer, self._claims_for_volume)
        self._queue.follow(self._classes, lambda _: self._pending_keys())
        self._queue.follow(pods, self._claims_for_pod)

    async def run(self) -> None:
        await self._informers.wait_synced()
        async with asyncio.TaskGroup() as work:
            work.create_task(self._queue.run())
            work.create_task(self._volumes.run())

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step for one claim; when to look again, while it is pending."""
        claim = self._bindings.claims.get(key)
        if claim is None:
            return None
        inputs = self._inputs(claim)
        match claim_step(claim, inputs):
            case Bind(volume):
                await self._bindings.bind(volume, claim)
                return None
            case AssignClass(name):
                await self._bindings.patch_claim(claim, patches.claim_class(claim, name))
                _log.info("Default class assigned", claim=key, storage_class=name)
            case ProvisionClaim(provisioner):
                claim = await self._bindings.patch_claim(claim, patches.claim_provisioner(claim, provisioner))
                self._bindings.event(claim, provisioning_note(provisioner))
            case StayPending(note):
                if note is not None:
                    self._bindings.event(claim, note)
                await self._bindings.set_claim_phase(claim, "Pending")
            case RecordEvent(note, is_broken):
                self._bindings.event(claim, note)
                if is_broken:
                    raise TonnageError(f"claim {key}: {note.message}")
            case MarkLost(note):
                if claim.status.phase != "Lost":
                    await self._mark_lost(claim, inputs, note)
                return None
        return jittered(self._sync_period_s, 0.2, self._rng)

    # -- inputs of a step --------------------------------------------------------------------------------------------

    def _inputs(self, claim: PersistentVolumeClaim) -> ClaimInputs:
        storage_class = self._classes.get(claim.class_name)
        is_delayed = storage_class is not None and storage_class.waits_for_consumer
        candidates = self._bindings.volumes_for(claim.key)
        if not claim.is_bound and not is_delayed:
            candidates += self._bindings.unbound()
        return ClaimInputs(
            volume=self._bindings.volumes.get,
            candidates=candidates,
            storage_class=storage_class,
            default_class=default_class(claim, self._classes),
            waiting_pods=lambda: [
                pod.name for pod in self._pods(claim.key) if not pod.spec.node_name and not is_pod_terminated(pod)
            ],
        )

    async def _mark_lost(self, claim: PersistentVolumeClaim, inputs: ClaimInputs, note: Note) -> None:
        """Give the claim up. Data is at stake and Lost is final, so the server is asked: informers may be behind.

        Raises TonnageError when the volume is there after all; the informer will show it.
        """
        name = claim.spec.volume_name
        if name:
            named = f"metadata.name={name}"
            found = (await self._bindings.client.list(PersistentVolume, field_selector=named)).items
            volume = found[0] if found else None
            if not isinstance(claim_step(claim, replace(inputs, volume=lambda _: volume)), MarkLost):
                raise TonnageError(f"claim {claim.key}: its volume {name} is not known here yet")
        claim = await self._bindings.set_claim_phase(claim, "Lost")
        self._bindings.event(claim, note)

    # -- event handlers -----------------------------------------------------------------------------------------------

    def _claims_for_volume(self, volume: PersistentVolume) -> list[Key]:
        if volume.spec.claim_ref is not None:
            return [volume.spec.claim_ref.key]
        return self._pending_keys() if volume.status.phase == AVAILABLE else []

    def _claims_for_pod(self, pod: Pod) -> list[Key]:
        claims = ((key, self._bindings.claim_informer.get(key)) for key in claims_of_pod(pod))
        return [key for key, claim in claims if claim is not None and not claim.is_bound]

    def _pending_keys(self) -> list[Key]:
        return [claim.key for claim in self._bindings.claim_informer if not claim.is_bound]
