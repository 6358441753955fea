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

from collections.abc import Iterable

import numpy as np

from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.amounts import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, amounts, requests_of
from tonnage.scheduling.columns import Ints, Mask, Rows
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.framework import Cycle, EventHint, FilterPlugin, Judgement, ScorePlugin
from tonnage.scheduling.plugins.resource_scores import NATIVE, Shape, along, percent, uses
from tonnage.scheduling.pod_info import PodInfo

DEFAULT_RESOURCES = ((CPU, 1), (MEMORY, 1))


class NodeResourcesFit(FilterPlugin, ScorePlugin):
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

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        cluster = cycle.cluster
        pods = cluster.resource_id(PODS)
        too_many = cluster.requested[pods][rows] + 1 > cluster.allocatable[pods][rows]
        bits = too_many.astype(np.int64)
        reasons = ["Too many pods"]
        hopeless: Mask = np.zeros(bits.shape, dtype=np.bool_)
        for name, asked in self._asked(cycle):
            has = cluster.allocatable[cluster.resource_id(name)][rows]
            short = asked > has - cluster.requested[cluster.resource_id(name)][rows]
            bits |= short.astype(np.int64) << len(reasons)
            hopeless |= asked > has
            reasons.append(f"Insufficient {name}")
        return Judgement(bits, tuple(reasons), hopeless) if bits.any() else None

    def _asked(self, cycle: Cycle) -> list[tuple[str, int]]:
        """What the pod asks for and this plugin guards, native resources first, as upstream lists them."""
        requests = cycle.pod.requests
        native = [(name, requests[name]) for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if requests.get(name, 0) > 0]
        others = sorted((name, asked) for name, asked in requests.items() if name not in NATIVE and asked > 0)
        return native + [(name, asked) for name, asked in others if not self._is_ignored(name)]

    def _is_ignored(self, name: str) -> bool:
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        shape = cycle.cluster.exists[rows].shape
        total, weights = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for weight, has, in_use, asked in uses(cycle, self._resources, rows, scored=True):
            use = in_use + asked
            counts = has > 0
            if self._strategy == "LeastAllocated":
                part = np.where(use > has, 0, percent(has - use, has))
            elif self._strategy == "MostAllocated":
                part = percent(np.minimum(use, has), has)
            else:
                part = along(self._shape, np.where(use > has, 100, percent(use, has)))
                counts = counts & (part > 0)
            total += np.where(counts, weight * part, 0)
            weights += np.where(counts, weight, 0)
        if self._strategy == "RequestedToCapacityRatio":
            return _rounded(total, weights)
        mean = np.zeros_like(total)
        np.floor_divide(total, weights, out=mean, where=weights > 0)
        return mean


def _rounded(total: Ints, weights: Ints) -> Ints:
    """The mean, half away from zero; none of these is negative."""
    mean = np.zeros_like(total)
    np.floor_divide(2 * total + weights, 2 * weights, out=mean, where=weights > 0)
    return mean
