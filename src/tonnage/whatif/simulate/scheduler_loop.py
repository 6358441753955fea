"""The scheduler's loop and its bindings on virtual time: pods are tried, bound, preempted and requeued.

The live scheduler does the same with tasks and a real API (`scheduler/loop.py`, `scheduler/binding_cycle.py`). Both
drive one engine and one binding cycle (`scheduling/engine/attempt.py`); here it runs without an event loop. A plugin's
writes are applied to the objects at once. A waiting binding is resumed when a claim of its pod or its node changes, or
when its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tonnage.behaviour.workloads.pod_states import with_true_status
from tonnage.documents.patches.json_patch import merge_patch
from tonnage.errors import NotFound
from tonnage.keyed import Shelf
from tonnage.objects import codec, core_v1, small_groups, storage_v1
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine import attempt as engine_attempt
from tonnage.scheduling.engine.attempt import Attempt, AttemptStage, Placement, PostFilterOutcome
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.framework import Api, Code, Status
from tonnage.scheduling.queue.waiting_pods import QueuedPod, is_over, uid_of
from tonnage.scheduling.volumes.bind_volumes import LOOK_EVERY_S
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.whatif.creation import renewed
from tonnage.whatif.simulate.controllers import Controllers
from tonnage.whatif.simulate.nodes import Kubelets
from tonnage.whatif.simulate.world_state import WorldState

T = TypeVar("T", bound=Object)
DEADLINE_EXCEEDED: Final = Status(Code.ERROR, ("context deadline exceeded",))
PREEMPTED_AFTER_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class BindingWait:
    check: Callable[[], Status | None]
    timeout_s: float

    def __await__(self) -> Generator[BindingWait, Status, Status]:
        return (yield self)


@dataclass(slots=True)
class SimulatedBinding:
    """A pod's binding cycle. `wait` is what it waits for; None when it is over."""

    queued: QueuedPod
    placement: Placement
    work: Coroutine[Any, Any, Status]
    status: Status = field(default_factory=Status)
    wait: BindingWait | None = None
    number: int = 0
    """Counts its waits: an alarm of an earlier wait is stale."""


async def _bound(placement: Placement, api: Api) -> Status:
    due = engine_attempt.pre_bind_pre_flight(placement)
    status = due if isinstance(due, Status) else await engine_attempt.run_pre_bind(placement, due, api)
    return await engine_attempt.run_bind(placement, api) if status.is_success else status


def patched(current: T, patch: Mapping[str, Any]) -> T:
    if set(patch) == {"metadata"} and set(patch["metadata"]) == {"annotations"}:  # most patches, and fast
        annotations = {**current.metadata.annotations, **patch["metadata"]["annotations"]}
        kept = {key: value for key, value in annotations.items() if value is not None}
        return renewed(current, {"annotations": kept})
    return renewed(codec.convert(type(current), merge_patch(codec.to_doc(current), dict(patch))))


@dataclass
class SchedulerLoop:
    """Works off the queue of a world's engine. It is the API for the plugins of its bindings."""

    _world: WorldState
    _engine: Engine
    _controllers: Controllers
    _kubelets: Kubelets
    attempts: int = 0
    """Number of attempts so far, which is the number of the next."""
    why: dict[str, str] = field(default_factory=dict)
    """By uid: why a waiting pod waits, from its last attempt."""
    _bindings: dict[str, SimulatedBinding] = field(default_factory=dict)
    """Waiting bindings by pod uid."""
    _waiting: Shelf[Key, str, None] = field(default_factory=Shelf)
    """By key of a claim or node: uids of the pods whose bindings look again when it changes."""

    @property
    def on_their_way(self) -> int:
        return len(self._bindings)

    def schedule(self, queued: QueuedPod) -> None:
        """One attempt for a popped pod, with its consequences."""
        engine = self._engine
        if queued.pod.metadata.is_terminating or queued.uid in engine.assumed:
            engine.done(queued.pod)
            return
        number = self.attempts
        self.attempts += 1
        attempt = engine.attempt(queued, explains=number in self._world.settings.explains)
        if attempt.exception is not None:
            raise attempt.exception
        self._world.watcher.decided(number, attempt)
        if attempt.placement is not None:
            self.why.pop(queued.uid, None)
            engine.done(queued.pod)
            binding = SimulatedBinding(queued, attempt.placement, _bound(attempt.placement, self))
            if attempt.waits:
                # Permit plugins let the pod wait. Nothing here allows it: after their timeout it counts as rejected.
                plugin, seconds = min(attempt.waits.items(), key=lambda item: item[1])
                told = f"rejected due to timeout after waiting {seconds:g}s"
                binding.status = Status(Code.UNSCHEDULABLE, (told,), plugin)
                self._world.agenda.after(seconds, lambda: self._failed(binding))
                return
            self._answered(binding, None)
        elif attempt.stage is AttemptStage.DECIDE:
            self._not_placed(queued, attempt)
        else:
            decision = attempt.decision
            self._came_back(queued, attempt.status, decision.node if decision is not None else "")

    # -- unschedulable pods -------------------------------------------------------------------------------------------

    def _not_placed(self, queued: QueuedPod, attempt: Attempt) -> None:
        diagnosis = attempt.decision.diagnosis if attempt.decision is not None else None
        self.why[queued.uid] = diagnosis.message() if diagnosis is not None else attempt.status.message
        if diagnosis is None:
            self._requeue(queued)
            return
        # Preemption reads the budgets' statuses, which a controller would maintain.
        budgets = self._world.all(small_groups.PodDisruptionBudget)
        pods = self._world.pods() if budgets else []
        for budget in budgets:
            self._world.put(with_true_status(budget, pods, self._world.find, self._world.clock.now()))
        outcome = self._engine.post_filter(attempt)
        plugins = diagnosis.rejecting_plugins()
        if outcome is None or outcome.plugin is None:
            self._requeue(queued, plugins)
        else:
            self._preempt(queued, outcome, plugins)

    def _requeue(self, queued: QueuedPod, plugins: Iterable[str] = (), nomination: str | None = None) -> bool:
        newest = self._world.get(core_v1.Pod, queued.info.key)
        return self._engine.requeue(queued, newest, plugins=plugins, nomination=nomination)

    def _preempt(self, queued: QueuedPod, outcome: PostFilterOutcome, plugins: Iterable[str]) -> None:
        """Delete the victims; the pod is nominated to their node, and waits until they are gone."""
        plugin, result, engine = outcome.plugin, outcome.result, self._engine
        if plugin is None:
            return
        victims = [pod for pod in result.victims if not pod.is_terminating]
        if victims:
            engine.preemption_begins(plugin, queued.info)
        if not self._requeue(queued, plugins, result.nominated_node or None):
            engine.preemption_ends(plugin, queued.info)
            return
        engine.make_way(result.nominated_node, below=queued.info.priority)

        def go() -> None:
            for victim in victims:
                self._controllers.replace(victim.pod, "preempted")
            engine.preemption_ends(plugin, queued.info, succeeded=True)

        self._world.agenda.after(PREEMPTED_AFTER_S if victims else 0.0, go)

    def _failed(self, binding: SimulatedBinding) -> None:
        self._engine.withdraw(binding.placement)
        self._came_back(binding.queued, binding.status, binding.placement.node)

    def _came_back(self, queued: QueuedPod, status: Status, node: str) -> None:
        self.why[queued.uid] = f"{node} failed it: {status.message}" if node else status.message
        self._world.watcher.failed(queued.info, node, status)
        self._engine.failed_on(queued, node, status.message)
        self._requeue(queued, (status.plugin,) if status.is_rejection and status.plugin else ())

    # -- bindings -----------------------------------------------------------------------------------------------------

    def look(self, about: Key) -> None:
        """A claim or a node changed: bindings that wait for it look again."""
        for uid in sorted(self._waiting.at(about)):
            self._look_at(uid)

    def look_at_figures(self, capacity: storage_v1.CSIStorageCapacity) -> None:
        """A capacity object changed: bindings to nodes that it reaches may wait for it."""
        if self._bindings:
            cluster = self._engine.cluster
            for row in cluster.index(CapacityIndex).rows_of(capacity.key).tolist():
                self.look(cluster.name(row))

    def look_after(self, pod: core_v1.Pod) -> None:
        """A pod is gone: forget why it waited, and let its binding look again."""
        self.why.pop(uid_of(pod), None)
        self._look_at(uid_of(pod))

    def _look_at(self, uid: str) -> None:
        binding = self._bindings.get(uid)
        answer = binding.wait.check() if binding is not None and binding.wait is not None else None
        if binding is not None and answer is not None:
            self._answered(binding, answer)

    def _answered(self, binding: SimulatedBinding, answer: Status | None) -> None:
        """Resume a binding with the answer to what it waits for; None starts it. Then it waits again, or is over."""
        binding.wait = None  # its own writes, while it runs, are no answer
        try:
            binding.wait = binding.work.send(answer)
            binding.number += 1
        except StopIteration as end:
            binding.status = end.value
        uid, wait = binding.queued.uid, binding.wait
        topics = (*binding.placement.pod.claim_keys, binding.placement.node)
        if wait is not None:
            number = binding.number
            self._bindings[uid] = binding
            for key in topics:
                self._waiting.put(key, uid, None)
            # An alarm must not keep the binding and its decision alive for ten minutes. A wait that is checked every
            # few seconds is no alarm: the clock ends it.
            is_alarm = wait.timeout_s > LOOK_EVERY_S
            self._world.agenda.after(wait.timeout_s, lambda: self._overdue(uid, number), is_alarm=is_alarm)
            return
        if self._bindings.pop(uid, None) is not None:
            for key in topics:
                self._waiting.take(key, uid)
        if binding.status.is_success:
            self._engine.binding_finished(binding.placement)
        else:
            self._failed(binding)

    def _overdue(self, uid: str, number: int) -> None:
        binding = self._bindings.get(uid)
        if binding is not None and binding.number == number:
            self._answered(binding, DEADLINE_EXCEEDED)

    # -- the plugins' API (`Api`) -------------------------------------------------------------------------------------

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Write the binding: the pod has its node, and its kubelet attaches its volumes."""
        found = self._world.get(core_v1.Pod, pod.key)
        if found is None or uid_of(found) != pod.uid:
            raise NotFound(f'pods "{pod.key}" not found')
        bound = renewed(found, spec={"node_name": node_name}, status={"nominated_node_name": ""})
        now = self._world.put(bound)
        self._world.agenda.after(0.0, lambda: self._kubelets.pod_came(now))

    async def patch(self, current: T, patch: Mapping[str, Any]) -> T:
        return self._world.put(patched(current, patch))

    async def settled(self, check: Callable[[], Status | None], timeout_s: float) -> Status:
        status = check()
        return status if status is not None else await BindingWait(check, timeout_s)

    def is_gone(self, pod: PodInfo) -> bool:
        return is_over(pod, self._world.get(core_v1.Pod, pod.key))

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        """Do nothing: nobody reads a simulation's Events."""
