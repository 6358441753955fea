"""Controllers: which pod replaces a deleted one, in which order a StatefulSet's pods start, and the PV binder.

A StatefulSet's pod is recreated under its name, others under a new one, from the same template and with the claims that
remain. A pod without a controller is not recreated. A StatefulSet creates its pods when its plan says so
(`behaviour/workloads/stateful_set_plan.py`). A pod that its node rejected is recreated at growing intervals
(`RejectedPods`). A waiting pod gets the claims of its ephemeral volumes, and they are deleted with it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final

from tonnage.behaviour.volumes.binding_plan import BOUND, Bind, ClaimInputs, claim_step
from tonnage.behaviour.workloads.pod_states import RejectedPods, generated_name, next_check_s, ordinal_of
from tonnage.behaviour.workloads.replica_set_plan import pods_to_delete
from tonnage.behaviour.workloads.stateful_set_plan import Create, ObservedState, holds_up, is_member, is_ordered, scale
from tonnage.behaviour.workloads.templates import claim_for
from tonnage.documents.kinds.storage.storage_class import default_class_for
from tonnage.objects import apps_v1, codec, requirements, volume_matching
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, PodStatus
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import StorageClass
from tonnage.whatif.creation import renewed
from tonnage.whatif.simulate.disks import bound_claim, reference_to
from tonnage.whatif.simulate.world_state import WorldState

MIRROR: Final = "kubernetes.io/config.mirror"
_ONE_AT_A_TIME: Final = ("StatefulSet", "DaemonSet")
"""Owners that create another pod when the one before is gone; others when it is terminating."""


def is_daemon(pod: Pod) -> bool:
    """True for a DaemonSet's pod: it belongs to its node, and no drain moves it."""
    return _kind_of_owner(pod) == "DaemonSet"


def is_mirror(pod: Pod) -> bool:
    """True for a static pod: its kubelet runs it from a file, and the API server cannot evict its mirror."""
    return MIRROR in pod.metadata.annotations or _kind_of_owner(pod) == "Node"


@dataclass(eq=False, slots=True)
class Seat:
    """One pod that a workload asks for, whichever pod has the seat now."""

    make: Callable[[], Pod | None] = lambda: None
    """Creates its first pod, with the claims; None when there is none to create."""
    span_s: float | None = None
    """How long its pods run; None for ever."""
    workload: tuple[str, Key] | None = None
    """The workload that asked for it during the run."""
    pod: Pod | None = None
    """The pod that has it or had it last; None before the first."""


@dataclass(slots=True)
class _Members:
    """What a StatefulSet's plan has to look at: ordinals whose pods are up need nothing."""

    new_ordinals: Iterator[int]
    next_ordinal: int
    to_come: deque[Seat] = field(default_factory=deque)
    empty: dict[int, Seat] = field(default_factory=dict)
    """Seats whose pod is gone, by ordinal."""
    in_the_way: set[int] = field(default_factory=set)
    """Ordinals whose pods may hold up those after them."""


@dataclass(slots=True)
class Controllers:
    _world: WorldState
    _rng: random.Random
    _rejected: RejectedPods
    _lives: int = 0
    _seats: dict[str, Seat] = field(default_factory=dict)
    """By pod uid."""
    _members: dict[Key, _Members] = field(default_factory=dict)
    """By the StatefulSet's key."""

    @property
    def not_made(self) -> int:
        """Number of requested pods that wait for earlier ones."""
        return sum(len(members.empty) + len(members.to_come) for members in self._members.values())

    # -- ephemeral volumes --------------------------------------------------------------------------------------------

    def pod_came(self, pod: Pod) -> None:
        """Create the missing claims of a waiting pod's ephemeral volumes."""
        self._gets_in_the_way(pod)
        if pod.spec.node_name or pod.is_terminal or pod.metadata.is_terminating:
            return
        for volume in pod.spec.volumes:
            key = f"{pod.namespace}/{volume.claim_name(pod.name)}"
            if volume.ephemeral is not None and self._world.get(PersistentVolumeClaim, key) is None:
                doc = claim_for(pod, volume)
                chosen = default_class_for(doc, [codec.to_doc(each) for each in self._world.all(StorageClass)])
                doc["spec"] |= {"storageClassName": chosen} if chosen is not None else {}
                self._world.put(codec.convert(PersistentVolumeClaim, doc))

    # -- pods that come and go ----------------------------------------------------------------------------------------

    def arrive(self, workload: Object, seat: Seat) -> None:
        """A workload asks for one more pod: create it, now or when its turn comes."""
        if isinstance(workload, apps_v1.StatefulSet):
            self._members_of(workload).to_come.append(seat)
            self._sync(workload)
        else:
            self._fill(seat)

    def runs(self, pod: Pod) -> None:
        seat = self._seats.get(pod.uid)
        if seat is not None and seat.span_s is not None:
            self._world.agenda.after(seat.span_s, lambda: self._done(pod))
        self._go_on(pod)

    def _done(self, pod: Pod) -> None:
        """A pod's lifetime is over; its claims are deleted with it."""
        found, seat = self._world.now(pod), self._seats.get(pod.uid)
        if found is not None and seat is not None and not found.metadata.is_terminating:
            if seat.workload is not None:
                self._world.sizes[seat.workload] -= 1
            self.end(found, "done")
            for key in found.claim_keys():
                self._world.remove(PersistentVolumeClaim, key)

    def replace(self, pod: Pod, why: str) -> None:
        """Delete a pod with its ephemeral claims; its controller, if any, creates a replacement."""
        found = self._world.now(pod)
        if found is None:
            return
        self._delete(found, why)
        if not is_daemon(found) or self._world.get(Node, found.spec.node_name) is not None:
            self._another(found)

    def end(self, pod: Pod, why: str) -> None:
        """Delete a pod with its ephemeral claims, without a replacement."""
        self._seats.pop(pod.uid, None)
        self._delete(pod, why)
        self._go_on(pod)

    def shrink(self, workload: Object, present: Sequence[Pod], surplus: int) -> None:
        """A workload asks for so many pods fewer: of a StatefulSet the last go, of others those of least use."""
        if not isinstance(workload, apps_v1.StatefulSet):
            for pod in pods_to_delete(present, present, surplus, self._world.clock.now()):
                self.end(pod, "scaled down")
            return
        members, pods = self._members_of(workload), {ordinal_of(pod.name): pod for pod in present}
        while surplus > 0 and members.to_come:
            members.to_come.pop()
            surplus -= 1
        for ordinal in sorted({*pods, *members.empty}, reverse=True)[:surplus]:
            members.empty.pop(ordinal, None)
            if ordinal in pods:
                self.end(pods[ordinal], "scaled down")

    def leaves(self, pod: Pod) -> None:
        """A pod is terminating, and nothing can end it: most controllers create another now. A StatefulSet must not
        have two pods of one identity."""
        if _kind_of_owner(pod) in _ONE_AT_A_TIME:
            self._gets_in_the_way(pod)
        elif pod.metadata.controller is not None:
            self._another(pod)

    def left(self, pod: Pod, why: str) -> None:
        """A terminating pod disappears: those controllers create another now."""
        if _kind_of_owner(pod) in _ONE_AT_A_TIME:
            self.replace(pod, why)
        else:
            self.end(pod, why)

    def _delete(self, pod: Pod, why: str) -> None:
        self._world.evict(pod, why)
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                self._world.remove(PersistentVolumeClaim, f"{pod.namespace}/{volume.claim_name(pod.name)}")

    def _another(self, pod: Pod) -> None:
        """Create a replacement, now or when its turn comes; the pod itself may still be terminating."""
        seat = self._seats.pop(pod.uid, None) or Seat()
        seat.pod = pod
        owner = self.stateful_set(pod)
        if owner is None:
            self._fill(seat)
        else:
            self._members_of(owner).empty[ordinal_of(pod.name)] = seat
            self._sync(owner)

    def _fill(self, seat: Seat) -> None:
        seat.pod = seat.make() if seat.pod is None else self._make_successor(seat.pod)
        if seat.pod is not None:
            self._seats[seat.pod.uid] = seat

    def _make_successor(self, pod: Pod) -> Pod | None:
        self._lives += 1
        controller = pod.metadata.controller
        if controller is None:
            return None
        name, hostname = pod.name, pod.name
        if controller.kind != "StatefulSet":
            name, hostname = self._free_name(pod), pod.spec.hostname
        uid = f"{pod.uid.partition('~')[0]}~{self._lives}"
        metadata = {"name": name, "uid": uid, "creation_timestamp": None, "deletion_timestamp": None}
        made = renewed(pod, metadata, spec={"node_name": "", "hostname": hostname}, status=PodStatus())
        self._world.watcher.replaced(pod, made)
        return self._world.put(made)

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

    def stateful_set(self, pod: Pod) -> apps_v1.StatefulSet | None:
        if _kind_of_owner(pod) != "StatefulSet" or pod.metadata.controller is None:
            return None
        return self._world.get(apps_v1.StatefulSet, f"{pod.namespace}/{pod.metadata.controller.name}")

    def _members_of(self, owner: apps_v1.StatefulSet) -> _Members:
        found = self._members.get(owner.key)
        if found is None:
            named = (pod for pod in self._world.pods() if pod.namespace == owner.namespace and is_member(owner, pod))
            pods = {ordinal_of(pod.name): pod for pod in named if not pod.is_terminal}
            new_ordinals = (ordinal for ordinal in count(owner.spec.ordinals.start) if ordinal not in pods)
            found = self._members[owner.key] = _Members(new_ordinals, next(new_ordinals))
            # A file may leave out that a running pod is ready.
            said = (n for n, pod in pods.items() if pod.status.phase != "Running" or pod.condition("Ready"))
            found.in_the_way.update(said)
        return found

    def _gets_in_the_way(self, pod: Pod) -> None:
        owner = self.stateful_set(pod)
        if owner is not None and is_ordered(owner) and owner.key in self._members:
            self._members[owner.key].in_the_way.add(ordinal_of(pod.name))

    def _go_on(self, pod: Pod) -> None:
        """A pod runs or is gone for good: its StatefulSet takes the next steps."""
        owner = self.stateful_set(pod)
        if owner is not None and owner.key in self._members:
            self._sync(owner)

    def _sync(self, owner: apps_v1.StatefulSet) -> None:
        """Create the pods that the set's plan creates now."""
        members = self._members_of(owner)
        while members.empty or members.to_come:
            pods, now = self._in_the_way(owner), self._world.clock.now()
            wanted = sorted({*pods, *members.empty, *((members.next_ordinal,) if members.to_come else ())})
            steps, _ = scale(owner, pods, ObservedState("", "", now), wanted)
            ordinals = [step.ordinal for step in steps if isinstance(step, Create)]
            for ordinal in ordinals:
                if (seat := members.empty.pop(ordinal, None)) is None:
                    seat, members.next_ordinal = members.to_come.popleft(), next(members.new_ordinals)
                self._fill(seat)
            if not ordinals:
                left_s = next_check_s(pods.values(), owner.spec.min_ready_seconds, now)
                if left_s is not None:
                    self._world.agenda.after(left_s, lambda: self._sync(owner))
                return

    def _in_the_way(self, owner: apps_v1.StatefulSet) -> dict[int, Pod]:
        """The pods of a set that hold up those after them, by ordinal."""
        members, now = self._members_of(owner), self._world.clock.now()
        known = ((ordinal, self._world.get(Pod, f"{owner.key}-{ordinal}")) for ordinal in members.in_the_way)
        pods = {ordinal: pod for ordinal, pod in known if pod is not None and holds_up(owner, pod, now)}
        members.in_the_way = set(pods)
        return pods

    def waits_for(self, pod: Pod) -> Key:
        """The StatefulSet's pod that must run before this one is created; empty if none."""
        owner = self.stateful_set(pod)
        if owner is None:
            return ""
        first = min((*self._in_the_way(owner), *self._members_of(owner).empty), default=ordinal_of(pod.name))
        return f"{owner.key}-{first}" if first < ordinal_of(pod.name) else ""


def _kind_of_owner(pod: Pod) -> str:
    return pod.metadata.controller.kind if pod.metadata.controller is not None else ""


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
                self._world.agenda.after(0.0, partial(self._serve, key))

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
