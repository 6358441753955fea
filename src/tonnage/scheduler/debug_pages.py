"""What the scheduler remembers and the API does not show, for people and for `explain`: pages below /debug, and
metrics.

/debug/reservations and metrics by KEP-5925's names: capacity that is kept back (`scheduling/engine/held_capacity.py`,
`scheduling/volumes/reservations/`). /debug/nominations: what nominations hold, and for how long. /debug/assumed: what
decisions take to be true and the API does not show yet.

    {"pods": [{"pod", "uid", "node"}], "claims": [{"claim", "uid", "annotations": {key: value}}],
     "volumes": [{"volume", "uid", "claim", "claimUid"}], "failedNodes": [{"uid", "node", "times", "why", "until"}]}

A pod is listed from its decision until the informer shows it bound; a claim with the annotations, and a volume with the
claim, that a binding cycle is about to write or has just written. A failed node is passed over for a while, for the pod
or for the pods of the controller that has this uid.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client.core import Metric

from tonnage.clock import rfc3339
from tonnage.scheduler.metrics import counter, gauge
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.held_capacity import HeldCapacity
from tonnage.scheduling.engine.held_nominations import writer_of
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


class NominationsReport:
    """Every nomination that a scheduler knows of, as a report."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def listed(self) -> list[dict[str, Any]]:
        """Who is expected where, since when, by whom, and whether room is held: what /debug/nominations shows.

        Sorted by node; on each, those who were nominated first come first, as they go first.
        """
        found = []
        for each in self._engine.queue.nominator:
            since, by = writer_of(each)
            found.append(
                {
                    "node": each.node,
                    "nodeExists": each.node in self._engine.cluster.row_of,
                    "pod": each.info.key,
                    "uid": each.info.uid,
                    "priority": each.info.priority,
                    "holds": each.holds,
                    "since": rfc3339(since),
                    "by": by,
                }
            )
        return sorted(found, key=lambda each: str(each["node"]))

    def families(self) -> Iterable[Metric]:
        """How many nominations hold room now, how old the oldest of them is, and how many cannot come true."""
        unreachable = {("node-missing",): 0.0, ("refused",): 0.0}
        for each in self._engine.queue.nominator:
            if each.node not in self._engine.cluster.row_of:
                unreachable[("node-missing",)] += 1
            elif not each.holds:
                unreachable[("refused",)] += 1
        held = [writer_of(each)[0] for each in self._engine.queue.nominator if each.holds]
        oldest_s = (self._engine.clock.now() - min(held)).total_seconds() if held else 0.0
        return (
            gauge("scheduler_held_nominations", "Nominated pods that room is held for.", (), {(): float(len(held))}),
            gauge(
                "scheduler_held_nominations_oldest_seconds",
                "How long room has been held for the pod that was nominated first; 0 when none is.",
                (),
                {(): max(oldest_s, 0.0)},
            ),
            gauge(
                "tonnage_nominations_unreachable",
                "Nominated pods that cannot go where they are expected, as things stand: the node is not there "
                "(node-missing), or it was tried and has no room that could still come free (refused).",
                ("cause",),
                unreachable,
            ),
        )


class AssumedState:
    """Everything one scheduler assumes, as a report."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def listed(self) -> dict[str, list[dict[str, Any]]]:
        """What /debug/assumed shows, each list by name."""
        storage = self._engine.cluster.storage
        pods = [{"pod": info.key, "uid": info.uid, "node": node} for info, node in self._engine.assumed.listed()]
        claims = []
        for claim in storage.claims.assumed():
            known = storage.claims.api(claim.key)
            before = known.metadata.annotations if known is not None else {}
            news = {key: value for key, value in claim.metadata.annotations.items() if before.get(key) != value}
            claims.append({"claim": claim.key, "uid": claim.uid, "annotations": news})
        volumes = []
        for volume in storage.volumes.assumed():
            owner = volume.spec.claim_ref
            if owner is not None:
                named = {"claim": f"{owner.namespace}/{owner.name}", "claimUid": owner.uid}
                volumes.append({"volume": volume.name, "uid": volume.uid, **named})
        failed = [
            {"uid": uid, "node": node, "times": each.times, "why": each.why, "until": rfc3339(each.until)}
            for uid, node, each in self._engine.nominations.failed_nodes.listed()
        ]
        return {
            "failedNodes": sorted(failed, key=lambda each: (each["uid"], each["node"])),
            "pods": sorted(pods, key=lambda each: each["pod"]),
            "claims": sorted(claims, key=lambda each: str(each["claim"])),
            "volumes": sorted(volumes, key=lambda each: each["volume"]),
        }
