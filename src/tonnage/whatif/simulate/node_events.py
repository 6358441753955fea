"""What befalls nodes: cordoned, drained, failed, gone, back again, and new ones that join.

A drain cordons, then evicts pod after pod as `kubectl drain` does: pods of DaemonSets stay, an eviction that a budget
refuses is tried again, and what nobody manages goes for good. Whoever goes is followed by its successor. Volumes of a
node that is cordoned or gone may be rebuilt elsewhere, if their driver does that; others stay behind (KEP-5925).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.objects.taints import NO_EXECUTE, NO_SCHEDULE, Taint, find_untolerated
from tonnage.whatif.simulate.successors import Successor, ephemeral_claim_names, is_daemon, successor_of
from tonnage.whatif.simulate.world import World

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_EVICT_AGAIN_S: Final = 5.0
"""How soon kubectl tries an eviction again that a budget refused."""

MayGo = Callable[[Pod], bool]
"""Whether no budget forbids that a pod is evicted now."""


class NodeEvents:
    """Things that happen to the nodes of a world. `may_go` is asked before each eviction."""

    def __init__(self, world: World, rng: random.Random, *, may_go: MayGo = lambda pod: True) -> None:
        self._world = world
        self._rng = rng
        self._may_go = may_go
        self._lives = 0
        self._draining: set[str] = set()

    # -- nodes --------------------------------------------------------------------------------------------------------

    def cordon(self, name: str) -> None:
        self._change(name, unschedulable=True)
        self._world.storage.set_free(name, self.volumes_on(name))

    def uncordon(self, name: str) -> None:
        """Back in use; volumes that are still there are confined to it again."""
        self._draining.discard(name)
        self._change(name, unschedulable=False)
        for volume in self.volumes_on(name):
            self._world.storage.confine(volume)

    def drain(self, name: str) -> None:
        self.cordon(name)
        self._draining.add(name)
        self._evict_all(name)

    def fail(self, name: str) -> None:
        """The node is not heard of any more: tainted at once, its pods evicted when they no longer tolerate that."""
        taints = (Taint(key=UNREACHABLE, effect=NO_SCHEDULE), Taint(key=UNREACHABLE, effect=NO_EXECUTE))
        self._change(name, taints=taints)
        for pod in self.pods_on(name):
            stays_s = _stays_s(pod, taints[1])
            if stays_s is not None:
                self._world.agenda.after(stays_s, lambda pod=pod: self._leave(pod, name))  # type: ignore[misc]

    def recover(self, name: str) -> None:
        node = self._node(name)
        if node is not None:
            self._change(name, without_taint=UNREACHABLE)

    def remove(self, name: str) -> None:
        """The Node object goes: so do its pods, and its volumes may be rebuilt elsewhere."""
        volumes = self.volumes_on(name)
        self._world.remove(Node, name)
        self._world.storage.set_free(name, volumes)
        for pod in self.pods_on(name):
            self.replace(pod, "its node is gone")

    def join(self, objects: Iterable[Object]) -> None:
        """A node comes, with its CSINode and its capacity objects."""
        for each in objects:
            self._world.put(each)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def replace(self, pod: Pod, why: str) -> Successor | None:
        """A pod goes, with the claims that are its own, and its successor comes."""
        found = self._world.get(Pod, pod.key)
        if not isinstance(found, Pod) or found.uid != pod.uid:
            return None
        claims = {}
        for name in ephemeral_claim_names(pod):
            claim = self._world.get(PersistentVolumeClaim, f"{pod.namespace}/{name}")
            if isinstance(claim, PersistentVolumeClaim):
                claims[name] = claim
        self._world.evict(pod, why)
        for name in claims:
            self._world.remove(PersistentVolumeClaim, f"{pod.namespace}/{name}")
        self._lives += 1
        successor = successor_of(pod, claims, self._lives, self._rng)
        if successor is None:
            return None
        for each in (*successor.claims, successor.pod):
            self._world.put(each)
        return successor

    def _evict_all(self, name: str) -> None:
        """Evict everybody whose time has come; whom a budget protects is tried again for as long as the drain goes."""
        if name not in self._draining:
            return
        refused = False
        for pod in self.pods_on(name):
            if is_daemon(pod):
                continue
            if self._may_go(pod):
                self.replace(pod, "evicted")
            else:
                refused = True
        if refused:
            self._world.agenda.after(_EVICT_AGAIN_S, lambda: self._evict_all(name))

    def _leave(self, pod: Pod, name: str) -> None:
        node = self._node(name)
        if node is None or any(each.key == UNREACHABLE for each in node.spec.taints):
            self.replace(pod, "its node is not heard of")

    def pods_on(self, name: str) -> list[Pod]:
        return sorted((pod for pod in self._world.pods() if pod.spec.node_name == name), key=lambda pod: pod.key)

    def volumes_on(self, name: str) -> list[PersistentVolume]:
        """The volumes that can be used on this node alone, or that stand on its disk."""
        node = self._node(name)
        found = []
        for each in self._world.objects:
            if isinstance(each, PersistentVolume) and node is not None and self._world.is_home(each, node):
                found.append(each)
        return found

    def _node(self, name: str) -> Node | None:
        found = self._world.get(Node, name)
        return found if isinstance(found, Node) else None

    def _change(
        self,
        name: str,
        *,
        unschedulable: bool | None = None,
        taints: Sequence[Taint] = (),
        without_taint: str = "",
    ) -> None:
        node = self._node(name)
        if node is None:
            return
        kept = tuple(each for each in node.spec.taints if each.key != without_taint)
        added = tuple(each for each in taints if each not in kept)
        spec = msgspec.structs.replace(
            node.spec,
            unschedulable=node.spec.unschedulable if unschedulable is None else unschedulable,
            taints=(*kept, *added),
        )
        metadata = msgspec.structs.replace(node.metadata, resource_version="")
        self._world.put(msgspec.structs.replace(node, metadata=metadata, spec=spec))


def _stays_s(pod: Pod, taint: Taint) -> float | None:
    """How long a pod stays on a node with this taint; None for as long as it likes."""
    if find_untolerated((taint,), pod.spec.tolerations, (NO_EXECUTE,)) is not None:
        return 0.0
    spans = [
        each.toleration_seconds
        for each in pod.spec.tolerations
        if find_untolerated((taint,), (each,), (NO_EXECUTE,)) is None
    ]
    limited = [float(each) for each in spans if each is not None]
    return max(0.0, min(limited)) if limited else None
