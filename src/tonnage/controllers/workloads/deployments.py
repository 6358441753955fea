"""The controllers of Deployments, ReplicaSets and ReplicationControllers.

A ReplicaSet has as many like pods as are asked for:

    sync ──► does the cache show all own writes? ──no──► only write the status
                          │ yes
                          ▼
             adopt and release ──► create the missing or delete the surplus ──► write the status

Pods have random names, so nothing but the count keeps it from making one twice. A ReplicationController is the same
thing under an older name, with a plain map for its selector. Beyond upstream, pods that a node rejects again and again
are made at growing intervals, and go (`RejectedPods`).

A Deployment has a ReplicaSet for each template, the newest growing as the older ones shrink. Each sync takes one step
and writes the status; the change comes back as an event, which queues the next step. A change of size names the
revision it was decided on.

    adopt ──► paused or resumed? ──► number the new set ──► scaled or paused? ──yes──► all sets in proportion
                                                                  │ no
                                              Recreate: old to zero, wait, then new to full size
                                         RollingUpdate: new up, else old down, within the two fences
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from tonnage import errors, logs
from tonnage.behaviour.workloads import deployment_status, rollout, templates
from tonnage.behaviour.workloads.pod_states import earliest, is_active, next_check_s
from tonnage.behaviour.workloads.replica_set_plan import missing_replicas, pods_to_delete, status_of
from tonnage.client import cache, recorder
from tonnage.controllers.controller_context import ControllerContext, is_namespace_terminating
from tonnage.controllers.workloads import workload_controller
from tonnage.objects.apps_v1 import Deployment, DeploymentStatus, ReplicaSet
from tonnage.objects.core_v1 import Pod, ReplicationController, ReplicationControllerStatus
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Record

_log = logs.logger("tonnage.controllers.replica-sets")
_deployments_log = logs.logger("tonnage.controllers.workloads.deployments")


Replicated = TypeVar("Replicated", bound=ReplicaSet | ReplicationController)


class ReplicaController(workload_controller.PodOwnerController[Replicated], Generic[Replicated]):
    def __init__(self, context: ControllerContext, name: str, sets: cache.Cache[Replicated]) -> None:
        self._sets_of: cache.Indexer[Replicated] = workload_controller.by_controller(sets)
        super().__init__(context, name, sets)

    async def sync(self, found: Replicated, /, *, is_current: bool) -> float | None:
        """Create or delete pods, then write the status. Mirrors syncReplicaSet."""
        pods = self._measured(await self._claimed(found), found.spec.min_ready_seconds)
        active = [pod for pod in pods if is_active(pod)]
        failure: errors.TonnageError | None = None
        if is_current and not found.metadata.is_terminating:
            self._rejected.observe(found.key, pods)
            # Rejected pods never ran, and they hold back their ephemeral claims.
            rejected = self._rejected.to_delete(found.key, pods)
            failure = await self._manage(found, active) or await self._delete_pods(found, rejected)
        now = self._clock.now()
        terminating = sum(pod.metadata.is_terminating and not pod.is_terminal for pod in pods)
        status = status_of(found, active, terminating, recorder.truncated(failure.message) if failure else None, now)
        kind_status: Record = status
        if isinstance(found, ReplicationController):  # this older kind does not count terminating pods
            fields = ReplicationControllerStatus.__struct_fields__
            kind_status = ReplicationControllerStatus(**{name: getattr(status, name) for name in fields})
        await workload_controller.write_status(self._client, found, kind_status)
        if failure is not None:
            raise failure
        if not is_current:
            return workload_controller.RESYNC_S
        return earliest(next_check_s(active, found.spec.min_ready_seconds, now), self._rejected.next_check_s(found.key))

    async def _manage(self, owner: Replicated, active: Sequence[Pod]) -> errors.TonnageError | None:
        """Create or delete pods as planned. Returns the first failure; the rest is left for the next sync."""
        count, wanted = missing_replicas(active, owner.spec.replicas), owner.spec.replicas
        if count > 0:
            later = len(self._rejected.held_back(owner.key))
            count = max(count - later, 0)
            _log.info("Too few replicas", kind=self._kind, owner=owner.key, need=wanted, creating=count, later=later)
            template = owner.spec.template
            return await workload_controller.slow_start(
                count, lambda _: self._create_pod(owner, templates.pod_from_template(template, owner))
            )
        if count < 0:
            _log.info("Too many replicas", kind=self._kind, owner=owner.key, need=wanted, deleting=-count)
            # The pods of all sets that have the same controller; of this set alone if it has none.
            controller = owner.metadata.controller
            siblings = self._sets_of(controller.uid) if controller is not None else [owner]
            related = [pod for sibling in siblings for pod in self._owned(sibling.uid)]
            chosen = pods_to_delete(active, related, -count, self._clock.now())
            return await self._delete_pods(owner, chosen)
        return None


def replica_set_controller(context: ControllerContext) -> ReplicaController[ReplicaSet]:
    return ReplicaController(context, "replica-sets", context.informers.of(ReplicaSet))


def replication_manager(context: ControllerContext) -> ReplicaController[ReplicationController]:
    return ReplicaController(context, "replication-controllers", context.informers.of(ReplicationController))


class DeploymentController(workload_controller.WorkloadController[Deployment, ReplicaSet]):
    """Rolls every Deployment's pods out to its template, step by step."""

    def __init__(self, context: ControllerContext) -> None:
        self._deployments = context.informers.of(Deployment)
        self._sets = context.informers.of(ReplicaSet)
        self._pods_of = workload_controller.by_controller(context.informers.of(Pod))
        super().__init__(context, "deployments", self._deployments, self._sets)
        self._reconciler.follow(context.informers.of(Pod), self._recreating)

    def _recreating(self, pod: Pod) -> list[Key]:
        """A pod's Deployment, if it waits for the last old pod to be gone, which no ReplicaSet's status shows."""
        owner = pod.metadata.controller
        replica_set = self._sets.get(f"{pod.namespace}/{owner.name}") if owner and owner.kind == "ReplicaSet" else None
        above = replica_set.metadata.controller if replica_set is not None else None
        is_made = above is not None and above.kind == "Deployment"
        deployment = self._deployments.get(f"{pod.namespace}/{above.name}") if above and is_made else None
        return [deployment.key] if deployment is not None and not rollout.is_rolling(deployment) else []

    # -- one Deployment -----------------------------------------------------------------------------------------------

    async def sync(self, deployment: Deployment, /, *, is_current: bool) -> float | None:
        """Take one step of a rollout. Mirrors syncDeployment."""
        if not is_current:
            return workload_controller.RESYNC_S
        selector = deployment.spec.selector
        if selector is None or selector.is_empty:
            note = "This deployment is selecting all pods. A non-empty selector is required."
            self._recorder.event(deployment, "Warning", "SelectingAll", "Select", note)
            generation = deployment.metadata.generation
            if deployment.status.observed_generation < generation:
                status = msgspec.structs.replace(deployment.status, observed_generation=generation)
                await self._write_status(deployment, status)
            return None
        sets = await self._claimed(deployment)
        new, olds = rollout.split(deployment, sets)
        if deployment.metadata.is_terminating:
            return await self._sync_status(deployment, sets, new, in_rollout=False)
        conditions = deployment_status.paused_conditions(deployment, self._clock.now())
        if conditions is not None:
            status = msgspec.structs.replace(deployment.status, conditions=conditions)
            await self._write_status(deployment, status)
            return None  # the write queues it again
        if new is not None:
            new = await self._update_revision(deployment, new, olds)
            if new is None:
                return None
            sets = [*olds, new]
        if deployment.spec.paused or rollout.is_scaling(deployment, sets):
            await self._scale(deployment, sets, rollout.scaled(deployment, new, olds))
            if deployment.spec.paused:
                await self._clean_up(deployment, olds)
            return await self._sync_status(deployment, sets, new, in_rollout=False)
        if rollout.is_rolling(deployment):
            return await self._roll(deployment, new, olds)
        return await self._recreate(deployment, new, olds)

    async def _roll(self, deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> float | None:
        size = rollout.new_size(deployment, new, olds)
        if new is None:
            await self._create_new_set(deployment, size, olds)
            return None
        sizes = {new.name: size} if size != new.spec.replicas else rollout.shrink_old(deployment, new, olds)
        sets = [*olds, new]
        if not await self._scale(deployment, sets, sizes) and self._is_complete(deployment):
            await self._clean_up(deployment, olds)
        return await self._sync_status(deployment, sets, new, in_rollout=True)

    async def _recreate(
        self, deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]
    ) -> float | None:
        sets = [*olds, new] if new is not None else list(olds)
        shrunk = await self._scale(deployment, olds, {each.name: 0 for each in olds if each.spec.replicas})
        # Terminating pods still run, and Recreate never runs old with new.
        old_pods = (pod for replica_set in olds for pod in self._pods_of(replica_set.uid))
        if shrunk or any(each.status.replicas for each in olds) or any(not pod.is_terminal for pod in old_pods):
            return await self._sync_status(deployment, sets, new, in_rollout=True)
        if new is None:
            await self._create_new_set(deployment, deployment.spec.replicas, olds)
            return None
        wanted = deployment.spec.replicas
        grown = new.spec.replicas != wanted and await self._scale(deployment, [new], {new.name: wanted})
        if not grown and self._is_complete(deployment):
            await self._clean_up(deployment, olds)
        return await self._sync_status(deployment, sets, new, in_rollout=True)

    def _is_complete(self, deployment: Deployment) -> bool:
        return deployment_status.is_complete(deployment, deployment.status)

    # -- writes -------------------------------------------------------------------------------------------------------

    async def _update_revision(
        self, deployment: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]
    ) -> ReplicaSet | None:
        """Give the new set the highest revision and the Deployment its number; None when the Deployment was written."""
        missing = rollout.annotations_for(deployment, new, rollout.next_revision(olds))
        min_ready_s = deployment.spec.min_ready_seconds
        if missing or new.spec.min_ready_seconds != min_ready_s:
            patch: Doc = {"metadata": {"annotations": missing}, "spec": {"minReadySeconds": min_ready_s or None}}
            return await self._patch_set(deployment, new, patch)
        status = deployment.status
        if deployment_status.condition_of(status.conditions, "Progressing") is None:
            note = f'Found new replica set "{new.name}"'
            now = self._clock.now()
            conditions = deployment_status.with_progressing(deployment, "True", "FoundNewReplicaSet", note, now)
            status = msgspec.structs.replace(status, conditions=conditions)
        revision = new.metadata.annotations.get(rollout.REVISION, "")
        return None if await self._write_status(deployment, status, revision) else new

    async def _create_new_set(self, deployment: Deployment, size: int, olds: Sequence[ReplicaSet]) -> None:
        """Create the ReplicaSet of the current template; the next sync continues from it."""
        revision = rollout.next_revision(olds)
        doc = rollout.new_set(deployment, size, revision)
        name = doc["metadata"]["name"]
        try:
            made = await self._expectations.create(deployment.key, self._sets, doc)
        except errors.AlreadyExists:
            await self._resolve_name_collision(deployment, f"{deployment.namespace}/{name}")
            return
        except errors.TonnageError as exc:
            if is_namespace_terminating(exc):
                return
            if isinstance(exc, errors.ApiError):
                note = f'Failed to create new replica set "{name}": {exc.message}'
                self._recorder.event(deployment, "Warning", "ReplicaSetCreateError", "Create", note)
                await self._write_progressing(deployment, "False", "ReplicaSetCreateError", recorder.truncated(note))
            raise
        if size > 0:
            self._record_scaling(deployment, made, 0, size)
        note = f'Created new replica set "{name}"'
        await self._write_progressing(deployment, "True", "NewReplicaSetCreated", note, str(revision))

    async def _resolve_name_collision(self, deployment: Deployment, key: Key) -> None:
        """Handle a taken name: by our own set, which the cache will show, or by a set of another template."""
        replica_set = await self._client.get(ReplicaSet, key)
        owner = replica_set.metadata.controller
        is_ours = owner is not None and owner.uid == deployment.uid
        if is_ours and rollout.same_template(replica_set.spec.template, deployment.spec.template):
            self._expectations.expect_written(deployment.key, self._sets, replica_set)
            return
        collisions = (deployment.status.collision_count or 0) + 1
        _deployments_log.info("Two templates have the same hash", deployment=deployment.key, collisions=collisions)
        await self._write_status(deployment, msgspec.structs.replace(deployment.status, collision_count=collisions))

    async def _write_progressing(
        self, deployment: Deployment, status: str, reason: str, note: str, revision: str = ""
    ) -> None:
        conditions = deployment_status.with_progressing(deployment, status, reason, note, self._clock.now())
        await self._write_status(
            deployment, msgspec.structs.replace(deployment.status, conditions=conditions), revision
        )

    async def _scale(self, deployment: Deployment, sets: Sequence[ReplicaSet], sizes: rollout.Sizes) -> bool:
        """Scale the sets, and write the Deployment's size on every one of them. Returns whether any size changed."""
        annotations = rollout.replicas_annotations(deployment)
        is_changed = False
        for found in [replica_set for replica_set in sets if replica_set.name in sizes]:
            old, size = found.spec.replicas, sizes[found.name]
            if old == size and annotations.items() <= found.metadata.annotations.items():
                continue
            patch: Doc = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
            resized = await self._patch_set(deployment, found, patch)
            if old != size:
                is_changed = True
                self._record_scaling(deployment, resized, old, size)
        return is_changed

    def _record_scaling(self, deployment: Deployment, found: ReplicaSet, old: int, size: int) -> None:
        note = f"Scaled {'up' if size > old else 'down'} replica set {found.name} from {old} to {size}"
        self._recorder.event(deployment, "Normal", "ScalingReplicaSet", "Scale", note, found)

    async def _patch_set(self, deployment: Deployment, found: ReplicaSet, patch: Doc) -> ReplicaSet:
        """Patch a set at the version that was read."""
        patch["metadata"] |= {"uid": found.uid, "resourceVersion": found.metadata.resource_version}
        return await self._expectations.patch(deployment.key, self._sets, found.key, patch)

    async def _clean_up(self, deployment: Deployment, olds: Sequence[ReplicaSet]) -> None:
        for replica_set in rollout.outdated(deployment, olds):
            await self._expectations.delete(deployment.key, self._sets, replica_set)

    async def _sync_status(
        self, deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None, *, in_rollout: bool
    ) -> float | None:
        now = self._clock.now()
        if not in_rollout:
            await self._write_status(deployment, deployment_status.calculate_status(deployment, sets, new, now))
            return None
        measured_now = self._ages.now(deployment.uid, deployment_status.progressed_at(deployment.status))
        status = deployment_status.rollout_status(deployment, sets, new, now, measured_now)
        await self._write_status(deployment, status)
        measured_now = self._ages.now(deployment.uid, deployment_status.progressed_at(status))
        return deployment_status.check_after_s(deployment, status, measured_now)

    async def _write_status(self, deployment: Deployment, status: DeploymentStatus, revision: str = "") -> bool:
        """Write the status, and the revision annotation. Returns whether anything was written."""
        annotations = {rollout.REVISION: revision} if revision else None
        written = await workload_controller.write_status(self._client, deployment, status, annotations=annotations)
        if written is not None:
            self._expectations.expect_written(deployment.key, self._deployments, written)
        return written is not None
