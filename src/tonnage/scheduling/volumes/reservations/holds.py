"""Who keeps what of a capacity object back, since when and why: what both ways of reserving have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from tonnage.keyed import KeyedHeap
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod, PodMeta
from tonnage.objects.meta import Key, split_key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage

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
    """Whether an object whose figures had this version tells something new about them.

    One from a manifest has no version: whoever hands it in again means it as news.
    """
    return not version or new.figures_version != version


def is_looked_at_anew(capacity: CSIStorageCapacity, before: datetime | None, bound_at: datetime | None) -> bool:
    """Whether the pools of an object were looked at since a claim was bound, though the server's clock was set back and
    shows less than it did: there was another look than the one `before`, and either the clock was set back between
    them, or the new one is later than the claim's own stamp."""
    looked_at = capacity.checked_at
    if looked_at is None or before is None or looked_at == before:
        return False
    return looked_at < before - _SET_BACK or (bound_at is not None and looked_at > bound_at)


def as_assumed(claim: PersistentVolumeClaim, storage: Storage) -> PersistentVolumeClaim:
    """A claim as Reserve leaves it, with its selected-node, whether it is given as it was planned or as assumed."""
    key = claim.key
    known = storage.claims.get(key) if storage.claims.is_assumed(key) else None
    return known or claim


class Wait(NamedTuple):
    name: str
    since_s: float
    end_s: float


class Timeouts:
    """What ends by the clock, by name: when each wait began, and when it is over. `timeout_of` says how long one lasts:
    profiles differ in that, and a hold lasts as long as the profile has it whose pod it is for.
    """

    def __init__(self, timeout_of: Callable[[str], float]) -> None:
        self._heap: KeyedHeap[Wait] = KeyedHeap()
        self._timeout_of = timeout_of

    def begin(self, name: str, at_s: float) -> None:
        end_s = at_s + self._timeout_of(name)
        self._heap.put(name, end_s, Wait(name, at_s, end_s))

    def began_at(self, name: str) -> float | None:
        found = self._heap.get(name)
        return None if found is None else found.since_s

    def renew(self, name: str) -> None:
        """How long a wait lasts may have changed; when it began has not."""
        found = self._heap.get(name)
        if found is not None:
            self.begin(name, found.since_s)

    def renew_all(self) -> None:
        for each in list(self._heap):
            self.begin(each.name, each.since_s)

    def stop(self, name: str) -> None:
        self._heap.remove(name)

    def first_end(self) -> float | None:
        """When the next one is over."""
        first = self._heap.peek()
        return None if first is None else first.end_s

    def ended(self, now_s: float) -> Iterator[str]:
        """Take out, one by one, those that are over, the one that ended first first."""
        while (end_s := self.first_end()) is not None and end_s <= now_s:
            first = self._heap.pop()
            if first is not None:
                yield first.name


class LongestTimeout:
    """How long a hold lasts of which it is not known whose it is: as long as the most patient profile has it."""

    def __init__(self) -> None:
        self._told: set[float] = set()

    def tell(self, timeout_s: float) -> None:
        """A profile decides by this timeout."""
        self._told.add(timeout_s)

    @property
    def timeout_s(self) -> float:
        return max(self._told, default=DEFAULT_TIMEOUT_S)
