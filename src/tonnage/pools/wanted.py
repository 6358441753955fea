"""Which annotations a capacity object and a class must have. Pure.

    the object lists pools itself (`availableCapacities`)              none of ours: the driver has learned it
    it has the annotation, and not from us                             left alone: its provisioner writes it
    its class is unreadable, its node unknown, or there are several    none: the driver's own figure counts
    else                                                               the pools, since when they are true, from where

An object that reaches several nodes keeps the driver's figure: the volumes of a pod must be on one node, and a list of
pools cannot say which are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from tonnage.clock import InvalidTime, parse_rfc3339, rfc3339
from tonnage.keyed import grouped
from tonnage.objects import storage_v1
from tonnage.objects.size_rules import known_size_rules
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, POOLS_CHECKED_AT, POOLS_SOURCE, CSIStorageCapacity
from tonnage.pools.class_pools import ClassPools, NodePools, PoolSource
from tonnage.pools.settings import KeepFree, PoolsSettings
from tonnage.quantity import Quantity

OURS: Final = (AVAILABLE_CAPACITIES, *storage_v1.KEPT_POOLS)
"""The annotations of a capacity object that this program keeps, all of them or none."""
OF_CLASSES: Final = (
    storage_v1.POOL_POLICY,
    storage_v1.CAPACITY_GROUP,
    storage_v1.SIZE_RULES,
    storage_v1.CHECK_CAPACITY,
    storage_v1.VOLUME_COPIES,
)
_SEPARATORS: Final = re.compile(r"[\s,]+")
MOST_LISTED: Final = 1000
"""Pools in one annotation; of more, the largest are listed, and the others are promised to nobody."""


def is_kept_by_provisioner(capacity: CSIStorageCapacity) -> bool:
    """True if somebody else writes the pools of an object: its driver reports them."""
    annotations = capacity.metadata.annotations
    return AVAILABLE_CAPACITIES in annotations and POOLS_SOURCE not in annotations


def ours_of(capacity: CSIStorageCapacity) -> dict[str, str]:
    if is_kept_by_provisioner(capacity):
        return {}
    return {key: text for key, text in capacity.metadata.annotations.items() if key in OURS}


def wanted_of(
    capacity: CSIStorageCapacity,
    found: NodePools | None,
    *,
    source: str,
    keep_free: KeepFree,
    now: datetime,
    check_every_s: float,
    stale_since: datetime | None = None,
) -> dict[str, str]:
    """Our annotations for an object, given the pools of its class on its node; None: they are unknown.

    The time of the last check is renewed every `check_every_s`, but not for a silent source.
    """
    if found is None or capacity.available_capacities or is_kept_by_provisioner(capacity):
        return {}
    pools = found.largest_first[:MOST_LISTED]
    wanted = {
        AVAILABLE_CAPACITIES: ",".join(str(Quantity.from_bytes(keep_free.of(pool.free_bytes))) for pool in pools)
        or "0",
        POOLS_SOURCE: source,
    }
    ids = [_SEPARATORS.sub("_", pool.identity) for pool in pools]
    if ids and len(set(ids)) == len(ids):
        wanted[storage_v1.POOL_IDS] = ",".join(ids)
    if found.free_volumes is not None:
        wanted[storage_v1.FREE_VOLUMES] = str(found.free_volumes)
    if found.observed_at is not None:
        wanted[storage_v1.POOLS_OBSERVED_AT] = rfc3339(found.observed_at)
    ours = ours_of(capacity)
    checked_at = ours.pop(POOLS_CHECKED_AT, "")
    if stale_since is not None:
        wanted[storage_v1.POOLS_STALE_SINCE] = rfc3339(stale_since)
        return {**wanted, POOLS_CHECKED_AT: checked_at} if checked_at else wanted
    is_fresh = ours == wanted and _is_within(checked_at, now, check_every_s)
    return {**wanted, POOLS_CHECKED_AT: checked_at if is_fresh else rfc3339(now)}


def _is_within(told: str, now: datetime, seconds: float) -> bool:
    """True if a time is less than that long ago, and not ahead."""
    try:
        return 0 <= (now - parse_rfc3339(told)).total_seconds() < seconds
    except InvalidTime:
        return False


def wanted_of_class(
    storage_class: storage_v1.StorageClass,
    found: ClassPools,
    settings: PoolsSettings,
    *,
    source: PoolSource,
    group: str,
) -> dict[str, str]:
    """Our annotations for a class, given its pools and its capacity group.

    A class of a driver that the source is not made for follows the sizes of the source's driver.
    """
    driver = "" if storage_class.provisioner in source.drivers else next(iter(source.drivers), "")
    rules = settings.size_rules or known_size_rules(storage_class, driver)
    asks = settings.creates_objects and storage_class.waits_for_consumer and found.is_known
    wanted = {
        storage_v1.POOL_POLICY: (settings.policy or found.policy) if settings.sets_policy else "",
        storage_v1.SIZE_RULES: rules if settings.sets_sizes else "",
        storage_v1.CAPACITY_GROUP: group,
        storage_v1.CHECK_CAPACITY: "true" if asks else "",
        storage_v1.VOLUME_COPIES: str(found.copies) if found.copies > 1 else "",
    }
    return {key: text for key, text in wanted.items() if text}


def groups_of(
    classes: Mapping[str, storage_v1.StorageClass], found: Mapping[str, ClassPools], problems: list[str]
) -> dict[str, str]:
    """The capacity group of every class that has exactly the disks of another. An existing name is kept, unless classes
    with other disks have it too: those that share some disks only are told apart by the ids of their pools."""
    by_disks = grouped((found[name].disks, name) for name in sorted(found))
    group_of: dict[str, str] = {}
    for names in [names for disks, names in by_disks.items() if disks and len(names) > 1]:
        elsewhere = {each.capacity_group for name, each in classes.items() if name not in names}
        told = sorted({group for name in names if (group := classes[name].capacity_group)} - elsewhere)
        if len(told) > 1:
            problems.append(
                f"StorageClasses {', '.join(names)} draw from the same disks and are in different capacity groups: "
                f"{', '.join(told)}"
            )
            continue
        group_of |= dict.fromkeys(names, told[0] if told else f"shared-{names[0]}")
    return group_of
