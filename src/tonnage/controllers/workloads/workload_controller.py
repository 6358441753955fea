"""What the controllers of workloads have in common: informers, queue, expectations.

A workload is queued when it changes, and when an object that it owns or would adopt does. A worker takes its key, asks
the server about writes whose answer was lost, and syncs the workload; whether the caches show all of the controller's
own writes is decided before anything is read from them. Kinds differ in `sync` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from tonnage import logs
from tonnage.behaviour.workloads.pod_states import RejectedPods, ready_since, with_ready_since
from tonnage.client.cache import Cache
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.client.reconciler import Reconciler
from tonnage.clock import Clock, StampAges
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads.controller_refs import ControllerRefIndex, add_owned_event_handlers
from tonnage.errors import ApiError, NotFound, TonnageError
from tonnage.objects.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from tonnage.objects.batch_v1 import Job
from tonnage.objects.core_v1 import Pod, ReplicationController
from tonnage.objects.meta import Key, Object, revision_of
from tonnage.objects.selectors import LabelSelector

TIMEOUT_S: Final = 300.0

_log = logs.logger(__name__)


@dataclass(frozen=True, slots=True)
class _Expectation:
    is_met: Callable[[], bool]
    since_s: float


class Expectations:
    """What each owner, by key, waits to see."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._expected: dict[Key, list[_Expectation]] = {}
        self._doubts: dict[Key, list[tuple[Cache[Any], Key, str]]] = {}

    def expect_written(self, owner: Key, cache: Cache[Any], written: Object) -> None:
        """The server has answered a create or a change with `written`."""
        revision = written.metadata.revision
        self._expect(owner, lambda: revision_of(cache.resource_version) >= revision)

    def expect_deleted(self, owner: Key, cache: Cache[Any], key: Key, uid: str) -> None:
        """The server has taken the deletion of this object."""

        def is_met() -> bool:
            shown = cache.get(key)
            return shown is None or shown.uid != uid or shown.metadata.is_terminating

        self._expect(owner, is_met)

    def mark_in_doubt(self, owner: Key, cache: Cache[Any], key: Key, uid: str = "") -> None:
        """A create or a change of this object, or with `uid` its deletion, got no answer."""
        self._doubts.setdefault(owner, []).append((cache, key, uid))

    async def resolve_doubts(self, owner: Key) -> None:
        """Ask the server what became of what is in doubt. Raises what the client raises; then all of it still is."""
        for cache, key, uid in tuple(self._doubts.get(owner, ())):
            try:
                found: Object | None = await self._client.get(cache.cls, key)
            except NotFound:
                found = None
            if uid:
                if found is None or found.uid != uid or found.metadata.is_terminating:
                    self.expect_deleted(owner, cache, key, uid)
            elif found is not None:
                self.expect_written(owner, cache, found)
            self._doubts[owner].remove((cache, key, uid))
        self._doubts.pop(owner, None)

    def are_satisfied(self, owner: Key) -> bool:
        """Whether the cache shows all of it, as far as is known."""
        expected = self._expected.get(owner)
        if not expected:
            return owner not in self._doubts
        now_s = self._clock.monotonic()
        left = [each for each in expected if not each.is_met()]
        if any(now_s - each.since_s > TIMEOUT_S for each in left):
            _log.warning("The cache did not show our own writes in time; they are forgotten", owner=owner)
            left = []
        if left:
            self._expected[owner] = left
        else:
            self._expected.pop(owner)
        return not left and owner not in self._doubts

    def forget(self, owner: Key) -> None:
        """The owner is gone."""
        self._expected.pop(owner, None)
        self._doubts.pop(owner, None)

    def _expect(self, owner: Key, is_met: Callable[[], bool]) -> None:
        self._expected.setdefault(owner, []).append(_Expectation(is_met, self._clock.monotonic()))


def is_in_doubt(failure: TonnageError) -> bool:
    """Whether a write that failed so may have been carried out all the same."""
    if isinstance(failure, ApiError):
        return failure.code >= 500
    return isinstance(failure, Disconnected) and failure.in_doubt


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
