"""What stays promised of a volume whose claim is sent elsewhere, is deleted, or has let go of it.

The volume is where it was made, whether or not the object there shows it, and takes its room until it is gone. So the
promise goes on under a name of its own, `data (still on node-1)` or `data (volume pvc-1)`, which no claim can have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tonnage.clock import Clock
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import PersistentVolumeClaimSpec, VolumeResourceRequirements
from tonnage.objects.meta import StampedMeta, split_key
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.storage import Storage
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
        made: MadeVolumes,
        waits: Timeouts,
        drop: Callable[[Promise], None],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._promises = promises
        self._made = made
        self._waits = waits
        self._drop = drop

    def of_hold(self, hold: Hold, class_name: str) -> Promise | None:
        """What another ledger keeps of an object of a class for a volume whose claim is gone; None if it is for a
        claim."""
        claim = _claim_of(hold, class_name)
        if claim is None:
            return None
        tick = self._made.tick
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
        behind = self._as_left(promise, has_claim=is_sent)
        for before in self._promises.rebuilds_of(behind.spec.volume_name):
            if before.is_left_behind and before.node_name == behind.selected_node:
                self._drop(before)
        left = Promise(behind, promise.since, is_left_behind=True, has_claim=is_sent)
        self._promises.add(left)
        left.decided, left.volume = promise.decided, promise.volume
        left.order = promise.order or self._made.next_order()
        left.made_tick, left.made_at = made
        left.shown_by, left.timeout_s = set(promise.shown_by), promise.timeout_s
        self._promises.name(left, promise.named)
        began_s = None if is_sent else self._waits.began_at(promise.key)
        self._waits.begin(left.key, self._clock.monotonic() if began_s is None else began_s)
        return left

    def count_once(self, made: Iterable[Promise]) -> None:
        """What a volume takes that was left behind is the same as what a claim takes that has the volume again."""
        for promise in made:
            for left in self._promises.rebuilds_of(promise.claim.spec.volume_name):
                if not left.has_claim and left.node_name == promise.node_name:
                    self._drop(left)

    def _as_left(self, promise: Promise, *, has_claim: bool) -> PersistentVolumeClaim:
        """The claim of a promise by another name, of its volume's size. A claim that is made anew may go as well, so
        that what has no claim is told apart by the volume."""
        claim = promise.claim
        where = f"still on {claim.selected_node}" if has_claim else f"volume {claim.spec.volume_name}"
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


def _claim_of(hold: Hold, class_name: str) -> PersistentVolumeClaim | None:
    """The claim that stands for a volume whose own is gone; None if the hold is for a claim that there is."""
    namespace, name = split_key(hold.claims[0])
    if not name.endswith(")"):
        return None
    spec = PersistentVolumeClaimSpec(
        storage_class_name=class_name,
        resources=VolumeResourceRequirements(requests={"storage": Quantity.of(hold.bytes)}),
        volume_name=name.partition(" (volume ")[2].removesuffix(")"),
    )
    return PersistentVolumeClaim(metadata=StampedMeta(namespace=namespace, name=name), spec=spec)
