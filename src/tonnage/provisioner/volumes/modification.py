"""Changing volumes, external-resizer's work: a claim that names another VolumeAttributesClass gets it.

    spec.volumeAttributesClassName != status.currentVolumeAttributesClassName
        │ class is not there yet: modifyVolumeStatus Pending
        │ modifyVolumeStatus InProgress, condition ModifyingVolume
        ▼
    ControllerModifyVolume ──► PV spec.volumeAttributesClassName, claim's current class, status and conditions off
        │ refused
        ▼
    condition ModifyVolumeError; what can never work is Infeasible, and is tried rarely

What was begun (`InProgress`) and may be under way is ended before another class is tried. Mirrors external-resizer's
modify controller.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tonnage import logs
from tonnage.client.reconciler import Reconciler
from tonnage.clock import rfc3339
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import CsiError, error_text
from tonnage.errors import NotFound, TonnageError
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.references import SecretReference
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import VolumeAttributesClass
from tonnage.provisioner.context import ProvisionerContext, SecretUnavailable, read_secret
from tonnage.provisioner.volumes.bound_claims import BoundClaims
from tonnage.provisioner.volumes.expansion_steps import is_infeasible
from tonnage.provisioner.volumes.requests import MODIFY_SECRET_NAME, MODIFY_SECRET_NAMESPACE

MODIFYING, MODIFY_ERROR = "ModifyingVolume", "ModifyVolumeError"
PENDING, IN_PROGRESS, INFEASIBLE = "Pending", "InProgress", "Infeasible"
_LOOK_AGAIN_S: Final = 5.0
"""For a class that is not there yet: nobody follows classes for the few claims that name one."""

_log = logs.logger("tonnage.provisioner")


def target_class(claim: PersistentVolumeClaim, *, was_refused: bool = False) -> str:
    """The class to change a claim's volume to now; empty when nothing is to be done."""
    if not claim.is_bound or claim.status.phase != "Bound":
        return ""
    wanted, has = claim.spec.volume_attributes_class_name or "", claim.status.current_volume_attributes_class_name
    begun = claim.status.modify_volume_status
    if begun is not None and begun.status == IN_PROGRESS and not was_refused:
        return begun.target_volume_attributes_class_name or wanted
    return wanted if wanted and wanted != has else ""


def progress(claim: PersistentVolumeClaim, target: str, status: str, now: datetime, error: str = "") -> Doc:
    """The patch that says how far it is; empty when the claim says so already."""
    known = claim.status.modify_volume_status
    is_same = known is not None and (known.target_volume_attributes_class_name, known.status) == (target, status)
    told = {each.type: each.message for each in claim.status.conditions}
    is_told = (MODIFYING in told or status != IN_PROGRESS) and (not error or told.get(MODIFY_ERROR) == error)
    if is_same and is_told:
        return {}
    conditions = [to_doc(each) for each in claim.status.conditions if each.type not in (MODIFYING, MODIFY_ERROR)]
    if status == IN_PROGRESS:
        conditions.append({"type": MODIFYING, "status": "True", "lastTransitionTime": rfc3339(now)})
    if error:
        at = rfc3339(now)
        conditions.append({"type": MODIFY_ERROR, "status": "True", "message": error, "lastTransitionTime": at})
    changed = {"targetVolumeAttributesClassName": target, "status": status}
    return _patch(claim, {"modifyVolumeStatus": changed, "conditions": conditions or None})


def done(claim: PersistentVolumeClaim, target: str) -> Doc:
    conditions = [to_doc(each) for each in claim.status.conditions if each.type not in (MODIFYING, MODIFY_ERROR)]
    status = {"currentVolumeAttributesClassName": target, "modifyVolumeStatus": None, "conditions": conditions or None}
    return _patch(claim, status)


def _patch(claim: PersistentVolumeClaim, status: Doc) -> Doc:
    return {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}


class ModificationController:
    """Changes the volumes of one driver; in node-deployment mode those of its node."""

    def __init__(self, context: ProvisionerContext) -> None:
        self._client = context.client
        self._driver = context.driver
        self._driver_info = context.driver_info
        self._recorder = context.recorder
        self._clock = context.clock
        self._bound = BoundClaims(context)
        threads = context.options.worker_threads
        self.work = Reconciler(
            "modification", self.reconcile, clock=context.clock, metrics=context.queues, workers=threads
        )
        self.work.follow(context.caches.claims)

    async def reconcile(self, key: Key) -> float | None:
        """Change one claim's volume to the class it asks for."""
        found = self._bound.find(key)
        if found is None:
            return None
        claim, volume = found
        target = target_class(claim, was_refused=self._bound.was_refused(key))
        if not target:
            self._bound.forget(key)
            return None
        return self._bound.pause_s(key, (volume.uid, target)) or await self._modify(claim, volume, target)

    async def _modify(self, claim: PersistentVolumeClaim, volume: PersistentVolume, target: str) -> float | None:
        now = self._clock.now()
        try:
            wanted = await self._client.get(VolumeAttributesClass, target)
        except NotFound:
            await self._bound.write(claim, progress(claim, target, PENDING, now))
            told = f'VolumeAttributesClass "{target}" not found'
            self._recorder.event(claim, "Warning", "VolumeModifyFailed", "Modifying", told)
            return _LOOK_AGAIN_S
        if wanted.driver_name != self._driver_info.name:
            told = f"VAC {target} is for driver {wanted.driver_name}, and the volume is of {self._driver_info.name}"
            await self._bound.write(claim, progress(claim, target, INFEASIBLE, now, told))
            self._recorder.event(claim, "Warning", "VolumeModifyFailed", "Modifying", told)
            return None
        claim = await self._bound.write(claim, progress(claim, target, IN_PROGRESS, now))
        told = f"external resizer is modifying volume {claim.name} with vac {target}"
        self._recorder.event(claim, "Normal", "VolumeModify", "Modifying", told)
        try:
            await self._ask(volume, wanted)
        except (CsiError, SecretUnavailable) as exc:
            return await self._failed(claim, volume, target, exc)
        self._bound.succeeded(claim.key)
        patch: Doc = {"spec": {"volumeAttributesClassName": target}}
        await self._client.patch(PersistentVolume, volume.name, patch)
        await self._bound.write(claim, done(claim, target))
        told = f"external resizer modified volume {claim.name} with vac {target} successfully"
        self._recorder.event(claim, "Normal", "VolumeModifySuccessful", "Modifying", told)
        _log.info("Modified", claim=claim.key, volume=volume.name, attributes=target)
        return None

    async def _ask(self, volume: PersistentVolume, wanted: VolumeAttributesClass) -> None:
        """Raises CsiError or SecretUnavailable."""
        source, said = volume.spec.csi, volume.metadata.annotations
        assert source is not None
        secret = None
        if MODIFY_SECRET_NAME in said:
            secret = SecretReference(name=said[MODIFY_SECRET_NAME], namespace=said.get(MODIFY_SECRET_NAMESPACE, ""))
        await self._driver.controller_modify(
            csi.ControllerModifyVolumeRequest(
                volume_id=source.volume_handle,
                secrets=await read_secret(self._client, secret),
                mutable_parameters=dict(wanted.parameters),
            )
        )

    async def _failed(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, target: str, failure: TonnageError
    ) -> float:
        told = error_text(failure)
        _log.warning("Not modified", claim=claim.key, volume=volume.name, error=told)
        self._recorder.event(claim, "Warning", "VolumeModifyFailed", "Modifying", told)
        is_never = isinstance(failure, CsiError) and is_infeasible(failure.code)
        # The pause first: our own write wakes us at once.
        pause_s = self._bound.failed(claim.key, (volume.uid, target), failure)
        status = INFEASIBLE if is_never else IN_PROGRESS
        await self._bound.write(claim, progress(claim, target, status, self._clock.now(), told))
        return pause_s
