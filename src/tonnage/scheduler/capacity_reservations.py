"""What the live scheduler does about capacity that is kept back: lets it go in time, wakes who waited, shows it.

    Reservations (mode Object) ┐          ┌─► the queue: pods that were turned away may try again
    Ledger (mode Ledger)       ┴─ released ┘
    clock ──► expire      a deleted pod ──► pod_gone      people ──► metrics, /debug/reservations

A free volume that is given to a claim is kept back as well, from Reserve on; when the pod's attempt fails before it was
written, no informer tells that it is free again, so it is told here.

The rules stand in `scheduling/volumes/`. A cluster has only the views that one of its profiles decides by; they are
made when the informers are in step, since they read what is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client.core import Metric

from tonnage.clock import rfc3339
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduler.metrics import counter, gauge
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.configuration.storage_capacity_args import Reservation, StorageCapacityArgs
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations

_FREED = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.UPDATE)
_RELEASED = ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, ActionType.UPDATE)
"""To those who wait, capacity that is let go is as good as capacity that changed."""


def modes_of(profiles: Iterable[ResolvedProfile]) -> frozenset[Reservation]:
    """The ways in which these profiles keep capacity back."""
    wanted = {each.args_of(StorageCapacityArgs).reservation for each in profiles if each.gates.CSIStorageCapacityV2}
    return frozenset(wanted - {Reservation.NONE})


class CapacityHolds:
    """Everything kept back in a cluster, in any mode."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, modes: Iterable[Reservation]) -> None:
        self._cluster = cluster
        self._queue = queue
        self._modes = sorted(modes)
        self._views: dict[Reservation, Reservations | Ledger] = {}
        self._is_open = False

    def open(self) -> None:
        """Make the views. Call it once all objects are known; again does no harm."""
        for mode in self._modes:
            if mode not in self._views:
                self._views[mode] = self._view(mode)
                self._views[mode].on_released.append(self._released)
        if not self._is_open:
            self._cluster.storage.on_change(PersistentVolume, self._volume_changed)
            self._is_open = True

    def _view(self, mode: Reservation) -> Reservations | Ledger:
        return self._cluster.view(Reservations) if mode is Reservation.OBJECT else self._cluster.view(Ledger)

    def expire(self, now_s: float) -> None:
        for view in self._views.values():
            view.expire(now_s)

    def pod_gone(self, uid: str) -> None:
        for view in self._views.values():
            view.pod_gone(uid)

    def _released(self, capacity: CSIStorageCapacity) -> None:
        self._queue.move_all_to_active_or_backoff(_RELEASED, capacity, capacity)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and new is not None and old.spec.claim_ref is not None and new.spec.claim_ref is None:
            self._queue.move_all_to_active_or_backoff(_FREED, old, new)

    # -- for people ---------------------------------------------------------------------------------------------------

    def listed(self) -> list[dict[str, Any]]:
        """Who holds what, since when and why, by capacity object and pod: what /debug/reservations shows."""
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
            for mode, view in self._views.items()
            for hold in view.holds()
        ]
        return sorted(found, key=lambda each: (each["capacity"], each["mode"], each["pod"], each["claims"]))

    def families(self) -> Iterable[Metric]:
        """The KEP's counters of reservations, and how much is held now by mode."""
        objects: dict[tuple[str], float] = {}
        bytes_held: dict[tuple[str], float] = {}
        for mode, view in self._views.items():
            holds = view.holds()
            objects[(str(mode),)] = len({hold.uid for hold in holds})
            bytes_held[(str(mode),)] = sum(hold.bytes for hold in holds)
        made = sum(view.reservations_total for view in self._views.values())
        refreshed = sum(view.resets_total for view in self._views.values())
        reserved = self._views.get(Reservation.OBJECT)
        ended: dict[tuple[str], float] = {}
        if isinstance(reserved, Reservations):
            ended = {(cause,): float(times) for cause, times in reserved.resets.items()}
        return (
            counter("volume_binding_capacity_reservations", "Reservations of capacity that were made.", (), {(): made}),
            counter(
                "volume_binding_capacity_reservation_resets",
                "Reservations that ended because their object was published again.",
                (),
                {(): refreshed},
            ),
            counter(
                "volume_binding_capacity_reservations_ended", "Reservations that ended, by cause.", ("cause",), ended
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
        )
