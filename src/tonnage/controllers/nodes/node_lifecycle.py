"""The node lifecycle controller: node health, and the conditions, taints and evictions that follow from it.

     lease and heartbeats ──► none for --node-monitor-grace-period? ──► conditions Unknown, pods not ready
              conditions ──► NoSchedule taints, at once            (and `unschedulable` while cordoned)
                   Ready ──► NoExecute taint, as fast as the zone allows ──► `pod_deletion` evicts pods

The time of a node's last heartbeat is kept in memory, so every node gets a full grace period after a restart.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from tonnage import clock, errors, logs
from tonnage.behaviour.nodes import node_lifecycle_plan as plan
from tonnage.client.cache import Indexer
from tonnage.controllers.controller_context import ControllerContext, QueueController, node_of_pod
from tonnage.objects import meta, small_groups
from tonnage.objects.core_v1 import Node, Pod, persistent_volume
from tonnage.objects.document import Doc
from tonnage.objects.requirements import NO_EXECUTE, NOT_READY, UNREACHABLE

LEASES: Final = "kube-node-lease"
_TAINT_EVERY_S: Final = 0.1
"""How often the zones' rate limits are checked for another node to taint."""
_TRIES: Final = 5

_log = logs.logger(__name__)


class NodeLifecycleController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = context.informers.of(Node)
        self._leases = context.informers.of(small_groups.Lease, namespace=LEASES)
        self._pods_on_node = Indexer(context.informers.of(Pod), node_of_pod)
        self._healths: dict[str, plan.Heartbeat] = {}
        self._zones = plan.Zones(self._configuration.rates)
        self._to_taint: dict[str, None] = {}  # node names, in the order in which the nodes were lost
        self._some_are_lost = asyncio.Event()
        self._add_queue("node-taints", self._reconcile_taints).follow(self._nodes)
        self._loops += [self._taint_lost_nodes, self._keep_monitoring]

    async def _keep_monitoring(self) -> None:
        while True:
            await self.monitor()
            await self._clock.sleep(self._configuration.node_monitor_period_s)

    # -- NoSchedule, at once ------------------------------------------------------------------------------------------

    async def _reconcile_taints(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        keys = plan.no_schedule_keys(node)
        taints = [{"key": taint.key, "effect": taint.effect} for taint in node.spec.taints]
        if plan.with_no_schedule(taints, keys, self._clock.now()) != taints:
            await self._change_taints(node, lambda found, now: plan.with_no_schedule(found, keys, now))

    # -- one look at all nodes ----------------------------------------------------------------------------------------

    async def monitor(self) -> None:
        """Check every node once. A node that cannot be written is skipped until the next round."""
        nodes = tuple(self._nodes)
        self._register(nodes)
        is_ready: dict[str, list[bool]] = defaultdict(list)
        found: list[tuple[Node, meta.Condition | None]] = []
        for node in nodes:
            ready = node.condition(plan.READY)
            try:
                ready = await self._update_health(node)
                found.append((node, ready))
            except errors.TonnageError as exc:
                _log.warning("A node's health could not be written", node=node.name, error=exc.message)
            in_zone = is_ready[plan.zone_of(node)]
            if plan.EXCLUDED not in node.metadata.labels:
                in_zone.append(ready is not None and ready.is_true)
        # Pods are evicted only now: which other nodes are lost decides how.
        has_changed = self._zones.update(is_ready, self._clock.monotonic())
        if has_changed and self._zones.are_all_lost:
            _log.warning("No node is ready: the fault may be here, and no pod is evicted")
        elif has_changed:
            _log.info("Some nodes are ready again: pods are evicted from lost ones")
            for node in self._nodes:
                if health := self._healths.get(node.name):
                    self._healths[node.name] = replace(health, last_seen_at=self._measured_now(node))
        for node, ready in found:
            try:
                await self._process_no_execute_taint(node, ready)
            except errors.TonnageError as exc:
                _log.warning("A node's taints could not be written", node=node.name, error=exc.message)

    def _register(self, nodes: Iterable[Node]) -> None:
        found = {node.name: node.uid for node in nodes}
        for name, uid in found.items():
            health = self._healths.get(name)
            if health is None or health.uid != uid:
                self._record_event(
                    name, uid, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller"
                )
        for name in self._healths.keys() - found.keys():
            note = f"Node {name} event: Removing Node {name} from Controller"
            self._record_event(name, self._healths.pop(name).uid, "RemovingNode", note)
            self._to_taint.pop(name, None)

    async def _update_health(self, node: Node) -> meta.Condition | None:
        """Set the Ready condition to Unknown if the grace period is over. Returns it. Raises TonnageError."""
        now = self._measured_now(node)
        lease = self._leases.get(f"{LEASES}/{node.name}")
        health = self._healths[node.name] = plan.observe(self._healths.get(node.name), node, lease, now)
        ready = node.condition(plan.READY)
        if not plan.is_overdue(
            health,
            now,
            grace_s=self._configuration.node_monitor_grace_period_s,
            startup_grace_s=self._configuration.node_startup_grace_period_s,
        ):
            return ready
        conditions = plan.unknown_conditions(node, self._clock.now())
        if conditions:
            same = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
            patch = {"metadata": same, "status": {"conditions": conditions}}
            node = await self._client.patch(Node, node.name, patch, patch_type="strategic", subresource="status")
            _log.warning("A node is silent", node=node.name, grace_s=self._configuration.node_monitor_grace_period_s)
            if ready is not None and ready.is_true:
                self._record_event(node.name, node.uid, "NodeNotReady", f"Node {node.name} status is now: NodeNotReady")
            # Our own status write is no heartbeat.
            written = plan.observe(health, node, lease, now)
            self._healths[node.name] = replace(written, last_seen_at=health.last_seen_at)
        await self._mark_pods_not_ready(node)
        return node.condition(plan.READY)

    def _measured_now(self, node: Node) -> datetime:
        """The time by which a node's silence is measured; setting the system clock does not change it."""
        return self._ages.now(node.uid, node.metadata.creation_timestamp)

    async def _mark_pods_not_ready(self, node: Node) -> None:
        for pod in self._pods_on_node(node.name):
            ready = pod.condition("Ready")
            if ready is None or not ready.is_true:
                continue
            condition = {"type": "Ready", "status": "False", "lastTransitionTime": clock.rfc3339(self._clock.now())}
            patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
            try:
                await self._client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")
            except (errors.NotFound, errors.Conflict):
                continue  # the pod is gone, or another pod has its name
            except errors.ApiError as exc:  # one pod must not keep its node from being tainted
                _log.warning("A pod could not be marked as not ready", pod=pod.key, error=exc.message)
                continue
            self._recorder.event(pod, "Warning", "NodeNotReady", "NodeNotReady", "Node is not ready")

    # -- NoExecute, as fast as the zone allows ------------------------------------------------------------------------

    async def _process_no_execute_taint(self, node: Node, ready: meta.Condition | None) -> None:
        present = {taint.key for taint in node.spec.taints if taint.effect == NO_EXECUTE} & {NOT_READY, UNREACHABLE}
        if ready is not None and (ready.is_true or self._zones.are_all_lost):
            self._to_taint.pop(node.name, None)
            if present:
                await self._change_taints(node, lambda found, now: plan.with_no_execute(found, "", now))
                _log.info("No pod is evicted from a node any more", node=node.name, ready=ready.status)
            return
        key = plan.no_execute_key(ready)
        if key and present and key not in present:
            await self._change_taints(node, lambda found, now: plan.with_no_execute(found, key, now))
        elif key and not present:
            self._to_taint.setdefault(node.name)
            self._some_are_lost.set()

    async def _taint_lost_nodes(self) -> None:
        while True:
            if not self._to_taint:
                self._some_are_lost.clear()
                await self._some_are_lost.wait()
            for name in tuple(self._to_taint):
                node = self._nodes.get(name)
                if node is None:
                    self._to_taint.pop(name, None)
                    continue
                key = plan.no_execute_key(node.condition(plan.READY))
                if key and self._zones.may_taint(plan.zone_of(node), self._clock.monotonic()):
                    await self._taint_lost_node(node, key)
            await self._clock.sleep(_TAINT_EVERY_S)

    async def _taint_lost_node(self, node: Node, key: str) -> None:
        try:
            await self._change_taints(node, lambda found, now: plan.with_no_execute(found, key, now))
        except errors.TonnageError as exc:
            _log.warning("A lost node could not be tainted; it is tried again", node=node.name, error=exc.message)
            return
        _log.info("Pods are evicted from a lost node", node=node.name, taint=key)
        self._to_taint.pop(node.name, None)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _change_taints(self, node: Node, change: Callable[[list[Doc], datetime], list[Doc]]) -> None:
        """Write the taints that `change` makes of the server's taints. Raises Conflict, NotFound, TonnageError."""
        for tries_left in reversed(range(_TRIES)):
            doc = await self._client.get_doc(Node, node.name)
            if doc["metadata"]["uid"] != node.uid:
                return
            taints = doc.get("spec", {}).get("taints", [])
            wanted = change(taints, self._clock.now())
            if wanted == taints:
                return
            same = {"uid": node.uid, "resourceVersion": doc["metadata"]["resourceVersion"]}
            try:
                await self._client.patch(Node, node.name, {"metadata": same, "spec": {"taints": wanted or None}})
                return
            except errors.Conflict:
                if not tries_left:
                    raise

    def _record_event(self, name: str, uid: str, reason: str, note: str) -> None:
        about = persistent_volume.ObjectReference(api_version="v1", kind="Node", name=name, uid=uid)
        self._recorder.event(about, "Normal", reason, reason, note)
