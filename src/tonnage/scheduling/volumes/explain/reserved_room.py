"""Who a pod waits for that would fit, were it not for capacity that is kept back for others: one sentence.

    0/14 nodes are available: 14 node(s) did not have enough free storage. Capacity is reserved for shop/db-1 since
    12:03:05Z and 2 more, 2 of 14 nodes.

It stands behind the reasons that Kubernetes counts and changes none of them. Nodes count here that would take all of
the pod's volumes if nothing were kept back of them (modes Object and Ledger). Of several holders the oldest is named:
it is the one whose time is up first, and the sentence stays the same while it waits. For the same reason it tells when
the reservation began, in UTC, and not how old it is: a text that changes every second is a new condition every second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.clock import rfc3339
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.joint_capacity import members_of
from tonnage.scheduling.volumes.demand import Demand
from tonnage.scheduling.volumes.reservations.holds import Hold
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.scheduling.volumes.volume_fit import ProvisioningDemand, VolumeFit

_MOST_OBJECTS: Final = 128
"""Holders are looked for on so many objects: a pod that waits for more than that is told of the first of them."""

RowNumbers = npt.NDArray[np.intp]


class ReservedRoom(NamedTuple):
    """On how many nodes a pod would fit but for reservations, and whose those are, the oldest first."""

    nodes: int
    holders: tuple[tuple[str, datetime], ...]
    """Each pod once, as namespace/name; where only its claim is known, that."""
    is_cut_off: bool = False
    """There are more than were looked for."""

    def told(self, node_count: int, now: datetime) -> str:
        """The sentence; empty when nobody is waited for."""
        if not self.nodes or not self.holders:
            return ""
        who, since = self.holders[0]
        more = ""
        if self.is_cut_off:
            more = " and others"
        elif len(self.holders) > 1:
            more = f" and {len(self.holders) - 1} more"
        return (
            f"Capacity is reserved for {who} since {told_time(since, now)}{more}, {self.nodes} of {node_count} nodes."
        )


def told_time(at: datetime, now: datetime) -> str:
    """`12:03:05Z` for a time of today, else with its date; both in UTC."""
    full = rfc3339(at)
    return full.partition("T")[2] if at.astimezone(UTC).date() == now.astimezone(UTC).date() else full


def reserved_room(fit: VolumeFit, demand: Demand, plain: ProvisioningDemand | None, rows: RowNumbers) -> ReservedRoom:
    """Of rows that were refused for want of free storage, those that wait for a reservation to end.

    `plain` is what is to be made on every row, where that is the same on all of them.
    """
    waiting = 0
    held: dict[str, CSIStorageCapacity] = {}
    for provisioning, places in _demands(fit, demand, plain, rows):
        units = [(fit.index.of(each.class_name), each.sizes) for each in provisioning.units]
        if not any(objects.has_holds(fit.policy) for objects, _ in units):
            continue
        left = rows[places]
        for objects, sizes in units:
            left = left[objects.fits_unheld(fit.policy, sizes, left)]
        waiting += len(left)
        # Holders are looked for on so many objects at most, so that no more nodes need be looked at for them.
        for objects, sizes in units:
            for number in objects.held_numbers(fit.policy, sizes, left[: _MOST_OBJECTS + 1]).tolist():
                for member in members_of(objects.entries[number].capacity):
                    held.setdefault(identity(member), member)
    own = {claim.key for claim in (*demand.pinned, *demand.loose, *(each.claim for each in demand.rebuilds))}
    looked_at = list(held.values())[:_MOST_OBJECTS]
    holders = _oldest_first(_holds(fit, looked_at), own)
    return ReservedRoom(waiting, holders, len(held) > _MOST_OBJECTS)


def _demands(
    fit: VolumeFit, demand: Demand, plain: ProvisioningDemand | None, rows: RowNumbers
) -> Iterable[tuple[ProvisioningDemand, RowNumbers]]:
    if plain is not None:
        yield plain, np.arange(len(rows))
        return
    for provisioning, places, _ in fit.provisioning_demands(demand, demand.rebuilds, rows):
        yield provisioning, places


def _holds(fit: VolumeFit, capacities: Sequence[CSIStorageCapacity]) -> Iterable[Hold]:
    cluster: Cluster = fit.cluster
    for each in capacities:
        if fit.policy.promised is not None:
            yield from cluster.index(Ledger).holds_on(identity(each))
        elif (hold := cluster.index(Reservations).hold_on(identity(each))) is not None:
            yield hold


def _oldest_first(holds: Iterable[Hold], own: set[Key]) -> tuple[tuple[str, datetime], ...]:
    since: dict[str, datetime] = {}
    for hold in holds:
        if not own.isdisjoint(hold.claims):
            continue  # what is kept for the pod itself is not in its way
        who = hold.pod or f"claim {hold.claims[0] if hold.claims else hold.capacity}"
        since[who] = min(hold.since, since.get(who, hold.since))
    return tuple(sorted(since.items(), key=lambda each: (each[1], each[0])))
