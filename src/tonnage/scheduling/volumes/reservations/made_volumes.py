"""The volumes that were made for promises, bound or not, and which objects show them.

    a volume's object comes ──► whose promise it is for ──► what fell before pays for it, if it is enough
    an object is refreshed  ──► which of the volumes on it are shown now

What figures tell is `figures.py`; what follows for a promise that is shown is the ledger's (`settle`).
"""

from __future__ import annotations

from collections.abc import Callable

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.rebuilds import RebuildProgress
from tonnage.scheduling.volumes.reservations.promised_objects import PromisedObjects
from tonnage.scheduling.volumes.reservations.promises import Charges, Promise, Promises


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
