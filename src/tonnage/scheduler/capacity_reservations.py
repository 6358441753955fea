"""Capacity that is kept back, shown to people: metrics by KEP-5925's names, and /debug/reservations.

What is kept back and when it goes is `scheduling/engine/held_capacity.py` and `scheduling/volumes/reservations/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client.core import Metric

from tonnage.clock import rfc3339
from tonnage.scheduler.metrics import counter, gauge
from tonnage.scheduling.engine.held_capacity import HeldCapacity
from tonnage.scheduling.volumes.reservations.holds import CAUSES
from tonnage.scheduling.volumes.reservations.ledger import Ledger


class CapacityReservations:
    """Everything kept back in a cluster, in any mode, as a report."""

    def __init__(self, held: HeldCapacity) -> None:
        self._held = held

    def listed(self) -> list[dict[str, Any]]:
        """Who holds what, since when and why, by capacity object and pod: what /debug/reservations shows.

        A promise that rests is told with 0 bytes.
        """
        found = [
            {
                "mode": str(mode),
                "capacity": hold.capacity,
                "uid": hold.uid,
                "pod": hold.pod,
                "claims": list(hold.claims),
                "bytes": hold.bytes,
                "since": rfc3339(hold.since),
                "why": hold.why,
            }
            for mode, view in self._held.modes.items()
            for hold in (*view.holds(), *(view.resting() if isinstance(view, Ledger) else ()))
        ]
        return sorted(found, key=lambda each: (each["capacity"], each["mode"], each["pod"], each["claims"]))

    def families(self) -> Iterable[Metric]:
        """The KEP's counters of reservations, and how much is held now by mode."""
        now = self._held.now()
        objects: dict[tuple[str], float] = {}
        oldest_s: dict[tuple[str], float] = {}
        overdue: dict[tuple[str], float] = {}
        timeout_s: dict[tuple[str], float] = {}
        bytes_held: dict[tuple[str], float] = {}
        for mode, view in self._held.modes.items():
            holds = view.holds()
            objects[(str(mode),)] = len({hold.uid for hold in holds})
            bytes_held[(str(mode),)] = sum(hold.bytes for hold in holds)
            ages_s = [max((now - hold.since).total_seconds(), 0.0) for hold in holds]
            oldest_s[(str(mode),)] = max(ages_s, default=0.0)
            timeout_s[(str(mode),)] = view.longest_timeout_s
            overdue[(str(mode),)] = sum(
                not hold.is_rebuild and age_s > (hold.timeout_s or view.longest_timeout_s)
                for hold, age_s in zip(holds, ages_s, strict=True)
            )
        made = sum(view.reservations_total for view in self._held.modes.values())
        refreshed = sum(view.resets_total for view in self._held.modes.values())
        ended = {
            (cause,): float(sum(view.ended[cause] for view in self._held.modes.values()))
            for cause in (CAUSES if self._held.modes else ())
        }
        return (
            counter("volume_binding_capacity_reservations", "Reservations of capacity that were made.", (), {(): made}),
            counter(
                "volume_binding_capacity_reservation_resets",
                "Reservations that ended because their object was published again.",
                (),
                {(): refreshed},
            ),
            counter(
                "volume_binding_capacity_reservations_ended",
                "Reservations that ended, by cause: refresh (the object shows it), failure (the attempt failed, or its "
                "claims are sent elsewhere), deletion (of pod, claims, volume or object), timeout, refusal (the volume "
                "cannot be made, whatever room there is).",
                ("cause",),
                ended,
            ),
            gauge(
                "volume_binding_capacity_held_objects",
                "Capacity objects of which something is kept back now.",
                ("mode",),
                objects,
            ),
            gauge(
                "volume_binding_capacity_held_bytes",
                "Bytes kept back now for volumes that capacity objects do not show yet.",
                ("mode",),
                bytes_held,
            ),
            gauge(
                "tonnage_reservation_oldest_age_seconds",
                "How long ago the oldest reservation of capacity was made that still stands; 0 when none does.",
                ("mode",),
                oldest_s,
            ),
            gauge(
                "tonnage_reservations_overdue",
                "Reservations that are older than reservationTimeoutSeconds, volumes that are being rebuilt left out: "
                "their volumes take long to be made, or their capacity object is not refreshed.",
                ("mode",),
                overdue,
            ),
            gauge(
                "tonnage_reservation_timeout_seconds",
                "The reservationTimeoutSeconds of the most patient profile: how long a reservation lasts after its "
                "volume was made, if the capacity object does not show it.",
                ("mode",),
                timeout_s,
            ),
        )
