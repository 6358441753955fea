"""The controllers of ReplicaSets and ReplicationControllers: as many like pods as are asked for.

    sync ──► does the cache show all own writes? ──no──► only write the status
                          │ yes
                          ▼
             adopt and release ──► create the missing or delete the surplus ──► write the status

Pods have random names, so nothing but the count keeps it from making one twice. A ReplicationController is the same
thing under an older name, with a plain map for its selector. Beyond upstream, pods that a node rejects again and again
are made at growing intervals, and go (`RejectedPods`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from tonnage import logs
from tonnage.behaviour.workloads.pod_states import earliest, is_active, next_check_s
from tonnage.behaviour.workloads.replica_set_plan import missing_replicas, pods_to_delete, status_of
from tonnage.behaviour.workloads.templates import pod_from_template
from tonnage.client.cache import Cache
from tonnage.client.recorder import truncated
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads.workload_controller import RESYNC_S, ControllerRefIndex, WorkloadController
from tonnage.controllers.workloads.workload_writes import PodControl, slow_start, write_status
from tonnage.errors import TonnageError
from tonnage.objects.apps_v1 import ReplicaSet, ReplicaSetStatus
from tonnage.objects.core_v1 import Pod, ReplicationController, ReplicationControllerStatus
from tonnage.objects.meta import Record

Replicated = TypeVar("Replicated", bound=ReplicaSet | ReplicationController)

_log = logs.logger("tonnage.controllers.replica-sets")


class ReplicaController(WorkloadController[Replicated, Pod], Generic[Replicated]):
    def __init__(self, context: ControllerContext, name: str, sets: Cache[Replicated]) -> None:
        self._pods = context.informers.of(Pod)
        self._sets_of: ControllerRefIndex[Replicated] = ControllerRefIndex(sets)
        super().__init__(context, name, sets, self._pods)
        self._pod_control = PodControl(context, self._pods, self._expectations)

    async def sync(self, found: Replicated, /, *, is_current: bool) -> float | None:
        """Create or delete pods, then write the status. Mirrors syncReplicaSet."""
        pods = self._measured(await self._claimed(found), found.spec.min_ready_seconds)
        active = [pod for pod in pods if is_active(pod)]
        failure: TonnageError | None = None
        if is_current and not found.metadata.is_terminating:
            self._rejected.observe(found.key, pods)
            # Rejected pods never ran, and they hold back their ephemeral claims.
            failure = await self._manage(found, active) or await self._pod_control.delete_all(
                found, self._rejected.to_delete(found.key, pods)
            )
        now = self._clock.now()
        terminating = sum(pod.metadata.is_terminating and not pod.is_terminal for pod in pods)
        status = status_of(found, active, terminating, truncated(failure.message) if failure else None, now)
        await write_status(self._client, found, self._kind_status(status))
        if failure is not None:
            raise failure
        if not is_current:
            return RESYNC_S
        return earliest(next_check_s(active, found.spec.min_ready_seconds, now), self._rejected.next_check_s(found.key))

    def _kind_status(self, status: ReplicaSetStatus) -> Record:
        return status

    async def _manage(self, owner: Replicated, active: Sequence[Pod]) -> TonnageError | None:
        """Create or delete pods as planned. Returns the first failure; the rest is left for the next sync."""
        count, wanted = missing_replicas(active, owner.spec.replicas), owner.spec.replicas
        if count > 0:
            later = len(self._rejected.held_back(owner.key))
            count = max(count - later, 0)
            _log.info("Too few replicas", kind=self._kind, owner=owner.key, need=wanted, creating=count, later=later)
            template = owner.spec.template
            return await slow_start(
                count, lambda _: self._pod_control.create(owner, pod_from_template(template, owner))
            )
        if count < 0:
            _log.info("Too many replicas", kind=self._kind, owner=owner.key, need=wanted, deleting=-count)
            # The pods of all sets that have the same controller; of this set alone if it has none.
            controller = owner.metadata.controller
            siblings = self._sets_of.of(controller.uid) if controller is not None else [owner]
            related = [pod for sibling in siblings for pod in self._owned.of(sibling.uid)]
            chosen = pods_to_delete(active, related, -count, self._clock.now())
            return await self._pod_control.delete_all(owner, chosen)
        return None


class ReplicaSetController(ReplicaController[ReplicaSet]):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "replica-sets", context.informers.of(ReplicaSet))


class ReplicationManager(ReplicaController[ReplicationController]):
    """The name is upstream's."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "replication-controllers", context.informers.of(ReplicationController))

    def _kind_status(self, status: ReplicaSetStatus) -> Record:
        """Without terminating pods, which this older kind does not count."""
        fields = ReplicationControllerStatus.__struct_fields__
        return ReplicationControllerStatus(**{name: getattr(status, name) for name in fields})
