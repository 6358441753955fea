"""What capacity objects and StorageClasses say about pools, in fields and annotations.

    availableCapacities (KEP-5925)             the free bytes of each pool
    annotation tonnage.dev/available-capacities  the same, for a server that drops the field
    annotation tonnage.dev/free-volumes        how many volumes can still be made, whatever their sizes
    maximumVolumeSize, capacity                older fields; `legacyPools` says how to read them

| legacyPools | several claims against capacity 300Gi, maximumVolumeSize 100Gi         |
| Strict      | one pool of 100Gi: the KEP's word                                      |
| Bounded     | each claim at most 100Gi, all of them at most 300Gi                    |
| Independent | each claim at most 100Gi, whatever the others ask: as without the gate |

`maximumVolumeSize` also limits a volume where pools are listed. Promises to other pods count in all three modes.

`tonnage.dev/pool-policy` on a class, else on its CSIDriver: see `packing/pool_policies.py`. Which classes share pools:
`groups.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tonnage import logs
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.size_rules import SizeRules, problem_with_size_rules
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    FREE_VOLUMES,
    POOL_POLICIES,
    POOL_POLICY,
    SIZE_RULES,
    CSIDriver,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.quantity import InvalidQuantity, Quantity
from tonnage.scheduling.configuration.plugin_args import LegacyPools
from tonnage.scheduling.volumes.packing.pool_fits import MOST_BYTES, UNBOUNDED
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy

VOLUME_REBUILDING = "tonnage.dev/volume-rebuilding"
_log = logs.logger("tonnage.scheduling")


class Room(NamedTuple):
    """What claims may take of one object together: each claim goes into one pool and is at most `claim_limit`.

    `pools`: free bytes, descending; empty if the object does not say, and then nothing fits. `free_bytes`: under
    `Independent`, what one claim and all promises share.
    """

    pools: tuple[int, ...]
    claim_limit: int = UNBOUNDED
    free_bytes: int = UNBOUNDED
    keeps: int = 0
    """Bytes that stay free in every pool, and that `pools` leaves out: 1 for a driver that wants strictly more."""
    slots: int = UNBOUNDED
    """How many volumes can still be made from the object."""

    @property
    def is_known(self) -> bool:
        return bool(self.pools)

    @property
    def shown_pools(self) -> tuple[int, ...]:
        """The pools as their driver tells them; unlimited ones are left out."""
        return tuple(pool + self.keeps for pool in self.pools if pool < UNBOUNDED)

    def kept_by(self, rules: SizeRules) -> Room:
        """This room if volumes must leave a byte free wherever they go (`strict`).

        A volume fits if its pool has more free than it takes. Whatever the order, all fit if the sum is less than the
        pool: the pool is one byte smaller.
        """
        if not rules.is_strict or not self.pools:
            return self
        if self.pools[0] >= UNBOUNDED:  # claims are judged one by one
            limit, free = (each - (each < UNBOUNDED) for each in (self.claim_limit, self.free_bytes))
            return self._replace(claim_limit=limit, free_bytes=free, keeps=1)
        return self._replace(pools=tuple(pool - 1 for pool in self.pools), keeps=1)

    def claim_limit_beside(self, promised: Iterable[int]) -> int:
        """How large one claim may be on top of what is promised."""
        if self.free_bytes >= UNBOUNDED or not (taken := sum(promised)):
            return self.claim_limit
        return min(self.claim_limit, max(self.free_bytes - taken, 0))


NO_ROOM = Room(())


def room_in_all(rooms: Sequence[Room]) -> Room:
    """What claims may take from several objects at once: the smallest of each pool, largest pool first."""
    if len(rooms) == 1:
        return rooms[0]
    if not all(room.is_known for room in rooms):
        return NO_ROOM
    pools = tuple(min(each) for each in zip(*(room.pools for room in rooms), strict=False))
    limit, free = min(room.claim_limit for room in rooms), min(room.free_bytes for room in rooms)
    return Room(pools, limit, free, max(room.keeps for room in rooms), min(room.slots for room in rooms))


def told_pools(capacity: CSIStorageCapacity) -> tuple[int, ...]:
    """The free bytes of each pool in the object's order, from the field or the annotation; empty if not listed."""
    found = capacity.available_capacities
    if not found and AVAILABLE_CAPACITIES in capacity.metadata.annotations:
        found = _annotated(capacity)
    return tuple([quantity.value() for quantity in found])


def listed_pools(capacity: CSIStorageCapacity) -> tuple[int, ...]:
    """The free bytes of each pool, largest first."""
    return tuple(sorted(told_pools(capacity), reverse=True))


def room_of(capacity: CSIStorageCapacity, legacy: LegacyPools, pools: tuple[int, ...] | None = None) -> Room:
    """What claims may take, judged together (KEP-5925). `pools`: instead of those that the object lists."""
    pools, limit = listed_pools(capacity) if pools is None else pools, volume_limit(capacity)
    told, free = free_volumes(capacity), capacity.capacity.value() if capacity.capacity is not None else UNBOUNDED
    slots = UNBOUNDED if told is None else told
    if pools:
        # By the CSI specification nothing larger than the maximum can be made, however large a pool is.
        most = capacity.maximum_volume_size.value() if capacity.maximum_volume_size is not None else pools[0]
        return Room(pools, most if most < pools[0] else UNBOUNDED, slots=slots)
    if limit is None:
        return NO_ROOM
    if legacy is LegacyPools.STRICT:
        return Room((limit,), slots=slots)
    if legacy is LegacyPools.BOUNDED:
        return Room((free,), limit if limit < free else UNBOUNDED, slots=slots)
    return Room((UNBOUNDED,), limit, free, slots=slots)


def room_without_gate(capacity: CSIStorageCapacity) -> Room:
    """What claims may take as kube-scheduler 1.36 judges it: pools are ignored, and each claim is judged alone."""
    limit = volume_limit(capacity)
    return NO_ROOM if limit is None else Room((UNBOUNDED,), limit)


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest allowed volume: `maximumVolumeSize` if set (even if it exceeds `capacity`), else `capacity`."""
    quantity = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return None if quantity is None else quantity.value()


def largest_volume(capacity: CSIStorageCapacity) -> int:
    """The largest volume that fits the object now; 0 if the object does not say."""
    limit, pools = volume_limit(capacity), listed_pools(capacity)
    if not pools:
        return limit or 0
    return pools[0] if capacity.maximum_volume_size is None or limit is None else min(pools[0], limit)


def free_bytes(capacity: CSIStorageCapacity) -> int | None:
    """An object's free bytes: its pools' sum, else `capacity`, else the largest volume; None if it does not say."""
    pools = listed_pools(capacity)
    if pools:
        return sum(pools)
    return capacity.capacity.value() if capacity.capacity is not None else volume_limit(capacity)


def scored_capacity(capacity: CSIStorageCapacity, *, with_pools: bool) -> int:
    """The free bytes that scores use (KEP-4049): `capacity`, else the sum of the pools, else the largest volume."""
    if capacity.capacity is not None:
        return capacity.capacity.value()
    pools = listed_pools(capacity) if with_pools else ()
    return min(sum(pools), MOST_BYTES) if pools else (volume_limit(capacity) or 0)


def rebuilds_volumes(driver: CSIDriver | None) -> bool:
    """True if the driver rebuilds a volume on its pod's new node when the old node is out of service (KEP-5925)."""
    if driver is None:
        return False
    return driver.spec.volume_rebuilding or driver.metadata.annotations.get(VOLUME_REBUILDING) == "true"


def problem_with_annotated_pools(capacity: CSIStorageCapacity) -> str:
    """Why the pools annotation cannot be parsed; empty if it can, is missing, or the field is used instead."""
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
    """The pools of the annotation. An unreadable annotation is logged and ignored: it is not the pod's fault."""
    text = capacity.metadata.annotations[AVAILABLE_CAPACITIES]
    try:
        return _parsed(text)
    except InvalidQuantity as exc:
        _log.warning(
            "The pools of a capacity object cannot be read and are ignored",
            object=f"CSIStorageCapacity {capacity.key}",
            field=f"metadata.annotations[{AVAILABLE_CAPACITIES}]",
            value=text,
            error=exc.message,
            remedy='write quantities with commas between them, such as "100Gi,100Gi"',
        )
        return ()


_MOST_VOLUMES: Final = 10**9 - 1
_NUMBER: Final = re.compile("[0-9]{1,9}")


FREE_VOLUMES_REMEDY: Final = 'write how many volumes can still be made, such as "12"'


def free_volumes(capacity: CSIStorageCapacity) -> int | None:
    """How many volumes can still be made from an object; None if it does not say, or what it says is no such number,
    which is logged."""
    text = capacity.metadata.annotations.get(FREE_VOLUMES)
    if text is None:
        return None
    if _NUMBER.fullmatch(text):
        return int(text)
    _log.warning(
        "The number of free volumes of a capacity object cannot be read and is ignored",
        object=f"CSIStorageCapacity {capacity.key}",
        field=f"metadata.annotations[{FREE_VOLUMES}]",
        value=text,
        error=f"not a whole number from 0 to {_MOST_VOLUMES}",
        remedy=FREE_VOLUMES_REMEDY,
    )
    return None


def problem_with_free_volumes(capacity: CSIStorageCapacity) -> str:
    """Why the number of free volumes cannot be used; empty if it can, or is missing."""
    text = capacity.metadata.annotations.get(FREE_VOLUMES)
    is_read = text is None or _NUMBER.fullmatch(text)
    return "" if is_read else f'{FREE_VOLUMES}="{text}" is no whole number from 0 to {_MOST_VOLUMES}'


Topology = tuple[tuple[str, str, tuple[str, ...]], ...]
"""A node topology in canonical form: equal for selectors that mean the same."""


def canonical(topology: LabelSelector) -> Topology:
    """Labels become expressions; the order of expressions and values is dropped."""
    labels = [(key, "In", (value,)) for key, value in topology.match_labels.items()]
    others = [(each.key, each.operator, tuple(sorted(set(each.values)))) for each in topology.match_expressions]
    return tuple(sorted({*labels, *others}))


def is_elsewhere(old: CSIStorageCapacity, new: CSIStorageCapacity) -> bool:
    """True if the object has another class or topology, or was deleted and created again."""
    return (
        old.storage_class_name != new.storage_class_name
        or old.node_topology != new.node_topology
        or old.metadata.uid != new.metadata.uid
    )


def problem_with_policy(found: StorageClass | CSIDriver) -> str:
    """Why the pool-policy annotation is invalid; empty if it is valid or missing."""
    if POOL_POLICY not in found.metadata.annotations or found.pool_policy in list(PoolPolicy):
        return ""
    return f'{POOL_POLICY}="{found.pool_policy}" is not one of {", ".join(POOL_POLICIES)}'


def pool_policy_of(found: StorageClass | None, driver: CSIDriver | None) -> PoolPolicy:
    """The pool policy of a class: its own annotation, else its driver's, else UNKNOWN. An invalid value is UNKNOWN."""
    for each in (found, driver):
        if each is not None and POOL_POLICY in each.metadata.annotations:
            return PoolPolicy(each.pool_policy) if each.pool_policy in list(PoolPolicy) else PoolPolicy.UNKNOWN
    return PoolPolicy.UNKNOWN


def warn_of_rules(found: StorageClass | CSIDriver, warned: set[tuple[str, str]]) -> None:
    """Warn once about each invalid annotation of a class or driver: it makes fits less certain than they are."""
    thing = f"{type(found).__name__} {found.name}"
    policy = problem_with_policy(found)
    if policy and (thing, policy) not in warned:
        warned.add((thing, policy))
        _log.warning(
            "A pool policy cannot be read and is taken for unknown",
            object=thing,
            field=f"metadata.annotations[{POOL_POLICY}]",
            value=found.pool_policy,
            remedy=f"write one of {', '.join(POOL_POLICIES)}",
        )
    problem = problem_with_size_rules(found) if isinstance(found, StorageClass) else ""
    if problem and (thing, problem) not in warned:
        warned.add((thing, problem))
        _log.warning(
            "Size rules cannot be read and are ignored as a whole: claims count with the size they ask for",
            object=thing,
            field=f"metadata.annotations[{SIZE_RULES}]",
            value=found.metadata.annotations.get(SIZE_RULES, ""),
            error=problem,
            remedy='write words such as "step=1Mi,step=1Gi,above=1Gi"',
        )
