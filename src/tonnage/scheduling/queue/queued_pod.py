"""A pod in the scheduling queue, and what the queue remembers of its attempts.

`QueuedPod` belongs to the queue: others read it, and return it. Instants are seconds of the clock's `monotonic()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo

SortKey: TypeAlias = Callable[[PodInfo, float], Any]
"""(pod, when it was queued) -> a sort key; the smallest is tried first. Like QueueSortPlugin.sort_key."""


def by_priority(pod: PodInfo, queued_at: float) -> tuple[int, float]:
    """Highest priority first; among equals, the longest waiting. Like PrioritySort."""
    return -pod.priority, queued_at


def uid_of(pod: Pod) -> str:
    """The pod's uid. A pod from a file may have none; then its key, as in PodInfo."""
    return pod.metadata.uid or pod.key


def is_over(pod: PodInfo, known: Pod | None) -> bool:
    """True if a pod no longer waits: it is gone, terminating, replaced by another of its name, or has its node.
    `known`: the API's current pod of its name."""
    if known is None or uid_of(known) != pod.uid:
        return True
    return known.metadata.is_terminating or bool(known.spec.node_name)


class LeftBehind(NamedTuple):
    """What the last attempt to place a pod left behind. Set by the code that tried it."""

    tried_on: str = ""
    """The nominated node, or the node that the attempt chose; empty for neither."""
    refused_on: str = ""
    """The nominated node that refused it, or the chosen node that it did not reach, if no terminating pod there would
    help. No room is held there. Empty if there is none."""
    is_like_others: bool = False
    """True if pods refused by the same plugins, and alike to them, would get the same decision."""


_NOTHING_LEFT: Final = LeftBehind()


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod that waits to be placed, or is being placed. `unschedulable_count` grows when plugins refuse the pod;
    `consecutive_errors` on errors, and restarts with the next refusal. `attempts` counts pops."""

    info: PodInfo
    queued_at: float
    """When it was last queued, after its creation or a failed attempt."""
    sequence: int
    """Orders pods queued at the same instant."""
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    initial_attempt_at: float | None = None
    """When it could first be tried, after its gates."""
    unschedulable_plugins: frozenset[str] = frozenset()
    """The plugins that refused it, at the last attempt or before it could be queued."""
    pending_plugins: frozenset[str] = frozenset()
    """Plugins that wait for somebody else to act: when one is satisfied, the pod skips its backoff."""
    gating_plugin: str = ""
    backoff_until: float | None = None
    """The start of the second in which its backoff ends; None until it is computed."""
    flushed_at: float | None = None
    """When it was moved because it had waited too long; None if not since its last attempt."""
    left_behind: LeftBehind = _NOTHING_LEFT

    @property
    def pod(self) -> Pod:
        return self.info.pod

    @property
    def uid(self) -> str:
        return self.info.uid

    @property
    def profile(self) -> str:
        return self.info.pod.spec.scheduler_name

    @property
    def rejectors(self) -> frozenset[str]:
        """Every plugin that blocks it; empty after an error."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def is_gated(self) -> bool:
        """True if a PreEnqueue plugin blocks it from being tried."""
        return bool(self.gating_plugin)

    def waiting_since(self) -> float:
        """Since when nothing has moved it: its last attempt, or its last flush without success."""
        return self.queued_at if self.flushed_at is None else max(self.queued_at, self.flushed_at)

    def failed(
        self, at: float, sequence: int, *, unschedulable_plugins: frozenset[str], pending_plugins: frozenset[str]
    ) -> None:
        """Record how an attempt ended; without plugins it was an error. The pod is queued again."""
        self.unschedulable_plugins, self.pending_plugins = unschedulable_plugins, pending_plugins
        if self.rejectors:
            self.unschedulable_count += 1
            self.consecutive_errors = 0
        else:
            self.consecutive_errors += 1
        self.queued_at, self.sequence = at, sequence
        self.backoff_until = self.flushed_at = None
        self.gating_plugin = ""

    def __repr__(self) -> str:
        return f"QueuedPod({self.info.key}, attempts={self.attempts})"
