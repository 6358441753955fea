"""A cluster on virtual time: objects, the scheduler's engine, storage, and pods that come, run and go.

    agenda: what is due ──► objects change ──► engine ──► attempts ──► bindings ──► pods run
                 ▲                                            │
                 └──────── next instant ◄── nothing left to do now

At each instant everything that is due happens, then the queue is worked off, until nothing is left; then time goes on.
Who reads the run's course (`Watcher`) is told of every decision and of every pod that runs, waits or goes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.persistent_volume import BIND_COMPLETED
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.engine.attempt import Attempt, PostFilterOutcome, Stage
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.settings import EngineSettings
from tonnage.scheduling.framework import Status
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.scheduling.queue.queued_pod import QueuedPod, uid_of
from tonnage.whatif.replay_objects import ReplayObjects
from tonnage.whatif.simulate.agenda import Agenda
from tonnage.whatif.simulate.bindings import Binding, WorldApi
from tonnage.whatif.simulate.disks import Disk
from tonnage.whatif.simulate.storage_model import StorageModel
from tonnage.whatif.simulate.storage_settings import StorageSettings
from tonnage.whatif.sources import clock_of

TICK_S: Final = 1.0
"""How often a scheduler that has pods waiting looks at the clock."""
PREEMPTED_AFTER_S: Final = 1.0
"""How long a victim of a preemption takes to go."""


class Watcher(Protocol):
    """Who is told what happens. All is called on the spot."""

    def decided(self, number: int, attempt: Attempt) -> None: ...

    def running(self, pod: Pod, since_s: float) -> None: ...

    def gone(self, pod: Pod, why: str) -> None: ...

    def failed(self, pod: PodInfo, node: str, status: Status) -> None: ...


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """What may be chosen about a world besides its objects."""

    seed: int = 0
    storage: StorageSettings = field(default_factory=StorageSettings)
    takes_any_pod: bool = False
    explains: frozenset[int] = frozenset()
    """Numbers of the attempts that are to be explained."""
    start_latency_s: float = 0.5
    """From a pod with all its volumes to a pod that runs."""


class World:
    """One cluster, moved by its agenda."""

    def __init__(
        self,
        objects: Iterable[Object],
        profiles: Sequence[ResolvedProfile],
        watcher: Watcher,
        *,
        foreign: ForeignPlugins | None = None,
        settings: WorldSettings | None = None,
    ) -> None:
        self.settings = settings or WorldSettings()
        found = list(objects)
        self.clock = clock_of(found)
        self.agenda = Agenda(self.clock)
        self.objects = ReplayObjects(self.clock)
        self.objects.load(found)
        self.watcher = watcher
        self.attempts = 0
        seed = self.settings.seed
        self.engine = Engine(
            profiles,
            clock=self.clock,
            rng=random.Random(seed),
            foreign=foreign,
            settings=EngineSettings(takes_any_pod=self.settings.takes_any_pod, implies_namespaces=True),
        )
        self.storage = StorageModel(self, self.agenda, self.settings.storage, random.Random(f"storage {seed}"))
        self._api = WorldApi(self.put, self._bound, self._is_gone, lambda regarding, reason, note: None)
        self._waiting: dict[Key, list[Binding]] = {}
        self._born_s: dict[str, float] = {}
        self._missing: dict[str, int] = {}
        """How many volumes a bound pod still waits for, by uid."""
        self._ticked_s = 0.0
        self._open()

    def _open(self) -> None:
        """The engine and the model learn what there is."""
        for each in self.objects:
            self.storage.know(each)
        for each in self.objects:
            if isinstance(each, PersistentVolume):
                self.storage.adopt(each, self._home(each), each.size.value())
        self.engine.load(self.objects)
        for each in self.objects:
            if isinstance(each, Pod):
                self._born_s[each.uid] = self.agenda.now_s
            elif isinstance(each, PersistentVolumeClaim):
                self.storage.claim_changed(each)

    def _home(self, volume: PersistentVolume) -> Node | None:
        """The one node that a volume can be used on, if it is one."""
        if volume.spec.node_affinity.required is None:
            return None
        admits = volume.spec.node_affinity.admits
        homes = [each for each in self.nodes() if admits(each.name, each.metadata.labels)]
        return homes[0] if len(homes) == 1 else None

    def is_home(self, volume: PersistentVolume, node: Node) -> bool:
        """Whether a volume's contents are on this node: by its disk where that is known, else by its affinity."""
        disk = self.storage.home.get(volume.name)
        if disk is not None:
            return disk in self.storage.disks_for(volume.class_name, node) and self._is_local(disk)
        return self._home(volume) == node

    def _is_local(self, disk: Disk) -> bool:
        """Whether one node alone can use what is on a disk; a zone's storage is nobody's in particular."""
        found = self.get(CSIStorageCapacity, disk.objects[0])
        topology = found.node_topology if isinstance(found, CSIStorageCapacity) else None
        if topology is None:
            return False
        return sum(topology.matches(each.metadata.labels) for each in self.nodes()) == 1

    # -- objects ------------------------------------------------------------------------------------------------------

    def get(self, kind: type[Object], key: Key) -> Object | None:
        return self.objects.get(kind.__name__, key)

    def put(self, new: Object) -> Object:
        """Create an object or replace the one of its name; everybody who has to do with it hears of it."""
        before, now = self.objects.put(new)
        if before is now:
            return now
        if before is not None and before.uid != now.uid:
            self.engine.delete(before)
            before = None
        if before is None:
            self.engine.add(now)
        else:
            self.engine.update(before, now)
        self.storage.know(now)
        if isinstance(now, Pod) and before is None:
            self._born_s[uid_of(now)] = self.agenda.now_s
        elif isinstance(now, PersistentVolumeClaim):
            self._claim_changed(before, now)
        elif isinstance(now, PersistentVolume):
            self._volume_changed(now)
        return now

    def remove(self, kind: type[Object], key: Key) -> None:
        """Delete an object; one that is not there is no error."""
        found = self.objects.remove(kind.__name__, key)
        if found is None:
            return
        self.engine.delete(found)
        if isinstance(found, PersistentVolumeClaim):
            self.storage.claim_deleted(found)
            self._look(found.key)
        elif isinstance(found, CSIStorageCapacity):
            self.storage.forget(found)
        elif isinstance(found, Pod):
            self._born_s.pop(found.uid, None)
            self._missing.pop(found.uid, None)
            for key in PodInfo(found).claim_keys:
                self._look(key)

    def _claim_changed(self, before: Object | None, now: PersistentVolumeClaim) -> None:
        asked_before = before.selected_node if isinstance(before, PersistentVolumeClaim) else None
        if asked_before != now.selected_node or before is None:
            self.storage.claim_changed(now)
        self._look(now.key)

    def _volume_changed(self, volume: PersistentVolume) -> None:
        """The binder's part: a volume that names a claim which has none yet is bound to it."""
        owner = volume.spec.claim_ref
        claim = self.get(PersistentVolumeClaim, owner.key) if owner is not None and owner.uid else None
        if owner is None:
            return
        is_waiting = isinstance(claim, PersistentVolumeClaim) and not claim.spec.volume_name
        if is_waiting and claim is not None and claim.uid == owner.uid and volume.status.phase != "Bound":
            self.agenda.after(0.0, lambda: self._bind_claim(owner.key, volume.name))
        self._look(owner.key)

    def _bind_claim(self, key: Key, volume_name: str) -> None:
        claim, volume = self.get(PersistentVolumeClaim, key), self.get(PersistentVolume, volume_name)
        if not isinstance(claim, PersistentVolumeClaim) or not isinstance(volume, PersistentVolume):
            return
        if claim.spec.volume_name:
            return
        replace = msgspec.structs.replace
        metadata = replace(volume.metadata, resource_version="")
        self.put(replace(volume, metadata=metadata, status=replace(volume.status, phase="Bound")))
        annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
        metadata = replace(claim.metadata, annotations=annotations, resource_version="")
        spec, status = replace(claim.spec, volume_name=volume_name), replace(claim.status, phase="Bound")
        self.put(replace(claim, metadata=metadata, spec=spec, status=status))

    def nodes(self) -> Iterable[Node]:
        return (each for each in self.objects if isinstance(each, Node))

    def pods(self) -> list[Pod]:
        return [each for each in self.objects if isinstance(each, Pod)]

    # -- time ---------------------------------------------------------------------------------------------------------

    def run_until(self, when_s: float) -> None:
        """Live through everything up to an instant, that instant included."""
        while True:
            self._settle()
            following = self._next_s()
            if following is None or following > when_s:
                break
            self._go_to(following)
        self._go_to(when_s)
        self._settle()

    def run_until_idle(self, at_most_s: float) -> None:
        """Live on until nothing is going to happen but pods that wait, or until an instant."""
        while True:
            self._settle()
            following = self.agenda.next_s
            if self.engine.queue.next_backoff_completion_at() is not None:
                following = min(following or at_most_s, self._ticked_s + TICK_S)
            if following is None or following > at_most_s:
                return
            self._go_to(following)

    def _next_s(self) -> float | None:
        """When something happens next; while pods wait, the scheduler looks at the clock once a second."""
        following = self.agenda.next_s
        if not any(self.engine.queue.pending_pods().values()) and not len(self.engine.assumed):
            return following
        tick = self._ticked_s + TICK_S
        return tick if following is None else min(following, tick)

    def _go_to(self, when_s: float) -> None:
        self.agenda.go_to(when_s)
        if when_s >= self._ticked_s + TICK_S:
            self._ticked_s = when_s
            self.engine.tick(self.clock.monotonic())

    def _settle(self) -> None:
        """Do what is due, and place who can be placed, until nothing is left to do now."""
        while True:
            if (work := self.agenda.take_due()) is not None:
                work()
            elif (queued := self.engine.pop()) is not None:
                self._schedule(queued)
            else:
                return

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _schedule(self, queued: QueuedPod) -> None:
        if queued.pod.metadata.is_terminating or queued.uid in self.engine.assumed:
            self.engine.done(queued.pod)
            return
        number = self.attempts
        self.attempts += 1
        attempt = self.engine.attempt(queued, explains=number in self.settings.explains)
        if attempt.exception is not None:
            raise attempt.exception
        self.watcher.decided(number, attempt)
        if attempt.placement is not None:
            self.engine.done(queued.pod)
            binding = Binding(queued, attempt.placement, self._api)
            binding.start()
            self._moved_on(binding)
        elif attempt.stage is Stage.DECIDE:
            self._not_placed(queued, attempt)
        else:
            decision = attempt.decision
            self._came_back(queued, attempt.status, decision.node if decision is not None else "")

    def _not_placed(self, queued: QueuedPod, attempt: Attempt) -> None:
        diagnosis = attempt.decision.diagnosis if attempt.decision is not None else None
        newest = self._newest(queued)
        if diagnosis is None:
            self.engine.requeue(queued, newest)
            return
        outcome = self.engine.post_filter(attempt)
        plugins = diagnosis.rejecting_plugins()
        if outcome is None or outcome.plugin is None:
            self.engine.requeue(queued, newest, plugins=plugins)
            return
        self._preempt(queued, outcome, plugins)

    def _preempt(self, queued: QueuedPod, outcome: PostFilterOutcome, plugins: Iterable[str]) -> None:
        """Victims go; the pod is nominated to their node, and held back until they are gone."""
        plugin, found = outcome.plugin, outcome.result
        if plugin is None:
            return
        victims = [each for each in found.victims if not each.is_terminating]
        if victims:
            plugin.preemption_begins(queued.info)
        if not self.engine.requeue(
            queued, self._newest(queued), plugins=plugins, nomination=found.nominated_node or None
        ):
            plugin.preemption_ends(queued.info)
            return
        self.engine.queue.release(found.nominated_node, below=queued.info.priority)

        def go() -> None:
            for victim in victims:
                self.evict(victim.pod, "preempted")
            plugin.preemption_ends(queued.info)
            self.engine.queue.gate_opened(queued.pod, plugin.name)

        self.agenda.after(PREEMPTED_AFTER_S if victims else 0.0, go)

    def _came_back(self, queued: QueuedPod, status: Status, node: str) -> None:
        """A pod that had a node lost it again."""
        self.watcher.failed(queued.info, node, status)
        self.engine.failed_on(queued, node, status.message)
        plugins = (status.plugin,) if status.is_rejection and status.plugin else ()
        self.engine.requeue(queued, self._newest(queued), plugins=plugins)

    def _newest(self, queued: QueuedPod) -> Pod | None:
        found = self.get(Pod, queued.info.key)
        return found if isinstance(found, Pod) else None

    # -- bindings -----------------------------------------------------------------------------------------------------

    def _moved_on(self, binding: Binding) -> None:
        """A binding took a step: it waits for something else now, or is over."""
        wait = binding.wait
        if wait is not None:
            number = binding.number
            for key in binding.placement.pod.claim_keys:
                waiting = self._waiting.setdefault(key, [])
                if binding not in waiting:
                    waiting.append(binding)
            self.agenda.after(wait.timeout_s, lambda: self._overdue(binding, number))
            return
        for key in binding.placement.pod.claim_keys:
            waiting = self._waiting.get(key, [])
            if binding in waiting:
                waiting.remove(binding)
                if not waiting:
                    del self._waiting[key]
        if binding.status.is_success:
            self.engine.binding_finished(binding.placement)
            return
        self.engine.withdraw(binding.placement)
        self._came_back(binding.queued, binding.status, binding.placement.node)

    def _look(self, claim_key: Key) -> None:
        for binding in tuple(self._waiting.get(claim_key, ())):
            if binding.look():
                self._moved_on(binding)

    def _overdue(self, binding: Binding, number: int) -> None:
        if binding.wait is not None and binding.number == number:
            binding.give_up()
            self._moved_on(binding)

    def _is_gone(self, pod: PodInfo) -> bool:
        found = self.get(Pod, pod.key)
        return found is None or uid_of(found) != pod.uid  # type: ignore[arg-type]  # a Pod, by its kind

    def _bound(self, info: PodInfo, node_name: str) -> None:
        """The binding is written: the pod has its node, and its volumes are brought there."""
        pod = self.get(Pod, info.key)
        if not isinstance(pod, Pod):
            return
        metadata = msgspec.structs.replace(pod.metadata, resource_version="")
        bound = msgspec.structs.replace(
            pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=node_name)
        )
        now = self.put(bound)
        if isinstance(now, Pod):
            self.agenda.after(0.0, lambda: self._bring_volumes(now, info))

    def _bring_volumes(self, pod: Pod, info: PodInfo) -> None:
        node = self.get(Node, pod.spec.node_name)
        volumes = [volume for key in info.claim_keys if (volume := self.volume_of(key)) is not None]
        self._missing[pod.uid] = len(volumes)
        if not volumes or not isinstance(node, Node):
            self.agenda.after(self.settings.start_latency_s, lambda: self._runs(pod))
            return
        for volume in volumes:
            self.storage.attach(pod, node, volume, lambda: self._volume_came(pod))

    def volume_of(self, claim_key: Key) -> PersistentVolume | None:
        claim = self.get(PersistentVolumeClaim, claim_key)
        if not isinstance(claim, PersistentVolumeClaim) or not claim.spec.volume_name:
            return None
        found = self.get(PersistentVolume, claim.spec.volume_name)
        return found if isinstance(found, PersistentVolume) else None

    def _volume_came(self, pod: Pod) -> None:
        if pod.uid in self._missing:
            self._missing[pod.uid] -= 1
            if not self._missing[pod.uid]:
                self.agenda.after(self.settings.start_latency_s, lambda: self._runs(pod))

    def _runs(self, pod: Pod) -> None:
        now = self.get(Pod, pod.key)
        if not isinstance(now, Pod) or now.uid != pod.uid or now.status.phase == "Running":
            return
        status = msgspec.structs.replace(now.status, phase="Running")
        metadata = msgspec.structs.replace(now.metadata, resource_version="")
        running = self.put(msgspec.structs.replace(now, metadata=metadata, status=status))
        if isinstance(running, Pod):
            self.watcher.running(running, self._born_s.get(pod.uid, 0.0))

    # -- pods go ------------------------------------------------------------------------------------------------------

    def evict(self, pod: Pod, why: str) -> None:
        """A pod goes; what its controller does about that is for `why` to know, and its watcher."""
        found = self.get(Pod, pod.key)
        if found is None or found.uid != pod.uid:
            return
        self.remove(Pod, pod.key)
        self.watcher.gone(pod, why)
