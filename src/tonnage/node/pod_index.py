"""Pods by uid, by node and by claim, so that an event enqueues the pods that it is about and no others.

A pod's name may come back (a StatefulSet's does) while the mounts of the one before it are still there; the uid tells
them apart, and is what all work on a pod is keyed by.
"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.client.cache import Cache
from tonnage.client.written_objects import MutationCache
from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key


class PodIndex:
    """The pods of our nodes, as the API has them and as we have just written them."""

    def __init__(self, pods: Cache[Pod], nodes: frozenset[str], *, clock: Clock) -> None:
        self._nodes = nodes
        self._keys: dict[str, Key] = {}
        self._uids_of_node: dict[str, set[str]] = {node: set() for node in nodes}
        self._uids_of_claim: dict[Key, set[str]] = {}
        self._node_of: dict[str, str] = {}
        self.ips: dict[str, str] = {}
        """Addresses that are taken, each with the uid that has it."""
        self._written = MutationCache(pods, clock=clock)
        pods.add_handlers(on_add=self._put, on_update=lambda _, new: self._put(new), on_delete=self._remove)

    def pod(self, uid: str) -> Pod | None:
        """The pod of this uid, None when it is gone or never was on a node of ours."""
        key = self._keys.get(uid)
        found = None if key is None else self._written.get(key)
        return found if found is not None and found.uid == uid else None

    def note(self, written: Pod) -> Pod:
        """What a write of ours returned: shown until the informer has caught up."""
        self._put(written)
        return self._written.store(written)

    def on_node(self, node: str) -> Iterator[Pod]:
        for uid in tuple(self._uids_of_node.get(node, ())):
            found = self.pod(uid)
            if found is not None:
                yield found

    def with_claim(self, claim: Key) -> list[tuple[str, str]]:
        """(node, uid) of each pod that mounts a claim."""
        return [(self._node_of[uid], uid) for uid in self._uids_of_claim.get(claim, ())]

    def _put(self, pod: Pod) -> None:
        node = pod.spec.node_name
        if node not in self._nodes:
            return
        self._keys[pod.uid] = pod.key
        self._node_of[pod.uid] = node
        self._uids_of_node[node].add(pod.uid)
        if pod.status.pod_ip and not pod.spec.host_network:
            self.ips[pod.status.pod_ip] = pod.uid
        for claim in pod.claim_names():
            self._uids_of_claim.setdefault(f"{pod.namespace}/{claim}", set()).add(pod.uid)

    def _remove(self, pod: Pod) -> None:
        if self._keys.pop(pod.uid, None) is None:
            return
        self._uids_of_node[self._node_of.pop(pod.uid)].discard(pod.uid)
        if self.ips.get(pod.status.pod_ip) == pod.uid:
            del self.ips[pod.status.pod_ip]
        for claim in pod.claim_names():
            key = f"{pod.namespace}/{claim}"
            users = self._uids_of_claim.get(key, set())
            users.discard(pod.uid)
            if not users:
                self._uids_of_claim.pop(key, None)
