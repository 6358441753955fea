"""The StatefulSet controller: pods with names and claims that stay theirs.

    sync ──► does the cache show all own writes? ──► adopt and release ──► which revision is the template?
                                                                                     │
             write the status ◄── claims, then pods, one step after the other ◄── plan

Everything has a name that follows from its set, so that nothing can be made twice: what is there already is refused,
and looked at next time. A deletion names the uid of the pod it means. Mirrors stateful_pod_control.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tonnage import logs
from tonnage.behaviour.workloads import stateful_set_plan, templates
from tonnage.behaviour.workloads.pod_states import earliest, next_check_s, ordinal_of
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads.workload_controller import RESYNC_S, WorkloadController
from tonnage.controllers.workloads.workload_writes import HistoryControl, write_status
from tonnage.errors import AlreadyExists, TonnageError
from tonnage.objects.apps_v1 import ControllerRevision, StatefulSet
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import ObjectReference, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key

_log = logs.logger("tonnage.controllers.stateful-sets")


class StatefulSetController(WorkloadController[StatefulSet, Pod]):
    def __init__(self, context: ControllerContext) -> None:
        self._sets = context.informers.of(StatefulSet)
        self._pods = context.informers.of(Pod)
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._revisions = context.informers.of(ControllerRevision)
        super().__init__(context, "stateful-sets", self._sets, self._pods)
        self._history = HistoryControl(context.client, self._revisions, self._expectations)
        self._reconciler.follow(self._claims, self._sets_of_claim)
        self._revisions.on_change(self._queue_owner)

    def _sets_of_claim(self, found: PersistentVolumeClaim) -> list[Key]:
        """The set `web` for the claim `data-web-0`; template names may have dashes, so every split is tried."""
        parts = found.name.split("-")[:-1]
        keys = [f"{found.namespace}/{'-'.join(parts[start:])}" for start in range(1, len(parts))]
        return [key for key in keys if key in self._sets]

    # -- one set ------------------------------------------------------------------------------------------------------

    async def sync(self, owner: StatefulSet, /, *, is_current: bool) -> float | None:
        """Take the planned steps, then write the status. Mirrors syncStatefulSet."""
        if not is_current:
            return RESYNC_S
        revisions = await self._history.revisions(owner)
        pods = await self._claimed(owner, is_member=lambda pod: stateful_set_plan.is_member(owner, pod))
        pods = self._measured(pods, owner.spec.min_ready_seconds)
        update, collisions = await self._history.update_revision(owner, revisions)
        current = next((revision for revision in revisions if revision.name == owner.status.current_revision), update)
        self._rejected.observe(owner.key, pods)
        observed = self._observe(owner, pods, current.name, update.name)
        failure = await self._carry_out(owner, stateful_set_plan.plan(owner, pods, observed), (current, update))
        written = await write_status(
            self._client, owner, stateful_set_plan.status_of(owner, pods, observed, collisions)
        )
        if written is not None:
            self._expectations.expect_written(owner.key, self._sets, written)
        await self._history.forget(
            owner, revisions, {current.name, update.name, *map(stateful_set_plan.revision_of, pods)}
        )
        if failure is not None:
            raise failure
        return earliest(
            next_check_s(pods, owner.spec.min_ready_seconds, observed.now), self._rejected.next_check_s(owner.key)
        )

    def _observe(
        self, owner: StatefulSet, pods: Sequence[Pod], current: str, update: str
    ) -> stateful_set_plan.ObservedState:
        there = {ordinal_of(pod.name) for pod in pods}
        return stateful_set_plan.ObservedState(
            current_revision=current,
            update_revision=update,
            now=self._clock.now(),
            held_back=self._rejected.held_back(owner.key),
            stale_claims={
                ordinal
                for ordinal in stateful_set_plan.empty_ordinals(owner, there)
                if any(
                    stateful_set_plan.is_stale(found, owner, stateful_set_plan.pod_name(owner, ordinal))
                    for found in self._claims_at(owner, ordinal)
                )
            },
            mismatched_claims={
                pod.name
                for pod in pods
                if any(
                    stateful_set_plan.owners_to_set(found, owner, pod) is not None
                    for found in self._claims_at(owner, ordinal_of(pod.name))
                )
            },
        )

    def _claims_at(self, owner: StatefulSet, ordinal: int) -> list[PersistentVolumeClaim]:
        names = stateful_set_plan.claim_names(owner, ordinal).values()
        found = (self._claims.get(f"{owner.namespace}/{name}") for name in names)
        return [claim for claim in found if claim is not None]

    async def _carry_out(
        self, owner: StatefulSet, steps: Sequence[stateful_set_plan.Step], revisions: Sequence[ControllerRevision]
    ) -> TonnageError | None:
        """Take the steps in order, up to the first failure."""
        by_revision: dict[str, Mapping[str, Any]] = {each.name: templates.template_of(each) for each in revisions}
        try:
            for step in steps:
                await asyncio.sleep(0)  # a step may write nothing, and there are as many steps as pods
                match step:
                    case stateful_set_plan.Create(ordinal, revision):
                        await self._create(owner, by_revision[revision], ordinal, revision)
                    case stateful_set_plan.DeletePod(pod):
                        await self._delete(owner, pod)
                    case stateful_set_plan.CreateClaims(pod):
                        await self._create_claims(owner, ordinal_of(pod.name))
                        await self._update_claims(owner, pod)
                    case stateful_set_plan.UpdatePod(pod):
                        await self._update(owner, pod)
        except TonnageError as exc:
            return exc
        return None

    # -- pods and claims ----------------------------------------------------------------------------------------------

    async def _create(self, owner: StatefulSet, template: Mapping[str, Any], ordinal: int, revision: str) -> None:
        """Create an ordinal's missing claims, then its pod. Raises the failure."""
        with self._recorded(owner, "Create", stateful_set_plan.pod_name(owner, ordinal)):
            await self._create_claims(owner, ordinal)
            await self._expectations.create(
                owner.key, self._pods, stateful_set_plan.pod_for(owner, template, ordinal, revision)
            )

    async def _delete(self, owner: StatefulSet, pod: Pod) -> None:
        with self._recorded(owner, "Delete", pod.name):
            await self._expectations.delete(owner.key, self._pods, pod)

    async def _update(self, owner: StatefulSet, pod: Pod) -> None:
        """Give an adopted pod its identity labels, and its claims the owners that the retention policy wants."""
        if not stateful_set_plan.has_identity(pod):
            patch: Doc = {"metadata": {"uid": pod.uid, "labels": stateful_set_plan.identity_labels(pod.name)}}
            with self._recorded(owner, "Update", pod.name):
                await self._expectations.patch(owner.key, self._pods, pod.key, patch, patch_type="strategic")
        await self._update_claims(owner, pod)

    async def _create_claims(self, owner: StatefulSet, ordinal: int) -> None:
        """Create an ordinal's missing claims. Raises TonnageError for one that is being deleted."""
        known = {
            name: self._claims.get(f"{owner.namespace}/{name}")
            for name in stateful_set_plan.claim_names(owner, ordinal).values()
        }
        if going := next((name for name, claim in known.items() if claim and claim.metadata.is_terminating), None):
            raise TonnageError(f"pvc {going} is being deleted")
        if all(known.values()):
            return
        owners = [to_doc(each) for each in stateful_set_plan.owners_at_creation(owner)]
        for doc in stateful_set_plan.claims_for(owner, ordinal):
            name = doc["metadata"]["name"]
            if known[name] is not None:
                continue
            if owners:
                doc["metadata"]["ownerReferences"] = owners
            try:
                await self._expectations.create(owner.key, self._claims, doc)
            except TonnageError as exc:
                if not isinstance(exc, AlreadyExists):
                    self._record_claim_event(owner, name, ordinal, exc)
                raise
            self._record_claim_event(owner, name, ordinal, None)

    async def _update_claims(self, owner: StatefulSet, pod: Pod) -> None:
        """Set the claims' owners by the retention policy; the next sync does claims the cache lacks."""
        for name in stateful_set_plan.claim_names(owner, ordinal_of(pod.name)).values():
            known = self._claims.get(f"{owner.namespace}/{name}")
            if known is None:
                continue
            if stateful_set_plan.has_unexpected_controller(known, owner, pod):
                note = (
                    f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, "
                    "the retention policy is ignored for this claim"
                )
                self._recorder.event(owner, "Warning", "ConflictingController", "Update", note, known)
            owners = stateful_set_plan.owners_to_set(known, owner, pod)
            if owners is None:
                continue
            metadata = {"uid": known.uid, "resourceVersion": known.metadata.resource_version}
            patch: Doc = {"metadata": {**metadata, "ownerReferences": [to_doc(each) for each in owners]}}
            with self._recorded(owner, "Update", pod.name, is_success_told=False):
                await self._expectations.patch(owner.key, self._claims, known.key, patch)

    # -- events -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _recorded(self, owner: StatefulSet, verb: str, name: str, *, is_success_told: bool = True) -> Iterator[None]:
        """Record on the set whether the pod write inside the block succeeded."""
        about = ObjectReference(api_version="v1", kind="Pod", namespace=owner.namespace, name=name)
        what = f"{verb} Pod {name} in StatefulSet {owner.name}"
        try:
            yield
        except TonnageError as exc:
            if verb != "Create" or not isinstance(exc, AlreadyExists):  # then the cache will show it: no failure
                note = f"{what} failed error: {exc.message}"
                self._recorder.event(owner, "Warning", f"Failed{verb}", verb, note, about)
            raise
        if is_success_told:
            self._recorder.event(owner, "Normal", f"Successful{verb}", verb, f"{what} successful", about)

    def _record_claim_event(self, owner: StatefulSet, name: str, ordinal: int, failure: TonnageError | None) -> None:
        about = ObjectReference(api_version="v1", kind="PersistentVolumeClaim", namespace=owner.namespace, name=name)
        pod = stateful_set_plan.pod_name(owner, ordinal)
        if failure is None:
            note = f"Create Claim {name} Pod {pod} in StatefulSet {owner.name} success"
            self._recorder.event(owner, "Normal", "SuccessfulCreate", "Create", note, about)
        else:
            note = f"Create Claim {name} for Pod {pod} in StatefulSet {owner.name} failed error: {failure.message}"
            self._recorder.event(owner, "Warning", "FailedCreate", "Create", note, about)
