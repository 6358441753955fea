"""Nodes: what happens to them, and what their kubelets do.

Cordon, drain, failure, out-of-service, removal, recovery. A drain cordons, then evicts pod after pod as `kubectl drain`
does. Volumes of a node that is out of use may be rebuilt elsewhere, if their driver does that (KEP-5925).

Kubelets admit pods, attach their volumes, then the pods run. Without an attach slot a pod fails (KEP-4876).

    bound ──► admitted, or Failed (OutOfcpu, NodeAffinity, …): `behaviour/nodes/kubelet_admission.py`
      └──► each volume: a slot? ──attach──► all there ──start latency──► Running
                             └─ none, and the CSIDriver asks for updates: CSINode is corrected, the pod Failed
                             └─ none, and it does not: the pod waits for a slot

What a driver really takes may differ from its CSINode (`attachSlots`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import Final

from tonnage.behaviour.nodes.kubelet_admission import AdmittedPods, KubeletPreemption, PodRejection
from tonnage.behaviour.nodes.node_lifecycle_plan import stay_s
from tonnage.behaviour.workloads.pod_states import REJECTED, Find, guards, with_true_status
from tonnage.clock import rfc3339
from tonnage.documents.kinds.pod_disruption_budget import judge_eviction
from tonnage.errors import ApiError
from tonnage.keyed import grouped
from tonnage.objects import codec
from tonnage.objects.core_v1 import VOLUME_ATTACHMENT_LIMIT_EXCEEDED, Node, PersistentVolume, Pod, is_out_of_use
from tonnage.objects.core_v1.pod import PodStatus
from tonnage.objects.meta import Condition, changed
from tonnage.objects.requirements import NO_EXECUTE, NO_SCHEDULE, OUT_OF_SERVICE, UNREACHABLE, Taint
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.whatif.creation import renewed
from tonnage.whatif.simulate.controllers import Controllers, is_daemon, is_mirror
from tonnage.whatif.simulate.storage_model import StorageModel, driver_of
from tonnage.whatif.simulate.world_state import WorldState


def eviction_refusal(
    pod: Pod, budgets: Iterable[PodDisruptionBudget], pods: Callable[[], Sequence[Pod]], find: Find, now: datetime
) -> str:
    """Why a pod may not be evicted now; empty when it may.

    `pods` returns all pods; it is called only if a budget selects the pod. `find` looks up workloads.
    """
    meant = [budget for budget in budgets if budget.namespace == pod.namespace and guards(budget, pod)]
    if not meant:
        return ""
    counted = [codec.to_doc(with_true_status(budget, pods(), find, now)) for budget in meant]
    doc = codec.to_doc(pod)
    doc.setdefault("status", {})["phase"] = pod.status.phase  # a typed pod omits the default phase
    try:
        judge_eviction(doc, counted, {}, now=rfc3339(now))
    except ApiError as exc:
        return ", ".join(cause.message for cause in exc.causes) or exc.message
    return ""


_EVICT_AGAIN_S: Final = 5.0
"""How soon kubectl retries an eviction that a budget refused."""


@dataclass(slots=True)
class NodeEvents:
    _world: WorldState
    _controllers: Controllers
    _storage: StorageModel
    _draining: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    """Pods that a budget still keeps on a draining node, with the reason."""

    def _may_go(self, pod: Pod) -> bool:
        world = self._world
        why = eviction_refusal(pod, world.all(PodDisruptionBudget), world.pods, world.find, world.clock.now())
        self.refused.pop(pod.key, None)
        if why:
            self.refused[pod.key] = why
        return not why

    def open(self) -> None:
        """Initial terminating pods disappear when their grace period is over, but for those on lost nodes."""
        now = self._world.clock.now()
        for pod in self._world.pods():
            if (ends_at := pod.metadata.deletion_timestamp) is not None:
                left_s = (ends_at - now).total_seconds()
                self._world.agenda.after(left_s, partial(self._terminated, pod))

    def _terminated(self, pod: Pod) -> None:
        if not self._is_lost(pod.spec.node_name):
            self._controllers.left(pod, "terminated")

    def _is_lost(self, name: str) -> bool:
        node = self._world.get(Node, name)
        return node is not None and any(taint.key == UNREACHABLE for taint in node.spec.taints)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def cordon(self, name: str) -> None:
        self._change(name, unschedulable=True)
        self._storage.rebuilding.set_free(name, self.volumes_on(name))

    def uncordon(self, name: str) -> None:
        """Put the node back in use; volumes that are still there are confined to it again."""
        self._draining.discard(name)
        self._change(name, unschedulable=False)
        self._confine(name)

    def _confine(self, name: str) -> None:
        if not is_out_of_use(self._world.get(Node, name)):
            for volume in self.volumes_on(name):
                self._storage.rebuilding.confine(volume)

    def drain(self, name: str) -> None:
        self.cordon(name)
        self._draining.add(name)
        self._evict_all(name)

    def fail(self, name: str) -> None:
        """The node stops reporting: it is tainted at once, and pods are deleted when their toleration ends."""
        taints = (Taint(key=UNREACHABLE, effect=NO_SCHEDULE), Taint(key=UNREACHABLE, effect=NO_EXECUTE))
        self._change(name, taints=taints)
        for pod in self._world.pods_on(name):
            stays_s = stay_s(taints[1:], pod.spec.tolerations)
            if not math.isinf(stays_s):
                self._world.agenda.after(stays_s, partial(self._leave, pod, name))

    def out_of_service(self, name: str) -> None:
        """A person declares the node dead: its pods are deleted by force, its volumes may be rebuilt elsewhere."""
        taint = Taint(key=OUT_OF_SERVICE, value="nodeshutdown", effect=NO_EXECUTE)
        self._change(name, taints=(taint,))
        self._storage.rebuilding.set_free(name, self.volumes_on(name))
        self._finish(name, "its node is out of service")
        for pod in self._world.pods_on(name):
            if not math.isinf(stay_s((taint,), pod.spec.tolerations)) and not pod.is_terminal:
                self._controllers.replace(pod, "its node is out of service")

    def recover(self, name: str) -> None:
        """The node reports again; pods that were deleted meanwhile disappear."""
        self._change(name, without_taints=(UNREACHABLE, OUT_OF_SERVICE))
        self._finish(name, "its node stopped reporting")
        self._confine(name)

    def remove(self, name: str) -> None:
        """Delete the Node and its CSINode: its pods go too, and its volumes may be rebuilt elsewhere."""
        volumes = self.volumes_on(name)
        self._draining.discard(name)
        self._world.remove(Node, name)
        self._world.remove(CSINode, name)
        self._storage.rebuilding.set_free(name, volumes)
        self._finish(name, "its node is gone")
        for pod in self._world.pods_on(name):
            self._controllers.replace(pod, "its node is gone")

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _evict_all(self, name: str) -> None:
        """Evict every pod that is due; evictions that a budget refuses are retried while the drain lasts."""
        if name not in self._draining:
            return
        refused = False
        for pod in self._world.pods_on(name):
            if stays(pod):
                continue
            if self._may_go(pod):
                self._controllers.replace(pod, "evicted")
            else:
                refused = True
        if refused:
            self._world.agenda.after(_EVICT_AGAIN_S, lambda: self._evict_all(name), is_alarm=True)

    def _leave(self, pod: Pod, name: str) -> None:
        """A pod's toleration of an unreachable node is over. Nothing there can end it: it stays terminating."""
        now = self._world.now(pod)
        is_lost = self._is_lost(name) or self._world.get(Node, name) is None
        if now is not None and not now.metadata.is_terminating and is_lost:
            self._controllers.leaves(self._world.put(renewed(now, {"deletion_timestamp": self._world.clock.now()})))

    def _finish(self, name: str, why: str) -> None:
        for pod in self._world.pods_on(name):
            if pod.metadata.is_terminating:
                self._controllers.left(pod, why)

    def volumes_on(self, name: str) -> list[PersistentVolume]:
        """The volumes that only this node can use, or that are on its disk."""
        node = self._world.get(Node, name)
        if node is None:
            return []
        return [volume for volume in self._world.all(PersistentVolume) if self._storage.is_home(volume, node)]

    def _change(
        self,
        name: str,
        *,
        unschedulable: bool | None = None,
        taints: Sequence[Taint] = (),
        without_taints: Sequence[str] = (),
    ) -> None:
        node = self._world.get(Node, name)
        if node is None:
            return
        kept = tuple(taint for taint in node.spec.taints if taint.key not in without_taints)
        added = tuple(taint for taint in taints if taint not in kept)
        is_closed = node.spec.unschedulable if unschedulable is None else unschedulable
        self._world.put(renewed(node, spec={"unschedulable": is_closed, "taints": (*kept, *added)}))


def stays(pod: Pod) -> bool:
    """True for pods that a drain leaves alone: those that belong to the node, have ended, or are terminating."""
    return is_daemon(pod) or is_mirror(pod) or pod.is_terminal or pod.metadata.is_terminating


Slot = tuple[str, str]
"""(node, driver)."""


@dataclass(slots=True)
class Kubelets:
    _world: WorldState
    _controllers: Controllers
    _storage: StorageModel
    _missing: dict[str, int] = field(default_factory=dict)
    """By uid: how many volumes a bound pod still waits for."""
    _attached: dict[Slot, dict[str, set[str]]] = field(default_factory=dict)
    """Attached volumes, each with the uids of the pods that use it."""
    _used: dict[str, list[tuple[Slot, str]]] = field(default_factory=dict)
    """By pod uid: its slots and volumes."""
    _attachments: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """By node and volume: the initial VolumeAttachments; none is created here."""
    _waiting: dict[Slot, list[tuple[Pod, str]]] = field(default_factory=dict)
    """Pods that wait for a slot, with the volume."""
    _admitted: defaultdict[str, AdmittedPods] = field(default_factory=lambda: defaultdict(AdmittedPods))
    rejected: int = 0
    """How many pods were rejected by their nodes."""

    def open(self) -> None:
        """Initial pods take their slots; from then on CSINodes are corrected once a period."""
        specs = ((each.spec, each.key) for each in self._world.all(VolumeAttachment))
        self._attachments = grouped(((of.node_name, of.source.persistent_volume_name), key) for of, key in specs)
        for pod in self._world.pods():
            self.adopt(pod)
        for driver in self._world.all(CSIDriver):
            if period_s := self._period_s(driver.name):
                self._world.agenda.after(period_s, partial(self._tick, driver.name), is_alarm=True)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def adopt(self, pod: Pod) -> None:
        """A pod that somebody else bound: a running one takes its share of the node, another is admitted first."""
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
        """Free the pod's resources and slots, detach its volumes, and let pods that wait for a slot retry."""
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
                self._world.agenda.after(0.0, partial(self._attach, waiting, name))

    def _admit(self, pod: Pod, node: Node) -> bool:
        """True if the node admits the pod. A critical pod may preempt others; a rejected pod fails."""

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
        self.pod_gone(failed)  # its resources are free; the failed pod itself stays
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
        ready = Condition(type="Ready", status="True", last_transition_time=at)
        conditions = (*(condition for condition in now.status.conditions if condition.type != "Ready"), ready)
        status = {"phase": "Running", "conditions": conditions, "start_time": at}
        running = self._world.put(renewed(now, status=status))
        self._world.watcher.running(running, self._world.born_s.get(pod.uid, 0.0))
        self._controllers.runs(running)

    # -- volumes ------------------------------------------------------------------------------------------------------

    def _attach(self, pod: Pod, name: str) -> None:
        node, volume = self._world.get(Node, pod.spec.node_name), self._world.get(PersistentVolume, name)
        if node is None or volume is None or self._world.now(pod) is None:
            return
        if not self._take_slot(pod, volume):
            latency_s = self._storage.settings.of(driver_of(volume)).attach_latency_s
            self._world.agenda.after(latency_s, lambda: self._no_slot(pod, volume))
            return
        self._storage.rebuilding.attach(pod, node, volume, lambda: self._volume_came(pod))

    def _volume_came(self, pod: Pod) -> None:
        if pod.uid in self._missing:
            self._missing[pod.uid] -= 1
            if not self._missing[pod.uid]:
                self._start(pod)

    # -- slots --------------------------------------------------------------------------------------------------------

    def _take_slot(self, pod: Pod, volume: PersistentVolume) -> bool:
        """Take a slot for the volume; False if the node has none."""
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
        """How many volumes of a driver a node really takes; None for no limit."""
        true = self._storage.settings.of(driver).attach_slots
        if true is not None:
            return true
        csi_node = self._world.get(CSINode, node)
        entry = csi_node.driver(driver) if csi_node is not None else None
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
        for csi_node in self._world.all(CSINode):
            self._correct(csi_node.name, driver)
        if period_s := self._period_s(driver):
            self._world.agenda.after(period_s, lambda: self._tick(driver), is_alarm=True)

    def _correct(self, node: str, driver: str) -> None:
        """Write the driver's true limit into the CSINode."""
        csi_node, true = self._world.get(CSINode, node), self._storage.settings.of(driver).attach_slots
        entry = csi_node.driver(driver) if csi_node is not None else None
        if csi_node is None or entry is None or true is None or entry.allocatable.count == true:
            return
        corrected = changed(entry, allocatable={"count": true})
        drivers = (*(each for each in csi_node.spec.drivers if each.name != driver), corrected)
        self._world.put(renewed(csi_node, spec={"drivers": drivers}))
