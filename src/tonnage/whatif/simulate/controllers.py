"""Workload controllers: which pod replaces a deleted one, and in which order a StatefulSet's pods start.

A StatefulSet's pod is recreated under its name, others under a new one, from the same template and with the claims that
remain; claims of ephemeral volumes are recreated empty. A pod without a controller is not recreated. A StatefulSet with
OrderedReady creates a pod when all pods before it run. A pod that its node rejected is recreated at growing intervals
(`RejectedPods`).
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
"""Creates the next pod of a workload, with its claims; None when there is none to create."""


def is_managed(pod: Pod) -> bool:
    return pod.metadata.controller is not None


def is_daemon(pod: Pod) -> bool:
    """True for a DaemonSet's pod: it belongs to its node, and no drain moves it."""
    return pod.metadata.controller is not None and pod.metadata.controller.kind == "DaemonSet"


def is_mirror(pod: Pod) -> bool:
    """True for a static pod: its kubelet runs it from a file, and the API server cannot evict its mirror."""
    controller = pod.metadata.controller
    return MIRROR in pod.metadata.annotations or (controller is not None and controller.kind == "Node")


@dataclass(slots=True)
class _StartOrder:
    """The start order of an OrderedReady StatefulSet."""

    to_make: deque[Make] = field(default_factory=deque)
    """New pods that wait until none is `starting`."""
    starting: set[Key] = field(default_factory=set)
    held: dict[int, tuple[Pod, Claims]] = field(default_factory=dict)
    """Deleted pods by ordinal: each is recreated when all before it run."""


class Controllers:
    def __init__(self, world: WorldState, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._lives = 0
        self._rejected = RejectedPods(world.clock)
        self._orders: dict[Key, _StartOrder] = {}
        """By the StatefulSet's key."""
        self.on_replaced: Callable[[Pod, Pod], None] = lambda old, new: None
        """Called with a pod and its replacement."""

    @property
    def not_made(self) -> int:
        """Number of requested pods that wait for earlier ones."""
        return sum(len(order.to_make) + len(order.held) for order in self._orders.values())

    # -- deleted pods -------------------------------------------------------------------------------------------------

    def replace(self, pod: Pod, why: str) -> None:
        """Delete a pod with its ephemeral claims; its controller, if any, creates a replacement."""
        found = self._world.now(pod)
        if found is None:
            return
        claims = self._leave(found, why)
        if not is_daemon(found) or self._world.get(Node, found.spec.node_name) is not None:
            self._follow(found, claims)

    def another(self, pod: Pod) -> None:
        """Create a replacement for a terminating pod that still exists and keeps its claims."""
        self._follow(pod, self._own_claims(pod))

    def end(self, pod: Pod, why: str) -> None:
        """Delete a pod with its ephemeral claims, without a replacement."""
        self._leave(pod, why)
        self.go_on(pod)

    def _leave(self, pod: Pod, why: str) -> Claims:
        claims = self._own_claims(pod)
        self._world.evict(pod, why)
        for claim in claims.values():
            self._world.remove(PersistentVolumeClaim, claim.key)
        return claims

    def _own_claims(self, pod: Pod) -> Claims:
        """The claims of its ephemeral volumes, which are deleted with the pod."""
        names = [each.claim_name(pod.name) for each in pod.spec.volumes if each.ephemeral]
        claims = {name: self._world.get(PersistentVolumeClaim, f"{pod.namespace}/{name}") for name in names if name}
        return {name: claim for name, claim in claims.items() if claim is not None}

    def _follow(self, pod: Pod, claims: Claims) -> None:
        """Create a pod's replacement, now or when its turn comes."""
        owner = self._one_by_one(pod)
        if owner is None:
            self._make_successor(pod, claims)
            return
        order = self._orders.setdefault(owner.key, _StartOrder())
        order.held[ordinal_of(pod.name)] = (pod, claims)
        self._release(order)

    def _one_by_one(self, pod: Pod) -> StatefulSet | None:
        """The pod's StatefulSet, if it is OrderedReady."""
        owner = self._world.get(StatefulSet, _set_key(pod)) if _set_key(pod) else None
        return owner if owner is not None and owner.spec.pod_management_policy != "Parallel" else None

    def _release(self, order: _StartOrder) -> None:
        """Create the pods whose turn has come, by ordinal, up to the first that must run before others."""
        for ordinal in sorted(order.held):
            pod, claims = order.held[ordinal]
            if self.waits_for(pod):
                return
            del order.held[ordinal]
            self._make_successor(pod, claims)

    def waits_for(self, pod: Pod) -> Key:
        """The StatefulSet's pod that must run before this one is recreated; empty if none."""
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
        """A node failed a pod before it ran: create another, after an interval if that did not help before."""
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
        """Create the next pod of a StatefulSet when its turn comes."""
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
        """A pod runs or is gone for good: create what its StatefulSet held back for it."""
        order = self._orders.get(_set_key(pod))
        if order is not None:
            self._release(order)
            order.starting.discard(pod.key)
            self._make_next(order)


def _set_key(pod: Pod) -> Key:
    """The key of a pod's StatefulSet; empty for other pods."""
    controller = pod.metadata.controller
    return f"{pod.namespace}/{controller.name}" if controller is not None and controller.kind == "StatefulSet" else ""


def _is_up(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return pod.status.phase == "Running" and not pod.metadata.is_terminating and (ready is None or ready.is_true)


def _emptied(claim: PersistentVolumeClaim, name: str, owner: Pod) -> PersistentVolumeClaim:
    """The claim as before its binding, for another pod."""
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
