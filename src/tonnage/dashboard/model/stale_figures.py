"""Capacity figures that are not to be believed, why, and what the scheduler does with them, in words.

    fault          somebody asked an embedded cluster's driver to tell old figures, or to be dead
    class, driver  the class is gone, or the driver is not on the node any more: nobody keeps the figures
    silent         tonnage pools has heard nothing from the source of the pools, or has itself not looked for long
    unreadable     the annotation with pools is no list of quantities
    lagging        volumes were made there after the figures were last written, and long enough ago to be seen

The last says nothing of a driver none of whose figures follow: it provisions thinly, and external-provisioner does not
write a figure that stays the same. So it is told only while figures of the same driver follow elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from tonnage.clock import rfc3339
from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.driver.names import DRIVER_NAME
from tonnage.faults import Fault, active_fault
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.storage_v1 import POOLS_CHECKED_AT, POOLS_SOURCE, POOLS_STALE_SINCE, CSIStorageCapacity
from tonnage.scheduling.volumes.capacity.pools import problem_with_annotated_pools

REFRESH: Final = timedelta(minutes=2)
"""A figure should follow a volume within this: external-provisioner asks once a minute, and after each volume."""
CHECKED_WITHIN: Final = timedelta(minutes=15)
"""`tonnage pools` looks at its sources much more often than that."""


def driver_of(objects: KnownObjects, capacity: CSIStorageCapacity) -> str:
    of_class = objects.classes.get(capacity.storage_class_name)
    return of_class.provisioner if of_class is not None else ""


def why_stale(
    objects: KnownObjects, capacity: CSIStorageCapacity, nodes: Sequence[str], faults: Iterable[Fault], now: datetime
) -> str:
    """Why an object's figures are not to be believed, whatever volumes there are; empty when nothing speaks against."""
    driver = driver_of(objects, capacity)
    return _by_fault(driver, nodes, faults) or _by_keeper(objects, capacity, driver, nodes) or _by_source(capacity, now)


def _by_fault(driver: str, nodes: Sequence[str], faults: Iterable[Fault]) -> str:
    if driver != DRIVER_NAME:
        return ""
    for node in nodes:
        if active_fault(faults, "stale-figures", node) is not None:
            return f"the fault stale-figures is set on {node}: its driver tells what was free when the fault began"
        if active_fault(faults, "dead", node) is not None:
            return f"the fault dead is set on {node}: its driver answers nothing, and these are its last figures"
    return ""


def _by_keeper(objects: KnownObjects, capacity: CSIStorageCapacity, driver: str, nodes: Sequence[str]) -> str:
    if not driver:
        return f"there is no StorageClass {capacity.storage_class_name}: nobody keeps these figures any more"
    if nodes and all(_lacks(objects, node, driver) for node in nodes):
        where = nodes[0] if len(nodes) == 1 else f"any of its {len(nodes)} nodes"
        return f"the driver {driver} is not on {where} (CSINode): nobody keeps these figures any more"
    return ""


def _lacks(objects: KnownObjects, node: str, driver: str) -> bool:
    """Whether a node says which drivers it has, and this is none of them."""
    csi_node = objects.csi_nodes.get(node)
    return csi_node is not None and csi_node.driver(driver) is None


def _by_source(capacity: CSIStorageCapacity, now: datetime) -> str:
    annotations = capacity.metadata.annotations
    if problem := problem_with_annotated_pools(capacity):
        return f"its annotation with pools cannot be read and is passed over: {problem}"
    if not capacity.has_kept_pools:
        return ""
    source = annotations[POOLS_SOURCE]
    if since := annotations.get(POOLS_STALE_SINCE):
        return (
            f"the source of its pools, {source}, has been silent since {since}: the scheduler still counts with them, "
            "less what it promised itself, until they are taken away"
        )
    if capacity.is_unchecked_since(now - CHECKED_WITHIN):
        return (
            f"tonnage pools has not looked at their source, {source}, since {annotations[POOLS_CHECKED_AT]}: what was "
            "made since is counted, and what was deleted is not seen"
        )
    return ""


def unseen(capacity: CSIStorageCapacity, volumes: Iterable[PersistentVolume], now: datetime) -> list[PersistentVolume]:
    """Volumes that were made after an object was last written, and should long be seen in it."""
    written_at = capacity.metadata.updated_at
    if written_at is None:
        return []
    made = [(each, each.metadata.creation_timestamp) for each in volumes]
    found = [(at, each.name, each) for each, at in made if at is not None and written_at < at <= now - REFRESH]
    return [each for _, _, each in sorted(found, key=lambda one: one[:2])]


def lagging(missing: Sequence[PersistentVolume]) -> str:
    """In words, that an object was not written since these volumes were made."""
    first = missing[0]
    made_at = first.metadata.creation_timestamp
    when = f" at {rfc3339(made_at)}" if made_at is not None else ""
    many = f"{first.name} and {len(missing) - 1} more volumes were" if len(missing) > 1 else f"{first.name} was"
    return (
        f"it was last written before {many} made there{when}, while other figures of the driver follow: the scheduler "
        "believes it but for what it promised itself (mode Ledger)"
    )


def changes_at(capacity: CSIStorageCapacity, volumes: Iterable[PersistentVolume], now: datetime) -> datetime | None:
    """The next instant after `now` at which the same objects may be judged otherwise; None for never."""
    times = [at + REFRESH for each in volumes if (at := each.metadata.creation_timestamp) is not None]
    if capacity.has_kept_pools and (checked := capacity.checked_at) is not None:
        times.append(checked + CHECKED_WITHIN)
    return min((at for at in times if at > now), default=None)
