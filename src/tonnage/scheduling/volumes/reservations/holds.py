"""Who keeps what of a capacity object back, since when and why: what both ways of reserving have in common.

Only times that one clock wrote are compared, because clocks may differ by minutes: the server's stamps with one
another, and with what the server's clock shows at least (`ServerTime`). Where the server's clock was set back, things
are held for longer, never for less.

    server's time  >=  the newest stamp  +  our monotonic seconds since it was read

A claim whose volume cannot be made, whatever room there is, keeps nothing back (`Refusals`). Its last word, by event
(ProvisioningFailed) or our provisioner's annotation, is a refusal for good. It counts until selected-node or the claim
changes, another word comes, or the volume is there. An event counts if it was written after the claim was given its
node, by the server's clock; where a time is not told, any event counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Final

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import Event, PersistentVolume, PersistentVolumeClaim, Pod, PodMeta
from tonnage.objects.core_v1.persistent_volume import annotated_refusal, is_for_good
from tonnage.objects.meta import Key, Object, StampedMeta, split_key
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage, either
from tonnage.scheduling.volumes.demand import VolumePlan
from tonnage.scheduling.volumes.packing.pool_fits import Sizes


class Refusals:
    """The last words on claims: `cluster.index(Refusals)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage
        self.on_change: list[Callable[[Key], None]] = []
        """Called with the key of a claim after another word on it came, or one went."""
        self._of_claim: Shelf[Key, Key, Event] = Shelf()
        self._asked_at: dict[Key, datetime | None] = {}
        """When claims were first seen in the API with the node and the spec that they have."""
        for claim in self._storage.claims:
            self._claim_changed(None, claim)
        for event in self._storage.provisioning_failures.values():
            self._event_changed(None, event)
        self._storage.on_change(PersistentVolumeClaim, self._claim_changed)
        self._storage.on_change(Event, self._event_changed)

    def of(self, claim: PersistentVolumeClaim) -> str:
        """Why a claim's volume cannot be made, in the provisioner's words; empty if nothing says so."""
        if claim.is_bound or not claim.selected_node:
            return ""
        known = self._storage.claims.api(claim.key)
        if known is None or known.uid != claim.uid or known.selected_node != claim.selected_node:
            return ""  # it is about to be sent there: nobody can have said anything about it
        return annotated_refusal(claim) or self._told_by_events(claim)

    def _told_by_events(self, claim: PersistentVolumeClaim) -> str:
        events = [each for each in self._of_claim[claim.key] if each.involved_object.uid in ("", claim.uid)]
        last = max(events, key=_order, default=None)
        if last is None or not is_for_good(last.message):
            return ""
        asked_at, told_at = self._asked_at.get(claim.key), last.metadata.updated_at
        is_old = asked_at is not None and told_at is not None and told_at < asked_at
        return "" if is_old else last.message

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        known = either(old, new)
        if new is None or old is None or _asked(old) != _asked(new):
            self._asked_at.pop(known.key, None)
        if new is not None and new.selected_node and not new.is_bound and not self._storage.claims.is_assumed(new.key):
            self._asked_at.setdefault(new.key, new.metadata.updated_at)

    def _event_changed(self, old: Event | None, new: Event | None) -> None:
        known = either(old, new)
        about = known.involved_object
        claim = f"{about.namespace or known.namespace}/{about.name}"
        if new is None:
            self._of_claim.take(claim, known.key)
        else:
            self._of_claim.put(claim, known.key, new)
        for changed in self.on_change:
            changed(claim)


def _asked(claim: PersistentVolumeClaim) -> object:
    return claim.uid, claim.selected_node, claim.spec


def _order(event: Event) -> tuple[float, float, int]:
    """By when events were last written, else by when their writers say they happened."""
    series_at = event.series.last_observed_time if event.series is not None else None
    happened_at = max(
        (each for each in (event.last_timestamp, series_at, event.event_time) if each is not None), default=None
    )
    written_at = event.metadata.updated_at or happened_at
    stamps = [each.timestamp() if each is not None else 0.0 for each in (written_at, happened_at)]
    return stamps[0], stamps[1], event.metadata.revision


_MOST_APART: Final = timedelta(hours=25)
_MOST_APART_IN_DUMPS: Final = timedelta(hours=1)
"""Clocks differ by less than this: what is older than that by our own clock is old, however few stamps were read. A
dump that was made without managedFields says little about the time it was made at, and is read where it was made."""


class ServerTime:
    """What the server's clock shows at least: `cluster.index(ServerTime)`. It reads every object of storage."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock = cluster.clock
        self._zero_at: datetime | None = None
        """What the server's clock showed, at least, at the start of our monotonic clock."""
        self._has_managed_fields = False
        storage = cluster.storage
        known = (storage.classes, storage.drivers, storage.capacities, storage.attachments)
        for each in (*storage.claims, *storage.volumes, *(each for kind in known for each in kind.values())):
            self._changed(None, each)
        for kind in (
            PersistentVolumeClaim,
            PersistentVolume,
            CSIStorageCapacity,
            VolumeAttachment,
            StorageClass,
            CSIDriver,
            Event,
        ):
            storage.on_change(kind, self._changed)

    def now(self) -> datetime | None:
        """The server's clock shows this or more; None when nothing that was read has a stamp."""
        return None if self._zero_at is None else self._zero_at + timedelta(seconds=self._clock.monotonic())

    def age_s(self, created_at: datetime) -> float:
        """How many seconds ago something was created, at least."""
        known = self.now() or created_at
        most_apart = _MOST_APART if self._has_managed_fields else _MOST_APART_IN_DUMPS
        return max(
            (known - created_at).total_seconds(), (self._clock.now() - created_at - most_apart).total_seconds(), 0
        )

    def _changed(self, _: Object | None, new: Object | None) -> None:
        if new is None:
            return
        stamps = [new.metadata.creation_timestamp]
        if isinstance(new.metadata, StampedMeta) and new.metadata.updated_at is not None:
            self._has_managed_fields = True
            stamps.append(new.metadata.updated_at)
        for stamp in stamps:
            zero_at = stamp - timedelta(seconds=self._clock.monotonic()) if stamp is not None else None
            if zero_at is not None and (self._zero_at is None or zero_at > self._zero_at):
                self._zero_at = zero_at


DEFAULT_TIMEOUT_S = 60.0
"""`reservationTimeoutSeconds` where nobody says otherwise."""
AGAIN_S = 5.0
"""What the clock may not end yet is looked at again after this, and the timeout."""
_SET_BACK = timedelta(minutes=1)
"""A server's stamps that go back by more than this are of a clock that was set back."""
WAITS_FOR_REFRESH = "bound; waits for the object to be refreshed"
RESTS = "rests and keeps nothing back: its volume cannot be made"
REFRESH, FAILURE, DELETION, TIMEOUT, REFUSAL = "refresh", "failure", "deletion", "timeout", "refusal"
CAUSES = (REFRESH, FAILURE, DELETION, TIMEOUT, REFUSAL)
"""Why something is kept back no longer:

refresh    its object shows it, or was published again
failure    the pod's attempt failed, or its claims are sent elsewhere or nowhere
deletion   its pod, claims, volume or object are gone
timeout    `reservationTimeoutSeconds` after its claims were bound
refusal    its volume cannot be made, whatever room there is
"""


@dataclass(frozen=True, slots=True)
class Hold:
    """What is kept back of one capacity object, for people: `explain`, `/debug/reservations` and metrics tell it."""

    capacity: Key
    uid: str
    pod: Key
    """Who holds it; empty when only the claim is known."""
    claims: tuple[Key, ...]
    bytes: int
    since: datetime
    why: str
    timeout_s: float | None = field(default=None, compare=False, repr=False)
    """How long it lasts, where its pod's profile says so; None: as the most patient profile has it. Nobody tells it, so
    that it is not what holds are compared by."""
    is_rebuild: bool = field(default=False, compare=False, repr=False)
    """It is for a volume that is still on its way from elsewhere: no clock ends it."""


def pod_of(hold: Hold, pods: Mapping[Key, PodInfo]) -> PodInfo:
    """The pod that holds it; one of its name where there is none any more."""
    namespace, name = split_key(hold.pod)
    return pods.get(hold.pod) or PodInfo(Pod(metadata=PodMeta(namespace=namespace, name=name, uid=hold.pod)))


def is_refresh(version: str, new: CSIStorageCapacity) -> bool:
    """Whether an object tells something new about its figures. One from a manifest has no version, and always does."""
    return not version or new.figures_version != version


def is_looked_at_anew(capacity: CSIStorageCapacity, before: datetime | None, bound_at: datetime | None) -> bool:
    """Whether the pools of an object were looked at since a claim was bound, though the server's clock was set back:
    there was a look other than `before`, earlier than it, or later than the claim's own stamp."""
    looked_at = capacity.checked_at
    if looked_at is None or before is None or looked_at == before:
        return False
    return looked_at < before - _SET_BACK or (bound_at is not None and looked_at > bound_at)


def as_assumed(claim: PersistentVolumeClaim, storage: Storage) -> PersistentVolumeClaim:
    """A claim as Reserve leaves it, with its selected-node, whether it is given as it was planned or as assumed."""
    key = claim.key
    known = storage.claims.get(key) if storage.claims.is_assumed(key) else None
    return known or claim


class Timeouts:
    """What ends by the clock, by name: when each wait began. `timeout_of` says how long it lasts, as of now."""

    def __init__(self, timeout_of: Callable[[str], float]) -> None:
        self._began_at: dict[str, float] = {}
        self._timeout_of = timeout_of

    def begin(self, name: str, at_s: float) -> None:
        self._began_at[name] = at_s

    def began_at(self, name: str) -> float | None:
        return self._began_at.get(name)

    def stop(self, name: str) -> None:
        self._began_at.pop(name, None)

    def first_end(self) -> float | None:
        """When the next one is over."""
        return min((end_s for end_s, _ in self._ends()), default=None)

    def take_ended(self, now_s: float) -> list[str]:
        """Remove the waits that are over, and name them, the earliest first."""
        ended = [name for end_s, name in sorted(self._ends(), key=lambda end: end[0]) if end_s <= now_s]
        for name in ended:
            self.stop(name)
        return ended

    def _ends(self) -> list[tuple[float, str]]:
        return [(at_s + self._timeout_of(name), name) for name, at_s in self._began_at.items()]


class CapacityHolds(ABC):
    """What keeps capacity back in one cluster, in one of the two modes. Objects are known by `identity`, their uid.

    Decisions ask what is `held`. A pod's way goes through `assuming` and `keep_back` at Reserve, `send` when its claims
    are written one after the other, and `release` when its attempt fails.
    """

    keeps_whole_objects: ClassVar[bool]
    """True in mode Object; in mode Ledger bytes are kept."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._storage = cluster.storage
        self._clock = cluster.clock
        self._server = cluster.index(ServerTime)
        self._refusals = cluster.index(Refusals)
        self.on_change: list[Callable[[str], None]] = []
        """Called with the uid of an object after what is held of it changed."""
        self.on_released: list[Callable[[CSIStorageCapacity], None]] = []
        """Called with an object after a hold of it ended or shrank: pods it turned away are worth another try."""
        self.reservations_total = 0
        """How often something was kept back for a pod."""
        self.ended = dict.fromkeys(CAUSES, 0)
        """Holds that ended, by cause."""
        self._waits = Timeouts(self._timeout_of)
        self._profile_timeouts: set[float] = set()

    # -- asking -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def held(self, members: Sequence[CSIStorageCapacity], own: Collection[Key]) -> Sizes | None:
        """What is held of an object, or of several that are judged as one, but for the claims of `own`: promised bytes,
        descending; None if it is reserved as a whole."""

    @abstractmethod
    def own_claims(self, claims: Iterable[PersistentVolumeClaim], group: Iterable[PersistentVolumeClaim]) -> list[Key]:
        """The claims whose own holds are not in the way of a `group`, one of those into which a pod's `claims` fall."""

    @abstractmethod
    def holds(self) -> list[Hold]:
        """Everything that is held."""

    @abstractmethod
    def holds_on(self, uid: str) -> list[Hold]:
        """What is held of one object."""

    def resting(self, class_name: str | None = None) -> list[Hold]:
        """Holds of nothing: what would be held, of all classes or of one, if its volume could be made."""
        return []

    @property
    def resets_total(self) -> int:
        """Holds that ended because their object was published again: what the KEP's metric counts."""
        return self.ended[REFRESH]

    @property
    def longest_timeout_s(self) -> float:
        """How long what is nobody's is kept: as the most patient profile has it."""
        return max(self._profile_timeouts, default=DEFAULT_TIMEOUT_S)

    def next_expiry_at(self) -> float | None:
        """When `expire` has something to do, in the clock's monotonic seconds."""
        return self._waits.first_end()

    def tell_timeout(self, timeout_s: float) -> None:
        """A profile decides by this timeout: it counts for what is held for its pods."""
        self._profile_timeouts.add(timeout_s)

    @abstractmethod
    def _timeout_of(self, name: str) -> float: ...

    # -- a pod's way --------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Account for what nobody told of; a decision calls this before it asks."""
        return

    def assuming(self, claims: Collection[Key]) -> AbstractContextManager[None]:
        """While these claims are assumed, and `keep_back` is called for them."""
        return nullcontext()

    @abstractmethod
    def keep_back(self, pod: PodInfo, plan: VolumePlan, timeout_s: float) -> None:
        """Nobody else gets what was found for a pod's volumes until the driver's figures show it (KEP-5925)."""

    def send(self, claims: Iterable[Key]) -> None:
        """Claims that waited for others get their node now."""
        return

    @abstractmethod
    def release(self, pod_uid: str) -> None:
        """Unreserve: the pod's attempt failed."""

    @abstractmethod
    def pod_gone(self, pod_uid: str) -> None:
        """The pod was deleted."""

    @abstractmethod
    def expire(self, now_s: float) -> None:
        """End what is overdue at this time of the monotonic clock."""

    @abstractmethod
    def agree_with(self, holds: Sequence[Hold], pods: Mapping[Key, PodInfo]) -> None:
        """Hold what another scheduler of the same cluster does, and nothing else."""
