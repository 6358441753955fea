"""How one profile reads capacity objects: by its `StorageCapacityArgs`, with what is held of them by its reservations.

    mode Object    an object that is reserved is out of bounds       `reservations/object_reservations.py`
    mode Ledger    what is promised of it is somebody else's         `reservations/ledger.py`

Both tell the index of every object of which something else is held than before, so that nothing stale is judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.configuration.plugin_args import PoolFit, Reservation, StorageCapacityArgs
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.joint_capacity import (
    JoinedCapacity,
    members_of,
    promised_of_members,
    room_of_members,
)
from tonnage.scheduling.volumes.capacity.pools import room_of, room_without_gate, scored_capacity
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy
from tonnage.scheduling.volumes.packing import Grade, Sizes, descending
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations


def profile_policy(
    cluster: Cluster, args: StorageCapacityArgs, reservation: Reservation, *, is_joint: bool
) -> CapacityPolicy:
    """The policy of a profile, on one cluster; without the gate (`is_joint`) that of kube-scheduler 1.36."""
    if not is_joint:
        return CapacityPolicy(room_without_gate, lambda each: scored_capacity(each, with_pools=False))
    legacy, index = args.legacy_pools, cluster.index(CapacityIndex)
    timeout_s = float(args.reservation_timeout_seconds)
    is_reserved: Callable[[CSIStorageCapacity, Collection[Key]], bool] | None = None
    promised: Callable[[CSIStorageCapacity, Collection[Key]], Sizes] | None = None
    if reservation is Reservation.OBJECT:
        reservations = cluster.index(Reservations)
        reservations.tell_timeout(timeout_s)
        _once(reservations.on_change, index.held_differs)

        def is_reserved(capacity: CSIStorageCapacity, own: Collection[Key]) -> bool:
            if not isinstance(capacity, JoinedCapacity):
                return reservations.is_reserved(capacity, own)
            return any(reservations.is_reserved(each, own) for each in members_of(capacity))

    elif reservation is Reservation.LEDGER:
        ledger = cluster.index(Ledger)
        ledger.tell_timeout(timeout_s)
        _once(ledger.on_change, index.held_differs)

        def promised(capacity: CSIStorageCapacity, own: Collection[Key]) -> Sizes:
            if not own and not isinstance(capacity, JoinedCapacity):
                return ledger.promised(identity(capacity))
            promises = promised_of_members(capacity, lambda each: ledger.promises(identity(each)))
            return descending(size for key, size in promises.items() if key not in own)

    return CapacityPolicy(
        lambda joined: room_of_members(joined, lambda each: room_of(each, legacy)),
        lambda joined: min(scored_capacity(each, with_pools=True) for each in members_of(joined)),
        is_reserved,
        promised,
        Grade.GUARANTEED if args.pool_fit is PoolFit.GUARANTEED else Grade.POSSIBLE,
        scores_best=True,
    )


def _once(listeners: list[Callable[[str], None]], listener: Callable[[str], None]) -> None:
    if listener not in listeners:
        listeners.append(listener)
