"""Capacity objects that are kept back whole for a pod on its way: reservation mode `Object`, as in KEP-5925.

A decision uses up room that the object does not know of until its driver has made the volumes and published again.
Until then the object is out of bounds: nobody can tell what is left of it.

              reserve                 refresh │ failure │ deletion │ timeout
    free ───────────────► reserved ──────────────────────────────────────────► free; pods turned away may try again

    refresh    the object was published again, whatever it says now
    failure    the pod's attempt failed, or the provisioner gave its claims back (removed their selected-node)
    deletion   the object, the pod or all of the claims are gone
    timeout    all claims have been bound for `timeout_s`. Upstream's provisioner does not write an unchanged figure,
               so that the object of a thin-provisioning driver might never be refreshed. Claims of volumes that are
               rebuilt elsewhere are bound all along; for them this is the time since Reserve.

What counts is the resourceVersion: an object is reserved while it has the very one it was reserved with. An object is
held by one pod at a time, or by several that share a claim which is to be made of it: to such a pod its own claim's
reservation is no obstacle, and the object is kept until the last of them is done with it. A pod may hold several.

After a restart nothing is reserved, as the KEP has it; the other mode (`ledger.py`) finds its promises again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.demand import size_to_make
from tonnage.scheduling.volumes.reservations.holds import (
    DEFAULT_TIMEOUT_S,
    WAITS_FOR_REFRESH,
    Hold,
    Timeouts,
    as_assumed,
    is_refresh,
)

REFRESH, FAILURE, DELETION, TIMEOUT = "refresh", "failure", "deletion", "timeout"


class _Reservation:
    """One object, held for some claims by a pod, or by several that share one of them."""

    __slots__ = (
        "capacity",
        "claims",
        "is_bound",
        "is_rebuild",
        "node_name",
        "pods",
        "since",
        "taken_bytes",
        "uid",
        "version",
        "waited",
    )

    def __init__(
        self,
        capacity: CSIStorageCapacity,
        version: str,
        pods: Sequence[PodInfo],
        claims: Sequence[PersistentVolumeClaim],
        since: datetime,
        taken_bytes: int,
    ) -> None:
        self.capacity = capacity
        self.taken_bytes = taken_bytes
        self.uid = identity(capacity)
        self.version = version
        self.pods = {each.uid: each for each in pods}
        """Who holds it, by uid; the first of them is told."""
        self.claims = tuple(claims)
        self.since = since
        self.waited = {each.key: each.uid for each in claims}
        """The claims that are still on their way or bound, with their uids; those that were given back are not."""
        self.node_name = next((each.selected_node for each in claims if each.selected_node), "")
        self.is_bound = False
        self.is_rebuild = bool(claims) and all(each.is_bound for each in claims)

    def is_for(self, own: Collection[Key]) -> bool:
        """Whether claims that are judged as one group have it: they are all it is held for, or are among those."""
        return bool(self.waited) and (self.waited.keys() <= set(own) or all(key in self.waited for key in own))

    def shares_claims_with(self, claims: Sequence[PersistentVolumeClaim]) -> bool:
        return any(
            self.waited.get(each.key) == each.uid and each.selected_node in ("", self.node_name) for each in claims
        )

    def is_lost(self, claim: PersistentVolumeClaim | None) -> bool:
        """Whether a claim, as it is now, is no longer going to be made there."""
        if claim is None or claim.uid != self.waited[claim.key]:
            return True
        return bool(self.node_name) and claim.selected_node != self.node_name

    def as_hold(self) -> Hold:
        why = "waits for its claims to be bound"
        if self.is_rebuild:
            why = "its volumes are rebuilt; waits for the object to be refreshed"
        elif self.is_bound:
            why = WAITS_FOR_REFRESH
        return Hold(
            capacity=self.capacity.key,
            uid=self.uid,
            pod=next(iter(self.pods.values())).key,
            claims=tuple(each.key for each in self.claims),
            bytes=self.taken_bytes,
            since=self.since,
            why=why,
        )


class Reservations:
    """The reserved objects of a cluster: `cluster.index(Reservations)`; by `identity`, their uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage
        self._clock = cluster.clock
        self.timeout_s = DEFAULT_TIMEOUT_S
        self.on_change: list[Callable[[str], None]] = []
        """Called with the uid of an object after it was reserved or set free."""
        self.on_released: list[Callable[[CSIStorageCapacity], None]] = []
        """Called with an object after a reservation of it ended: pods it turned away are worth another try."""
        self.reservations_total = 0
        self.resets: dict[str, int] = dict.fromkeys((REFRESH, FAILURE, DELETION, TIMEOUT), 0)
        """Reservations that ended, by cause."""
        self._by_object: dict[str, _Reservation] = {}
        self._by_pod: dict[str, dict[str, _Reservation]] = {}
        self._by_claim: dict[Key, dict[str, _Reservation]] = {}
        self._bound = Timeouts()
        self._storage.on_change(CSIStorageCapacity, self._capacity_changed)
        self._storage.on_change(PersistentVolumeClaim, self._claim_changed)

    # -- asking -------------------------------------------------------------------------------------------------------

    def is_reserved(self, capacity: CSIStorageCapacity, own: Collection[Key] = ()) -> bool:
        """Whether the object is kept back, just as it is: recorded with exactly this resourceVersion.

        Not from a group of claims for which it is kept (`own`).
        """
        found = self._by_object.get(identity(capacity))
        if found is None or found.version != capacity.metadata.resource_version:
            return False
        return not own or not found.is_for(own)

    @property
    def resets_total(self) -> int:
        """Reservations that the informer's news of their object ended: what the KEP's metric counts."""
        return self.resets[REFRESH]

    def holds(self) -> list[Hold]:
        """All reservations, the oldest first."""
        return [each.as_hold() for each in self._by_object.values()]

    def hold_on(self, uid: str) -> Hold | None:
        found = self._by_object.get(uid)
        return found.as_hold() if found is not None else None

    def next_expiry_at(self) -> float | None:
        """When `expire` has something to do, in the clock's monotonic seconds."""
        return self._bound.first_end(self.timeout_s)

    # -- a pod's way --------------------------------------------------------------------------------------------------

    def reserve(self, capacity: CSIStorageCapacity, pod: PodInfo, claims: Sequence[PersistentVolumeClaim]) -> None:
        """Keep an object back for the claims whose volumes are to be made of it.

        The claims are assumed already. Whoever held the object before does no more, unless for a claim that both pods
        have: then it is held for all their claims. An object that was refreshed after the decision looked at it is held
        as it is now: it cannot know of this pod.
        """
        now = self._storage.capacities.get(capacity.key)
        known = now if now is not None and identity(now) == identity(capacity) else capacity
        before = self._by_object.get(identity(capacity))
        pods, since = [pod], self._clock.now()
        assumed = [as_assumed(each, self._storage) for each in claims]
        if before is not None:
            if before.version == known.metadata.resource_version and before.shares_claims_with(assumed):
                pods, since = [*before.pods.values(), pod], before.since
                named = {each.key for each in assumed}
                assumed += [each for each in before.claims if each.key in before.waited and each.key not in named]
            self._forget(before)
        sizes = [size_to_make(each, self._storage, is_rebuild=each.is_bound) for each in assumed]
        taken_bytes = sum(each.value() for each in sizes if each is not None)
        made = _Reservation(capacity, known.metadata.resource_version, pods, assumed, since, taken_bytes)
        self._by_object[made.uid] = made
        for uid in made.pods:
            self._by_pod.setdefault(uid, {})[made.uid] = made
        for key in made.waited:
            self._by_claim.setdefault(key, {})[made.uid] = made
        self.reservations_total += 1
        self._judge_bound(made)
        self._tell_changed(made.uid)

    def release(self, pod_uid: str) -> None:
        """Unreserve: the pod's attempt failed. What another pod has reserved, since or as well, stays with it."""
        self._end_all_of(pod_uid, FAILURE)

    def pod_gone(self, pod_uid: str) -> None:
        """The pod was deleted."""
        self._end_all_of(pod_uid, DELETION)

    def expire(self, now_s: float) -> None:
        """End what is overdue at this time of the monotonic clock."""
        for uid in self._bound.ended(self.timeout_s, now_s):
            self._end(self._by_object[uid], TIMEOUT)

    # -- what storage tells -------------------------------------------------------------------------------------------

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None and (new is None or identity(new) != identity(old)):
            gone = self._by_object.get(identity(old))
            if gone is not None:
                self._end(gone, DELETION)
        if new is not None:
            held = self._by_object.get(identity(new))
            if held is not None and is_refresh(held.version, new):
                self._end(held, REFRESH)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        known = new or old
        if known is None or known.key not in self._by_claim:
            return
        for held in list(self._by_claim[known.key].values()):
            if held.is_lost(new):
                is_gone = new is None or new.uid != held.waited[new.key]
                del held.waited[known.key]
                _unfile(self._by_claim, known.key, held)
                if not held.waited:
                    self._end(held, DELETION if is_gone else FAILURE)
                    continue
            self._judge_bound(held)

    def _judge_bound(self, held: _Reservation) -> None:
        """The wait for a refresh begins when the last of the claims is bound."""
        claims = {each.key: each for each in held.claims}
        is_bound = all((self._storage.claims.get(key) or claims[key]).is_bound for key in held.waited)
        if is_bound and not held.is_bound:
            self._bound.begin(held.uid, self._clock.monotonic())
        elif held.is_bound and not is_bound:
            self._bound.stop(held.uid)
        held.is_bound = is_bound

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _end_all_of(self, pod_uid: str, cause: str) -> None:
        for held in list(self._by_pod.get(pod_uid, {}).values()):
            if len(held.pods) > 1:
                del held.pods[pod_uid]
                _unfile(self._by_pod, pod_uid, held)
            else:
                self._end(held, cause)

    def _end(self, held: _Reservation, cause: str) -> None:
        self._forget(held)
        self.resets[cause] += 1
        self._tell_changed(held.uid)
        now = self._storage.capacities.get(held.capacity.key)
        for released in self.on_released:
            released(now if now is not None and identity(now) == held.uid else held.capacity)

    def _forget(self, held: _Reservation) -> None:
        del self._by_object[held.uid]
        for pod_uid in held.pods:
            _unfile(self._by_pod, pod_uid, held)
        for key in held.waited:
            _unfile(self._by_claim, key, held)
        self._bound.stop(held.uid)

    def _tell_changed(self, uid: str) -> None:
        for changed in self.on_change:
            changed(uid)


def _unfile(index: dict[str, dict[str, _Reservation]], name: str, held: _Reservation) -> None:
    filed = index[name]
    del filed[held.uid]
    if not filed:
        del index[name]
