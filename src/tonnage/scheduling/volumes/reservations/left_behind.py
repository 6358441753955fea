"""What stays promised of a volume whose claim is sent elsewhere, is deleted, or has let go of it; and what is promised
for one that nobody was seen to decide on.

The volume is where it was made, whether or not the object there shows it, and takes its room until it is gone. So the
promise goes on under a name of its own, `data (volume pvc-1, on node-1)`, which no claim can have, and no other volume:
claims of one name may come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tonnage.clock import Clock
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import (
    BIND_COMPLETED,
    SELECTED_NODE,
    PersistentVolumeClaimSpec,
    VolumeResourceRequirements,
)
from tonnage.objects.core_v1.volume import ObjectReference
from tonnage.objects.meta import StampedMeta, split_key
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.volumes.reservations.falls import EVER
from tonnage.scheduling.volumes.reservations.holds import Hold, Timeouts
from tonnage.scheduling.volumes.reservations.made_volumes import MadeVolumes
from tonnage.scheduling.volumes.reservations.promises import Promise, Promises


class LeftBehind:
    """Opens promises for what claims leave behind; `drop` ends one."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        promises: Promises,
        volumes: MadeVolumes,
        waits: Timeouts,
        drop: Callable[[Promise], None],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._promises = promises
        self._volumes = volumes
        self._waits = waits
        self._drop = drop

    def of_hold(self, hold: Hold, class_name: str) -> Promise | None:
        """What another ledger keeps of an object of a class for a volume whose claim is gone; None if it is for a
        claim."""
        claim = _claim_of(hold, class_name)
        if claim is None:
            return None
        tick = self._volumes.tick
        promise = Promise(claim, hold.since, tick=tick, is_left_behind=True, has_claim=False)
        self._promises.add(promise)
        promise.made_tick = tick
        self._waits.begin(promise.key, self._clock.monotonic())
        return promise

    def leave(self, promise: Promise, claim: PersistentVolumeClaim | None) -> Promise | None:
        """Open the promise that follows one whose claim is this now; None if nothing stays promised.

        It ends when the object shows it or the volume has gone from there. Of a volume that is not known (any more)
        nothing stays, unless its claim is on the way elsewhere and says that it is.
        """
        made = promise.arrived if promise.made_tick is None else (promise.made_tick, promise.made_at)
        is_sent = claim is not None and _is_sent_elsewhere(promise.claim, claim)
        if made is None or promise.is_left_behind:
            return None
        if not is_sent and self._storage.volumes.get(promise.claim.spec.volume_name) is None:
            return None
        behind = self._as_left(promise)
        for before in self._promises.rebuilds_of(behind.spec.volume_name):
            if before.is_left_behind and before.node_name == behind.selected_node:
                self._drop(before)
        left = Promise(behind, promise.since, is_left_behind=True, has_claim=is_sent)
        self._promises.add(left)
        left.decided, left.volume = promise.decided, promise.volume
        left.order = promise.order or self._volumes.next_order()
        left.made_tick, left.made_at = made
        left.shown_by, left.timeout_s = set(promise.shown_by), promise.timeout_s
        self._promises.name(left, promise.named)
        began_s = None if is_sent else self._waits.began_at(promise.key)
        self._waits.begin(left.key, self._clock.monotonic() if began_s is None else began_s)
        return left

    def find(self, volume: PersistentVolume, node_name: str, age_s: float) -> Promise | None:
        """Open the promise for a volume on a node that nobody was seen to decide on; None if there is one."""
        claim = _found_claim(volume, node_name)
        if self._promises.get(claim.key) is not None:
            return None
        promise = Promise(claim, self._clock.now(), is_left_behind=True, has_claim=False)
        self._promises.add(promise)
        promise.decided = EVER
        promise.made_tick, promise.made_at = self._volumes.tick, volume.metadata.creation_timestamp
        self._volumes.came(promise, volume)
        self._waits.begin(promise.key, self._clock.monotonic() - age_s)
        return promise

    def found_claim(self, promise: Promise) -> None:
        """The claim of a volume is known now: what was promised for the volume is its promise's."""
        for found in self._promises.rebuilds_of(promise.volume.name) if promise.volume is not None else ():
            if found.is_undecided:
                promise.shown_by |= found.shown_by
                self._drop(found)

    def count_once(self, made: Iterable[Promise]) -> None:
        """What a volume takes that was left behind is the same as what a claim takes that has the volume again."""
        for promise in made:
            for left in self._promises.rebuilds_of(promise.claim.spec.volume_name):
                if not left.has_claim and left.node_name == promise.node_name:
                    self._drop(left)

    def _as_left(self, promise: Promise) -> PersistentVolumeClaim:
        """The claim of a promise by another name, of its volume's size."""
        claim = promise.claim
        where = _place(claim.spec.volume_name, claim.selected_node)
        metadata = msgspec.structs.replace(claim.metadata, name=f"{claim.name} ({where})")
        left = msgspec.structs.replace(claim, metadata=metadata)
        volume = self._storage.volumes.get(claim.spec.volume_name) if promise.is_rebuild else None
        if volume is None:
            return left
        resources = msgspec.structs.replace(claim.spec.resources, requests={"storage": volume.size})
        return msgspec.structs.replace(left, spec=msgspec.structs.replace(claim.spec, resources=resources))


def _is_sent_elsewhere(before: PersistentVolumeClaim, now: PersistentVolumeClaim) -> bool:
    is_same = (now.uid, now.spec.volume_name, now.is_bound) == (before.uid, before.spec.volume_name, before.is_bound)
    return is_same and now.is_bound and now.selected_node not in ("", before.selected_node)


def _place(volume_name: str, node_name: str) -> str:
    return f"volume {volume_name}, on {node_name}"


def _found_claim(volume: PersistentVolume, node_name: str) -> PersistentVolumeClaim:
    """The claim that stands for a volume of whose own no node is known."""
    owner = volume.spec.claim_ref or ObjectReference()
    metadata = StampedMeta(
        namespace=owner.namespace,
        name=f"{owner.name} ({_place(volume.name, node_name)})",
        uid=owner.uid,
        annotations={SELECTED_NODE: node_name, BIND_COMPLETED: "yes"},
    )
    spec = PersistentVolumeClaimSpec(
        storage_class_name=volume.spec.storage_class_name,
        resources=VolumeResourceRequirements(requests={"storage": volume.size}),
        volume_name=volume.name,
    )
    return PersistentVolumeClaim(metadata=metadata, spec=spec)


def _claim_of(hold: Hold, class_name: str) -> PersistentVolumeClaim | None:
    """The claim that stands for a volume whose own is gone; None if the hold is for a claim that there is."""
    namespace, name = split_key(hold.claims[0])
    if not name.endswith(")"):
        return None
    spec = PersistentVolumeClaimSpec(
        storage_class_name=class_name,
        resources=VolumeResourceRequirements(requests={"storage": Quantity.of(hold.bytes)}),
        volume_name=name.partition(" (volume ")[2].partition(",")[0],
    )
    return PersistentVolumeClaim(metadata=StampedMeta(namespace=namespace, name=name), spec=spec)
