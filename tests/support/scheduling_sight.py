"""What tests see of capacity holds and of a queue, beyond what any program asks them for."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.volumes.packing.pool_fits import Sizes, descending
from tonnage.scheduling.volumes.reservations.holds import CapacityHolds


def promises(ledger: CapacityHolds, uid: str) -> Mapping[Key, int]:
    """The promised bytes of an object by claim."""
    return {hold.claims[0]: hold.bytes for hold in ledger.holds_on(uid)}


def promised(ledger: CapacityHolds, uid: str) -> Sizes:
    """The bytes promised of an object, largest first."""
    return descending(promises(ledger, uid).values())


def next_expiry_at(holds: CapacityHolds) -> float | None:
    """When `expire` has something to do, in the clock's monotonic seconds."""
    return min((end_s for end_s, _ in holds.timeouts()), default=None)


def in_flight(queue: SchedulingQueue) -> list[Pod]:
    """The newest versions of the pods being tried, in the order they were popped."""
    return [flight.info.pod for flight in queue._in_flight.values()]


def in_flight_events(queue: SchedulingQueue) -> int:
    """How many events the oldest pod in flight is judged by."""
    flights = list(queue._in_flight.values())
    return len(flights[0].events) if flights else 0
