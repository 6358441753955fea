"""The volumes that were made for promises, bound or not: which objects show them, and what they leave behind.

A volume takes its room where it was made until it is gone, whatever becomes of its claim. So when the claim is sent
elsewhere, is deleted or lets go of it, the promise goes on as `data (volume pvc-1, on node-1)`, which no claim can be
named.
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
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.rebuilds import RebuildProgress
from tonnage.scheduling.volumes.reservations.holds import Hold, Timeouts
from tonnage.scheduling.volumes.reservations.promised_objects import PromisedObjects
from tonnage.scheduling.volumes.reservations.promises import EVER, Charges, Promise, Promises


class MadeVolumes:
    """Volumes by the claims that they were made for."""

    def __init__(
        self,
        storage: Storage,
        objects: PromisedObjects,
        promises: Promises,
        charges: Charges,
        settle: Callable[[Promise], None],
    ) -> None:
        self._storage = storage
        self._objects = objects
        self._figures = objects.figures
        self._promises = promises
        self._charges = charges
        self._settle = settle
        self._volume_of: dict[str, str] = {}
        """By the uid of a claim, the name of the volume that was made for it."""
        self._volumes_made = 0
        for volume in storage.volumes:
            self.changed(None, volume)

    @property
    def tick(self) -> int:
        """How many refreshes of any object there were."""
        return self._figures.tick

    def opened(self, promise: Promise) -> None:
        """A promise is new: note since when, and its volume, if that exists already."""
        self.note_asked(promise)
        name = self._volume_of.get(promise.claim.uid, "") if not promise.is_rebuild else ""
        volume = self._storage.volumes.get(name) if name else None
        if volume is not None:
            self.came(promise, volume)

    def bound(self, promise: Promise) -> None:
        """The claim of a promise was bound: its volume exists, whether or not its object was seen."""
        if not promise.order:
            promise.order = self.next_order()
            self.show_made(promise)

    def changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """A volume came, changed or went: see whether it was made for a promise, and whether figures show it."""
        for gone in (old,) if old is not None else ():
            owner = gone.spec.claim_ref
            if owner is not None and (new is None or new.spec.claim_ref != owner):
                self._volume_of.pop(owner.uid, None)
                promise = self._promises.get(owner.key)
                if promise is not None and promise.volume is gone and promise.made_tick is None:
                    promise.volume = None
                    promise.decided = promise.decided._replace(tick=self._figures.tick)
                    promise.shown_by.clear()
                    self._settle(promise)
        owner = new.spec.claim_ref if new is not None else None
        if new is None or owner is None or not owner.uid:
            return
        self._volume_of[owner.uid] = new.name
        promise = self._promises.get(owner.key)
        if promise is not None and promise.claim.uid == owner.uid and not promise.is_rebuild:
            is_first = promise.volume is None
            self.came(promise, new)
            if is_first:
                self._settle(promise)
                self.show_made(promise)

    def note_asked(self, promise: Promise) -> None:
        """Note when the claim was first seen with its node in the API: no figure from before is about its volume."""
        claim = promise.claim
        if promise.decided.asked_at is None and not claim.is_bound and not self._storage.claims.is_assumed(claim.key):
            promise.decided = promise.decided._replace(asked_at=claim.metadata.updated_at)

    def came(self, promise: Promise, volume: PersistentVolume) -> None:
        promise.volume = volume
        promise.order = promise.order or self.next_order()

    def next_order(self) -> int:
        self._volumes_made += 1
        return self._volumes_made

    def came_undecided(self, volume: PersistentVolume) -> None:
        """A volume that nobody decided on, and whose place is not known, takes of the pools that its class shares with
        others, where they promised some: its fall is not to be taken for another's."""
        of_class, owner = self._storage.classes.get(volume.spec.storage_class_name), volume.spec.claim_ref
        is_promised = owner is not None and self._promises.get(owner.key) is not None
        if of_class is None or of_class.waits_for_consumer or owner is None or not owner.uid or is_promised:
            return
        order, charged = self.next_order(), dict[str, None]()
        for class_name in self._objects.classes_with(of_class.name):
            for promise in self._promises.of_class(class_name):
                if self._objects.progress(promise.claim, volume) is not RebuildProgress.ELSEWHERE:
                    charged |= dict.fromkeys(promise.charged)
        for uid in charged:
            self._figures.came_undecided(uid, volume, owner.key, order)

    def show_made(self, promise: Promise) -> None:
        """The volume of a promise exists: note what its objects show of it, if they fell before."""
        for uid in list(promise.charged):
            capacity = self._objects.get(uid)
            if capacity is not None and uid not in promise.shown_by:
                for shown in self._figures.shown_by_volume(capacity, promise, self._unshown):
                    shown.shown_by.add(uid)
                    self._settle(shown)

    def show(self, capacity: CSIStorageCapacity) -> None:
        """An object was refreshed: note whose volumes it shows now."""
        uid = identity(capacity)
        for promise in self._figures.shown_by_refresh(capacity, self._unshown(uid)):
            promise.shown_by.add(uid)

    def _unshown(self, uid: str) -> list[Promise]:
        return [each for each in self.promises_on(uid) if uid not in each.shown_by]

    def promises_on(self, uid: str) -> list[Promise]:
        """What is charged to an object, and what is to be once it counts: its driver may not publish now."""
        charged = [self._promises.get(key) for key in self._charges.of(uid)]
        found = dict.fromkeys([*charged, *self._promises.naming(uid)])
        return [each for each in found if each is not None]


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
