"""Capacity that is kept back, in any mode: let go in time, and told to the pods that were turned away by it.

    Reservations (mode Object) ┐              ┌─► the queue: pods that were turned away may try again
    Ledger (mode Ledger)       ┴── released ──┘
    tick ──► expire                a deleted pod ──► pod_gone

A volume that was given to a claim, and a claim that was kept to a node, are told here too when they are free again
without the API knowing: no informer tells of that. The rules stand in `scheduling/volumes/reservations/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.plugins.volume_binding import HOLDS_BY_MODE
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.volumes.reservations.holds import CapacityHolds, Hold

_CLAIM_FREED = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.UPDATE)
_VOLUME_FREED = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.UPDATE)
_RELEASED = ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, ActionType.UPDATE)
"""To those who wait, capacity that is let go is as good as capacity that changed."""

_Place = tuple[type[Object], Key]
_News = tuple[ClusterEvent, Object, Object]


class HeldCapacity:
    """Everything kept back in a cluster."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue) -> None:
        self._cluster = cluster
        self._queue = queue
        self.modes: dict[Reservation, CapacityHolds] = {}
        """What keeps capacity back, by mode; empty until `open`."""
        self._is_open = False
        self._put_off: dict[_Place, _News] | None = None

    def now(self) -> datetime:
        """The time that holds are dated by."""
        return self._cluster.clock.now()

    def open(self) -> None:
        """Listen to the reservations that the cluster has. Again does no harm."""
        for mode, kind in HOLDS_BY_MODE.items():
            if mode not in self.modes and self._cluster.has_index(kind):
                self.modes[mode] = self._cluster.index(kind)
                self.modes[mode].on_released.append(self._released)
        if not self._is_open:
            self._cluster.storage.on_change(PersistentVolume, self._volume_changed)
            self._cluster.storage.on_change(PersistentVolumeClaim, self._claim_changed)
            self._is_open = True

    def expire(self, now_s: float) -> None:
        """Let go of what is kept back no longer than until now."""
        for each in self.modes.values():
            each.expire(now_s)

    def pod_gone(self, uid: str) -> None:
        """Nobody waits any more for what was kept back for a pod."""
        for each in self.modes.values():
            each.pod_gone(uid)

    def holds(self) -> dict[Reservation, list[Hold]]:
        return {mode: each.holds() for mode, each in self.modes.items()}

    def agree_with(self, holds: Mapping[Reservation, Sequence[Hold]], pods: Mapping[Key, PodInfo]) -> None:
        """Keep back what another scheduler of the same cluster does, mode by mode, and nothing else."""
        for mode, each in self.modes.items():
            each.agree_with(holds.get(mode, ()), pods)

    @contextmanager
    def told_after(self, about: Object | None) -> Iterator[None]:
        """While an event is handled: what is set free is told at its end, but not a second time of the object `about`
        which the event itself told.
        """
        put_off: dict[_Place, _News] = {}
        self._put_off = put_off
        try:
            yield
        finally:
            self._put_off = None
        if put_off:
            if about is not None:
                put_off.pop((type(about), about.key), None)
            for event, old, new in put_off.values():
                self._queue.move_all_to_active_or_backoff(event, old, new)

    def _released(self, capacity: CSIStorageCapacity) -> None:
        self._tell(_RELEASED, capacity, capacity)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and new is not None and old.spec.claim_ref is not None and new.spec.claim_ref is None:
            self._tell(_VOLUME_FREED, old, new)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is None or new is None or old.selected_node == new.selected_node:
            return
        if not self._cluster.storage.claims.is_assumed(new.key):
            self._tell(_CLAIM_FREED, old, new)

    def _tell(self, event: ClusterEvent, old: Object, new: Object) -> None:
        if self._put_off is None:
            self._queue.move_all_to_active_or_backoff(event, old, new)
        else:
            self._put_off[type(new), new.key] = event, old, new
