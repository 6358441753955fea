"""Domains: how many of the pods to spread among lie where, and what that means for a node, as tables by label value.

A domain is the nodes that share a value of a constraint's topology key. A hard constraint becomes a table of refusals
(`refusals`), a soft one a table of costs (`costs`); both are looked up for all nodes at once. Which pods and nodes
count is said in `constraints.py`; the plugin with the formulas is `plugins/pod_topology_spread.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tonnage.objects.core_v1.node import HOSTNAME
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ids, Ints, Mask, Rows
from tonnage.scheduling.cluster.row_counts import Floats, RowNumbers
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.spread.constraints import Constraint, included

CostsOf = Callable[[Rows], Floats]
"""What a constraint costs the nodes of some rows, not yet rounded."""

CROWDED: Final = 1
"""The bit of a refusal: the domain holds too many pods already."""
UNLABELLED: Final = 2
"""The bit of a refusal: the node is in no domain."""


@dataclass(frozen=True, slots=True)
class Topology:
    """One topology key over the rows in use: value ids, 0 where the label is missing, and how many ids there are."""

    ids: Ids
    size: int
    empty_id: int
    """The id of the value "", 0 when no node has it."""

    @property
    def is_there(self) -> bool:
        """Some node has, or had, a value of the key."""
        return self.size > 1

    @classmethod
    def of(cls, cluster: Cluster, key: str) -> Topology:
        found = cluster.labels.get(key)
        if found is None:
            return cls(np.zeros(cluster.size, dtype=np.int32), 1, 0)
        return cls(found.ids[: cluster.size], len(found.texts), found.id_of(""))


def lacking(labelled: Mask | None, rows: Rows) -> Mask | None:
    """Which of these rows lack one of the labels; None when none of them does."""
    if labelled is None:
        return None
    has_all: Mask = labelled[rows]
    return None if has_all.all() else ~has_all


def having(topologies: Sequence[Topology]) -> Mask | None:
    """Which rows have all of the labels; None when there are none to have.

    Asked once for all constraints of a pod, which may be thousands: each would ask about all the others.
    """
    found: Mask | None = None
    for topology in topologies:
        has_this: Mask = topology.ids != 0
        found = has_this if found is None else found & has_this
    return found


def _pods(
    cycle: Cycle, constraint: Constraint, topology: Topology, labelled: Mask | None, policy: Mask | None
) -> Floats:
    """By label value, the pods to spread among, on nodes that have all required labels and count by the policies."""
    where = constraint.counted(cycle.cluster)
    keep = None if labelled is None else labelled[where.rows]
    if policy is not None:
        keep = policy[where.rows] if keep is None else keep & policy[where.rows]
    return where.by_value(topology.ids, topology.size, keep)


def refusals(cycle: Cycle, constraint: Constraint, topology: Topology, labelled: Mask) -> Ints:
    """By label value: 0 where a hard constraint lets the pod in, else the bit of what it holds against the node."""
    policy = included(cycle, constraint)
    pods = _pods(cycle, constraint, topology, labelled, policy)
    ids = topology.ids[labelled if policy is None else labelled & policy]
    is_domain = np.bincount(ids, minlength=topology.size) > 0
    is_domain[0] = False
    fewest = pods[is_domain].min() if np.count_nonzero(is_domain) >= max(constraint.min_domains, 1) else 0
    skew = pods + constraint.matches(cycle.pod.labels) - fewest
    found: Ints = np.where(skew > constraint.max_skew, CROWDED, 0)
    found[0] = UNLABELLED
    return found


def costs(
    cycle: Cycle, constraint: Constraint, topology: Topology, labelled: Mask | None, scored: RowNumbers
) -> CostsOf:
    """What a soft constraint costs nodes; `scored` are the rows that are to be scored."""
    if constraint.topology_key == HOSTNAME:
        return _host_costs(cycle.cluster, constraint, topology, len(scored))
    return _domain_costs(cycle, constraint, topology, labelled, topology.ids[scored])


def _domain_costs(
    cycle: Cycle, constraint: Constraint, topology: Topology, labelled: Mask | None, scored_ids: Ids
) -> CostsOf:
    """Only with the system's defaults do nodes without the label take part: `labelled` is None then.

    They are one domain with those whose label is empty, as a missing entry of a Go map reads, but pay nothing for it.
    """
    pods = _pods(cycle, constraint, topology, labelled, included(cycle, constraint))
    is_domain = np.bincount(scored_ids, minlength=topology.size) > 0
    if topology.empty_id:
        pods[topology.empty_id] += pods[0]
        is_domain[topology.empty_id] |= is_domain[0]
        is_domain[0] = False
    by_value = pods * _weight(int(np.count_nonzero(is_domain))) + float(constraint.max_skew - 1)
    by_value[0] = 0.0
    return lambda rows: by_value.take(topology.ids[rows])


def _host_costs(cluster: Cluster, constraint: Constraint, topology: Topology, scored: int) -> CostsOf:
    """A hostname counts the pods of its node, whatever the policies say and however many nodes share the name."""
    least = float(constraint.max_skew - 1)
    by_row = np.where(topology.ids != 0, least, 0.0)
    where = constraint.counted(cluster)
    has_name = topology.ids[where.rows] != 0
    by_row[where.rows] = np.where(has_name, where.counts * _weight(scored) + least, 0.0)
    return lambda rows: by_row[rows]


def _weight(domains: int) -> float:
    """So that a few pods in many domains weigh as much as many pods in few."""
    return math.log(domains + 2)
