"""What a preemption would cost, and which of several is the cheapest.

One after the other, the next only where all before it are equal:

    1. the fewest victims that go against a PodDisruptionBudget
    2. the least important victim, where each node is known by its most important one (its priority)
    3. the smallest sum of priorities, each counted from the lowest there is, so that one pod less is always less
    4. the fewest victims
    5. the latest start, where each node is known by the earliest among its victims of the highest priority
    6. the first row

Mirrors pickOneNodeForPreemption. Its last resort is the order of a Go map; ours repeats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tonnage.scheduling.cluster.pod_info import PodInfo

PRIORITY_OFFSET = 2**31
"""Priorities are 32-bit integers; with this added none is negative."""

NOT_STARTED = math.inf
"""The start of a pod that has not said when it started: later than all others. (Upstream takes the time of asking.)"""

Cost = tuple[int, int, int, int, float, int]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row where the pod would fit without `victims`, which are never none and come the most important first."""

    row: int
    victims: tuple[PodInfo, ...]
    violations: int
    """How many of the victims go against a PodDisruptionBudget."""

    @property
    def cost(self) -> Cost:
        first = self.victims[0]  # of its priority it started first, too
        total = sum(victim.priority + PRIORITY_OFFSET for victim in self.victims)
        return self.violations, first.priority, total, len(self.victims), -started_at(first), self.row


def started_at(pod: PodInfo) -> float:
    """When a pod started, in seconds since 1970."""
    start = pod.pod.status.start_time
    return NOT_STARTED if start is None else start.timestamp()


def importance(pod: PodInfo) -> tuple[int, float, str, str]:
    """Pods in ascending order of this are the most important first: by priority, and of equal ones the older.

    Mirrors MoreImportantPod. Equals go by name, so that a decision repeats.
    """
    return -pod.priority, started_at(pod), pod.key, pod.uid
