"""The controllers of StatefulSets and DaemonSets, whose templates are kept as ControllerRevisions.

    sync ──► does the cache show all own writes? ──► adopt and release ──► which revision is the template?
                                                                                     │
      write the status ◄── StatefulSet: claims, then pods, one step after the other ◄┤
                       ◄── DaemonSet: nothing to manage: rolling update ◄── manage ◄─┘

A StatefulSet's pods have names and claims that stay theirs. Every name follows from the set, so that nothing can be
made twice: what is there already is refused, and looked at next time. A deletion names the uid of the pod it means.
Mirrors stateful_pod_control.go.

A DaemonSet has one pod on every node that will have it. Nodes wake every set when they come, go, or change labels or
taints. A pod that failed is deleted, so that another can be made, at growing intervals: the node that refused it would
refuse the next one at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any, Generic, TypeVar

from tonnage import clock, logs
from tonnage.behaviour.workloads import daemon_set_plan, stateful_set_plan, templates
from tonnage.behaviour.workloads.pod_states import earliest, next_check_s, ordinal_of
from tonnage.client.cache import Cache
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads import workload_controller
from tonnage.errors import AlreadyExists, TonnageError
from tonnage.objects import codec, selectors
from tonnage.objects.apps_v1 import ControllerRevision, DaemonSet, StatefulSet
from tonnage.objects.core_v1 import Node, ObjectReference, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc, same
from tonnage.objects.meta import Key

_log = logs.logger("tonnage.controllers.stateful-sets")
_daemon_sets_log = logs.logger("tonnage.controllers.daemon-sets")


RevisionedSet = TypeVar("RevisionedSet", bound=templates.Versioned)


class RevisionedSetController(workload_controller.PodOwnerController[RevisionedSet], Generic[RevisionedSet]):
    """Reads and writes the ControllerRevisions of its sets."""

    def __init__(self, context: ControllerContext, name: str, sets: Cache[RevisionedSet]) -> None:
        self._revisions = context.informers.of(ControllerRevision)
        self._revisions_of = workload_controller.by_controller(self._revisions)
        super().__init__(context, name, sets)
        self._reconciler.follow(self._revisions, self._owner_of)

    async def _history(self, owner: RevisionedSet) -> list[ControllerRevision]:
        selector = owner.spec.selector
        found = await workload_controller.claim_objects(
            self._client, owner, self._revisions_of, lambda each: selectors.selects(selector, each.metadata.labels)
        )
        return templates.in_order(found)

    async def _update_revision(
        self, owner: RevisionedSet, ordered: Sequence[ControllerRevision]
    ) -> tuple[ControllerRevision, int]:
        """The current template's revision, created or renumbered if needed; and the collision count."""
        collisions = owner.status.collision_count or 0
        known, number = templates.wanted(owner, ordered)
        if known is None:
            return await self._new_revision(owner, number or 1, collisions)
        if number is None:
            return known, collisions
        patch: Doc = {"metadata": {"resourceVersion": known.metadata.resource_version}, "revision": number}
        return await self._expectations.patch(owner.key, self._revisions, known.key, patch), collisions

    async def _new_revision(self, owner: RevisionedSet, number: int, collisions: int) -> tuple[ControllerRevision, int]:
        while True:
            doc = templates.new_revision(owner, number, collisions)
            try:
                return await self._expectations.create(owner.key, self._revisions, doc), collisions
            except AlreadyExists:
                made = await self._client.get(ControllerRevision, f"{owner.namespace}/{doc['metadata']['name']}")
            if same(made.data, doc["data"]):
                self._expectations.expect_written(owner.key, self._revisions, made)
                return made, collisions
            collisions += 1

    async def _forget_revisions(
        self, owner: RevisionedSet, ordered: Sequence[ControllerRevision], live: Collection[str]
    ) -> None:
        """Delete revisions beyond the history limit; `live` names the revisions in use."""
        for revision in templates.outdated(owner, ordered, live):
            await self._expectations.delete(owner.key, self._revisions, revision)


class StatefulSetController(RevisionedSetController[StatefulSet]):
    def __init__(self, context: ControllerContext) -> None:
        self._claims = context.informers.of(PersistentVolumeClaim)
        super().__init__(context, "stateful-sets", context.informers.of(StatefulSet))
        self._reconciler.follow(self._claims, self._sets_of_claim)

    def _sets_of_claim(self, found: PersistentVolumeClaim) -> list[Key]:
        """The set `web` for the claim `data-web-0`; template names may have dashes, so every split is tried."""
        parts = found.name.split("-")[:-1]
        keys = [f"{found.namespace}/{'-'.join(parts[start:])}" for start in range(1, len(parts))]
        return [key for key in keys if key in self._workloads]

    # -- one set ------------------------------------------------------------------------------------------------------

    async def sync(self, owner: StatefulSet, /, *, is_current: bool) -> float | None:
        """Take the planned steps, then write the status. Mirrors syncStatefulSet."""
        if not is_current:
            return workload_controller.RESYNC_S
        revisions = await self._history(owner)
        pods = await self._claimed(owner, is_member=lambda pod: stateful_set_plan.is_member(owner, pod))
        pods = self._measured(pods, owner.spec.min_ready_seconds)
        update, collisions = await self._update_revision(owner, revisions)
        current = next((revision for revision in revisions if revision.name == owner.status.current_revision), update)
        self._rejected.observe(owner.key, pods)
        observed = stateful_set_plan.ObservedState(
            current.name,
            update.name,
            self._clock.now(),
            held_back=self._rejected.held_back(owner.key),
            claims=partial(self._claims_at, owner),
        )
        failure = await self._carry_out(owner, stateful_set_plan.plan(owner, pods, observed), (current, update))
        written = await workload_controller.write_status(
            self._client, owner, stateful_set_plan.status_of(owner, pods, observed, collisions)
        )
        if written is not None:
            self._expectations.expect_written(owner.key, self._workloads, written)
        live = {current.name, update.name, *map(stateful_set_plan.revision_of, pods)}
        await self._forget_revisions(owner, revisions, live)
        if failure is not None:
            raise failure
        return earliest(
            next_check_s(pods, owner.spec.min_ready_seconds, observed.now), self._rejected.next_check_s(owner.key)
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
                    case stateful_set_plan.PodStep("delete", pod):
                        await self._delete(owner, pod)
                    case stateful_set_plan.PodStep("create claims", pod):
                        await self._create_claims(owner, ordinal_of(pod.name))
                        await self._update_claims(owner, pod)
                    case stateful_set_plan.PodStep("update", pod):
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
        owners = [codec.to_doc(each) for each in stateful_set_plan.owners_at_creation(owner)]
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
            patch: Doc = {"metadata": {**metadata, "ownerReferences": [codec.to_doc(each) for each in owners]}}
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


_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 900.0
"""The first and longest pause between deletions of one set's failed pods on one node; upstream's numbers."""


class DaemonSetController(RevisionedSetController[DaemonSet]):
    """Keeps one pod of every DaemonSet on every node that should have one."""

    def __init__(self, context: ControllerContext) -> None:
        self._nodes = context.informers.of(Node)
        super().__init__(context, "daemon-sets", context.informers.of(DaemonSet))
        self._failed_pods = clock.KeyedBackoff(
            clock=context.clock, rng=context.rng, first_s=_FIRST_PAUSE_S, max_s=_MAX_PAUSE_S
        )
        self._reconciler.follow(
            self._nodes,
            lambda _: [daemon_set.key for daemon_set in self._workloads],
            changed_by=lambda node: (node.metadata.labels, node.spec.taints),
        )
        self._nodes.add_handlers(on_delete=lambda old: self._forget_failed(self._workloads, (old,)))
        self._workloads.add_handlers(on_delete=lambda old: self._forget_failed((old,), self._nodes))

    def _forget_failed(self, sets: Iterable[DaemonSet], nodes: Iterable[Node]) -> None:
        for owner, node in product(sets, nodes):
            self._failed_pods.forget(backoff_key(owner, node.name))

    async def sync(self, owner: DaemonSet, /, *, is_current: bool) -> float | None:
        """Create and delete pods as planned, then write the status. Mirrors syncDaemonSet."""
        selector = owner.spec.selector
        if selector is None or selector.is_empty:
            note = "This daemon set is selecting all pods. A non-empty selector is required."
            self._recorder.event(owner, "Warning", "SelectingAll", "Sync", note)
            return None
        if owner.metadata.is_terminating:
            return None  # its history may be gone already, so no true status can be computed
        if not is_current:
            return workload_controller.RESYNC_S
        revisions = await self._history(owner)
        current, collisions = await self._update_revision(owner, revisions)
        hashes = {hash_of(revision) for revision in (current, *templates.equal_to(owner, revisions))}
        pods = self._measured(await self._claimed(owner), owner.spec.min_ready_seconds)
        now = self._clock.now()
        observed = daemon_set_plan.ObservedDaemons.of(owner, self._nodes, pods, hashes, now)
        again_s, failure = await self._carry_out(observed, hash_of(current))
        await workload_controller.write_status(self._client, owner, daemon_set_plan.status_of(observed, collisions))
        in_use = {pod.metadata.labels.get(templates.REVISION_HASH) for pod in pods}
        live = {current.name, *(revision.name for revision in revisions if hash_of(revision) in in_use)}
        await self._forget_revisions(owner, revisions, live)
        if failure is not None:
            raise failure
        return earliest(again_s, next_check_s(pods, owner.spec.min_ready_seconds, now))

    async def _carry_out(
        self, observed: daemon_set_plan.ObservedDaemons, hash_: str
    ) -> tuple[float | None, TonnageError | None]:
        """Carry out the plan. Returns when the next failed pod may be deleted, and the first failure."""
        owner, plan = observed.owner, daemon_set_plan.manage(observed)
        ended, again_s = self._may_be_deleted(owner, plan.ended)
        if not plan.create and not plan.delete and not ended:
            waiting, update = plan.ended, daemon_set_plan.rolling_update(observed)
            plan = daemon_set_plan.DaemonPlan(update.create, tuple(pod for pod in update.delete if pod not in waiting))
        failure = await self._create(owner, plan.create, hash_)
        deleted = await self._delete_pods(owner, [*plan.delete, *ended])
        return again_s, failure or deleted

    async def _create(self, owner: DaemonSet, nodes: Sequence[str], hash_: str) -> TonnageError | None:
        if nodes:
            _daemon_sets_log.info("Nodes need a daemon pod", daemon_set=owner.key, nodes=len(nodes))
        return await workload_controller.slow_start(
            len(nodes), lambda n: self._create_pod(owner, daemon_set_plan.daemon_pod(owner, nodes[n], hash_))
        )

    def _may_be_deleted(self, owner: DaemonSet, ended: Sequence[Pod]) -> tuple[list[Pod], float | None]:
        """The ended pods that may be deleted now, and the seconds until the next of the others may."""
        chosen: list[Pod] = []
        pauses: list[float] = []
        for pod in ended:
            node = daemon_set_plan.target_node(pod)
            key = backoff_key(owner, node)
            left_s = self._failed_pods.left_s(key, owner.metadata.generation)
            if pod.status.phase == "Failed" and left_s > 0:
                pauses.append(left_s)
                continue
            chosen.append(pod)
            if pod.status.phase == "Failed":
                self._failed_pods.failed(key, owner.metadata.generation)
                note = f"Found failed daemon pod {pod.key} on node {node}, will try to kill it"
                self._recorder.event(owner, "Warning", "FailedDaemonPod", "Delete", note)
            else:
                note = f"Found succeeded daemon pod {pod.key} on node {node}, will try to delete it"
                self._recorder.event(owner, "Normal", "SucceededDaemonPod", "Delete", note)
        return chosen, min(pauses, default=None)


def backoff_key(owner: DaemonSet, node_name: str) -> str:
    """The backoff key of a set on a node, as upstream's failedPodsBackoffKey."""
    return f"{owner.uid}/{node_name}"


def hash_of(revision: ControllerRevision) -> str:
    """The revision's hash label; its name if the label is missing."""
    return revision.metadata.labels.get(templates.REVISION_HASH) or revision.name
