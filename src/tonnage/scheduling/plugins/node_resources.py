"""NodeResourcesFit, NodeResourcesBalancedAllocation, NodePorts, ImageLocality: what a node has left for a pod.

A resource takes part in a score on nodes that have it. An extended resource that the pod does not request takes no
part; ephemeral storage always does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial, reduce
from math import sqrt
from operator import add
from typing import Any

import numpy as np

from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling import framework
from tonnage.scheduling.cluster import columns
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, NATIVE, PODS, PodInfo, amounts, is_extended, requests_of
from tonnage.scheduling.configuration.plugin_args_rules import Shape, along
from tonnage.scheduling.decision.nominated_room import PortsFilter, SumsFilter
from tonnage.scheduling.events import NODE_ADD, QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.plugins.pod_and_node import reach_of_row

Use = tuple[int, Any, Any, Any]
"""A resource that takes part in a score: its weight, what a node has, and what is in use without and with the pod, at
most all. These are integers for one row, or arrays over rows."""


def scored(
    cycle: framework.Cycle,
    resources: tuple[tuple[str, int], ...],
    rows: columns.Rows,
    formula: Callable[[Sequence[Use]], Any],
    *,
    with_assumed: bool,
) -> columns.Ints:
    """The score by a formula, of the resources that take part. `with_assumed`: CPU and memory as scores count them.

    A formula has operators that integers and arrays share. A single row gets integers, which is faster; so does every
    row if products may exceed 64 bits.
    """
    cluster = cycle.cluster
    amounts = cycle.pod.scored_amounts if with_assumed else cycle.pod.requests
    parts = []
    for name, weight in resources:
        asked, number = amounts.get(name, 0), cluster.resources.find(name)
        if number is not None and (asked or name in NATIVE):  # otherwise no node has ever had it
            is_assumed = with_assumed and number < len(cluster.scored_usage)
            in_use = cluster.scored_usage if is_assumed else cluster.requested
            parts.append((weight, cluster.allocatable[number], in_use[number], asked))
    if (row := columns.only_row(rows)) >= 0:
        numbers = [row]
    elif cluster.counts_large or any(asked >= columns.LARGE for *_, asked in parts):
        numbers = columns.row_numbers(rows).tolist()
    else:
        found = formula([_use(part, part[1][rows], part[2][rows], np.minimum) for part in parts])
        return found if np.ndim(found) else np.full(columns.row_count(rows), found, dtype=np.int64)
    by_row = [formula([_use(each, each[1].item(row), each[2].item(row), min) for each in parts]) for row in numbers]
    return np.array(by_row, dtype=np.int64)


def _use(
    column: tuple[int, columns.Ints, columns.Ints, int], has: Any, in_use: Any, least: Callable[[Any, Any], Any]
) -> Use:
    return column[0], has, least(in_use, has), least(in_use + column[3], has)


DEFAULT_RESOURCES = ((CPU, 1), (MEMORY, 1))


class NodeResourcesFit(SumsFilter, framework.ScorePlugin):
    """Filters by real requests. Preemption cannot help a request that exceeds the whole node.

    Scores by strategy over the configured resources, with assumed requests for containers without any:

        LeastAllocated              sum(weight * 100 * (allocatable - use) // allocatable) // sum(weight)
        MostAllocated               sum(weight * 100 * use // allocatable) // sum(weight)
        RequestedToCapacityRatio    the shape at 100 * use // allocatable; resources that score 0 do not count

    `ignored` and `ignored_groups` are extended resources that another component checks.
    """

    name = "NodeResourcesFit"
    reach = reach_of_row
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
        self._formulas: dict[str, Callable[[Sequence[Use]], Any]] = {
            "LeastAllocated": partial(self._allocated, least=True),
            "MostAllocated": partial(self._allocated, least=False),
            "RequestedToCapacityRatio": self._ratio,
        }
        self._resources = resources
        self._shape = shape
        self._ignored = ignored
        self._ignored_groups = ignored_groups

    def events(self) -> Iterable[framework.EventHint]:
        pod_less = ClusterEvent(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        node_more = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        return ((pod_less, self._room_made), (node_more, self._node_grown))

    def _room_made(self, pod: PodInfo, event: ClusterEvent, old: Pod, new: Pod | None) -> Hint:
        """A pod that went, or requests less, used a resource that this pod requests; or this pod requests less."""
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
        """A node that could hold the pod if it were empty, and that is new or has more of what the pod requests."""
        has = amounts(new.status.allocatable)
        guarded = {name: asked for name, asked in pod.requests.items() if asked > 0 and not self._is_ignored(name)}
        if any(asked > has.get(name, 0) for name, asked in guarded.items()) or not has.get(PODS, 0):
            return NO_HELP
        if old is None:
            return QUEUE
        had = amounts(old.status.allocatable)
        return QUEUE if any(has.get(name, 0) > had.get(name, 0) for name in (*guarded, PODS)) else NO_HELP

    def needs(self, pod: PodInfo, cluster: Cluster) -> Mapping[Hashable, int]:
        """What a refused pod needs from an event at least: its request that the fewest nodes can meet now."""

        def nodes_with(each: tuple[str, int]) -> int:
            number = cluster.resources.find(each[0])
            if number is None:
                return -1
            return int(np.count_nonzero(cluster.allocatable[number] - cluster.requested[number] >= each[1]))

        name, amount = min(self.asked(pod), key=nodes_with)
        return {name: amount}

    def offer(self, cluster: Cluster, event: ClusterEvent, old: Any, new: Any) -> Mapping[Hashable, int] | None:
        """What is free on the node of an event; None if the event is about no node."""
        rows = row_about(cluster, old if new is None else new)
        if rows is None:
            return None
        row = columns.only_row(rows)
        if row < 0:
            return {}
        free = cluster.allocatable[:, row] - cluster.requested[:, row]
        find, names = cluster.resources.find, cluster.resources.things
        return {name: int(free[number]) for name in names if (number := find(name)) is not None}

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        return pod.ordered_requests

    def filter(self, cycle: framework.Cycle, rows: columns.Rows) -> framework.Judgement | None:
        if (row := columns.only_row(rows)) >= 0 and _has_room(cycle.cluster, self.asked(cycle.pod), row):
            return None  # preemption asks about single rows, thousands of times
        cluster, asked = cycle.cluster, self.asked(cycle.pod)
        bits: columns.Ints = np.zeros(columns.row_count(rows), dtype=np.int64)
        hopeless: columns.Mask = np.zeros(columns.row_count(rows), dtype=np.bool_)
        for place, (name, amount) in enumerate(asked):
            number = cluster.resources.find(name)
            if number is None:  # no node has ever had it
                bits |= 1 << min(place, columns.MAX_REASONS - 1)
                hopeless[:] = True
                continue
            has = cluster.allocatable[number, rows]
            is_short = has - cluster.requested[number, rows] < amount
            if is_short.any():
                bits |= is_short.astype(np.int64) << min(place, columns.MAX_REASONS - 1)
                hopeless |= (has < amount) & (name != PODS)
        return framework.Judgement(bits, reasons_for(asked), hopeless) if bits.any() else None

    def passes_with_fewer_pods(self, cycle: framework.Cycle) -> bool:
        return True

    def sums(self, pod: PodInfo) -> Sequence[tuple[str, int, str]]:
        asked = self.asked(pod)
        reasons = reasons_for(asked)
        return [(name, amount, reasons[min(place, len(reasons) - 1)]) for place, (name, amount) in enumerate(asked)]

    def asked(self, pod: PodInfo) -> list[tuple[str, int]]:
        """One pod, and the pod's requests that this plugin checks."""
        guarded = [each for each in pod.ordered_requests if each[1] > 0 and not self._is_ignored(each[0])]
        return [(PODS, 1), *guarded]

    def _is_ignored(self, name: str) -> bool:
        if not self._ignored and not self._ignored_groups:
            return False
        return is_extended(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)

    def score(self, cycle: framework.Cycle, rows: columns.Rows) -> columns.Ints:
        return scored(cycle, self._resources, rows, self._formulas[self._strategy], with_assumed=True)

    def _allocated(self, found: Sequence[Use], *, least: bool) -> Any:
        """The weighted mean, rounded down; 0 where no resource takes part."""
        total: Any = 0
        weights: Any = 0
        for weight, has, _, use in found:
            total = total + weight * _percent(has - use if least else use, has)
            weights = weights + weight * (has > 0)
        return total // (weights + (weights == 0))

    def _ratio(self, found: Sequence[Use]) -> Any:
        """The weighted mean of the shape's scores, rounded half away from zero; scores of 0 do not count."""
        total: Any = 0
        weights: Any = 0
        for weight, has, _, use in found:
            part = along(self._shape, np.asarray(_percent(use, has)))
            counts = (has > 0) & (part > 0)
            total, weights = total + weight * part * counts, weights + weight * counts
        return (2 * total + weights) // (2 * weights + (weights == 0))


def _percent(part: Any, whole: Any) -> Any:
    """100 * part // whole; 0 where `whole` is 0."""
    return 100 * part // (whole + (whole == 0))


def reasons_for(asked: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """The reason for each shortage, in the order of `NodeResourcesFit.asked`; the last one is for the rest."""
    reasons = ["Too many pods", *(f"Insufficient {name}" for name, _ in asked[1:])]
    if len(reasons) > columns.MAX_REASONS:
        reasons[columns.MAX_REASONS - 1 :] = [columns.OTHER_REASONS]
    return tuple(reasons)


def _has_room(cluster: Cluster, asked: list[tuple[str, int]], row: int) -> bool:
    find, has, taken = cluster.resources.find, cluster.allocatable, cluster.requested
    for name, amount in asked:
        number = find(name)
        if number is None or has.item(number, row) - taken.item(number, row) < amount:
            return False
    return True


class NodeResourcesBalancedAllocation(framework.PreScorePlugin, framework.ScorePlugin):
    """Prefers nodes whose resources are used more evenly with the pod.

        evenness(f) = int((1 - std(f)) * 100),  f = use / allocatable of each resource, at most 1
        score       = 50 + trunc((50 + evenness with the pod - evenness without it) / 2)

    A pod that requests none of the resources is not scored.
    """

    name = "NodeResourcesBalancedAllocation"
    row_local = True

    def __init__(self, resources: tuple[tuple[str, int], ...] = DEFAULT_RESOURCES) -> None:
        self._resources = resources

    def pre_score(self, cycle: framework.Cycle) -> framework.Status | None:
        requests = cycle.pod.requests
        for name, _ in self._resources:
            if requests.get(name):
                return None
        return framework.SKIP

    def score(self, cycle: framework.Cycle, rows: columns.Rows) -> columns.Ints:
        return scored(cycle, self._resources, rows, _balance, with_assumed=False)


def _balance(found: Sequence[Use]) -> Any:
    evenness: Callable[[Any], Any] = _evenness_at if not found or isinstance(found[0][1], int) else _evenness
    before, after = (evenness([(use[place], use[1]) for use in found]) for place in (2, 3))
    # Fractions of 0 to 1 deviate by at most 0.5: this is never negative, so rounding down truncates.
    return framework.MAX_SCORE // 2 + (framework.MAX_SCORE // 2 + after - before) // 2


def _evenness_at(uses: Sequence[tuple[int, int]]) -> int:
    """100 if the resources of one row, given by (use, whole), are equally used, less the more they differ: by their
    standard deviation, which is half the distance of two. Sums run in the order of the resources, like Go's: the last
    bit can decide a whole point."""
    fractions = [float(use) / float(has) for use, has in uses if has]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs(fractions[0] - fractions[1]) / 2
    elif len(fractions) > 2:
        mean = reduce(add, fractions) / len(fractions)
        deviation = sqrt(reduce(add, [(fraction - mean) ** 2 for fraction in fractions]) / len(fractions))
    return int((1 - deviation) * framework.MAX_SCORE)


def _evenness(uses: Sequence[tuple[columns.Ints, columns.Ints]]) -> columns.Ints:
    """`_evenness_at` of many rows."""
    if len(uses) == 2 and all(has.all() for _, has in uses):  # nearly every profile and cluster
        first, second = (use / has for use, has in uses)
        return ((1 - np.abs(first - second) / 2) * framework.MAX_SCORE).astype(np.int64)
    use, has = np.array(uses).swapaxes(0, 1)
    fractions = np.divide(use, has, out=np.zeros(has.shape), where=has > 0)
    counts = np.count_nonzero(has, axis=0)
    some = np.maximum(counts, 1)
    mean = fractions.cumsum(axis=0)[-1] / some
    squares = np.where(has > 0, (fractions - mean) ** 2, 0.0).cumsum(axis=0)[-1]
    ordered = np.sort(fractions, axis=0)  # a missing resource counts as 0
    of_two = (ordered[-1] - ordered[-2]) / 2 if len(uses) > 1 else np.zeros(len(counts))
    deviation = np.where(counts > 2, np.sqrt(squares / some), np.where(counts == 2, of_two, 0.0))
    evenness: columns.Ints = ((1 - deviation) * framework.MAX_SCORE).astype(np.int64)
    return evenness


class NodePorts(framework.PreFilterPlugin, PortsFilter):
    name = "NodePorts"
    reach = reach_of_row
    row_local = True
    reason = "node(s) didn't have free ports for the requested pod ports"

    def events(self) -> Iterable[framework.EventHint]:
        return ((ClusterEvent(EventResource.POD, ActionType.DELETE), _port_freed), (NODE_ADD, None))

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable:
        return pod.host_ports

    def pre_filter(self, cycle: framework.Cycle) -> framework.Status | None:
        return None if cycle.pod.host_ports else framework.SKIP

    def filter(self, cycle: framework.Cycle, rows: columns.Rows) -> framework.Judgement | None:
        ports = cycle.cluster.ports
        if (row := columns.only_row(rows)) >= 0:
            is_taken = ports.is_in_conflict(cycle.pod.host_ports, row)
            return framework.refuse(np.array([True]), self.reason, unresolvable=False) if is_taken else None
        taken = ports.rows_in_conflict(cycle.pod.host_ports)
        if not taken:
            return None
        return framework.refuse(columns.among(taken, rows, cycle.cluster.size), self.reason, unresolvable=False)

    def passes_with_fewer_pods(self, cycle: framework.Cycle) -> bool:
        return True


def _port_freed(pod: PodInfo, event: ClusterEvent, old: Pod, new: None) -> Hint:
    """A pod that was on a node, or nominated there, used a port that this pod wants."""
    if not old.spec.node_name and not old.status.nominated_node_name:
        return NO_HELP
    freed = columns.HostPorts()
    freed.add(PodInfo(old).host_ports, 0)
    return QUEUE if freed.rows_in_conflict(pod.host_ports) else NO_HELP


_MB = 1024 * 1024
_LOW = 23 * _MB
_HIGH_PER_CONTAINER = 1000 * _MB
_REMEMBERED = 64


class ImageLocality(framework.ScorePlugin):
    """A node that has the images already starts the pod sooner.

        sum    = over the pod's images: size on this node * (nodes that have it) / (all nodes)
        score  = 100 * (clamp(sum, low, high) - low) / (high - low),  low = 23 MB, high = 1000 MB a container

    The share of nodes lowers the score of an image that only one node has; because it depends on all nodes, the plugin
    is not row-local. Upstream uses an image's size on the first node it saw; we use each node's own.
    """

    name = "ImageLocality"

    def __init__(self) -> None:
        self._ready: dict[tuple[str, ...], columns.Ints] = {}
        self._as_of: Hashable = None

    def score(self, cycle: framework.Cycle, rows: columns.Rows) -> columns.Ints | None:
        cluster, images = cycle.cluster, cycle.pod.images
        if not any(cluster.images.where(image) for image in images):
            return None
        as_of = (id(cluster), cluster.count, cluster.capacity, cluster.images.tick)
        if as_of != self._as_of or len(self._ready) > _REMEMBERED:
            self._ready.clear()
            self._as_of = as_of
        if images not in self._ready:
            self._ready[images] = _scores(cluster, images)
        return self._ready[images][rows]


def _scores(cluster: Cluster, images: tuple[str, ...]) -> columns.Ints:
    """By row, the score for a pod whose containers run these images."""
    total = np.zeros(cluster.capacity, dtype=np.int64)
    for image in images:
        if sizes := cluster.images.where(image):
            here = np.fromiter(sizes.values(), np.int64, len(sizes))
            total[list(sizes)] += (here * (len(sizes) / cluster.count)).astype(np.int64)
    high = _HIGH_PER_CONTAINER * len(images)
    found: columns.Ints = framework.MAX_SCORE * (np.clip(total, _LOW, high) - _LOW) // (high - _LOW)
    return found
