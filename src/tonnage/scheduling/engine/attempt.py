"""What came of one attempt to place a pod: a placement that has to be carried out, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tonnage import logs
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.framework import SUCCESS, Code, Cycle, PostFilterPlugin, PostFilterResult, Status
from tonnage.scheduling.queue.queued_pod import QueuedPod

BROKEN = Status(Code.ERROR, ("a plugin failed; see the scheduler's log",))
"""What people are told when a plugin raises; the log has the rest."""

_log = logs.logger("tonnage.scheduler")


def broken(plugin: str, pod: PodInfo) -> Status:
    """Log what a plugin has just raised, with its traceback; what people are told of it."""
    _log.exception("A plugin failed", plugin=plugin, pod=pod.key)
    return BROKEN


class AttemptStage(Enum):
    """How far an attempt came before it was refused."""

    DECIDE = "PreFilter to Score"
    RESERVE = "Reserve"
    PERMIT = "Permit"
    PLACED = "reserved, assumed and permitted"


@dataclass(slots=True)
class Placement:
    """A pod on its way to a node: what it needs is reserved, and the cluster counts it there."""

    pod: PodInfo
    profile: Assembled
    cycle: Cycle
    node: str
    queued: QueuedPod | None = None
    """Set when the pod came from the queue."""


@dataclass(slots=True)
class Attempt:
    """One attempt. `placement` is set when the pod has a node; then somebody has to bind it, or withdraw it."""

    pod: PodInfo
    profile: Assembled
    stage: AttemptStage = AttemptStage.DECIDE
    decision: Decision | None = None
    """None when a plugin raised."""
    placement: Placement | None = None
    status: Status = SUCCESS
    """Why there is no placement. SUCCESS when the pod was placed, or when it fits nowhere: see `decision.diagnosis`."""
    waits: Mapping[str, float] = field(default_factory=dict)
    """Permit plugins that hold the placed pod back, with the seconds after which that counts as rejection."""
    explanation: Explanation | None = None
    exception: Exception | None = None
    decided_in_s: float = 0.0
    queued: QueuedPod | None = None
    """Set when the pod came from the queue."""


@dataclass(frozen=True, slots=True)
class PostFilterOutcome:
    """What PostFilter plugins found for a pod that fits nowhere, and which of them; None when nothing can help."""

    result: PostFilterResult
    plugin: PostFilterPlugin | None = None
