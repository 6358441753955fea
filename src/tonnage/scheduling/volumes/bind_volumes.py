"""From a plan to bound volumes: Reserve assumes them, PreBind writes them and waits until they are bound.

    VolumePlan ──assume──► Assumed ──write──► API ──check──► SUCCESS │ ERROR │ None: keep waiting
                              └──revert──► the informer's objects

An existing volume gets a claimRef; a volume to create or rebuild (KEP-5925) is requested by annotations of its claim.
Writes are never undone: a provisioner that cannot create a volume removes selected-node itself. `Sending` writes claims
one by one where their order matters (`claim_sequences.py`). Checks and texts follow upstream 1.36
(volumeBinder.checkBindings).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import (
    BOUND_BY_CONTROLLER,
    REBUILD_TARGET,
    SELECTED_NODE,
    ObjectReference,
)
from tonnage.objects.meta import Key, Object
from tonnage.objects.volume_matching import is_bound_to_claim
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import AssumedObjects, OutOfSync, Storage
from tonnage.scheduling.framework import SUCCESS, Api, Code, Status
from tonnage.scheduling.volumes import claim_sequences, demand, static_volumes, volume_reach
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.volume_fit import VolumeFit

T = TypeVar("T", bound=Object)


@dataclass(slots=True)
class Assumed:
    """The objects assumed for one pod's volumes; once written, they are replaced by the API's answers."""

    pod: PodInfo
    node_name: str
    bindings: list[static_volumes.StaticBinding] = field(default_factory=list)
    claims: list[PersistentVolumeClaim] = field(default_factory=list)
    """Claims whose volumes will be created or rebuilt on the node, without duplicates."""
    held_volumes: dict[Key, PersistentVolume] = field(default_factory=dict)
    held_claims: dict[Key, PersistentVolumeClaim] = field(default_factory=dict)
    """The objects assumed for this pod. Only these are restored: other pods that share a claim keep theirs."""
    unsent: set[Key] = field(default_factory=set)
    """Claims that wait until the volumes of other claims exist (`Sending`)."""
    written: set[str] = field(default_factory=set)
    """Objects that the API already has, as kind/key. They are not restored."""

    def mark_written(self, each: Object) -> None:
        held: dict[Key, Any] = self.held_volumes if isinstance(each, PersistentVolume) else self.held_claims
        held.pop(each.key, None)
        self.written.add(_place(each))

    def mark_all_written(self, places: Iterable[str]) -> None:
        """Mark objects as written that a recording names as kind/key."""
        for place in places:
            for held in (self.held_volumes, self.held_claims):
                for each in [each for each in held.values() if _place(each) == place]:
                    self.mark_written(each)


def _place(each: Object) -> str:
    return f"{type(each).__name__}/{each.key}"


# -- Reserve ----------------------------------------------------------------------------------------------------------


def assume(storage: Storage, pod: PodInfo, plan: demand.VolumePlan, node_name: str) -> Assumed:
    """Make the plan visible to later decisions. Raises OutOfSync, with nothing assumed, if an object has changed."""
    assumed = Assumed(pod, node_name)
    try:
        for binding in plan.static:
            volume = with_claim_ref(binding.volume, binding.claim)
            if volume is not binding.volume:
                storage.volumes.assume(volume)
                assumed.held_volumes[volume.key] = volume
            assumed.bindings.append(static_volumes.StaticBinding(binding.claim, volume))
        for key, claim in {provision.claim.key: provision.claim for provision in plan.provisions}.items():
            sent = asking_for(claim, node_name)
            if sent is not claim:
                storage.claims.assume(sent)
                assumed.held_claims[key] = sent
            assumed.claims.append(sent)
    except OutOfSync:
        revert(storage, assumed)
        raise
    return assumed


def revert(storage: Storage, assumed: Assumed) -> None:
    """Undo `assume`: later decisions see the API's objects again. Safe to call twice."""
    _restore(storage.volumes, assumed.held_volumes)
    _restore(storage.claims, assumed.held_claims)


def with_claim_ref(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume with a claimRef to the claim; the same object if it has one. Mirrors GetBindVolumeToClaim. The
    annotation allows the binder to unbind the pair; a volume pre-bound to the claim does not get it."""
    owner, changed = volume.spec.claim_ref, volume
    if owner is None or owner.key != claim.key or owner.uid != claim.uid:
        reference = ObjectReference(
            api_version="v1",
            kind="PersistentVolumeClaim",
            namespace=claim.namespace,
            name=claim.name,
            uid=claim.uid,
            resource_version=claim.metadata.resource_version,
        )
        changed = msgspec.structs.replace(changed, spec=msgspec.structs.replace(volume.spec, claim_ref=reference))
    if not is_bound_to_claim(volume, claim) and BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        changed = _annotated(changed, {BOUND_BY_CONTROLLER: "yes"})
    return changed


def asking_for(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim with annotations that request a volume on the node; the same object if it has them."""
    asked = asking_annotations(claim, node_name)
    return claim if asked.items() <= claim.metadata.annotations.items() else _annotated(claim, asked)


def asking_annotations(claim: PersistentVolumeClaim, node_name: str) -> dict[str, str]:
    """The annotations that request a volume on a node. A bound claim also requests a rebuild there."""
    asked = {SELECTED_NODE: node_name}
    if claim.is_bound:
        asked[REBUILD_TARGET] = node_name
    return asked


def _annotated(each: T, more: Mapping[str, str]) -> T:
    metadata = msgspec.structs.replace(each.metadata, annotations={**each.metadata.annotations, **more})
    return msgspec.structs.replace(each, metadata=metadata)


def _restore(kept: AssumedObjects[T], held: dict[Key, T]) -> None:
    for key, mine in held.items():
        if kept.get(key) is mine:
            kept.restore(key)
    held.clear()


# -- PreBind ----------------------------------------------------------------------------------------------------------


async def write(api: Api, storage: Storage, assumed: Assumed, keys: Collection[Key] | None = None) -> None:
    """Write the assumed volumes, then the assumed claims (with `keys`, only these); unchanged objects are skipped.
    Raises the API's errors. On an error or a cancellation, unwritten objects are restored."""
    try:
        for number, (claim, volume) in enumerate([(binding.claim, binding.volume) for binding in assumed.bindings]):
            known = storage.volumes.api(volume.key)
            if known is None or with_claim_ref(known, claim) is not known:
                # The fields that `with_claim_ref` may change.
                patch: dict[str, Any] = {"spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}}
                if BOUND_BY_CONTROLLER in volume.metadata.annotations:
                    bound_by = volume.metadata.annotations[BOUND_BY_CONTROLLER]
                    patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: bound_by}}
                known = await api.patch(volume, patch)
            assumed.bindings[number] = static_volumes.StaticBinding(claim, known)
            assumed.mark_written(volume)
        for number, claim in enumerate(list(assumed.claims)):
            if keys is not None and claim.key not in keys:
                continue
            told = storage.claims.api(claim.key)
            asked = asking_annotations(claim, assumed.node_name)
            if told is None or not asked.items() <= told.metadata.annotations.items():
                told = await api.patch(claim, {"metadata": {"annotations": asked}})
            assumed.claims[number] = told
            assumed.mark_written(claim)
    except BaseException:
        revert(storage, assumed)
        raise


def check(cluster: Cluster, assumed: Assumed, api: Api) -> Status | None:
    """Whether the informers show all volumes as bound: SUCCESS, an ERROR that ends the wait, or None: not yet."""
    row = cluster.row_of.get(assumed.node_name)
    if row is None:
        return _failed(f'failed to get node "{assumed.node_name}": node "{assumed.node_name}" not found')
    if api.is_gone(assumed.pod):
        return _failed(f'pod does not exist any more: pod "{assumed.pod.pod.name}" not found')
    for binding in assumed.bindings:
        answer = _static(cluster, binding, row)
        if answer is not SUCCESS:
            return answer
    for claim in assumed.claims:
        if claim.key not in assumed.unsent:
            answer = _provisioned(cluster, claim, row)
            if answer is not SUCCESS:
                return answer
    return None if assumed.unsent else SUCCESS


def is_made(cluster: Cluster, assumed: Assumed, key: Key) -> bool:
    """True if the claim was sent and has its volume, according to the informers."""
    row = cluster.row_of.get(assumed.node_name)
    sent = [claim for claim in assumed.claims if claim.key == key and key not in assumed.unsent]
    return row is not None and all(_provisioned(cluster, claim, row) is SUCCESS for claim in sent)


def assume_again(storage: Storage, assumed: Assumed) -> None:
    """Assume unsent claims anew if somebody changed them, so that their room stays promised."""
    for number, claim in enumerate(assumed.claims):
        known = storage.claims.api(claim.key)
        if claim.key not in assumed.unsent or known is None or known.uid != claim.uid:
            continue
        if storage.claims.get(claim.key) is known and (now := asking_for(known, assumed.node_name)) is not known:
            storage.claims.assume(now)
            assumed.claims[number] = assumed.held_claims[claim.key] = now


def _static(cluster: Cluster, binding: static_volumes.StaticBinding, row: int) -> Status | None:
    storage = cluster.storage
    volume, claim = storage.volumes.api(binding.volume.key), storage.claims.api(binding.claim.key)
    if volume is None:
        return _failed(f'failed to check binding: persistentvolumes "{binding.volume.key}" not found')
    if claim is None:
        return _failed(f'failed to check binding: persistentvolumeclaims "{binding.claim.key}" not found')
    if volume.metadata.revision < binding.volume.metadata.revision:
        return None  # the informer does not show our write yet
    if not volume_reach.reaches(cluster, volume, row):
        return _failed(_mismatch(cluster, volume, row))
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        return _failed(f'ClaimRef got reset for pv "{volume.name}"')
    return SUCCESS if claim.is_bound else None


def _provisioned(cluster: Cluster, written: PersistentVolumeClaim, row: int) -> Status | None:
    """A claim being rebuilt stays bound: it is done when the informer shows the written annotations."""
    storage = cluster.storage
    claim = storage.claims.api(written.key)
    if claim is None:
        return _failed(f'failed to check provisioning pvc: persistentvolumeclaims "{written.key}" not found')
    if claim.metadata.revision < written.metadata.revision:
        return None
    if not claim.metadata.annotations:
        return _failed(f'selectedNode annotation reset for PVC "{claim.name}"')
    if claim.selected_node != cluster.name(row):
        return _failed(f'provisioning failed for PVC "{claim.name}"')
    if claim.spec.volume_name:
        volume = storage.volumes.api(claim.spec.volume_name)
        if volume is None:  # not seen yet; if it was deleted, the claim becomes unbound eventually
            return None
        if not volume_reach.reaches(cluster, volume, row):
            return _failed(_mismatch(cluster, volume, row))
    return SUCCESS if claim.is_bound else None


def _mismatch(cluster: Cluster, volume: PersistentVolume, row: int) -> str:
    return f'pv "{volume.name}" node affinity doesn\'t match node "{cluster.name(row)}": no matching NodeSelectorTerms'


def _failed(text: str) -> Status:
    return Status(Code.ERROR, (text,))


LOOK_EVERY_S = 5.0
"""How often a wait for capacity figures checks again without any event: promises also expire by time."""


class Sending:
    """Sends one pod's claims in order: which are sent, and which come next."""

    def __init__(self, fit: VolumeFit, plan: demand.VolumePlan, assumed: Assumed) -> None:
        self._fit = fit
        self._cluster: Cluster = fit.cluster
        self._sequences: Sequence[demand.ClaimSequence] = plan.sequences
        self._assumed = assumed
        assumed.unsent = {key for sequence in plan.sequences for key in sequence.unsent}
        self._capacity_of = {provision.claim.key: provision.capacity for provision in plan.provisions}
        self._version_at: dict[Key, str] = {}
        """By claim, the resourceVersion of its capacity object when the claim was sent."""
        self._due = [claim.key for claim in assumed.claims if claim.key not in assumed.unsent]
        self.failure: Status | None = None
        """The error; after one, nothing more is sent."""
        self._take_next()

    def due(self) -> Sequence[Key]:
        """The claims to write now. At first: claims that wait for no other, and the first claim of each group."""
        due, self._due = self._due, []
        for key in due:
            self._version_at[key] = self._version_of(key)
        self._assumed.unsent.difference_update(due)
        if self._fit.holds is not None and self._sequences:
            self._fit.holds.send(due)
        return due

    def look(self, api: Api) -> Status | None:
        """SUCCESS if all volumes exist or there are claims to write (`due`), ERROR, or None: not yet."""
        status = check(self._cluster, self._assumed, api)
        if status is None and self._assumed.unsent:
            assume_again(self._cluster.storage, self._assumed)
            self._take_next()
            status = self.failure or (SUCCESS if self._due else None)
        if status is not None and not status.is_success:
            self.failure = status
        return status

    def _take_next(self) -> None:
        for sequence in self._sequences:
            if not all(is_made(self._cluster, self._assumed, key) for key in sequence.under_way):
                continue
            try:
                keys = claim_sequences.next_claims(self._fit, sequence, self._is_shown)
            except claim_sequences.NoLongerFits:
                self.failure = self._gone_by(sequence)
                return
            if keys:
                sequence.send(keys)
                self._due += keys

    def _gone_by(self, sequence: demand.ClaimSequence) -> Status:
        claims, made = ", ".join(sorted(sequence.unsent)), ", ".join((*sequence.made, *sequence.under_way))
        after = f" beside the volume made for {made}" if made else ""
        told = f'no room is left on node "{self._assumed.node_name}" for {claims}{after}; no volume was asked for'
        return Status(Code.ERROR, (told,))

    def _is_shown(self, key: Key) -> bool:
        """True if the capacity object already accounts for the claim's volume, as far as can be known."""
        capacity = self._capacity_of.get(key)
        if capacity is None:
            return True
        if self._fit.holds is not None:
            return all(key not in hold.claims for hold in self._fit.holds.holds_on(identity(capacity)))
        return self._version_of(key) != self._version_at.get(key)

    def _version_of(self, key: Key) -> str:
        capacity = self._capacity_of.get(key)
        known = self._cluster.storage.capacities.get(capacity.key) if capacity is not None else None
        return known.metadata.resource_version if known is not None else ""

    async def send(self, api: Api, timeout_s: float) -> Status:
        """Write claims as the volumes before them are created, until all volumes exist."""
        storage, clock = self._cluster.storage, self._cluster.clock
        if not self._sequences:
            return await api.settled(lambda: self.look(api), timeout_s)
        ends_at = clock.monotonic() + timeout_s
        while True:
            left_s = max(ends_at - clock.monotonic(), 0.0)
            status = await api.settled(lambda: self.look(api), min(left_s, LOOK_EVERY_S))
            if due := self.due():
                await write(api, storage, self._assumed, due)
            elif status.is_success or self.failure is not None or left_s <= LOOK_EVERY_S:
                return status
