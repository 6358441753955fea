"""PodDisruptionBudgets for preemption: which pods would violate a budget by going.

A budget's status says how many disruptions it allows. Pods that are judged together use it up in their order; pods that
it lists as disrupted are counted already. Mirrors filterPodsWithPDBViolation: a missing, empty or invalid selector
matches no pod, and a pod without labels is never matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tonnage.objects.meta import Key
from tonnage.objects.requirements import InvalidSelector
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.pod_matching import NOBODY, Labels, MatcherIndex, PodMatcher, requirements_of
from tonnage.scheduling.preemption.ranked_residents import Kind, kind_of

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
