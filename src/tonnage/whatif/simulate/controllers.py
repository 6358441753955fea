"""Workload controllers: who comes after a pod that went, in which order pods of a StatefulSet start, and daemon pods.

A StatefulSet with OrderedReady makes a pod when all that it made before run, one with Parallel makes them as asked. A
pod that its node rejected, for want of an attach slot or of room, is made again at once the first time, then at growing
intervals (the rule is `behaviour/workloads/pod_states.py`). A DaemonSet follows nodes that join, and its pods go
with their nodes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from tonnage.behaviour.workloads.pod_states import RejectedPods
from tonnage.behaviour.workloads.stateful_set_plan import ordinal_of
from tonnage.behaviour.workloads.templates import generated_name
from tonnage.objects.apps_v1 import StatefulSet
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.persistent_volume import BIND_COMPLETED, REBUILD_TARGET, SELECTED_NODE
from tonnage.objects.core_v1.pod import PodStatus
from tonnage.objects.meta import Key
from tonnage.whatif.simulate.world_state import WorldState

MIRROR: Final = "kubernetes.io/config.mirror"
_OF_THE_OLD_VOLUME = (BIND_COMPLETED, SELECTED_NODE, REBUILD_TARGET)


@dataclass(frozen=True, slots=True)
class Successor:
    """The pod that comes, and the claims that are made for it."""

    pod: Pod
    claims: tuple[PersistentVolumeClaim, ...]


def is_managed(pod: Pod) -> bool:
    return pod.metadata.controller is not None


def is_daemon(pod: Pod) -> bool:
    """A pod of a DaemonSet serves its node and shares its fate: no drain moves it."""
    return pod.metadata.controller is not None and pod.metadata.controller.kind == "DaemonSet"


def is_mirror(pod: Pod) -> bool:
    """A static pod, which its node runs from a file: the API server has only its image, and cannot evict it."""
    controller = pod.metadata.controller
    return MIRROR in pod.metadata.annotations or (controller is not None and controller.kind == "Node")


def ephemeral_claim_names(pod: Pod) -> tuple[str, ...]:
    """The names of the claims that go when the pod goes."""
    return tuple(name for each in pod.spec.volumes if each.ephemeral and (name := each.claim_name(pod.name)))


FreeName = Callable[[str, Callable[[random.Random], str]], str]
"""Draws names in a namespace until one is free."""


def successor_of(
    pod: Pod, claims: dict[str, PersistentVolumeClaim], number: int, free_name: FreeName
) -> Successor | None:
    """What a pod's controller makes once it has gone; None for a pod that has none.

    `claims` are those of its ephemeral volumes by name; `number` tells its lives apart.
    """
    controller = pod.metadata.controller
    if controller is None:
        return None
    replace = msgspec.structs.replace
    name = pod.name
    if controller.kind != "StatefulSet":
        name = free_name(pod.namespace, lambda rng: generated_name(_prefix(pod), rng))
    uid = f"{pod.uid.partition('~')[0]}~{number}"
    metadata = replace(
        pod.metadata, name=name, uid=uid, resource_version="", creation_timestamp=None, deletion_timestamp=None
    )
    spec = replace(pod.spec, node_name="", hostname=name if controller.kind == "StatefulSet" else pod.spec.hostname)
    made = replace(pod, metadata=metadata, spec=spec, status=PodStatus())
    fresh = []
    for each in pod.spec.volumes:
        before = claims.get(each.claim_name(pod.name) or "") if each.ephemeral else None
        if before is not None:
            fresh.append(_emptied(before, each.claim_name(name) or "", made))
    return Successor(made, tuple(fresh))


def _prefix(pod: Pod) -> str:
    return pod.metadata.generate_name or f"{pod.name.rpartition('-')[0] or pod.name}-"


def _emptied(claim: PersistentVolumeClaim, name: str, owner: Pod) -> PersistentVolumeClaim:
    """A claim as it was before it was bound, for another pod."""
    replace = msgspec.structs.replace
    owners = tuple(replace(each, name=owner.name, uid=owner.uid) for each in claim.metadata.owner_references)
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key not in _OF_THE_OLD_VOLUME}
    metadata = replace(
        claim.metadata,
        name=name,
        uid=f"{owner.uid}/{name}",
        resource_version="",
        creation_timestamp=None,
        deletion_timestamp=None,
        owner_references=owners,
        annotations=annotations,
    )
    spec, status = replace(claim.spec, volume_name=""), replace(claim.status, phase="Pending")
    return replace(claim, metadata=metadata, spec=spec, status=status)


Make = Callable[[], Pod | None]
"""Makes the next pod of a workload, with its claims; None when there is none to make."""


class Controllers:
    """The controllers of a world's workloads."""

    def __init__(self, world: WorldState, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._lives = 0
        self._rejected = RejectedPods(world.clock)
        self._to_make: dict[Key, deque[Make]] = {}
        """Pods of StatefulSets that wait for those before them, by the set's key."""
        self._starting: dict[Key, set[Key]] = {}
        """Pods of such sets that were made and do not run yet."""
        self._held: dict[Key, dict[int, tuple[Pod, dict[str, PersistentVolumeClaim]]]] = {}
        """Pods that went and are made again when all before them run, by the set's key and their ordinal."""
        self.on_replaced: Callable[[Pod, Pod], None] = lambda old, new: None
        """Told of a pod that comes in another's place."""

    @property
    def not_made(self) -> int:
        """Pods that are asked for and wait for those before them."""
        return sum(map(len, (*self._to_make.values(), *self._held.values())))

    # -- pods that go -------------------------------------------------------------------------------------------------

    def replace(self, pod: Pod, why: str) -> Successor | None:
        """A pod goes, with the claims that are its own, and its successor comes; None when it has none."""
        found = self._world.get(Pod, pod.key)
        if found is None or found.uid != pod.uid:
            return None
        claims = self._leave(found, why)
        if is_daemon(found) and self._world.get(Node, found.spec.node_name) is None:
            return None  # it served that node
        return self._follow(found, claims)

    def another(self, pod: Pod) -> Successor | None:
        """Make a pod in the place of one that is on its way out and still there; its claims stay with it."""
        claims = {}
        for name in ephemeral_claim_names(pod):
            claim = self._world.get(PersistentVolumeClaim, f"{pod.namespace}/{name}")
            if claim is not None:
                claims[name] = claim
        return self._follow(pod, claims)

    def end(self, pod: Pod, why: str) -> None:
        """A pod goes with the claims that are its own, and nobody comes in its place."""
        self._leave(pod, why)
        self.pod_ended(pod)

    def _leave(self, pod: Pod, why: str) -> dict[str, PersistentVolumeClaim]:
        """The pod goes; its own claims, which go with it."""
        claims = {}
        for name in ephemeral_claim_names(pod):
            claim = self._world.get(PersistentVolumeClaim, f"{pod.namespace}/{name}")
            if claim is not None:
                claims[name] = claim
        self._world.evict(pod, why)
        for name in claims:
            self._world.remove(PersistentVolumeClaim, f"{pod.namespace}/{name}")
        return claims

    def _follow(self, pod: Pod, claims: dict[str, PersistentVolumeClaim]) -> Successor | None:
        """Make the pod that comes after another, now or when its turn has come."""
        owner = self._one_by_one(pod)
        if owner is None:
            return self._made(pod, claims)
        self._held.setdefault(owner.key, {})[ordinal_of(pod.name)] = (pod, claims)
        return self._release(owner.key).get(pod.name)

    def _one_by_one(self, pod: Pod) -> StatefulSet | None:
        """The StatefulSet of a pod, if it makes a pod only when all before it run."""
        controller = pod.metadata.controller
        if controller is None or controller.kind != "StatefulSet":
            return None
        owner = self._world.get(StatefulSet, f"{pod.namespace}/{controller.name}")
        return owner if owner is not None and owner.spec.pod_management_policy != "Parallel" else None

    def _release(self, owner: Key) -> dict[str, Successor]:
        """Make those whose turn has come, by their ordinals, until one has to run first."""
        made: dict[str, Successor] = {}
        held = self._held.get(owner, {})
        for ordinal in sorted(held):
            pod, claims = held[ordinal]
            if self.waits_for(pod):
                break
            del held[ordinal]
            successor = self._made(pod, claims)
            if successor is not None:
                made[pod.name] = successor
        return made

    def waits_for(self, pod: Pod) -> Key:
        """The pod of a StatefulSet that has to run before this one is made again; empty when there is none."""
        owner = self._one_by_one(pod)
        if owner is None:
            return ""
        held, first = self._held.get(owner.key, {}), owner.spec.ordinals.start
        for ordinal in range(first, min(ordinal_of(pod.name), first + owner.spec.replicas)):
            key = f"{owner.key}-{ordinal}"
            before = self._world.get(Pod, key)
            if ordinal in held or (before is not None and not _is_up(before)):
                return key
        return ""

    def _made(self, pod: Pod, claims: dict[str, PersistentVolumeClaim]) -> Successor | None:
        self._lives += 1
        successor = successor_of(pod, claims, self._lives, self._free_name)
        if successor is None:
            return None
        owner = self._ordered_owner(pod)
        if owner:
            self._starting.setdefault(owner, set()).add(successor.pod.key)
        self.on_replaced(pod, successor.pod)
        for each in (*successor.claims, successor.pod):
            self._world.put(each)
        return successor

    def _free_name(self, namespace: str, make: Callable[[random.Random], str]) -> str:
        while self._world.get(Pod, f"{namespace}/{(name := make(self._rng))}") is not None:
            pass
        return name

    def pod_rejected(self, pod: Pod) -> None:
        """A pod was failed by its node before it ran: another is made, after an interval if that did not help."""
        controller = pod.metadata.controller
        if controller is None:
            return
        owner = f"{pod.namespace}/{controller.name}"
        pods = [each for each in self._world.pods() if each.metadata.controller == controller]
        self._rejected.observe(owner, pods)
        waits_s = self._rejected.next_check_s(owner) if pod.name in self._rejected.held_back(owner) else 0.0
        self._world.agenda.after(waits_s or 0.0, lambda: self.replace(pod, "rejected"))

    # -- StatefulSets -------------------------------------------------------------------------------------------------

    def make(self, owner: StatefulSet, make: Make) -> None:
        """Make the next pod of a StatefulSet, when its turn has come."""
        if owner.spec.pod_management_policy == "Parallel":
            make()
            return
        self._to_make.setdefault(owner.key, deque()).append(make)
        self._make_next(owner.key)

    def _make_next(self, owner: Key) -> None:
        starting, to_make = self._starting.setdefault(owner, set()), self._to_make.get(owner)
        starting &= {key for key in starting if self._world.get(Pod, key) is not None}
        if to_make and not starting:
            made = to_make.popleft()()
            if made is not None:
                starting.add(made.key)

    def pod_runs(self, pod: Pod) -> None:
        controller = pod.metadata.controller
        if controller is not None and controller.kind == "StatefulSet":
            self._release(f"{pod.namespace}/{controller.name}")
        owner = self._ordered_owner(pod)
        if owner:
            self._starting.get(owner, set()).discard(pod.key)
            self._make_next(owner)

    def pod_ended(self, pod: Pod) -> None:
        """A pod is gone for good: nobody waits for it."""
        self.pod_runs(pod)

    def _ordered_owner(self, pod: Pod) -> Key:
        """The StatefulSet whose next pod waits for this one; empty for pods of others."""
        controller = pod.metadata.controller
        if controller is None or controller.kind != "StatefulSet":
            return ""
        owner = f"{pod.namespace}/{controller.name}"
        return owner if owner in self._to_make or owner in self._starting else ""


def _is_up(pod: Pod) -> bool:
    """Running and ready, and not on its way out."""
    ready = pod.condition("Ready")
    return pod.status.phase == "Running" and not pod.metadata.is_terminating and (ready is None or ready.is_true)
