"""The scheduler's state that the API does not show: pages below /debug, and metrics.

/debug/reservations: held capacity. /debug/nominations: room held by nominations. /debug/assumed: what decisions assume
and the API does not show yet:

    {"pods": [{"pod", "uid", "node"}], "claims": [{"claim", "uid", "annotations": {key: value}}],
     "volumes": [{"volume", "uid", "claim", "claimUid"}], "failedNodes": [{"uid", "node", "times", "why", "until"}]}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from prometheus_client.core import Metric

from tonnage.clock import rfc3339
from tonnage.scheduler.metrics import Values, counter, gauge
from tonnage.scheduler.storage_totals import storage_totals
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.held_room import writer_of
from tonnage.scheduling.volumes.attach.attached_volumes import NO_LIMIT, AttachedVolumes
from tonnage.scheduling.volumes.capacity.pools import free_bytes, largest_volume
from tonnage.scheduling.volumes.reservations.holds import CAUSES, REFRESH

_BY_MODE: Final = {
    "volume_binding_capacity_held_objects": "Capacity objects in which bytes are reserved.",
    "volume_binding_capacity_held_bytes": ("Bytes kept back now for volumes that capacity objects do not show yet."),
    "tonnage_reservation_oldest_age_seconds": ("Age of the oldest reservation of capacity; 0 without reservations."),
    "tonnage_reservations_overdue": (
        "Reservations that are older than reservationTimeoutSeconds, volumes that are being rebuilt left out: "
        "their volumes take long to be made, or their capacity object is not refreshed."
    ),
    "tonnage_reservation_timeout_seconds": (
        "The longest reservationTimeoutSeconds of all profiles: how long a reservation lasts after its "
        "volume was made, if the capacity object does not show it."
    ),
}
_ENDED: Final = (
    "Reservations that ended, by cause: refresh (the object shows it), failure (the attempt failed, or its "
    "claims are sent elsewhere), deletion (of pod, claims, volume or object), timeout, refusal (the volume "
    "cannot be made, whatever room there is)."
)
_NOMINATIONS: Final = {
    "scheduler_held_nominations": "Nominated pods that room is held for.",
    "scheduler_held_nominations_oldest_seconds": ("Age of the oldest nomination that room is held for; 0 without any."),
}
_UNREACHABLE: Final = {
    "tonnage_nominations_unreachable": (
        "Nominated pods that cannot go where they are expected, as things stand: the node is not there "
        "(node-missing), or it was tried and has no room that could still come free (refused)."
    ),
}
_BY_CLASS: Final = {
    "tonnage_capacity_objects": "CSIStorageCapacity objects that the scheduler knows of.",
    "tonnage_capacity_free_bytes": (
        "Free bytes of all CSIStorageCapacity objects of a class. Classes that share disks count the same bytes."
    ),
    "tonnage_capacity_largest_pool_bytes": (
        "The largest volume that any CSIStorageCapacity object of a class has room for."
    ),
    "tonnage_capacity_total_bytes": (
        "Free bytes of all CSIStorageCapacity objects of a class, plus what volumes take there. Classes that "
        "share disks count the same bytes."
    ),
    "tonnage_capacity_oldest_age_seconds": (
        "Age of the CSIStorageCapacity object of a class that was written least recently. Provisioners write nothing "
        "where nothing changed, so age alone is no fault."
    ),
}
_BY_CLASS_AND_NODE: Final = {
    "tonnage_node_capacity_free_bytes": (
        "Free bytes of a node in the CSIStorageCapacity objects of a class that only this node reaches."
    ),
    "tonnage_node_capacity_total_bytes": "The same, plus what volumes take there.",
}
_BY_DRIVER: Final = {
    "tonnage_attach_used_volumes": (
        "Volumes that are mounted or attached on nodes that have an attach limit for their driver."
    ),
    "tonnage_attach_limit_volumes": "The attach limits of all nodes that have one, together.",
    "tonnage_attach_full_nodes": "Nodes that take no more volumes of a driver.",
    "tonnage_attach_overdrawn_nodes": (
        "Nodes that have more volumes of a driver than their CSINode allows: its count is out of step."
    ),
    "tonnage_attach_refused_volumes": (
        "VolumeAttachments that the driver refuses because the node has no slot left (ResourceExhausted), though a "
        "pod was placed there: the CSINode's count is out of step with the node."
    ),
}
_RESOURCE_EXHAUSTED: Final = 8
"""The gRPC code of a driver if a node has no attach slot left (KEP-4876)."""


def _gauges(told: Mapping[str, str], labels: tuple[str, ...], *values: Values) -> Iterable[Metric]:
    """The gauges of a table, with their values in the table's order."""
    return [gauge(name, told[name], labels, each) for name, each in zip(told, values, strict=True)]


class DebugPages:
    """The state of one scheduler: its holds, nominations and assumptions, and its storage in numbers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def reservations(self) -> list[dict[str, Any]]:
        """/debug/reservations: all capacity holds, in any mode. A resting promise has 0 bytes."""
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
            for mode, view in self._engine.held.modes.items()
            for hold in (*view.holds(), *view.resting())
        ]
        return sorted(found, key=lambda each: (each["capacity"], each["mode"], each["pod"], each["claims"]))

    def reservation_families(self) -> Iterable[Metric]:
        """The KEP's counters of reservations, and how much is held now by mode."""
        now, modes = self._engine.clock.now(), self._engine.held.modes
        objects, bytes_held, oldest_s, overdue, timeout_s = (defaultdict[tuple[str], float](float) for _ in range(5))
        for mode, view in modes.items():
            key, holds = (str(mode),), view.holds()
            ages_s = [max((now - hold.since).total_seconds(), 0.0) for hold in holds]
            objects[key] = len({hold.uid for hold in holds})
            bytes_held[key] = sum(hold.bytes for hold in holds)
            oldest_s[key] = max(ages_s, default=0.0)
            timeout_s[key] = view.longest_timeout_s
            overdue[key] = sum(
                not hold.is_rebuild and age_s > (hold.timeout_s or view.longest_timeout_s)
                for hold, age_s in zip(holds, ages_s, strict=True)
            )
        made = sum(view.reservations_total for view in modes.values())
        refreshed = sum(view.ended[REFRESH] for view in modes.values())
        ended = {(cause,): sum(view.ended[cause] for view in modes.values()) for cause in (CAUSES if modes else ())}
        told = "Reservations of capacity that were made."
        yield counter("volume_binding_capacity_reservations", told, (), {(): made})
        told = "Reservations that ended because their object was published again."
        yield counter("volume_binding_capacity_reservation_resets", told, (), {(): refreshed})
        yield counter("volume_binding_capacity_reservations_ended", _ENDED, ("cause",), ended)
        yield from _gauges(_BY_MODE, ("mode",), objects, bytes_held, oldest_s, overdue, timeout_s)

    def nominations(self) -> list[dict[str, Any]]:
        """/debug/nominations: pod, node, since when, writer, and whether room is held."""
        found = []
        for nomination in self._engine.queue.nominator:
            since, by = writer_of(nomination)
            found.append(
                {
                    "node": nomination.node,
                    "nodeExists": nomination.node in self._engine.cluster.row_of,
                    "pod": nomination.info.key,
                    "uid": nomination.info.uid,
                    "priority": nomination.info.priority,
                    "holds": nomination.holds,
                    "since": rfc3339(since),
                    "by": by,
                }
            )
        return sorted(found, key=lambda each: str(each["node"]))

    def nomination_families(self) -> Iterable[Metric]:
        """How many nominations hold room now, the age of the oldest, and how many cannot come true."""
        known = list(self._engine.queue.nominator)
        there = [nomination for nomination in known if nomination.node in self._engine.cluster.row_of]
        refused = sum(not nomination.holds for nomination in there)
        held = [writer_of(nomination)[0] for nomination in known if nomination.holds]
        oldest_s = (self._engine.clock.now() - min(held)).total_seconds() if held else 0.0
        yield from _gauges(_NOMINATIONS, (), {(): len(held)}, {(): max(oldest_s, 0.0)})
        unreachable = {("node-missing",): len(known) - len(there), ("refused",): refused}
        yield from _gauges(_UNREACHABLE, ("cause",), unreachable)

    def assumed(self) -> dict[str, list[dict[str, Any]]]:
        """/debug/assumed, each list sorted by name."""
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
            for uid, node, each in self._engine.queue.nominator.failed_nodes.listed()
        ]
        return {
            "failedNodes": sorted(failed, key=lambda each: (each["uid"], each["node"])),
            "pods": sorted(pods, key=lambda each: each["pod"]),
            "claims": sorted(claims, key=lambda each: str(each["claim"])),
            "volumes": sorted(volumes, key=lambda each: each["volume"]),
        }

    def storage_families(self) -> Iterable[Metric]:
        """The storage of the cluster in numbers: capacity by class, attached volumes by driver."""
        now = self._engine.clock.now()
        objects, free, largest, oldest_s = (defaultdict[tuple[str], float](float) for _ in range(4))
        for capacity in self._engine.cluster.storage.capacities.values():
            key = (capacity.storage_class_name,)
            objects[key] += 1
            free[key] += max(free_bytes(capacity) or 0, 0)
            largest[key] = max(largest[key], largest_volume(capacity))
            if capacity.figures_at is not None:
                oldest_s[key] = max(oldest_s[key], (now - capacity.figures_at).total_seconds())
        total, free_on, total_on = storage_totals(self._engine.cluster)
        yield from _gauges(_BY_CLASS, ("storage_class",), objects, free, largest, total, oldest_s)
        yield from _gauges(_BY_CLASS_AND_NODE, ("storage_class", "node"), free_on, total_on)
        yield from _gauges(_BY_DRIVER, ("driver_name",), *self._attachments())

    def _attachments(self) -> Iterable[Values]:
        cluster = self._engine.cluster
        used, slots, full, overdrawn, refused = (defaultdict[tuple[str], float](float) for _ in range(5))
        if cluster.has_index(AttachedVolumes):
            view = cluster.index(AttachedVolumes)
            view.catch_up()
            for driver in view.limits.limited_drivers():
                limits = view.limits.limits(driver)[: cluster.size]
                volumes = view.used(driver)[: cluster.size]
                is_limited = cluster.exists[: cluster.size] & (limits != NO_LIMIT)
                used[(driver,)] = float(volumes[is_limited].sum())
                slots[(driver,)] = float(limits[is_limited].sum())
                full[(driver,)] = float((is_limited & (volumes >= limits)).sum())
                overdrawn[(driver,)] = float((is_limited & (volumes > limits)).sum())
        for each in cluster.storage.attachments.values():
            error = each.status.attach_error
            is_refused = error is not None and error.error_code == _RESOURCE_EXHAUSTED and not each.status.attached
            refused[(each.spec.attacher,)] += is_refused
        return used, slots, full, overdrawn, refused
