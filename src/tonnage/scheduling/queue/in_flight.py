"""Pods that are being placed right now, and what happened meanwhile.

A pod that was popped may fail on what the cluster looked like a moment ago. An event that came since then would have
woken it, had it been waiting; so events are kept while any pod is in flight, and a pod that comes back is asked about
those that came after its pop. One list serves all pods, each remembering its place in it:

    events      e0  e1  e2  e3  e4
    in flight       ^a      ^b           a is asked about e1..e4, b about e3 and e4; e0 is forgotten

A pod's own updates and its deletion reach it here, too: the newest version is what goes back to the queue, and a pod
that is gone does not come back at all. Mirrors activeQueue.inFlightEvents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.queueing_hints import RecordedEvent


@dataclass(slots=True)
class Flight:
    """A pod that was popped; `first` is the number of the first event after that."""

    info: PodInfo
    first: int
    is_gone: bool = False


class InFlight:
    """The pods between `pop_nowait` and `done`, oldest first, and the events since the oldest of them."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._events: deque[RecordedEvent] = deque()
        self._forgotten = 0  # how many events were dropped at the front, so that numbers keep their meaning

    def start(self, info: PodInfo) -> None:
        self._flights[info.uid] = Flight(info, self._forgotten + len(self._events))

    def record(self, seen: RecordedEvent) -> None:
        """Keep an event for the pods in flight; without any there is nobody to keep it for."""
        if self._flights:
            self._events.append(seen)

    def events_for(self, uid: str) -> Iterator[RecordedEvent]:
        """What came since the pod was popped and is not meant for another."""
        flight = self._flights[uid]
        since = islice(self._events, flight.first - self._forgotten, None)
        return (seen for seen in since if seen.only in ("", uid))

    def done(self, uid: str) -> None:
        """The pod has landed; events that no pod is left to be asked about are forgotten. Twice does no harm."""
        if self._flights.pop(uid, None) is None:
            return
        oldest = next(iter(self._flights.values()), None)
        kept_from = oldest.first if oldest is not None else self._forgotten + len(self._events)
        while self._forgotten < kept_from:
            self._events.popleft()
            self._forgotten += 1

    def get(self, uid: str) -> Flight | None:
        return self._flights.get(uid)

    @property
    def events_kept(self) -> int:
        return len(self._events)

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[PodInfo]:
        return (flight.info for flight in self._flights.values())
