"""Capacity objects reserved whole for one pod: reservation mode `Object`, as in KEP-5925.

              reserve                 refresh │ failure │ deletion │ refusal │ timeout
    free ───────────────► reserved ──────────────────────────────────────────────────► free; rejected pods try again

Any refresh by a provisioner ends a reservation. Pools kept by `tonnage pools` must show the volumes: of a pod's two
volumes, one may be created and shown long before the other. The timeout runs from when the claims are bound, and the
source of the pools must have been checked since.

A reservation holds while the object has the resourceVersion it was reserved with. It belongs to one pod, or to several
that share a claim. Siblings in a capacity group are reserved too, each until its own refresh. During a rebuild, only
the rebuild's end ends the reservation. After a restart only running rebuilds are reserved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import either
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import free_bytes, is_elsewhere, largest_volume
from tonnage.scheduling.volumes.demand import VolumePlan, size_to_make
from tonnage.scheduling.volumes.packing.pool_fits import Sizes
from tonnage.scheduling.volumes.rebuilds import RebuildProgress, VolumePlaces, is_on_its_way, progress_of
from tonnage.scheduling.volumes.reservations.holds import (
    AGAIN_S,
    DELETION,
    FAILURE,
    REFRESH,
    REFUSAL,
    TIMEOUT,
    WAITS_FOR_REFRESH,
    CapacityHolds,
    Hold,
    as_assumed,
    is_looked_at_anew,
    is_refresh,
    pod_of,
)


@dataclass(slots=True, eq=False)
class ReservedObject:
    """One object, reserved for some claims of a pod, or of several pods that share a claim."""

    capacity: CSIStorageCapacity
    """The object when it was reserved, or when another source took over its pools."""
    pods: dict[str, PodInfo]
    """The holders by uid; the first one is shown. Empty for a rebuild that outlives its pod."""
    claims: tuple[PersistentVolumeClaim, ...]
    since: datetime
    taken_bytes: int
    asked_at: datetime | None = None
    """`since` by the server's clock, as far as it is known."""
    timeout_s: float | None = None
    """The timeout after its claims are bound, from the profile of its pods; None: not known."""
    uid: str = ""
    version: str = ""
    """The version of the object's figures; the reservation holds while the object has it."""
    waited: dict[Key, str] = field(default_factory=dict)
    """The claims still pending or bound, with their uids; claims that were given back are left out."""
    node_of: dict[Key, str] = field(default_factory=dict)
    """The node of each claim. An object may reach several nodes, and be reserved for claims on them."""
    rebuilds: set[Key] = field(default_factory=set)
    is_under_way: bool = False
    """True while a volume to be rebuilt has not arrived."""
    is_bound: bool = False
    bound_at: datetime | None = None
    """When the last of its claims was seen bound, by the server's clock."""
    looked_at: datetime | None = None
    """The last check of its pools at `bound_at`."""

    def __post_init__(self) -> None:
        self.uid, self.version = identity(self.capacity), self.capacity.figures_version
        any_node = next((each.selected_node for each in self.claims if each.selected_node), "")
        for each in self.claims:
            self.waited[each.key] = each.uid
            self.node_of[each.key] = each.selected_node or any_node
            if each.is_bound:
                self.rebuilds.add(each.key)

    def is_for(self, own: Collection[Key]) -> bool:
        """True if the reservation is for these claims: it was made for a subset or a superset of them."""
        return bool(self.waited) and (self.waited.keys() <= set(own) or all(key in self.waited for key in own))

    def shares_claims_with(self, claims: Sequence[PersistentVolumeClaim]) -> bool:
        return any(
            self.waited.get(each.key) == each.uid and each.selected_node in ("", self.node_of[each.key])
            for each in claims
        )

    def is_lost(self, claim: PersistentVolumeClaim | None) -> bool:
        """True if a claim, in its current state, will no longer be created there."""
        if claim is None or claim.uid != self.waited[claim.key]:
            return True
        node_name = self.node_of[claim.key]
        return bool(node_name) and claim.selected_node != node_name

    def as_hold(self) -> Hold:
        why = "waits for its claims to be bound"
        if self.is_under_way:
            why = "waits for its volumes to be rebuilt"
        elif self.rebuilds and self.is_bound:
            why = "its volumes are rebuilt; waits for the object to be refreshed"
        elif self.is_bound:
            why = WAITS_FOR_REFRESH
        pod, claims = next((each.key for each in self.pods.values()), ""), tuple(each.key for each in self.claims)
        held = (self.capacity.key, self.uid, pod, claims, self.taken_bytes, self.since, why)
        return Hold(*held, timeout_s=self.timeout_s, is_rebuild=self.is_under_way)


class Reservations(CapacityHolds):
    """The reserved objects of a cluster. Get it with `cluster.index(Reservations)`."""

    keeps_whole_objects = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._groups = cluster.index(CapacityIndex).groups
        self._by_object: dict[str, ReservedObject] = {}
        self._by_pod: Shelf[str, str, ReservedObject] = Shelf()
        self._by_claim: Shelf[str, str, ReservedObject] = Shelf()
        self._storage.on_change(CSIStorageCapacity, self._capacity_changed)
        self._storage.on_change(PersistentVolumeClaim, self._claim_changed)
        self._groups.on_change.append(self._groups_changed)
        self._refusals.on_change.append(self._refusal_changed)
        self._storage.on_change(PersistentVolume, self._volume_changed)
        self._storage.on_change(VolumeAttachment, self._attachment_changed)
        self._find_rebuilds()

    # -- asking -------------------------------------------------------------------------------------------------------

    def is_reserved(self, capacity: CSIStorageCapacity, own: Collection[Key] = ()) -> bool:
        """True if the object, in the version it was reserved with, is reserved for other claims than `own`."""
        found = self._by_object.get(identity(capacity))
        if found is None or found.version != capacity.figures_version:
            return False
        return not own or not found.is_for(own)

    def held(self, members: Sequence[CSIStorageCapacity], own: Collection[Key]) -> Sizes | None:
        return None if any(self.is_reserved(each, own) for each in members) else ()

    def own_claims(self, claims: Iterable[PersistentVolumeClaim], group: Iterable[PersistentVolumeClaim]) -> list[Key]:
        """An object is reserved for a whole group."""
        of_group = list(group)
        return [claim.key for claim in of_group] if any(claim.selected_node for claim in of_group) else []

    def holds(self) -> list[Hold]:
        """All reservations, oldest first."""
        return [each.as_hold() for each in self._by_object.values()]

    def holds_on(self, uid: str) -> list[Hold]:
        found = self._by_object.get(uid)
        return [found.as_hold()] if found is not None else []

    def _timeout_of(self, name: str) -> float:
        told = self._by_object[name].timeout_s
        return self.longest_timeout_s if told is None else told

    # -- calls for a pod ----------------------------------------------------------------------------------------------

    def keep_back(self, pod: PodInfo, plan: VolumePlan, timeout_s: float) -> None:
        """Siblings of an object are reserved with it, for the claims of all of them."""
        claims_of: dict[Key, list[PersistentVolumeClaim]] = {}
        objects: dict[Key, CSIStorageCapacity] = {}
        chosen = {each.capacity.key: each.capacity for each in plan.provisions if each.capacity is not None}
        for each in plan.provisions:
            for capacity in (each.capacity, *self._groups.siblings(each.capacity)) if each.capacity is not None else ():
                objects.setdefault(capacity.key, capacity)
                claims_of.setdefault(capacity.key, []).append(each.claim)
        for key, capacity in objects.items():
            self.reserve(capacity, pod, claims_of[key], timeout_s, is_sibling=key not in chosen)

    def reserve(
        self,
        capacity: CSIStorageCapacity,
        pod: PodInfo,
        claims: Sequence[PersistentVolumeClaim],
        timeout_s: float | None = None,
        *,
        is_sibling: bool = False,
    ) -> None:
        """Reserve an object for assumed claims, in its current state even if it was refreshed after the decision.

        Replaces an earlier reservation, unless a claim is shared or the object is a sibling of the chosen one
        (`is_sibling`): then it is reserved for the claims of both. `timeout_s`: the timeout of the pod's profile.
        """
        now = self._storage.capacities.get(capacity.key)
        known = now if now is not None and identity(now) == identity(capacity) else capacity
        before = self._by_object.get(identity(capacity))
        pods, since, asked_at = [pod], self._clock.now(), self._server.now()
        assumed = [as_assumed(each, self._storage) for each in claims]
        if before is not None:
            is_shared = is_sibling or before.shares_claims_with(assumed)
            if before.version == known.figures_version and is_shared:
                pods, since, asked_at = [*before.pods.values(), pod], before.since, before.asked_at
                if timeout_s is not None and before.timeout_s is not None:
                    timeout_s = max(timeout_s, before.timeout_s)
                named = {each.key for each in assumed}
                assumed += [each for each in before.claims if each.key in before.waited and each.key not in named]
            self._forget(before)
        self._record(known, pods, assumed, since, asked_at, timeout_s)
        self.reservations_total += 1

    def _find_rebuilds(self) -> None:
        """For rebuilds that began before the scheduler started: reserve all objects they may take capacity from."""
        found: dict[str, tuple[CSIStorageCapacity, list[PersistentVolumeClaim]]] = {}
        for claim in self._storage.claims:
            volume = self._storage.volumes.get(claim.spec.volume_name) if claim.is_bound else None
            if volume is not None and is_on_its_way(claim, volume):
                for each in self._cluster.index(CapacityIndex).objects_at(claim.class_name, claim.selected_node):
                    for shared in (each, *self._groups.siblings(each)):
                        found.setdefault(identity(shared), (shared, []))[1].append(claim)
        for each, claims in found.values():
            self._record(each, (), claims, self._clock.now(), self._server.now())

    def _record(
        self,
        capacity: CSIStorageCapacity,
        pods: Iterable[PodInfo],
        claims: Sequence[PersistentVolumeClaim],
        since: datetime,
        asked_at: datetime | None,
        timeout_s: float | None = None,
    ) -> None:
        sizes = [size_to_make(each, self._storage, is_rebuild=each.is_bound) for each in claims]
        taken_bytes = sum(each.value() for each in sizes if each is not None)
        by_uid = {each.uid: each for each in pods}
        made = ReservedObject(capacity, by_uid, tuple(claims), since, taken_bytes, asked_at, timeout_s)
        self._file(made)
        self._judge(made)

    def _file(self, made: ReservedObject) -> None:
        self._by_object[made.uid] = made
        for uid in made.pods:
            self._by_pod.put(uid, made.uid, made)
        for key in made.waited:
            self._by_claim.put(key, made.uid, made)
        self._tell_changed(made.uid)

    def release(self, pod_uid: str) -> None:
        """A reservation that another pod has as well, or took over, stays."""
        self._end_all_of(pod_uid, FAILURE)

    def pod_gone(self, pod_uid: str) -> None:
        self._end_all_of(pod_uid, DELETION)

    def agree_with(self, holds: Sequence[Hold], pods: Mapping[Key, PodInfo]) -> None:
        for held in list(self._by_object.values()):
            self._forget(held)
            self._tell_changed(held.uid)
        for hold in holds:
            capacity = self._storage.capacities.get(hold.capacity)
            if capacity is not None and identity(capacity) == hold.uid:
                claims = [each for key in hold.claims if (each := self._storage.claims.get(key)) is not None]
                holder = pod_of(hold, pods) if hold.pod else None
                by_uid = {holder.uid: holder} if holder is not None else {}
                self._file(ReservedObject(capacity, by_uid, tuple(claims), hold.since, hold.bytes))

    def expire(self, now_s: float) -> None:
        for uid in self._waits.take_ended(now_s):
            held = self._by_object[uid]
            now = self._storage.capacities.get(held.capacity.key)
            if now is not None and now.is_unchecked_since(held.bound_at) and not self._is_looked_at_anew(held, now):
                self._waits.begin(uid, now_s + AGAIN_S)  # the source of the pools may not have been checked since
            else:
                self._end(held, TIMEOUT)

    def _is_looked_at_anew(self, held: ReservedObject, now: CSIStorageCapacity) -> bool:
        claims = [self._storage.claims.get(key) for key in held.waited.keys() - held.rebuilds]
        stamps = [each.metadata.updated_at if each is not None else None for each in claims]
        known = [each for each in stamps if each is not None]
        bound_at = max(known) if known and len(known) == len(held.waited) else None
        return is_looked_at_anew(now, held.looked_at, bound_at)

    # -- storage events -----------------------------------------------------------------------------------------------

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None and (new is None or identity(new) != identity(old)):
            gone = self._by_object.get(identity(old))
            if gone is not None:
                self._end(gone, DELETION)
        if new is not None:
            held = self._by_object.get(identity(new))
            if held is not None and is_refresh(held.version, new):
                self._refreshed(held, new)
            if old is None or is_elsewhere(old, new):
                for sibling in self._groups.siblings(new):
                    self._hold_siblings(sibling)

    def _refreshed(self, held: ReservedObject, new: CSIStorageCapacity) -> None:
        self._judge(held)  # a rebuild that was refused may have lost its room
        if held.uid not in self._by_object:
            return
        if held.is_under_way or not self._is_shown(held, new):
            held.version = new.figures_version
            self._tell_changed(held.uid)
        else:
            self._end(held, REFRESH)

    def _is_shown(self, held: ReservedObject, new: CSIStorageCapacity) -> bool:
        """True if a refresh shows the reserved volumes. Any refresh by a provisioner does (KEP-5925). Kept pools do if
        they fell by all reserved bytes since, or were measured after all volumes were created."""
        if new.has_kept_pools != held.capacity.has_kept_pools:
            held.capacity = new
            return False
        if not new.has_kept_pools:
            return True
        told_at, before, now = new.figures_at, free_bytes(held.capacity), free_bytes(new)
        if told_at is None or before is None or now is None:
            return False
        # Servers write whole seconds; by the server's clock, as far as it is known.
        is_since = held.asked_at is not None and told_at >= held.asked_at.replace(microsecond=0)
        if is_since and before - now >= held.taken_bytes:
            return True
        return held.is_bound and all(self._is_older(key, told_at) for key in held.waited)

    def _is_older(self, key: Key, told_at: datetime) -> bool:
        """True if the claim's volume was created before `told_at`."""
        claim = self._storage.claims.get(key)
        volume = self._storage.volumes.get(claim.spec.volume_name) if claim is not None else None
        created_at = volume.metadata.creation_timestamp if volume is not None else None
        return created_at is not None and created_at < told_at

    def _groups_changed(self, class_names: Collection[str]) -> None:
        """Classes joined or left capacity groups: reserve the current siblings of reserved objects."""
        of_classes = [each for each in self._by_object.values() if each.capacity.storage_class_name in class_names]
        for held in of_classes:
            sharing = self._groups.classes_with(held.capacity.storage_class_name)
            if held.uid in self._by_object and not any(each.class_name in sharing for each in held.claims):
                self._end(held, DELETION)
        for held in of_classes:
            self._hold_siblings(held.capacity)

    def _hold_siblings(self, capacity: CSIStorageCapacity) -> None:
        """Reserve the siblings of a reserved object that are not: their figures may not show its volumes yet."""
        held = self._by_object.get(identity(capacity))
        if held is None or not any(each.class_name == capacity.storage_class_name for each in held.claims):
            return
        claims = [each for each in held.claims if each.key in held.waited]
        for sibling in self._groups.siblings(capacity):
            if identity(sibling) not in self._by_object:
                self._record(sibling, held.pods.values(), claims, held.since, held.asked_at)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        key = either(old, new).key
        for held in self._by_claim[key]:
            if held.is_lost(new):
                is_gone = new is None or new.uid != held.waited[key]
                if self._lose(held, key, DELETION if is_gone else FAILURE):
                    continue
            self._judge(held)

    def _refusal_changed(self, key: Key) -> None:
        for held in self._by_claim[key]:
            self._judge(held)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        owner = either(old, new).spec.claim_ref
        for held in self._by_claim[owner.key] if owner is not None else ():
            if owner is not None and owner.key in held.rebuilds:
                if new is None and self._lose(held, owner.key, DELETION):
                    continue
                self._judge(held)

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        volume = self._storage.volumes.get(new.spec.source.persistent_volume_name) if new is not None else None
        if volume is not None:
            self._volume_changed(volume, volume)

    def _lose(self, held: ReservedObject, key: Key, cause: str) -> bool:
        """A claim will no longer be created there. Returns True if it was the last and the reservation ended."""
        del held.waited[key]
        self._by_claim.take(key, held.uid)
        if not held.waited:
            self._end(held, cause)
        return not held.waited

    def _judge(self, held: ReservedObject) -> None:
        """The wait for a refresh begins when all claims are bound and all rebuilds are done."""
        claims = {each.key: each for each in held.claims}
        for key in list(held.waited.keys() - held.rebuilds):
            if self._refusals.of(self._storage.claims.get(key) or claims[key]) and self._lose(held, key, REFUSAL):
                return
        held.is_under_way = False
        for key in held.rebuilds & held.waited.keys():
            volume, progress = self._storage.volumes.get(claims[key].spec.volume_name), RebuildProgress.UNDER_WAY
            if volume is not None:
                progress = progress_of(self._cluster, volume, held.node_of[key])
            if progress is RebuildProgress.UNDER_WAY and not self._is_hopeless(held, claims[key]):
                held.is_under_way = True
            elif progress is not RebuildProgress.ARRIVED and self._lose(held, key, FAILURE):
                return
        bound = [(self._storage.claims.get(key) or claims[key]).is_bound for key in held.waited]
        is_bound = all(bound) and not held.is_under_way
        if is_bound and not held.is_bound:
            held.bound_at = self._server.now()
            shown = self._storage.capacities.get(held.capacity.key)
            held.looked_at = shown.checked_at if shown is not None else None
            self._waits.begin(held.uid, self._clock.monotonic())
        elif held.is_bound and not is_bound:
            self._waits.stop(held.uid)
        held.is_bound = is_bound

    def _is_hopeless(self, held: ReservedObject, claim: PersistentVolumeClaim) -> bool:
        """True if a rebuild was refused and does not fit the object's current figures."""
        if not self._cluster.index(VolumePlaces).is_missed(claim.spec.volume_name, held.node_of[claim.key]):
            return False
        size, now = size_to_make(claim, self._storage, is_rebuild=True), self._storage.capacities.get(held.capacity.key)
        return size is not None and largest_volume(now or held.capacity) < size.value()

    def _end_all_of(self, pod_uid: str, cause: str) -> None:
        for held in self._by_pod[pod_uid]:
            if len(held.pods) > 1 or held.is_under_way:
                del held.pods[pod_uid]
                self._by_pod.take(pod_uid, held.uid)
            else:
                self._end(held, cause)

    def _end(self, held: ReservedObject, cause: str) -> None:
        self._forget(held)
        self.ended[cause] += 1
        self._tell_changed(held.uid)
        now = self._storage.capacities.get(held.capacity.key)
        for released in self.on_released:
            released(now if now is not None and identity(now) == held.uid else held.capacity)

    def _forget(self, held: ReservedObject) -> None:
        del self._by_object[held.uid]
        for pod_uid in held.pods:
            self._by_pod.take(pod_uid, held.uid)
        for key in held.waited:
            self._by_claim.take(key, held.uid)
        self._waits.stop(held.uid)

    def _tell_changed(self, uid: str) -> None:
        for changed in self.on_change:
            changed(uid)
