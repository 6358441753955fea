"""Bytes that are promised of a capacity object and that its figures do not show yet: reservation mode `Ledger`.

    selected-node, not bound ──► bound ──► its object is refreshed and shows it, or the timeout passed
                 │                 └─ its claim is deleted ──► the same, or its volume is deleted too
                 └──────────────────► its object says that it includes the claim
                 └──────────────────► it cannot be created, whatever room there is: the promise rests (`refusals.py`)
    rebuilt (bound all along) ──► the volume's node affinity admits the new node ──► as above, from "bound" on
                 └──────────────────► its affinity is set and admits other nodes only: it went elsewhere

The ledger is computed from claims, volumes, objects and nodes (`promise_book.py`), so it can be rebuilt and cannot
leak. `reserve` adds only which object is charged and which pod it is for. Storage changes are accounted for at once,
nodes and new objects by `catch_up`, which a decision calls first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import either
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.pools import is_elsewhere
from tonnage.scheduling.volumes.demand import VolumePlan
from tonnage.scheduling.volumes.packing.pool_fits import Sizes, descending
from tonnage.scheduling.volumes.reservations.holds import FAILURE, Hold, as_assumed, is_refresh
from tonnage.scheduling.volumes.reservations.promise_book import PromiseBook
from tonnage.scheduling.volumes.reservations.promises import Promise, is_news, is_still
from tonnage.scheduling.volumes.volume_reach import RebuildProgress, is_on_its_way


class Ledger(PromiseBook):
    """The promises of a cluster. Get it with `cluster.index(Ledger)`."""

    keeps_whole_objects = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._is_stale = False
        """True after objects came or rules changed: any promise may be charged elsewhere."""
        self._node_tick = cluster.node_changes.tick
        self._listen(PersistentVolumeClaim, self._claim_changed)
        self._listen(PersistentVolume, self._volume_changed)
        self._listen(CSIStorageCapacity, self._capacity_changed)
        self._storage.on_change(StorageClass, self._rules_changed)
        self._storage.on_change(CSIDriver, self._rules_changed)
        self._groups.on_change.append(self._rules_changed)
        self._meet_all()
        self._tell()  # before anyone listens: only later changes are news

    # -- asking -------------------------------------------------------------------------------------------------------

    def promised_by_class(self, objects: Sequence[CSIStorageCapacity], own: Collection[Key]) -> list[tuple[int, str]]:
        return [(size, promise.claim.class_name) for promise, size in self._promised(objects, own).items()]

    def held(self, members: Sequence[CSIStorageCapacity], own: Collection[Key]) -> Sizes:
        return descending(self._promised(members, own).values())

    def _promised(self, objects: Sequence[CSIStorageCapacity], own: Collection[Key]) -> dict[Promise, int]:
        """Siblings share their promises: a claim counts once, with the largest promise on any of them."""
        found: dict[Promise, int] = {}
        for uid in map(identity, objects):
            for promise in self._charged_with(uid):
                if promise.key not in own:
                    found[promise] = max(promise.charged[uid], found.get(promise, 0))
        return found

    def own_claims(self, claims: Iterable[PersistentVolumeClaim], group: Iterable[PersistentVolumeClaim]) -> list[Key]:
        return [claim.key for claim in claims if claim.selected_node]

    def resting(self, class_name: str | None = None) -> list[Hold]:
        self.catch_up()
        resting = [record for record in self._records if record.rests and class_name in (None, record.claim.class_name)]
        return [promise.as_hold(of) for promise in resting for of in self._objects_of(promise)]

    # -- calls for a pod ----------------------------------------------------------------------------------------------

    def tell_timeout(self, timeout_s: float) -> None:
        """At the start, a longer timeout makes promises of volumes that were too old before."""
        before = self.longest_timeout_s
        super().tell_timeout(timeout_s)
        if self.longest_timeout_s > before and not self._figures.tick:
            self._meet_all()
            self._tell()

    def keep_back(self, pod: PodInfo, plan: VolumePlan, timeout_s: float) -> None:
        for capacity, claims in plan.claims_by_object():
            self.reserve(capacity, pod, claims, timeout_s)
        for promise in [self._records.get(key) for sequence in plan.sequences for key in sequence.unsent]:
            if promise is not None:
                promise.is_unsent = True  # no figure includes its volume yet

    def reserve(
        self,
        capacity: CSIStorageCapacity,
        pod: PodInfo,
        claims: Sequence[PersistentVolumeClaim],
        timeout_s: float | None = None,
    ) -> None:
        """Charge the promises of these assumed claims to an object. A bound claim is to be rebuilt. `timeout_s`: the
        timeout of the pod's profile."""
        self.reservations_total += 1
        now = self._clock.now()
        for claim in [as_assumed(each, self._storage) for each in claims]:
            if not claim.selected_node:
                continue
            promise = self._records.get(claim.key)
            if promise is not None and (promise.is_rebuild != claim.is_bound or not is_still(promise.claim, claim)):
                self._end(promise, FAILURE)
                promise = None
            if promise is None:
                promise = self._new(claim, now, is_rebuild=claim.is_bound)
            promise.since, promise.timeout_s = now, timeout_s
            promise.named, promise.pods = identity(capacity), {pod.uid: pod}
            self._look(promise)
        self._tell()

    def send(self, claims: Iterable[Key]) -> None:
        """Falls of the figures before now are not from the volumes of these claims."""
        for promise in map(self._records.get, claims):
            if promise is not None and promise.is_unsent:
                promise.is_unsent, promise.decided = False, promise.decided._replace(tick=self._figures.tick)

    def release(self, pod_uid: str) -> None:
        """End the pod's promises, except those its claims still ask for, whether restored before or after this."""
        for promise in self._records.of(Pod, pod_uid):
            if not is_still(promise.claim, self._storage.claims.get(promise.key)):
                self._end(promise, FAILURE)
        self._tell()

    def pod_gone(self, pod_uid: str) -> None:
        """Keep the promises of the pod's claims, without the pod."""
        for promise in self._records.of(Pod, pod_uid):
            promise.pods = {}
            self._file(promise)

    def agree_with(self, holds: Sequence[Hold], pods: Mapping[Key, PodInfo]) -> None:
        """Take over exactly the promises of another ledger of the same cluster."""
        self.catch_up()
        charges: dict[Key, dict[str, int]] = {}
        told = {key: hold for hold in holds for key in hold.claims}
        for other in [record for record in self._records if record.key not in told]:
            self._end(other, FAILURE)
        for hold in holds:
            for key in hold.claims:
                charges.setdefault(key, {}).update({hold.uid: hold.bytes} if hold.bytes else {})
        for key, hold in told.items():
            claim, promise = self._storage.claims.get(key), self._records.get(key)
            if promise is None:
                promise = self._new(claim, hold.since) if claim is not None else self._of_hold(hold)
            if promise is not None:
                holder = pods.get(hold.pod)
                promise.since, promise.named = hold.since, hold.uid
                promise.pods = {holder.uid: holder} if holder is not None else {}
                self._charge(promise, charges[key])
        self._tell()

    def catch_up(self) -> None:
        self._follow_rules()
        self._tell()

    def _follow_rules(self) -> None:
        """Account for changed nodes, new objects and new rules. Costs two comparisons if there are none."""
        tick = self._cluster.node_changes.tick
        if self._is_stale or self._node_tick != tick:
            self._is_stale, self._node_tick = False, tick
            self._look_at_all(self._records)

    # -- storage events -----------------------------------------------------------------------------------------------

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        key = either(old, new).key
        promise = self._records.get(key)
        if promise is not None and new is not None and is_still(promise.claim, new):
            promise.claim = new
            self._look(promise)
            return
        if promise is not None:
            self._leave(promise, new)
        if old is not None and old.is_bound and not is_still(old, new):
            self._unseen_volumes.pop(old.spec.volume_name, None)
        if new is None:
            return
        if key in self.awaited and not (new.is_bound or (old and old.selected_node)):
            return  # a claim that had a node may have got it back, without another event
        if old is None or is_news(old, new):
            self._meet(new)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        name = either(old, new).name
        was, now = (volume.spec.claim_ref if volume is not None else None for volume in (old, new))
        if was is not None and was != now:
            self._volume_of.pop(was.uid, None)
        is_late = new is not None and name in self._unseen_volumes
        key, tick = now.key if now is not None else "", self._figures.tick
        if new is not None:
            self._note_owner(new)
            key, tick = self._unseen_volumes.pop(name, (key, tick))
        is_free = self._records.get(key) is None  # before a rebuild ends
        for owner in filter(None, dict.fromkeys((was, now))):
            self._look_at(PersistentVolumeClaim, owner.key)
        self._look_at(PersistentVolume, name)
        for promise in self._records.of(PersistentVolume, name) if new is None else ():
            self._end(promise)  # there is no volume left to rebuild
        claim = self._storage.claims.get(key)
        if new is not None and claim is not None and is_free and claim.is_bound and claim.spec.volume_name == name:
            # It was elsewhere and may move again. A volume that had arrived and may move stays where it is.
            is_sent = is_on_its_way(claim, new) and self._progress(claim, old) is RebuildProgress.ELSEWHERE
            if is_late or is_sent:
                self._meet_bound(claim, new, tick)
        if new is not None and old is None:
            self._meet_volume(new)

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None:
            self._follow_rules()  # a refresh shows what was created before it, so account for that first
        gone = old if old is not None and (new is None or identity(new) != identity(old)) else None
        if gone is not None:
            self._figures.forget(identity(gone))
            self._look_at(CSIStorageCapacity, identity(gone))
        if new is not None:
            before = old if gone is None else None
            is_moved = before is None or is_elsewhere(before, new)
            is_refreshed = before is not None and is_refresh(before.figures_version, new)
            if before is not None and is_refreshed:
                self._figures.refreshed(before, new, is_elsewhere=is_moved)
            if is_moved:
                self._is_stale = True
            elif is_refreshed:
                for promise in self._figures.shown_by_refresh(new, self._unshown(identity(new))):
                    promise.shown_by.add(identity(new))
            self._look_at(CSIStorageCapacity, identity(new))

    def _rules_changed(self, *_: object) -> None:
        """A class, a driver or a capacity group changed."""
        self._is_stale = True
