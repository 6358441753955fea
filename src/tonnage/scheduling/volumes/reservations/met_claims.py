"""Claims and volumes seen for the first time, for example after a restart: is capacity promised for them?

    a claim with a node, not bound                          a volume to be created
    a claim that is bound
        its volume is on its way to another node            a rebuild, for as long as it takes
        its volume has just arrived there                   a finished rebuild; figures may not show it yet
        its volume is younger than the longest timeout      created; figures may not show it yet
        else                                                nothing: the figures show it, or never will
    a young volume whose claim has no node, or is unknown
                                                            created where its affinity says; may not show yet

The age of a volume is measured by the server's clock (`ServerTime`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tonnage.objects.core_v1 import PROVISIONED_BY, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.rebuilds import RebuildProgress, is_on_its_way
from tonnage.scheduling.volumes.reservations.holds import ServerTime
from tonnage.scheduling.volumes.reservations.promise_book import PromiseBook
from tonnage.scheduling.volumes.reservations.promises import Promise
from tonnage.scheduling.volumes.volume_reach import reachable

_LONGEST_S: Final = 3600.0
"""Older volumes are never judged again, however long a profile's timeout is."""


class MetClaims:
    """Judges claims and volumes seen for the first time, and opens their promises."""

    def __init__(self, cluster: Cluster, book: PromiseBook) -> None:
        self._cluster = cluster
        self._storage = cluster.storage
        self._clock = cluster.clock
        self._server = cluster.index(ServerTime)
        self._book = book
        self._unseen_volumes: dict[str, tuple[Key, int]] = {}
        """Volumes that a bound claim named before they were seen, with the claim's key and the tick of the claim."""
        self._too_old: dict[Key, tuple[str, int]] = {}
        """Bound claims without a promise only because of their volumes' age, with uids and the ticks of the volumes."""

    def meet_all(self) -> None:
        """Judge all claims and volumes at the start."""
        for claim in self._storage.claims:
            self.meet(claim)
        for volume in self._storage.volumes:
            self.meet_volume(volume)

    def meet(self, claim: PersistentVolumeClaim) -> None:
        """Judge a claim that has no promise."""
        if not claim.selected_node:
            return
        if not claim.is_bound:
            self._book.settle(self._book.open(claim, self._clock.now()))
            return
        volume = self._storage.volumes.get(claim.spec.volume_name)
        if volume is None:
            self._unseen_volumes[claim.spec.volume_name] = (claim.key, self._book.figures.tick)
        else:
            self._meet_bound(claim, volume, self._book.figures.tick)

    def meet_volume(self, volume: PersistentVolume) -> None:
        """Judge a volume without a claim that has a node: its binding is immediate, or its claim is late or gone."""
        created_at = volume.metadata.creation_timestamp
        age_s = self._server.age_s(created_at) if created_at is not None else self._book.longest_timeout_s
        is_wanted = age_s < self._book.longest_timeout_s and self._is_undecided(volume)
        place = self._place_of(volume) if is_wanted else ""
        promise = self._book.find(volume, place, age_s) if place else None
        if promise is not None:
            self._book.settle(promise)
            self._book.show_made(promise)
        else:
            self._book.came_undecided(volume)

    def _is_undecided(self, volume: PersistentVolume) -> bool:
        """True if a provisioner created the volume from counted capacity, and no claim with a node stands for it."""
        owner, of_class = volume.spec.claim_ref, self._storage.classes.get(volume.spec.storage_class_name)
        driver = self._storage.drivers.get(of_class.provisioner) if of_class is not None else None
        if owner is None or PROVISIONED_BY not in volume.metadata.annotations:
            return False
        if driver is not None and not driver.spec.storage_capacity:
            return False
        claim = self._storage.claims.get(owner.key)
        return claim is None or claim.uid != owner.uid or not claim.selected_node

    def _place_of(self, volume: PersistentVolume) -> str:
        """A node whose capacity the volume used, by its affinity; empty if none, or if nodes have different objects."""
        if volume.spec.node_affinity.required is None:
            return ""
        rows = np.flatnonzero(self._cluster.exists)
        names = [self._cluster.name(row) for row in rows[reachable(self._cluster, volume, rows)].tolist()]
        first: Sequence[CSIStorageCapacity] | None = None
        for name in names:
            objects = self._book.undecided_at(volume.spec.storage_class_name, name)
            if first is not None and list(map(identity, objects)) != list(map(identity, first)):
                return ""
            first = objects
        return names[0] if names else ""

    def take_unseen(self, volume_name: str) -> tuple[Key, int] | None:
        """Remove and return the bound claim that named the volume before it was seen, with its tick."""
        return self._unseen_volumes.pop(volume_name, None)

    def meet_late(self, volume: PersistentVolume, key: Key, tick: int) -> None:
        """Judge a volume that the claim named before, at this tick."""
        claim = self._storage.claims.get(key)
        if claim is None or self._book.promise_of(key) is not None:
            return
        if claim.is_bound and claim.spec.volume_name == volume.name:
            self._meet_bound(claim, volume, tick)

    def forget(self, claim: PersistentVolumeClaim) -> None:
        """Forget a bound claim that is gone or has another node or volume."""
        self._unseen_volumes.pop(claim.spec.volume_name, None)
        self._too_old.pop(claim.key, None)

    def timed_out(self, promise: Promise) -> None:
        """Remember a claim whose promise the longest timeout ended: a later profile may have a longer one."""
        if promise.timeout_s is None and promise.made_tick is not None and promise.volume is not None:
            self._too_old[promise.key] = (promise.claim.uid, promise.made_tick)

    def meet_again(self) -> None:
        """Judge volumes again that were too old and not shown since: the longest timeout has grown."""
        before, self._too_old = self._too_old, {}
        for key, (uid, tick) in before.items():
            claim = self._storage.claims.get(key)
            volume = self._storage.volumes.get(claim.spec.volume_name) if claim is not None else None
            if claim is None or volume is None or claim.uid != uid or self._book.promise_of(key) is not None:
                continue
            self._meet_bound(claim, volume, tick)
            promise = self._book.promise_of(key)
            if promise is not None:
                objects = self._book.charged_to(promise)
                for each in (*objects, *self._book.shared_with(objects)):
                    if self._book.figures.has_shown(each, promise):
                        promise.shown_by.add(identity(each))
                self._book.settle(promise)

    def _meet_bound(self, claim: PersistentVolumeClaim, volume: PersistentVolume, tick: int) -> None:
        """Open the promise of a claim bound to this volume, if one is needed. The claim was seen at this tick."""
        now, created_at = self._clock.now(), volume.metadata.creation_timestamp
        is_moving = is_on_its_way(claim, volume)
        if is_moving or self._has_just_arrived(claim, volume):
            promise = self._book.open(claim, now, is_rebuild=True)
            if not is_moving:
                self._book.was_made(promise, tick, self._server.now())
        elif created_at is None or not claim.selected_node:
            return
        else:
            age_s = self._server.age_s(created_at)
            if age_s >= self._book.longest_timeout_s and not self._book.is_unchecked(Promise(claim, now), created_at):
                if age_s < _LONGEST_S:
                    self._too_old[claim.key] = (claim.uid, tick)
                return
            promise = self._book.open(claim, created_at)
            self._book.has_volume(promise, volume)
            self._book.was_made(promise, tick, created_at, age_s)
        self._book.settle(promise)

    def _has_just_arrived(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
        """True if the figures may not show a volume rebuilt on the claim's node: an object with an older version than
        the volume's last change may have been measured before it."""
        is_marked = bool(claim.rebuild_target) and claim.rebuild_target == claim.selected_node
        if not is_marked or self._book.progress(claim, volume) is not RebuildProgress.ARRIVED:
            return False
        objects = self._book.charged_to(Promise(claim, self._clock.now(), is_rebuild=True))
        return any(each.has_kept_pools or each.metadata.revision < volume.metadata.revision for each in objects)
