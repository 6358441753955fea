"""NodeResourcesFit and NodeResourcesBalancedAllocation: is there room for a pod, and how full would the node be?

A resource takes part in a score on a node that has some of it. An extended resource that the pod does not ask for takes
no part at all; ephemeral storage always does.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.cluster.amounts import CPU, MEMORY, NATIVE, PODS, amounts, is_extended, requests_of
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import LARGE, MOST, Ints, Mask, Rows, few_rows, grown, only_row, row_count
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args_rules import Shape, along
from tonnage.scheduling.decision.nominated_room import SumsAsked, SumsFilter
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    Cycle,
    EventHint,
    Judgement,
    PreScorePlugin,
    ScorePlugin,
    Status,
)
from tonnage.scheduling.framework.plugin import MAX_REASONS, OTHER_REASONS

_CPU_AND_MEMORY = [0, 1]
"""Their places in `Cluster.scored_usage`, which has no others, and in the cluster's other tables."""


FEW_ROWS = 4
"""Up to so many rows are scored one by one."""


class Uses(NamedTuple):
    """R resources that take part, over k rows. Not to be written to: some are views of the cluster's columns."""

    numbers: list[int]
    """Their places in the cluster's tables."""
    weights: tuple[int, ...]
    has: Ints
    """R x k: allocatable."""
    in_use: Ints
    """R x k."""
    asked: Ints
    """R x 1: what the pod would add."""
    is_large: bool = False
    """Sums and products of these may be more than 64 bits hold."""

    @property
    def together(self) -> Ints:
        """R x k: what is in use with the pod, as far as 64 bits go; a new array."""
        if not self.is_large:
            return self.in_use + self.asked
        return np.minimum(self.in_use, MOST - self.asked) + self.asked

    @property
    def is_everywhere(self) -> bool:
        """Every row has some of every resource."""
        return bool(np.minimum.reduce(self.has, axis=None, initial=1) > 0)


def uses(cycle: Cycle, resources: tuple[tuple[str, int], ...], rows: Rows, *, scored: bool) -> Uses:
    """Room, use and demand of each resource that takes part, in their order.

    With `scored`, CPU and memory are the figures with something assumed for containers that do not say.
    """
    cluster = cycle.cluster
    amounts = cycle.pod.scored_amounts if scored else cycle.pod.requests
    numbers, weights, asked = [], [], []
    for name, weight in resources:
        amount = amounts.get(name, 0)
        number = cluster.resources.find(name)
        if number is not None and (amount or name in NATIVE):  # else no node has ever had any of it
            numbers.append(number)
            weights.append(weight)
            asked.append([amount])
    used = picked(cluster.requested, numbers, rows)
    if scored and numbers == _CPU_AND_MEMORY:
        used = cluster.scored_usage[:, rows]
    elif scored:
        for place, number in enumerate(numbers):
            if number in _CPU_AND_MEMORY:
                used[place] = cluster.scored_usage[number, rows]
    return Uses(
        numbers,
        tuple(weights),
        picked(cluster.allocatable, numbers, rows),
        used,
        np.array(asked, dtype=np.int64).reshape(len(numbers), 1),
        cluster.counts_large or any(amount >= LARGE for (amount,) in asked),
    )


def picked(table: Ints, numbers: list[int], rows: Rows) -> Ints:
    """R x k: some of the resources in one of the cluster's tables; of CPU and memory it may be a view."""
    if numbers == _CPU_AND_MEMORY:  # what nearly every profile looks at: no need to gather them
        return table[:2, rows]
    return table[numbers][:, rows]


UseAt = tuple[int, int, int, int]
"""One resource that takes part, on one row that has some of it: weight, has, in use, asked."""


def uses_at(cycle: Cycle, resources: tuple[tuple[str, int], ...], row: int, *, scored: bool) -> list[UseAt]:
    """The same as `uses`, of one row."""
    cluster = cycle.cluster
    amounts = cycle.pod.scored_amounts if scored else cycle.pod.requests
    found = []
    for name, weight in resources:
        amount = amounts.get(name, 0)
        number = cluster.resources.find(name)
        if number is not None and (amount or name in NATIVE) and (has := cluster.allocatable.item(number, row)):
            used = cluster.scored_usage if scored and number in _CPU_AND_MEMORY else cluster.requested
            found.append((weight, has, used.item(number, row), amount))
    return found


def percent(part: Ints, whole: Ints, *, is_large: bool = False) -> Ints:
    """100 * part // whole, and 0 where there is no whole. Written over `part`."""
    if is_large:
        exact = part.astype(object) * 100 // np.where(whole == 0, 1, whole).astype(object)
        return np.where(whole == 0, 0, exact).astype(np.int64)
    part *= 100
    with np.errstate(divide="ignore"):
        part //= whole  # numpy's answer to an integer divided by 0 is 0
    return part


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


Fractions = npt.NDArray[np.float64]


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    name = "NodeResourcesBalancedAllocation"
    row_local = True

    def __init__(self, resources: tuple[tuple[str, int], ...] = DEFAULT_RESOURCES) -> None:
        self._resources = resources
        self._as_it_is = _AsItIs()

    def pre_score(self, cycle: Cycle) -> Status | None:
        requests = cycle.pod.requests
        for name, _ in self._resources:
            if requests.get(name):
                return None
        return SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        if few := few_rows(rows, FEW_ROWS):
            return np.array([_score_at(uses_at(cycle, self._resources, row, scored=False)) for row in few])
        found = uses(cycle, self._resources, rows, scored=False)
        gain = _evenness(found.together, found.has) - self._as_it_is.evenness(cycle.cluster, found, rows)
        # Fractions of 0 to 1 deviate by 0.5 at most: this is never negative, and rounding down is truncating.
        score: Ints = MAX_SCORE // 2 + (MAX_SCORE // 2 + gain) // 2
        return score


class _AsItIs:
    """How evenly each row is used without the pod: the same for all pods, and kept until a row changes.

    It saves unlike pods a third of their time: for 5,000 rows the score takes 90 µs and not 140.
    """

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._numbers: list[int] = []
        self._as_of = -1
        self._known: Ints = np.zeros(0, dtype=np.int64)

    def evenness(self, cluster: Cluster, found: Uses, rows: Rows) -> Ints:
        if cluster is not self._cluster or found.numbers != self._numbers:
            self._cluster, self._numbers, self._as_of = cluster, found.numbers, -1
            self._known = np.zeros(cluster.capacity, dtype=np.int64)
        if self._as_of != cluster.changes.tick:
            self._known = grown(self._known, cluster.capacity) if len(self._known) < cluster.capacity else self._known
            changed = cluster.all_rows if self._as_of < 0 else cluster.changes.since(self._as_of, cluster.size)
            use, has = (picked(table, self._numbers, changed) for table in (cluster.requested, cluster.allocatable))
            self._known[changed] = _evenness(use, has)
            self._as_of = cluster.changes.tick
        return self._known[rows]


def _evenness(use: Ints, has: Ints) -> Ints:
    """100 for a row whose resources are used alike, less the more they differ; both are R x k."""
    if len(has) == 2 and np.minimum.reduce(has, axis=None, initial=1) > 0:
        # What nearly every profile asks of nearly every cluster. One resource at a time: smaller arrays are nearer.
        std: Fractions = np.minimum(use[0] / has[0], 1.0)
        std -= np.minimum(use[1] / has[1], 1.0)
        np.abs(std, out=std)
        std /= 2
    else:
        std = _deviation(use, has)
    np.subtract(1, std, out=std)
    std *= MAX_SCORE
    found: Ints = std.astype(np.int64)
    return found


def _deviation(use: Ints, has: Ints) -> Fractions:
    """The standard deviation over the resources a row has; of two it is half their distance, of fewer 0.

    Sums run in the order of the resources, as Go's do: the last bit decides about a whole point.
    """
    fractions = np.zeros(use.shape)
    np.divide(use, has, out=fractions, where=has > 0)
    np.minimum(fractions, 1.0, out=fractions)
    total, squares, distance = np.zeros((3, has.shape[1]))
    counts = np.zeros(has.shape[1], dtype=np.int64)
    for fraction, room in zip(fractions, has, strict=True):
        distance += np.where(counts == 0, fraction, -fraction)  # only looked at where there are two
        total += fraction
        counts += room > 0
    some = np.maximum(counts, 1)
    mean = total / some
    for fraction, room in zip(fractions, has, strict=True):
        squares += np.where(room > 0, (fraction - mean) * (fraction - mean), 0.0)
    several: Fractions = np.sqrt(squares / some)
    return np.where(counts == 2, np.abs(distance / 2), np.where(counts > 2, several, 0.0))


# -- one row, in plain numbers ----------------------------------------------------------------------------------------


def _score_at(found: list[UseAt]) -> int:
    before = _evenness_at([min(in_use / has, 1.0) for _, has, in_use, _ in found])
    after = _evenness_at([min((in_use + asked) / has, 1.0) for _, has, in_use, asked in found])
    return MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2


def _evenness_at(fractions: list[float]) -> int:
    std = 0.0
    if len(fractions) == 2:
        std = abs(fractions[0] - fractions[1]) / 2
    elif len(fractions) > 2:
        mean = _sum(fractions) / len(fractions)
        std = math.sqrt(_sum([(each - mean) * (each - mean) for each in fractions]) / len(fractions))
    return int((1 - std) * MAX_SCORE)


def _sum(numbers: list[float]) -> float:
    """The sum as Go's loop makes it: from Python 3.12 on, the built-in one is more exact than that."""
    total = 0.0
    for number in numbers:
        total += number
    return total
