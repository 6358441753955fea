"""Who may use a capacity object that was refreshed or released: VolumeBinding's part in queue/rations.py."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.storage_capacity_args import Reservation
from tonnage.scheduling.framework import Code, Cycle
from tonnage.scheduling.volumes.capacity.index import CapacityIndex

if TYPE_CHECKING:
    from tonnage.scheduling.plugins.volume_binding import Notes, VolumeBinding


class CapacityRation:
    """How much of a capacity object pods would use up, in one look at the queue.

    What VolumeBinding says about the nodes that the object reaches decides, so that a pod is left alone only when it
    would be refused on all of them; pods that ask for the same are judged once. An object that is reserved whole is
    used up by one pod; with the ledger a pod uses what it asks for; without reservations nothing is used up.
    """

    def __init__(self, plugin: VolumeBinding, cluster: Cluster, key: Key) -> None:
        self._plugin = plugin
        self._cluster = cluster
        self._key = key
        self._known: dict[Hashable, bool] = {}

    def __call__(self, pod: PodInfo) -> float | None:
        cycle = Cycle(pod, self._cluster)
        status = self._plugin.pre_filter(cycle)
        if status is not None:
            return 0.0 if status.is_success or status.code is Code.SKIP else None
        notes: Notes = cycle.state[self._plugin.name]
        alike = cycle.apart if notes.is_plain else pod.uid
        if alike not in self._known:
            self._known[alike] = self._fits(cycle)
        return self._share(sum(sum(unit.sizes) for unit in notes.provisioning.units)) if self._known[alike] else None

    def _fits(self, cycle: Cycle) -> bool:
        rows = self._cluster.index(CapacityIndex).rows_of(self._key)
        if not len(rows):
            return False
        judged = self._plugin.filter(cycle, rows)
        return judged is None or not judged.bits.all()

    def _share(self, asked_bytes: int) -> float:
        plugin, capacity = self._plugin, self._cluster.storage.capacities.get(self._key)
        if plugin.reservation is Reservation.NONE or not asked_bytes or capacity is None:
            return 0.0
        if plugin.reservation is Reservation.OBJECT:
            return 1.0
        policy = plugin.fit_of(self._cluster).policy
        room = policy.room_of(capacity)
        free = min(sum(room.pools), room.free_bytes) - sum(policy.promised(capacity, ()) if policy.promised else ())
        return asked_bytes / free if free > 0 else 1.0
