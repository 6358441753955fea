"""Capacity objects reserved whole for one pod: reservation mode `Object`, as in KEP-5925.

              reserve                 refresh │ failure │ deletion │ refusal │ timeout
    free ───────────────► reserved ──────────────────────────────────────────────────► free; rejected pods try again

Any refresh by a provisioner ends a reservation. Pools kept by `tonnage pools` must show the volumes: of a pod's two
volumes, one may be created and shown long before the other. The timeout runs from when the claims are bound, and the
source of the pools must have been checked since.

A reservation is computed anew whenever one of its claims, their volumes or its object changes. It belongs to one pod,
or to several that share a claim. Siblings in a capacity group are reserved too, each until its own refresh. During a
rebuild, only the rebuild's end ends the reservation. After a restart only running rebuilds are reserved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, PodMeta
from tonnage.objects.meta import Key, split_key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import either
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.pools import free_bytes, is_elsewhere, largest_volume
from tonnage.scheduling.volumes.demand import VolumePlan, size_to_make
from tonnage.scheduling.volumes.packing.pool_fits import Sizes
from tonnage.scheduling.volumes.reservations import holds
from tonnage.scheduling.volumes.volume_reach import RebuildProgress, VolumePlaces, is_on_its_way


@dataclass(slots=True, eq=False, kw_only=True)
class ReservedObject(holds.HoldRecord):
    """One object, reserved for some claims of a pod, or of several pods that share a claim. `key`: the object's uid.
    `made_at`: when the last of its claims was seen bound. Without `pods`: a rebuild that outlives its pod."""

    capacity: CSIStorageCapacity
    """The object when it was reserved, or when another source took over its pools."""
    claims: tuple[PersistentVolumeClaim, ...]
    """The claims as they were reserved for; a bound one is to be rebuilt."""
    taken_bytes: int
    asked_at: datetime | None = None
    """`since` by the server's clock, as far as it is known."""
    waited: dict[Key, PersistentVolumeClaim] = field(default_factory=dict)
    """The claims still pending or bound; claims that were given back are left out."""
    is_under_way: bool = False
    """True while a volume to be rebuilt has not arrived."""
    is_bound: bool = False

    def __post_init__(self) -> None:
        self.key, self.waited = identity(self.capacity), {claim.key: claim for claim in self.claims}

    def is_for(self, own: Collection[Key]) -> bool:
        """True if the reservation is for these claims: it was made for a subset or a superset of them."""
        return bool(self.waited) and (self.waited.keys() <= set(own) or all(key in self.waited for key in own))

    def shares(self, claim: PersistentVolumeClaim) -> bool:
        known = self.waited.get(claim.key)
        is_same = known is not None and known.uid == claim.uid
        return is_same and known is not None and claim.selected_node in ("", known.selected_node)

    def as_hold(self, capacity: CSIStorageCapacity) -> holds.Hold:
        why = "waits for its claims to be bound"
        if self.is_under_way:
            why = "waits for its volumes to be rebuilt"
        elif self.is_bound and any(claim.is_bound for claim in self.claims):
            why = "its volumes are rebuilt; waits for the object to be refreshed"
        elif self.is_bound:
            why = holds.WAITS_FOR_REFRESH
        return self.hold(capacity, tuple(claim.key for claim in self.claims), why, is_rebuild=self.is_under_way)


class Reservations(holds.CapacityHolds):
    """The reserved objects of a cluster. Get it with `cluster.index(Reservations)`."""

    keeps_whole_objects = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._records: holds.Records[ReservedObject] = holds.Records()
        self._listen(CSIStorageCapacity, self._capacity_changed)
        self._listen(PersistentVolumeClaim, lambda old, new: self._look_at(PersistentVolumeClaim, either(old, new).key))
        self._listen(PersistentVolume, self._volume_changed)
        self._groups.on_change.append(self._groups_changed)
        self._find_rebuilds()

    # -- asking -------------------------------------------------------------------------------------------------------

    def is_reserved(self, capacity: CSIStorageCapacity, own: Collection[Key] = ()) -> bool:
        """True if the object is reserved for other claims than `own`."""
        held = self._records.get(identity(capacity))
        return held is not None and not (own and held.is_for(own))

    def held(self, members: Sequence[CSIStorageCapacity], own: Collection[Key]) -> Sizes | None:
        return None if any(self.is_reserved(capacity, own) for capacity in members) else ()

    def own_claims(self, claims: Iterable[PersistentVolumeClaim], group: Iterable[PersistentVolumeClaim]) -> list[Key]:
        """An object is reserved for a whole group."""
        of_group = list(group)
        return [claim.key for claim in of_group] if any(claim.selected_node for claim in of_group) else []

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
        known = self._index.object_of(identity(capacity)) or capacity
        before = self._records.get(identity(capacity))
        pods, since, asked_at = [pod], self._clock.now(), self._server.now()
        assumed = {claim.key: holds.as_assumed(claim, self._storage) for claim in claims}
        if before is not None:
            is_shared = is_sibling or any(map(before.shares, assumed.values()))
            if is_shared:
                pods, since, asked_at = [*before.pods.values(), pod], before.since, before.asked_at
                if timeout_s is not None and before.timeout_s is not None:
                    timeout_s = max(timeout_s, before.timeout_s)
                assumed |= {key: each for key, each in before.waited.items() if key not in assumed}
            self._records.remove(before)
        self._record(known, pods, assumed.values(), since, asked_at, timeout_s)
        self.reservations_total += 1
        self._tell()

    def _find_rebuilds(self) -> None:
        """For rebuilds that began before the scheduler started: reserve all objects they may take capacity from."""
        reserved: dict[str, tuple[CSIStorageCapacity, list[PersistentVolumeClaim]]] = {}
        for claim in self._storage.claims:
            volume = self._storage.volumes.get(claim.spec.volume_name) if claim.is_bound else None
            if volume is not None and is_on_its_way(claim, volume):
                for each in self._index.objects_at(claim.class_name, claim.selected_node):
                    for shared in (each, *self._groups.siblings(each)):
                        reserved.setdefault(identity(shared), (shared, []))[1].append(claim)
        for each, claims in reserved.values():
            self._record(each, (), claims, self._clock.now(), self._server.now())
        self._tell()

    def _record(
        self,
        capacity: CSIStorageCapacity,
        pods: Iterable[PodInfo],
        claims: Collection[PersistentVolumeClaim],
        since: datetime,
        asked_at: datetime | None,
        timeout_s: float | None = None,
    ) -> None:
        sizes = [size_to_make(claim, self._storage, is_rebuild=claim.is_bound) for claim in claims]
        taken_bytes = sum(size for size in sizes if size is not None)
        by_uid = {pod.uid: pod for pod in pods}
        record = ReservedObject(
            capacity=capacity,
            pods=by_uid,
            claims=tuple(claims),
            since=since,
            taken_bytes=taken_bytes,
            asked_at=asked_at,
            timeout_s=timeout_s,
        )
        self._look(record)

    def release(self, pod_uid: str) -> None:
        """A reservation that another pod has as well, or took over, stays."""
        self._leave(pod_uid, holds.FAILURE)

    def pod_gone(self, pod_uid: str) -> None:
        self._leave(pod_uid, holds.DELETION)

    def _leave(self, pod_uid: str, cause: str) -> None:
        for held in self._records.of(Pod, pod_uid):
            if len(held.pods) > 1 or held.is_under_way:
                del held.pods[pod_uid]
                self._file(held)
            else:
                self._end(held, cause)
        self._tell()

    def agree_with(self, holds: Sequence[holds.Hold], pods: Mapping[Key, PodInfo]) -> None:
        for held in self._records:
            self._records.remove(held)
            self._changed[held.key] = False
        for hold in holds:
            capacity = self._storage.capacities.get(hold.capacity)
            if capacity is not None and identity(capacity) == hold.uid:
                claims = [each for key in hold.claims if (each := self._storage.claims.get(key)) is not None]
                (namespace, name), uid = split_key(hold.pod), hold.pod
                gone = PodInfo(Pod(metadata=PodMeta(namespace=namespace, name=name, uid=uid)))
                holder = pods.get(hold.pod, gone)
                by_uid = {holder.uid: holder} if hold.pod else {}
                record = ReservedObject(
                    capacity=capacity, pods=by_uid, claims=tuple(claims), since=hold.since, taken_bytes=hold.bytes
                )
                self._charge(record, {hold.uid: hold.bytes})
        self._tell()

    def _objects_of(self, record: ReservedObject) -> Sequence[CSIStorageCapacity]:
        known = self._index.object_of(record.key)
        return (known,) if known is not None else ()

    def _bound_at(self, record: ReservedObject) -> datetime | None:
        claims = [self._storage.claims.get(key) for key, each in record.waited.items() if not each.is_bound]
        stamps = [claim.metadata.updated_at for claim in claims if claim is not None]
        known = [stamp for stamp in stamps if stamp is not None]
        return max(known) if known and len(known) == len(record.waited) else None

    # -- storage events -----------------------------------------------------------------------------------------------

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        held = self._records.get(identity(old)) if old is not None else None
        if held is not None and (new is None or identity(new) != held.key):
            self._end(held, holds.DELETION)
        elif held is not None and old is not None and new is not None and holds.is_refresh(old.figures_version, new):
            self._look(held)  # a rebuild that was refused may have lost its room
            if held in self._records and not held.is_under_way and self._is_shown(held, new):
                self._end(held, holds.REFRESH)
        if new is not None and (old is None or is_elsewhere(old, new)):
            for sibling in self._groups.siblings(new):
                self._hold_siblings(sibling)

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
        claims = [self._storage.claims.get(key) for key in held.waited]
        volumes = [self._storage.volumes.get(claim.spec.volume_name) if claim is not None else None for claim in claims]
        created = [volume.metadata.creation_timestamp if volume is not None else None for volume in volumes]
        return held.is_bound and all(created_at is not None and created_at < told_at for created_at in created)

    def _groups_changed(self, class_names: Collection[str]) -> None:
        """Classes joined or left capacity groups: reserve the current siblings of reserved objects."""
        of_classes = [record for record in self._records if record.capacity.storage_class_name in class_names]
        for held in of_classes:
            sharing = self._groups.classes_with(held.capacity.storage_class_name)
            if not any(claim.class_name in sharing for claim in held.claims):
                self._end(held, holds.DELETION)
        for held in of_classes:
            self._hold_siblings(held.capacity)
        self._tell()

    def _hold_siblings(self, capacity: CSIStorageCapacity) -> None:
        """Reserve the siblings of a reserved object that are not: their figures may not show its volumes yet."""
        held = self._records.get(identity(capacity))
        if held is None or not any(claim.class_name == capacity.storage_class_name for claim in held.claims):
            return
        for sibling in self._groups.siblings(capacity):
            if self._records.get(identity(sibling)) is None:
                self._record(sibling, held.pods.values(), held.waited.values(), held.since, held.asked_at)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        name = either(old, new).name
        for held in self._records.of(PersistentVolume, name):
            self._look(held, gone=name if new is None else "")

    # -- one reservation ----------------------------------------------------------------------------------------------

    def _look(self, held: ReservedObject, gone: str = "") -> None:
        """Compute a reservation from its claims and volumes. It ends if no claim is left. The wait for a refresh begins
        when all claims are bound and all rebuilds are done. `gone`: a volume that was deleted."""
        lost = {key: cause for key, asked in held.waited.items() if (cause := self._why_lost(held, asked, gone))}
        held.waited = {key: each for key, each in held.waited.items() if key not in lost}
        self._charge(held, {held.key: held.taken_bytes})
        if lost and not held.waited:
            self._end(held, list(lost.values())[-1])
            return
        claims = [self._storage.claims.get(key) for key in held.waited]
        held.is_under_way = any(map(self._is_moving, held.waited.values()))
        is_bound = all(claim is not None and claim.is_bound for claim in claims) and not held.is_under_way
        if is_bound and not held.is_bound:
            self._was_made(held, self._server.now())
        elif not is_bound:
            held.waits_since_s = None
        held.is_bound = is_bound

    def _why_lost(self, held: ReservedObject, asked: PersistentVolumeClaim, gone: str) -> str:
        """Why a claim's volume will not be created from the object; empty if it will, or was. A rebuild is lost also if
        it was refused and does not fit the object's figures now."""
        claim, name = self._storage.claims.get(asked.key), asked.spec.volume_name
        if claim is None or claim.uid != asked.uid or (gone and name == gone):
            return holds.DELETION
        if asked.selected_node not in ("", claim.selected_node):
            return holds.FAILURE
        if not asked.is_bound:
            return holds.REFUSAL if self._refusals.of(claim) else ""
        is_elsewhere = self._progress(asked) is RebuildProgress.ELSEWHERE
        if self._is_moving(asked) and self._cluster.index(VolumePlaces).is_missed(name, asked.selected_node):
            size = size_to_make(asked, self._storage, is_rebuild=True)
            is_elsewhere = size is not None and largest_volume(self._index.object_of(held.key) or held.capacity) < size
        return holds.FAILURE if is_elsewhere else ""

    def _is_moving(self, asked: PersistentVolumeClaim) -> bool:
        return asked.is_bound and self._progress(asked) is RebuildProgress.UNDER_WAY

    def _tags(self, record: ReservedObject) -> Iterator[holds.Tag]:
        for key, claim in record.waited.items():
            yield PersistentVolumeClaim, key
            if claim.is_bound:
                yield PersistentVolume, claim.spec.volume_name
