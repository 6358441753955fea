"""NodeResourcesFit: a node must have room for what the pod asks for, and is scored by how full it would be.

Filter counts real requests; every resource that does not suffice is named. A request that is larger than the whole node
cannot be helped by preemption. A resource the pod does not ask for never refuses it, even on an overcommitted node.

Score, by strategy, over the configured resources (CPU and memory by default, with something assumed for containers that
do not say):

    LeastAllocated              sum(weight * 100 * (allocatable - use) // allocatable) // sum(weight)
    MostAllocated               sum(weight * 100 * use // allocatable) // sum(weight)
    RequestedToCapacityRatio    the shape at 100 * use // allocatable; resources that score 0 leave the mean, rounded
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.cluster.amounts import CPU, MEMORY, PODS, amounts, is_extended, requests_of
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows, few_rows, only_row, row_count
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.shapes import Shape, along
from tonnage.scheduling.decision.nominated_room import SumsAsked, SumsFilter
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.framework import (
    Cycle,
    EventHint,
    Judgement,
    ScorePlugin,
)
from tonnage.scheduling.plugins.resource_scores import FEW_ROWS, UseAt, Uses, percent, uses, uses_at
from tonnage.scheduling.reason_bits import MAX_REASONS, OTHER_REASONS

DEFAULT_RESOURCES = ((CPU, 1), (MEMORY, 1))


class NodeResourcesFit(SumsFilter, ScorePlugin):
    """`ignored` and `ignored_groups` name extended resources that somebody else accounts for."""

    name = "NodeResourcesFit"
    row_local = True

    def __init__(
        self,
        *,
        strategy: str = "LeastAllocated",
        resources: tuple[tuple[str, int], ...] = DEFAULT_RESOURCES,
        shape: Shape = (),
        ignored: frozenset[str] = frozenset(),
        ignored_groups: frozenset[str] = frozenset(),
    ) -> None:
        self._strategy = strategy
        self._resources = resources
        self._shape = shape
        self._ignored = ignored
        self._ignored_groups = ignored_groups

    def events(self) -> Iterable[EventHint]:
        pod_less = ClusterEvent(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        node_more = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        return ((pod_less, self._room_made), (node_more, self._node_grown))

    def _room_made(self, pod: PodInfo, event: ClusterEvent, old: Pod, new: Pod | None) -> Hint:
        """A pod went, or asks for less, of something this one asks for; or this one itself asks for less."""
        if new is not None and new.metadata.uid == pod.uid:
            return QUEUE
        if not old.spec.node_name and not old.status.nominated_node_name:
            return NO_HELP
        if new is None:
            return QUEUE
        before, after = requests_of(old), requests_of(new)
        freed = (name for name in before if before[name] > after.get(name, 0))
        return QUEUE if any(pod.requests.get(name, 0) for name in freed) else NO_HELP

    def _node_grown(self, pod: PodInfo, event: ClusterEvent, old: Node | None, new: Node) -> Hint:
        """A node that could hold the pod if it were empty, and that is new or has more of what the pod asks for."""
        has = amounts(new.status.allocatable)
        guarded = {name: asked for name, asked in pod.requests.items() if asked > 0 and not self._is_ignored(name)}
        if any(asked > has.get(name, 0) for name, asked in guarded.items()) or not has.get(PODS, 0):
            return NO_HELP
        if old is None:
            return QUEUE
        had = amounts(old.status.allocatable)
        return QUEUE if any(has.get(name, 0) > had.get(name, 0) for name in (*guarded, PODS)) else NO_HELP

    def needs(self, pod: PodInfo, cluster: Cluster) -> Mapping[Hashable, int]:
        """What a refused pod needs of an event, whatever else it takes: that which the fewest nodes have now."""

        def nodes_with(each: tuple[str, int]) -> int:
            number = cluster.resources.find(each[0])
            if number is None:
                return -1
            return int(np.count_nonzero(cluster.allocatable[number] - cluster.requested[number] >= each[1]))

        name, amount = min(self.asked(pod), key=nodes_with)
        return {name: amount}

    def offer(self, cluster: Cluster, event: ClusterEvent, old: Any, new: Any) -> Mapping[Hashable, int] | None:
        """What is free on the node that an event is about; None when it is about none."""
        rows = row_about(cluster, old if new is None else new)
        if rows is None:
            return None
        row = only_row(rows)
        if row < 0:
            return {}
        free = cluster.allocatable[:, row] - cluster.requested[:, row]
        find, names = cluster.resources.find, cluster.resources.things
        return {name: int(free[number]) for name in names if (number := find(name)) is not None}

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        found: Hashable = pod.ordered_requests
        return found

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        return row_about(cluster, changed)

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        cluster = cycle.cluster
        asked = self.asked(cycle.pod)
        if (few := few_rows(rows, FEW_ROWS)) and all(_has_room(cluster, asked, row) for row in few):
            return None  # the rows that took the pods before take this one too: the usual case
        return self._judged(cluster, asked, rows, {})

    def filter_beside(self, cycle: Cycle, rows: Rows, taken: Mapping[str, Ints]) -> Judgement | None:
        return self._judged(cycle.cluster, self.asked(cycle.pod), rows, taken)

    def _judged(
        self, cluster: Cluster, asked: Sequence[tuple[str, int]], rows: Rows, taken: Mapping[str, Ints]
    ) -> Judgement | None:
        short: dict[int, Mask] = {}
        hopeless: Mask | bool = False
        for place, (name, amount) in enumerate(asked):
            number = cluster.resources.find(name)
            if number is None:  # no node has ever had any of it
                short[place] = np.ones(row_count(rows), dtype=np.bool_)
                hopeless = True
                continue
            has = cluster.allocatable[number][rows]
            left = has - cluster.requested[number][rows]
            if name in taken:
                left -= taken[name]
            is_short = left < amount
            if is_short.any():
                short[place] = is_short
                if name != PODS:
                    hopeless = hopeless | (has < amount)
        if not short:
            return None
        bits: Ints = np.zeros(row_count(rows), dtype=np.int64)
        for place, is_short in short.items():
            bits |= is_short.astype(np.int64) << min(place, MAX_REASONS - 1)
        return Judgement(bits, reasons_for(asked), hopeless)

    def passes_with_fewer_pods(self, cycle: Cycle) -> bool:
        return True

    def sums(self, pod: PodInfo) -> SumsAsked:
        asked = self.asked(pod)
        return SumsAsked(asked, reasons_for(asked))

    def asked(self, pod: PodInfo) -> list[tuple[str, int]]:
        """One pod more, and what the pod asks for, as far as this plugin guards it."""
        guarded = [each for each in pod.ordered_requests if each[1] > 0]
        if self._ignored or self._ignored_groups:
            guarded = [each for each in guarded if not self._is_ignored(each[0])]
        return [(PODS, 1), *guarded]

    def _is_ignored(self, name: str) -> bool:
        if not self._ignored and not self._ignored_groups:
            return False
        return is_extended(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        if self._strategy == "LeastAllocated" and (few := few_rows(rows, FEW_ROWS)):
            return np.array([_least(uses_at(cycle, self._resources, row, scored=True)) for row in few])
        found = uses(cycle, self._resources, rows, scored=True)
        weights, has, is_large = found.weights, found.has, found.is_large
        if not weights:
            return np.zeros(row_count(rows), dtype=np.int64)
        use = found.together
        if self._strategy == "RequestedToCapacityRatio":
            return self._ratio(use, found)
        if self._strategy == "LeastAllocated":
            np.subtract(has, use, out=use)
            parts = percent(np.maximum(use, 0, out=use), has, is_large=is_large)
        else:
            parts = percent(np.minimum(use, has, out=use), has, is_large=is_large)
        if set(weights) != {1}:
            parts *= np.array([weights]).T
        if found.is_everywhere:
            mean: Ints = np.add.reduce(parts) // sum(weights)
            return mean
        return _mean(np.add.reduce(parts), np.array(weights) @ (has > 0))

    def _ratio(self, use: Ints, found: Uses) -> Ints:
        """The mean of what the shape says, rounded half away from zero; what scores 0 does not count."""
        is_over = use > found.has
        parts = along(self._shape, np.where(is_over, 100, percent(use, found.has, is_large=found.is_large)))
        counts = (found.has > 0) & (parts > 0)
        weighted = np.array([found.weights]).T * counts
        total, weights = np.add.reduce(parts * weighted), np.add.reduce(weighted)
        return _mean(2 * total + weights, 2 * weights)


def reasons_for(asked: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """What is said when there is too little of something, in the order of `NodeResourcesFit.asked`; the last stands
    for all that have no bit of their own.
    """
    reasons = ["Too many pods", *(f"Insufficient {name}" for name, _ in asked[1:])]
    if len(reasons) > MAX_REASONS:
        reasons[MAX_REASONS - 1 :] = [OTHER_REASONS]
    return tuple(reasons)


def _has_room(cluster: Cluster, asked: list[tuple[str, int]], row: int) -> bool:
    find, has, taken = cluster.resources.find, cluster.allocatable, cluster.requested
    for name, amount in asked:
        number = find(name)
        if number is None or has.item(number, row) - taken.item(number, row) < amount:
            return False
    return True


def _least(found: list[UseAt]) -> int:
    """LeastAllocated of one row, in plain numbers."""
    total, weights = 0, 0
    for weight, has, in_use, asked in found:
        total += weight * (100 * max(has - in_use - asked, 0) // has)
        weights += weight
    return total // weights if weights else 0


def _mean(total: Ints, weights: Ints) -> Ints:
    """The quotient rounded down, and 0 where nothing takes part."""
    with np.errstate(divide="ignore"):
        found: Ints = total // weights
    return found
