"""Nodes: pods are admitted, their volumes brought, then they run. Without a slot for a volume they fail (KEP-4876).

    bound ──► admitted, or Failed (OutOfcpu, NodeAffinity, …): `behaviour/nodes/kubelet_admission.py`
      └──► each volume: a slot? ──attach──► all there ──start latency──► Running
                             └─ none, and the CSIDriver asks for updates: CSINode is corrected, the pod Failed
                             └─ none, and it does not: the pod waits for a slot

What a driver really takes may differ from what its CSINode says (`attachSlots`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import msgspec

from tonnage.behaviour.nodes.kubelet_admission import AdmittedPods, KubeletPreemption, PodRejection
from tonnage.behaviour.workloads.pod_states import REJECTED
from tonnage.objects.core_v1 import VOLUME_ATTACHMENT_LIMIT_EXCEEDED, Node, PersistentVolume, Pod
from tonnage.objects.core_v1.pod import PodCondition, PodStatus
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment, VolumeNodeResources
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.whatif.replay import renewed
from tonnage.whatif.simulate.controllers import Controllers
from tonnage.whatif.simulate.rebuilds import Rebuilds
from tonnage.whatif.simulate.storage_model import driver_of
from tonnage.whatif.simulate.world_state import WorldState

Slot = tuple[str, str]
"""(node, driver)."""


class Kubelets:
    def __init__(self, world: WorldState, controllers: Controllers, rebuilds: Rebuilds) -> None:
        self._world = world
        self._controllers = controllers
        self._rebuilds = rebuilds
        self._storage = rebuilds.model
        self._missing: dict[str, int] = {}
        """How many volumes a bound pod still waits for, by uid."""
        self._attached: dict[Slot, dict[str, set[str]]] = {}
        """The volumes that take a slot, each with the uids of the pods that use it."""
        self._used: dict[str, list[tuple[Slot, str]]] = {}
        """The same by the uid of the pod."""
        self._attachments: dict[tuple[str, str], list[str]] = {}
        """By node and volume, the VolumeAttachments that there were at the start; none is made here."""
        self._waiting: dict[Slot, list[tuple[Pod, str]]] = {}
        """Pods that wait for a slot for a volume."""
        self._admitted: defaultdict[str, AdmittedPods] = defaultdict(AdmittedPods)
        self.rejected = 0
        """How many pods were failed by their nodes before they ran."""

    def open(self) -> None:
        """What runs at the start has its slots; CSINodes are corrected from then on, once a period."""
        for each in self._world.all(VolumeAttachment):
            place = (each.spec.node_name, each.spec.source.persistent_volume_name)
            self._attachments.setdefault(place, []).append(each.key)
        for pod in self._world.pods():
            self.adopt(pod)
        for driver in self._world.all(CSIDriver):
            if period_s := self._period_s(driver.name):
                self._world.agenda.after(period_s, lambda name=driver.name: self._tick(name), is_alarm=True)  # type: ignore[misc]

    # -- pods ---------------------------------------------------------------------------------------------------------

    def adopt(self, pod: Pod) -> None:
        """A pod that has its node from elsewhere: one that runs has its share already, another has come just now."""
        if not pod.spec.node_name or pod.is_terminal:
            return
        for volume in self._volumes(pod):
            self._take_slot(pod, volume)
        if pod.status.phase == "Running":
            self._admitted[pod.spec.node_name].admit(pod)
        else:
            self._world.agenda.after(0.0, lambda: self.pod_came(pod))

    def pod_came(self, pod: Pod) -> None:
        if self._world.now(pod) is None:
            return
        node = self._world.get(Node, pod.spec.node_name)
        if node is None:
            self._controllers.replace(pod, "its node is gone")
            return
        if not self._admit(pod, node):
            return
        volumes = list(self._volumes(pod))
        self._missing[pod.uid] = len(volumes)
        if not volumes:
            self._start(pod)
        for volume in volumes:
            self._attach(pod, volume.name)

    def pod_gone(self, pod: Pod) -> None:
        """Its share of the node and its slots are free, its volumes detached, and who waits for a slot looks again."""
        self._missing.pop(pod.uid, None)
        self._admitted[pod.spec.node_name].release(pod.uid)
        for slot, volume in self._used.pop(pod.uid, ()):
            users = self._attached[slot][volume]
            users.discard(pod.uid)
            if users:
                continue
            del self._attached[slot][volume]
            for name in self._attachments.pop((slot[0], volume), ()):
                self._world.remove(VolumeAttachment, name)
            for waiting, name in self._waiting.pop(slot, ()):
                self._world.agenda.after(0.0, lambda pod=waiting, name=name: self._attach(pod, name))  # type: ignore[misc]

    def _admit(self, pod: Pod, node: Node) -> bool:
        """Whether the node takes the pod. For a critical one others go; a rejected one is failed."""

        @cache
        def active() -> dict[str, Pod]:
            return {other.uid: other for other in self._world.pods_on(node.name) if not other.is_terminal}

        admitted = self._admitted[node.name]
        verdict = admitted.judge(pod, node, lambda uid: uid in active())
        if isinstance(verdict, KubeletPreemption):
            for victim in verdict.victims:
                self._controllers.replace(active()[victim], "preempted by its node")
            verdict = admitted.judge(pod, node, lambda uid: uid in active())
        if isinstance(verdict, PodRejection):
            self._reject(pod, verdict.reason, verdict.message)
        return verdict is None

    def _reject(self, pod: Pod, reason: str, message: str) -> None:
        now = self._world.get(Pod, pod.key)
        if now is None:
            return
        self.rejected += 1
        status = PodStatus(phase="Failed", reason=reason, message=f"{REJECTED}{message}")
        failed = self._world.put(renewed(now, status=status))
        self.pod_gone(failed)  # what it held on the node is free; the pod itself stays to be looked at
        self._controllers.pod_rejected(failed)

    def _volumes(self, pod: Pod) -> Iterator[PersistentVolume]:
        for key in PodInfo(pod).claim_keys:
            if (volume := self._world.volume_of(key)) is not None:
                yield volume

    def _start(self, pod: Pod) -> None:
        self._world.agenda.after(self._world.settings.start_latency_s, lambda: self._runs(pod))

    def _runs(self, pod: Pod) -> None:
        now = self._world.now(pod)
        if now is None or now.status.phase == "Running" or now.metadata.is_terminating:
            return
        self._missing.pop(pod.uid, None)
        at = self._world.clock.now()
        ready = PodCondition(type="Ready", status="True", last_transition_time=at)
        conditions = (*(each for each in now.status.conditions if each.type != "Ready"), ready)
        status = msgspec.structs.replace(now.status, phase="Running", conditions=conditions, start_time=at)
        running = self._world.put(renewed(now, status=status))
        self._world.watcher.running(running, self._world.born_s.get(pod.uid, 0.0))
        self._controllers.go_on(running)

    # -- volumes ------------------------------------------------------------------------------------------------------

    def _attach(self, pod: Pod, name: str) -> None:
        node, volume = self._world.get(Node, pod.spec.node_name), self._world.get(PersistentVolume, name)
        if node is None or volume is None or self._world.now(pod) is None:
            return
        if not self._take_slot(pod, volume):
            latency_s = self._storage.settings.of(driver_of(volume)).attach_latency_s
            self._world.agenda.after(latency_s, lambda: self._no_slot(pod, volume))
            return
        self._rebuilds.attach(pod, node, volume, lambda: self._volume_came(pod))

    def _volume_came(self, pod: Pod) -> None:
        if pod.uid in self._missing:
            self._missing[pod.uid] -= 1
            if not self._missing[pod.uid]:
                self._start(pod)

    # -- slots --------------------------------------------------------------------------------------------------------

    def _take_slot(self, pod: Pod, volume: PersistentVolume) -> bool:
        """Whether the node has a slot for the volume; it is taken then."""
        driver = driver_of(volume)
        slot = (pod.spec.node_name, driver)
        taken = self._attached.setdefault(slot, {})
        known, limit = self._world.get(CSIDriver, driver), self._slots(*slot)
        is_attached = known is None or known.spec.attach_required
        if volume.name not in taken and is_attached and limit is not None and len(taken) >= limit:
            return False
        users = taken.setdefault(volume.name, set())
        if pod.uid not in users:
            users.add(pod.uid)
            self._used.setdefault(pod.uid, []).append((slot, volume.name))
        return True

    def _slots(self, node: str, driver: str) -> int | None:
        """How many volumes of a driver a node really takes; None for any number."""
        true = self._storage.settings.of(driver).attach_slots
        if true is not None:
            return true
        found = self._world.get(CSINode, node)
        entry = found.driver(driver) if found is not None else None
        return entry.allocatable.count if entry is not None else None

    def _no_slot(self, pod: Pod, volume: PersistentVolume) -> None:
        """The driver answered ResourceExhausted."""
        if self._world.now(pod) is None:
            return
        slot = (pod.spec.node_name, driver_of(volume))
        if not self._period_s(slot[1]):
            self._waiting.setdefault(slot, []).append((pod, volume.name))
            return
        self._correct(*slot)
        told = f"volume {volume.name} cannot be attached: {slot[0]} has no slot left for {slot[1]}"
        self._reject(pod, VOLUME_ATTACHMENT_LIMIT_EXCEEDED, told)

    def _period_s(self, driver: str) -> int:
        found = self._world.get(CSIDriver, driver)
        if found is None or not self._world.settings.updates_attach_limits:
            return 0
        return found.spec.node_allocatable_update_period_seconds or 0

    def _tick(self, driver: str) -> None:
        for each in self._world.all(CSINode):
            self._correct(each.name, driver)
        if period_s := self._period_s(driver):
            self._world.agenda.after(period_s, lambda: self._tick(driver), is_alarm=True)

    def _correct(self, node: str, driver: str) -> None:
        """Write what the driver really takes into its CSINode entry."""
        found, true = self._world.get(CSINode, node), self._storage.settings.of(driver).attach_slots
        entry = found.driver(driver) if found is not None else None
        if found is None or entry is None or true is None or entry.allocatable.count == true:
            return
        corrected = msgspec.structs.replace(entry, allocatable=VolumeNodeResources(count=true))
        drivers = (*(each for each in found.spec.drivers if each.name != driver), corrected)
        self._world.put(renewed(found, spec=msgspec.structs.replace(found.spec, drivers=drivers)))
