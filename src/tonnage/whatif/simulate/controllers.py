"""Controllers: which pod replaces a deleted one, in which order a StatefulSet's pods start, and the PV binder.

A StatefulSet's pod is recreated under its name, others under a new one, from the same template and with the claims that
remain. A pod without a controller is not recreated. A StatefulSet with OrderedReady creates a pod when all
pods before it run. A pod that its node rejected is recreated at growing intervals (`RejectedPods`). A waiting pod gets
the claims of its ephemeral volumes, and they are deleted with it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tonnage.behaviour.volumes.binding_plan import BOUND, Bind, ClaimInputs, claim_step
from tonnage.behaviour.workloads.pod_states import RejectedPods, generated_name, ordinal_of
from tonnage.behaviour.workloads.templates import claim_for
from tonnage.documents.kinds.storage.storage_class import default_class_for
from tonnage.objects import apps_v1, codec, requirements, volume_matching
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, PodStatus
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import StorageClass
from tonnage.whatif.creation import renewed
from tonnage.whatif.simulate.disks import bound_claim, reference_to
from tonnage.whatif.simulate.world_state import WorldState

MIRROR: Final = "kubernetes.io/config.mirror"

Make = Callable[[], Pod | None]
"""Creates the next pod of a workload, with its claims; None when there is none to create."""


def is_daemon(pod: Pod) -> bool:
    """True for a DaemonSet's pod: it belongs to its node, and no drain moves it."""
    return pod.metadata.controller is not None and pod.metadata.controller.kind == "DaemonSet"


def is_mirror(pod: Pod) -> bool:
    """True for a static pod: its kubelet runs it from a file, and the API server cannot evict its mirror."""
    controller = pod.metadata.controller
    return MIRROR in pod.metadata.annotations or (controller is not None and controller.kind == "Node")


@dataclass(slots=True)
class _PodsToCome:
    """The pods that an OrderedReady StatefulSet creates when those before them run."""

    deleted: dict[int, Pod] = field(default_factory=dict)
    """By ordinal."""
    new: deque[Make] = field(default_factory=deque)
    last: Key = ""
    """The pod that was created last: the next new one waits until it runs or is gone."""


@dataclass(slots=True)
class Controllers:
    _world: WorldState
    _rng: random.Random
    _rejected: RejectedPods
    _lives: int = 0
    _to_come: dict[Key, _PodsToCome] = field(default_factory=dict)
    """By the StatefulSet's key."""

    @property
    def not_made(self) -> int:
        """Number of requested pods that wait for earlier ones."""
        return sum(len(come.deleted) + len(come.new) for come in self._to_come.values())

    # -- ephemeral volumes --------------------------------------------------------------------------------------------

    def pod_came(self, pod: Pod) -> None:
        """Create the missing claims of a waiting pod's ephemeral volumes."""
        if pod.spec.node_name or pod.is_terminal or pod.metadata.is_terminating:
            return
        for volume in pod.spec.volumes:
            key = f"{pod.namespace}/{volume.claim_name(pod.name)}"
            if volume.ephemeral is not None and self._world.get(PersistentVolumeClaim, key) is None:
                doc = claim_for(pod, volume)
                chosen = default_class_for(doc, [codec.to_doc(each) for each in self._world.all(StorageClass)])
                doc["spec"] |= {"storageClassName": chosen} if chosen is not None else {}
                self._world.put(codec.convert(PersistentVolumeClaim, doc))

    # -- deleted pods -------------------------------------------------------------------------------------------------

    def replace(self, pod: Pod, why: str) -> None:
        """Delete a pod with its ephemeral claims; its controller, if any, creates a replacement."""
        found = self._world.now(pod)
        if found is None:
            return
        self._delete(found, why)
        if not is_daemon(found) or self._world.get(Node, found.spec.node_name) is not None:
            self.another(found)

    def end(self, pod: Pod, why: str) -> None:
        """Delete a pod with its ephemeral claims, without a replacement."""
        self._delete(pod, why)
        self.go_on(pod)

    def _delete(self, pod: Pod, why: str) -> None:
        self._world.evict(pod, why)
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                self._world.remove(PersistentVolumeClaim, f"{pod.namespace}/{volume.claim_name(pod.name)}")

    def another(self, pod: Pod) -> None:
        """Create a replacement, now or when its turn comes; the pod itself may still be terminating."""
        owner = self._one_by_one(pod)
        if owner is None:
            self._make_successor(pod)
            return
        self._to_come.setdefault(owner.key, _PodsToCome()).deleted[ordinal_of(pod.name)] = pod
        self._go_on(owner)

    def comes_alone(self, pod: Pod) -> bool:
        """True if the next pod of its workload is created when this one runs."""
        return self._one_by_one(pod) is not None

    def _one_by_one(self, pod: Pod) -> apps_v1.StatefulSet | None:
        """The pod's StatefulSet, if it is OrderedReady."""
        controller = pod.metadata.controller
        if controller is None or controller.kind != "StatefulSet":
            return None
        owner = self._world.get(apps_v1.StatefulSet, f"{pod.namespace}/{controller.name}")
        return owner if owner is not None and owner.spec.pod_management_policy != "Parallel" else None

    def _make_successor(self, pod: Pod) -> None:
        self._lives += 1
        controller = pod.metadata.controller
        if controller is None:
            return
        name, hostname = pod.name, pod.name
        if controller.kind != "StatefulSet":
            name, hostname = self._free_name(pod), pod.spec.hostname
        uid = f"{pod.uid.partition('~')[0]}~{self._lives}"
        metadata = {"name": name, "uid": uid, "creation_timestamp": None, "deletion_timestamp": None}
        made = renewed(pod, metadata, spec={"node_name": "", "hostname": hostname}, status=PodStatus())
        self._world.watcher.replaced(pod, made)
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

    def make(self, owner: apps_v1.StatefulSet, make: Make) -> None:
        """Create the next pod of a StatefulSet when its turn comes."""
        if owner.spec.pod_management_policy == "Parallel":
            make()
            return
        self._to_come.setdefault(owner.key, _PodsToCome()).new.append(make)
        self._go_on(owner)

    def go_on(self, pod: Pod) -> None:
        """A pod runs or is gone for good: create what its StatefulSet held back for it."""
        if (owner := self._one_by_one(pod)) is not None:
            self._go_on(owner)

    def _go_on(self, owner: apps_v1.StatefulSet) -> None:
        coming = self._to_come.get(owner.key)
        if coming is None:
            return
        for ordinal in sorted(coming.deleted):
            if self.waits_for(coming.deleted[ordinal]):
                return
            coming.last = f"{owner.key}-{ordinal}"
            self._make_successor(coming.deleted.pop(ordinal))
        while coming.new and ((last := self._world.get(Pod, coming.last)) is None or _is_up(last)):
            made = coming.new.popleft()()
            coming.last = made.key if made is not None else ""

    def waits_for(self, pod: Pod) -> Key:
        """The StatefulSet's pod that must run before this one is recreated; empty if none."""
        owner = self._one_by_one(pod)
        if owner is None:
            return ""
        deleted, first = self._to_come.get(owner.key, _PodsToCome()).deleted, owner.spec.ordinals.start
        for ordinal in range(first, min(ordinal_of(pod.name), first + owner.spec.replicas)):
            key = f"{owner.key}-{ordinal}"
            before = self._world.get(Pod, key)
            if ordinal in deleted or (before is not None and not _is_up(before)):
                return key
        return ""


def _is_up(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return pod.status.phase == "Running" and not pod.metadata.is_terminating and (ready is None or ready.is_true)


_PENDING: Final = ("", "Pending")


@dataclass(slots=True)
class VolumeBinder:
    """Binds existing claims and volumes, by `behaviour/volumes/binding_plan.py`, a moment after a change: when every
    part has seen it.

    A claim of a WaitForFirstConsumer class gets the volume that the scheduler chose, recognised by its `claimRef`. Any
    other claim takes the smallest matching volume as soon as there is one, before its node is known; without a match,
    the driver creates one if the class has a provisioner (`storage_model`).
    """

    _world: WorldState
    _unbound: dict[Key, None] = field(default_factory=dict)
    """Claims that wait for a volume, whoever creates it."""

    def claim_changed(self, claim: PersistentVolumeClaim) -> None:
        storage_class = self._world.get(StorageClass, claim.class_name or "")
        if claim.is_bound and claim.spec.volume_name:
            self._unbound.pop(claim.key, None)
        elif claim.spec.volume_name or storage_class is None or not storage_class.waits_for_consumer:
            self._unbound[claim.key] = None
            self._world.agenda.after(0.0, lambda: self._serve(claim.key))

    def volume_changed(self, volume: PersistentVolume) -> None:
        owner = volume.spec.claim_ref
        if owner is not None:
            claim = self._world.get(PersistentVolumeClaim, owner.key)
            if claim is not None and not claim.spec.volume_name and volume.status.phase != BOUND:
                self._world.agenda.after(0.0, lambda: self._serve(owner.key))
        elif volume.status.phase in _PENDING:
            self._world.put(renewed(volume, status={"phase": volume_matching.AVAILABLE}))
        elif volume.status.phase == volume_matching.AVAILABLE:
            for key in tuple(self._unbound):
                self._world.agenda.after(0.0, lambda key=key: self._serve(key))  # type: ignore[misc]

    def _serve(self, key: Key) -> None:
        """Take a claim's next step, as the PV binder does."""
        claim = self._world.get(PersistentVolumeClaim, key)
        if claim is None or claim.is_bound:
            self._unbound.pop(key, None)
            return
        inputs = ClaimInputs(
            volume=lambda name: self._world.get(PersistentVolume, name),
            candidates=() if claim.spec.volume_name else self._world.all(PersistentVolume),
            storage_class=self._world.get(StorageClass, claim.class_name or ""),
            default_class=None,
            waiting_pods=lambda: (),
        )
        try:
            step = claim_step(claim, inputs)
        except requirements.InvalidSelector:
            return
        if isinstance(step, Bind):
            self._world.put(renewed(step.volume, spec={"claim_ref": reference_to(claim)}, status={"phase": BOUND}))
            self._world.put(bound_claim(claim, step.volume.name))
            self._unbound.pop(key, None)
