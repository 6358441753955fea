"""The promise of one claim, and what the figures of capacity objects show of promised volumes.

If a provisioner names the claims that its figures include (`tonnage.dev/included-claims`), that decides. Otherwise
figures show a volume if

    it exists, and they fell by its size since it was decided on (`Falls`), before or after its claim is bound
    or it was bound before the last refresh but one: a provisioner measures again after it has written
        unless the last was written before the volume's object was    (managedFields, creationTimestamp: one clock)
    or the object was created after the volume.

If `tonnage pools` keeps an object's pools, only a write that changes them, or marks them as measured anew, is a refresh
(docs/decisions/019). Falls never pay for more bytes than were seen to fall; a rise takes back the last falls. With
several pools, unless all volumes have one size, a fall pays only if it is enough for every volume that may be in it.
Volumes without a decision (immediate binding, shared pools) are paid for like promised ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import INCLUDED_CLAIMS, CSIStorageCapacity
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.pools import free_bytes, told_pools
from tonnage.scheduling.volumes.demand import counted_bytes, volume_bytes
from tonnage.scheduling.volumes.reservations.holds import RESTS, WAITS_FOR_REFRESH, Hold, HoldRecord

_REBUILDING = "waits for its volume to be rebuilt"
_IS_UNDECIDED = "made without a selected-node that was seen; waits for the object to be refreshed"
_CLAIM_IS_GONE = "its claim is gone, its volume is not; waits for the object to be refreshed"


class Decided(NamedTuple):
    """When a volume was decided on: only later falls can be from it."""

    tick: int
    """The last refresh of any object seen before the decision."""
    asked_at: datetime | None = None
    """When its claim was given its node, by the server's clock; None: not known."""


EVER = Decided(-1)


@dataclass(slots=True, eq=False, kw_only=True)
class Promise(HoldRecord):
    """A volume that will be created for a claim on a node, or was created and may not show yet. `key`: the claim's.
    `made_at`: an object created later includes its volume."""

    claim: PersistentVolumeClaim
    """The claim when last seen. Uid, node and class never change during a promise."""
    decided: Decided
    is_rebuild: bool = False
    is_left_behind: bool = False
    """True if it is for a volume's old place, while its claim is sent elsewhere or gone."""
    has_claim: bool = True
    """False if a left-behind volume has no claim any more."""
    has_volume_size: bool = False
    """True if a left-behind volume was rebuilt there: it has its own size, not the claim's."""
    is_unsent: bool = False
    """True while its claim waits for other volumes: nobody has been asked for its volume yet."""
    named: str = ""
    """The uid of the object that Reserve charged it to."""
    volume: PersistentVolume | None = None
    """The volume created for the claim, which is bound later. None for rebuilds."""
    order: int = 0
    """The order in which volumes came to exist."""
    made_tick: int | None = None
    """The tick at which the claim was seen bound: an object refreshed later includes its volume."""
    arrived: tuple[int, datetime | None] | None = None
    """`made_tick` and `made_at` of a rebuild when it was first done, even if the volume may move again."""
    shown_by: set[str] = field(default_factory=set)
    """The uids of the objects whose refreshes show the volume."""
    rests: str = ""
    """Why its volume cannot be created, in the provisioner's words: it is then charged to no object."""

    def __post_init__(self) -> None:
        self.key = self.claim.key

    @property
    def is_made(self) -> bool:
        """True if its volume exists where it was decided."""
        return self.made_tick is not None or (self.volume is not None and not self.is_rebuild)

    def is_older_than(self, refresh: Refresh) -> bool:
        """True if its claim was seen bound before this refresh."""
        return self.made_tick is not None and self.made_tick < refresh.tick

    @property
    def is_undecided(self) -> bool:
        """True if its volume was found existing, without a seen decision."""
        return self.decided == EVER

    @property
    def created_at(self) -> datetime | None:
        """When the object of its volume was created; None: not known."""
        return self.volume.metadata.creation_timestamp if self.volume is not None else None

    @property
    def why(self) -> str:
        if self.rests:
            return f"{RESTS}: {self.rests}"
        if self.is_undecided:
            return _IS_UNDECIDED
        if not self.has_claim:
            return _CLAIM_IS_GONE
        if self.is_rebuild:
            return "rebuilt; waits for the object to be refreshed" if self.made_tick is not None else _REBUILDING
        return WAITS_FOR_REFRESH if self.made_tick is not None else "waits for its claim to be bound"

    def as_hold(self, capacity: CSIStorageCapacity) -> Hold:
        return self.hold(capacity, (self.key,), self.why, is_rebuild=self.is_rebuild and self.made_tick is None)

    def counted_bytes(self, storage: Storage) -> int | None:
        return counted_bytes(self.claim, storage, is_rebuild=self.is_rebuild or self.has_volume_size)


def is_still(before: PersistentVolumeClaim, now: PersistentVolumeClaim | None) -> bool:
    """True if the claim is the same, for the same node, and was not unbound."""
    if now is None or (now.uid, now.selected_node) != (before.uid, before.selected_node):
        return False
    if before.is_bound and (not now.is_bound or now.spec.volume_name != before.spec.volume_name):
        return False
    return now.class_name == before.class_name


def is_news(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """True if a claim without a promise must be judged: it is new, unbound, just bound, or marked for a rebuild."""
    if old.uid != new.uid or not (old.is_bound and new.is_bound):
        return True
    is_sent_on = (old.selected_node, old.rebuild_target) != (new.selected_node, new.rebuild_target)
    return is_sent_on and new.rebuild_target == new.selected_node


class Fall(NamedTuple):
    tick: int
    size: int
    told_at: datetime | None = None
    """When the smaller figure was measured, by the server's clock; None: not known."""

    def is_since(self, decided: Decided) -> bool:
        is_early = self.told_at is not None and decided.asked_at is not None and self.told_at < decided.asked_at
        return self.tick > decided.tick and not is_early


class UnshownVolume(NamedTuple):
    """A volume that an object's figures may not show yet."""

    size: int
    decided: Decided
    is_made: bool
    """True if its PersistentVolume exists. A volume without one may have been created all the same."""


class Falls:
    """The falls of one object's figures that have paid for no volume yet, oldest first."""

    __slots__ = ("_falls",)

    def __init__(self) -> None:
        self._falls: list[Fall] = []

    def __bool__(self) -> bool:
        return bool(self._falls)

    def fell(self, tick: int, size: int, told_at: datetime | None = None) -> None:
        if size > 0:
            self._falls.append(Fall(tick, size, told_at))

    def rose(self, size: int) -> None:
        """Forget as many bytes of the last falls as are free again."""
        while size > 0 and self._falls:
            last = self._falls.pop()
            if last.size > size:
                self._falls.append(last._replace(size=last.size - size))
            size -= last.size

    def since(self, decided: Decided) -> int:
        """The bytes that fell since a decision."""
        return sum([fall.size for fall in self._falls if fall.is_since(decided)])

    def take(self, decided: Decided, size: int) -> None:
        """Pay for a volume with falls since its decision, oldest first, as far as they reach."""
        left = list[Fall]()
        for fall in self._falls:
            taken = min(fall.size, size) if fall.is_since(decided) else 0
            size -= taken
            if fall.size > taken:
                left.append(fall._replace(size=fall.size - taken))
        self._falls = left

    def forget_until(self, tick: int) -> None:
        """Forget falls that cannot pay for volumes decided on at this tick or later."""
        self._falls = [fall for fall in self._falls if fall.tick > tick]

    def pay(self, volumes: Sequence[UnshownVolume], *, has_pools: bool) -> list[int]:
        """Pay for volumes of an object, oldest first. Returns the positions of the paid ones."""
        if not self._falls or (has_pools and not self._are_enough_for_all(volumes)):
            return []
        paid = list[int]()
        for place, each in enumerate(volumes):
            if each.is_made and each.size <= self.since(each.decided):
                self.take(each.decided, each.size)
                paid.append(place)
        return paid

    def _are_enough_for_all(self, volumes: Sequence[UnshownVolume]) -> bool:
        """True if it does not matter which volumes the falls are from: all have one size, or the falls pay for all."""
        if len({volume.size for volume in volumes}) < 2:
            return True
        may_be_in = [each.size for each in volumes if each.is_made or each.size <= self.since(each.decided)]
        return sum(may_be_in) <= self.since(EVER)


class Refresh(NamedTuple):
    """A new publication of an object."""

    tick: int
    """The count of refreshes of all objects so far."""
    updated_at: datetime | None
    """When it was written; None: not known."""
    is_measured: bool
    """False if the figures switched between pools kept by `tonnage pools` and the driver's own: they cannot be
    compared, and the time of measuring is not known."""


@dataclass(slots=True, eq=False)
class History:
    """What the refreshes of one object showed."""

    refreshes: tuple[Refresh, ...] = ()
    """The last two; earlier ones are forgotten."""
    falls: Falls = field(default_factory=Falls)
    undecided: dict[Key, tuple[int, int, int]] = field(default_factory=dict)
    """Volumes without a decision: order, bytes, and the tick they came at."""


class Figures:
    """What the refreshes of objects showed, by `identity`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.tick = 0
        """Increases with every refresh of an object."""
        self._histories: dict[str, History] = {}

    # -- events -------------------------------------------------------------------------------------------------------

    def refreshed(self, before: CSIStorageCapacity, new: CSIStorageCapacity, *, is_elsewhere: bool) -> None:
        """Record a new publication of an object. `is_elsewhere`: it is for other nodes or another class, so its figures
        cannot be compared."""
        self.tick += 1
        history = self._histories.setdefault(identity(new), History())
        is_of_one_kind = before.has_kept_pools == new.has_kept_pools
        free, free_before = free_bytes(new), free_bytes(before)
        if is_elsewhere or not is_of_one_kind:
            history.falls = Falls()
        elif free is not None and free_before is not None:
            history.falls.rose(free - free_before)
            history.falls.fell(self.tick, free_before - free, new.figures_at)
        updated_at = new.figures_at if is_of_one_kind else None
        history.refreshes = (*history.refreshes[-1:], Refresh(self.tick, updated_at, is_of_one_kind))

    def forget(self, uid: str) -> None:
        """Forget a deleted object."""
        self._histories.pop(uid, None)

    def came_undecided(self, uid: str, volume: PersistentVolume, key: Key, order: int) -> None:
        """A volume was created from an object for this claim, without a decision."""
        history = self._histories.setdefault(uid, History())
        size = volume_bytes(volume, self._storage.classes.get(volume.class_name))
        if history.falls.since(EVER) >= size:
            history.falls.take(EVER, size)
        else:
            history.undecided[key] = order, size, self.tick

    def ended(self, uid: str, promise: Promise, charged: int) -> None:
        """A promise ended for another reason than a fall: the falls may have been from its volume."""
        if promise.is_made and uid in self._histories:
            self._histories[uid].falls.take(promise.decided, self._volume_bytes(promise, charged))

    # -- shown volumes ------------------------------------------------------------------------------------------------

    def shown_by_refresh(self, capacity: CSIStorageCapacity, unshown: Sequence[Promise]) -> list[Promise]:
        """The promises of `unshown` whose volumes the object shows after its last refresh."""
        uid = identity(capacity)
        history = self._histories[uid]
        last = history.refreshes[-1]
        # Without promises, the last fall may be from an undecided volume that is seen next.
        history.falls.forget_until(min([promise.decided.tick for promise in unshown], default=self.tick - 1))
        if not unshown:
            history.undecided.clear()
        if not last.is_measured:
            return []
        # Rebuilds and uncounted volumes are shown by any refresh since they were created.
        shown = {
            promise: None
            for promise in unshown
            if (promise.is_rebuild or self._size(promise) is None) and promise.is_older_than(last)
        }
        for promise in shown:
            self.ended(uid, promise, self._size(promise) or 0)
        shown |= dict.fromkeys(self._paid(capacity, [promise for promise in unshown if promise not in shown]))
        for promise in unshown:
            if promise not in shown and self._is_second_figure(capacity, promise):
                shown[promise] = None
                self.ended(uid, promise, self._size(promise) or 0)
        return list(shown)

    def shown_by_volume(
        self, capacity: CSIStorageCapacity, promise: Promise, unshown: Callable[[str], Sequence[Promise]]
    ) -> list[Promise]:
        """The promises whose volumes an object shows now that the volume of `promise` exists. Only an object with pools
        needs all of `unshown`: the remaining falls were not enough for the others."""
        uid, size = identity(capacity), self._size(promise)
        history = self._histories.get(uid)
        if history is None or size is None or size > history.falls.since(promise.decided):
            return []
        return self._paid(capacity, unshown(uid) if len(told_pools(capacity)) > 1 else [promise])

    def _paid(self, capacity: CSIStorageCapacity, unshown: Iterable[Promise]) -> list[Promise]:
        """Pay for promised and undecided volumes with the object's falls, oldest first."""
        history = self._histories[identity(capacity)]
        if not history.falls:
            return []
        volumes = list[tuple[int, UnshownVolume, Promise | Key]]()
        for promise in unshown:
            size, is_asked = self._size(promise), promise.is_made or not promise.is_unsent
            if is_asked and size is not None and not self._is_told_by_name(capacity, promise):
                volumes.append((promise.order, UnshownVolume(size, promise.decided, promise.is_made), promise))
        for key, (order, size, _) in history.undecided.items():
            volumes.append((order, UnshownVolume(size, EVER, is_made=True), key))
        volumes.sort(key=lambda each: each[0])
        places = history.falls.pay([volume for _, volume, _ in volumes], has_pools=len(told_pools(capacity)) > 1)
        paid = [volumes[place][2] for place in places]
        before = history.refreshes[0].tick if len(history.refreshes) > 1 else -1
        undecided = history.undecided.items()
        history.undecided = {key: each for key, each in undecided if key not in paid and each[2] >= before}
        return [each for each in paid if isinstance(each, Promise)]

    def _is_second_figure(self, capacity: CSIStorageCapacity, promise: Promise) -> bool:
        refreshes, created_at = self._histories[identity(capacity)].refreshes, promise.created_at
        if len(refreshes) < 2 or self._is_told_by_name(capacity, promise):
            return False
        before, last = refreshes
        if not before.is_measured or not promise.is_older_than(before):
            return False
        is_early = last.updated_at is not None and created_at is not None and last.updated_at < created_at
        return not is_early and (before.updated_at is None or created_at is None or before.updated_at > created_at)

    def shows(self, capacity: CSIStorageCapacity, promise: Promise) -> bool:
        """True if an object's figures include the promised volume."""
        if self.includes(capacity, promise) or identity(capacity) in promise.shown_by:
            return True
        made_at = promise.made_at if promise.made_tick is not None else None
        # The object, and the measuring of its kept pools, may be newer than the volume.
        news = [capacity.metadata.creation_timestamp, *([capacity.figures_at] if capacity.has_kept_pools else ())]
        return made_at is not None and all(at is not None and at > made_at for at in news)

    def includes(self, capacity: CSIStorageCapacity, promise: Promise) -> bool:
        """True if an object says that it includes the volume: by its claim's name, or by a time after its creation."""
        # What was said of a volume at its creation says nothing about where it is rebuilt.
        if promise.is_rebuild or not _names_claims(capacity):
            return False
        if includes_claim(capacity, promise.claim.uid):
            return True
        until, created_at = capacity.included_until, promise.created_at
        return until is not None and created_at is not None and created_at < until

    def _is_told_by_name(self, capacity: CSIStorageCapacity, promise: Promise) -> bool:
        """True if the provisioner would name the claim once figures include the volume; not for claims sent away."""
        return _names_claims(capacity) and not (promise.is_left_behind and promise.has_claim)

    def _size(self, promise: Promise) -> int | None:
        """The bytes that a volume takes: drivers may create it larger than requested."""
        asked = promise.counted_bytes(self._storage)
        return None if asked is None else self._volume_bytes(promise, asked)

    def _volume_bytes(self, promise: Promise, asked: int) -> int:
        if promise.volume is None:
            return asked
        return max(asked, volume_bytes(promise.volume, self._storage.classes.get(promise.volume.class_name)))


def includes_claim(capacity: CSIStorageCapacity, claim_uid: str) -> bool:
    """True if the object names the claim among those whose volumes its figures include."""
    return _names_claims(capacity) and claim_uid in capacity.metadata.annotations[INCLUDED_CLAIMS].split(",")


def _names_claims(capacity: CSIStorageCapacity) -> bool:
    """True if the object names the claims that its figures include; kept pools do not come from the provisioner."""
    return INCLUDED_CLAIMS in capacity.metadata.annotations and not capacity.has_kept_pools
