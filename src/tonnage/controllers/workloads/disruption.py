"""The disruption controller: it keeps every PodDisruptionBudget's status current, because evictions are judged by it.

The API server allows an eviction if the status was computed for the budget's current generation and has a disruption
left; it subtracts one and notes the pod. This controller counts the pods again. While it cannot count them, no
disruption is allowed. The arithmetic is in `pod_states`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tonnage import clock, logs
from tonnage.behaviour.workloads import pod_states
from tonnage.client.cache import Cache, Indexer
from tonnage.controllers.controller_context import ControllerContext, QueueController, namespace_of
from tonnage.controllers.workloads.workload_controller import replacing
from tonnage.objects import core_v1, selectors
from tonnage.objects.apps_v1 import Deployment, ReplicaSet, StatefulSet
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object
from tonnage.objects.small_groups import PodDisruptionBudget, PodDisruptionBudgetStatus

_log = logs.logger("tonnage.controllers.workloads.disruption")


class DisruptionController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        informers = context.informers
        self._budgets = informers.of(PodDisruptionBudget)
        self._pods = informers.of(core_v1.Pod)
        self._budgets_in = Indexer(self._budgets, namespace_of)
        self._pods_in = Indexer(self._pods, namespace_of)
        self._sizes: dict[type[Object], Cache[Any]] = {
            kind: informers.of(kind) for kind in (ReplicaSet, Deployment, StatefulSet, core_v1.ReplicationController)
        }
        self._reconciler = self._add_queue("disruption", self._reconcile, workers=2)
        self._stale = self._add_queue("stale-disruption", self._reset_stale_condition, workers=1)
        self._reconciler.follow(self._budgets)
        self._pods.add_handlers(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed)

    def _pod_updated(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._pod_changed(old)
        self._pod_changed(new)

    def _pod_changed(self, pod: core_v1.Pod) -> None:
        budgets = [budget for budget in self._budgets_in(pod.namespace) if pod_states.guards(budget, pod)]
        if len(budgets) > 1:
            note = (
                f'Pod "{pod.namespace}"/"{pod.name}" matches multiple PodDisruptionBudgets.  '
                f'Chose "{budgets[0].name}" arbitrarily.'
            )
            self._recorder.event(pod, "Warning", "MultiplePodDisruptionBudgets", "Guard", note)
        for budget in budgets:
            self._reconciler.add(budget.key)
        if pod_states.stale_after_s(pod, self._clock.now()) is not None:
            self._stale.add(pod.key)

    async def _reconcile(self, key: Key) -> float | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        now = self._clock.now()
        try:
            there = self._pods_in(budget.namespace)
            pods = [pod for pod in there if selectors.selects(budget.spec.selector, pod.metadata.labels)]
            if not pods:
                self._recorder.event(budget, "Normal", "NoPods", "Count", "No matching pods found")
            wanted = pod_states.expected_pods(budget.spec, pods, self._find)
        except (pod_states.NoController, ValueError, selectors.InvalidSelector) as exc:
            note = f"Failed to calculate the number of expected pods: {exc}"
            self._recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", "Count", note)
            await self._write(budget, pod_states.failed_status(budget, str(exc), now))
            return None  # a change of the budget or of its pods queues it again
        if wanted.unmanaged:
            note = (
                f"Pods selected by this PodDisruptionBudget (selector: {budget.spec.selector}) were found to be "
                "unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in "
                'undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an '
                "integer value."
            )
            self._recorder.event(budget, "Warning", "UnmanagedPods", "Count", note)
        noted = budget.status.disrupted_pods
        # As the current clock would have written them: setting the clock makes no entry older or younger.
        measured = {name: now - timedelta(seconds=self._ages.age_s((key, name), at)) for name, at in noted.items()}
        still, not_deleted, recheck_s = pod_states.disrupted_pods(measured, pods, now)
        for pod in not_deleted:
            note = f"Pod was expected by PDB {budget.namespace}/{budget.name} to be deleted but it wasn't"
            self._recorder.event(pod, "Warning", "NotDeleted", "Delete", note)
        waiting = {name: noted[name] for name in still}
        await self._write(budget, pod_states.status_of(budget, pods, wanted, waiting, now))
        # A little more than the rest of the two minutes, after which an entry is removed.
        return None if recheck_s is None else recheck_s + 0.1

    async def _write(self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> None:
        if status == budget.status:
            return
        doc = replacing(status, budget.status)
        # Four numbers and a condition's message are written even when they are empty.
        doc |= {
            "disruptionsAllowed": status.disruptions_allowed,
            "currentHealthy": status.current_healthy,
            "desiredHealthy": status.desired_healthy,
            "expectedPods": status.expected_pods,
        }
        for condition in doc.get("conditions") or ():
            condition.setdefault("message", "")
        metadata = {"uid": budget.uid, "resourceVersion": budget.metadata.resource_version}
        # The version matters: an eviction that was allowed meanwhile must not be undone.
        patch: Doc = {"metadata": metadata, "status": doc}
        await self._client.patch(PodDisruptionBudget, budget.key, patch, subresource="status")

    def _find(self, kind: type[Object], key: Key) -> Object | None:
        found: Object | None = self._sizes[kind].get(key)
        return found

    async def _reset_stale_condition(self, key: Key) -> float | None:
        """Remove a DisruptionTarget condition that no deletion followed."""
        pod = self._pods.get(key)
        condition = pod.condition("DisruptionTarget") if pod is not None else None
        since = condition.last_transition_time if condition is not None else None
        left_s = pod_states.stale_after_s(pod, self._ages.now(key, since)) if pod is not None else None
        if pod is None or left_s is None:
            return None
        if left_s > 0:
            return left_s
        taken_back = {"type": "DisruptionTarget", "status": "False", "reason": None, "message": None}
        patch: Doc = {
            "metadata": {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version},
            "status": {"conditions": [{**taken_back, "lastTransitionTime": clock.rfc3339(self._clock.now())}]},
        }
        await self._client.patch(core_v1.Pod, pod.key, patch, patch_type="strategic", subresource="status")
        _log.info("A pod that was to be disrupted was not", pod=key)
        return None
