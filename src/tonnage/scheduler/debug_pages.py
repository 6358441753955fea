"""The scheduler's state that the API does not show: pages below /debug, and metrics.

/debug/reservations: held capacity. /debug/nominations: room held by nominations. /debug/assumed: what decisions assume
and the API does not show yet:

    {"pods": [{"pod", "uid", "node"}], "claims": [{"claim", "uid", "annotations": {key: value}}],
     "volumes": [{"volume", "uid", "claim", "claimUid"}], "failedNodes": [{"uid", "node", "times", "why", "until"}]}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from prometheus_client.core import Metric

from tonnage.clock import rfc3339
from tonnage.scheduler.metrics import counter, gauge
from tonnage.scheduler.storage_totals import storage_totals
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.held_room import HeldCapacity, writer_of
from tonnage.scheduling.volumes.attach.attached_volumes import NO_LIMIT, AttachedVolumes
from tonnage.scheduling.volumes.capacity.pools import free_bytes, largest_volume
from tonnage.scheduling.volumes.reservations.holds import CAUSES

_ENDED: Final = (
    "Reservations that ended, by cause: refresh (the object shows it), failure (the attempt failed, or its "
    "claims are sent elsewhere), deletion (of pod, claims, volume or object), timeout, refusal (the volume "
    "cannot be made, whatever room there is)."
)
_HELD_OBJECTS: Final = "Capacity objects of which something is kept back now."
_HELD_BYTES: Final = "Bytes kept back now for volumes that capacity objects do not show yet."
_OLDEST: Final = "How long ago the oldest reservation of capacity was made that still stands; 0 when none does."
_OVERDUE: Final = (
    "Reservations that are older than reservationTimeoutSeconds, volumes that are being rebuilt left out: "
    "their volumes take long to be made, or their capacity object is not refreshed."
)
_TIMEOUT: Final = (
    "The reservationTimeoutSeconds of the most patient profile: how long a reservation lasts after its "
    "volume was made, if the capacity object does not show it."
)


class CapacityReservations:
    """All capacity holds of a cluster, in any mode, as a report."""

    def __init__(self, held: HeldCapacity) -> None:
        self._held = held

    def listed(self) -> list[dict[str, Any]]:
        """The holds for /debug/reservations: holder, bytes, since when, why. A resting promise has 0 bytes."""
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
            for hold in (*view.holds(), *view.resting())
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
        yield counter(
            "volume_binding_capacity_reservations", "Reservations of capacity that were made.", (), {(): made}
        )
        told = "Reservations that ended because their object was published again."
        yield counter("volume_binding_capacity_reservation_resets", told, (), {(): refreshed})
        yield counter("volume_binding_capacity_reservations_ended", _ENDED, ("cause",), ended)
        yield gauge("volume_binding_capacity_held_objects", _HELD_OBJECTS, ("mode",), objects)
        yield gauge("volume_binding_capacity_held_bytes", _HELD_BYTES, ("mode",), bytes_held)
        yield gauge("tonnage_reservation_oldest_age_seconds", _OLDEST, ("mode",), oldest_s)
        yield gauge("tonnage_reservations_overdue", _OVERDUE, ("mode",), overdue)
        yield gauge("tonnage_reservation_timeout_seconds", _TIMEOUT, ("mode",), timeout_s)


class NominationsReport:
    """All nominations that a scheduler knows, as a report."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def listed(self) -> list[dict[str, Any]]:
        """The nominations for /debug/nominations: pod, node, since when, writer, and whether room is held."""
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
        """How many nominations hold room now, the age of the oldest, and how many cannot come true."""
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
    """Everything that one scheduler assumes, as a report."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def listed(self) -> dict[str, list[dict[str, Any]]]:
        """The content of /debug/assumed, each list sorted by name."""
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


_RESOURCE_EXHAUSTED: Final = 8
"""The gRPC code of a driver if a node has no attach slot left (KEP-4876)."""
_BY_CLASS: Final = ("storage_class",)
_BY_CLASS_AND_NODE: Final = ("storage_class", "node")
_BY_DRIVER: Final = ("driver_name",)


class StorageReport:
    """The storage of a cluster in numbers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def families(self) -> Iterable[Metric]:
        yield from self._capacity()
        yield from self._attachments()

    def _capacity(self) -> Iterable[Metric]:
        now = self._engine.clock.now()
        objects: dict[tuple[str], float] = defaultdict(float)
        free: dict[tuple[str], float] = defaultdict(float)
        largest: dict[tuple[str], float] = defaultdict(float)
        oldest_s: dict[tuple[str], float] = defaultdict(float)
        for each in self._engine.cluster.storage.capacities.values():
            key = (each.storage_class_name,)
            objects[key] += 1
            free[key] += max(free_bytes(each) or 0, 0)
            largest[key] = max(largest[key], largest_volume(each))
            told_at = each.figures_at
            if told_at is not None:
                oldest_s[key] = max(oldest_s[key], (now - told_at).total_seconds())
        yield gauge(
            "tonnage_capacity_objects", "CSIStorageCapacity objects that the scheduler knows of.", _BY_CLASS, objects
        )
        yield gauge(
            "tonnage_capacity_free_bytes",
            "What all CSIStorageCapacity objects of a class say is free. Classes that share disks are each told all.",
            _BY_CLASS,
            free,
        )
        yield gauge(
            "tonnage_capacity_largest_pool_bytes",
            "The largest volume that any CSIStorageCapacity object of a class has room for.",
            _BY_CLASS,
            largest,
        )
        total, free_on, total_on = storage_totals(self._engine.cluster)
        yield gauge(
            "tonnage_capacity_total_bytes",
            "Free bytes of all CSIStorageCapacity objects of a class, and what volumes take there. Classes that share "
            "disks are each told all.",
            _BY_CLASS,
            total,
        )
        yield gauge(
            "tonnage_node_capacity_free_bytes",
            "What the CSIStorageCapacity objects of a class that reach one node alone say is free there.",
            _BY_CLASS_AND_NODE,
            free_on,
        )
        yield gauge(
            "tonnage_node_capacity_total_bytes",
            "The same, and what volumes take there.",
            _BY_CLASS_AND_NODE,
            total_on,
        )
        yield gauge(
            "tonnage_capacity_oldest_age_seconds",
            "How long ago the CSIStorageCapacity object of a class that was not written for longest was. Provisioners "
            "write nothing where nothing changed, so that age alone is no fault.",
            _BY_CLASS,
            oldest_s,
        )

    def _attachments(self) -> Iterable[Metric]:
        cluster = self._engine.cluster
        used: dict[tuple[str], float] = {}
        slots: dict[tuple[str], float] = {}
        full: dict[tuple[str], float] = {}
        overdrawn: dict[tuple[str], float] = {}
        refused: dict[tuple[str], float] = defaultdict(float)
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
        yield gauge(
            "tonnage_attach_used_volumes",
            "Volumes that are mounted or attached on nodes that have an attach limit for their driver.",
            _BY_DRIVER,
            used,
        )
        yield gauge(
            "tonnage_attach_limit_volumes", "The attach limits of all nodes that have one, together.", _BY_DRIVER, slots
        )
        yield gauge("tonnage_attach_full_nodes", "Nodes that take no more volumes of a driver.", _BY_DRIVER, full)
        yield gauge(
            "tonnage_attach_overdrawn_nodes",
            "Nodes that have more volumes of a driver than their CSINode allows: its count is out of step.",
            _BY_DRIVER,
            overdrawn,
        )
        yield gauge(
            "tonnage_attach_refused_volumes",
            "VolumeAttachments that the driver refuses because the node has no slot left (ResourceExhausted), though a "
            "pod was placed there: the CSINode's count is out of step with the node.",
            _BY_DRIVER,
            refused,
        )
