"""The DaemonSet controller: one pod on every node that will have it.

    sync ──► does the cache show all own writes? ──► adopt and release ──► which revision is the template?
                                                                                     │
              write the status ◄── nothing to manage: rolling update ◄── manage ◄────┘

Nodes wake every set when they come, go, or change labels or taints. A pod that failed is deleted, so that another can
be made, at growing intervals: the node that refused it would refuse the next one at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tonnage import logs
from tonnage.backoff import KeyedBackoff
from tonnage.behaviour.workloads import daemon_set_plan, templates
from tonnage.behaviour.workloads.pod_states import earliest, next_check_s
from tonnage.behaviour.workloads.templates import REVISION_HASH
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads.workload_controller import RESYNC_S, WorkloadController
from tonnage.controllers.workloads.workload_writes import HistoryControl, PodControl, slow_start, write_status
from tonnage.errors import TonnageError
from tonnage.objects.apps_v1 import ControllerRevision, DaemonSet
from tonnage.objects.core_v1 import Node, Pod

_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 900.0
"""The first and longest pause between deletions of one set's failed pods on one node; upstream's numbers."""

_log = logs.logger("tonnage.controllers.daemon-sets")


class DaemonSetController(WorkloadController[DaemonSet, Pod]):
    """Keeps one pod of every DaemonSet on every node that should have one."""

    def __init__(self, context: ControllerContext) -> None:
        self._sets = context.informers.of(DaemonSet)
        self._pods = context.informers.of(Pod)
        self._nodes = context.informers.of(Node)
        revisions = context.informers.of(ControllerRevision)
        super().__init__(context, "daemon-sets", self._sets, self._pods)
        self._history = HistoryControl(context.client, revisions, self._expectations)
        self._pod_control = PodControl(context, self._pods, self._expectations)
        self._failed_pods = KeyedBackoff(
            clock=context.clock, rng=context.rng, first_s=_FIRST_PAUSE_S, max_s=_MAX_PAUSE_S
        )
        self._reconciler.follow(
            self._nodes,
            lambda _: [daemon_set.key for daemon_set in self._sets],
            changed_by=lambda node: (node.metadata.labels, node.spec.taints),
        )
        self._nodes.add_handlers(on_delete=self._node_deleted)
        self._sets.add_handlers(on_delete=self._set_deleted)
        # A new revision is our own write, or is adopted at the next sync.
        revisions.add_handlers(on_update=lambda _, new: self._queue_owner(new), on_delete=self._queue_owner)

    def _node_deleted(self, old: Node) -> None:
        for daemon_set in self._sets:
            self._failed_pods.forget(backoff_key(daemon_set, old.name))

    def _set_deleted(self, old: DaemonSet) -> None:
        for node in self._nodes:
            self._failed_pods.forget(backoff_key(old, node.name))

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
            return RESYNC_S
        revisions = await self._history.revisions(owner)
        current, collisions = await self._history.update_revision(owner, revisions)
        hashes = {hash_of(revision) for revision in (current, *templates.equal_to(owner, revisions))}
        pods = self._measured(await self._claimed(owner), owner.spec.min_ready_seconds)
        now = self._clock.now()
        observed = daemon_set_plan.ObservedDaemons.of(owner, self._nodes, pods, hashes, now)
        again_s, failure = await self._carry_out(observed, hash_of(current))
        await write_status(self._client, owner, daemon_set_plan.status_of(observed, collisions))
        in_use = {pod.metadata.labels.get(REVISION_HASH) for pod in pods}
        live = {current.name, *(revision.name for revision in revisions if hash_of(revision) in in_use)}
        await self._history.forget(owner, revisions, live)
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
        deleted = await self._pod_control.delete_all(owner, [*plan.delete, *ended])
        return again_s, failure or deleted

    async def _create(self, owner: DaemonSet, nodes: Sequence[str], hash_: str) -> TonnageError | None:
        if nodes:
            _log.info("Nodes need a daemon pod", daemon_set=owner.key, nodes=len(nodes))
        return await slow_start(
            len(nodes), lambda n: self._pod_control.create(owner, daemon_set_plan.daemon_pod(owner, nodes[n], hash_))
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
    return revision.metadata.labels.get(REVISION_HASH) or revision.name
