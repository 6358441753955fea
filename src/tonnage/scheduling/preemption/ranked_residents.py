"""What preemption knows of pods beforehand: those of every node by importance, as numbers, and their budgets.

    slot   row 0    row 1    row 2
    0      db       web      -           `ranked`: the numbers of the pods, 0 for none
    1      web      -        -
    2      batch    -        -

A pod on a node has a number, and under it a priority, a start, amounts and a kind, written when it comes; the ranks are
computed for each question. Amounts are kept for resources that were asked about. Pods of one kind cannot be told apart
by any selector.

A PodDisruptionBudget's status says how many disruptions it allows. Pods that are judged together use it up in their
order; pods that it lists as disrupted are counted already. Mirrors filterPodsWithPDBViolation: a missing, empty or
invalid selector matches no pod, and a pod without labels is never matched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.keyed import Shelf
from tonnage.objects.meta import Key
from tonnage.objects.requirements import InvalidSelector
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.cluster.cluster import Cluster, Observer
from tonnage.scheduling.cluster.columns import HostPort, HostPorts, Ids, Interner, Ints, Mask, grown
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PODS, PodInfo
from tonnage.scheduling.cluster.pod_matching import NOBODY, Labels, MatcherIndex, PodMatcher, requirements_of

Floats = npt.NDArray[np.float64]
RowNumbers = npt.NDArray[np.intp]

NO_POD: Final = int(np.iinfo(np.int64).max)
"""The priority where there is no pod: not lower than any pod's."""
NOWHERE = -1
"""The row of an unused number."""
NOT_STARTED = math.inf
"""The start of a pod that has not started: later than all others. (Upstream uses the time of the question.)"""
_FIRST_PODS = 64
_PRIORITY_BITS = 33

Kind = tuple[str, tuple[tuple[str, str], ...]]
"""Namespace and labels: pods that no selector can tell apart."""


def kind_of(pod: PodInfo) -> Kind:
    return pod.namespace, tuple(pod.labels.items())


def started_at(pod: PodInfo) -> float:
    """When a pod started, in seconds since 1970."""
    start = pod.pod.status.start_time
    return NOT_STARTED if start is None else start.timestamp()


class RankedResidents(Observer):
    """The pods on the nodes of a cluster, by number; 0 is no pod. Get it with `cluster.index(RankedResidents)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers: dict[str, int] = {}  # by uid
        self.pods: list[PodInfo | None] = [None]
        """What decisions read of a pod is up to date, other fields may be old."""
        self.priorities: Ints = np.full(_FIRST_PODS, NO_POD, dtype=np.int64)
        self.starts: Floats = np.full(_FIRST_PODS, NOT_STARTED)
        self.kinds: Ids = np.zeros(_FIRST_PODS, dtype=np.int32)
        """By pod number, the number of its kind in `known_kinds`."""
        self.known_kinds: Interner[Kind] = Interner()
        self._rows: Ids = np.full(_FIRST_PODS, NOWHERE, dtype=np.int32)
        self._amounts: dict[str, Ints] = {name: np.zeros(_FIRST_PODS, dtype=np.int64) for name in (CPU, MEMORY)}
        self._lowest: int | None = None
        self._free: list[int] = []
        self._by_ports: Shelf[tuple[HostPort, ...], int, int] = Shelf()
        """The numbers of pods by their host ports."""
        cluster.observe(self)

    # -- observing ----------------------------------------------------------------------------------------------------

    def resident_added(self, info: PodInfo, row: int) -> None:
        if self._free:
            number = self._free.pop()
            self.pods[number] = info
        else:
            number = len(self.pods)
            self.pods.append(info)
            if number == len(self._rows):
                self._grow(2 * number)
        self._numbers[info.uid] = number
        if info.host_ports:
            self._by_ports.put(info.host_ports, number, number)
        self._rows[number] = row
        self.priorities[number] = info.priority
        self.starts[number] = started_at(info)
        self.kinds[number] = self.known_kinds.hold(kind_of(info))
        for name, amounts in self._amounts.items():
            amounts[number] = info.requests.get(name, 0)
        if self._lowest is not None:
            self._lowest = min(self._lowest, info.priority)

    def resident_removed(self, info: PodInfo, row: int) -> None:
        number = self._numbers.pop(info.uid)
        self._by_ports.take(info.host_ports, number)
        if self.priorities.item(number) == self._lowest:
            self._lowest = None
        self.priorities[number] = NO_POD
        self.known_kinds.release(self.kinds.item(number))
        self.pods[number] = None
        self._rows[number] = NOWHERE
        self._free.append(number)

    def resident_started(self, info: PodInfo, row: int) -> None:
        self.starts[self._numbers[info.uid]] = started_at(info)

    def _grow(self, pods: int) -> None:
        self._rows, self.kinds = grown(self._rows, pods), grown(self.kinds, pods)
        self._rows[pods // 2 :] = NOWHERE
        self.priorities, self.starts = grown(self.priorities, pods), grown(self.starts, pods)
        self.priorities[pods // 2 :] = NO_POD
        self._amounts = {name: grown(amounts, pods) for name, amounts in self._amounts.items()}

    # -- asking -------------------------------------------------------------------------------------------------------

    @property
    def lowest(self) -> int:
        """The lowest priority of any pod; `NO_POD` if there is none."""
        if self._lowest is None:
            self._lowest = int(self.priorities.min())
        return self._lowest

    def amounts(self, resource: str) -> Ints:
        """By pod number, what the pod takes of a resource; of "pods" it takes one."""
        if resource == PODS:
            return np.ones(len(self._rows), dtype=np.int64)
        found = self._amounts.get(resource)
        if found is None:
            found = self._amounts[resource] = np.zeros(len(self._rows), dtype=np.int64)
            for number, pod in enumerate(self.pods):
                if pod is not None:
                    found[number] = pod.requests.get(resource, 0)
        return found

    def in_conflict(self, ports: Sequence[HostPort]) -> Mask:
        """By pod number, True if the pod has one of these host ports."""
        found: Mask = np.zeros(len(self._rows), dtype=np.bool_)
        for theirs in self._by_ports:
            taken = HostPorts()
            taken.add(theirs, 0)
            if taken.is_in_conflict(ports, 0):
                found[self._by_ports[theirs]] = True
        return found

    def ranked(self, rows: RowNumbers) -> Ids:
        """The numbers of the pods on these rows, by slot and place in `rows`, most important first."""
        place_of = np.full(self._cluster.capacity + 1, NOWHERE)  # the last place is for NOWHERE
        place_of[rows] = np.arange(len(rows))
        places = place_of[self._rows[: len(self.pods)]]
        numbers = self._by_importance(np.flatnonzero(places != NOWHERE), places)
        places = places[numbers]
        slots = np.arange(len(places)) - np.searchsorted(places, places)  # how many pods of its row come before
        found = np.zeros((int(slots.max(initial=-1)) + 1, len(rows)), dtype=np.int32)
        found[slots, places] = numbers
        return found

    def _by_importance(self, numbers: npt.NDArray[np.intp], places: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Pods by place, and within a place by `victims.importance`."""
        # One key for the place and the 32-bit priority: each key costs a sort.
        place = (places[numbers].astype(np.int64) << _PRIORITY_BITS) - self.priorities[numbers]
        starts = self.starts[numbers]
        order = np.lexsort((starts, place))
        numbers, place, starts = numbers[order], place[order], starts[order]
        is_other = (place[1:] != place[:-1]) | (starts[1:] != starts[:-1])
        # Equal pods go by name, as plain text: few pods of a node start within the same second.
        ends = np.concatenate(([0], np.flatnonzero(is_other) + 1, [len(numbers)]))
        several = np.flatnonzero(np.diff(ends) > 1)
        for start, end in zip(ends[several].tolist(), ends[several + 1].tolist(), strict=True):
            alike = [(pod.key, pod.uid, number) for number in numbers[start:end].tolist() if (pod := self.pods[number])]
            numbers[start:end] = [number for _, _, number in sorted(alike)]
        return numbers


_NO_LABELS: Labels = {}
_REMEMBERED = 65_536


class _Known(NamedTuple):
    budget: PodDisruptionBudget
    matcher: PodMatcher


class DisruptionBudgets:
    """The budgets of a cluster. Get it with `cluster.index(DisruptionBudgets)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._known: dict[Key, _Known] = {}
        self._index: MatcherIndex[Key] = MatcherIndex()
        self._meanings: dict[Kind, tuple[Key, ...]] = {}

    def put(self, budget: PodDisruptionBudget) -> None:
        """A budget came or changed."""
        matcher = _matcher_of(budget)
        before = self._known.get(budget.key)
        self._known[budget.key] = _Known(budget, matcher)
        if before is None or before.matcher != matcher:
            if before is not None:
                self._index.remove(before.matcher, budget.key)
            self._index.add(matcher, budget.key)
            self._meanings.clear()

    def remove(self, budget: PodDisruptionBudget) -> None:
        before = self._known.pop(budget.key, None)
        if before is not None:
            self._index.remove(before.matcher, budget.key)
            self._meanings.clear()

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, key: Key) -> PodDisruptionBudget:
        return self._known[key].budget

    def meaning(self, kind: Kind) -> tuple[Key, ...]:
        """The budgets that match pods of a kind."""
        found = self._meanings.get(kind)
        if found is None:
            namespace, labels = kind[0], dict(kind[1])
            candidates = self._index.candidates(namespace, labels) if labels else ()
            found = tuple(key for key in candidates if self._known[key].matcher.matches(namespace, labels, _NO_LABELS))
            if len(self._meanings) >= _REMEMBERED:
                self._meanings.clear()
            self._meanings[kind] = found
        return found

    def violated_by(self, pods: Sequence[PodInfo]) -> list[bool]:
        """For pods that go in this order: True for each that would violate a budget."""
        if not self._known:
            return [False] * len(pods)
        left: dict[Key, int] = {}
        violated = []
        for pod in pods:
            is_violated = False
            for key in self.meaning(kind_of(pod)):
                status = self._known[key].budget.status
                if pod.pod.name in status.disrupted_pods:
                    continue
                left[key] = left.get(key, status.disruptions_allowed) - 1
                is_violated = is_violated or left[key] < 0
            violated.append(is_violated)
        return violated


def _matcher_of(budget: PodDisruptionBudget) -> PodMatcher:
    selector = budget.spec.selector
    if selector is None or selector.is_empty:
        return NOBODY
    try:
        return PodMatcher(frozenset((budget.namespace,)), requirements_of(selector))
    except InvalidSelector:
        return NOBODY
