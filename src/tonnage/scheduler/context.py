"""The state that the parts of the live scheduler share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tonnage.client.http import Client
from tonnage.client.leadership import Leadership
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key
from tonnage.scheduler.bindings_under_way import BindingSlots, PodsInPreBind, PreBindWaits, WaitingPod
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.pod_traces import PodTraces
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.queue.waiting_pods import is_over


@dataclass(frozen=True, slots=True)
class SchedulerContext:
    """One live scheduler: its engine, its API client, and the state of its bindings."""

    engine: Engine
    client: Client
    events: Recorder
    metrics: SchedulerMetrics
    newest: Callable[[Key], Pod | None]
    """The informer's current pod; None if it is gone."""
    waits: PreBindWaits
    traces: PodTraces
    shows_nominations: bool = True
    """The gate NominatedNodeNameForExpectation."""
    leadership: Leadership | None = None
    """None without leader election."""
    telling: Client | None = None
    """The client for events and conditions, with its own request limit; None: `client`."""
    slots: BindingSlots = field(default_factory=BindingSlots)
    waiting_pods: dict[str, WaitingPod] = field(default_factory=dict)
    """The pods that wait in Permit, by uid."""
    in_pre_bind: PodsInPreBind = field(default_factory=PodsInPreBind)
    rng: random.Random = field(default_factory=random.Random)
    """For pauses between retries; not the engine's, whose draws are decisions."""

    @property
    def is_deposed(self) -> bool:
        """True if another scheduler may lead by now: running work is dropped, and nothing is reported."""
        return self.leadership is not None and self.leadership.is_over

    def is_over(self, pod: PodInfo) -> bool:
        """True if nothing must be done for the pod any more: it is gone, terminating, or has its node."""
        return is_over(pod, self.newest(pod.key))

    @property
    def clock(self) -> Clock:
        return self.engine.clock
