"""The ReplicaSet controller: as many like pods as are asked for, from whatever state it finds.

    sync ──► does the cache show all own writes? ──no──► only write the status
                          │ yes
                          ▼
             adopt and release ──► create the missing or delete the surplus ──► write the status

Pods have random names, so nothing but the count keeps it from making one twice. It never acts on a cache that is
behind its own writes (`expectations`), and it chooses the random part of a name itself, so that a create whose answer
was lost can be looked up. The decision is `replica_set_plan`. Events and statuses are upstream's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tonnage import logs
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads.availability import is_active, next_check_s
from tonnage.controllers.workloads.controller_refs import ControllerRefIndex, claim_objects
from tonnage.controllers.workloads.expectations import is_in_doubt
from tonnage.controllers.workloads.pod_templates import generated_name, pod_from_template
from tonnage.controllers.workloads.replica_set_plan import missing_replicas, pods_to_delete, status_of
from tonnage.controllers.workloads.status_writes import write_status
from tonnage.controllers.workloads.workload_controller import RESYNC_S, WorkloadController
from tonnage.errors import AlreadyExists, ApiError, NotFound, TonnageError
from tonnage.objects import codec
from tonnage.objects.apps_v1 import ReplicaSet
from tonnage.objects.core_v1 import Pod
from tonnage.objects.selectors import selects

_FIRST_BATCH = 1
_NAME_TRIES = 8
"""How often another random name is tried, as an API server does that chooses them."""

_log = logs.logger("tonnage.controllers.replica-sets")


class ReplicaSetController(WorkloadController[ReplicaSet, Pod]):
    """Keeps every ReplicaSet at its size."""

    def __init__(self, context: ControllerContext) -> None:
        sets = context.informers.of(ReplicaSet)
        self._rng = context.rng
        self._pods = context.informers.of(Pod)
        self._sets_of = ControllerRefIndex(sets)
        super().__init__(context, "replica-sets", sets, self._pods)

    # -- one set ------------------------------------------------------------------------------------------------------

    async def sync(self, found: ReplicaSet, /, *, is_current: bool) -> float | None:
        """Create or delete pods, then write the status. Mirrors syncReplicaSet."""
        pods = await claim_objects(
            self._client, found, self._owned, lambda pod: selects(found.spec.selector, pod.metadata.labels)
        )
        active = [pod for pod in pods if is_active(pod)]
        failure: TonnageError | None = None
        if is_current and not found.metadata.is_terminating:
            failure = await self._manage(found, active)
        now = self._clock.now()
        terminating = sum(pod.metadata.is_terminating and not pod.is_terminal for pod in pods)
        status = status_of(found, active, terminating, failure.message if failure else None, now)
        await write_status(self._client, found, status)
        if failure is not None:
            raise failure
        if not is_current:
            return RESYNC_S
        return next_check_s(active, found.spec.min_ready_seconds, now)

    async def _manage(self, owner: ReplicaSet, active: Sequence[Pod]) -> TonnageError | None:
        """Make or delete what the plan says; the first failure, after which the rest is left for the next round."""
        count = missing_replicas(active, owner.spec.replicas)
        if count > 0:
            _log.info("Too few replicas", replica_set=owner.key, need=owner.spec.replicas, creating=count)
            return await slow_start(count, lambda _: self._create(owner))
        if count < 0:
            _log.info("Too many replicas", replica_set=owner.key, need=owner.spec.replicas, deleting=-count)
            chosen = pods_to_delete(active, self._related(owner), -count, self._clock.now())
            return first_failure(await asyncio.gather(*(self._delete(owner, pod) for pod in chosen)))
        return None

    def _related(self, owner: ReplicaSet) -> list[Pod]:
        """The pods of all sets that have the same controller; without one, the set's own."""
        controller = owner.metadata.controller
        siblings = self._sets_of.of_uid(controller.uid) if controller is not None else [owner]
        return [pod for each in siblings for pod in self._owned.of(each)]

    async def _create(self, owner: ReplicaSet) -> TonnageError | None:
        doc = pod_from_template(owner.spec.template, owner)
        metadata = doc["metadata"]
        for tries_left in reversed(range(_NAME_TRIES)):
            name = metadata["name"] = generated_name(metadata["generateName"], self._rng)
            try:
                pod = codec.convert(Pod, await self._client.create_doc(doc))
            except TonnageError as exc:
                if isinstance(exc, AlreadyExists) and tries_left:
                    continue  # by chance somebody has that name
                return self._failed_to_create(owner, name, exc)
            self._expectations.expect_written(owner.key, self._pods, pod)
            self._recorder.event(owner, "Normal", "SuccessfulCreate", "Create", f"Created pod: {name}", pod)
            break
        return None

    def _failed_to_create(self, owner: ReplicaSet, name: str, failure: TonnageError) -> TonnageError | None:
        if is_in_doubt(failure):
            self._expectations.mark_in_doubt(owner.key, self._pods, f"{owner.namespace}/{name}")
        if is_namespace_terminating(failure):
            return None
        self._recorder.event(owner, "Warning", "FailedCreate", "Create", f"Error creating: {failure.message}")
        return failure

    async def _delete(self, owner: ReplicaSet, pod: Pod) -> TonnageError | None:
        try:
            await self._client.delete(Pod, pod.key, uid=pod.uid)
        except NotFound:
            self._expectations.expect_deleted(owner.key, self._pods, pod.key, pod.uid)
            return None
        except TonnageError as exc:
            if is_in_doubt(exc):
                self._expectations.mark_in_doubt(owner.key, self._pods, pod.key, pod.uid)
            self._recorder.event(owner, "Warning", "FailedDelete", "Delete", f"Error deleting: {exc.message}", pod)
            return exc
        self._expectations.expect_deleted(owner.key, self._pods, pod.key, pod.uid)
        self._recorder.event(owner, "Normal", "SuccessfulDelete", "Delete", f"Deleted pod: {pod.name}", pod)
        return None


async def slow_start(count: int, act: Callable[[int], Awaitable[TonnageError | None]]) -> TonnageError | None:
    """Do it `count` times: one, then two at once, then four… until all are done or one of a batch failed.

    Whatever is wrong with the first is mostly wrong with all of them, and need not be asked a hundred times.
    """
    done, batch = 0, min(count, _FIRST_BATCH)
    while batch > 0:
        failure = first_failure(await asyncio.gather(*(act(done + n) for n in range(batch))))
        if failure is not None:
            return failure
        done += batch
        batch = min(2 * batch, count - done)
    return None


def first_failure(outcomes: Sequence[TonnageError | None]) -> TonnageError | None:
    return next((each for each in outcomes if each is not None), None)


def is_namespace_terminating(failure: TonnageError) -> bool:
    """Nothing more can be made in this namespace, and nothing has to be: it is going with all that is in it."""
    return isinstance(failure, ApiError) and any(cause.reason == "NamespaceTerminating" for cause in failure.causes)
