"""The StatefulSet controller: pods with names and claims that stay theirs.

    sync ──► does the cache show all own writes? ──► adopt and release ──► which revision is the template?
                                                                                     │
             write the status ◄── claims, then pods, one step after the other ◄── plan

Everything has a name that follows from its set, so that nothing can be made twice: what is there already is refused,
and looked at next time. A deletion names the uid of the pod it means. The decision is `stateful_set_plan`, names and
documents are `stateful_identity`, the history is `controller_history`. Events and statuses are upstream's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tonnage import logs
from tonnage.behaviour.workloads import controller_history, stateful_identity
from tonnage.behaviour.workloads.availability import earliest, next_check_s
from tonnage.behaviour.workloads.stateful_identity import claim_names, is_member, ordinal_of, pod_name, revision_of
from tonnage.behaviour.workloads.stateful_set_plan import (
    Create,
    CreateClaims,
    DeletePod,
    ObservedState,
    Step,
    UpdatePod,
    empty_ordinals,
    plan,
    status_of,
)
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads.controller_refs import claim_objects
from tonnage.controllers.workloads.history_control import HistoryControl
from tonnage.controllers.workloads.stateful_pod_control import StatefulPodControl
from tonnage.controllers.workloads.status_writes import write_status
from tonnage.controllers.workloads.workload_controller import RESYNC_S, WorkloadController
from tonnage.errors import TonnageError
from tonnage.objects.apps_v1 import ControllerRevision, StatefulSet
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.selectors import selects

_log = logs.logger("tonnage.controllers.stateful-sets")


class StatefulSetController(WorkloadController[StatefulSet, Pod]):
    """Keeps every StatefulSet's pods and claims as it asks for."""

    def __init__(self, context: ControllerContext) -> None:
        self._sets = context.informers.of(StatefulSet)
        self._pods = context.informers.of(Pod)
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._revisions = context.informers.of(ControllerRevision)
        super().__init__(context, "stateful-sets", self._sets, self._pods)
        self._history = HistoryControl(context.client, self._revisions, self._expectations)
        self._pod_control = StatefulPodControl(
            context.client, context.recorder, self._pods, self._claims, self._expectations
        )
        self._claims.on_change(self._claim_changed)
        self._revisions.on_change(self._revision_changed)

    # -- event handlers -----------------------------------------------------------------------------------------------

    def _claim_changed(self, found: PersistentVolumeClaim) -> None:
        """`data-web-0` may be what the set `web` waits for, to come or to go; a template's name may have dashes too."""
        parts = found.name.split("-")[:-1]
        for start in range(1, len(parts)):
            key = f"{found.namespace}/{'-'.join(parts[start:])}"
            if key in self._sets:
                self._reconciler.add(key)

    def _revision_changed(self, found: ControllerRevision) -> None:
        owner = found.metadata.controller
        if owner is not None and owner.kind == "StatefulSet":
            self._reconciler.add(f"{found.namespace}/{owner.name}")

    # -- one set ------------------------------------------------------------------------------------------------------

    async def sync(self, owner: StatefulSet, /, *, is_current: bool) -> float | None:
        """Take the steps that the plan names, then write the status. Mirrors syncStatefulSet."""
        if not is_current:
            return RESYNC_S
        selector = owner.spec.selector
        revisions = await self._history.revisions(owner)
        pods = await claim_objects(
            self._client,
            owner,
            self._owned,
            lambda pod: is_member(owner, pod) and selects(selector, pod.metadata.labels),
        )
        pods = self._measured(pods, owner.spec.min_ready_seconds)
        update, collisions = await self._history.update_revision(owner, revisions)
        current = next((each for each in revisions if each.name == owner.status.current_revision), update)
        self._rejected.observe(owner.key, pods)
        observed = self._observe(owner, pods, current.name, update.name)
        failure = await self._carry_out(owner, plan(owner, pods, observed), (current, update))
        written = await write_status(self._client, owner, status_of(owner, pods, observed, collisions))
        if written is not None:
            self._expectations.expect_written(owner.key, self._sets, written)
        await self._history.forget(owner, revisions, {current.name, update.name, *map(revision_of, pods)})
        if failure is not None:
            raise failure
        return earliest(
            next_check_s(pods, owner.spec.min_ready_seconds, observed.now), self._rejected.next_check_s(owner.key)
        )

    def _observe(self, owner: StatefulSet, pods: Sequence[Pod], current: str, update: str) -> ObservedState:
        there = {ordinal_of(pod.name) for pod in pods}
        return ObservedState(
            current_revision=current,
            update_revision=update,
            now=self._clock.now(),
            held_back=self._rejected.held_back(owner.key),
            stale_claims={
                ordinal
                for ordinal in empty_ordinals(owner, there)
                if any(
                    stateful_identity.is_stale(found, owner, pod_name(owner, ordinal))
                    for found in self._claims_at(owner, ordinal)
                )
            },
            mismatched_claims={
                pod.name
                for pod in pods
                if any(
                    stateful_identity.owners_to_set(found, owner, pod) is not None
                    for found in self._claims_at(owner, ordinal_of(pod.name))
                )
            },
        )

    def _claims_at(self, owner: StatefulSet, ordinal: int) -> list[PersistentVolumeClaim]:
        names = claim_names(owner, ordinal).values()
        found = (self._claims.get(f"{owner.namespace}/{name}") for name in names)
        return [each for each in found if each is not None]

    async def _carry_out(
        self, owner: StatefulSet, steps: Sequence[Step], revisions: Sequence[ControllerRevision]
    ) -> TonnageError | None:
        """Take the steps in their order, up to the first that fails."""
        templates: dict[str, Mapping[str, Any]] = {
            each.name: controller_history.template_of(each) for each in revisions
        }
        try:
            for step in steps:
                await asyncio.sleep(0)  # a step may find nothing to write, and there are as many as pods
                match step:
                    case Create(ordinal, revision):
                        await self._pod_control.create(owner, templates[revision], ordinal, revision)
                    case DeletePod(pod):
                        await self._pod_control.delete(owner, pod)
                    case CreateClaims(pod):
                        await self._pod_control.create_claims(owner, ordinal_of(pod.name))
                        await self._pod_control.update_claims(owner, pod)
                    case UpdatePod(pod):
                        await self._pod_control.update(owner, pod)
        except TonnageError as exc:
            return exc
        return None
