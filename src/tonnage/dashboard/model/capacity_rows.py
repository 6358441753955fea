"""Rows of capacity objects: which nodes they reach, what is free, and what is kept back for whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.wire.rows import CapacityRow, ReservedRow
from tonnage.objects.meta import Key
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity.pools import listed_pools
from tonnage.whatif.scheduler_memory import HeldCapacity

MOST_NODES: Final = 64
"""Of how many nodes a row tells the names."""


def row_of(objects: KnownObjects, key: Key, held: Sequence[HeldCapacity]) -> CapacityRow | None:
    found = objects.capacities.get(key)
    if found is None:
        return None
    nodes = sorted(reached(objects, found.node_topology))
    pools = listed_pools(found)
    free = found.capacity if found.capacity is not None else found.maximum_volume_size
    return CapacityRow(
        storage_class=found.storage_class_name,
        nodes=tuple(nodes[:MOST_NODES]),
        node_count=len(nodes),
        pools=pools or _bytes(free),
        tells_pools=bool(pools),
        capacity=found.capacity.value() if found.capacity is not None else None,
        largest=found.maximum_volume_size.value() if found.maximum_volume_size is not None else None,
        told_at=found.figures_at,
        reserved=tuple(_reserved(each) for each in held),
    )


def _bytes(amount: Quantity | None) -> tuple[int, ...]:
    return (amount.value(),) if amount is not None else ()


def _reserved(each: HeldCapacity) -> ReservedRow:
    return ReservedRow(
        mode=str(each.mode), pod=each.pod, claims=tuple(each.claims), bytes=each.bytes, since=each.since, why=each.why
    )


def reached(objects: KnownObjects, topology: LabelSelector | None) -> Iterable[str]:
    """Names of the nodes that a selector reaches: none for an absent one, all for an empty one."""
    if topology is None:
        return ()
    candidates: Iterable[str] = objects.nodes
    if topology.match_labels:
        label = next(iter(topology.match_labels.items()))
        candidates = objects.nodes_by_label.get(label, ())
    return [name for name in candidates if topology.matches(objects.nodes[name].metadata.labels)]


def selecting(objects: KnownObjects, label: tuple[str, str]) -> Iterator[Key]:
    """Capacity objects that a node with this label may belong to."""
    for key, each in objects.capacities.items():
        if _may_select(each, label):
            yield key


def _may_select(capacity: CSIStorageCapacity, label: tuple[str, str]) -> bool:
    topology = capacity.node_topology
    if topology is None:
        return False
    return topology.match_labels.get(label[0]) == label[1] or not topology.match_labels
