"""What the node scaler writes: a pool's nodes (as cloud and kubelet), and pods' nominations.

Every step can be repeated: names are fixed, and a write depends on the resourceVersion that was read. A nomination is a
server-side apply of `status.nominatedNodeName` under our own field manager, never forced: the server refuses it if
somebody else has set the field (Conflict, KEP-5278's rule), and remembers in `metadata.managedFields` which are ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tonnage import logs
from tonnage.client.http import Client
from tonnage.clock import Clock, StampAges, rfc3339
from tonnage.errors import AlreadyExists, Conflict, Invalid, NotFound
from tonnage.nodescaler.node_pool import TO_BE_DELETED, NodePool
from tonnage.nodescaler.plan import nodes_used_by
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc, dig
from tonnage.objects.node_selectors import NO_SCHEDULE, NOT_READY, Taint

_log = logs.logger("tonnage.node-scaler")


class PoolNodes:
    def __init__(self, client: Client, pool: NodePool, clock: Clock) -> None:
        self._client = client
        self._pool = pool
        self._clock = clock
        self._ages = StampAges(clock)

    async def make(self, name: str) -> bool:
        """Create a node, not ready yet; False if the name exists. Raises ApiError if it is refused."""
        doc = self._pool.manifest(name)
        doc["status"]["conditions"] = [_readiness(False, self._clock.now())]
        try:
            await self._client.create_doc(doc)
        except AlreadyExists:
            return False
        _log.info("Node created", node=name, pool=self._pool.name)
        return True

    def ready_in_s(self, node: Node) -> float:
        created_at = node.metadata.creation_timestamp
        if created_at is None:
            return 0.0
        return self._pool.ready_s - self._ages.age_s(node.uid, created_at)

    async def make_ready(self, node: Node) -> None:
        """Report the node as ready, then remove the taint: in this order, so that a second run finds what is left."""
        now = self._clock.now()
        patch = {"status": {"conditions": [_readiness(True, now)]}}
        try:
            current = await self._client.patch(Node, node.key, patch, patch_type="strategic", subresource="status")
        except NotFound:
            return
        await self._set_taints(current, tuple(taint for taint in current.spec.taints if taint.key != NOT_READY))

    async def mark(self, node: Node) -> bool:
        """Keep new pods off a node before its removal; False if the write failed."""
        since = str(int(self._clock.now().timestamp()))
        return await self._set_taints(
            node, (*node.spec.taints, Taint(key=TO_BE_DELETED, value=since, effect=NO_SCHEDULE))
        )

    async def unmark(self, node: Node) -> bool:
        return await self._set_taints(node, tuple(taint for taint in node.spec.taints if taint.key != TO_BE_DELETED))

    async def is_free(self, name: str) -> bool:
        """True if no pod is on the node or expected there, by the server: our caches may be old."""
        found = await self._client.list(PersistentVolumeClaim)
        claims = {claim.key: claim for claim in found.items if claim.selected_node == name}
        asked = [f"spec.nodeName={name}", f"status.nominatedNodeName={name}"]
        for fields in [*asked, "spec.nodeName="] if claims else asked:
            pods = await self._client.list(Pod, field_selector=fields)
            if name in nodes_used_by(pods.items, claims):
                return False
        return True

    async def remove(self, node: Node) -> bool:
        """Delete a marked node if it is still as it was seen; False if it is not."""
        try:
            await self._client.delete(Node, node.key, uid=node.uid, resource_version=node.metadata.resource_version)
        except (Conflict, NotFound) as exc:
            _log.info("A node was not removed; it is looked at again", node=node.name, error=exc.message)
            return False
        return True

    async def _set_taints(self, node: Node, taints: tuple[Taint, ...]) -> bool:
        lock = {"resourceVersion": node.metadata.resource_version}
        patch: Doc = {"metadata": lock, "spec": {"taints": [to_doc(taint) for taint in taints] or None}}
        try:
            await self._client.patch(Node, node.key, patch)
        except (Conflict, NotFound) as exc:
            _log.info("A node was not changed; it is looked at again", node=node.name, error=exc.message)
            return False
        return True


def _readiness(is_ready: bool, at: datetime) -> Doc:
    now = rfc3339(at)
    return {
        "type": "Ready",
        "status": "True" if is_ready else "False",
        "reason": "KubeletReady" if is_ready else "KubeletNotReady",
        "message": "the node is ready" if is_ready else "the node is being set up",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


_AT_ONCE = 8


def is_set_by(manager: str, doc: Doc) -> bool:
    """True if this manager set the pod's nomination, alone or together with others."""
    entries: list[Any] = dig(doc, "metadata", "managedFields") or []
    return any(
        entry.get("manager") == manager and dig(entry, "fieldsV1", "f:status", "f:nominatedNodeName") is not None
        for entry in entries
    )


class ProposedNominations:
    def __init__(self, client: Client, manager: str) -> None:
        self._client = client
        self.manager = manager
        self._known: dict[str, tuple[str, bool]] = {}  # uid -> (resourceVersion, is ours)

    async def ours(self, nominated: Iterable[Pod]) -> frozenset[str]:
        """The uids of pods whose nomination is ours. Typed objects do not tell: the server is asked once a version."""
        pods = list(nominated)
        known = self._known
        self._known = {pod.uid: known[pod.uid] for pod in pods if pod.uid in known}
        limit = asyncio.Semaphore(_AT_ONCE)

        async def ask(pod: Pod) -> None:
            async with limit:
                try:
                    self._note(await self._client.get_doc(Pod, pod.key), pod.uid)
                except NotFound:
                    self._known.pop(pod.uid, None)

        changed = [pod for pod in pods if self._known.get(pod.uid, ("",))[0] != pod.metadata.resource_version]
        await asyncio.gather(*map(ask, changed))
        return frozenset(uid for uid, (_, is_ours) in self._known.items() if is_ours)

    def _note(self, doc: Doc, uid: str) -> None:
        metadata = doc["metadata"]
        if metadata["uid"] == uid:
            self._known[uid] = metadata["resourceVersion"], is_set_by(self.manager, doc)

    async def propose(self, pod: Pod, node_name: str) -> bool:
        """Nominate a pod that has no nomination, or ours; False if the write was refused."""
        return await self._apply(pod, {"nominatedNodeName": node_name})

    async def withdraw(self, pod: Pod) -> bool:
        """Clear a pod's nomination if it is still ours; False if the pod is gone."""
        return await self._apply(pod, {})

    async def _apply(self, pod: Pod, status: Doc) -> bool:
        # The uid makes sure that it is the pod we looked at, not a later one of its name.
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        doc: Doc = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}
        try:
            done = await self._client.patch_doc(
                Pod, pod.key, doc, patch_type="apply", subresource="status", field_manager=self.manager
            )
        except (Conflict, Invalid, NotFound) as exc:
            # Nominated by somebody else, bound, or gone since we looked: the next round sees it.
            _log.info("A nomination was not ours to write", pod=pod.key, error=exc.message)
            return False
        self._note(done, pod.uid)
        return True
