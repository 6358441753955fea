"""Rows of capacity objects: which nodes they reach, what is free, and what is kept back for whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.model.selected_labels import labels_of_topology
from tonnage.dashboard.wire.rows import CapacityRow, ReservedRow
from tonnage.objects.selectors import InvalidSelector, LabelSelector
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.configuration.storage_capacity_args import Reservation
from tonnage.scheduling.volumes.capacity.pools import told_pools
from tonnage.whatif.scheduler_memory import RememberedCapacity

MOST_NODES: Final = 64
"""Of how many nodes a row tells the names."""


def row_of(
    capacity: CSIStorageCapacity, nodes: Sequence[str], held: Sequence[tuple[RememberedCapacity, str]], stale: str
) -> CapacityRow:
    """`nodes` are those it reaches, sorted; `held` is what is kept back, with the class it is for if another's."""
    pools = told_pools(capacity)
    free = capacity.capacity if capacity.capacity is not None else capacity.maximum_volume_size
    return CapacityRow(
        storage_class=capacity.storage_class_name,
        nodes=tuple(nodes[:MOST_NODES]),
        node_count=len(nodes),
        pools=pools or ((free.value(),) if free is not None else ()),
        tells_pools=bool(pools),
        capacity=capacity.capacity.value() if capacity.capacity is not None else None,
        largest=capacity.maximum_volume_size.value() if capacity.maximum_volume_size is not None else None,
        told_at=capacity.figures_at,
        stale=stale,
        reserved=tuple(_reserved(each, of_class) for each, of_class in held),
        left=_left(capacity, pools, [each for each, _ in held]),
    )


def _reserved(each: RememberedCapacity, of_class: str) -> ReservedRow:
    return ReservedRow(
        mode=str(each.mode),
        pod=each.pod,
        claims=tuple(each.claims),
        bytes=each.bytes,
        since=each.since,
        why=each.why,
        storage_class=of_class,
    )


def _left(capacity: CSIStorageCapacity, pools: Sequence[int], held: Sequence[RememberedCapacity]) -> int | None:
    if any(each.mode is Reservation.OBJECT for each in held):
        return 0
    if not pools and capacity.capacity is None:
        return None
    free = sum(pools) if pools else capacity.capacity.value() if capacity.capacity is not None else 0
    return max(free - sum(each.bytes for each in held), 0)


def reached(objects: KnownObjects, topology: LabelSelector | None) -> list[str]:
    """Names of the nodes that a selector reaches, sorted: none for an absent one, all for an empty one."""
    if topology is None:
        return []
    labels = labels_of_topology(topology)
    candidates: Iterable[str] = objects.nodes
    if labels:
        candidates = {name for label in labels for name in objects.nodes_by_label[label]}
    try:
        return sorted(name for name in candidates if topology.matches(objects.nodes[name].metadata.labels))
    except InvalidSelector:  # the scheduler passes such an object over as well
        return []


def classes_of(objects: KnownObjects, held: RememberedCapacity) -> set[str]:
    """Classes of the claims that something is kept back for, as far as they are known."""
    return {found.class_name for each in held.claims if (found := objects.claims.get(each)) is not None}
