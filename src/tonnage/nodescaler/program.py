"""`tonnage node-scaler`: makes a plan from the informers' objects, and carries it out.

    look ──► whose nominations are ours? ──► plan ──► propose, withdraw ──► make nodes ──► make ready ──► mark, remove
      ▲                                                                                                        │
      └────────────── something changed, or something is due ◄─────────────────────────────────────────────────┘

It plays the cluster autoscaler of KEP-5278's stories: proposals are written before their node exists, and a node where
a pod is expected stays. Every round starts from the server's state, so it may be killed at any point.

Every step can be repeated: names are fixed, and a write depends on the resourceVersion that was read. A nomination is a
server-side apply of `status.nominatedNodeName` under our own field manager, never forced: the server refuses it if
somebody else has set the field (Conflict, KEP-5278's rule), and remembers in `metadata.managedFields` which are ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import chain
from typing import Any, Final

from tonnage import clock, logs
from tonnage.client import http, program
from tonnage.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, TonnageError
from tonnage.nodescaler.node_pool import TO_BE_DELETED, NodePool, taint_of
from tonnage.nodescaler.plan import ScalePlan, nodes_used_by, plan, removals
from tonnage.objects import apps_v1, codec, requirements
from tonnage.objects.core_v1 import Namespace, Node, PersistentVolumeClaim, Pod, ReplicationController, Service
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.storage import STORAGE_KINDS


async def is_free(client: http.Client, name: str) -> bool:
    """True if no pod is on the node or expected there, by the server: our caches may be old."""
    object_list = await client.list(PersistentVolumeClaim)
    claims = {claim.key: claim for claim in object_list.items if claim.selected_node == name}
    asked = [f"spec.nodeName={name}", f"status.nominatedNodeName={name}"]
    for fields in [*asked, "spec.nodeName="] if claims else asked:
        pods = await client.list(Pod, field_selector=fields)
        if name in nodes_used_by(pods.items, claims):
            return False
    return True


def _readiness(is_ready: bool, at: datetime) -> Doc:
    now = clock.rfc3339(at)
    return {
        "type": "Ready",
        "status": "True" if is_ready else "False",
        "reason": "KubeletReady" if is_ready else "KubeletNotReady",
        "message": "the node is ready" if is_ready else "the node is being set up",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


PROGRAM: Final = "tonnage-node-scaler"
_OTHERS: Final = (Namespace, Service, apps_v1.ReplicaSet, apps_v1.StatefulSet, ReplicationController, *STORAGE_KINDS)
"""What placing a pod may depend on, besides nodes and pods."""
_LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
_REST_S: Final = 0.2
"""Between two rounds, so that a burst of changes is handled at once."""
_LOOK_EVERY_S: Final = 30.0
_REFUSED_S: Final = 300.0
"""How long no node is created after the server refused one: the cluster autoscaler's first pause for a failed group."""

_log = logs.logger("tonnage.node-scaler")


class NodeScaler(program.Program):
    """Keeps one pool as large as the waiting pods need, and no larger."""

    sync_timeout_s = 120.0

    def __init__(self, runtime: program.Runtime, pool: NodePool) -> None:
        super().__init__(runtime)
        self.pool = pool
        self.recorder = self._new_recorder(PROGRAM, f"{PROGRAM}-{pool.name}", by_note=False)
        self._pods = self.informers.of(Pod, field_selector=_LIVE_PODS)
        self._nodes = self.informers.of(Node)
        self._others = [self.informers.of(kind) for kind in _OTHERS]
        self._manager = f"{PROGRAM}-{pool.name}"
        """Our field manager; another pool's scaler counts as somebody else."""
        self._ages = clock.StampAges(runtime.clock)
        self._idle_since_s: dict[str, float] = {}  # a restarted scaler starts counting again
        self._wanted_since_s: dict[str, float] = {}
        self._refused_until_s = 0.0
        self._recorded: dict[Key, str] = {}
        self._changed = asyncio.Event()
        followed: list[Any] = [self._pods, self._nodes, *self._others]
        for informer in followed:
            informer.on_change(lambda _: self._changed.set())

    async def run(self) -> None:
        """Scale until cancelled. A failed round is repeated, after a growing pause."""
        await self.wait_synced()
        backoff = clock.Backoff(clock=self._clock, rng=self._rng)
        while True:
            self._changed.clear()
            try:
                due_s = await self.reconcile()
                backoff.reset()
            except TonnageError as exc:
                due_s = backoff.next_s()
                _log.warning("A round failed", pool=self.pool.name, error=exc.message, retry_s=round(due_s, 1))
                await self._clock.sleep(due_s)
                continue
            except Exception:
                _log.exception("A round failed", pool=self.pool.name)
                await self._clock.sleep(backoff.next_s())
                continue
            await self._clock.sleep(clock.jittered(_REST_S, 0.5, self._rng))
            with suppress(TimeoutError):
                await clock.within(self._clock, max(due_s - _REST_S, 0.0), self._changed.wait())

    async def reconcile(self) -> float:
        """Do one round; returns seconds until more is due. Raises TonnageError."""
        named = (pod for pod in self._pods if self.pool.is_named(pod.status.nominated_node_name))
        ours = {pod.uid for pod in named if self._is_ours(pod)}
        is_backing_off = self._clock.monotonic() < self._refused_until_s
        objects = chain(self._nodes, self._pods, *self._others)
        drawn = plan(objects, self.pool, ours, is_backing_off=is_backing_off)
        nodes = {node.name: node for node in self._nodes}
        if not await self._nominate(drawn):
            return _REST_S  # somebody was faster: the plan for those pods does not hold
        dues_s = [_LOOK_EVERY_S]
        dues_s += await self._create_nodes(drawn)
        dues_s += await self._make_ready(nodes[name] for name in drawn.members if name in nodes)
        dues_s += await self._scale_down(drawn, nodes)
        return min(dues_s)

    async def _nominate(self, drawn: ScalePlan) -> bool:
        """Write the plan's nominations, before their nodes are created; False if some were refused."""
        holds = True
        for key in drawn.withdrawals:
            pod = self._pods.get(key)
            if pod is not None:
                await self._propose(pod, "")
        size = len(drawn.members)
        growth = f"[{{{self.pool.name} {size}->{size + len(drawn.wanted)} (max: {self.pool.max_nodes})}}]"
        for key, node_name in drawn.proposals.items():
            pod = self._pods.get(key)
            if pod is None or not await self._propose(pod, node_name):
                holds = False
            elif node_name in drawn.wanted:
                self._record_once(pod, "TriggeredScaleUp", f"pod triggered scale-up: {growth}", about=node_name)
        for key, reason in drawn.remaining_unschedulable.items():
            pod = self._pods.get(key)
            if pod is not None:
                note = f"pod didn't trigger scale-up: 1 {reason}"
                self._record_once(pod, "NotTriggerScaleUp", note, about=note)
        self._recorded = {key: each for key, each in self._recorded.items() if key in self._pods}
        return holds

    def _is_ours(self, pod: Pod) -> bool:
        """True if we set the pod's nomination, alone or together with others."""
        return any(
            entry.manager == self._manager and entry.fields_v1.status.nominated_node_name is not None
            for entry in pod.metadata.managed_fields
        )

    async def _propose(self, pod: Pod, node_name: str) -> bool:
        """Nominate a pod that has no nomination, or ours; with "" clear ours. False if the write was refused."""
        status = {"nominatedNodeName": node_name} if node_name else {}
        # The uid makes sure that it is the pod we looked at, not a later one of its name.
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        doc: Doc = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}
        try:
            await self._client.patch_doc(
                Pod, pod.key, doc, patch_type="apply", subresource="status", field_manager=self._manager
            )
        except (Conflict, Invalid, NotFound) as exc:
            # Nominated by somebody else, bound, or gone since we looked: the next round sees it.
            _log.info("Another program wrote the nomination", pod=pod.key, error=exc.message)
            return False
        return True

    def _record_once(self, pod: Pod, reason: str, note: str, *, about: str) -> None:
        """Record an event once: again only after another event on the pod."""
        said = f"{pod.uid} {reason} {about}"
        if self._recorded.get(pod.key) != said:
            self._recorded[pod.key] = said
            _log.info(reason, pod=pod.key, note=note)
            self.recorder.event(pod, "Normal", reason, "ScaleUp", note)

    async def _create_nodes(self, drawn: ScalePlan) -> list[float]:
        """Create the nodes that have been wanted for long enough; returns when the others are due."""
        now_s = self._clock.monotonic()
        since_s = self._wanted_since_s = {name: self._wanted_since_s.get(name, now_s) for name in drawn.wanted}
        left_s = {name: since_s[name] + self.pool.provision_s - now_s for name in drawn.wanted}
        for name in [name for name in drawn.wanted if left_s[name] <= 0]:
            doc = self.pool.manifest(name)
            doc["status"]["conditions"] = [_readiness(False, self._clock.now())]
            try:
                await self._client.create_doc(doc)
                _log.info("Node created", node=name, pool=self.pool.name)
            except AlreadyExists:
                continue
            except ApiError as exc:
                if exc.code >= 500 or exc.code == 429:
                    raise
                # It would be refused again: the next plan does without new nodes, and withdraws its proposals.
                _log.warning("A node cannot be made", node=name, error=exc.message, pause_s=_REFUSED_S)
                self._refused_until_s = now_s + _REFUSED_S
                return [_REST_S]
        return [seconds for seconds in left_s.values() if seconds > 0]

    async def _make_ready(self, members: Iterable[Node]) -> list[float]:
        """Make nodes ready whose time has come; returns when the others are due."""
        dues_s = []
        for node in [node for node in members if taint_of(node, requirements.NOT_READY) is not None]:
            created_at = node.metadata.creation_timestamp
            left_s = 0.0 if created_at is None else self.pool.ready_s - self._ages.age_s(node.uid, created_at)
            if left_s > 0:
                dues_s.append(left_s)
                continue
            # First its status, then the taint, so that a second run finds what is left.
            patch = {"status": {"conditions": [_readiness(True, self._clock.now())]}}
            with suppress(NotFound):
                node = await self._client.patch(Node, node.key, patch, patch_type="strategic", subresource="status")
                await self._set_taints(node, without=requirements.NOT_READY)
        return dues_s

    async def _scale_down(self, drawn: ScalePlan, nodes: Mapping[str, Node]) -> list[float]:
        now_s, time_s = self._clock.monotonic(), self._clock.now().timestamp()
        self._idle_since_s = {name: self._idle_since_s.get(name, now_s) for name in drawn.idle}
        todo = removals(drawn, nodes, self.pool, self._idle_since_s, now_s=now_s, time_s=time_s)
        for name in todo.unmark:
            await self._set_taints(nodes[name], without=TO_BE_DELETED)
        for name in todo.mark:
            # The taint keeps new pods off the node before its removal.
            mark = requirements.Taint(key=TO_BE_DELETED, value=str(int(time_s)), effect=requirements.NO_SCHEDULE)
            if await self._set_taints(nodes[name], mark):
                self._record_scale_down(nodes[name], "marked the node as toBeDeleted/unschedulable")
        for name in todo.remove:
            if not await is_free(self._client, name):
                await self._set_taints(nodes[name], without=TO_BE_DELETED)
            elif await self._remove(nodes[name]):
                self._record_scale_down(nodes[name], "node removed by cluster autoscaler")
        return [] if todo.next_s is None else [todo.next_s]

    def _record_scale_down(self, node: Node, note: str) -> None:
        _log.info("ScaleDown", node=node.name, note=note)
        self.recorder.event(node, "Normal", "ScaleDown", "ScaleDown", note)

    async def _remove(self, node: Node) -> bool:
        """Delete a marked node if it is still as it was seen; False if it is not."""
        try:
            await self._client.delete(Node, node.key, uid=node.uid, resource_version=node.metadata.resource_version)
        except (Conflict, NotFound) as exc:
            _log.info("A node was not removed; it is tried again", node=node.name, error=exc.message)
            return False
        return True

    async def _set_taints(self, node: Node, *more: requirements.Taint, without: str = "") -> bool:
        """Add and remove taints of a node that is still as it was seen; False if it is not."""
        taints = [codec.to_doc(taint) for taint in (*node.spec.taints, *more) if taint.key != without]
        lock = {"resourceVersion": node.metadata.resource_version}
        try:
            await self._client.patch(Node, node.key, {"metadata": lock, "spec": {"taints": taints or None}})
        except (Conflict, NotFound) as exc:
            _log.info("A node was not changed; it is tried again", node=node.name, error=exc.message)
            return False
        return True
