"""The taint eviction controller: it evicts pods that do not, or no longer, tolerate a NoExecute taint."""

from __future__ import annotations

from typing import Final

from tonnage import logs
from tonnage.behaviour.nodes.node_lifecycle_plan import Eviction, no_execute, plan
from tonnage.client.cache import Indexer
from tonnage.client.http import Client
from tonnage.clock import Clock, rfc3339
from tonnage.controllers.controller_context import ControllerContext, QueueController, node_of_pod
from tonnage.errors import Invalid, NotFound, RequestEntityTooLarge
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.core_v1.volume import ObjectReference
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, split_key

_DISRUPTED = "DisruptionTarget"


async def mark_disrupted(client: Client, pod: Pod, reason: str, message: str, *, clock: Clock, failed: bool) -> None:
    """Write the condition DisruptionTarget, by which controllers see that the pod did not fail by itself.

    With `failed`, the phase becomes Failed too. A server that refuses the write does not stop the deletion. Raises
    NotFound, Conflict when the pod of this uid is gone.
    """
    status: Doc = {}
    known = pod.condition(_DISRUPTED)
    is_new = known is None or not known.is_true
    if reason and (known is None or is_new or (known.reason, known.message) != (reason, message)):
        condition = {"type": _DISRUPTED, "status": "True", "reason": reason, "message": message}
        since = {"lastTransitionTime": rfc3339(clock.now())} if is_new else {}
        status["conditions"] = [condition | since]
    if failed and not pod.is_terminal:
        status["phase"] = "Failed"
    if status:
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            await client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")
        except (RequestEntityTooLarge, Invalid) as exc:
            # The pod has no room for it, or its status is invalid for another reason: it is deleted all the same.
            _log.warning("A pod is not marked before it is deleted", pod=pod.key, error=exc.message)


_REASON: Final = "DeletionByTaintManager"
_MESSAGE: Final = "Taint manager: deleting due to NoExecute taint"

_log = logs.logger(__name__)


class TaintEvictionController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.informers.of(Pod)
        self._nodes = context.informers.of(Node)
        self._pods_on_node = Indexer(self._pods, node_of_pod)
        self.planned: dict[Key, Eviction] = {}
        """Pods to evict, and when."""
        queue = self._add_queue("taint-eviction", self._reconcile, workers=8, first_retry_s=0.01)
        queue.follow(
            self._pods,
            lambda pod: (pod.key,) if pod.spec.node_name else (),
            changed_by=lambda pod: (pod.spec.node_name, pod.spec.tolerations),
        )
        queue.follow(
            self._nodes,
            lambda node: [pod.key for pod in self._pods_on_node(node.name)],
            changed_by=lambda node: no_execute(node.spec.taints),
        )

    async def _reconcile(self, key: Key) -> float | None:
        """Plan, cancel or carry out the eviction of one pod; safe to run at any time."""
        pod, planned = self._pods.get(key), self.planned.get(key)
        if pod is None:
            self._cancel(key)
            return None
        node = self._nodes.get(pod.spec.node_name)
        if pod.metadata.is_terminating or node is None:
            # The pod is already terminating; or its node is gone, and `pod_garbage_collector` deletes the pod.
            self.planned.pop(key, None)
            return None
        now_s = self._clock.monotonic()
        wanted = plan(pod.uid, planned, no_execute(node.spec.taints), pod.spec.tolerations, now_s)
        if wanted is None:
            self._cancel(key)
            return None
        self.planned[key] = wanted
        if wanted.due_s > now_s:
            return wanted.due_s - now_s
        await self._evict(pod)
        self.planned.pop(key, None)
        return None

    async def _evict(self, pod: Pod) -> None:
        _log.info("Deleting pod", pod=pod.key, node=pod.spec.node_name)
        self._record_event(pod.key, "Evict", f"Marking for deletion Pod {pod.key}")
        try:
            latest = await self._client.get(Pod, pod.key)
            if latest.uid != pod.uid:
                return
            await mark_disrupted(self._client, latest, _REASON, _MESSAGE, clock=self._clock, failed=False)
            await self._client.delete(Pod, pod.key, uid=pod.uid)
        except NotFound:
            return

    def _cancel(self, key: Key) -> None:
        if self.planned.pop(key, None) is not None:
            self._record_event(key, "CancelEviction", f"Cancelling deletion of Pod {key}")

    def _record_event(self, key: Key, action: str, note: str) -> None:
        # Two actions: of two notes about one action only the first would be recorded.
        namespace, name = split_key(key)
        about = ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name=name)
        self._recorder.event(about, "Normal", "TaintManagerEviction", action, note)
