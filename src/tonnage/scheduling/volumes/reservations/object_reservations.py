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
from types import MappingProxyType

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
from tonnage.scheduling.volumes.volume_reach import RebuildProgress, VolumePlaces, is_on_its_way, progress_of


@dataclass(slots=True, eq=False)
class ReservedObject(holds.HoldRecord):
    """One object, reserved for some claims of a pod, or of several pods that share a claim. `key`: the object's uid.
    `made_at`: when the last of its claims was seen bound."""

    capacity: CSIStorageCapacity
    """The object when it was reserved, or when another source took over its pools."""
    pods: dict[str, PodInfo]
    """The holders by uid; the first one is shown. Empty for a rebuild that outlives its pod."""
    claims: tuple[PersistentVolumeClaim, ...]
    """The claims as they were reserved for; a bound one is to be rebuilt."""
    since: datetime
    taken_bytes: int
    asked_at: datetime | None = None
    """`since` by the server's clock, as far as it is known."""
    version: str = ""
    """The version of the object's figures; the reservation holds while the object has it."""
    waited: dict[Key, PersistentVolumeClaim] = field(default_factory=dict)
    """The claims still pending or bound; claims that were given back are left out."""
    is_under_way: bool = False
    """True while a volume to be rebuilt has not arrived."""
    is_bound: bool = False
    looked_at: datetime | None = None
    """The last check of its pools at `made_at`."""

    def __post_init__(self) -> None:
        self.key, self.version = identity(self.capacity), self.capacity.figures_version
        self.waited, self.charged = {claim.key: claim for claim in self.claims}, {self.key: self.taken_bytes}

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
        pod, claims = next((each.key for each in self.pods.values()), ""), tuple(claim.key for claim in self.claims)
        held = (capacity.key, self.key, pod, claims, self.taken_bytes, self.since, why)
        return holds.Hold(*held, timeout_s=self.timeout_s, is_rebuild=self.is_under_way)


class Reservations(holds.CapacityHolds):
    """The reserved objects of a cluster. Get it with `cluster.index(Reservations)`."""

    keeps_whole_objects = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._records: holds.Records[ReservedObject] = holds.Records()
        self._listen(CSIStorageCapacity, self._capacity_changed)
        self._listen(PersistentVolumeClaim, self._claim_changed)
        self._listen(PersistentVolume, self._volume_changed)
        self._groups.on_change.append(self._groups_changed)
        self._find_rebuilds()

    # -- asking -------------------------------------------------------------------------------------------------------

    def is_reserved(self, capacity: CSIStorageCapacity, own: Collection[Key] = ()) -> bool:
        """True if the object, in the version it was reserved with, is reserved for other claims than `own`."""
        held = self._records.get(identity(capacity))
        if held is None or held.version != capacity.figures_version:
            return False
        return not own or not held.is_for(own)

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
            if before.version == known.figures_version and is_shared:
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
        self._look(ReservedObject(capacity, by_uid, tuple(claims), since, taken_bytes, asked_at, timeout_s=timeout_s))

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
                self._file(ReservedObject(capacity, by_uid, tuple(claims), hold.since, hold.bytes))
                self._changed[hold.uid] = False
        self._tell()

    def _is_unchecked(self, held: ReservedObject) -> bool:
        now = self._index.object_of(held.key)
        if now is None or not now.is_unchecked_since(held.made_at):
            return False
        claims = [self._storage.claims.get(key) for key, each in held.waited.items() if not each.is_bound]
        stamps = [claim.metadata.updated_at for claim in claims if claim is not None]
        known = [stamp for stamp in stamps if stamp is not None]
        bound_at = max(known) if known and len(known) == len(held.waited) else None
        return not holds.is_looked_at_anew(now, held.looked_at, bound_at)

    # -- storage events -----------------------------------------------------------------------------------------------

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        gone = old if old is not None and (new is None or identity(new) != identity(old)) else None
        held = self._records.get(identity(gone)) if gone is not None else None
        if held is not None:
            self._end(held, holds.DELETION)
        if new is not None:
            held = self._records.get(identity(new))
            if held is not None and holds.is_refresh(held.version, new):
                self._refreshed(held, new)
            if old is None or is_elsewhere(old, new):
                for sibling in self._groups.siblings(new):
                    self._hold_siblings(sibling)

    def _refreshed(self, held: ReservedObject, new: CSIStorageCapacity) -> None:
        self._look(held)  # a rebuild that was refused may have lost its room
        if held not in self._records:
            return
        if held.is_under_way or not self._is_shown(held, new):
            held.version = new.figures_version
            self._changed.setdefault(held.key, False)
        else:
            self._end(held, holds.REFRESH)

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

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        key = either(old, new).key
        for held in self._records.of(PersistentVolumeClaim, key):
            asked = held.waited[key]
            is_lost = new is not None and asked.selected_node not in ("", new.selected_node)
            cause = holds.DELETION if new is None or new.uid != asked.uid else holds.FAILURE if is_lost else ""
            self._look(held, {key: cause} if cause else {})

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        name = either(old, new).name
        for held in self._records.of(PersistentVolume, name):
            rebuilt = [key for key, asked in held.waited.items() if asked.spec.volume_name == name]
            self._look(held, dict.fromkeys(rebuilt, holds.DELETION) if new is None else {})

    # -- one reservation ----------------------------------------------------------------------------------------------

    def _look(self, held: ReservedObject, lost: Mapping[Key, str] = MappingProxyType({})) -> None:
        """Compute a reservation from its claims and volumes, and keep it, or end it if no claim is left. `lost`: claims
        that will no longer be created there, and why. The wait for a refresh begins when all claims are bound and all
        rebuilds are done."""
        causes, held.is_under_way = dict(lost), False
        for key, asked in held.waited.items():
            if key in causes:
                continue
            progress = self._progress(held, asked)
            if not asked.is_bound and self._refusals.of(self._storage.claims.get(key) or asked):
                causes[key] = holds.REFUSAL
            elif asked.is_bound and progress is RebuildProgress.ELSEWHERE:
                causes[key] = holds.FAILURE
            held.is_under_way |= asked.is_bound and progress is RebuildProgress.UNDER_WAY
        held.waited = {key: each for key, each in held.waited.items() if key not in causes}
        self._file(held)
        if not held.waited and causes:
            self._end(held, list(causes.values())[-1])
            return
        bound = [(self._storage.claims.get(key) or asked).is_bound for key, asked in held.waited.items()]
        is_bound = all(bound) and not held.is_under_way
        if is_bound and not held.is_bound:
            now = self._index.object_of(held.key)
            held.made_at, held.looked_at = self._server.now(), now.checked_at if now is not None else None
            held.waits_since_s = self._clock.monotonic()
        elif not is_bound:
            held.waits_since_s = None
        held.is_bound = is_bound

    def _progress(self, held: ReservedObject, asked: PersistentVolumeClaim) -> RebuildProgress:
        """How far a rebuild has come; ELSEWHERE also if it was refused and does not fit the object's figures now."""
        volume, node_name = self._storage.volumes.get(asked.spec.volume_name), asked.selected_node
        progress = RebuildProgress.UNDER_WAY if volume is None else progress_of(self._cluster, volume, node_name)
        is_missed = self._cluster.index(VolumePlaces).is_missed(asked.spec.volume_name, node_name)
        if progress is RebuildProgress.UNDER_WAY and is_missed:
            size, now = size_to_make(asked, self._storage, is_rebuild=True), self._index.object_of(held.key)
            if size is not None and largest_volume(now or held.capacity) < size:
                return RebuildProgress.ELSEWHERE
        return progress

    def _file(self, held: ReservedObject) -> None:
        if held not in self._records:
            self._changed.setdefault(held.key, False)
        tags: set[holds.Tag] = {(CSIStorageCapacity, held.key), *((Pod, uid) for uid in held.pods)}
        for key, claim in held.waited.items():
            tags |= {
                (PersistentVolumeClaim, key),
                *([(PersistentVolume, claim.spec.volume_name)] if claim.is_bound else ()),
            }
        self._records.file(held, tags)

    def _end(self, held: ReservedObject, cause: str) -> None:
        self._records.remove(held)
        self.ended[cause] += 1
        self._changed[held.key] = True
