"""What the controllers of workloads have in common: informers, queue, expectations.

A workload is queued when it changes, and when an object that it owns or would adopt does. A worker takes its key, asks
the server about writes whose answer was lost, and syncs the workload; whether the caches show all of the controller's
own writes is decided before anything is read from them. Kinds differ in `sync` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Generic, TypeVar

from tonnage.behaviour.workloads.availability import ready_since, with_ready_since
from tonnage.behaviour.workloads.rejected_pods import RejectedPods
from tonnage.client.cache import Cache
from tonnage.client.reconciler import Reconciler
from tonnage.clock import StampAges
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads.controller_refs import ControllerRefIndex, add_owned_event_handlers
from tonnage.controllers.workloads.expectations import Expectations
from tonnage.objects.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from tonnage.objects.batch_v1 import Job
from tonnage.objects.core_v1 import Pod, ReplicationController
from tonnage.objects.meta import Key, Object
from tonnage.objects.selectors import LabelSelector

AnyWorkload = DaemonSet | Deployment | Job | ReplicaSet | ReplicationController | StatefulSet
Workload = TypeVar("Workload", bound=AnyWorkload)
Dependent = TypeVar("Dependent", bound=Object)

RESYNC_S: Final = 1.0
"""After which a workload is looked at again while own writes are not seen; their events mostly come sooner."""
_WORKERS: Final = 5
_AS_WRITTEN: Final = timedelta(seconds=1)
"""Times that differ by less are the same."""


def selector_of(workload: AnyWorkload) -> LabelSelector | None:
    """Which pods it may own; None, and so none, for a ReplicationController without a selector."""
    if isinstance(workload, ReplicationController):
        labels = workload.spec.selector
        return LabelSelector(match_labels=labels) if labels else None
    return workload.spec.selector


class WorkloadController(ABC, Generic[Workload, Dependent]):
    """Syncs the workloads of one kind, whose objects of another kind it owns."""

    def __init__(
        self, context: ControllerContext, name: str, workloads: Cache[Workload], dependents: Cache[Dependent]
    ) -> None:
        self._client = context.client
        self._informers = context.informers
        self._recorder = context.recorder
        self._clock = context.clock
        self._ages = StampAges(context.clock)
        self._workloads: Cache[Workload] = workloads
        self._owned = ControllerRefIndex(dependents)
        self._expectations = Expectations(context.client, context.clock)
        self._rejected = RejectedPods(context.clock)
        self._reconciler = Reconciler(
            name, self._reconcile, clock=context.clock, metrics=context.queues, workers=_WORKERS
        )
        self._reconciler.follow(workloads)
        add_owned_event_handlers(self._reconciler, dependents, workloads, selector_of)

    async def run(self) -> None:
        """Work until cancelled, once all informers are synced: a partial state would look like missing pods."""
        await self._informers.wait_synced()
        await self._reconciler.run()

    def _measured(self, pods: Sequence[Pod], min_ready_s: int) -> list[Pod]:
        """The pods with the times since when they are ready as today's clock would have written them: setting the clock
        makes none of them available, and none unavailable."""
        now, measured = self._clock.now(), list(pods)
        for idx, pod in enumerate(pods if min_ready_s > 0 else ()):
            since = ready_since(pod)
            at = now if since is None else now - timedelta(seconds=self._ages.age_s(pod.uid, since))
            if since is not None and abs(at - since) > _AS_WRITTEN:
                measured[idx] = with_ready_since(pod, at)
        return measured

    @abstractmethod
    async def sync(self, workload: Workload, /, *, is_current: bool) -> float | None:
        """Take the next step for a workload; when to be called again, None to wait for an event.

        `is_current`: the caches show all that this controller has written for it.
        """

    async def _reconcile(self, key: Key) -> float | None:
        workload = self._workloads.get(key)
        if workload is None:
            self._expectations.forget(key)
            self._rejected.forget(key)
            return None
        await self._expectations.resolve_doubts(key)
        # Asked before objects are listed: what is met now is in every list that follows.
        return await self.sync(workload, is_current=self._expectations.are_satisfied(key))
