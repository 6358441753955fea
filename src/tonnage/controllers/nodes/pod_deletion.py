"""Pods that are deleted because of their nodes: by the taint eviction controller and by the pod garbage collector.

Taint eviction evicts pods that do not, or no longer, tolerate a NoExecute taint. The garbage collector force-deletes
pods that no kubelet can delete, every 20 seconds, and at once when a node goes or is declared dead:

    pod                                                              is deleted
    bound to a node that is gone                                     once the node has been missing for the quarantine
    terminating, never bound                                         at once
    terminating, on a node that is not ready and out-of-service      at once
    ended, and more than `--terminated-pod-gc-threshold` have ended  the oldest, evicted ones first

A pod that has not ended is first marked Failed, so that its controller makes another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from tonnage import errors, keyed, logs
from tonnage.behaviour.nodes.node_lifecycle_plan import Eviction, no_execute, plan
from tonnage.client.cache import Indexer
from tonnage.client.http import Client
from tonnage.clock import Clock, rfc3339, within
from tonnage.controllers.controller_context import ControllerContext, QueueController, node_of_pod
from tonnage.objects.core_v1 import Node, Pod, persistent_volume
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
        except (errors.RequestEntityTooLarge, errors.Invalid) as exc:
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
            # The pod is already terminating; or its node is gone, and `PodGCController` deletes the pod.
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
        except errors.NotFound:
            return

    def _cancel(self, key: Key) -> None:
        if self.planned.pop(key, None) is not None:
            self._record_event(key, "CancelEviction", f"Cancelling deletion of Pod {key}")

    def _record_event(self, key: Key, action: str, note: str) -> None:
        # Two actions: of two notes about one action only the first would be recorded.
        namespace, name = split_key(key)
        about = persistent_volume.ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name=name)
        self._recorder.event(about, "Normal", "TaintManagerEviction", action, note)


CHECK_EVERY_S: Final = 20.0
_NODE_GONE: Final = ("DeletionByPodGC", "PodGC: node no longer exists")
_NO_REASON: Final = ("", "")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def surplus_terminated(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """The surplus of ended pods over the threshold, in the order of deletion. A threshold of 0 keeps all."""
    ended = [pod for pod in pods if pod.is_terminal]
    if threshold <= 0 or len(ended) <= threshold:
        return []
    ended.sort(
        key=lambda pod: (
            not (pod.status.phase == "Failed" and pod.status.reason == "Evicted"),
            pod.metadata.creation_timestamp or _EPOCH,
            pod.name,
        )
    )
    return ended[: len(ended) - threshold]


def out_of_service_terminating(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[Pod]:
    """Terminating pods on nodes that are not ready and have the out-of-service taint."""
    dead = {name for name, node in nodes.items() if node.is_dead}
    return [pod for pod in pods if pod.metadata.is_terminating and pod.spec.node_name in dead]


def unscheduled_terminating(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.is_terminating and not pod.spec.node_name]


class PodGCController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._threshold = context.configuration.terminated_pod_gc_threshold
        self._quarantine_s = context.configuration.pod_gc_quarantine_s
        self._pods = context.informers.of(Pod)
        self._nodes = context.informers.of(Node)
        self._missing_since_s: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._nodes.add_handlers(on_update=self._node_updated, on_delete=lambda _: self._changed.set())
        self._pods.add_handlers(on_update=self._pod_updated)
        self._loops.append(self._keep_collecting)

    def _node_updated(self, old: Node, new: Node) -> None:
        if new.is_dead and not old.is_dead:
            self._changed.set()

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if new.metadata.is_terminating and not old.metadata.is_terminating:
            node = self._nodes.get(new.spec.node_name)
            if node is not None and node.is_dead:
                self._changed.set()

    async def _keep_collecting(self) -> None:
        while True:
            self._changed.clear()
            due_s = await self.collect()
            with suppress(TimeoutError):
                await within(self._clock, due_s, self._changed.wait())

    async def collect(self) -> float:
        """Run one round. Returns the seconds until the next: when the next quarantine ends, at most CHECK_EVERY_S.

        Pods that cannot be deleted are logged, and tried again in the next round.
        """
        pods = tuple(self._pods)
        nodes = {node.name: node for node in self._nodes}
        rounds = (
            (surplus_terminated(pods, self._threshold), _NO_REASON),
            (out_of_service_terminating(pods, nodes), _NO_REASON),
            (await self._orphans(pods, nodes), _NODE_GONE),
            (unscheduled_terminating(pods), _NO_REASON),
        )
        done: set[str] = set()
        for found, (reason, message) in rounds:
            for pod in found:
                if pod.uid not in done:
                    done.add(pod.uid)
                    await self._delete_pod(pod, reason, message)
        now_s = self._clock.monotonic()
        ends_s = (since_s + self._quarantine_s - now_s for since_s in self._missing_since_s.values())
        return min([CHECK_EVERY_S, *(left_s for left_s in ends_s if left_s > 0)])

    async def _orphans(self, pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[Pod]:
        now_s = self._clock.monotonic()
        missing = keyed.grouped((name, pod) for pod in pods if (name := pod.spec.node_name) and name not in nodes)
        self._missing_since_s = {name: self._missing_since_s.get(name, now_s) for name in missing}
        found: list[Pod] = []
        for name, since_s in self._missing_since_s.items():
            if now_s - since_s >= self._quarantine_s and await self._is_gone(name):
                found += missing[name]
        return found

    async def _is_gone(self, node: str) -> bool:
        try:
            return await self._client.find(Node, node) is None
        except errors.TonnageError as exc:
            _log.warning("A node could not be asked for", node=node, error=exc.message)
            return False

    async def _delete_pod(self, pod: Pod, reason: str, message: str) -> None:
        _log.info("PodGC is force deleting Pod", pod=pod.key, node=pod.spec.node_name)
        try:
            await mark_disrupted(self._client, pod, reason, message, clock=self._clock, failed=True)
            await self._client.delete(Pod, pod.key, uid=pod.uid, grace_s=0)
        except (errors.NotFound, errors.Conflict):
            return  # the pod is gone, or another pod has its name
        except errors.TonnageError as exc:
            _log.warning("A pod could not be deleted; it is tried again", pod=pod.key, error=exc.message)
