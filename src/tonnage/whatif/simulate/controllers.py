"""Workload controllers: which pod comes after one that went, and in which order a StatefulSet's pods start.

A pod of a StatefulSet comes back under its name, others under a new one, each from the same template and with the
claims that stay; claims of ephemeral volumes are made anew, empty. A pod that nobody manages does not come back. A
StatefulSet with OrderedReady makes a pod when all before it run; a pod that its node rejected is made again at growing
intervals (`RejectedPods`).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
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
_OF_THE_OLD_VOLUME: Final = (BIND_COMPLETED, SELECTED_NODE, REBUILD_TARGET)

Claims = dict[str, PersistentVolumeClaim]
Make = Callable[[], Pod | None]
"""Makes the next pod of a workload, with its claims; None when there is none to make."""


def is_managed(pod: Pod) -> bool:
    return pod.metadata.controller is not None


def is_daemon(pod: Pod) -> bool:
    """A pod of a DaemonSet serves its node and shares its fate: no drain moves it."""
    return pod.metadata.controller is not None and pod.metadata.controller.kind == "DaemonSet"


def is_mirror(pod: Pod) -> bool:
    """A static pod, which its node runs from a file: the API server has only its image, and cannot evict it."""
    controller = pod.metadata.controller
    return MIRROR in pod.metadata.annotations or (controller is not None and controller.kind == "Node")


@dataclass(slots=True)
class _StartOrder:
    """What an OrderedReady StatefulSet makes one after the other."""

    to_make: deque[Make] = field(default_factory=deque)
    """New pods, each of which waits until none is `starting`."""
    starting: set[Key] = field(default_factory=set)
    held: dict[int, tuple[Pod, Claims]] = field(default_factory=dict)
    """Pods that went, by ordinal: each is made again when all before it run."""


class Controllers:
    def __init__(self, world: WorldState, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._lives = 0
        self._rejected = RejectedPods(world.clock)
        self._orders: dict[Key, _StartOrder] = {}
        """By the StatefulSet's key."""
        self.on_replaced: Callable[[Pod, Pod], None] = lambda old, new: None
        """Told of a pod that comes in another's place."""

    @property
    def not_made(self) -> int:
        """Pods that are asked for and wait for those before them."""
        return sum(len(order.to_make) + len(order.held) for order in self._orders.values())

    # -- pods that go -------------------------------------------------------------------------------------------------

    def replace(self, pod: Pod, why: str) -> None:
        """A pod goes, with the claims that are its own, and its successor comes if it has a controller."""
        found = self._world.now(pod)
        if found is None:
            return
        claims = self._leave(found, why)
        if not is_daemon(found) or self._world.get(Node, found.spec.node_name) is not None:
            self._follow(found, claims)

    def another(self, pod: Pod) -> None:
        """Make a pod in the place of one that is on its way out and still there; its claims stay with it."""
        self._follow(pod, self._own_claims(pod))

    def end(self, pod: Pod, why: str) -> None:
        """A pod goes with the claims that are its own, and nobody comes in its place."""
        self._leave(pod, why)
        self.go_on(pod)

    def _leave(self, pod: Pod, why: str) -> Claims:
        claims = self._own_claims(pod)
        self._world.evict(pod, why)
        for claim in claims.values():
            self._world.remove(PersistentVolumeClaim, claim.key)
        return claims

    def _own_claims(self, pod: Pod) -> Claims:
        """The claims of its ephemeral volumes, which go when the pod goes."""
        names = [each.claim_name(pod.name) for each in pod.spec.volumes if each.ephemeral]
        claims = {name: self._world.get(PersistentVolumeClaim, f"{pod.namespace}/{name}") for name in names if name}
        return {name: claim for name, claim in claims.items() if claim is not None}

    def _follow(self, pod: Pod, claims: Claims) -> None:
        """Make the pod that comes after another, now or when its turn has come."""
        owner = self._one_by_one(pod)
        if owner is None:
            self._make_successor(pod, claims)
            return
        order = self._orders.setdefault(owner.key, _StartOrder())
        order.held[ordinal_of(pod.name)] = (pod, claims)
        self._release(order)

    def _one_by_one(self, pod: Pod) -> StatefulSet | None:
        """The StatefulSet of a pod, if it makes a pod only when all before it run."""
        owner = self._world.get(StatefulSet, _set_key(pod)) if _set_key(pod) else None
        return owner if owner is not None and owner.spec.pod_management_policy != "Parallel" else None

    def _release(self, order: _StartOrder) -> None:
        """Make those whose turn has come, by their ordinals, until one has to run first."""
        for ordinal in sorted(order.held):
            pod, claims = order.held[ordinal]
            if self.waits_for(pod):
                return
            del order.held[ordinal]
            self._make_successor(pod, claims)

    def waits_for(self, pod: Pod) -> Key:
        """The pod of a StatefulSet that has to run before this one is made again; empty when there is none."""
        owner = self._one_by_one(pod)
        if owner is None:
            return ""
        held, first = self._orders.get(owner.key, _StartOrder()).held, owner.spec.ordinals.start
        for ordinal in range(first, min(ordinal_of(pod.name), first + owner.spec.replicas)):
            key = f"{owner.key}-{ordinal}"
            before = self._world.get(Pod, key)
            if ordinal in held or (before is not None and not _is_up(before)):
                return key
        return ""

    def _make_successor(self, pod: Pod, claims: Claims) -> None:
        self._lives += 1
        controller = pod.metadata.controller
        if controller is None:
            return
        replace, name, hostname = msgspec.structs.replace, pod.name, pod.name
        if controller.kind != "StatefulSet":
            name, hostname = self._free_name(pod), pod.spec.hostname
        uid = f"{pod.uid.partition('~')[0]}~{self._lives}"
        metadata = replace(
            pod.metadata, name=name, uid=uid, resource_version="", creation_timestamp=None, deletion_timestamp=None
        )
        spec = replace(pod.spec, node_name="", hostname=hostname)
        made = replace(pod, metadata=metadata, spec=spec, status=PodStatus())
        if controller.kind == "StatefulSet" and (order := self._orders.get(_set_key(pod))) is not None:
            order.starting.add(made.key)
        self.on_replaced(pod, made)
        for volume in pod.spec.volumes:
            before = claims.get(volume.claim_name(pod.name) or "") if volume.ephemeral else None
            if before is not None:
                self._world.put(_emptied(before, volume.claim_name(name) or "", made))
        self._world.put(made)

    def _free_name(self, pod: Pod) -> str:
        prefix = pod.metadata.generate_name or f"{pod.name.rpartition('-')[0] or pod.name}-"
        while self._world.get(Pod, f"{pod.namespace}/{(name := generated_name(prefix, self._rng))}") is not None:
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
        order = self._orders.setdefault(owner.key, _StartOrder())
        order.to_make.append(make)
        self._make_next(order)

    def _make_next(self, order: _StartOrder) -> None:
        order.starting = {key for key in order.starting if self._world.get(Pod, key) is not None}
        if order.to_make and not order.starting:
            made = order.to_make.popleft()()
            if made is not None:
                order.starting.add(made.key)

    def go_on(self, pod: Pod) -> None:
        """A pod runs, or is gone for good: what its StatefulSet held back for it is made."""
        order = self._orders.get(_set_key(pod))
        if order is not None:
            self._release(order)
            order.starting.discard(pod.key)
            self._make_next(order)


def _set_key(pod: Pod) -> Key:
    """The key of a pod's StatefulSet; empty for pods of others."""
    controller = pod.metadata.controller
    return f"{pod.namespace}/{controller.name}" if controller is not None and controller.kind == "StatefulSet" else ""


def _is_up(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return pod.status.phase == "Running" and not pod.metadata.is_terminating and (ready is None or ready.is_true)


def _emptied(claim: PersistentVolumeClaim, name: str, owner: Pod) -> PersistentVolumeClaim:
    """A claim as it was before it was bound, for another pod."""
    replace = msgspec.structs.replace
    owners = tuple(replace(each, name=owner.name, uid=owner.uid) for each in claim.metadata.owner_references)
    metadata = replace(
        claim.metadata,
        name=name,
        uid=f"{owner.uid}/{name}",
        resource_version="",
        creation_timestamp=None,
        deletion_timestamp=None,
        owner_references=owners,
        annotations={key: value for key, value in claim.metadata.annotations.items() if key not in _OF_THE_OLD_VOLUME},
    )
    spec, status = replace(claim.spec, volume_name=""), replace(claim.status, phase="Pending")
    return replace(claim, metadata=metadata, spec=spec, status=status)
