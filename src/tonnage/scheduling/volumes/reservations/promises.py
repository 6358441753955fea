"""One claim's promise, the shelves on which promises are found, and the account of what they take of which object.

`ledger.py` says when a promise begins and ends, `promised_objects.py` what it is charged to; this is what they write
into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.reservations.holds import RESTS, WAITS_FOR_REFRESH, Hold

_NOTHING: Mapping[str, int] = {}
_REBUILDING = "waits for its volume to be rebuilt"
_IS_UNDECIDED = "made without a selected-node that was seen; waits for the object to be refreshed"
_CLAIM_IS_GONE = "its claim is gone, its volume is not; waits for the object to be refreshed"


class Decided(NamedTuple):
    """When a volume was decided on: only later falls may be of it."""

    tick: int
    """The last refresh of any object that was seen before."""
    asked_at: datetime | None = None
    """When its claim was given its node, by the server's clock; None when that is not told."""


EVER = Decided(-1)
_AT_FIRST = Decided(0)


@dataclass(slots=True, eq=False)
class Promise:
    """A volume that is going to be made for a claim on a node, or was made and need not show yet."""

    claim: PersistentVolumeClaim
    """As it was last seen. Uid, node and class are the same for as long as the promise stands."""
    since: datetime
    decided: Decided = _AT_FIRST
    is_rebuild: bool = False
    is_left_behind: bool = False
    """It is for what a volume takes where it was, while its claim is sent elsewhere or gone."""
    has_claim: bool = True
    """False when what is left behind has no claim any more."""
    key: Key = ""
    node_name: str = ""
    class_name: str = ""
    is_unsent: bool = False
    """Its claim waits for the volumes of others before it gets its node: nobody was asked for its volume."""
    named: str = ""
    """The object that Reserve charged it to, by uid."""
    pod: PodInfo | None = None
    volume: PersistentVolume | None = None
    """What was made for the claim, from when its object exists: the claim is bound later. None of rebuilds."""
    order: int = 0
    """Whose volume existed first."""
    made_tick: int | None = None
    """When the claim was seen bound, in refreshes: an object refreshed later than that knows of its volume."""
    made_at: datetime | None = None
    """The same by the server's clock, as far as it was known: an object created later than that knows of it as well."""
    looked_at: Mapping[str, datetime | None] = field(default_factory=dict)
    """When the pools of its objects had been looked at last when its volume was made, by uid."""
    arrived: tuple[int, datetime | None] | None = None
    """`made_tick` and `made_at` of a rebuild from when it was first over, also if the volume may move again since."""
    charged: Mapping[str, int] = field(default_factory=dict)
    """Bytes by object."""
    shown_by: set[str] = field(default_factory=set)
    """The objects whose refreshes show the volume, by uid."""
    rests: str = ""
    """Why its volume cannot be made, in the provisioner's words: then it is charged to nothing."""
    timeout_s: float | None = None
    """How long it is kept after its volume was made, as the profile has it that placed the pod; None: not known."""

    def __post_init__(self) -> None:
        self.key, self.node_name, self.class_name = self.claim.key, self.claim.selected_node, self.claim.class_name

    @property
    def is_made(self) -> bool:
        """Its volume exists where it was decided."""
        return self.made_tick is not None or (self.volume is not None and not self.is_rebuild)

    @property
    def is_undecided(self) -> bool:
        """Its volume was found, made: nobody was seen to decide on it."""
        return self.decided == EVER

    @property
    def created_at(self) -> datetime | None:
        """When the object of its volume was created; None while it is not known."""
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
        """What is kept back of one of the objects that it is charged to."""
        uid, who = identity(capacity), self.pod.key if self.pod is not None else ""
        held = (capacity.key, uid, who, (self.key,), self.charged.get(uid, 0), self.since, self.why)
        return Hold(*held, timeout_s=self.timeout_s, is_rebuild=self.is_rebuild and self.made_tick is None)

    def stands(self, claim: PersistentVolumeClaim | None) -> bool:
        return is_still(self.claim, claim)


def is_still(before: PersistentVolumeClaim, now: PersistentVolumeClaim | None) -> bool:
    """Whether a claim is the same one as before, for the same node, and has not gone back on being bound."""
    if now is None or (now.uid, now.selected_node) != (before.uid, before.selected_node):
        return False
    if before.is_bound and (not now.is_bound or now.spec.volume_name != before.spec.volume_name):
        return False
    return now.class_name == before.class_name


def is_news(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """Whether a claim without a promise has to be looked at: another one, unbound, just bound, or just marked for a
    rebuild."""
    if old.uid != new.uid or not (old.is_bound and new.is_bound):
        return True
    is_sent_on = (old.selected_node, old.rebuild_target) != (new.selected_node, new.rebuild_target)
    return is_sent_on and new.rebuild_target == new.selected_node


class Promises:
    """Promises by claim, and the other ways to find them."""

    def __init__(self) -> None:
        self._by_claim: dict[Key, Promise] = {}
        self.of_class: Shelf[str, Key, Promise] = Shelf()
        self.at_node: Shelf[str, Key, Promise] = Shelf()
        self.of_pod: Shelf[str, Key, Promise] = Shelf()
        self.naming: Shelf[str, Key, Promise] = Shelf()
        """By the uid of the object that Reserve charged them to."""
        self.moving: Shelf[str, Key, Promise] = Shelf()
        """By the name of the volume: those that wait for it to be elsewhere, where it goes and where it is."""

    def __iter__(self) -> Iterator[Promise]:
        return iter(self._by_claim.values())

    def get(self, key: Key) -> Promise | None:
        return self._by_claim.get(key)

    def add(self, promise: Promise) -> None:
        self._by_claim[promise.key] = promise
        self.of_class.put(promise.class_name, promise.key, promise)
        self.at_node.put(promise.node_name, promise.key, promise)
        if promise.is_rebuild or promise.is_left_behind:
            self.moving.put(promise.claim.spec.volume_name, promise.key, promise)

    def remove(self, promise: Promise) -> None:
        self.give_to(promise, None)
        self.name(promise, "")
        del self._by_claim[promise.key]
        self.of_class.take(promise.class_name, promise.key)
        self.at_node.take(promise.node_name, promise.key)
        if promise.is_rebuild or promise.is_left_behind:
            self.moving.take(promise.claim.spec.volume_name, promise.key)

    def give_to(self, promise: Promise, pod: PodInfo | None) -> None:
        """Say which pod a promise is for; None when it is not known."""
        if promise.pod is not None:
            self.of_pod.take(promise.pod.uid, promise.key)
        promise.pod = pod
        if pod is not None:
            self.of_pod.put(pod.uid, promise.key, promise)

    def name(self, promise: Promise, uid: str) -> None:
        """Say which object a promise is charged to; empty when it is not known."""
        if promise.named:
            self.naming.take(promise.named, promise.key)
        promise.named = uid
        if uid:
            self.naming.put(uid, promise.key, promise)


class Charges:
    """Bytes by object and claim, and the objects of which that changed since somebody was told."""

    def __init__(self) -> None:
        self._of_object: dict[str, dict[Key, int]] = {}
        self._changed: dict[str, bool] = {}

    def __iter__(self) -> Iterator[str]:
        """The objects that are charged, by uid."""
        return iter(self._of_object)

    def of(self, uid: str) -> Mapping[Key, int]:
        return self._of_object.get(uid, _NOTHING)

    def charge(self, promise: Promise, charges: Mapping[str, int]) -> None:
        """Charge a promise to these objects, and to no others any more."""
        before, promise.charged = promise.charged, charges
        for uid in [each for each in before if each not in charges]:
            self._changed[uid] = True
            of_object = self._of_object[uid]
            del of_object[promise.key]
            if not of_object:
                del self._of_object[uid]
        for uid, size in charges.items():
            if size != before.get(uid):
                self._of_object.setdefault(uid, {})[promise.key] = size
                self._changed[uid] = self._changed.get(uid, False) or size < before.get(uid, 0)

    def take_changed(self) -> Mapping[str, bool]:
        """The objects of which something changed; True where something was given back."""
        changed, self._changed = self._changed, {}
        return changed
