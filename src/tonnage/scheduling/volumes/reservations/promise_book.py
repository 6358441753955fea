"""The life of a promise: opened, made, charged to objects, shown by their figures, left behind, ended.

Whatever changes, `_look` computes the promise anew from its claim, its volume, the capacity objects and their figures:
what it is charged with is compared with before.

A volume uses its capacity until it is deleted, whatever happens to its claim. If the claim is sent elsewhere, deleted
or unbound, the promise continues under the name `data (volume pvc-1, on node-1)`, which no claim can have.

The object named at Reserve is charged while it reaches the node; a promise without one is charged to every object of
its class that does. Siblings in a capacity group are charged too. Each object is charged until it shows the volume.

A claim or volume that is seen for the first time, for example after a restart, may be a promise:

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

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count

import numpy as np

from tonnage.objects.core_v1 import PROVISIONED_BY, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import (
    BIND_COMPLETED,
    SELECTED_NODE,
    ObjectReference,
    PersistentVolumeClaimSpec,
    VolumeResourceRequirements,
)
from tonnage.objects.meta import Key, StampedMeta, split_key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.pools import largest_volume
from tonnage.scheduling.volumes.reservations import holds
from tonnage.scheduling.volumes.reservations.promises import EVER, Decided, Figures, Promise
from tonnage.scheduling.volumes.volume_reach import RebuildProgress, VolumePlaces, is_on_its_way, reachable


class PromiseBook(holds.CapacityHolds):
    """All promises of a cluster, by claim. `Ledger` calls it with events."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._figures = Figures(self._storage)
        self._records: holds.Records[Promise] = holds.Records()
        self._volume_of: dict[str, str] = {}
        """By claim uid, the name of the volume that was created for it."""
        self._orders = count(1)
        """The order in which volumes came to exist."""
        self._unseen_volumes: dict[str, tuple[Key, int]] = {}
        """Volumes that a bound claim named before they were seen, with the claim's key and the tick of the claim."""
        for volume in self._storage.volumes:
            self._note_owner(volume)

    def _note_owner(self, volume: PersistentVolume) -> None:
        owner = volume.spec.claim_ref
        if owner is not None and owner.uid:
            self._volume_of[owner.uid] = volume.name

    # -- claims and volumes seen for the first time -------------------------------------------------------------------

    def _meet_all(self) -> None:
        for claim in self._storage.claims:
            if self._records.get(claim.key) is None:
                self._meet(claim)
        for volume in self._storage.volumes:
            self._meet_volume(volume)

    def _meet(self, claim: PersistentVolumeClaim) -> None:
        """Judge a claim that has no promise."""
        if not claim.selected_node:
            return
        volume = self._storage.volumes.get(claim.spec.volume_name) if claim.is_bound else None
        if not claim.is_bound:
            self._look(self._new(claim, self._clock.now()))
        elif volume is None:
            self._unseen_volumes[claim.spec.volume_name] = (claim.key, self._figures.tick)
        else:
            self._meet_bound(claim, volume, self._figures.tick)

    def _meet_bound(self, claim: PersistentVolumeClaim, volume: PersistentVolume, tick: int) -> None:
        """Open the promise of a claim bound to this volume, if one is needed. The claim was seen at this tick."""
        created_at, is_moving = volume.metadata.creation_timestamp, is_on_its_way(claim, volume)
        objects = self._index.objects_at(claim.class_name, claim.selected_node)
        if is_moving or self._has_just_arrived(claim, volume, objects):
            promise = self._new(claim, self._clock.now(), is_rebuild=True)
            if not is_moving:
                self._arrived(promise, tick, self._server.now())
        elif created_at is None or not claim.selected_node:
            return
        else:
            age_s = self._server.age_s(created_at)
            if age_s >= self.longest_timeout_s and not any(each.is_unchecked_since(created_at) for each in objects):
                return
            promise = self._new(claim, created_at)
            promise.volume, promise.order = volume, next(self._orders)
            self._arrived(promise, tick, created_at, age_s)
        self._look(promise)

    def _has_just_arrived(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, objects: Sequence[CSIStorageCapacity]
    ) -> bool:
        """True if the figures may not show a volume rebuilt on the claim's node: an object with an older version than
        the volume's last change may have been measured before it."""
        is_marked = bool(claim.rebuild_target) and claim.rebuild_target == claim.selected_node
        if not is_marked or self._progress(claim, volume) is not RebuildProgress.ARRIVED:
            return False
        return any(each.has_kept_pools or each.metadata.revision < volume.metadata.revision for each in objects)

    def _meet_volume(self, volume: PersistentVolume) -> None:
        """Judge a volume without a claim that has a node: its binding is immediate, or its claim is late or gone."""
        created_at = volume.metadata.creation_timestamp
        age_s = self._server.age_s(created_at) if created_at is not None else self.longest_timeout_s
        is_wanted = age_s < self.longest_timeout_s and self._is_undecided(volume)
        place = self._place_of(volume) if is_wanted else ""
        claim = _stand_in(volume, place)
        if not place or self._records.get(claim.key) is not None:
            self._came_undecided(volume)
            return
        promise = Promise(claim=claim, since=self._clock.now(), decided=EVER, is_left_behind=True, has_claim=False)
        promise.made_tick, promise.made_at = self._figures.tick, created_at
        promise.waits_since_s = self._clock.monotonic() - age_s
        promise.volume, promise.order = volume, next(self._orders)
        self._look(promise)
        self._show_made(promise)

    def _is_undecided(self, volume: PersistentVolume) -> bool:
        """True if a provisioner created the volume from counted capacity, and no claim with a node stands for it."""
        owner, of_class = volume.spec.claim_ref, self._storage.classes.get(volume.spec.storage_class_name)
        driver = self._storage.drivers.get(of_class.provisioner) if of_class is not None else None
        if owner is None or PROVISIONED_BY not in volume.metadata.annotations:
            return False
        if of_class is not None and driver is not None and not of_class.checks_capacity(driver):
            return False
        claim = self._storage.claims.get(owner.key)
        return claim is None or claim.uid != owner.uid or not claim.selected_node

    def _place_of(self, volume: PersistentVolume) -> str:
        """A node whose capacity the volume used, by its affinity; empty if none, or if nodes have different objects."""
        if volume.spec.node_affinity.required is None:
            return ""
        rows, class_name = np.flatnonzero(self._cluster.exists), volume.spec.storage_class_name
        names = [self._cluster.name(row) for row in rows[reachable(self._cluster, volume, rows)].tolist()]
        objects = {tuple(map(identity, self._undecided_at(class_name, name))) for name in names}
        return names[0] if len(objects) == 1 else ""

    def _undecided_at(self, class_name: str, node_name: str) -> Sequence[CSIStorageCapacity]:
        """Objects that a volume without a decision may have used: of its class, else of classes that share pools."""
        found = self._index.objects_at(class_name, node_name)
        if found:
            return found
        others = [self._index.objects_at(each, node_name) for each in self._groups.classes_with(class_name)]
        return [capacity for objects in others for capacity in objects]

    def _came_undecided(self, volume: PersistentVolume) -> None:
        """Count a volume of immediate binding in shared pools: its fall must not pay for a promised volume."""
        of_class, owner = self._storage.classes.get(volume.spec.storage_class_name), volume.spec.claim_ref
        is_promised = owner is not None and self._records.get(owner.key) is not None
        if of_class is None or of_class.waits_for_consumer or owner is None or not owner.uid or is_promised:
            return
        order, charged = next(self._orders), dict[str, None]()
        for class_name in self._groups.classes_with(of_class.name):
            for promise in [record for record in self._records if record.claim.class_name == class_name]:
                if self._progress(promise.claim, volume) is not RebuildProgress.ELSEWHERE:
                    charged |= dict.fromkeys(promise.charged)
        for uid in charged:
            self._figures.came_undecided(uid, volume, owner.key, order)

    # -- a promise's life ---------------------------------------------------------------------------------------------

    def _new(self, claim: PersistentVolumeClaim, since: datetime, *, is_rebuild: bool = False) -> Promise:
        """A promise that is decided on now."""
        return Promise(claim=claim, since=since, decided=Decided(self._figures.tick), is_rebuild=is_rebuild)

    def _arrived(self, promise: Promise, tick: int, made_at: datetime | None, age_s: float = 0.0) -> None:
        """The volume of a promise was created or has arrived, at this tick and this time of the server's clock."""
        promise.made_tick = tick
        self._was_made(promise, made_at, age_s)

    def _look(self, promise: Promise) -> None:
        """Compute a promise anew from its claim, its volume and the figures; end it if its volume is elsewhere."""
        claim, progress = promise.claim, RebuildProgress.ARRIVED
        if promise.is_left_behind or promise.is_rebuild:
            progress = self._progress(claim)
        if progress is RebuildProgress.ELSEWHERE:
            self._end(promise, holds.DELETION if promise.is_left_behind else holds.FAILURE)
            return
        is_first = not promise.is_left_behind and self._follow(promise, progress)
        self._settle(promise)
        if is_first:
            self._show_made(promise)
        if promise.made_tick is not None and not promise.is_left_behind:
            for left in self._records.of(PersistentVolume, claim.spec.volume_name):
                if not left.has_claim and left.claim.selected_node == claim.selected_node:
                    self._end(left)  # a claim has the same volume again

    def _settle(self, promise: Promise) -> None:
        """Charge a promise to the objects that do not show it yet. End it if the object it was charged to and all that
        share its pools show it."""
        claim = promise.claim
        if self._rests(promise):
            self._charge(promise, {})
            return
        of_class = self._objects_of(promise)
        siblings = {identity(capacity): capacity for charged in of_class for capacity in self._groups.siblings(charged)}
        objects = (*of_class, *siblings.values())
        unaware = [capacity for capacity in objects if not self._figures.shows(capacity, promise)]
        is_named = [promise.named] == [identity(capacity) for capacity in of_class]
        if is_named and not unaware and (claim.is_bound or self._figures.includes(of_class[0], promise)):
            self._end(promise, holds.REFRESH)
            return
        size, places = promise.counted_bytes(self._storage), self._cluster.index(VolumePlaces)
        is_missed = promise.is_rebuild and places.is_missed(claim.spec.volume_name, claim.selected_node)
        if is_missed and size is not None:
            # A refused rebuild is charged only where it would fit: elsewhere it cannot take capacity.
            unaware = [capacity for capacity in unaware if largest_volume(capacity) >= size]
        self._charge(promise, {identity(capacity): size for capacity in unaware} if size is not None else {})

    def _follow(self, promise: Promise, progress: RebuildProgress) -> bool:
        """Note what its claim and volume have become. Returns True if its volume is first known to exist."""
        claim, was_made = promise.claim, promise.is_made
        is_assumed = self._storage.claims.is_assumed(claim.key)
        promise.is_unsent = promise.is_unsent and is_assumed
        if promise.decided.asked_at is None and not claim.is_bound and not is_assumed:
            # The API shows the claim with its node: no earlier figure includes its volume.
            promise.decided = promise.decided._replace(asked_at=claim.metadata.updated_at)
        if not promise.is_rebuild:
            self._follow_volume(promise, self._storage.volumes.get(self._volume_of.get(claim.uid, "")))
        if progress is RebuildProgress.UNDER_WAY:
            promise.made_tick = promise.waits_since_s = None
            promise.shown_by.clear()
        elif promise.made_tick is None and claim.is_bound:  # its volume exists, even if it was not seen
            self._arrived(promise, self._figures.tick, self._server.now())
            if promise.is_rebuild:
                promise.arrived = self._figures.tick, promise.made_at
        is_first = promise.is_made and not (was_made or promise.is_rebuild)
        if is_first:
            promise.order = promise.order or next(self._orders)
        return is_first

    def _follow_volume(self, promise: Promise, volume: PersistentVolume | None) -> None:
        """Note the volume that was created for a promise; None: there is none, or no longer."""
        if volume is not None and promise.volume is None:
            for other in self._records.of(PersistentVolume, volume.name):
                if other.is_undecided:
                    promise.shown_by |= other.shown_by
                    self._end(other)
        elif volume is None and promise.volume is not None and promise.made_tick is None:
            promise.decided = promise.decided._replace(tick=self._figures.tick)
            promise.shown_by.clear()
        if volume is not None or promise.made_tick is None:
            promise.volume = volume

    def _rests(self, promise: Promise) -> bool:
        """True if its volume cannot be created, whatever room there is; never for an existing volume."""
        is_open = not (promise.is_made or promise.is_rebuild or promise.is_left_behind)
        before, promise.rests = promise.rests, self._refusals.of(promise.claim) if is_open else ""
        self.ended[holds.REFUSAL] += bool(promise.rests) and not before
        return bool(promise.rests)

    def _end(self, promise: Promise, cause: str = holds.DELETION) -> None:
        for uid in promise.charged:
            if uid not in promise.shown_by:
                self._figures.ended(uid, promise, promise.charged[uid])
        super()._end(promise, cause)

    def _tags(self, promise: Promise) -> Iterator[holds.Tag]:
        yield PersistentVolumeClaim, promise.key
        if promise.named:
            yield CSIStorageCapacity, promise.named  # it is charged if its driver publishes capacity again
        if promise.is_rebuild or promise.is_left_behind:
            yield PersistentVolume, promise.claim.spec.volume_name

    def _show_made(self, promise: Promise) -> None:
        """The volume of a promise exists: note which objects already fell enough to show it."""
        for uid in list(promise.charged):
            capacity = self._index.object_of(uid)
            if capacity is not None and uid not in promise.shown_by:
                for shown in self._figures.shown_by_volume(capacity, promise, self._unshown):
                    shown.shown_by.add(uid)
                    self._look(shown)

    def _unshown(self, uid: str) -> list[Promise]:
        return [promise for promise in self._records.of(CSIStorageCapacity, uid) if uid not in promise.shown_by]

    # -- left-behind volumes ------------------------------------------------------------------------------------------

    def _leave(self, promise: Promise, claim: PersistentVolumeClaim | None) -> None:
        """End a promise whose claim is `claim` now. If its volume exists, another promise follows. For an unknown
        volume none does, unless its claim is being sent elsewhere."""
        made = promise.arrived if promise.made_tick is None else (promise.made_tick, promise.made_at)
        before, node_name = promise.claim, promise.claim.selected_node
        is_sent = claim is not None and before.is_bound and claim.is_bound and claim.uid == before.uid
        if is_sent and claim is not None:
            is_sent = claim.spec.volume_name == before.spec.volume_name and claim.selected_node not in ("", node_name)
        if made is None or not (is_sent or self._storage.volumes.get(before.spec.volume_name)):
            is_gone = claim is None or claim.uid != before.uid
            self._end(promise, holds.DELETION if is_gone else holds.FAILURE)
            return
        for other in self._records.of(PersistentVolume, before.spec.volume_name):
            if other.is_left_behind and other.claim.selected_node == node_name:
                self._end(other)
        self._charge(promise, {})  # who asks as this claim has it no longer: its name is another
        self._records.remove(promise)
        promise.key = f"{before.namespace}/{_left_name(before.name, before.spec.volume_name, node_name)}"
        promise.is_left_behind, promise.has_claim, promise.has_volume_size = True, is_sent, promise.is_rebuild
        promise.is_rebuild = promise.is_unsent = False
        promise.order, promise.pods = promise.order or next(self._orders), {}
        promise.made_tick, promise.made_at = made
        if is_sent or promise.waits_since_s is None:
            promise.waits_since_s = self._clock.monotonic()
        self._look(promise)

    def _of_hold(self, hold: holds.Hold) -> Promise | None:
        """Open the promise that another ledger has for a volume without a claim; None if there is a claim."""
        of, (namespace, name) = self._index.object_of(hold.uid), split_key(hold.claims[0])
        if of is None or not name.endswith(")"):
            return None
        volume_name = name.partition(" (volume ")[2].partition(",")[0]
        spec = _claim_spec(of.storage_class_name, Quantity.of(hold.bytes), volume_name)
        claim = PersistentVolumeClaim(metadata=StampedMeta(namespace=namespace, name=name), spec=spec)
        promise = self._new(claim, hold.since)
        promise.is_left_behind, promise.has_claim = True, False
        promise.made_tick, promise.waits_since_s = self._figures.tick, self._clock.monotonic()
        return promise

    # -- charges ------------------------------------------------------------------------------------------------------

    def _objects_of(self, promise: Promise) -> Sequence[CSIStorageCapacity]:
        """The objects that a promise is charged to; includes the named object even if the node is gone."""
        class_name, node_name = promise.claim.class_name, promise.claim.selected_node
        if node_name not in self._cluster.row_of:
            named = self._index.object_of(promise.named)
            return (named,) if named is not None and named.storage_class_name == class_name else ()
        at = self._undecided_at if promise.is_undecided else self._index.objects_at
        objects = at(class_name, node_name)
        return [capacity for capacity in objects if identity(capacity) == promise.named] or objects

    def _bound_at(self, promise: Promise) -> datetime | None:
        return promise.claim.metadata.updated_at if not promise.is_rebuild else None


def _left_name(claim_name: str, volume_name: str, node_name: str) -> str:
    return f"{claim_name} (volume {volume_name}, on {node_name})"


def _stand_in(volume: PersistentVolume, node_name: str) -> PersistentVolumeClaim:
    """A claim for a volume whose own claim has no known node."""
    owner = volume.spec.claim_ref or ObjectReference()
    metadata = StampedMeta(
        namespace=owner.namespace,
        name=_left_name(owner.name, volume.name, node_name),
        uid=owner.uid,
        annotations={SELECTED_NODE: node_name, BIND_COMPLETED: "yes"},
    )
    spec = _claim_spec(volume.spec.storage_class_name, volume.size, volume.name)
    return PersistentVolumeClaim(metadata=metadata, spec=spec)


def _claim_spec(class_name: str, size: Quantity, volume_name: str) -> PersistentVolumeClaimSpec:
    resources = VolumeResourceRequirements(requests={"storage": size})
    return PersistentVolumeClaimSpec(storage_class_name=class_name, resources=resources, volume_name=volume_name)
