"""external-resizer's work: expands volumes, and changes their VolumeAttributesClass, as their claims request.

    request > status.capacity
        │ allocatedResources = request, ControllerResizeInProgress, condition Resizing
        ▼
    ControllerExpandVolume ──► PV capacity ──┬─ the node has to do its part: NodeResizePending
        │ refused                            └─ nothing left to do: status.capacity, conditions off
        ▼
    condition ControllerResizeError; what can never work is ControllerResizeInfeasible, and is tried rarely

A size in doubt is finished before another is begun. Mirrors external-resizer's expandAndRecover and resize_status.

    spec.volumeAttributesClassName != status.currentVolumeAttributesClassName
        │ modifyVolumeStatus InProgress, condition ModifyingVolume (Pending while the class is missing)
        ▼
    ControllerModifyVolume ──► PV spec.volumeAttributesClassName, claim's current class, status and conditions off
        │ refused
        ▼
    condition ModifyVolumeError; what can never work is Infeasible, and is tried rarely
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from tonnage import clock, errors, logs
from tonnage.client.cache import MutationCache
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, CsiError, error_text, is_in_doubt
from tonnage.objects import codec, storage_v1
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, persistent_volume
from tonnage.objects.core_v1.persistent_volume import SecretReference
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.provisioner.context import InvalidClaim, ProvisionerContext, ProvisionerPart, SecretUnavailable
from tonnage.provisioner.volumes.create_volume import MODIFY_SECRET_NAME, MODIFY_SECRET_NAMESPACE, capability
from tonnage.provisioner.volumes.topology import is_accessible
from tonnage.quantity import Quantity

NODE_EXPANSION_NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
_WAITING_FOR_NODE: Final = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
_INFEASIBLE: Final = frozenset({Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND})
MODIFYING, MODIFY_ERROR = "ModifyingVolume", "ModifyVolumeError"
PENDING, IN_PROGRESS, INFEASIBLE = "Pending", "InProgress", "Infeasible"
_LOOK_AGAIN_S: Final = 5.0
"""For a missing class: there is no informer for the few claims that name one."""

_log = logs.logger("tonnage.provisioner")


def belongs_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    owner = volume.spec.claim_ref
    return owner is not None and owner.namespace == claim.namespace and owner.uid == claim.uid


def size_to_reach(
    claim: PersistentVolumeClaim, volume: PersistentVolume, *, by_controller: bool, was_refused: bool
) -> Quantity | None:
    """The size to request from the driver now; None if it is the node's turn, or nothing is to be done.

    `by_controller`: the driver expands by controller calls. `was_refused`: its last answer was a clear refusal.
    """
    asked, known = claim.requested, claim.status.capacity.get("storage")
    is_bound = claim.status.phase == "Bound" and bool(claim.spec.volume_name)
    if not is_bound or asked is None or (known is not None and asked <= known):
        return None
    has = volume.spec.capacity.get("storage", Quantity.from_int(0))
    status = claim.status.allocated_resource_statuses.get("storage", "")
    allocated = claim.status.allocated_resources.get("storage")
    if has < asked:
        if allocated is None:
            return asked
        if status in (persistent_volume.NODE_PENDING, persistent_volume.NODE_IN_PROGRESS):
            return None if has >= allocated else allocated  # finish the expansion that was begun first
        if status == persistent_volume.NODE_INFEASIBLE or (
            status == persistent_volume.CONTROLLER_IN_PROGRESS and not was_refused
        ):
            return allocated
        return asked
    if status in (persistent_volume.NODE_PENDING, persistent_volume.NODE_IN_PROGRESS):
        return None
    if status == persistent_volume.NODE_INFEASIBLE:
        return allocated if by_controller and allocated is not None else asked
    if (
        status == ""
        and allocated is None
        and any(each.type == persistent_volume.FS_PENDING for each in claim.status.conditions)
    ):
        return None  # a server that drops the newer fields still shows the condition
    return allocated if allocated is not None else asked


def is_final(code: Code) -> bool:
    """True if the driver is not at work. Unlike upstream, "no capacity" is final: the claim may request less."""
    return not is_in_doubt(code)


def is_infeasible(code: Code) -> bool:
    return code in _INFEASIBLE


# -- what is written --------------------------------------------------------------------------------------------------


def begun(claim: PersistentVolumeClaim, size: Quantity, now: datetime) -> Doc:
    """The patch before the driver is asked for this size; empty if it is already written."""
    is_same = claim.status.allocated_resources.get("storage") == size
    status: Doc = {"conditions": _merged(claim, [condition(persistent_volume.RESIZING, now)], keeps_old=is_same)}
    if not is_same:
        status["allocatedResources"] = {"storage": str(size)}
        status["allocatedResourceStatuses"] = {"storage": persistent_volume.CONTROLLER_IN_PROGRESS}
    elif any(each.type == persistent_volume.RESIZING and each.is_true for each in claim.status.conditions):
        return {}
    return status_patch(claim, status, {NODE_EXPANSION_NOT_REQUIRED: None})


def left_to_node(claim: PersistentVolumeClaim, now: datetime) -> Doc:
    """The patch after the controller's part: the node has to do its own."""
    told = condition(persistent_volume.FS_PENDING, now, _WAITING_FOR_NODE)
    status = {
        "conditions": _merged(claim, [told], keeps_old=True),
        "allocatedResourceStatuses": {"storage": persistent_volume.NODE_PENDING},
    }
    return status_patch(claim, status, {NODE_EXPANSION_NOT_REQUIRED: None})


def finished(claim: PersistentVolumeClaim, size: Quantity) -> Doc:
    """The patch when all is done; it tells the node that it has nothing to do."""
    status = {
        "capacity": {"storage": str(size)},
        "conditions": _merged(claim, [], keeps_old=False),
        "allocatedResourceStatuses": {"storage": None},
    }
    return status_patch(claim, status, {NODE_EXPANSION_NOT_REQUIRED: "true"})


def refused(claim: PersistentVolumeClaim, why: str, now: datetime, *, infeasible: bool) -> Doc:
    told = condition(persistent_volume.CONTROLLER_ERROR, now, f"failed to expand pvc with {why}")
    status: Doc = {"conditions": _merged(claim, [told], keeps_old=True)}
    if infeasible:
        status["allocatedResourceStatuses"] = {"storage": persistent_volume.CONTROLLER_INFEASIBLE}
    return status_patch(claim, status, {})


def grown(volume: PersistentVolume, size: Quantity, before: Quantity | None, *, by_node: bool) -> Doc:
    """The patch with the volume's new size and, if the node has work left, its old size."""
    metadata: Doc = {"resourceVersion": volume.metadata.resource_version}
    if by_node and before is not None and PRE_RESIZE_CAPACITY not in volume.metadata.annotations:
        metadata["annotations"] = {PRE_RESIZE_CAPACITY: str(before)}
    return {"metadata": metadata, "spec": {"capacity": {"storage": str(size)}}}


def is_node_done(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """True if the annotation with the old size can go."""
    has, size = claim.status.capacity.get("storage"), volume.spec.capacity.get("storage")
    is_marked = PRE_RESIZE_CAPACITY in volume.metadata.annotations
    return is_marked and has is not None and size is not None and has >= size


def status_patch(claim: PersistentVolumeClaim, status: Doc, annotations: Mapping[str, str | None]) -> Doc:
    metadata: Doc = {"resourceVersion": claim.metadata.resource_version}
    if changed := {key: value for key, value in annotations.items() if claim.metadata.annotations.get(key) != value}:
        metadata["annotations"] = changed
    return {"metadata": metadata, "status": status}


def condition(type: str, now: datetime, message: str = "") -> Doc:
    found = {"type": type, "status": "True", "lastTransitionTime": clock.rfc3339(now)}
    return {**found, "message": message} if message else found


def _merged(claim: PersistentVolumeClaim, new: Iterable[Doc], *, keeps_old: bool) -> list[Doc]:
    """The claim's conditions, with `new` replacing equal types; other resize conditions go unless `keeps_old`."""
    wanted: dict[str, Any] = {each["type"]: each for each in new}
    merged: list[Doc] = []
    for known in claim.status.conditions:
        if known.type in wanted:
            merged.append(wanted.pop(known.type))
        elif keeps_old or known.type not in persistent_volume.RESIZE_CONDITIONS:
            merged.append(codec.to_doc(known))
    return [*merged, *wanted.values()]


class BoundClaimController(ProvisionerPart):
    """Base for changes of bound claims' volumes: which are ours, what was refused."""

    def __init__(self, context: ProvisionerContext) -> None:
        super().__init__(context)
        self._backoff = context.new_backoff()
        self._refused: set[Key] = set()
        self._newest = MutationCache(self._claims, clock=context.clock)
        self._newest_volumes = MutationCache(self._volumes, clock=context.clock)

    async def reconcile(self, key: Key) -> float | None:
        """Look at a claim and its volume, as we wrote them if caches lag behind, if they are ours."""
        claim = self._newest.get(key)
        volume = self._newest_volumes.get(claim.spec.volume_name) if claim is not None else None
        source = volume.spec.csi if volume is not None else None
        is_ours = source is not None and source.driver == self._driver_info.name
        if (
            claim is None
            or volume is None
            or not (
                is_ours and belongs_to(volume, claim) and is_accessible(volume.spec.node_affinity, self._own_topology)
            )
        ):
            self._forget(key)
            return None
        return await self._look_at(claim, volume)

    @abstractmethod
    async def _look_at(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> float | None:
        """Do what the claim asks for; returns the pause before the next look, if there is one."""

    def _pause_after(self, key: Key, attempt: Hashable, failure: errors.TonnageError) -> float:
        """The pause before the next attempt; infeasible requests are retried rarely."""
        code = failure.code if isinstance(failure, CsiError) else None
        at_least_s = self._options.retry_max_s if code is not None and is_infeasible(code) else 0.0
        if code is not None and is_final(code):
            self._refused.add(key)
        else:
            self._refused.discard(key)
        return self._backoff.failed(key, attempt, at_least_s=at_least_s)

    def _forget(self, key: Key) -> None:
        """There is nothing left to try."""
        self._backoff.forget(key)
        self._refused.discard(key)

    async def _write(self, claim: PersistentVolumeClaim, patch: Doc) -> PersistentVolumeClaim:
        """Write a step of the status; returns the new claim. Raises Conflict if it has changed since."""
        if not patch:
            return claim
        return self._newest.store(
            await self._client.patch(PersistentVolumeClaim, claim.key, patch, subresource="status")
        )

    async def _patch_volume(self, volume: PersistentVolume, patch: Doc) -> PersistentVolume:
        return self._newest_volumes.store(await self._client.patch(PersistentVolume, volume.name, patch))


class ExpansionController(BoundClaimController):
    """Expands the volumes of one driver; in node-deployment mode those of its node."""

    def __init__(self, context: ProvisionerContext) -> None:
        super().__init__(context)
        self.work = context.queue("expansion", self.reconcile)
        self.work.follow(self._claims)
        self.work.follow(self._volumes, lambda volume: (volume.spec.claim_ref.key,) if volume.spec.claim_ref else ())

    async def _look_at(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> float | None:
        key = claim.key
        if is_node_done(claim, volume):
            version = volume.metadata.resource_version
            metadata = {"resourceVersion": version, "annotations": {PRE_RESIZE_CAPACITY: None}}
            volume = await self._patch_volume(volume, {"metadata": metadata})
        by_controller, was_refused = self._driver_info.controller.expand_volume, key in self._refused
        size = size_to_reach(claim, volume, by_controller=by_controller, was_refused=was_refused)
        # The class must allow it. Admission checks that where it is on; an expansion that has begun continues.
        storage_class = self._classes.get(claim.class_name)
        is_allowed = storage_class is not None and storage_class.allow_volume_expansion
        if size is None or not (claim.status.allocated_resource_statuses or is_allowed):
            self._forget(key)
            return None
        return self._backoff.left_s(key, (volume.uid, size)) or await self._expand(claim, volume, size)

    async def _expand(self, claim: PersistentVolumeClaim, volume: PersistentVolume, size: Quantity) -> float | None:
        """One attempt; returns the pause before the next, if there is one."""
        claim = await self._write(claim, begun(claim, size, self._clock.now()))
        told = f"External resizer is resizing volume {volume.name}"
        self._recorder.event(claim, "Normal", "Resizing", "Resizing", told)
        try:
            size, by_node = await self._ask(volume, size)
        except (CsiError, SecretUnavailable, InvalidClaim) as exc:
            return await self._failed(claim, volume, size, exc)
        self._forget(claim.key)
        before = claim.status.capacity.get("storage")
        volume = await self._patch_volume(volume, grown(volume, size, before, by_node=by_node))
        self._refresher.refresh_volume(volume)
        if by_node:
            await self._write(claim, left_to_node(claim, self._clock.now()))
            told = "Require file system resize of volume on node"
            self._recorder.event(claim, "Normal", "FileSystemResizeRequired", "Resizing", told)
        else:
            await self._write(claim, finished(claim, size))
            self._recorder.event(claim, "Normal", "VolumeResizeSuccessful", "Resizing", "Resize volume succeeded")
        _log.info("Expanded", claim=claim.key, volume=volume.name, size=size, by_node=by_node)
        return None

    async def _ask(self, volume: PersistentVolume, size: Quantity) -> tuple[Quantity, bool]:
        """The new size, and True if the node has work left. Raises CsiError, SecretUnavailable or InvalidClaim."""
        source, spec = volume.spec.csi, volume.spec
        if source is None or self._driver_info.expands_on_nodes_only:
            return size, True
        answer = await self._driver.controller_expand(
            csi.ControllerExpandVolumeRequest(
                volume_id=source.volume_handle,
                capacity_range=csi.CapacityRange(required_bytes=size.value()),
                secrets=await self._read_secret(source.controller_expand_secret_ref),
                volume_capability=capability(
                    spec.access_modes, spec.volume_mode, source.fs_type, spec.mount_options, self._driver_info
                ),
            )
        )
        has_bytes = answer.capacity_bytes or size.value()
        if has_bytes < size.value():
            told = f"expanded volume capacity {has_bytes} less than requested capacity {size.value()}"
            raise CsiError("/csi.v1.Controller/ControllerExpandVolume", Code.DATA_LOSS, told)
        return Quantity.from_bytes(has_bytes), answer.node_expansion_required

    async def _failed(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, size: Quantity, failure: errors.TonnageError
    ) -> float:
        told = error_text(failure)
        whole = f'resize volume "{volume.name}" by resizer "{self._driver_info.name}" failed: {told}'
        _log.warning("Not expanded", claim=claim.key, volume=volume.name, error=told)
        self._refresher.refresh_volume(volume)
        self._recorder.event(claim, "Warning", "VolumeResizeFailed", "Resizing", whole)
        # The pause first: our own write wakes us at once.
        pause_s = self._pause_after(claim.key, (volume.uid, size), failure)
        if isinstance(failure, CsiError) and is_final(failure.code):
            infeasible = is_infeasible(failure.code)
            await self._write(claim, refused(claim, told, self._clock.now(), infeasible=infeasible))
        return pause_s


def target_class(claim: PersistentVolumeClaim, *, was_refused: bool = False) -> str:
    """The class to change a claim's volume to now; empty if nothing is to be done."""
    if not claim.is_bound or claim.status.phase != "Bound":
        return ""
    wanted, has = claim.spec.volume_attributes_class_name or "", claim.status.current_volume_attributes_class_name
    begun = claim.status.modify_volume_status
    if begun is not None and begun.status == IN_PROGRESS and not was_refused:
        return begun.target_volume_attributes_class_name or wanted
    return wanted if wanted and wanted != has else ""


def progress(claim: PersistentVolumeClaim, target: str, status: str, now: datetime, error: str = "") -> Doc:
    """The patch with the progress; empty if the claim has it."""
    known = claim.status.modify_volume_status
    is_same = known is not None and (known.target_volume_attributes_class_name, known.status) == (target, status)
    told = {condition.type: condition.message for condition in claim.status.conditions}
    is_told = (MODIFYING in told or status != IN_PROGRESS) and (not error or told.get(MODIFY_ERROR) == error)
    if is_same and is_told:
        return {}
    conditions = [condition(MODIFYING, now)] if status == IN_PROGRESS else []
    if error:
        conditions.append(condition(MODIFY_ERROR, now, error))
    changed = {"targetVolumeAttributesClassName": target, "status": status}
    return _patch(claim, conditions, {"modifyVolumeStatus": changed})


def done(claim: PersistentVolumeClaim, target: str) -> Doc:
    return _patch(claim, [], {"currentVolumeAttributesClassName": target, "modifyVolumeStatus": None})


def _patch(claim: PersistentVolumeClaim, conditions: list[Doc], status: Doc) -> Doc:
    """These conditions replace those of an earlier modification; others stay."""
    others = [codec.to_doc(each) for each in claim.status.conditions if each.type not in (MODIFYING, MODIFY_ERROR)]
    return status_patch(claim, {**status, "conditions": [*others, *conditions] or None}, {})


class ModificationController(BoundClaimController):
    """Modifies the volumes of one driver; in node-deployment mode those of its node."""

    def __init__(self, context: ProvisionerContext) -> None:
        super().__init__(context)
        self.work = context.queue("modification", self.reconcile)
        self.work.follow(self._claims)

    async def _look_at(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> float | None:
        key = claim.key
        target = target_class(claim, was_refused=key in self._refused)
        if not target:
            self._forget(key)
            return None
        return self._backoff.left_s(key, (volume.uid, target)) or await self._modify(claim, volume, target)

    async def _modify(self, claim: PersistentVolumeClaim, volume: PersistentVolume, target: str) -> float | None:
        now = self._clock.now()
        try:
            wanted = await self._client.get(storage_v1.VolumeAttributesClass, target)
        except errors.NotFound:
            await self._write(claim, progress(claim, target, PENDING, now))
            told = f'VolumeAttributesClass "{target}" not found'
            self._recorder.event(claim, "Warning", "VolumeModifyFailed", "Modifying", told)
            return _LOOK_AGAIN_S
        if wanted.driver_name != self._driver_info.name:
            told = f"VAC {target} is for driver {wanted.driver_name}, and the volume is of {self._driver_info.name}"
            await self._write(claim, progress(claim, target, INFEASIBLE, now, told))
            self._recorder.event(claim, "Warning", "VolumeModifyFailed", "Modifying", told)
            return None
        claim = await self._write(claim, progress(claim, target, IN_PROGRESS, now))
        told = f"external resizer is modifying volume {claim.name} with vac {target}"
        self._recorder.event(claim, "Normal", "VolumeModify", "Modifying", told)
        try:
            await self._ask(volume, wanted)
        except (CsiError, SecretUnavailable) as exc:
            return await self._failed(claim, volume, target, exc)
        self._forget(claim.key)
        await self._patch_volume(volume, {"spec": {"volumeAttributesClassName": target}})
        await self._write(claim, done(claim, target))
        told = f"external resizer modified volume {claim.name} with vac {target} successfully"
        self._recorder.event(claim, "Normal", "VolumeModifySuccessful", "Modifying", told)
        _log.info("Modified", claim=claim.key, volume=volume.name, attributes=target)
        return None

    async def _ask(self, volume: PersistentVolume, wanted: storage_v1.VolumeAttributesClass) -> None:
        source, said = volume.spec.csi, volume.metadata.annotations
        assert source is not None
        secret = None
        if MODIFY_SECRET_NAME in said:
            secret = SecretReference(name=said[MODIFY_SECRET_NAME], namespace=said.get(MODIFY_SECRET_NAMESPACE, ""))
        await self._driver.controller_modify(
            csi.ControllerModifyVolumeRequest(
                volume_id=source.volume_handle,
                secrets=await self._read_secret(secret),
                mutable_parameters=dict(wanted.parameters),
            )
        )

    async def _failed(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, target: str, failure: errors.TonnageError
    ) -> float:
        told = error_text(failure)
        _log.warning("Not modified", claim=claim.key, volume=volume.name, error=told)
        self._recorder.event(claim, "Warning", "VolumeModifyFailed", "Modifying", told)
        is_never = isinstance(failure, CsiError) and is_infeasible(failure.code)
        # The pause first: our own write wakes us at once.
        pause_s = self._pause_after(claim.key, (volume.uid, target), failure)
        status = INFEASIBLE if is_never else IN_PROGRESS
        await self._write(claim, progress(claim, target, status, self._clock.now(), told))
        return pause_s
