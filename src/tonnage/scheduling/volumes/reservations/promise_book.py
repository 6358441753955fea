"""The life of a promise: opened, made, charged to objects, shown by their figures, left behind, ended.

A volume uses its capacity until it is deleted, whatever happens to its claim. If the claim is sent elsewhere, deleted
or unbound, the promise continues under the name `data (volume pvc-1, on node-1)`, which no claim can have.

The object named at Reserve is charged while it reaches the node; a promise without one is charged to every object of
its class that does. Siblings in a capacity group are charged too. Each object is charged until it shows the volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import (
    BIND_COMPLETED,
    SELECTED_NODE,
    PersistentVolumeClaimSpec,
    VolumeResourceRequirements,
)
from tonnage.objects.core_v1.volume import ObjectReference
from tonnage.objects.meta import Key, StampedMeta, split_key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import largest_volume
from tonnage.scheduling.volumes.demand import counted_bytes
from tonnage.scheduling.volumes.rebuilds import RebuildProgress, VolumePlaces, progress_of
from tonnage.scheduling.volumes.reservations.holds import (
    DELETION,
    FAILURE,
    REFRESH,
    REFUSAL,
    CapacityHolds,
    Hold,
    is_looked_at_anew,
)
from tonnage.scheduling.volumes.reservations.promises import EVER, Decided, Figures, Promise


class Promises:
    """Promises by claim, with indexes by pod, object and volume."""

    def __init__(self) -> None:
        self._by_claim: dict[Key, Promise] = {}
        self.of_pod: Shelf[str, Key, Promise] = Shelf()
        self.naming: Shelf[str, Key, Promise] = Shelf()
        """By the uid of the object that Reserve charged them to."""
        self.moving: Shelf[str, Key, Promise] = Shelf()
        """By volume name: promises of rebuilds and of volumes left behind."""

    def __iter__(self) -> Iterator[Promise]:
        return iter(self._by_claim.values())

    def get(self, key: Key) -> Promise | None:
        return self._by_claim.get(key)

    def add(self, promise: Promise) -> None:
        self._by_claim[promise.key] = promise
        if promise.is_rebuild or promise.is_left_behind:
            self.moving.put(promise.claim.spec.volume_name, promise.key, promise)

    def remove(self, promise: Promise) -> None:
        self.give_to(promise, None)
        self.name(promise, "")
        del self._by_claim[promise.key]
        if promise.is_rebuild or promise.is_left_behind:
            self.moving.take(promise.claim.spec.volume_name, promise.key)

    def give_to(self, promise: Promise, pod: PodInfo | None) -> None:
        """Set the pod of a promise; None: not known."""
        if promise.pod is not None:
            self.of_pod.take(promise.pod.uid, promise.key)
        promise.pod = pod
        if pod is not None:
            self.of_pod.put(pod.uid, promise.key, promise)

    def name(self, promise: Promise, uid: str) -> None:
        """Set the object that a promise is charged to; empty: not known."""
        if promise.named:
            self.naming.take(promise.named, promise.key)
        promise.named = uid
        if uid:
            self.naming.put(uid, promise.key, promise)


class PromiseBook(CapacityHolds):
    """All promises of a cluster, by claim. `Ledger` calls it with events."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._index = cluster.index(CapacityIndex)  # it must hear of objects before the ledger does
        self._groups = self._index.groups
        self._objects = {identity(each): each for each in self._storage.capacities.values()}
        """Capacity objects by `identity`, as the ledger last saw them."""
        self.figures = Figures(self._storage)
        self._promises = Promises()
        self._charges: Shelf[str, Key, int] = Shelf()
        """Bytes by object and claim."""
        self._changed: dict[str, bool] = {}
        """Objects whose charges changed since observers were called; True if bytes were given back."""
        self._volume_of: dict[str, str] = {}
        """By claim uid, the name of the volume that was created for it."""
        self._volumes_made = 0
        self._made: list[Promise] = []
        """Promises whose volumes were just created or have just arrived."""
        for volume in self._storage.volumes:
            self.volume_came(volume)

    def promise_of(self, claim: Key) -> Promise | None:
        return self._promises.get(claim)

    def promises_of_class(self, class_name: str) -> list[Promise]:
        return [each for each in self._promises if each.class_name == class_name]

    # -- a promise's life ---------------------------------------------------------------------------------------------

    def open(self, claim: PersistentVolumeClaim, since: datetime, *, is_rebuild: bool = False) -> Promise:
        """Open the promise of a claim that has none."""
        promise = Promise(claim, since, Decided(self.figures.tick), is_rebuild=is_rebuild)
        self._promises.add(promise)
        self._note_asked(promise)
        name = self._volume_of.get(claim.uid, "") if not is_rebuild else ""
        volume = self._storage.volumes.get(name) if name else None
        if volume is not None:
            self.has_volume(promise, volume)
            for found in self._promises.moving[volume.name]:
                if found.is_undecided:
                    promise.shown_by |= found.shown_by
                    self._drop(found)
        return promise

    def was_made(self, promise: Promise, tick: int, made_at: datetime | None, age_s: float = 0.0) -> None:
        """The volume of a promise was created or has arrived, at this tick and this time of the server's clock."""
        promise.made_tick, promise.made_at = tick, made_at
        promise.looked_at = {identity(each): each.checked_at for each in self.charged_to(promise)}
        self._made.append(promise)
        self._waits.begin(promise.key, self._clock.monotonic() - age_s)

    def settle(self, promise: Promise) -> None:
        """Charge a promise to the objects that do not show it yet. End it if the object it was charged to and all that
        share its pools show it."""
        if promise.is_left_behind or promise.is_rebuild:
            progress = self.progress(promise.claim)
            if progress is RebuildProgress.ELSEWHERE:
                self._drop(promise, DELETION if promise.is_left_behind else FAILURE)
                return
            if promise.is_rebuild:
                self._follow_rebuild(promise, progress)
        if self._rests(promise):
            self._charge(promise, {})
            return
        of_class = self.charged_to(promise)
        objects = [*of_class, *self.shared_with(of_class)]
        unaware = [each for each in objects if not self.figures.shows(each, promise)]
        if len(unaware) < len(objects):
            is_over = promise.claim.is_bound or self.figures.includes(of_class[0], promise)
            if not unaware and is_over and [promise.named] == [identity(each) for each in of_class]:
                self._drop(promise, REFRESH)
                return
        claim, places = promise.claim, self._cluster.index(VolumePlaces)
        size = counted_bytes(claim, self._storage, is_rebuild=promise.is_rebuild)
        is_missed = promise.is_rebuild and places.is_missed(claim.spec.volume_name, claim.selected_node)
        if is_missed and size is not None:
            # A refused rebuild is charged only where it would fit: elsewhere it cannot take capacity.
            unaware = [each for each in unaware if largest_volume(each) >= size]
        self._charge(promise, {identity(each): size for each in unaware} if size is not None else {})

    def _follow_rebuild(self, promise: Promise, progress: RebuildProgress) -> None:
        if progress is RebuildProgress.UNDER_WAY:
            promise.made_tick = None
            promise.shown_by.clear()
            self._waits.stop(promise.key)
        elif promise.made_tick is None:
            self.was_made(promise, self.figures.tick, self._server.now())
            promise.arrived = self.figures.tick, promise.made_at

    def _rests(self, promise: Promise) -> bool:
        """True if its volume cannot be created, whatever room there is; never for an existing volume."""
        is_open = not (promise.is_made or promise.is_rebuild or promise.is_left_behind)
        before, promise.rests = promise.rests, self._refusals.of(promise.claim) if is_open else ""
        self.ended[REFUSAL] += bool(promise.rests) and not before
        return bool(promise.rests)

    def _drop(self, promise: Promise, cause: str = DELETION, *, is_left: bool = False) -> None:
        """End a promise. `is_left`: another promise continues for its volume."""
        self.ended[cause] += not is_left
        for uid in promise.charged if not is_left else ():
            if uid not in promise.shown_by:
                self.figures.ended(uid, promise, promise.charged[uid])
        self._charge(promise, {})
        self._promises.remove(promise)
        self._waits.stop(promise.key)

    def _charge(self, promise: Promise, charges: Mapping[str, int]) -> None:
        """Charge a promise to exactly these objects."""
        before, promise.charged = promise.charged, charges
        for uid in [each for each in before if each not in charges]:
            self._changed[uid] = True
            self._charges.take(uid, promise.key)
        for uid, size in charges.items():
            if size != before.get(uid):
                self._charges.put(uid, promise.key, size)
                self._changed[uid] = self._changed.get(uid, False) or size < before.get(uid, 0)

    # -- created volumes ----------------------------------------------------------------------------------------------

    def volume_came(self, volume: PersistentVolume) -> None:
        """A volume came or changed: check whether it was created for a promise, and whether figures show it."""
        owner = volume.spec.claim_ref
        if owner is None or not owner.uid:
            return
        self._volume_of[owner.uid] = volume.name
        promise = self._promises.get(owner.key)
        if promise is not None and promise.claim.uid == owner.uid and not promise.is_rebuild:
            is_first = promise.volume is None
            self.has_volume(promise, volume)
            if is_first:
                self.settle(promise)
                self.show_made(promise)

    def _volume_went(self, volume: PersistentVolume) -> None:
        """A volume was deleted, or belongs to another claim now."""
        owner = volume.spec.claim_ref
        if owner is None:
            return
        self._volume_of.pop(owner.uid, None)
        promise = self._promises.get(owner.key)
        if promise is not None and promise.volume is volume and promise.made_tick is None:
            promise.volume = None
            promise.decided = promise.decided._replace(tick=self.figures.tick)
            promise.shown_by.clear()
            self.settle(promise)

    def has_volume(self, promise: Promise, volume: PersistentVolume) -> None:
        """Set the volume of a promise."""
        promise.volume = volume
        promise.order = promise.order or self._next_order()

    def _was_bound(self, promise: Promise) -> None:
        """The claim of a promise was bound: its volume exists, even if it was not seen."""
        self.was_made(promise, self.figures.tick, self._server.now())
        if not promise.order:
            promise.order = self._next_order()
            self.show_made(promise)

    def _note_asked(self, promise: Promise) -> None:
        """Note when the API first showed the claim with its node: no earlier figure includes its volume."""
        claim = promise.claim
        if promise.decided.asked_at is None and not claim.is_bound and not self._storage.claims.is_assumed(claim.key):
            promise.decided = promise.decided._replace(asked_at=claim.metadata.updated_at)

    def _next_order(self) -> int:
        self._volumes_made += 1
        return self._volumes_made

    def came_undecided(self, volume: PersistentVolume) -> None:
        """Count a volume of immediate binding in shared pools: its fall must not pay for a promised volume."""
        of_class, owner = self._storage.classes.get(volume.spec.storage_class_name), volume.spec.claim_ref
        is_promised = owner is not None and self._promises.get(owner.key) is not None
        if of_class is None or of_class.waits_for_consumer or owner is None or not owner.uid or is_promised:
            return
        order, charged = self._next_order(), dict[str, None]()
        for class_name in self._groups.classes_with(of_class.name):
            for promise in self.promises_of_class(class_name):
                if self.progress(promise.claim, volume) is not RebuildProgress.ELSEWHERE:
                    charged |= dict.fromkeys(promise.charged)
        for uid in charged:
            self.figures.came_undecided(uid, volume, owner.key, order)

    def show_made(self, promise: Promise) -> None:
        """The volume of a promise exists: note which objects already fell enough to show it."""
        for uid in list(promise.charged):
            capacity = self._objects.get(uid)
            if capacity is not None and uid not in promise.shown_by:
                for shown in self.figures.shown_by_volume(capacity, promise, self._unshown):
                    shown.shown_by.add(uid)
                    self.settle(shown)

    def _show(self, capacity: CSIStorageCapacity) -> None:
        """An object was refreshed: note which volumes it shows now."""
        uid = identity(capacity)
        for promise in self.figures.shown_by_refresh(capacity, self._unshown(uid)):
            promise.shown_by.add(uid)

    def _unshown(self, uid: str) -> list[Promise]:
        return [each for each in self._promises_on(uid) if uid not in each.shown_by]

    def _promises_on(self, uid: str) -> list[Promise]:
        """The promises charged to an object, and those to charge if its driver publishes capacity again."""
        charged = [self._promises.get(key) for key in self._charges.at(uid)]
        found = dict.fromkeys([*charged, *self._promises.naming[uid]])
        return [each for each in found if each is not None]

    # -- left-behind volumes ------------------------------------------------------------------------------------------

    def _leave(self, promise: Promise, claim: PersistentVolumeClaim | None) -> Promise | None:
        """Open the promise that follows `promise` now that its claim is `claim`; None if nothing stays promised. For an
        unknown volume nothing stays, unless its claim is being sent elsewhere."""
        made = promise.arrived if promise.made_tick is None else (promise.made_tick, promise.made_at)
        is_sent = claim is not None and _is_sent_elsewhere(promise.claim, claim)
        if made is None or promise.is_left_behind:
            return None
        if not is_sent and self._storage.volumes.get(promise.claim.spec.volume_name) is None:
            return None
        behind = self._as_left(promise)
        for before in self._promises.moving[behind.spec.volume_name]:
            if before.is_left_behind and before.node_name == behind.selected_node:
                self._drop(before)
        left = Promise(behind, promise.since, promise.decided, is_left_behind=True, has_claim=is_sent)
        self._promises.add(left)
        left.volume = promise.volume
        left.order = promise.order or self._next_order()
        left.made_tick, left.made_at = made
        left.shown_by, left.timeout_s = set(promise.shown_by), promise.timeout_s
        self._promises.name(left, promise.named)
        began_s = None if is_sent else self._waits.began_at(promise.key)
        self._waits.begin(left.key, self._clock.monotonic() if began_s is None else began_s)
        return left

    def find(self, volume: PersistentVolume, node_name: str, age_s: float) -> Promise | None:
        """Open a promise for a volume on a node without a seen decision; None if there already is one."""
        claim = _found_claim(volume, node_name)
        if self._promises.get(claim.key) is not None:
            return None
        promise = Promise(claim, self._clock.now(), EVER, is_left_behind=True, has_claim=False)
        self._promises.add(promise)
        promise.made_tick, promise.made_at = self.figures.tick, volume.metadata.creation_timestamp
        self.has_volume(promise, volume)
        self._waits.begin(promise.key, self._clock.monotonic() - age_s)
        return promise

    def _of_hold(self, hold: Hold) -> Promise | None:
        """Open the promise that another ledger has for a volume without a claim; None if there is a claim."""
        of, (namespace, name) = self._objects.get(hold.uid), split_key(hold.claims[0])
        if of is None or not name.endswith(")"):
            return None
        volume_name = name.partition(" (volume ")[2].partition(",")[0]
        spec = _claim_spec(of.storage_class_name, Quantity.of(hold.bytes), volume_name)
        claim = PersistentVolumeClaim(metadata=StampedMeta(namespace=namespace, name=name), spec=spec)
        decided = Decided(self.figures.tick)
        promise = Promise(claim, hold.since, decided, is_left_behind=True, has_claim=False)
        self._promises.add(promise)
        promise.made_tick = self.figures.tick
        self._waits.begin(promise.key, self._clock.monotonic())
        return promise

    def _count_once(self, made: Iterable[Promise]) -> None:
        """Drop what was left behind on a node when a claim has the same volume there again."""
        for promise in made:
            for left in self._promises.moving[promise.claim.spec.volume_name]:
                if not left.has_claim and left.node_name == promise.node_name:
                    self._drop(left)

    def _as_left(self, promise: Promise) -> PersistentVolumeClaim:
        """A copy of a promise's claim under the left-behind name, with the volume's size."""
        claim = promise.claim
        name = _left_name(claim.name, claim.spec.volume_name, claim.selected_node)
        left = msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, name=name))
        volume = self._storage.volumes.get(claim.spec.volume_name) if promise.is_rebuild else None
        if volume is None:
            return left
        resources = msgspec.structs.replace(claim.spec.resources, requests={"storage": volume.size})
        return msgspec.structs.replace(left, spec=msgspec.structs.replace(claim.spec, resources=resources))

    # -- charges ------------------------------------------------------------------------------------------------------

    def charged_to(self, promise: Promise) -> Sequence[CSIStorageCapacity]:
        """The objects that a promise is charged to; includes the named object even if the node is gone."""
        named = self._objects.get(promise.named)
        row = self._cluster.row_of.get(promise.node_name)
        if row is None:
            return (named,) if named is not None and named.storage_class_name == promise.class_name else ()
        if named is not None and self._index.reaches(promise.named, promise.class_name, row):
            return (named,)
        if promise.is_undecided:
            return self.undecided_at(promise.class_name, promise.node_name)
        return self._index.objects_at(promise.class_name, promise.node_name)

    def undecided_at(self, class_name: str, node_name: str) -> Sequence[CSIStorageCapacity]:
        """Objects that a volume without a decision may have used: of its class, else of classes that share pools."""
        found = self._index.objects_at(class_name, node_name)
        if found or not self._groups.has_groups:
            return found
        others = [self._index.objects_at(each, node_name) for each in self._groups.classes_with(class_name)]
        return [capacity for objects in others for capacity in objects]

    def shared_with(self, objects: Sequence[CSIStorageCapacity]) -> Sequence[CSIStorageCapacity]:
        """Objects of other classes with the same pools as these; they are charged as well."""
        if not self._groups.has_groups:
            return ()
        siblings = [each for charged in objects for each in self._groups.siblings(charged)]
        return list({identity(each): each for each in siblings}.values()) if siblings else ()

    def is_unchecked(self, promise: Promise, made_at: datetime | None) -> bool:
        """True if the pools that should show the volume were not checked since it was created."""
        bound_at = promise.claim.metadata.updated_at if not promise.is_rebuild else None
        return any(
            each.is_unchecked_since(made_at)
            and not is_looked_at_anew(each, promise.looked_at.get(identity(each)), bound_at)
            for each in self.charged_to(promise)
        )

    def progress(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None = None) -> RebuildProgress:
        """How far the rebuild of a claim's volume has come. `volume`: its state, if not the current one."""
        known = volume or self._storage.volumes.get(claim.spec.volume_name)
        return RebuildProgress.UNDER_WAY if known is None else progress_of(self._cluster, known, claim.selected_node)


def _is_sent_elsewhere(before: PersistentVolumeClaim, now: PersistentVolumeClaim) -> bool:
    is_same = (now.uid, now.spec.volume_name, now.is_bound) == (before.uid, before.spec.volume_name, before.is_bound)
    return is_same and now.is_bound and now.selected_node not in ("", before.selected_node)


def _left_name(claim_name: str, volume_name: str, node_name: str) -> str:
    return f"{claim_name} (volume {volume_name}, on {node_name})"


def _found_claim(volume: PersistentVolume, node_name: str) -> PersistentVolumeClaim:
    """A stand-in claim for a volume whose own claim has no known node."""
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
