"""The indexes that are kept beside a cluster, and the order in which they are told of changes.

All of them are added here and nowhere else, so that the order of listeners is the same in every program and every test:
the capacity index hears of an object before the ledger that reads it does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.residents import Residents
from tonnage.scheduling.plugins.volume_constraints import MountedDisks
from tonnage.scheduling.preemption.candidates_by_sums import BudgetsByKind
from tonnage.scheduling.preemption.disruption_budgets import DisruptionBudgets
from tonnage.scheduling.preemption.ranked_residents import RankedResidents
from tonnage.scheduling.spread.affinity_terms import CarriedTerms
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.hints import TopologyKeys
from tonnage.scheduling.volumes.rebuilds import ToldRebuilds, VolumePlaces
from tonnage.scheduling.volumes.reservations.holds import Refusals, ServerTime
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.scheduling.volumes.static_volumes import StaticVolumes

INDEXES: Final[tuple[type, ...]] = (
    DisruptionBudgets,
    Residents,
    CarriedTerms,
    RankedResidents,
    BudgetsByKind,  # reads the two above
    CapacityIndex,
    StaticVolumes,
    AttachedVolumes,
    VolumePlaces,
    ToldRebuilds,
    TopologyKeys,
    MountedDisks,
    Refusals,
    ServerTime,
    Reservations,  # read the two above and the capacity index, as the next does
    Ledger,
)


def add_indexes(cluster: Cluster, wanted: Iterable[type] = INDEXES) -> Cluster:
    """Add the wanted indexes that a cluster does not have yet, in the order above; the same cluster."""
    kinds = set(wanted)
    if unknown := kinds - set(INDEXES):
        names = ", ".join(sorted(each.__name__ for each in unknown))
        raise LookupError(f"there is no index {names}; add it to engine/indexes.py")
    for kind in INDEXES:
        if kind in kinds and not cluster.has_index(kind):
            cluster.add_index(kind(cluster))
    return cluster
