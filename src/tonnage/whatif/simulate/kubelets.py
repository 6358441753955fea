"""Kubelets: pods are admitted, their volumes attached, then they run. Without an attach slot they fail (KEP-4876).

    bound ──► admitted, or Failed (OutOfcpu, NodeAffinity, …): `behaviour/nodes/kubelet_admission.py`
      └──► each volume: a slot? ──attach──► all there ──start latency──► Running
                             └─ none, and the CSIDriver asks for updates: CSINode is corrected, the pod Failed
                             └─ none, and it does not: the pod waits for a slot

A volume whose driver rebuilds (KEP-5925) is copied to its pod's node if there is room, and then confined to it;
otherwise it is retried when there is room. What a driver really takes may differ from its CSINode (`attachSlots`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from tonnage.behaviour.nodes.kubelet_admission import AdmittedPods, KubeletPreemption, PodRejection
from tonnage.behaviour.workloads.pod_states import REJECTED
from tonnage.keyed import grouped
from tonnage.objects.core_v1 import VOLUME_ATTACHMENT_LIMIT_EXCEEDED, Node, PersistentVolume, Pod
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME, VolumeNodeAffinity
from tonnage.objects.core_v1.pod import PodStatus
from tonnage.objects.meta import Condition, changed
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.whatif.creation import renewed
from tonnage.whatif.simulate.controllers import Controllers
from tonnage.whatif.simulate.disks import Disk
from tonnage.whatif.simulate.storage_model import StorageModel, driver_of
from tonnage.whatif.simulate.world_state import WorldState

Done = Callable[[], None]


@dataclass(slots=True)
class _Move:
    """A volume being copied to a disk, and the pods that wait for it there."""

    target: Disk
    node: str
    waiting: list[Done] = field(default_factory=list)

    def room(self, volume: str) -> str:
        """The name under which the target's space is held until the volume has arrived."""
        return f"{volume} on its way"


@dataclass(slots=True)
class Rebuilds:
    model: StorageModel
    _moves: dict[str, _Move] = field(default_factory=dict)
    _refused: dict[Disk, list[tuple[Pod, str, str, Done]]] = field(default_factory=dict)
    """Who retries when a disk changes: pod, node, volume."""

    def __post_init__(self) -> None:
        self.model.on_volume_gone, self.model.on_room = self._stop, self.disk_has_room

    def set_free(self, node_name: str, volumes: list[PersistentVolume]) -> None:
        """A node is out of use: volumes on it whose driver rebuilds may be rebuilt anywhere (KEP-5925)."""
        for volume in volumes:
            if self.model.rebuilds(volume) and volume.spec.node_affinity.required is not None:
                self._move_to(volume, VolumeNodeAffinity(), home=node_name)

    def confine(self, volume: PersistentVolume) -> None:
        """A volume's node takes pods again: confine the volume to it, unless it is being rebuilt elsewhere."""
        disk = self.model.home.get(volume.name)
        if disk is None or volume.name in self._moves or not self.model.rebuilds(volume):
            return
        if volume.spec.node_affinity.required is None:
            self._move_to(volume, self.model.affinity(disk))

    def attach(self, pod: Pod, node: Node, volume: PersistentVolume, done: Done) -> None:
        """Bring a volume to a pod's node; calls `done` when it is there."""
        model = self.model
        settings = model.settings.of(driver_of(volume))
        disk, here = model.home.get(volume.name), model.disks_for(volume.class_name, node)
        if disk is None or disk in here or not here or not model.rebuilds(volume):
            self._stop(volume.name)
            model.agenda.after(settings.attach_latency_s, done)
            return
        move = self._moves.get(volume.name)
        if move is not None and move.target in here:
            move.waiting.append(done)
            return
        self._stop(volume.name)
        _, size_bytes = disk.volumes[volume.name]
        move = next((made for each in here if (made := self._begun(each, volume, size_bytes, node))), None)
        if move is None:
            model.counts.refused += 1
            for each in here:
                self._refused.setdefault(each, []).append((pod, node.name, volume.name, done))
            return
        move.waiting.append(done)
        model.changed(move.target)
        takes_s = size_bytes / settings.rebuild_bytes_per_s + settings.attach_latency_s
        begun = move
        model.agenda.after(takes_s, lambda: self._arrived(volume.name, begun, size_bytes))

    def _begun(self, target: Disk, volume: PersistentVolume, size_bytes: int, node: Node) -> _Move | None:
        move, class_name = _Move(target, node.name), volume.class_name
        kept, room = self.model.kept_bytes(class_name), move.room(volume.name)
        if not self.model.take(target, room, size_bytes, class_name, driver_of(volume), kept_bytes=kept):
            return None
        self._moves[volume.name] = move
        return move

    def _stop(self, name: str) -> None:
        """Cancel a move that no pod needs, and free the space held for it."""
        move = self._moves.pop(name, None)
        if move is not None:
            move.target.give(move.room(name))
            self.model.changed(move.target, has_room=True)

    def disk_has_room(self, disk: Disk) -> None:
        """Retry the moves that were refused for lack of room."""
        for pod, node_name, name, done in self._refused.pop(disk, ()):
            for others in self._refused.values():
                others[:] = [each for each in others if each[0].uid != pod.uid or each[2] != name]
            self.model.agenda.after(0.0, lambda again=(pod, node_name, name, done): self._again(*again))  # type: ignore[misc]

    def _again(self, pod: Pod, node_name: str, name: str, done: Done) -> None:
        objects = self.model.objects
        node, known = objects.get(Node, node_name), objects.get(Pod, pod.key)
        volume = objects.get(PersistentVolume, name)
        if known is not None and known.uid == pod.uid and node is not None and volume is not None:
            self.attach(pod, node, volume, done)

    def _arrived(self, name: str, move: _Move, size_bytes: int) -> None:
        """The copy is complete: the volume is on its new disk, and its old space is free."""
        model, volume = self.model, self.model.objects.get(PersistentVolume, name)
        if self._moves.get(name) is not move or volume is None:
            return
        del self._moves[name]
        source, target = model.home[name], move.target
        target.volumes[name] = target.volumes.pop(move.room(name))
        source.give(name)
        model.home[name] = target
        model.counts.bytes_rebuilt += size_bytes
        model.counts.rebuilt.append((model.agenda.now_s, name, model.where(source), move.node, size_bytes))
        model.changed(source, has_room=True)
        model.changed(target)
        self._move_to(volume, model.affinity(target))
        for done in move.waiting:
            done()

    def _move_to(self, volume: PersistentVolume, affinity: VolumeNodeAffinity, *, home: str = "") -> None:
        """Write a volume's node affinity as its driver does; `home` is the node of a volume that may move."""
        others = {key: value for key, value in volume.metadata.annotations.items() if key != VOLUME_HOME}
        annotations = {**others, VOLUME_HOME: home} if home else others
        self.model.objects.put(renewed(volume, {"annotations": annotations}, spec={"node_affinity": affinity}))


Slot = tuple[str, str]
"""(node, driver)."""


@dataclass(slots=True)
class Kubelets:
    _world: WorldState
    _controllers: Controllers
    _rebuilds: Rebuilds
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
                self._world.agenda.after(period_s, lambda name=driver.name: self._tick(name), is_alarm=True)  # type: ignore[misc]

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
                self._world.agenda.after(0.0, lambda pod=waiting, name=name: self._attach(pod, name))  # type: ignore[misc]

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
            latency_s = self._rebuilds.model.settings.of(driver_of(volume)).attach_latency_s
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
        true = self._rebuilds.model.settings.of(driver).attach_slots
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
        csi_node, true = self._world.get(CSINode, node), self._rebuilds.model.settings.of(driver).attach_slots
        entry = csi_node.driver(driver) if csi_node is not None else None
        if csi_node is None or entry is None or true is None or entry.allocatable.count == true:
            return
        corrected = changed(entry, allocatable={"count": true})
        drivers = (*(each for each in csi_node.spec.drivers if each.name != driver), corrected)
        self._world.put(renewed(csi_node, spec={"drivers": drivers}))
