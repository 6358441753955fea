"""A pod on its way through the scheduling queue, and what the queue remembers of its attempts.

`QueuedPod` belongs to the queue: others read it, and hand it back. Instants are seconds of the clock's `monotonic()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo

SortKey: TypeAlias = Callable[[PodInfo, float], Any]
"""(pod, when it was queued) -> something to order by; the smallest is tried first. As QueueSortPlugin.sort_key."""


def by_priority(pod: PodInfo, queued_at: float) -> tuple[int, float]:
    """The most important first; of equals, the one that has waited longest. What PrioritySort does."""
    return -pod.priority, queued_at


def uid_of(pod: Pod) -> str:
    """Who the pod is. One read from a file may have no uid; its name has to do then, as in PodInfo."""
    return pod.metadata.uid or pod.key


def is_over(pod: PodInfo, known: Pod | None) -> bool:
    """True if a pod no longer waits for a node: it is gone or going, another has its name, or it has its node.

    `known` is the pod of its name as the API has it now.
    """
    if known is None or uid_of(known) != pod.uid:
        return True
    return known.metadata.is_terminating or bool(known.spec.node_name)


class LeftBehind(NamedTuple):
    """What the last attempt to place a pod left behind. Set by whoever tried it."""

    tried_on: str = ""
    """The node that it was nominated to, or that the attempt chose; empty for neither."""
    refused_on: str = ""
    """The node that it was nominated to and that did not take it, or that it was sent to and did not reach, with
    nothing on its way out that would change it; empty when there is none. No room is held there."""
    is_like_others: bool = False
    """A pod that is refused by the same plugins, and seen alike by them, would meet the same decision."""


_NOTHING_LEFT: Final = LeftBehind()


@dataclass(slots=True, eq=False)
class QueuedPod:
    """One pod that waits to be placed, or is being placed.

    Failures count apart: `unschedulable_count` grows when plugins refuse the pod, `consecutive_errors` when something
    broke, and starts again with the next refusal. `attempts` counts pops.
    """

    info: PodInfo
    queued_at: float
    """When it was put in the queue last, by its creation or by a failed attempt."""
    sequence: int
    """Orders pods that were queued at the same instant."""
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    initial_attempt_at: float | None = None
    """When it could be tried for the first time; gates hold it off."""
    unschedulable_plugins: frozenset[str] = frozenset()
    """Who refused it, at the last attempt or before it could be queued."""
    pending_plugins: frozenset[str] = frozenset()
    """Who said that somebody else has to act first: when one is satisfied, the pod skips its backoff."""
    gating_plugin: str = ""
    backoff_until: float | None = None
    """The start of the second in which its backoff ends; None while nobody has asked."""
    flushed_at: float | None = None
    """When it was moved because it had waited too long; None if it was not since its last attempt."""
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
        """Every plugin that stands in its way; none after an error."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def is_gated(self) -> bool:
        """A PreEnqueue plugin keeps it from being tried at all."""
        return bool(self.gating_plugin)

    def waiting_since(self) -> float:
        """Since when nothing has moved it: its last attempt, or the last time it was flushed in vain."""
        return self.queued_at if self.flushed_at is None else max(self.queued_at, self.flushed_at)

    def failed(
        self, at: float, sequence: int, *, unschedulable_plugins: frozenset[str], pending_plugins: frozenset[str]
    ) -> None:
        """Take down how an attempt ended; with no plugin named it was an error. The pod queues up anew."""
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
