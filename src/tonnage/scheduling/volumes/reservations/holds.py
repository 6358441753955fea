"""Holds on capacity objects: who holds what, since when and why. What both reservation modes have in common.

After an event, the records that depend on the object are computed anew and compared with before. Times are the server's
(`server_time.py`); a claim whose volume cannot be created holds nothing (`refusals.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIStorageCapacity, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage, either
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.demand import VolumePlan
from tonnage.scheduling.volumes.packing.pool_fits import Sizes
from tonnage.scheduling.volumes.reservations.refusals import Refusals
from tonnage.scheduling.volumes.reservations.server_time import ServerTime
from tonnage.scheduling.volumes.volume_reach import RebuildProgress, progress_of

DEFAULT_TIMEOUT_S = 60.0
"""The default of `reservationTimeoutSeconds`."""
AGAIN_S = 5.0
"""If the clock may not end a hold yet, it is checked again after its timeout and this time."""
_SET_BACK = timedelta(minutes=1)
"""Stamps that go back by more than this mean that the server's clock was set back."""
WAITS_FOR_REFRESH = "bound; waits for the object to be refreshed"
RESTS = "keeps nothing back: its volume cannot be made"
REFRESH, FAILURE, DELETION, TIMEOUT, REFUSAL = "refresh", "failure", "deletion", "timeout", "refusal"
CAUSES = (REFRESH, FAILURE, DELETION, TIMEOUT, REFUSAL)
"""Why a hold ended:

refresh    its object shows the volume, or was published again
failure    the pod's attempt failed, or its claims are sent elsewhere or nowhere
deletion   its pod, claims, volume or object are gone
timeout    `reservationTimeoutSeconds` after its claims were bound
refusal    its volume cannot be created, whatever room there is
"""


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold on one capacity object, as `explain`, `/debug/reservations` and metrics show it."""

    capacity: Key
    uid: str
    pod: Key
    """The pod that holds it; empty if only the claim is known."""
    claims: tuple[Key, ...]
    bytes: int
    since: datetime
    why: str
    timeout_s: float | None = field(default=None, compare=False, repr=False)
    """The timeout of the pod's profile; None: the longest of all profiles. Not shown, so not compared."""
    is_rebuild: bool = field(default=False, compare=False, repr=False)
    """True if its volume is on its way from another node: it has no timeout."""


def is_refresh(version: str, new: CSIStorageCapacity) -> bool:
    """True if the object has new figures. An object from a manifest has no version: always True."""
    return not version or new.figures_version != version


def _is_looked_at_anew(capacity: CSIStorageCapacity, before: datetime | None, bound_at: datetime | None) -> bool:
    """True if an object's pools were checked after a claim was bound, although the server's clock was set back. That is
    a check other than `before`, which is earlier than `before` or later than the claim's stamp."""
    looked_at = capacity.checked_at
    if looked_at is None or before is None or looked_at == before:
        return False
    return looked_at < before - _SET_BACK or (bound_at is not None and looked_at > bound_at)


def as_assumed(claim: PersistentVolumeClaim, storage: Storage) -> PersistentVolumeClaim:
    """The claim with its selected-node, as Reserve assumed it; `claim` itself if it is not assumed."""
    key = claim.key
    known = storage.claims.get(key) if storage.claims.is_assumed(key) else None
    return known or claim


Tag = tuple[type[Object], str]
"""A kind and a name or uid: an object that a record depends on."""


@dataclass(slots=True, eq=False, kw_only=True)
class HoldRecord:
    """What a mode keeps of one hold."""

    key: str = ""
    since: datetime
    pods: dict[str, PodInfo] = field(default_factory=dict)
    """The pods that hold it, by uid; the first one is shown."""
    tags: set[Tag] = field(default_factory=set)
    charged: Mapping[str, int] = field(default_factory=dict)
    """Bytes by object."""
    timeout_s: float | None = None
    """The timeout of the profile that placed the pod; None: not known."""
    waits_since_s: float | None = None
    """When the timeout began, in monotonic seconds; None while it does not run."""
    made_at: datetime | None = None
    """When the volumes were first seen to exist, by the server's clock; None: not known."""
    looked_at: Mapping[str, datetime | None] = field(default_factory=dict)
    """By object uid, the last check of its pools when the volumes were first seen to exist."""

    def hold(self, capacity: CSIStorageCapacity, claims: tuple[Key, ...], why: str, *, is_rebuild: bool) -> Hold:
        """What this record holds of one object."""
        uid, pod = identity(capacity), next((pod.key for pod in self.pods.values()), "")
        held = (capacity.key, uid, pod, claims, self.charged.get(uid, 0), self.since, why)
        return Hold(*held, timeout_s=self.timeout_s, is_rebuild=is_rebuild)


R = TypeVar("R", bound=HoldRecord)
T = TypeVar("T", bound=Object)


class Records(Generic[R]):
    """Records by key, and by the objects that they depend on."""

    def __init__(self) -> None:
        self._by_key: dict[str, R] = {}
        self._by_tag: Shelf[Tag, str, R] = Shelf()

    def __iter__(self) -> Iterator[R]:
        return iter(list(self._by_key.values()))

    def __contains__(self, record: R) -> bool:
        return self._by_key.get(record.key) is record

    def get(self, key: str) -> R | None:
        return self._by_key.get(key)

    def of(self, kind: type[Object], name: str) -> list[R]:
        """The records that depend on an object, in the order they were filed."""
        return self._by_tag[kind, name]

    def file(self, record: R, tags: set[Tag]) -> None:
        """Keep a record under exactly these tags."""
        self._by_key[record.key] = record
        for tag in record.tags - tags:
            self._by_tag.take(tag, record.key)
        for tag in tags - record.tags:
            self._by_tag.put(tag, record.key, record)
        record.tags = tags

    def remove(self, record: R) -> None:
        self.file(record, set())
        del self._by_key[record.key]


class CapacityHolds(ABC):
    """The holds of one cluster in one mode. Objects are known by `identity`, their uid.

    Decisions ask what is `held`. For a pod, Reserve sets `awaited` and calls `keep_back`; `send` is called when its
    claims are written one after the other, `release` when its attempt fails. After an event, the records that depend on
    the object are computed anew (`_look`). `_charge` compares what they hold with what they held before.
    """

    keeps_whole_objects: ClassVar[bool]
    """True in mode Object; mode Ledger holds bytes."""
    _records: Records[Any]

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._storage = cluster.storage
        self._clock = cluster.clock
        self._index = cluster.index(CapacityIndex)  # it must hear of objects before the holds do
        self._groups = self._index.groups
        self._server = ServerTime(cluster)
        self._refusals = Refusals(cluster)
        self.on_change: list[Callable[[str], None]] = [self._index.held_differs]
        """Called with an object's uid after its holds changed."""
        self.on_released: list[Callable[[CSIStorageCapacity], None]] = []
        """Called with an object after one of its holds ended or shrank: pods it rejected may fit now."""
        self.awaited: Collection[Key] = ()
        """Claims that Reserve assumes now; `keep_back` follows. Otherwise assuming them would charge every object."""
        self._changed: dict[str, bool] = {}
        """Objects whose holds changed since observers were called; True if a hold ended or shrank."""
        self.reservations_total = 0
        """How many holds were made for pods."""
        self.ended = dict.fromkeys(CAUSES, 0)
        """How many holds ended, by cause."""
        self._told_timeout_s = 0.0
        self._listen(VolumeAttachment, self._attachment_changed)
        self._refusals.on_change.append(self._refusal_changed)

    # -- asking -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def held(self, members: Sequence[CSIStorageCapacity], own: Collection[Key]) -> Sizes | None:
        """The holds on an object, or on joined ones, except those of `own`: bytes, descending; None if reserved."""

    def promised_by_class(self, objects: Sequence[CSIStorageCapacity], own: Collection[Key]) -> list[tuple[int, str]]:
        """Bytes and class of every claim that something of these objects is promised to, except `own`."""
        return []

    @abstractmethod
    def own_claims(self, claims: Iterable[PersistentVolumeClaim], group: Iterable[PersistentVolumeClaim]) -> list[Key]:
        """The claims whose holds do not block a `group`, which is a part of a pod's `claims`."""

    def holds(self) -> list[Hold]:
        """All holds, oldest first."""
        self.catch_up()
        uids = dict.fromkeys(uid for record in self._records for uid in record.charged)
        return [hold for uid in uids for hold in self.holds_on(uid)]

    def holds_on(self, uid: str) -> list[Hold]:
        """The holds on one object."""
        capacity = self._index.object_of(uid)
        return [record.as_hold(capacity) for record in self._charged_with(uid)] if capacity is not None else []

    def _charged_with(self, uid: str) -> list[Any]:
        return [record for record in self._records.of(CSIStorageCapacity, uid) if uid in record.charged]

    def resting(self, class_name: str | None = None) -> list[Hold]:
        """Holds of nothing, of all classes or one: what would be held if the volume could be created."""
        return []

    @property
    def longest_timeout_s(self) -> float:
        """The longest timeout of all profiles: it applies to holds without a known pod."""
        return self._told_timeout_s or DEFAULT_TIMEOUT_S

    # -- calls for a pod ----------------------------------------------------------------------------------------------

    def tell_timeout(self, timeout_s: float) -> None:
        """Add a profile's timeout, which applies to holds for its pods."""
        self._told_timeout_s = max(self._told_timeout_s, timeout_s)

    def catch_up(self) -> None:
        """Account for changed nodes, new objects and new rules; a decision calls this before it asks."""
        return

    @abstractmethod
    def keep_back(self, pod: PodInfo, plan: VolumePlan, timeout_s: float) -> None:
        """Hold the capacity planned for a pod's volumes until the driver's figures show them (KEP-5925)."""

    def send(self, claims: Iterable[Key]) -> None:
        """Note that claims which waited for others get their node now."""
        return

    @abstractmethod
    def release(self, pod_uid: str) -> None:
        """Unreserve: the pod's attempt failed."""

    @abstractmethod
    def pod_gone(self, pod_uid: str) -> None:
        """The pod was deleted."""

    @abstractmethod
    def agree_with(self, holds: Sequence[Hold], pods: Mapping[Key, PodInfo]) -> None:
        """Take over exactly the holds of another scheduler of the same cluster."""

    def expire(self, now_s: float) -> None:
        """End holds that are overdue at `now_s` of the monotonic clock."""
        self.catch_up()
        for end_s, record in sorted(self.timeouts(), key=lambda end: end[0]):
            if end_s <= now_s and self._is_unchecked(record):
                record.waits_since_s = now_s + AGAIN_S
            elif end_s <= now_s:
                self._end(record, TIMEOUT)
        self._tell()

    def timeouts(self) -> list[tuple[float, Any]]:
        """When the running timeouts end, with their records."""
        running = [(record.waits_since_s, record) for record in self._records if record.waits_since_s is not None]
        longest_s = self.longest_timeout_s
        return [(at_s + (longest_s if each.timeout_s is None else each.timeout_s), each) for at_s, each in running]

    def _is_unchecked(self, record: Any) -> bool:
        """True if the source of the pools may not have been checked since the record's volumes were created."""
        bound_at = self._bound_at(record)
        return any(
            capacity.is_unchecked_since(record.made_at)
            and not _is_looked_at_anew(capacity, record.looked_at.get(identity(capacity)), bound_at)
            for capacity in self._objects_of(record)
        )

    @abstractmethod
    def _objects_of(self, record: Any) -> Sequence[CSIStorageCapacity]:
        """The objects that a record is for, whether their figures show its volumes or not."""

    @abstractmethod
    def _bound_at(self, record: Any) -> datetime | None:
        """The server's stamp of the claims after their binding; None: not known."""

    # -- one record ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def _look(self, record: Any) -> None:
        """Compute a record anew from the objects that it depends on, and keep it or end it."""

    @abstractmethod
    def _tags(self, record: Any) -> Iterable[Tag]:
        """The claims and volumes that a record depends on, and objects that it is not charged to."""

    def _was_made(self, record: HoldRecord, made_at: datetime | None, age_s: float = 0.0) -> None:
        """The volumes of a record exist, since this time of the server's clock: the timeout begins."""
        record.made_at, record.waits_since_s = made_at, self._clock.monotonic() - age_s
        record.looked_at = {identity(capacity): capacity.checked_at for capacity in self._objects_of(record)}

    def _progress(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None = None) -> RebuildProgress:
        """How far the rebuild of a claim's volume has come. `volume`: its state, if not the current one."""
        known = volume or self._storage.volumes.get(claim.spec.volume_name)
        return RebuildProgress.UNDER_WAY if known is None else progress_of(self._cluster, known, claim.selected_node)

    def _charge(self, record: HoldRecord, charges: Mapping[str, int]) -> None:
        """Charge a record to exactly these objects, and note what differs from before."""
        before, record.charged = record.charged, charges
        for uid in {**before, **charges}:
            less = before.get(uid, 0) - charges.get(uid, 0)
            if less or (uid in before) != (uid in charges):
                self._changed[uid] = self._changed.get(uid, False) or less > 0 or uid not in charges
        self._file(record)

    def _file(self, record: HoldRecord) -> None:
        tags = {(CSIStorageCapacity, uid) for uid in record.charged} | {(Pod, uid) for uid in record.pods}
        self._records.file(record, tags.union(self._tags(record)))

    def _end(self, record: Any, cause: str) -> None:
        self.ended[cause] += 1
        self._charge(record, {})
        self._records.remove(record)

    # -- events -------------------------------------------------------------------------------------------------------

    def _listen(self, kind: type[T], changed: Callable[[T | None, T | None], None]) -> None:
        """Call `changed` about every object of a kind that changes, then the observers."""

        def heard(old: T | None, new: T | None) -> None:
            changed(old, new)
            self._tell(old if isinstance(old, CSIStorageCapacity) else None)

        self._storage.on_change(kind, heard)

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        self._look_at(PersistentVolume, either(old, new).spec.source.persistent_volume_name)

    def _refusal_changed(self, key: Key) -> None:
        self._look_at(PersistentVolumeClaim, key)
        self._tell()

    def _look_at(self, kind: type[Object], name: str) -> None:
        """Compute all records anew that depend on an object."""
        self._look_at_all(self._records.of(kind, name))

    def _look_at_all(self, records: Iterable[Any]) -> None:
        for record in records:
            if record in self._records:  # not ended by the one before
                self._look(record)

    def _tell(self, gone: CSIStorageCapacity | None = None) -> None:
        """Call the observers about all changes so far. `gone`: an object that may have been deleted."""
        changed, self._changed = self._changed, {}
        for uid in changed:
            for listener in self.on_change:
                listener(uid)
        for uid, is_released in changed.items():
            capacity = self._index.object_of(uid) or gone
            if is_released and capacity is not None:
                for released in self.on_released:
                    released(capacity)
