"""Bytes that are promised of a capacity object and not yet seen in it: reservation mode `Ledger`.

    selected-node, not bound ──► bound ──► its object is refreshed and shows it, or the timeout passed
                 │                 └─ its claim is deleted ──► the same, or its volume is deleted too
                 └──────────────────► its object says that it includes the claim
                 └──────────────────► it cannot be made, whatever room there is: the promise rests (`refusals.py`)
    rebuilt (bound all along) ──► the volume's node affinity admits the new node ──► as above, from "bound" on
                 └──────────────────► its affinity is set and admits other nodes only: it went elsewhere

All this follows from the claims as decisions see them, the volumes, the objects and the nodes, so that the ledger is
rebuilt by reading them and cannot leak (`met_claims.py`). `reserve` adds two things only: which of several objects is
charged, and who the pod is. What storage tells is accounted for at once; nodes and new objects by `catch_up`, which a
decision calls before it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.pools import largest_volume
from tonnage.scheduling.volumes.demand import counted_bytes
from tonnage.scheduling.volumes.rebuilds import RebuildProgress, is_on_its_way
from tonnage.scheduling.volumes.reservations.holds import (
    AGAIN_S,
    CAUSES,
    DELETION,
    FAILURE,
    REFRESH,
    REFUSAL,
    TIMEOUT,
    Hold,
    LongestTimeout,
    Timeouts,
    as_assumed,
)
from tonnage.scheduling.volumes.reservations.made_volumes import LeftBehind, MadeVolumes
from tonnage.scheduling.volumes.reservations.met_claims import MetClaims
from tonnage.scheduling.volumes.reservations.promised_objects import PromisedObjects
from tonnage.scheduling.volumes.reservations.promises import Charges, Promise, Promises, is_news, is_still
from tonnage.scheduling.volumes.reservations.refusals import Refusals
from tonnage.scheduling.volumes.reservations.server_time import ServerTime


class Ledger:
    """The promises of a cluster: `cluster.index(Ledger)`. Objects are known here by `identity`, their uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage
        self._clock = cluster.clock
        self._objects = PromisedObjects(cluster)
        self._figures = self._objects.figures
        self._longest = LongestTimeout()
        self.on_change: list[Callable[[str], None]] = []
        """Called with the uid of an object after what is promised of it changed."""
        self.on_released: list[Callable[[CSIStorageCapacity], None]] = []
        """Called with an object after a promise of it ended or shrank: pods it turned away are worth another try."""
        self.reservations_total = 0
        """How often something was kept back for a pod."""
        self.ended = dict.fromkeys(CAUSES, 0)
        """Promises that ended, by cause, and those that began to rest."""
        self._refusals = cluster.index(Refusals)
        self._refusals.on_change.append(self._refusal_changed)
        self._promises = Promises()
        self._charges = Charges()
        self._waits = Timeouts(self._timeout_of)
        self._volumes = MadeVolumes(self._storage, self._objects, self._promises, self._charges, self.settle)
        self._left = LeftBehind(self._storage, self._clock, self._promises, self._volumes, self._waits, self._drop)
        self._server = cluster.index(ServerTime)
        self._met = MetClaims(cluster, self._objects, self._promises, self._volumes, self._left, self._longest, self)
        self._made: list[Promise] = []
        """Whose volumes were made or arrived just now."""
        self._stale_classes: set[str] = set()
        self._awaited: Collection[Key] = ()
        """Claims that are being assumed, and of which `reserve` tells next."""
        self._met.meet_all()
        self._tell()  # nobody: what changes from now on is news
        self._storage.on_change(PersistentVolumeClaim, self._claim_changed)
        self._storage.on_change(PersistentVolume, self._volume_changed)
        self._storage.on_change(CSIStorageCapacity, self._capacity_changed)
        self._storage.on_change(StorageClass, self._class_changed)
        self._storage.on_change(CSIDriver, self._driver_changed)
        self._storage.on_change(VolumeAttachment, self._attachment_changed)
        self._objects.on_other_groups(self._stale_classes.update)

    # -- asking -------------------------------------------------------------------------------------------------------

    def promised(self, uid: str) -> tuple[int, ...]:
        """The bytes promised of an object, the largest first."""
        return tuple(sorted(self._charges.of(uid).values(), reverse=True))

    def promises(self, uid: str) -> Mapping[Key, int]:
        """The same by claim. It is what is kept: to be read at once, not to be changed."""
        return self._charges.of(uid)

    def holds(self) -> list[Hold]:
        """Every promise on every object."""
        self.catch_up()
        return [hold for uid in self._charges for hold in self.holds_on(uid)]

    def holds_on(self, uid: str) -> list[Hold]:
        """The promises on an object, one a claim."""
        capacity, found = self._objects.get(uid), [self._promises.get(key) for key in self._charges.of(uid)]
        return [each.as_hold(capacity) for each in found if each is not None and capacity is not None]

    @property
    def resets_total(self) -> int:
        """How many promises ended because their object was published again."""
        return self.ended[REFRESH]

    def resting(self, class_name: str | None = None) -> list[Hold]:
        """The promises that rest, of all classes or of one, as holds of nothing on the objects they would be on."""
        self.catch_up()
        found = self._promises.of_class(class_name) if class_name is not None else self._promises
        return [each.as_hold(of) for each in found if each.rests for of in self._objects.charged_to(each)]

    def next_expiry_at(self) -> float | None:
        """When `expire` has something to do, in the clock's monotonic seconds."""
        return self._waits.first_end()

    @property
    def longest_timeout_s(self) -> float:
        """How long what is nobody's is kept: as the most patient profile has it."""
        return self._longest.timeout_s

    def tell_timeout(self, timeout_s: float) -> None:
        """A profile decides by this timeout: so long promises for its pods are kept after their volumes were made, if
        the object does not show them. Promises that are nobody's are kept for the longest that was told.
        """
        before = self._longest.timeout_s
        self._longest.tell(timeout_s)
        self._waits.renew_all()
        if self._longest.timeout_s > before:
            self._met.meet_again()
            self._tell()

    def _timeout_of(self, key: Key) -> float:
        promise = self._promises.get(key)
        told = promise.timeout_s if promise is not None else None
        return self._longest.timeout_s if told is None else told

    # -- a pod's way --------------------------------------------------------------------------------------------------

    def await_reserve(self, claims: Collection[Key]) -> None:
        """These claims are about to be assumed, and `reserve` is called for each of them then: until it is, what is
        new of them is not accounted for, because it would be twice. None of them, when they could not be assumed."""
        self._awaited = claims

    def reserve(
        self,
        capacity: CSIStorageCapacity,
        pod: PodInfo,
        claims: Sequence[PersistentVolumeClaim],
        timeout_s: float | None = None,
    ) -> None:
        """Say which object the promises of these claims are charged to, for which pod and by its profile's timeout.

        The claims are assumed already. One that is bound is to be rebuilt.
        """
        self.reservations_total += 1
        now = self._clock.now()
        for claim in [as_assumed(each, self._storage) for each in claims]:
            if not claim.selected_node:
                continue
            promise = self._promises.get(claim.key)
            if promise is not None and (promise.is_rebuild != claim.is_bound or not promise.stands(claim)):
                self._drop(promise, FAILURE)
                promise = None
            if promise is None:
                promise = self.open(claim, now, is_rebuild=claim.is_bound)
            promise.since = now
            promise.timeout_s = timeout_s
            self._waits.renew(promise.key)
            self._promises.name(promise, identity(capacity))
            self._promises.give_to(promise, pod)
            self.settle(promise)
        self._tell()

    def hold_back(self, keys: Iterable[Key]) -> None:
        """Claims that were just reserved for wait before they get their node: no figure is about their volumes yet."""
        for promise in filter(None, map(self._promises.get, keys)):
            promise.is_unsent = True

    def send(self, keys: Iterable[Key]) -> None:
        """Claims get their node now: what fell before was not for their volumes."""
        for promise in filter(None, map(self._promises.get, keys)):
            if promise.is_unsent:
                promise.is_unsent, promise.decided = False, promise.decided._replace(tick=self._figures.tick)

    def release(self, pod_uid: str) -> None:
        """Unreserve: the pod's attempt failed. What its claims ask for all the same stays promised.

        Whether the claims are restored before or after this makes no difference.
        """
        for promise in self._promises.of_pod(pod_uid):
            if not promise.stands(self._storage.claims.get(promise.key)):
                self._drop(promise, FAILURE)
        self._tell()

    def pod_gone(self, pod_uid: str) -> None:
        """The pod was deleted: its claims stand for themselves."""
        for promise in self._promises.of_pod(pod_uid):
            self._promises.give_to(promise, None)

    def agree_with(self, holds: Sequence[Hold], pods: Mapping[Key, PodInfo]) -> None:
        """Promise what another ledger of the same cluster does, byte for byte, and nothing else."""
        self.catch_up()
        charges: dict[Key, dict[str, int]] = {}
        told = {key: hold for hold in holds for key in hold.claims}
        for other in [each for each in self._promises if each.key not in told]:
            self._drop(other, FAILURE)
        for hold in holds:
            for key in hold.claims:
                charges.setdefault(key, {}).update({hold.uid: hold.bytes} if hold.bytes else {})
        for key, hold in told.items():
            claim, promise = self._storage.claims.get(key), self._promises.get(key)
            if promise is None and claim is not None:
                promise = self.open(claim, hold.since)
            elif promise is None:
                of = self._objects.get(hold.uid)
                promise = self._left.of_hold(hold, of.storage_class_name) if of is not None else None
            if promise is not None:
                promise.since = hold.since
                self._promises.name(promise, hold.uid)
                self._promises.give_to(promise, pods.get(hold.pod))
                self._charges.charge(promise, charges[key])
        self._tell()

    def expire(self, now_s: float) -> None:
        """End what is overdue at this time of the monotonic clock."""
        self.catch_up()
        for key in list(self._waits.ended(now_s)):
            promise = self._promises.get(key)
            if promise is not None and self._objects.is_unchecked(promise, promise.made_at):
                self._waits.begin(key, now_s + AGAIN_S)  # it may be that nobody keeps the pools that are to show it
            elif promise is not None:
                self._met.timed_out(promise)
                self._drop(promise, TIMEOUT)
        self._tell()

    def catch_up(self) -> None:
        """Account for nodes, new objects and new rules. Costs two comparisons when there are none."""
        for name in self._objects.changed_nodes():
            for promise in self._promises.at_node(name):
                self.settle(promise)
        if self._stale_classes:
            stale = sorted(self._stale_classes)
            self._stale_classes.clear()
            for class_name in stale:
                for promise in self._promises.of_class(class_name):
                    self.settle(promise)
        self._tell()

    # -- what storage tells -------------------------------------------------------------------------------------------

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        known = new or old
        if known is None:
            return
        key = known.key
        promise = self._promises.get(key)
        if promise is not None and not promise.stands(new):
            left = self._left.leave(promise, new)
            is_gone = new is None or new.uid != promise.claim.uid
            self._drop(promise, DELETION if is_gone else FAILURE, is_left=left is not None)
            if left is not None:
                self.settle(left)
            promise = None
        if old is not None and old.is_bound and not is_still(old, new):
            self._met.forget(old)
        if new is not None and promise is not None:
            if new.is_bound and not promise.claim.is_bound:
                self.was_made(promise, self._figures.tick, self._server.now())
                self._volumes.bound(promise)
            promise.claim = new
            self._volumes.note_asked(promise)
            promise.is_unsent = promise.is_unsent and self._storage.claims.is_assumed(key)
            self.settle(promise)
        elif new is not None and key in self._awaited and not (new.is_bound or (old and old.selected_node)):
            return  # one that had a node may have got it back: then nothing tells of it
        elif new is not None and (old is None or is_news(old, new)):
            self._met.meet(new)
        self._tell()

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        known = new or old
        if known is None:
            return
        self._volumes.changed(old, new)
        met = self._met.take_unseen(known.name) if new is not None else None
        is_kept = met is not None and self._promises.get(met[0]) is not None  # by a rebuild that may end just now
        for promise in self._promises.rebuilds_of(known.name):
            self.settle(promise)
            if new is None and self._promises.get(promise.key) is promise:
                self._drop(promise, DELETION)  # there is nothing left to rebuild
        if old is not None and new is not None and new.spec.claim_ref is not None:
            claim = self._storage.claims.get(new.spec.claim_ref.key)
            is_free = claim is not None and self._promises.get(claim.key) is None and is_on_its_way(claim, new)
            # It was elsewhere and may move again. One that had arrived and may move is where it is.
            if claim is not None and is_free and self._objects.progress(claim, old) is RebuildProgress.ELSEWHERE:
                self._met.meet(claim)
        if new is not None and met is not None and not is_kept:
            self._met.meet_late(new, *met)
        if new is not None and old is None:
            self._met.meet_volume(new)
        self._tell()

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None:
            self.catch_up()  # a refresh shows what was made before it: so that has to be accounted for first
        gone = old if old is not None and (new is None or identity(new) != identity(old)) else None
        if gone is not None:
            self._objects.remove(identity(gone))
            self._settle_on(identity(gone))
        if new is not None:
            tick = self._figures.tick
            if self._objects.put(new):
                # Other nodes, other disks: its figures are not to be compared with those before.
                self._stale_classes.update(self._objects.classes_with(new.storage_class_name))
            elif self._figures.tick > tick:
                self._volumes.show(new)
            self._settle_on(identity(new))
        self._tell(gone)

    def _refusal_changed(self, key: Key) -> None:
        promise = self._promises.get(key)
        if promise is not None:
            self.settle(promise)
            self._tell()

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        known = new or old
        if known is not None:
            for promise in self._promises.rebuilds_of(known.spec.source.persistent_volume_name):
                self.settle(promise)
            self._tell()

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        self._stale_classes.update(each.name for each in (old, new) if each is not None)

    def _driver_changed(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        names = {each.name for each in (old, new) if each is not None}
        self._stale_classes.update(each.name for each in self._storage.classes.values() if each.provisioner in names)

    # -- a promise's life ---------------------------------------------------------------------------------------------

    def open(self, claim: PersistentVolumeClaim, since: datetime, *, is_rebuild: bool = False) -> Promise:
        """Open the promise of a claim that has none."""
        promise = Promise(claim, since, tick=self._figures.tick, is_rebuild=is_rebuild)
        self._promises.add(promise)
        self._volumes.opened(promise)
        self._left.found_claim(promise)
        return promise

    def was_made(self, promise: Promise, tick: int, made_at: datetime | None, age_s: float = 0.0) -> None:
        """The volume of a promise was made, or has arrived: seen at this tick, and at this time of the server's."""
        promise.made_tick, promise.made_at = tick, made_at
        promise.looked_at = {identity(each): each.checked_at for each in self._objects.charged_to(promise)}
        self._made.append(promise)
        self._waits.begin(promise.key, self._clock.monotonic() - age_s)

    def _settle_on(self, uid: str) -> None:
        for promise in self._volumes.promises_on(uid):
            self.settle(promise)

    def settle(self, promise: Promise) -> None:
        """Charge a promise to the objects it is to be charged to now; end it if the one it was charged to shows it, and
        those that draw from the same pools do too."""
        if promise.is_left_behind and self._objects.progress(promise.claim) is RebuildProgress.ELSEWHERE:
            self._drop(promise, DELETION)
            return
        if promise.is_rebuild:
            progress = self._objects.progress(promise.claim)
            if progress is RebuildProgress.ELSEWHERE:
                self._drop(promise, FAILURE)
                return
            if progress is RebuildProgress.UNDER_WAY:
                promise.made_tick = None
                promise.shown_by.clear()
                self._waits.stop(promise.key)
            elif promise.made_tick is None:
                self.was_made(promise, self._figures.tick, self._server.now())
                promise.arrived = self._figures.tick, promise.made_at
        if self._rests(promise):
            self._charges.charge(promise, {})
            return
        of_class = self._objects.charged_to(promise)
        shared = self._objects.shared_with(of_class)
        objects = [*of_class, *shared] if shared else of_class
        unaware = [each for each in objects if not self._figures.shows(each, promise)]
        if len(unaware) < len(objects):
            is_over = promise.claim.is_bound or self._figures.includes(of_class[0], promise)
            if not unaware and is_over and [promise.named] == [identity(each) for each in of_class]:
                self._drop(promise, REFRESH)
                return
            objects = unaware
        size = counted_bytes(promise.claim, self._storage, is_rebuild=promise.is_rebuild)
        if promise.is_rebuild and size is not None and self._objects.is_refused(promise.claim):
            objects = [each for each in objects if largest_volume(each) >= size]
        self._charges.charge(promise, {identity(each): size for each in objects} if size is not None else {})

    def _rests(self, promise: Promise) -> bool:
        """Whether its volume cannot be made, whatever room there is; one that exists was made all the same."""
        is_open = not (promise.is_made or promise.is_rebuild or promise.is_left_behind)
        before, promise.rests = promise.rests, self._refusals.of(promise.claim) if is_open else ""
        self.ended[REFUSAL] += bool(promise.rests) and not before
        return bool(promise.rests)

    def _drop(self, promise: Promise, cause: str = DELETION, *, is_left: bool = False) -> None:
        """End a promise. `is_left`: another promise goes on for its volume."""
        self.ended[cause] += not is_left
        for uid in promise.charged if not is_left else ():
            if uid not in promise.shown_by:
                self._figures.ended(uid, promise, promise.charged[uid])
        self._charges.charge(promise, {})
        self._promises.remove(promise)
        self._waits.stop(promise.key)

    # -- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, gone: CSIStorageCapacity | None = None) -> None:
        """Tell of what changed, after the fact; `gone` is an object that was deleted just now."""
        if self._made:
            made, self._made = self._made, []
            self._left.count_once(made)
        told = self._charges.take_changed()
        for uid in told:
            for changed in self.on_change:
                changed(uid)
        for uid, is_released in told.items():
            capacity = self._objects.get(uid) or gone
            if is_released and capacity is not None:
                for released in self.on_released:
                    released(capacity)
