"""What the parts of the live scheduler share, so that each is handed one thing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tonnage.client.leadership import Leadership
from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key
from tonnage.scheduler.binding_api import BindingApi
from tonnage.scheduler.bindings_under_way import BindingSlots, PodsInPreBind, PreBindWaits, WaitingPods
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.nominations import StatusWrites
from tonnage.scheduler.pod_status import Events
from tonnage.scheduler.pod_traces import PodTraces
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.queue.queued_pod import is_over


class PodWrites(StatusWrites, Protocol):
    """The calls of a client that change pods other than by binding them."""

    async def delete(self, kind: type[Pod], key: str, *, uid: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class SchedulerContext:
    """One live scheduler: its engine, its way to the API server, and what its bindings are doing."""

    engine: Engine
    client: PodWrites
    api: BindingApi
    events: Events
    metrics: SchedulerMetrics
    newest: Callable[[Key], Pod | None]
    """A pod as the informer knows it now, None when it is gone."""
    waits: PreBindWaits
    shows_nominations: bool = True
    """The gate NominatedNodeNameForExpectation."""
    leadership: Leadership | None = None
    """Without leader election there is none, and nobody to make way for."""
    telling: StatusWrites | None = None
    """The client that tells people what became of pods, with a limit of its own; None is `client`."""
    slots: BindingSlots = field(default_factory=BindingSlots)
    waiting_pods: WaitingPods = field(default_factory=WaitingPods)
    in_pre_bind: PodsInPreBind = field(default_factory=PodsInPreBind)
    traces: PodTraces | None = None
    """Where pods are followed from queue to binding, if anywhere."""
    rng: random.Random = field(default_factory=random.Random)
    """For pauses between tries; not the engine's, whose draws are decisions."""

    @property
    def is_deposed(self) -> bool:
        """Another may lead by now: what is under way is dropped, and nobody is told what became of it."""
        return self.leadership is not None and self.leadership.is_over

    def is_over(self, pod: PodInfo) -> bool:
        """True if nothing is to be done for a pod any more: it is gone or going, or has its node."""
        return is_over(pod, self.newest(pod.key))

    @property
    def clock(self) -> Clock:
        return self.engine.clock
