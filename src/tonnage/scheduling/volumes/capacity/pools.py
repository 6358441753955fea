"""What a capacity object says about room: its pools, in bytes, whichever of its fields tells.

    availableCapacities (KEP-5925)             the free bytes of each pool
    annotation tonnage.dev/available-capacities  the same, on a server that drops the field
    maximumVolumeSize, capacity                what objects said before; how to read them is `legacyPools`

| legacyPools | several claims against capacity 300Gi, maximumVolumeSize 100Gi         |
| Strict      | one pool of 100Gi: the KEP's word                                      |
| Bounded     | each claim at most 100Gi, all of them at most 300Gi                    |
| Independent | each claim at most 100Gi, whatever the others ask: as without the gate |

Beside pools `maximumVolumeSize` still says how large one volume may be. What is promised to other pods counts under
`Independent` too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tonnage import logs
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, CSIDriver, CSIStorageCapacity
from tonnage.quantity import InvalidQuantity, Quantity
from tonnage.scheduling.configuration.plugin_args import LegacyPools
from tonnage.scheduling.volumes.packing.pool_fits import MOST_BYTES, UNBOUNDED

VOLUME_REBUILDING = "tonnage.dev/volume-rebuilding"
_log = logs.logger("tonnage.scheduling")


class Room(NamedTuple):
    """What claims may take of one object, jointly: each goes to one of the pools, free bytes descending, and is of
    `claim_limit` at most. No pools: the object does not say, and nothing fits. `free_bytes`: what one claim and all
    promises share where claims are judged one by one (`Independent`)."""

    pools: tuple[int, ...]
    claim_limit: int = UNBOUNDED
    free_bytes: int = UNBOUNDED

    @property
    def is_known(self) -> bool:
        return bool(self.pools)

    def claim_limit_beside(self, promised: Iterable[int]) -> int:
        """How large one claim may be beside what is promised already."""
        if self.free_bytes >= UNBOUNDED or not (taken := sum(promised)):
            return self.claim_limit
        return min(self.claim_limit, max(self.free_bytes - taken, 0))


NO_ROOM = Room(())


def told_pools(capacity: CSIStorageCapacity) -> tuple[int, ...]:
    """The free bytes of each pool in the object's order, by field or else by annotation; empty when it lists none."""
    found = capacity.available_capacities
    if not found and AVAILABLE_CAPACITIES in capacity.metadata.annotations:
        found = _annotated(capacity)
    return tuple([each.value() for each in found])


def listed_pools(capacity: CSIStorageCapacity) -> tuple[int, ...]:
    """The same, largest first."""
    return tuple(sorted(told_pools(capacity), reverse=True))


def room_of(capacity: CSIStorageCapacity, legacy: LegacyPools) -> Room:
    """How much claims may take, read jointly (KEP-5925)."""
    pools = listed_pools(capacity)
    if pools:
        # By the CSI specification nothing larger than the maximum can be made, however large a pool is.
        most = capacity.maximum_volume_size.value() if capacity.maximum_volume_size is not None else pools[0]
        return Room(pools, most if most < pools[0] else UNBOUNDED)
    limit = volume_limit(capacity)
    if limit is None:
        return NO_ROOM
    if legacy is LegacyPools.STRICT:
        return Room((limit,))
    if legacy is LegacyPools.BOUNDED:
        free = UNBOUNDED if capacity.capacity is None else capacity.capacity.value()
        return Room((free,), limit if limit < free else UNBOUNDED)
    return Room((UNBOUNDED,), limit, UNBOUNDED if capacity.capacity is None else capacity.capacity.value())


def room_without_gate(capacity: CSIStorageCapacity) -> Room:
    """The same as kube-scheduler 1.36 reads it: pools are not looked at, and each claim is on its own."""
    limit = volume_limit(capacity)
    return NO_ROOM if limit is None else Room((UNBOUNDED,), limit)


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """How large one volume may be: `maximumVolumeSize` if it is set, even when larger than `capacity`; else that."""
    told = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return None if told is None else told.value()


def largest_volume(capacity: CSIStorageCapacity) -> int:
    """The largest volume that can be made of an object as it stands; 0 when it does not say."""
    limit, pools = volume_limit(capacity), listed_pools(capacity)
    if not pools:
        return limit or 0
    return pools[0] if capacity.maximum_volume_size is None or limit is None else min(pools[0], limit)


def free_bytes(capacity: CSIStorageCapacity) -> int | None:
    """All that an object says is free: its pools together, else its sum, else the largest volume; None: it does not."""
    pools = listed_pools(capacity)
    if pools:
        return sum(pools)
    return capacity.capacity.value() if capacity.capacity is not None else volume_limit(capacity)


def scored_capacity(capacity: CSIStorageCapacity, *, with_pools: bool) -> int:
    """The free bytes a score is made of (KEP-4049): `capacity`, else the sum of the pools, else the largest volume."""
    if capacity.capacity is not None:
        return capacity.capacity.value()
    pools = listed_pools(capacity) if with_pools else ()
    return min(sum(pools), MOST_BYTES) if pools else (volume_limit(capacity) or 0)


def rebuilds_volumes(driver: CSIDriver | None) -> bool:
    """Whether a driver moves a volume to where its pod goes, when the volume's node is out of use (KEP-5925)."""
    if driver is None:
        return False
    return driver.spec.volume_rebuilding or driver.metadata.annotations.get(VOLUME_REBUILDING) == "true"


def problem_with_annotated_pools(capacity: CSIStorageCapacity) -> str:
    """Why the annotation with an object's pools cannot be read; empty when it can, or when nobody reads it."""
    if capacity.available_capacities or AVAILABLE_CAPACITIES not in capacity.metadata.annotations:
        return ""
    try:
        _parsed(capacity.metadata.annotations[AVAILABLE_CAPACITIES])
    except InvalidQuantity as exc:
        return exc.message
    return ""


def _parsed(text: str) -> tuple[Quantity, ...]:
    return tuple(Quantity.parse(each.strip()) for each in text.split(",") if each.strip())


def _annotated(capacity: CSIStorageCapacity) -> tuple[Quantity, ...]:
    """The pools of the annotation. One that cannot be read is told of and passed over: it is not the pod's fault."""
    text = capacity.metadata.annotations[AVAILABLE_CAPACITIES]
    try:
        return _parsed(text)
    except InvalidQuantity as exc:
        _log.warning(
            "The pools of a capacity object cannot be read and are passed over",
            object=f"CSIStorageCapacity {capacity.key}",
            field=f"metadata.annotations[{AVAILABLE_CAPACITIES}]",
            value=text,
            error=exc.message,
            remedy='write quantities with commas between them, such as "100Gi,100Gi"',
        )
        return ()
